// Adversarial lines for tokenizers, from a seed. Every line is well-formed Unicode.

// splitmix64's little brother: 32 bits of state are enough for test data.
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  next() {
    this.state = (this.state + 0x9e3779b9) >>> 0;
    let x = this.state;
    x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
    x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
    return (x ^ (x >>> 15)) >>> 0;
  }
  below(n) {
    return this.next() % n;
  }
  between(low, high) {
    return low + this.below(high - low + 1);
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  some(most, make) {
    let out = '';
    for (let n = this.between(1, most); n > 0; n--) out += make();
    return out;
  }
}

const SPACES = [9, 10, 11, 12, 13, 0x20, 0x85, 0xa0, 0x1680, 0x2000, 0x2001, 0x2002, 0x2003, 0x2004,
  0x2005, 0x2006, 0x2007, 0x2008, 0x2009, 0x200a, 0x2028, 0x2029, 0x202f, 0x205f, 0x3000, 0x180e,
  0x200b, 0x2060, 0xfeff];
// Blocks with letters, marks, numbers and punctuation, old and new (Unicode 10 to 17).
const BLOCKS = [[0x20, 0x7e], [0xa0, 0x24f], [0x250, 0x36f], [0x370, 0x52f], [0x531, 0x5f4],
  [0x600, 0x8ff], [0x900, 0xdff], [0xe00, 0xfff], [0x1000, 0x13ff], [0x1400, 0x18ff],
  [0x1900, 0x1cff], [0x1d00, 0x1fff], [0x2000, 0x2bff], [0x2c00, 0x2dff], [0x2e00, 0x33ff],
  [0x3400, 0x3450], [0x4e00, 0x9fff], [0xa000, 0xabff], [0xac00, 0xd7a3], [0xd7b0, 0xd7fb],
  [0xe000, 0xe020], [0xf900, 0xffff], [0x10000, 0x107ff], [0x10800, 0x10fff], [0x11000, 0x11fff],
  [0x12000, 0x12550], [0x13000, 0x1345f], [0x16100, 0x1613f], [0x16a00, 0x16fff],
  [0x1b000, 0x1b2ff], [0x1cc00, 0x1d3ff], [0x1d400, 0x1d7ff], [0x1e000, 0x1efff],
  [0x1f000, 0x1fbff], [0x20000, 0x20100], [0x2a6d0, 0x2a720], [0x2b730, 0x2b740],
  [0x2ebe0, 0x2ee60], [0x2f800, 0x2fa1d], [0x30000, 0x30010], [0x31340, 0x323b5],
  [0xe0000, 0xe01ef], [0x10fff0, 0x10ffff]];
const MARKS = [[0x300, 0x36f], [0x483, 0x489], [0x591, 0x5c7], [0x610, 0x61a], [0x64b, 0x65f],
  [0x730, 0x74a], [0x7eb, 0x7f3], [0x7fd, 0x7fd], [0x897, 0x89f], [0x8ca, 0x8ff], [0x93a, 0x94f],
  [0x9be, 0x9fe], [0xb3e, 0xb57], [0xbbe, 0xbd7], [0xcd5, 0xcd6], [0xd3b, 0xd57], [0xdca, 0xddf],
  [0xe38, 0xe4e], [0xf18, 0xf87], [0x102b, 0x103a], [0x135d, 0x135f], [0x1714, 0x1715],
  [0x1ab0, 0x1aeb], [0x1b34, 0x1b44], [0x1dc0, 0x1dff], [0x20d0, 0x20f0], [0x302a, 0x302f],
  [0x3099, 0x309a], [0xa66f, 0xa67d], [0xa82c, 0xa82c], [0xfb1e, 0xfb1e], [0xfe20, 0xfe2f],
  [0x10d24, 0x10d27], [0x10eab, 0x10eff], [0x11099, 0x110ba], [0x11127, 0x11134],
  [0x1133b, 0x11357], [0x113b8, 0x113d2], [0x1145e, 0x1145e], [0x114b0, 0x114ba],
  [0x11930, 0x11943], [0x11a34, 0x11a47], [0x11d42, 0x11d45], [0x16129, 0x1612f],
  [0x1d165, 0x1d182], [0x1e000, 0x1e08f], [0x1e130, 0x1e136], [0x1e5ee, 0x1e5ef],
  [0x1e8d0, 0x1e94a]];
