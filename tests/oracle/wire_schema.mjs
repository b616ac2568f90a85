// Checks what goes over the wire against the types of the official clients: JSON Schemas are made
// from the TypeScript of the pinned packages (openai, @anthropic-ai/sdk) and judged by ajv.
// Made once for a set of versions, then read from node_modules/.cache.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import Ajv from 'ajv';
import { createParser } from 'eventsource-parser';
import { createGenerator } from 'ts-json-schema-generator';

const folder = import.meta.dirname;
const types = {
  ChatCompletion: 'OpenAI.Chat.Completions.ChatCompletion',
  ChatCompletionChunk: 'OpenAI.Chat.Completions.ChatCompletionChunk',
  ChatRequest: 'OpenAI.Chat.Completions.ChatCompletionCreateParams',
  Completion: 'OpenAI.Completions.Completion',
  Response: 'OpenAI.Responses.Response',
  ResponseItemList: 'OpenAI.Responses.ResponseItemList',
  ResponseStreamEvent: 'OpenAI.Responses.ResponseStreamEvent',
  Model: 'OpenAI.Models.Model',
  Message: 'Anthropic.Messages.Message',
  MessageStreamEvent: 'Anthropic.Messages.RawMessageStreamEvent',
  MessageTokensCount: 'Anthropic.Messages.MessageTokensCount',
};

function generate(at) {
  // Each alias has a name of its own: two packages define types of the same name.
  const source = path.join(at, 'types.ts');
  fs.mkdirSync(at, { recursive: true });
  fs.writeFileSync(source, `import OpenAI from 'openai';\nimport Anthropic from '@anthropic-ai/sdk';\n${
    Object.entries(types).map(([name, type]) => `export type Wire${name} = ${type};\n`).join('')}`);
  fs.writeFileSync(path.join(at, 'tsconfig.json'), JSON.stringify({ compilerOptions: {
    module: 'nodenext', moduleResolution: 'nodenext', strict: true, skipLibCheck: true, types: [] }, files: ['types.ts'] }));
  const generator = createGenerator({ path: source, tsconfig: path.join(at, 'tsconfig.json'), type: '*',
    skipTypeCheck: true, topRef: true, expose: 'export', additionalProperties: true });
  return Object.fromEntries(Object.keys(types).map((name) => [name, generator.createSchema(`Wire${name}`)]));
}

function readSchemas() {
  const version = (name) => JSON.parse(fs.readFileSync(path.join(folder, 'node_modules', name, 'package.json'))).version;
  const versions = ['openai', '@anthropic-ai/sdk', 'ts-json-schema-generator'].map(version);
  const key = createHash('sha256').update(JSON.stringify([versions, types])).digest('hex').slice(0, 16);
  const at = path.join(folder, 'node_modules', '.cache', 'wire', key), file = path.join(at, 'schemas.json');
  if (!fs.existsSync(file)) {
    const part = `${file}.${process.pid}`;
    fs.writeFileSync(part, JSON.stringify(generate(at)));
    fs.renameSync(part, file);
  }
  // `output_text` is put together by the client; it is never sent.
  return JSON.parse(fs.readFileSync(file), (key, v) => (key === 'required' && Array.isArray(v)
    ? v.filter((name) => name !== 'output_text') : v));
}

const ajv = new Ajv({ strict: false, allErrors: true, verbose: false });
const validators = Object.fromEntries(Object.entries(readSchemas()).map(([name, schema]) => [name, ajv.compile(schema)]));

export const counts = {}; // values checked, by type

export function check(name, value) {
  counts[name] = (counts[name] ?? 0) + 1;
  const validate = validators[name];
  if (validate(value)) return;
  // A union reports every member; the deepest complaint is about the one that was meant.
  const worst = validate.errors.sort((a, b) => b.instancePath.length - a.instancePath.length).slice(0, 6);
  assert.fail(`no ${name}: ${worst.map((e) => `${e.instancePath} ${e.message} ${JSON.stringify(e.params)}`).join('; ')}\n${
    JSON.stringify(value).slice(0, 2000)}`);
}

// --- the order of events ------------------------------------------------------------------------

