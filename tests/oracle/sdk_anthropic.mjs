// The official Anthropic client (npm `@anthropic-ai/sdk`) against riptide. Prints `ok NAME` or
// `not ok NAME`.
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';
import { finish, startServer, test } from './sdk_server.mjs';
import { checkedFetch, counts } from './wire_schema.mjs';

const server = await startServer('--api-key', 'secret');
const client = new Anthropic({ apiKey: 'secret', baseURL: server.url, maxRetries: 0, timeout: 60000, fetch: checkedFetch });
const model = 'mini-dense';
const ask = (content) => [{ role: 'user', content }];
const sum = { model, max_tokens: 300, temperature: 0, messages: ask('What is 12 + 30?') };
const thinking = { type: 'enabled', budget_tokens: 1024 };
const tools = [
  { name: 'get_weather', description: 'Current weather of a city', properties: { city: { type: 'string' } } },
  { name: 'add', description: 'Add two numbers', properties: { a: { type: 'integer' }, b: { type: 'integer' } } },
].map(({ name, description, properties }) => ({
  name, description, input_schema: { type: 'object', properties, required: Object.keys(properties) },
}));
const addition = { model, max_tokens: 500, temperature: 0, tools, thinking, messages: ask('Use the tool to add 417 and 288.') };
const inputOf = ({ usage }) => usage.input_tokens + usage.cache_read_input_tokens;
const textOf = (message) => message.content.filter((b) => b.type === 'text').map((b) => b.text).join('');

await test('message', async () => {
  const { data, request_id } = await client.messages.create(sum).withResponse();
  assert.match(request_id, /^req_/);
  assert.match(data.id, /^msg_/);
  assert.equal(data.type, 'message');
  assert.equal(data.role, 'assistant');
  assert.equal(data.model, model);
  assert.equal(data.stop_reason, 'end_turn');
  assert.equal(data.stop_sequence, null);
  assert.deepEqual(data.content.map((b) => b.type), ['text']); // thinking is off unless asked for
  assert.match(textOf(data), /^The answer is \d+/); // without thinking the small model adds badly
  assert.ok(data.usage.input_tokens > 5 && data.usage.output_tokens > 2);
});

await test('thinking', async () => {
  const whole = await client.messages.create({ ...sum, thinking });
  assert.deepEqual(whole.content.map((b) => b.type), ['thinking', 'text']);
  assert.ok(whole.content[0].thinking.length > 0 && whole.content[0].signature.length > 0);
  assert.ok(whole.usage.output_tokens_details.thinking_tokens > 0);
  const adaptive = await client.messages.create({ ...sum, thinking: { type: 'adaptive' }, output_config: { effort: 'high' } });
  assert.deepEqual(adaptive.content.map((b) => b.type), ['thinking', 'text']);
  const off = await client.messages.create({ ...sum, thinking: { type: 'disabled' } });
  assert.deepEqual(off.content.map((b) => b.type), ['text']);
});

// A thought that is not shown comes back with its block, and stands in the prompt as if it were.
await test('omitted_thinking_survives', async () => {
  const follow = (answer) => client.messages.countTokens({ model, tools, thinking,
    messages: [...addition.messages, { role: 'assistant', content: answer.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: answer.content.at(-1).id, content: '705' }] }] });
  const seen = await client.messages.create(addition);
  const hidden = await client.messages.create({ ...addition, thinking: { ...thinking, display: 'omitted' } });
  assert.ok(seen.content[0].thinking.length > 0);
  assert.equal(hidden.content[0].thinking, '');
  assert.deepEqual(hidden.content[1].input, seen.content[1].input);
  assert.equal((await follow(hidden)).input_tokens, (await follow(seen)).input_tokens);
  const without = { ...seen, content: seen.content.slice(1) };
  assert.ok((await follow(without)).input_tokens < (await follow(seen)).input_tokens);
});

