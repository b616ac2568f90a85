// The official OpenAI client (npm `openai`) against riptide. Prints `ok NAME` or `not ok NAME`.
import assert from 'node:assert/strict';
import OpenAI from 'openai';
import { finish, startServer, test } from './sdk_server.mjs';
import { checkedFetch, counts } from './wire_schema.mjs';

const server = await startServer('--api-key', 'secret');
const client = new OpenAI({ apiKey: 'secret', baseURL: `${server.url}/v1`, maxRetries: 0, timeout: 60000, fetch: checkedFetch });
const model = 'mini-dense';
const ask = (content) => [{ role: 'user', content }];
const sum = { model, temperature: 0, messages: ask('What is 12 + 30?') };
const plain = { chat_template_kwargs: { enable_thinking: false } };
const tools = [
  { name: 'get_weather', description: 'Current weather of a city', properties: { city: { type: 'string' } } },
  { name: 'add', description: 'Add two numbers', properties: { a: { type: 'integer' }, b: { type: 'integer' } } },
].map(({ name, description, properties }) => ({
  type: 'function',
  function: { name, description, parameters: { type: 'object', properties, required: Object.keys(properties) } },
}));
const addition = { model, temperature: 0, tools, messages: ask('Use the tool to add 417 and 288.') };

await test('models', async () => {
  const list = await client.models.list();
  assert.equal(list.data[0].id, model);
  const one = await client.models.retrieve(model);
  assert.equal(one.object, 'model');
  assert.equal(one.context_length, 4096);
  await assert.rejects(client.models.retrieve('gpt-9'), OpenAI.NotFoundError);
});

await test('chat', async () => {
  const { data, request_id } = await client.chat.completions.create(sum).withResponse();
  const [choice] = data.choices;
  assert.match(request_id, /^req_/);
  assert.equal(data._request_id, request_id);
  assert.match(choice.message.content, /42/);
  assert.ok(choice.message.reasoning_content.length > 0);
  assert.equal(choice.finish_reason, 'stop');
  assert.equal(data.usage.total_tokens, data.usage.prompt_tokens + data.usage.completion_tokens);
  assert.ok(data.usage.completion_tokens_details.reasoning_tokens > 0);
});

await test('stream', async () => {
  const whole = await client.chat.completions.create(sum);
  const stream = await client.chat.completions.create(
    { ...sum, stream: true, stream_options: { include_usage: true } });
  let content = '', reasoning = '', usage, reason, first;
  for await (const chunk of stream) {
    assert.equal(chunk.object, 'chat.completion.chunk');
    usage = chunk.usage ?? usage;
    const [choice] = chunk.choices;
    if (!choice) continue;
    first ??= choice.delta;
    content += choice.delta.content ?? '';
    reasoning += choice.delta.reasoning_content ?? '';
    reason = choice.finish_reason ?? reason;
  }
  assert.equal(first.role, 'assistant');
  assert.equal(content, whole.choices[0].message.content);
  assert.equal(reasoning, whole.choices[0].message.reasoning_content);
  assert.equal(reason, 'stop');
  assert.deepEqual(usage, whole.usage);
});

// The client's own accumulator insists on the order and the fields of chunks.
await test('stream_helper', async () => {
  const stream = client.chat.completions.stream({ ...addition, stream_options: { include_usage: true } });
  let deltas = 0;
  stream.on('tool_calls.function.arguments.delta', () => deltas++);
  const final = await stream.finalChatCompletion();
  const [call] = final.choices[0].message.tool_calls;
  assert.equal(final.choices[0].finish_reason, 'tool_calls');
  assert.match(call.id, /^call_/);
  assert.equal(call.function.name, 'add');
  assert.deepEqual(JSON.parse(call.function.arguments), { a: 417, b: 288 });
  assert.ok(deltas > 0);
  const whole = await client.chat.completions.create(addition);
  assert.equal(whole.choices[0].message.tool_calls[0].function.arguments, call.function.arguments);
});

await test('tool_round_trip', async () => {
  const first = await client.chat.completions.create(addition);
  const { message } = first.choices[0];
  const { a, b } = JSON.parse(message.tool_calls[0].function.arguments);
  const second = await client.chat.completions.create({
    ...addition,
    ...plain,
    messages: [...addition.messages, message,
      { role: 'tool', tool_call_id: message.tool_calls[0].id, content: String(a + b) }],
  });
  assert.match(second.choices[0].message.content, /705/);
  assert.equal(second.choices[0].finish_reason, 'stop');
});