class ChatStream {
  choices = new Map();
  take({ event, data }) {
    assert.equal(event, undefined, 'chunks have no event name');
    assert.ok(!this.isDone, 'an event behind [DONE]');
    if (data === '[DONE]') {
      this.isDone = true;
      return;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) {
      this.hasFailed = true;
      return;
    }
    check('ChatCompletionChunk', chunk);
    this.id ??= chunk.id;
    assert.equal(chunk.id, this.id, 'one id in a stream');
    if (chunk.choices.length === 0) {
      assert.ok(chunk.usage && !this.hasUsage, 'a chunk without choices has the usage, once');
      this.hasUsage = true;
    }
    for (const { index, delta, finish_reason: reason } of chunk.choices) {
      const known = this.choices.get(index);
      assert.ok(!known?.reason, 'a delta behind the finish reason');
      if (!known) assert.equal(delta.role, 'assistant', 'the first delta has the role');
      const seen = known ?? { calls: [] };
      for (const call of delta.tool_calls ?? []) {
        if (call.index === seen.calls.length) {
          assert.ok(call.id && call.function.name, 'a call begins with its id and name');
          seen.calls.push('');
        }
        assert.equal(call.index, seen.calls.length - 1, 'calls come one after the other');
        seen.calls[call.index] += call.function?.arguments ?? '';
      }
      seen.reason = reason;
      this.choices.set(index, seen);
    }
  }
  end() {
    assert.ok(this.isDone, 'the stream ends with [DONE]');
    if (this.hasFailed) return;
    for (const { reason, calls } of this.choices.values()) {
      assert.ok(reason, 'every choice has a finish reason');
      for (const text of calls) JSON.parse(text); // arguments are valid also when cut
    }
  }
}

class CompletionStream {
  take({ data }) {
    assert.ok(!this.isDone, 'an event behind [DONE]');
    if (data === '[DONE]') {
      this.isDone = true;
      return;
    }
    const chunk = JSON.parse(data);
    if (chunk.error) return;
    // The types know no chunk of its own, and so no reason that is still open.
    for (const choice of chunk.choices) if (choice.finish_reason === null) choice.finish_reason = 'stop';
    check('Completion', chunk);
  }
  end() {
    assert.ok(this.isDone, 'the stream ends with [DONE]');
  }
}

class MessageStream {
  next = 0;
  open = -1;
  json = '';
  take({ event, data }) {
    const value = JSON.parse(data), { type } = value;
    assert.equal(event, type, 'the name of an event is its type');
    assert.ok(!this.isOver, `${type} behind the end`);
    if (type === 'ping') return;
    if (type === 'error') {
      assert.ok(value.error.type && value.error.message);
      this.isOver = true;
      return;
    }
    check('MessageStreamEvent', value);
    assert.equal(type === 'message_start', !this.hasBegun, 'message_start is first, and once');
    this.hasBegun = true;
    if (type === 'content_block_start') {
      assert.deepEqual([value.index, this.open], [this.next++, -1], 'blocks come one after the other');
      this.open = value.index;
      this.kind = value.content_block.type;
      this.json = '';
    } else if (type === 'content_block_delta') {
      assert.equal(value.index, this.open, 'a delta belongs to the open block');
      const want = { text: ['text_delta'], thinking: ['thinking_delta', 'signature_delta'], tool_use: ['input_json_delta'] };
      assert.ok(want[this.kind].includes(value.delta.type), `${value.delta.type} in a block of ${this.kind}`);
      this.json += value.delta.partial_json ?? '';
    } else if (type === 'content_block_stop') {
      assert.equal(value.index, this.open, 'the open block ends');
      if (this.kind === 'tool_use' && this.json) JSON.parse(this.json);
      this.open = -1;
    } else if (type === 'message_delta') {
      assert.ok(this.open === -1 && !this.hasDelta && value.delta.stop_reason, 'one message_delta, behind all blocks');
      this.hasDelta = true;
    } else if (type === 'message_stop') {
      assert.ok(this.hasDelta, 'message_stop behind message_delta');
      this.isOver = true;
    }
  }
  end() {
    assert.ok(this.isOver, 'the stream ends with message_stop or an error');
  }
}