await test('stream_events', async () => {
  const stream = await client.messages.create({ ...addition, stream: true });
  const kinds = [];
  let open = -1, next = 0, json = '', last;
  for await (const event of stream) {
    kinds.push(event.type);
    if (event.type === 'message_start') {
      assert.deepEqual(event.message.content, []);
      assert.equal(event.message.stop_reason, null);
      assert.ok(event.message.usage.input_tokens > 5);
    }
    if (event.type === 'content_block_start') {
      assert.equal(open, -1);
      assert.equal(event.index, next++);
      open = event.index;
    }
    if (event.type === 'content_block_delta') {
      assert.equal(event.index, open);
      if (event.delta.type === 'input_json_delta') json += event.delta.partial_json;
    }
    if (event.type === 'content_block_stop') {
      assert.equal(event.index, open);
      open = -1;
    }
    if (event.type === 'message_delta') last = event;
  }
  assert.equal(kinds[0], 'message_start');
  assert.equal(kinds.at(-2), 'message_delta');
  assert.equal(kinds.at(-1), 'message_stop');
  assert.equal(kinds.filter((k) => k === 'message_delta').length, 1);
  assert.equal(last.delta.stop_reason, 'tool_use');
  assert.ok(last.usage.output_tokens > 0);
  assert.deepEqual(JSON.parse(json), { a: 417, b: 288 });
});

// The client's own accumulator insists on the order of events and the fields.
await test('stream_equals_whole', async () => {
  for (const body of [sum, { ...sum, thinking }, addition, { ...sum, stop_sequences: ['4'] }]) {
    const whole = await client.messages.create(body);
    const final = await client.messages.stream(body).finalMessage();
    const shape = (message) => {
      const { content, stop_reason, stop_sequence, usage } = message;
      return { stop_reason, stop_sequence, input: inputOf(message), output: usage.output_tokens,
      content: content.map((b) => (b.type === 'tool_use' ? { ...b, id: '' } : b)) };
    };
    assert.deepEqual(shape(final), shape(whole));
  }
});

await test('tool_round_trip', async () => {
  const first = await client.messages.create(addition);
  assert.equal(first.stop_reason, 'tool_use');
  const call = first.content.find((b) => b.type === 'tool_use');
  assert.match(call.id, /^toolu_/);
  assert.equal(call.name, 'add');
  assert.deepEqual(call.input, { a: 417, b: 288 });
  const second = await client.messages.create({
    ...addition,
    thinking: { type: 'disabled' },
    messages: [...addition.messages, { role: 'assistant', content: first.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id,
        content: [{ type: 'text', text: String(call.input.a + call.input.b) }] }] }],
  });
  assert.equal(second.stop_reason, 'end_turn');
  assert.match(textOf(second), /705/);
});

// beta.messages asks with ?beta=true and runs the tools itself.
await test('beta_tool_runner', async () => {
  const called = [];
  const message = await client.beta.messages.toolRunner({
    model,
    max_tokens: 300,
    temperature: 0,
    messages: ask('What is the weather in Turin?'),
    tools: [{ type: 'custom', ...tools[0], parse: (input) => input, run: ({ city }) => {
      called.push(city);
      return '{"sky": "rainy", "celsius": 11}';
    } }],
  });
  assert.deepEqual(called, ['Turin']);
  assert.match(textOf(message), /rain/i);
});

await test('count_tokens', async () => {
  const body = { model, tools, thinking, system: [{ type: 'text', text: 'You are brief.', cache_control: { type: 'ephemeral' } }],
    messages: ask('What is 12 + 30?') };
  const { input_tokens } = await client.messages.countTokens(body);
  const answer = await client.messages.create({ ...body, max_tokens: 5 });
  assert.equal(inputOf(answer), input_tokens);
  assert.equal(answer.stop_reason, 'max_tokens');
  const bare = await client.messages.countTokens({ model, messages: ask('What is 12 + 30?') });
  assert.ok(bare.input_tokens < input_tokens);
  const long = await client.messages.countTokens({ model, messages: ask('lantern '.repeat(9000)) });
  assert.ok(long.input_tokens > 9000); // more than the context, and still counted
});

await test('a_long_prompt_is_read_from_the_cache', async () => {
  const body = { ...sum, max_tokens: 2, system: 'lantern '.repeat(300) };
  const first = await client.messages.create(body);
  const again = await client.messages.stream(body).finalMessage();
  assert.equal(first.usage.cache_read_input_tokens, 0);
  assert.ok(again.usage.cache_read_input_tokens >= 256);
  assert.equal(inputOf(again), inputOf(first));
});