await test('run_tools', async () => {
  const called = [];
  const runner = client.chat.completions.runTools({
    model,
    temperature: 0,
    ...plain,
    messages: ask('What is the weather in Turin?'),
    tools: [{
      type: 'function',
      function: {
        ...tools[0].function,
        parse: JSON.parse,
        function: ({ city }) => {
          called.push(city);
          return '{"sky": "rainy", "celsius": 11}';
        },
      },
    }],
  });
  const content = await runner.finalContent();
  assert.deepEqual(called, ['Turin']);
  assert.match(content, /rain/i);
});

await test('choices_and_logprobs', async () => {
  const body = { model, ...plain, n: 3, seed: 7, temperature: 1, max_tokens: 20, logprobs: true, top_logprobs: 2,
    messages: ask('Tell a story of 4 days about Theo in Warsaw.') };
  const one = await client.chat.completions.create(body);
  assert.equal(one.choices.length, 3);
  for (const { logprobs } of one.choices) {
    for (const token of logprobs.content) {
      assert.ok(token.logprob <= 0);
      assert.equal(token.top_logprobs.length, 2);
    }
  }
  const again = await client.chat.completions.create(body);
  assert.deepEqual(again.choices, one.choices);
  assert.equal(new Set(one.choices.map((c) => c.message.content)).size, 3);
});

await test('completions', async () => {
  const body = { model, prompt: '<|im_start|>user\nWhat is 12 + 30?<|im_end|>\n<|im_start|>assistant\n<think>\n', temperature: 0, max_tokens: 200 };
  const whole = await client.completions.create(body);
  assert.equal(whole.object, 'text_completion');
  assert.match(whole.choices[0].text, /<\/think>[^]*42/);
  assert.equal(whole.choices[0].finish_reason, 'stop');
  const stream = await client.completions.create({ ...body, stream: true, stream_options: { include_usage: true } });
  let text = '', usage;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.text ?? '';
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].text);
  assert.deepEqual(usage, whole.usage);
});

// Of each token what it is, how probable, and where in the text; the stream has the same, piece by piece.
await test('completion_logprobs', async () => {
  const prompt = '<|im_start|>user\nTell a story of 4 days about Theo in Warsaw.<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n';
  const body = { model, prompt, temperature: 0, max_tokens: 24, logprobs: 3 };
  const { choices: [{ text, logprobs }] } = await client.completions.create(body);
  const { tokens, token_logprobs: scores, top_logprobs: tops, text_offset: offsets } = logprobs;
  assert.equal(tokens.join(''), text);
  assert.ok(tokens.length > 3 && [scores, tops, offsets].every((list) => list.length === tokens.length));
  tokens.forEach((token, i) => {
    assert.equal(text.slice(offsets[i], offsets[i] + token.length), token);
    assert.equal(tops[i][token], scores[i]);
    assert.equal(Math.max(...Object.values(tops[i])), scores[i]); // at temperature 0
    assert.equal(Object.keys(tops[i]).length, 3);
  });
  const joined = { tokens: [], token_logprobs: [], top_logprobs: [], text_offset: [] };
  for await (const { choices: [choice] } of await client.completions.create({ ...body, stream: true })) {
    for (const key of Object.keys(joined)) joined[key].push(...choice.logprobs[key]);
  }
  assert.deepEqual(joined, logprobs);
  // What a stop string cuts off is not told either.
  const stop = text.slice(12, 17), cut = await client.completions.create({ ...body, stop });
  assert.equal(cut.choices[0].text, text.slice(0, text.indexOf(stop)));
  assert.ok(cut.choices[0].logprobs.text_offset.every((at) => at < cut.choices[0].text.length));
  assert.deepEqual(cut.choices[0].logprobs.tokens, tokens.slice(0, cut.choices[0].logprobs.tokens.length));
});

const flat = tools.map(({ function: f }) => ({ type: 'function', strict: false, ...f }));
const respond = { model, temperature: 0, tools: flat, input: 'Use the tool to add 417 and 288.' };

await test('response', async () => {
  const one = await client.responses.create({ model, temperature: 0, input: 'What is 12 + 30?', metadata: { a: 'b' } });
  assert.match(one.id, /^resp_/);
  assert.equal(one.status, 'completed');
  assert.deepEqual(one.output.map((item) => item.type), ['reasoning', 'message']);
  assert.match(one.output_text, /42/);
  assert.deepEqual(one.metadata, { a: 'b' });
  assert.equal(one.usage.total_tokens, one.usage.input_tokens + one.usage.output_tokens);
  assert.ok(one.usage.output_tokens_details.reasoning_tokens > 0);
  const cut = await client.responses.create({ model, input: 'What is 12 + 30?', max_output_tokens: 3 });
  assert.equal(cut.status, 'incomplete');
  assert.equal(cut.incomplete_details.reason, 'max_output_tokens');
});

