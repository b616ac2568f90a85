// Random schemas in what both sides take. Left out on purpose, because xgrammar reads them otherwise
// and no option changes that (src/grammar/README.md): patterns without both anchors or with negated
// sets, a pattern beside lengths, arrays that may end within prefixItems, bounds of fractions, names
// with a quote (its own parser aborts on them).

const NAMES = ['a', 'b', 'ab', 'abc', 'name', 'id', 'x y', 'é'];
const PATTERNS = ['^[a-c]+$', '^(a|bc)*\\.(c|h)$', '^\\d{2,4}-[a-z_]{1,3}$', '^x?(yz){1,3}$', '^[0-9A-F]{4}$',
  '^(on|off)?$', '^[a-z][a-z0-9_]{0,7}$', '^(é|ü|\\u4e00)+$'];
const CONSTANTS = ['a', 'ab', 'abc', 'red', 'green', 'é', 'q"\n', '', 1, 12, 120, -3, 0, 0.5, null, true, false,
  [1, 'a'], { a: 1, b: [] }, {}, []];

const times = (n, make) => Array.from({ length: n }, make);
const chance = (r, percent) => r.below(100) < percent;

function some(r, list, most) {
  const rest = [...list];
  return times(r.between(1, most), () => rest.splice(r.below(rest.length), 1)[0]);
}

function string(r) {
  const s = { type: 'string' };
  if (chance(r, 35)) return { ...s, pattern: r.pick(PATTERNS) };
  if (chance(r, 30)) s.minLength = r.between(1, 3);
  if (chance(r, 40)) s.maxLength = (s.minLength ?? 0) + r.below(6);
  return s;
}

function number(r) {
  if (chance(r, 25)) return { type: 'number' };
  const s = { type: 'integer' };
  const low = r.pick([-1200, -37, -10, -1, 0, 1, 7, 10, 99, 100, 1995]);
  if (chance(r, 40)) s[r.pick(['minimum', 'minimum', 'exclusiveMinimum'])] = low;
  if (chance(r, 40)) s[r.pick(['maximum', 'maximum', 'exclusiveMaximum'])] = low + r.between(2, 1300);
  return s;
}

function array(r, depth, refs) {
  const s = { type: 'array', items: schema(r, depth - 1, refs) };
  if (chance(r, 25)) {
    s.prefixItems = times(r.between(1, 2), () => schema(r, depth - 1, refs));
    s.minItems = s.prefixItems.length + r.below(2);
    if (chance(r, 30)) {
      s.items = false;
      s.minItems = s.prefixItems.length;
    } else if (chance(r, 40)) s.maxItems = s.minItems + r.below(3);
    return s;
  }
  if (chance(r, 40)) s.minItems = r.below(4);
  if (chance(r, 50)) s.maxItems = (s.minItems ?? 0) + r.below(4);
  return s;
}

function object(r, depth, refs) {
  const names = chance(r, 10) ? [] : some(r, NAMES, 4);
  const s = { type: 'object', properties: Object.fromEntries(names.map((n) => [n, schema(r, depth - 1, refs)])) };
  s.required = names.filter(() => chance(r, 50));
  if (chance(r, 65)) s.additionalProperties = false;
  else if (chance(r, 60)) s.additionalProperties = schema(r, depth - 1, refs);
  if (chance(r, 15) && s.additionalProperties === false && names.length > 1 && s.required.length === 0) {
    s.minProperties = r.between(1, 2);
    if (chance(r, 50)) s.maxProperties = s.minProperties + r.below(2);
  }
  return s;
}

// refs: names of $defs that may stand here
export function schema(r, depth, refs) {
  const kind = r.below(depth > 0 ? 16 : 8);
  if (kind === 0) return { type: r.pick(['null', 'boolean', ['string', 'null'], ['integer', 'boolean', 'null']]) };
  if (kind === 1) return chance(r, 30) ? { const: r.pick(CONSTANTS) } : { enum: some(r, CONSTANTS, 5) };
  if (kind <= 4) return string(r);
  if (kind <= 7) return number(r);
  if (kind <= 9) return array(r, depth, refs);
  if (kind <= 12) return object(r, depth, refs);
  if (kind <= 14) return { anyOf: times(r.between(2, 3), () => schema(r, depth - 1, refs)) };
  return refs.length > 0 && chance(r, 80) ? { $ref: `#/$defs/${r.pick(refs)}` } : {};
}

// A tree and a list that hold themselves, each of which can end, and one schema around them.
export function rootSchema(r) {
  const refs = ['tree', 'list'];
  const top = r.pick([object, object, array, (...args) => schema(...args)])(r, 3, refs);
  if (!JSON.stringify(top).includes('"$ref"')) return top;
  return {
    ...top,
    $defs: {
      tree: {
        type: 'object', properties: { v: schema(r, 0, []), next: { $ref: '#/$defs/tree' } },
        required: ['v'], additionalProperties: false,
      },
      list: { anyOf: [schema(r, 0, []), { type: 'array', items: { $ref: '#/$defs/list' }, maxItems: r.between(1, 3) }] },
    },
  };
}
