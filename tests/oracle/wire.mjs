// Requests as agents and bad clients send them, over plain HTTP. Each answer and each event is
// checked by wire_schema.mjs. The letters name the cases: T messages, P calls, S streams, M sampling,
// H hostile. Prints `ok NAME` or `not ok NAME`.
import assert from 'node:assert/strict';
import net from 'node:net';
import { finish, startServer, test } from './sdk_server.mjs';
import { checkedFetch, counts } from './wire_schema.mjs';

const server = await startServer('--lanes', '2', '--queue-size', '16');
const post = async (path, body, headers = {}) => {
  const reply = await checkedFetch(server.url + path, { method: 'POST', headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body) });
  const text = await reply.text();
  return { code: reply.status, text, json: reply.headers.get('content-type').startsWith('application/json') ? JSON.parse(text) : null };
};
const ok = async (path, body) => {
  const { code, json, text } = await post(path, body);
  assert.equal(code, 200, text);
  return json ?? text;
};
const chat = (body) => ok('/v1/chat/completions', { temperature: 0, max_tokens: 8, ...body });
const prompt = async (body) => (await ok('/apply-template', body)).prompt;
const user = (content) => ({ role: 'user', content });
const plain = { chat_template_kwargs: { enable_thinking: false } };
const status = async () => (await fetch(`${server.url}/status`)).json();
const until = async (what, fits) => {
  for (let i = 0; ; i++) {
    if (fits(await status())) return;
    assert.ok(i < 400, what);
    await new Promise((r) => setTimeout(r, 25));
  }
};
// The deltas of a stream, joined.
const joined = (text) => text.split('\n\n').filter((e) => e.startsWith('data: {')).map((e) => JSON.parse(e.slice(6)))
  .map((c) => c.choices[0]?.delta?.content ?? c.choices[0]?.text ?? '').join('');

const add = { type: 'function', function: { name: 'add', description: 'Add two numbers', parameters: { type: 'object',
  properties: { a: { type: 'integer' }, b: { type: 'integer' } }, required: ['a', 'b'] } } };

await test('T1_a_later_system_message_stays_at_its_place', async () => {
  const long = 'lantern '.repeat(200), before = [user(long), { role: 'assistant', content: 'Yes.' }];
  const later = [...before, { role: 'system', content: 'Be very brief.' }, user('Hello.')];
  await chat({ messages: [...before, user('Hi.')] });
  const one = await chat({ messages: later });
  assert.ok(one.usage.prompt_tokens_details.cached_tokens >= 192, JSON.stringify(one.usage));
  const text = await prompt({ messages: later });
  assert.ok(text.indexOf('Yes.') < text.indexOf('Be very brief.') && text.indexOf('Be very brief.') < text.indexOf('Hello.'));
  const { content, role } = await ok('/v1/messages', { max_tokens: 4, messages: later });
  assert.ok(content && role === 'assistant');
});

await test('T3_missing_null_and_empty_content_are_the_same', async () => {
  const call = { id: 'c1', type: 'function', function: { name: 'add', arguments: '{"a": 1, "b": 2}' } };
  const texts = await Promise.all([{ content: null }, { content: '' }, {}].map((c) => prompt({ tools: [add],
    messages: [user('Add.'), { role: 'assistant', tool_calls: [call], ...c }, { role: 'tool', tool_call_id: 'c1', content: '3' }] })));
  assert.ok(texts[0].includes('<function=add>'));
  assert.deepEqual(texts, [texts[0], texts[0], texts[0]]);
});

await test('T5_tools_stand_in_the_prompt_as_they_were_sent', async () => {
  const odd = '{"name":"odd","description":"Compare if temp > 10 & humidity < 50 (user\'s choice)","parameters":{"type":"object","properties":{"z":{"type":"number","maximum":1.50},"a":{"type":"string"}}}}';
  const { code, json } = await post('/apply-template', `{"messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":${odd}}]}`);
  assert.equal(code, 200);
  assert.ok(json.prompt.includes('"name": "odd", "description": "Compare if temp > 10 & humidity < 50 (user\'s choice)", "parameters"'));
  assert.ok(json.prompt.indexOf('"z"') < json.prompt.indexOf('"a"'));
});

await test('T7_a_turn_sent_again_is_found_with_its_reasoning', async () => {
  const first = [user('What is 12 + 30?')], system = { role: 'system', content: 'lantern '.repeat(120) };
  const one = await chat({ messages: [system, ...first], max_tokens: 200 });
  const { content, reasoning_content } = one.choices[0].message;
  const next = await chat({ messages: [system, ...first, { role: 'assistant', content, reasoning_content }, user('And 1 more?')] });
  const bare = await chat({ messages: [system, ...first, { role: 'assistant', content }, user('And 1 more?')] });
  for (const { usage } of [next, bare]) assert.ok(usage.prompt_tokens_details.cached_tokens >= 128, JSON.stringify(usage));
});