await test('response_events', async () => {
  const stream = await client.responses.create({ ...respond, stream: true });
  const whole = await client.responses.create(respond);
  const kinds = [], texts = {};
  let number = 0, final;
  for await (const event of stream) {
    assert.equal(event.sequence_number, number++);
    kinds.push(event.type);
    if (event.type.endsWith('.delta')) texts[event.item_id] = (texts[event.item_id] ?? '') + event.delta;
    if (event.type === 'response.output_item.done') {
      const { item } = event;
      assert.equal(texts[item.id], item.type === 'reasoning' ? item.summary[0].text : item.arguments ?? item.content[0].text);
    }
    if (event.type === 'response.completed') final = event.response;
  }
  assert.deepEqual(kinds.slice(0, 2), ['response.created', 'response.in_progress']);
  assert.equal(kinds.at(-1), 'response.completed');
  const shape = (response) => response.output.map(({ id, call_id, ...rest }) => rest);
  assert.deepEqual(shape(final), shape(whole));
});

// The client's own accumulator insists on the order and the fields of events.
await test('response_stream_helper', async () => {
  const stream = client.responses.stream(respond);
  const final = await stream.finalResponse();
  const call = final.output.find((item) => item.type === 'function_call');
  assert.equal(call.name, 'add');
  assert.deepEqual(JSON.parse(call.arguments), { a: 417, b: 288 });
});

// Only of the message, not of its reasoning; `include` and `top_logprobs` both ask for them.
await test('response_logprobs', async () => {
  const body = { model, temperature: 0, input: 'What is 12 + 30?', top_logprobs: 2, include: ['message.output_text.logprobs'] };
  const one = await client.responses.create(body);
  const { text, logprobs } = one.output.at(-1).content[0];
  assert.equal(logprobs.map((l) => l.token).join(''), text);
  for (const { token, logprob, bytes, top_logprobs: tops } of logprobs) {
    assert.equal(Buffer.from(bytes).toString(), token);
    assert.deepEqual([tops.length, tops[0].token, tops[0].logprob], [2, token, logprob]);
  }
  const deltas = [], items = [];
  for await (const event of await client.responses.create({ ...body, stream: true })) {
    if (event.type === 'response.output_text.delta') deltas.push(...event.logprobs);
    if (event.type === 'response.output_text.done') assert.deepEqual(event.logprobs, logprobs);
    if (event.type === 'response.output_item.done') items.push(event.item);
  }
  assert.deepEqual(deltas, logprobs);
  assert.deepEqual(items.at(-1).content[0].logprobs, logprobs);
  const { output: none } = await client.responses.create({ ...body, include: [], top_logprobs: 0 });
  assert.deepEqual(none.at(-1).content[0], { ...one.output.at(-1).content[0], logprobs: [] });
});

await test('response_tool_round_trips', async () => {
  const first = await client.responses.create(respond);
  const call = first.output.find((item) => item.type === 'function_call');
  const { a, b } = JSON.parse(call.arguments);
  const output = { type: 'function_call_output', call_id: call.call_id, output: String(a + b) };
  const sent = await client.responses.create({ ...respond, ...plain, store: false,
    input: [{ role: 'user', content: respond.input }, ...first.output, output] });
  assert.match(sent.output_text, /705/);
  const kept = await client.responses.create({ ...respond, ...plain, previous_response_id: first.id, input: [output] });
  assert.equal(kept.output_text, sent.output_text);
  assert.equal(kept.previous_response_id, first.id);
  assert.equal(kept.usage.input_tokens, sent.usage.input_tokens);
  await assert.rejects(client.responses.retrieve(sent.id), OpenAI.NotFoundError);
  const again = await client.responses.retrieve(kept.id);
  assert.deepEqual(again.output, kept.output);
  const listed = [];
  for await (const item of client.responses.inputItems.list(kept.id, { limit: 2, order: 'asc' })) listed.push(item);
  const own = ({ id, status, ...rest }) => rest;
  assert.deepEqual(listed.map(own), [{ type: 'message', role: 'user', content: [{ type: 'input_text', text: respond.input }] },
    ...first.output.map(own), output]);
  const newest = await client.responses.inputItems.list(kept.id, { limit: 1, after: listed.at(-1).id });
  assert.deepEqual(newest.data, [listed.at(-2)]);
  await client.responses.delete(kept.id);
  await assert.rejects(client.responses.inputItems.list(kept.id), OpenAI.NotFoundError);
  await assert.rejects(client.responses.retrieve(kept.id), OpenAI.NotFoundError);
  await assert.rejects(client.responses.create({ ...respond, previous_response_id: 'resp_none' }),
    (e) => e instanceof OpenAI.NotFoundError && e.code === 'previous_response_not_found');
});

