// Coding agents, unchanged, against `riptide serve` with the bundled model: each is asked for two
// turns of a session, headless. The model is far too small for their work, so what is judged is the
// protocol: every reply and event passes the official types, a turn ends by itself, what is sent
// again is found in the cache. Prints `ok NAME`, `not ok NAME` or `skip NAME reason`.
//
//     agents.mjs [--keep FOLDER] [NAME…]      names: pi, qwen, opencode; started by agents.sh
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { finish, startServer, test } from '../oracle/sdk_server.mjs';
import { startRecorder } from './record.mjs';

const { values: options, positionals } = parseArgs({ options: { keep: { type: 'string' } }, allowPositionals: true });
const bin = path.join(import.meta.dirname, 'node_modules/.bin');
const model = 'mini-dense', context = 32768;

function write(file, value) {
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, typeof value === 'string' ? value : JSON.stringify(value));
}

// How each is pointed at a server, in an empty home folder.
const agents = {
  pi: (home, url) => {
    write(path.join(home, '.pi/agent/models.json'), { providers: { local: { baseUrl: `${url}/v1`, api: 'openai-completions',
      apiKey: 'x', models: [{ id: model, name: model, reasoning: true, input: ['text'], contextWindow: context, maxTokens: 256,
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 } }] } } });
    return { args: ['--provider', 'local', '--model', model, '-p'], again: ['-c'], env: { PI_OFFLINE: '1' } };
  },
  qwen: (home, url) => {
    write(path.join(home, '.qwen/settings.json'), { telemetry: { enabled: false }, privacy: { usageStatisticsEnabled: false },
      general: { disableAutoUpdate: true } });
    return { args: ['--auth-type', 'openai', '--core-tools', 'read_file,write_file', '-p'], again: ['-c'],
      env: { OPENAI_BASE_URL: `${url}/v1`, OPENAI_API_KEY: 'x', OPENAI_MODEL: model } };
  },
  opencode: (home, url) => {
    write(path.join(home, '.config/opencode/opencode.json'), { $schema: 'https://opencode.ai/config.json', autoupdate: false,
      share: 'disabled', model: `local/${model}`, provider: { local: { npm: '@ai-sdk/openai-compatible', name: 'local',
        options: { baseURL: `${url}/v1`, apiKey: 'x' }, models: { [model]: { name: model, limit: { context, output: 512 } } } } } });
    return { args: ['run'], again: ['-c'], env: {} };
  },
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
  const { code, text, errors } = await run(path.join(bin, name), args, setting);
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
    const { args, again, env } = agents[name](home, recorder.url);
    const setting = { cwd: work, env: { PATH: process.env.PATH, HOME: home, TERM: 'dumb', CI: '1', ...env } };
    const first = await turn(name, [...args, 'What is 12 + 30?'], setting, recorder);
    const rest = args.at(-1) === '-p' ? [...args.slice(0, -1), ...again, '-p'] : [...args, ...again];
    const second = await turn(name, [...rest, 'What is 15 + 41?'], setting, recorder);
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
