// An agent: it reads a file with a syntax error, writes it mended, checks it, and says so. The model
// decides, the tools are real, and Python judges what is left. Once over each protocol, with the
// official clients. Prints `ok NAME` or `not ok NAME`.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { finish, startServer, test } from './sdk_server.mjs';
import { checkedFetch } from './wire_schema.mjs';

const server = await startServer();
const options = { apiKey: 'x', maxRetries: 0, timeout: 120000, fetch: checkedFetch };
const openai = new OpenAI({ ...options, baseURL: `${server.url}/v1` });
const anthropic = new Anthropic({ ...options, baseURL: server.url });
const model = 'mini-dense';

const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'riptide-agent-'));
process.on('exit', () => fs.rmSync(folder, { recursive: true, force: true }));
const inside = (name) => path.join(folder, path.basename(String(name)));
const compile = (file) => spawnSync('python3', ['-m', 'py_compile', file], { encoding: 'utf8' });

const tools = {
  read_file: { description: 'Read a file', fields: { path: 'string' }, run: ({ path: p }) => fs.readFileSync(inside(p), 'utf8') },
  write_file: { description: 'Write a file', fields: { path: 'string', content: 'string' }, run: ({ path: p, content }) => {
    fs.writeFileSync(inside(p), content);
    return `wrote ${content.length} bytes`;
  } },
  run_shell: { description: 'Run a shell command', fields: { command: 'string' }, run: ({ command }) => {
    const found = /^python3 -m py_compile (\w+\.py)$/.exec(command); // nothing else is run
    return found ? compile(inside(found[1])).stderr : `not found: ${command}`;
  } },
};
const schema = ({ fields }) => ({ type: 'object', properties: Object.fromEntries(Object.entries(fields).map(([k, type]) => [k, { type }])),
  required: Object.keys(fields) });
const list = Object.entries(tools).map(([name, t]) => ({ name, description: t.description, parameters: schema(t) }));
function use(name, input) {
  try {
    return tools[name].run(input);
  } catch (error) {
    return String(error);
  }
}

// One model call each: { calls: [{ id, name, input }], text, cached, prompt }. `state` is the client's history.
const protocols = {
  async chat(state, results) {
    state.messages ??= [{ role: 'user', content: state.task }];
    for (const { id, output } of results) state.messages.push({ role: 'tool', tool_call_id: id, content: output });
    const stream = openai.chat.completions.stream({ model, temperature: 0, max_tokens: 200, stream_options: { include_usage: true }, messages: state.messages,
      tools: list.map((f) => ({ type: 'function', function: f })) });
    // The client joins the fields that it knows; of reasoning it would keep the last piece.
    let reasoning = '';
    stream.on('chunk', (chunk) => (reasoning += chunk.choices[0]?.delta.reasoning_content ?? ''));
    const { choices: [{ message }], usage } = await stream.finalChatCompletion();
    message.reasoning_content = reasoning;
    state.messages.push(message);
    return { text: message.content, cached: usage.prompt_tokens_details.cached_tokens, prompt: usage.prompt_tokens,
      calls: (message.tool_calls ?? []).map((c) => ({ id: c.id, name: c.function.name, input: JSON.parse(c.function.arguments) })) };
  },
  async messages(state, results) {
    state.messages ??= [{ role: 'user', content: state.task }];
    if (results.length) {
      state.messages.push({ role: 'user', content: results.map(({ id, output }) => ({ type: 'tool_result', tool_use_id: id, content: output })) });
    }
    const { content, usage } = await anthropic.messages.stream({ model, max_tokens: 200, temperature: 0, messages: state.messages,
      thinking: { type: 'enabled', budget_tokens: 1024 },
      tools: list.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters })) }).finalMessage();
    state.messages.push({ role: 'assistant', content });
    return { text: content.filter((b) => b.type === 'text').map((b) => b.text).join(''), cached: usage.cache_read_input_tokens,
      prompt: usage.input_tokens + usage.cache_read_input_tokens,
      calls: content.filter((b) => b.type === 'tool_use') };
  },
  async responses(state, results) {
    const input = results.length ? results.map(({ id, output }) => ({ type: 'function_call_output', call_id: id, output })) : state.task;
    const one = await openai.responses.stream({ model, temperature: 0, max_output_tokens: 200, input, previous_response_id: state.last,
      tools: list.map((f) => ({ type: 'function', strict: false, ...f })) }).finalResponse();
    state.last = one.id;
    return { text: one.output_text, cached: one.usage.input_tokens_details.cached_tokens, prompt: one.usage.input_tokens,
      calls: one.output.filter((i) => i.type === 'function_call').map((c) => ({ id: c.call_id, name: c.name, input: JSON.parse(c.arguments) })) };
  },
};

// Until it calls no more. Returns the turns.
async function mend(step, file) {
  const state = { task: `The file ${file} has a syntax error. Fix it.` }, turns = [];
  for (let results = []; turns.length < 8;) {
    const turn = await step(state, results);
    turns.push(turn);
    if (turn.calls.length === 0) return turns;
    results = turn.calls.map(({ id, name, input }) => ({ id, output: use(name, input) }));
  }
  return turns;
}

const files = {
  'squares.py': 'def squares(values):\n    retrun [x * x for x in values]\n',
  'total.py': 'def total(values)\n    result = 0\n    for item in values:\n        result += item\n    return result\n',
  'gcd.py': 'def gcd(values, x)\n    while x:\n        values, x = x, values % x\n    return values\n',
};

for (const [name, step] of Object.entries(protocols)) {
  await test(`${name}_mends_files`, async () => {
    let n = 0;
    for (const [file, broken] of Object.entries(files)) {
      fs.writeFileSync(inside(file), broken);
      assert.notEqual(compile(inside(file)).status, 0);
      const turns = await mend(step, file);
      const isMended = compile(inside(file)).status === 0;
      console.log(`${name} ${file}: ${turns.map((t) => `${t.calls.map((c) => c.name).join('+') || 'said'} (${t.cached}/${t.prompt})`).join(', ')}: ${
        isMended ? 'mended' : 'broken'}, ${JSON.stringify(turns.at(-1).text)}`);
      n += isMended && turns.at(-1).calls.length === 0; // … and nothing more is called
      // A session only grows: what was read or written before, but for a last, unfinished block, is there.
      turns.slice(1).forEach((t, i) => assert.ok(t.cached >= turns[i].prompt - 64, `${t.cached} of ${turns[i].prompt}`));
    }
    // The model is tiny: it may fail at one. What it writes is the same on every run of one machine.
    assert.ok(n >= Object.keys(files).length - 1, `${n} files were mended`);
  });
}

await test('stops_with_0', async () => {
  assert.equal(await server.stop(), 0);
});
finish();
