// Our GGUF files as others read them. Prints `ok NAME ...`, `not ok NAME ...` or `skip NAME reason`.
//
// node-llama-cpp is not in package.json: with all its optional builds it is 700 MB. To run that part:
//   npm install --no-save --omit=optional node-llama-cpp@3.21.1 @node-llama-cpp/linux-x64@3.21.1
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';

const root = process.env.RIPTIDE_ROOT || path.resolve(import.meta.dirname, '../..');
const riptide = path.resolve(root, process.env.RIPTIDE_BUILD || 'build', 'riptide');
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'riptide-gguf-'));
process.on('exit', () => fs.rmSync(scratch, { recursive: true, force: true }));

const MODELS = { 'mini-dense': [109, 'qwen35'], 'mini-moe': [149, 'qwen35moe'] };
const TYPES = { f32: 0, q8_0: 8, q4_k: 12 };
const PROMPTS = ['What is 7 plus 5?', 'Repeat exactly: river lantern matrix'];
const TOKENS = 20;

function run(...args) {
  const done = spawnSync(riptide, args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (done.status !== 0) throw new Error(`riptide ${args[0]}: ${done.error || done.stderr}`);
  return done.stdout;
}

function file(model, type) {
  const out = path.join(scratch, `${model}-${type}.gguf`);
  if (!fs.existsSync(out))
    run('convert', '--model', `models/${model}`, '--type', type, '--out', out);
  return out;
}

async function load(name) {
  try {
    return await import(name);
  } catch {
    return null;
  }
}

// The tables: counts, a matrix's type and shape (innermost first), the tokenizer's sizes.
async function tables({ gguf }, model, type) {
  const [count, arch] = MODELS[model];
  const { metadata, tensorInfos } = await gguf(file(model, type), { allowLocalFile: true });
  const embed = tensorInfos.find((t) => t.name === 'token_embd.weight');
  const width = Number(metadata[`${arch}.embedding_length`]);
  const wants = width % 256 && type === 'q4_k' ? 8 : TYPES[type];
  const checks = {
    tensors: tensorInfos.length === count,
    architecture: metadata['general.architecture'] === arch,
    type: embed.dtype === wants,
    shape: Number(embed.shape[0]) === width && Number(embed.shape[1]) === 3072,
    tokens: metadata['tokenizer.ggml.tokens'].length === 3072,
  };
  const wrong = Object.keys(checks).filter((k) => !checks[k]);
  console.log(`${wrong.length ? 'not ok' : 'ok'} tables ${model} ${type} ${wrong.join(' ')}`);
}

// Greedy ids of a prompt, which llama.cpp continues on one thread.
async function theirs(llama, model, ids, n) {
  const loaded = await llama.loadModel({ modelPath: model });
  const context = await loaded.createContext({ contextSize: 256, batchSize: 128, threads: 1 });
  const out = [];
  for await (const id of context.getSequence().evaluate(ids, { temperature: 0, topK: 1 })) {
    out.push(id);
    if (out.length >= n) break;
  }
  await context.dispose();
  await loaded.dispose();
  return out;
}

async function same(llama, model, type, prompt) {
  const name = file(model, type);
  const answer = JSON.parse(
    run('run', '--model', name, '--backend', 'ref', '--kv-format', 'f32', '--prompt', prompt,
      '--temperature', '0', '--max-tokens', String(TOKENS), '--json'));
  // A stop id ends our answer and is not shown by theirs.
  const ours = answer.finish_reason === 'stop' ? answer.ids.slice(0, -1) : answer.ids;
  const got = await theirs(llama, name, answer.prompt_ids, ours.length);
  const is = JSON.stringify(got) === JSON.stringify(ours);
  console.log(`${is ? 'ok' : 'not ok'} llama.cpp ${model} ${type} ${ours.length} tokens`);
  if (!is) console.log(`  ours ${ours}\n  theirs ${got}`);
}

const reader = await load('@huggingface/gguf');
const cpp = await load('node-llama-cpp');
if (!reader) console.log('skip tables the npm package @huggingface/gguf is missing');
if (!cpp) console.log('skip llama.cpp the npm package node-llama-cpp is missing');
const llama = cpp && (await cpp.getLlama({ gpu: false, build: 'never', logLevel: 'error', maxThreads: 1 }));
for (const model of Object.keys(MODELS)) {
  for (const type of Object.keys(TYPES)) {
    if (reader) await tables(reader, model, type);
    for (const prompt of llama ? PROMPTS : []) await same(llama, model, type, prompt);
  }
}
process.exit(0);
