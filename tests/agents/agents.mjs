// Coding agents, unchanged, against `riptide serve` with the bundled model: each is started by
// `riptide NAME` for two turns of a session, headless. The model is far too small for their work: the
// protocol is judged. Every reply and event passes the official types, a turn ends by itself, what is sent
// again is found in the cache. Prints `ok NAME`, `not ok NAME` or `skip NAME reason`.
//
//     agents.mjs [--keep FOLDER] [NAME…]      names: pi, qwen, opencode; started by agents.sh
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { finish, program, startServer, test } from '../oracle/sdk_server.mjs';
import { startRecorder } from './record.mjs';

const { values: options, positionals } = parseArgs({ options: { keep: { type: 'string' } }, allowPositionals: true });
const bin = path.join(import.meta.dirname, 'node_modules/.bin');
const context = 32768;

function write(file, value) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
}

// A headless turn of each, and how a session is gone on with. `riptide NAME` points them at the server.
const agents = {
  pi: { args: ['-p'], again: ['-c', '-p'], env: { PI_OFFLINE: '1' } },
  qwen: { args: ['--core-tools', 'read_file,write_file', '-p'], again: ['--core-tools', 'read_file,write_file', '-c', '-p'] },
  opencode: { args: ['run'], again: ['run', '-c'] },
};

// Resolves to { code, text } when the program has ended.
function run(program, args, options) {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'], detached: true, ...options });
  const kill = () => {
    try {
      process.kill(-child.pid, 'SIGKILL');
    } catch {} // it is gone
  };
  process.on('exit', kill);
  const timer = setTimeout(kill, 900000);
  let text = '', errors = '';
  child.stdout.on('data', (bytes) => (text += bytes));
  child.stderr.on('data', (bytes) => (errors += bytes));
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', (code) => {
      clearTimeout(timer);
      resolve({ code, text, errors });
    });
  });
}

function usageOf({ text }) {
  const found = [...(text ?? '').matchAll(/"usage":(\{"prompt_tokens".*?"reasoning_tokens":\d+\}\})/g)].at(-1);
  return found ? JSON.parse(found[1]) : null;
}

function show(e) {
  const u = usageOf(e);
  console.log(`  ${e.method} ${e.path} ${e.code ?? 'no answer'}, ${e.body?.length ?? 0} bytes, ${e.events ?? 0} events${
    u ? `, ${u.prompt_tokens} tokens in, ${u.prompt_tokens_details.cached_tokens} cached, ${u.completion_tokens} out` : ''}${
    e.wasLeft ? ', left' : ''}${e.problem ? `: ${e.problem}` : ''}`);
}

// One headless turn: what it asked and was answered.
async function turn(name, args, setting, recorder) {
  const from = recorder.exchanges.length, start = Date.now();
  const { code, text, errors } = await run(program, [name, '--port', new URL(recorder.url).port, ...args], setting);
  const seen = recorder.exchanges.slice(from);
  console.log(`${name}: status ${code} after ${((Date.now() - start) / 1000).toFixed(1)} s, said ${JSON.stringify(text.trim().slice(-200))}`);
  seen.forEach(show);
  assert.equal(code, 0, errors.slice(-2000));
  assert.deepEqual(seen.filter((e) => e.problem).map((e) => e.problem), []);
  assert.deepEqual(seen.filter((e) => e.code >= 400).map((e) => `${e.path} ${e.code} ${e.text}`), []);
  assert.ok(seen.some((e) => e.method === 'POST' && e.isOver), 'a turn was asked for and answered');
  return seen.map(usageOf).filter(Boolean);
}

async function session(name, server) {
  const recorder = await startRecorder(server.url);
  const home = fs.mkdtempSync(path.join(os.tmpdir(), `riptide-${name}-`)), work = path.join(home, 'work');
  try {
    write(path.join(work, 'notes.txt'), 'The lantern is in Turin.\n');
    spawnSync('git', ['init', '-q'], { cwd: work });
    const { args, again, env } = agents[name];
    const setting = { cwd: work, env: { PATH: `${bin}:${process.env.PATH}`, HOME: home, TERM: 'dumb', CI: '1', ...env } };
    const first = await turn(name, [...args, 'What is 12 + 30?'], setting, recorder);
    const second = await turn(name, [...again, 'What is 15 + 41?'], setting, recorder);
    // A session only grows: of the prompt before, what is no part of a last, unfinished block is there.
    const before = Math.max(...first.map((u) => u.prompt_tokens));
    const cached = Math.max(...second.map((u) => u.prompt_tokens_details.cached_tokens));
    assert.ok(cached > 0.9 * before, `${cached} of ${before} tokens were found again`);
  } finally {
    if (options.keep) write(path.join(options.keep, `${name}.json`), recorder.exchanges);
    recorder.close();
    fs.rmSync(home, { recursive: true, force: true });
  }
}

for (const name of Object.keys(agents)) {
  if (positionals.length && !positionals.includes(name)) continue;
  if (!fs.existsSync(path.join(bin, name))) {
    console.log(`skip ${name} it is not installed: tests/agents/agents.sh --install`);
    continue;
  }
  await test(name, async () => {
    const server = await startServer('--max-context', String(context), '--lanes', '2');
    try {
      await session(name, server);
    } finally {
      assert.equal(await server.stop(), 0);
    }
  });
}
finish();
