// Why the masks may differ at a byte. Each rule proves its case from the text and the schema alone
// and says which side is right; what no rule proves is a failure.
import { bounds, constantTexts, may } from './xgrammar_place.mjs';

// Whether some bytes behind `text` (chars 0 to 255) make it well-formed UTF-8.
function isUtf8Start(text) {
  try {
    new TextDecoder('utf-8', { fatal: true }).decode(Buffer.from(text, 'latin1'), { stream: true });
    return true;
  } catch {
    return false;
  }
}

// Whether an escape of a surrogate stands alone, however the text goes on.
function hasLoneSurrogate(body) {
  const plain = body.replace(/\\[^u]/g, '..');
  return /\\u[dD][89abAB]..(?!\\u[dD][c-fC-F]|\\u[dD]$|\\u$|\\$|$)/.test(plain) ||
    /(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]/.test(plain);
}

const isInEscape = (body) => /(^|[^\\])(\\\\)*\\(u[0-9a-fA-F]{0,3})?$/.test(body);
// Whether what ends here may be the one spelling of an escape that JSON demands: the short one of a
// quote, a backslash or a control character, \u00xx in small letters for those without a short one.
const isDemanded = (body) =>
  /\\(["\\bfnrt]|u|u0|u00|u00[01]|u000[0-7be-f]|u001[0-9a-f])$/.test(body);

// Whether an integer of [low, high] begins with these digits (all of it: is them).
function isIntegerStart(text, [low, high], all) {
  if (!/^-?(0|[1-9][0-9]*)?$/.test(text) || text === '') return false;
  if (text === '-') return !all && (low < 0 || high >= 0) && low <= 0; // -1 or -0
  const value = Number(text), sign = text[0] === '-' ? -1 : 1, most = all || value === 0 ? 0 : 20;
  for (let digits = 0, power = 1; digits <= most; digits++, power *= 10) {
    const ends = [value * power, value * power + sign * (power - 1)].sort((x, y) => x - y);
    if (ends[0] <= high && ends[1] >= low) return true;
  }
  return false;
}

const isCounted = (s) => 'minLength' in s || 'maxLength' in s;
const isNumber = (at, c) => at.kind === 'number' || (at.kind === 'value' && /[-0-9]/.test(c));
const endsNumber = (c) => /^[,}\]]?$/.test(c);
const isBounded = (s) => may(s, 'integer') && bounds(s).some(Number.isFinite);

// Whether an alternative goes on with c, or, where c ends numbers, can end.
function isViable({ body, leaves }, c) {
  const all = !/[-0-9]/.test(c), text = all ? body : body + c;
  const number = all ? /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/
                     : /^-?((0|[1-9]\d*)(\.\d*)?([eE][-+]?\d*)?)?$/;
  return leaves.some((s) => (may(s, 'number') && number.test(text)) ||
    (may(s, 'integer') && isIntegerStart(text, bounds(s), all)) ||
    constantTexts(s).some((t) => (all ? t === text : t.startsWith(text))));
}

export const AGAIN = 'declared name again';

// at      the place before the byte; c the byte as a char, '' for the end token
// isOurs  whether ours allows it, and theirs does not
export const RULES = [
  {
    name: 'ill-formed UTF-8',
    why: 'theirs lets bytes pass that are no UTF-8, however they go on; ours does not',
    holds: (at, c, isOurs) => !isOurs && c !== '' && !isUtf8Start(at.body + c),
  },
  {
    name: 'lone surrogate',
    why: 'theirs takes any four digits in \\uXXXX; ours wants surrogates in pairs, as UTF-8 can hold them',
    holds: (at, c, isOurs) => !isOurs && at.kind !== 'other' && hasLoneSurrogate(at.body + c),
  },
  {
    name: 'escape in a name',
    why: 'ours writes escapes in additional names only where JSON demands them, so that a name has one spelling',
    holds: (at, c, isOurs) => !isOurs && at.kind === 'name' && isInEscape(at.body) && !isDemanded(at.body + c),
  },
  {
    name: AGAIN,
    why: 'theirs takes a declared name also as an additional one, twice or with the schema of those',
    holds: (at, c, isOurs) => !isOurs && at.kind === 'name' && c === '"' &&
      at.leaves.some((s) => s.additionalProperties !== false &&
        Object.keys(s.properties ?? {}).includes(Buffer.from(at.body, 'latin1').toString())),
  },
  {
    name: 'control character in a counted string',
    why: 'theirs has no escapes under minLength and maxLength but raw control characters, which JSON forbids',
    holds: (at, c, isOurs) => !isOurs && at.kind === 'string' && c !== '' && c < ' ' && at.leaves.some(isCounted),
  },
  {
    name: 'escape in a counted string',
    why: 'the same from the other side: ours takes any escape there, as in other strings',
    holds: (at, c, isOurs) => isOurs && at.kind === 'string' && c === '\\' && at.leaves.some(isCounted),
  },
  {
    name: 'constants',
    why: 'where one constant begins another, theirs may end any of them with its last characters; ours has none but the constants',
    holds: (at, c, isOurs) => !isOurs && at.constants?.some((t) => t.startsWith(at.written)) &&
      c !== '' && !(/[,}\]]/.test(c) && at.constants.includes(at.written)) &&
      !at.constants.some((t) => t.startsWith(at.written + c)),
  },
  {
    name: 'minus zero',
    why: 'ours takes -0 for an integer, as the specification does; theirs only for a number',
    holds: (at, c, isOurs) => isOurs && isNumber(at, c) && (endsNumber(c) ? at.body : at.body + c) === '-0' &&
      at.leaves.some((s) => may(s, 'integer') && isIntegerStart('-0', bounds(s), true)),
  },
  {
    name: 'bounds of integers',
    why: 'their ranges let integers out of the bounds pass or leave some within out; ours is right by arithmetic',
    holds: (at, c, isOurs) => isNumber(at, c) && /^[-0-9,}\]]?$/.test(c) && at.leaves.some(isBounded) &&
      isViable(at, c) === isOurs,
  },
];

export function explain(at, c, isOurs) {
  return RULES.find((rule) => rule.holds(at, c, isOurs));
}