class ResponseStream {
  n = 0;
  items = [];
  open = null;
  take({ event, data }) {
    const value = JSON.parse(data), { type } = value;
    assert.equal(event, type, 'the name of an event is its type');
    check('ResponseStreamEvent', value);
    assert.equal(value.sequence_number, this.n, 'events are numbered from 0 on');
    assert.ok(!this.isOver, `${type} behind the end`);
    if (this.n < 2) assert.equal(type, ['response.created', 'response.in_progress'][this.n]);
    this.n++;
    if (type === 'response.output_item.added') {
      assert.ok(!this.open && value.output_index === this.items.length, 'items come one after the other');
      this.open = { id: value.item.id, text: '' };
    } else if (type === 'response.output_item.done') {
      assert.equal(value.item.id, this.open.id);
      this.items.push(value.item);
      this.open = null;
    } else if (value.item_id) {
      assert.equal(value.item_id, this.open?.id, `${type} belongs to the open item`);
      if (type.endsWith('.delta')) this.open.text += value.delta;
      const whole = value.arguments ?? value.input ?? (type.endsWith('text.done') ? value.text : undefined);
      if (type.endsWith('.done') && whole !== undefined) assert.equal(whole, this.open.text, 'the deltas make up the whole');
    } else if (/^response\.(completed|incomplete|failed)$/.test(type)) {
      this.isOver = true;
      assert.equal(value.response.status, type.slice('response.'.length));
      if (type !== 'response.failed') assert.deepEqual(value.response.output, this.items, 'the items are the output');
    }
  }
  end() {
    assert.ok(this.isOver && !this.open, 'the stream ends with the response');
  }
}

// --- by path ------------------------------------------------------------------------------------

const replies = { '/v1/chat/completions': 'ChatCompletion', '/v1/completions': 'Completion', '/v1/responses': 'Response',
  '/v1/messages': 'Message', '/v1/messages/count_tokens': 'MessageTokensCount' };
const streams = { '/v1/chat/completions': ChatStream, '/v1/completions': CompletionStream, '/v1/responses': ResponseStream,
  '/v1/messages': MessageStream };

export function checkError(at, code, value) {
  if (at.startsWith('/v1/messages')) {
    assert.deepEqual(Object.keys(value).sort().filter((k) => k !== 'request_id'), ['error', 'type']);
    assert.equal(value.type, 'error');
    assert.ok(typeof value.error.type === 'string' && value.error.message.length > 0);
  } else {
    const { message, type, code: name } = value.error;
    assert.ok(message.length > 0 && typeof name === 'string');
    assert.equal(type, code >= 500 ? 'server_error' : 'invalid_request_error');
  }
}

// A whole answer: path, status, text.
export function checkReply(at, code, text) {
  const value = JSON.parse(text);
  if (code >= 400) checkError(at, code, value);
  else if (at === '/v1/models') value.data.forEach((one) => check('Model', one));
  else if (at.startsWith('/v1/models/')) check('Model', value);
  else if (/^\/v1\/responses\/.*\/input_items/.test(at)) check('ResponseItemList', value);
  else if (at.startsWith('/v1/responses/') && !value.deleted) check('Response', value);
  else if (replies[at]) check(replies[at], value);
}

// Fed the text of a stream as it comes: feed(text), end(). Comments are counted.
export class StreamCheck {
  constructor(at) {
    this.order = new streams[at]();
    this.events = this.comments = 0;
    this.parser = createParser({
      onEvent: (event) => {
        this.events++;
        this.order.take(event);
      },
      onComment: () => this.comments++,
      onError: (error) => assert.fail(`not an event stream: ${error.message}`),
    });
  }
  feed(text) {
    this.parser.feed(text);
  }
  end() {
    this.parser.reset({ consume: true });
    this.order.end();
  }
}

// A fetch for the clients that checks all that passes, and fails the request when it is wrong.
export async function checkedFetch(url, options) {
  const reply = await fetch(url, options);
  const at = new URL(url).pathname;
  if (!(reply.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
    const text = await reply.text();
    if (text) checkReply(at, reply.status, text);
    return new Response(text || null, { status: reply.status, headers: reply.headers });
  }
  const seen = new StreamCheck(at), decoder = new TextDecoder('utf-8', { fatal: true });
  const body = reply.body.pipeThrough(new TransformStream({
    transform(bytes, out) {
      seen.feed(decoder.decode(bytes, { stream: true }));
      out.enqueue(bytes);
    },
    flush() {
      seen.feed(decoder.decode());
      seen.end();
    },
  }));
  return new Response(body, { status: reply.status, headers: reply.headers });
}