// Tools as one agent sends them; the model sees plain functions.
await test('response_namespace_custom_and_hosted_tools', async () => {
  const odd = [{ type: 'namespace', name: 'math', description: 'Sums', tools: [flat[1]] },
    { type: 'custom', name: 'apply_patch', description: 'Edits files', format: { type: 'grammar', syntax: 'lark', definition: 'start: /.+/' } },
    { type: 'web_search' }, { type: 'local_shell' }];
  const one = await client.responses.create({ ...respond, tools: odd, max_output_tokens: 300 });
  assert.deepEqual(one.tools, odd);
  const call = one.output.find((item) => item.type === 'function_call');
  assert.deepEqual([call.name, call.namespace], ['add', 'math']);
  const history = await client.responses.create({ ...respond, tools: odd, max_output_tokens: 16, input: [
    { role: 'developer', content: 'Be brief.' }, { role: 'user', content: [{ type: 'input_text', text: 'Patch it.' }] },
    { type: 'reasoning', id: 'rs_1', summary: [{ type: 'summary_text', text: 'I patch.' }] },
    { type: 'custom_tool_call', call_id: 'c1', name: 'apply_patch', input: '*** Begin Patch' },
    { type: 'custom_tool_call_output', call_id: 'c1', output: 'done' },
    { type: 'function_call', call_id: 'c2', name: 'add', namespace: 'math', arguments: '{"a":1,"b":2}' },
    { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: '3' }] }] });
  assert.ok(history.usage.input_tokens > one.usage.input_tokens);
});

await test('aborted_stream', async () => {
  const endless = { model, ignore_eos: true, stream: true, messages: ask('Tell a story of 9 days about Juno in Lima.') };
  const stream = await client.chat.completions.create(endless);
  let n = 0;
  for await (const chunk of stream) {
    assert.ok(chunk);
    if (++n === 3) break; // the client aborts the request
  }
  const controller = new AbortController();
  const whole = client.chat.completions.create({ ...endless, stream: false }, { signal: controller.signal });
  setTimeout(() => controller.abort(), 100);
  await assert.rejects(whole, OpenAI.APIUserAbortError);
  const after = await client.chat.completions.create(sum);
  assert.match(after.choices[0].message.content, /42/);
});

await test('errors', async () => {
  const wrong = new OpenAI({ apiKey: 'wrong', baseURL: `${server.url}/v1`, maxRetries: 0 });
  await assert.rejects(wrong.chat.completions.create(sum), OpenAI.AuthenticationError);
  await assert.rejects(client.chat.completions.create({ ...sum, model: 'gpt-9' }),
    (e) => e instanceof OpenAI.NotFoundError && e.code === 'model_not_found' && e.param === 'model');
  await assert.rejects(client.chat.completions.create({ ...sum, temperature: 9 }),
    (e) => e instanceof OpenAI.BadRequestError && e.param === 'temperature' && e.type === 'invalid_request_error');
  await assert.rejects(client.chat.completions.create({ model, messages: ask('lantern '.repeat(9000)) }),
    (e) => e instanceof OpenAI.BadRequestError && e.code === 'context_length_exceeded' && /4096/.test(e.message));
  await assert.rejects(client.chat.completions.create({ model, messages: [{ role: 'user',
    content: [{ type: 'image_url', image_url: { url: 'data:image/png;base64,AA==' } }] }] }), OpenAI.BadRequestError);
});

await test('sixteen_at_a_time', async () => {
  const answers = await Promise.all(Array.from({ length: 16 }, (_, i) => client.chat.completions.create(
    { ...sum, stream: false, messages: ask(`What is ${i + 10} + 30?`), max_tokens: 48 })));
  for (const { choices } of answers) assert.ok(choices[0].message.content || choices[0].message.reasoning_content);
});

// The checks of wire_schema.mjs ran on every answer above; here that they did.
await test('all_answers_were_checked', async () => {
  for (const name of ['ChatCompletion', 'ChatCompletionChunk', 'Completion', 'Response', 'ResponseStreamEvent', 'Model']) {
    assert.ok(counts[name] > 1, `${name}: ${counts[name]}`);
  }
});

await test('stops_with_0', async () => {
  assert.equal(await server.stop(), 0);
});
finish();