const DIGITS = [0x30, 0x660, 0x966, 0xff10, 0x1d7ce, 0x10d40, 0x1ccf0, 0x2160, 0x2460, 0xbd, 0x3007,
  0x16de0, 0x11bf0];
const WORDS = 'the of and to in is it you that he was for on are with as his they at be this have from or one had by word but not what all were we when your can said there use an each which she do how their if will up other about out many then them these so some her would make like him into time has look two more write go see number no way could people my than first water been call who oil its now find long down day did get come made may part'.split(' ');
const CODE = ['function', 'return', 'if (', ') {', '}', '};', '    ', '\t', '\n', '\r\n', '=>', '===',
  '!=', '0x1F', '3.14e-10', '"quoted \\" text"', "'c'", '// comment', '/* x */', '#include <a.h>',
  'snake_case', 'camelCase', '__init__', 'a[i][j]', '->', '::', '&&', '||', '<html lang="en">',
  '</div>', '{{ x|tojson }}', '{% if y %}', '{"k": [1, 2, {"z": null}]}', '\\u0041', '$HOME', '@x',
  'f"{a:>10}"', '1_000_000', '-1', '+=', '...', '…', ';', ',', '.', '!', '?', '((', '))', '%s\\n'];
const APOSTROPHES = ["'s", "'S", "'t", "'T", "'re", "'RE", "'Re", "'rE", "'ve", "'VE", "'vE", "'m",
  "'M", "'ll", "'LL", "'lL", "'d", "'D", "'\u017f", "'\u212a", "'x", "''s", "'", "’s", "'l", "'r",
  "'v", "'re's", "'sx", "'\u0301s", "'s\u0301", "' s", "'\u00df", "'\ufb06"];

function char(random, ranges) {
  for (;;) {
    const [low, high] = random.pick(ranges);
    const c = random.between(low, high);
    if (c < 0xd800 || c > 0xdfff) return String.fromCodePoint(c);
  }
}

const space = (r) => String.fromCodePoint(r.pick(SPACES));
const unicode = (r) => char(r, BLOCKS);
const mark = (r) => char(r, MARKS);
const lower = (r) => String.fromCharCode(97 + r.below(26));

// What normalisation changes: decomposed letters, Hangul, singletons, marks out of order.
function denormal(r) {
  switch (r.below(6)) {
    case 0: return char(r, [[0xc0, 0x24f], [0x374, 0x3ff], [0x1e00, 0x1fff], [0x929, 0xc48], [0x1109a, 0x114be], [0x3041, 0x30ff]]).normalize('NFD');
    case 1: return char(r, [[0xac00, 0xd7a3]]).normalize('NFD') + (r.below(2) ? char(r, [[0x11a7, 0x11c3]]) : '');
    case 2: return char(r, [[0x1100, 0x1113]]) + char(r, [[0x1160, 0x1176]]) + char(r, [[0x11a7, 0x11c3]]);
    case 3: return char(r, [[0x340, 0x345], [0x374, 0x387], [0x958, 0x95f], [0x9dc, 0x9df], [0xfb1d, 0xfb4e], [0x2126, 0x212b], [0xf900, 0xfad9], [0x2f800, 0x2fa1d], [0x1d15e, 0x1d1c0], [0x2adc, 0x2adc], [0x1f71, 0x1ffd]]);
    case 4: return r.pick(['a', 'e', 'E', 'o', 'u', 'q', '\u0915', '\u05d0', '\u1112', '\uac00', '\u00e9', '\u1ea5', '=', '\u{105d2}', '\u{11935}', '\u{16d67}', '\u{113c2}', '\u{1611e}']) + r.some(5, () => r.below(3) ? mark(r) : r.pick(['\u0301', '\u0323', '\u0338', '\u0307', '\u0345', '\u3099', '\u{11930}', '\u{113c2}', '\u{1611e}', '\u{16d67}']));
    default: return unicode(r) + mark(r) + mark(r);
  }
}