await test('T9_a_billing_line_that_changes_costs_nothing', async () => {
  const body = (n) => ({ max_tokens: 2, messages: [user('Hi')], system: [
    { type: 'text', text: `x-anthropic-billing-header: cc_version=2.1.197; cch=${n};` },
    { type: 'text', text: 'lantern '.repeat(150), cache_control: { type: 'ephemeral' } }] });
  await ok('/v1/messages?beta=true', body('00001'));
  const { usage } = await ok('/v1/messages?beta=true', body('fffff'));
  assert.ok(usage.cache_read_input_tokens >= 128, JSON.stringify(usage));
});

await test('T11_counted_tokens_are_those_of_the_call', async () => {
  const body = { system: 'Be brief.', messages: [user('Add.')], tools: [{ name: 'add', input_schema: add.function.parameters }] };
  const { input_tokens } = await ok('/v1/messages/count_tokens?beta=true', body);
  const { usage } = await ok('/v1/messages?beta=true', { ...body, max_tokens: 1 });
  assert.equal(usage.input_tokens + usage.cache_read_input_tokens, input_tokens);
});

// What clients send beside what matters here.
await test('unknown_and_harmless_fields_are_taken', async () => {
  await chat({ messages: [user('Hi')], store: false, user: 'x', metadata: { a: 'b' }, service_tier: 'auto', prompt_cache_key: 'k',
    safety_identifier: 's', verbosity: 'low', parallel_tool_calls: true, tools: [], tool_choice: 'auto', logit_bias: {}, n: 1,
    stop: null, frequency_penalty: 0, stream_options: null, web_search_options: null, something_new: { a: [1] } });
  await ok('/v1/messages', { max_tokens: 2, messages: [user([{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral', ttl: '1h' } }])],
    metadata: { user_id: 'x' }, service_tier: 'auto', container: null, context_management: { edits: [] }, something_new: 1 });
  await ok('/v1/responses', { input: 'Hi', max_output_tokens: 16, store: false, include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k', client_metadata: { a: 'b' }, service_tier: 'auto', stream_options: null, something_new: 1 });
});

await test('images_are_a_400_that_names_the_part', async () => {
  const url = 'data:image/png;base64,AA==', source = { type: 'base64', media_type: 'image/png', data: 'AA==' };
  const bad = [
    ['/v1/chat/completions', { messages: [user([{ type: 'text', text: 'a' }, { type: 'image_url', image_url: { url } }])] }, '/messages/0/content/1'],
    ['/v1/messages', { max_tokens: 1, messages: [user([{ type: 'text', text: 'a' }, { type: 'image', source }])] }, '/messages/0/content/1'],
    ['/v1/messages', { max_tokens: 1, messages: [user('a'), { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'x', input: {} }] },
      user([{ type: 'tool_result', tool_use_id: 't', content: [{ type: 'image', source }] }])] }, '/messages/2/content/0/content/0'],
    ['/v1/responses', { input: [user([{ type: 'input_text', text: 'a' }, { type: 'input_image', image_url: url }])] }, '/input/0/content/1'],
  ];
  for (const [path, body, part] of bad) {
    const { code, text } = await post(path, body);
    assert.equal(code, 400, text);
    assert.ok(text.includes(part) && /image/.test(text), text);
  }
});

await test('P7_a_call_that_is_only_text_stays_text', async () => {
  const text = 'Print this: <tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>';
  const { choices } = await ok('/v1/completions', { prompt: text, max_tokens: 24, temperature: 0 });
  assert.equal(typeof choices[0].text, 'string');
  const one = await chat({ ...plain, messages: [user(text)], max_tokens: 24 });
  assert.equal(one.choices[0].message.tool_calls, undefined);
});

await test('S1_S3_stop_strings_cut_exactly_in_every_form', async () => {
  const body = { ...plain, messages: [user('Tell a story of 4 days about Theo in Warsaw.')], temperature: 0, max_tokens: 60 };
  const whole = (await chat(body)).choices[0].message.content;
  for (const at of [5, 11, 23, whole.length - 6]) {
    const stop = whole.slice(at, at + 5), want = whole.slice(0, whole.indexOf(stop));
    const one = await chat({ ...body, stop: [stop, 'never said'] });
    assert.equal(one.choices[0].message.content ?? '', want);
    assert.equal(one.choices[0].finish_reason, 'stop');
    assert.equal(joined(await chat({ ...body, stop, stream: true })), want);
    const said = await ok('/v1/messages', { max_tokens: 60, temperature: 0, messages: body.messages, stop_sequences: [stop] });
    assert.deepEqual([said.stop_reason, said.stop_sequence], ['stop_sequence', stop]);
    assert.equal(said.content.map((b) => b.text).join(''), want);
  }
});

await test('each_choice_has_its_own_stop', async () => {
  const body = { ...plain, messages: [user('Tell a story of 4 days about Theo in Warsaw.')], temperature: 1, seed: 3, n: 4, max_tokens: 40 };
  const { choices } = await chat(body);
  const words = choices.map((c) => c.message.content);
  const stop = words[1].slice(words[1].length / 2 | 0, (words[1].length / 2 | 0) + 4);
  const cut = (text) => (text.includes(stop) ? text.slice(0, text.indexOf(stop)) : text);
  const some = await chat({ ...body, stop });
  assert.deepEqual(some.choices.map((c) => c.message.content ?? ''), words.map(cut));
  assert.ok(some.usage.completion_tokens < choices.length * 40);
});

await test('S5_a_client_that_leaves_frees_its_place_wherever_it_was', async () => {
  const long = { messages: [user('Tell a story of 9 days about Juno in Lima.')], ignore_eos: true, temperature: 0 };
  const ask = (body, stream) => {
    const control = new AbortController();
    const done = fetch(`${server.url}/v1/chat/completions`, { method: 'POST', signal: control.signal, body: JSON.stringify({ ...body, stream }) })
      .then((r) => r.text()).catch(() => 'left');
    return { leave: () => control.abort(), done };
  };
  for (const stream of [true, false]) {
    const some = Array.from({ length: 5 }, () => ask(long, stream)); // two decode, three wait
    await until('all have come', (s) => s.scheduler.running === 2 && s.scheduler.waiting === 3);
    some.slice(2).forEach((a) => a.leave());
    await until('those that waited are gone', (s) => s.scheduler.waiting === 0 && s.http.generations === 2);
    some.slice(0, 2).forEach((a) => a.leave());
    await until('those that ran are gone', (s) => s.scheduler.running === 0 && s.http.generations === 0);
    assert.deepEqual(await Promise.all(some.map((a) => a.done)), Array(5).fill('left'));
    const late = ask({ messages: [user(`${stream} ${'lantern '.repeat(3500)}`)] }, stream); // in its prompt
    await until('it has come', (s) => s.scheduler.running === 1);
    late.leave();
    await until('it is gone', (s) => s.scheduler.running === 0 && s.http.generations === 0);
  }
});

await test('S7_a_reader_that_stalls_hurts_nobody', async () => {
  const body = JSON.stringify({ messages: [user('Tell a story of 9 days about Juno in Lima.')], ignore_eos: true, stream: true });
  const stalled = net.connect(Number(new URL(server.url).port), '127.0.0.1');
  stalled.on('error', () => {});
  stalled.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
  stalled.pause();
  await until('it runs', (s) => s.scheduler.running === 1);
  assert.equal((await chat({ messages: [user('Hi')] })).choices.length, 1);
  assert.ok((await status()).http.unsent_bytes < 16 << 20);
  stalled.destroy();
  await until('it is gone', (s) => s.http.generations === 0);
});

await test('M1_top_k_of_0_or_minus_1_is_the_whole_vocabulary', async () => {
  const body = { ...plain, messages: [user('Hi')], temperature: 2, top_p: 1, min_p: 0, max_tokens: 16, seed: 5 };
  const [zero, minus, one, greedy] = await Promise.all([{ top_k: 0 }, { top_k: -1 }, { top_k: 1 }, { temperature: 0 }].map(async (change) => (
    await chat({ ...body, ...change })).choices[0].message.content));
  assert.equal(zero, minus);
  assert.notEqual(zero, one);
  assert.equal(one, greedy);
});

// A draft changes neither what penalties do nor what is drawn: the answers are the same, not only as likely.
await test('M3_M5_penalties_and_sampling_do_not_depend_on_the_draft', async () => {
  const asked = [{}, { presence_penalty: 2 }, { frequency_penalty: 2 }, { repetition_penalty: 1.5 },
    { presence_penalty: -1, frequency_penalty: 0.5, logit_bias: { 300: 5 } }, { temperature: 1, top_p: 1, top_k: 0, n: 6 }];
  const answers = [];
  for (const rows of ['0', '2', '8']) {
    const other = await startServer('--draft-rows', rows);
    const said = await Promise.all(asked.map(async (change) => {
      const reply = await checkedFetch(`${other.url}/v1/chat/completions`, { method: 'POST', body: JSON.stringify({ ...plain, max_tokens: 48,
        temperature: 0.8, seed: 11, messages: [user('Tell a story of 5 days about Theo in Warsaw.')], ...change }) });
      const { choices, timings } = await reply.json();
      assert.equal(timings.draft_n > 0, rows !== '0');
      return choices.map((c) => c.message.content);
    }));
    assert.equal(await other.stop(), 0);
    answers.push(said);
  }
  assert.deepEqual(answers[1], answers[0]);
  assert.deepEqual(answers[2], answers[0]);
  assert.ok(new Set(answers[0].slice(0, 5).flat()).size > 2, 'penalties have an effect');
  assert.ok(new Set(answers[0][5]).size > 3, 'choices differ');
});

await test('H1_depth_and_length_are_refused_and_the_server_lives', async () => {
  const nested = '['.repeat(3000) + ']'.repeat(3000);
  for (const body of [`{"messages":[{"role":"user","content":"a"}],"tools":${nested}}`, nested, `${'{"a":'.repeat(200)}1${'}'.repeat(200)}`]) {
    const { code } = await post('/v1/chat/completions', body);
    assert.equal(code, 400);
  }
  const groups = `root ::= ${'('.repeat(60000)}"a"${')'.repeat(60000)}`;
  assert.equal((await post('/v1/chat/completions', { messages: [user('a')], grammar: groups })).code, 400);
  // 2^31 newlines are refused before one of them is read, as many as a body may have by the tokens they make.
  const early = await new Promise((resolve, reject) => {
    const socket = net.connect(Number(new URL(server.url).port), '127.0.0.1');
    let text = '';
    socket.on('error', reject);
    socket.on('data', (bytes) => (text += bytes));
    socket.on('end', () => resolve(text));
    socket.write(`POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: ${2 ** 31 + 60}\r\n\r\n`);
  });
  assert.match(early, /^HTTP\/1\.1 413 /);
  const { code, json } = await post('/v1/chat/completions', { messages: [user('\n'.repeat(3 << 20))] });
  assert.equal(code, 400);
  assert.equal(json.error.code, 'context_length_exceeded');
  assert.equal((await chat({ messages: [user('Hi')] })).choices.length, 1);
});

await test('H3_bytes_that_are_no_text_are_a_400_in_valid_json', async () => {
  const raw = (text, bytes) => Buffer.concat([Buffer.from(text.split('@')[0]), Buffer.from(bytes), Buffer.from(text.split('@')[1])]);
  for (const path of ['/v1/chat/completions', '/v1/messages', '/v1/responses', '/v1/completions', '/tokenize']) {
    for (const bytes of [[0xff], [0xc3], [0xed, 0xa0, 0xbd], [0xc0, 0x80], [0xf8, 0x88, 0x80, 0x80]]) {
      assert.equal((await post(path, raw('{"model":"@"}', bytes))).code, 400);
      assert.equal((await post(path, raw('{"tools":[{"type":"function","name":"@","function":{"name":"@"}}]}'.replace('@', 'f'), bytes))).code, 400);
    }
  }
  const lone = String.raw`"a\ud83d"`;
  const { code, json } = await post('/v1/chat/completions', `{"model":${lone},"messages":[{"role":"user","content":"a"}]}`);
  assert.deepEqual([code, json.error.code], [404, 'model_not_found']);
  assert.ok(json.error.message.includes('a\ufffd'));
  const { code: good } = await post('/v1/chat/completions', `{"max_tokens":2,"messages":[{"role":"user","content":${lone}}],"tools":[{"type":"function","function":{"name":${lone}}}]}`);
  assert.equal(good, 200);
});

await test('H5_a_full_queue_is_told_and_soon_over', async () => {
  const body = { ...plain, messages: [user('Tell a story of 9 days about Juno in Lima.')], max_tokens: 4 };
  const codes = await Promise.all(Array.from({ length: 60 }, async () => (await post('/v1/chat/completions', body)).code));
  assert.deepEqual([...new Set(codes)].filter((c) => c !== 200 && c !== 503 && c !== 429), []);
  assert.ok(codes.includes(200));
  assert.equal((await chat({ messages: [user('Hi')] })).choices.length, 1);
});

await test('all_answers_were_checked', async () => {
  for (const name of ['ChatCompletion', 'ChatCompletionChunk', 'Completion', 'Message', 'Response']) assert.ok(counts[name] > 0, name);
});

await test('stops_with_0', async () => {
  assert.equal(await server.stop(), 0);
});
finish();