// One client puts another checksum there on every turn.
await test('the_billing_block_is_no_part_of_the_prompt', async () => {
  const count = async (system) => (await client.messages.countTokens({ ...sum, max_tokens: undefined, temperature: undefined, system })).input_tokens;
  const blocks = (n) => [{ type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.${n}; cch=${'f'.repeat(n)};` },
    { type: 'text', text: 'You are brief.' }];
  assert.equal(await count(blocks(5)), await count('You are brief.'));
  assert.equal(await count(blocks(5)), await count(blocks(900)));
});

await test('warm_up', async () => {
  const message = await client.messages.create({ ...sum, max_tokens: 0 });
  assert.deepEqual(message.content, []);
  assert.equal(message.usage.output_tokens, 0);
  assert.equal(message.stop_reason, 'max_tokens');
});

await test('the_assistants_words_at_the_end_are_gone_on_with', async () => {
  const whole = textOf(await client.messages.create(sum)), cut = whole.indexOf(' ', 4);
  const body = { ...sum, messages: [...sum.messages, { role: 'assistant', content: whole.slice(0, cut) }] };
  assert.equal(textOf(await client.messages.create(body)), whole.slice(cut));
  assert.equal(textOf(await client.messages.stream(body).finalMessage()), whole.slice(cut));
  const refused = (change) => assert.rejects(client.messages.create({ ...body, ...change }), Anthropic.BadRequestError);
  await refused({ thinking });
  await refused({ messages: [...sum.messages, { role: 'assistant', content: 'The ' }] });
});

await test('later_system_message', async () => {
  const message = await client.messages.create({ ...sum, messages: [...ask('Hello.'),
    { role: 'assistant', content: 'Hello.' }, { role: 'system', content: 'Be brief.' }, ...sum.messages] });
  assert.equal(message.role, 'assistant');
});

await test('aborted_stream', async () => {
  const endless = { model, max_tokens: 3000, ignore_eos: true, messages: ask('Tell a story of 9 days about Juno in Lima.') };
  const stream = client.messages.stream(endless);
  let n = 0;
  await assert.rejects(async () => {
    for await (const event of stream) {
      assert.ok(event);
      if (++n === 4) stream.abort();
    }
    await stream.finalMessage();
  }, Anthropic.APIUserAbortError);
  assert.match(textOf(await client.messages.create({ ...sum, thinking })), /42/);
});

await test('errors', async () => {
  const type = (want) => (e) => e.error?.type === 'error' && e.error.error.type === want && /^req_/.test(e.requestID);
  const wrong = new Anthropic({ apiKey: 'wrong', baseURL: server.url, maxRetries: 0 });
  await assert.rejects(wrong.messages.create(sum), (e) => e instanceof Anthropic.AuthenticationError && type('authentication_error')(e));
  await assert.rejects(client.messages.create({ ...sum, model: 'claude-9' }),
    (e) => e instanceof Anthropic.NotFoundError && type('not_found_error')(e));
  await assert.rejects(client.messages.create({ ...sum, max_tokens: undefined }),
    (e) => e instanceof Anthropic.BadRequestError && type('invalid_request_error')(e) && /max_tokens/.test(e.message));
  await assert.rejects(client.messages.create({ ...sum, messages: ask('lantern '.repeat(9000)) }),
    (e) => e instanceof Anthropic.BadRequestError && /prompt is too long: \d+ tokens > 4096 maximum/.test(e.message));
  await assert.rejects(client.messages.create({ ...sum, messages: ask([{ type: 'image',
    source: { type: 'base64', media_type: 'image/png', data: 'AA==' } }]) }),
  (e) => e instanceof Anthropic.BadRequestError && /messages\/0\/content\/0/.test(e.message));
});

// The checks of wire_schema.mjs ran on every answer above; here that they did.
await test('all_answers_were_checked', async () => {
  for (const name of ['Message', 'MessageStreamEvent', 'MessageTokensCount']) assert.ok(counts[name] > 1, `${name}: ${counts[name]}`);
});

await test('stops_with_0', async () => {
  assert.equal(await server.stop(), 0);
});
finish();