function emoji(r) {
  const one = () => char(r, [[0x1f600, 0x1f64f], [0x1f300, 0x1f5ff], [0x1f900, 0x1f9ff], [0x2600, 0x27bf]]);
  const tone = () => (r.below(2) ? char(r, [[0x1f3fb, 0x1f3ff]]) : '\ufe0f');
  switch (r.below(4)) {
    case 0: return one() + tone() + '\u200d' + one() + tone() + '\u200d' + one();
    case 1: return char(r, [[0x1f1e6, 0x1f1ff]]) + char(r, [[0x1f1e6, 0x1f1ff]]);
    case 2: return r.pick(['1', '#', '*']) + '\ufe0f\u20e3';
    default: return one() + tone();
  }
}

// A run that is long enough for other ways of merging.
function long(r) {
  const n = r.pick([33, 64, 65, 66, 200, 1000, 3000]);
  const piece = r.pick(['a', 'ab', ' ', '\n', '\r\n', '=', '-', '中', '\u0301', 'é', '0', '\t', '́̂', 'ha', '한', '🎉', '.', ' a']);
  return r.below(3) ? piece.repeat(Math.ceil(n / piece.length))
                    : Array.from({ length: n }, () => (r.below(9) ? lower(r) : unicode(r))).join('');
}

function specialText(r, specials) {
  const s = r.pick(specials);
  const cut = r.between(1, s.length);
  switch (r.below(4)) {
    case 0: return s.slice(0, cut);
    case 1: return s.slice(0, cut) + r.pick(specials);
    default: return s;
  }
}

export function piece(r, specials) {
  switch (r.below(16)) {
    case 0: return r.some(8, () => unicode(r));
    case 1: return r.some(6, () => denormal(r));
    case 2: return r.some(3, () => emoji(r));
    case 3: return r.some(6, () => space(r));
    case 4: return r.some(5, () => r.pick([' ', '  ', '\n', '\r', '\r\n', '\t', '\n\n', ' \n', '\u00a0']));
    case 5: return r.some(4, () => String.fromCharCode(r.below(33))) + r.pick(['', '\x7f', '\x85', '\x00']);
    case 6: return r.some(3, () => r.pick(WORDS) + r.pick(APOSTROPHES) + r.pick(['', ' ', 'x']));
    case 7: return r.some(6, () => String.fromCodePoint(r.pick(DIGITS) + r.below(10)));
    case 8: return r.some(8, () => r.pick(CODE) + r.pick(['', ' ', '\n', '\n    ', '\t']));
    case 9: return r.some(3, () => specialText(r, specials) + r.pick(['', ' ', '\n', 'x']));
    case 10: return r.some(10, () => char(r, [[0x4e00, 0x9fff], [0x3040, 0x30ff], [0xff00, 0xff60]]));
    case 11: return r.some(8, () => r.pick(WORDS) + r.pick([' ', ', ', '. ', '\n', '-', '_']));
    case 12: return r.some(12, () => String.fromCharCode(r.between(0x21, 0x7e)));
    case 13: return lower(r) + r.some(20, () => mark(r));
    case 14: return r.below(4) ? r.some(9, () => char(r, [[0x400, 0x52f], [0x370, 0x3ff], [0x5d0, 0x5ea], [0x620, 0x64a], [0xe00, 0xe4e], [0x900, 0x97f]])) : long(r);
    default: return r.some(4, () => r.pick(['ſ', 'K', 'ß', 'İ', 'ı', '“', '”', '’', '—', '…', '￼', '\ufffd', '\ufffe', '﷽', '\u202e', '\u2066', '¼', '²', 'ª', '·']));
  }
}

export function lines(seed, n, specials) {
  const r = new Random(seed);
  // Begin with what users have reported, and the ends of things.
  const out = ['', ' ', '\n', 'a', '\u0301', 'a' + '\u0301'.repeat(800),
    Array.from({ length: 800 }, (_, i) => String.fromCodePoint(0x300 + (i * 7) % 0x70)).join(''),
    '[' + Array.from({ length: 800 }, (_, i) => String.fromCodePoint(0x483 + i % 5)).join('') + ']+',
    'x'.repeat(20000), ' '.repeat(20000), '\n'.repeat(20000), '\r\n'.repeat(9000) + ' ',
    ' '.repeat(9999) + 'x', 'こんにちは'.repeat(1000), '\u{10ffff}\u{1f600}', ...specials];
  while (out.length < n) out.push(r.some(7, () => piece(r, specials)).toWellFormed());
  return out;
}
