// An agent: it reads a file with a syntax error, writes it mended, checks it, and says so. The model
// decides, the tools are real, and Python judges what is left by running it. Once over each protocol,
// with the official clients. Prints `ok NAME` or `not ok NAME`.
//
// Every run breaks other files: function, names, fault and the values that they are tried with are drawn
// (RIPTIDE_TEST_SEED repeats a run). The functions are of the kinds that the model was trained on; of
// others its 22 million parameters mend none.
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

// --- what is broken ----------------------------------------------------------------------------

const seed = Number(process.env.RIPTIDE_TEST_SEED || crypto.getRandomValues(new Uint32Array(1))[0]);
console.log(`seed ${seed}`);
let state = seed >>> 0;
function below(n) { // a linear congruential generator of 32 bits, its upper half
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
  return Math.floor(((state >>> 8) / 2 ** 24) * n);
}
const pick = (list) => list[below(list.length)];
const numbers = () => Array.from({ length: 1 + below(8) }, () => below(100));

// F: the function's name, A and X: those of its argument and variable. `want` is what it must give.
const functions = [
  { name: 'total', body: 'def F(A):\n    result = 0\n    for X in A:\n        result += X\n    return result\n',
    given: () => [numbers()], want: ([a]) => a.reduce((x, y) => x + y, 0) },
  { name: 'largest', body: 'def F(A):\n    best = A[0]\n    for X in A[1:]:\n        if X > best:\n            best = X\n    return best\n',
    given: () => [numbers()], want: ([a]) => Math.max(...a) },
  { name: 'smallest', body: 'def F(A):\n    best = A[0]\n    for X in A[1:]:\n        if X < best:\n            best = X\n    return best\n',
    given: () => [numbers()], want: ([a]) => Math.min(...a) },
  { name: 'count_even', body: 'def F(A):\n    count = 0\n    for X in A:\n        if X % 2 == 0:\n            count += 1\n    return count\n',
    given: () => [numbers()], want: ([a]) => a.filter((x) => x % 2 === 0).length },
  { name: 'reverse_text', body: 'def F(A):\n    result = ""\n    for X in A:\n        result = X + result\n    return result\n',
    given: () => [numbers().join('-')], want: ([a]) => [...a].reverse().join('') },
  { name: 'factorial', body: 'def F(A):\n    result = 1\n    for X in range(2, A + 1):\n        result *= X\n    return result\n',
    given: () => [below(12)], want: ([a]) => { let n = 1; for (let i = 2; i <= a; i++) n *= i; return n; } },
  { name: 'squares', body: 'def F(A):\n    return [X * X for X in A]\n', given: () => [numbers()], want: ([a]) => a.map((x) => x * x) },
  { name: 'gcd', body: 'def F(A, X):\n    while X:\n        A, X = X, A % X\n    return A\n',
    given: () => [1 + below(99), 1 + below(99)], want: ([a, b]) => { while (b) [a, b] = [b, a % b]; return a; } },
];

function breakOne() {
  const one = pick(functions), argument = pick('values items numbers data text row series points entries batch'.split(' '));
  const name = pick([one.name, `${one.name}_of_${pick(['values', 'items', 'points', 'entries'])}`, `get_${one.name}`]);
  const names = { F: name, A: argument, X: pick('x item value n entry v element'.split(' ')) };
  const good = one.body.replace(/\b[FAX]\b/g, (letter) => names[letter]);
  const broken = below(2) ? good.replace('return', 'retrun') : good.replace(':\n', '\n');
  const cases = Array.from({ length: 5 }, () => one.given()).map((given) => ({ given, want: one.want(given) }));
  return { name, file: `${name}.py`, broken, cases };
}

// What the file's function gives, by running it.
function judge({ name, file, cases }) {
  const ran = spawnSync('python3', ['-c', 'import json, runpy, sys\nf = runpy.run_path(sys.argv[1])[sys.argv[2]]\n'
    + 'print(json.dumps([f(*given) for given in json.load(sys.stdin)]))', inside(file), name],
  { input: JSON.stringify(cases.map((c) => c.given)), encoding: 'utf8', timeout: 60000 });
  return ran.status === 0 && ran.stdout.trim() !== '' && JSON.stringify(JSON.parse(ran.stdout)) === JSON.stringify(cases.map((c) => c.want));
}

const each = 3;
let total = 0;
for (const [name, step] of Object.entries(protocols)) {
  await test(`${name}_mends_files`, async () => {
    let n = 0;
    for (let i = 0; i < each; i++) {
      const one = breakOne();
      fs.writeFileSync(inside(one.file), one.broken);
      assert.ok(compile(inside(one.file)).status !== 0 && !judge(one), 'it is broken');
      const turns = await mend(step, one.file), used = turns.flatMap((t) => t.calls.map((c) => c.name));
      const isMended = judge(one) && turns.at(-1).calls.length === 0; // … and nothing more is called
      console.log(`${name} ${one.file}: ${turns.map((t) => `${t.calls.map((c) => c.name).join('+') || 'said'} (${t.cached}/${t.prompt})`).join(', ')}: ${
        isMended ? 'mended' : `broken:\n${fs.readFileSync(inside(one.file), 'utf8')}`}, ${JSON.stringify(turns.at(-1).text)}`);
      if (isMended) {
        assert.deepEqual(used.filter((tool, k) => used.indexOf(tool) === k), ['read_file', 'write_file', 'run_shell']);
        n++;
      }
      // A session only grows: what was read or written before, but for a last, unfinished block, is there.
      turns.slice(1).forEach((t, k) => assert.ok(t.cached >= turns[k].prompt - 64, `${t.cached} of ${turns[k].prompt}`));
    }
    total += n;
    assert.ok(n > 0, 'none was mended');
  });
}

// The model is tiny: it mended 64 of 64 such files, but may fail at one.
await test('most_files_were_mended', () => {
  assert.ok(total >= 2 * each, `${total} of ${3 * each} files were mended`);
});

await test('stops_with_0', async () => {
  assert.equal(await server.stop(), 0);
});
finish();
