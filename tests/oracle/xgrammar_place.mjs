// Where in a value an unfinished compact JSON text ends, and which schemas speak of that place.

// The alternatives of a schema, none of them a reference or a union.
function leaves(root, schemas, seen = new Set()) {
  return schemas.flatMap((s) => {
    if (s === true) return [{}];
    if (s === false || s === undefined || seen.has(s)) return [];
    const inside = new Set(seen).add(s);
    if (s.$ref) return leaves(root, [root.$defs[s.$ref.split('/').at(-1)]], inside);
    if (s.anyOf) return leaves(root, s.anyOf, inside);
    return [s];
  });
}

const isConstant = (s) => 'enum' in s || 'const' in s;
const isFree = (s) => !s.type && !isConstant(s);
export const may = (s, type) => isFree(s) || [s.type].flat().includes(type);

// Their compact texts; none for an alternative that is not some constants.
export const constantTexts = (s) =>
  (isConstant(s) ? s.enum ?? [s.const] : []).map((v) => Buffer.from(JSON.stringify(v)).toString('latin1'));

export function bounds(s) {
  const low = Math.max(s.minimum ?? -Infinity, (s.exclusiveMinimum ?? -Infinity) + 1);
  const high = Math.min(s.maximum ?? Infinity, (s.exclusiveMaximum ?? Infinity) - 1);
  return [low, high];
}

// Whether an alternative takes a string, number, boolean or null.
function takes(s, value) {
  if (isFree(s)) return true;
  if (isConstant(s)) return (s.enum ?? [s.const]).some((v) => JSON.stringify(v) === JSON.stringify(value));
  if (typeof value === 'string') {
    const n = [...value].length;
    return may(s, 'string') && n >= (s.minLength ?? 0) && n <= (s.maxLength ?? Infinity) &&
      new RegExp(s.pattern ?? '', 'u').test(value);
  }
  if (typeof value !== 'number') return may(s, value === null ? 'null' : 'boolean');
  const [low, high] = bounds(s);
  return may(s, 'number') || (may(s, 'integer') && Number.isInteger(value) && value >= low && value <= high);
}

const isDeclared = (s, name) => Object.hasOwn(s.properties ?? {}, name);

function member(s, name) {
  if (isFree(s)) return {};
  if (!may(s, 'object')) return undefined;
  return isDeclared(s, name) ? s.properties[name] : s.additionalProperties ?? true;
}

function element(s, index) {
  if (isFree(s)) return {};
  return may(s, 'array') ? s.prefixItems?.[index] ?? s.items ?? true : undefined;
}

// text    bytes as a string of chars 0 to 255, a prefix of a compact JSON value
// Returns { kind, body, leaves }: kind is 'string', 'name', 'number', 'value' (none has begun) or
//         'other'; body the chars of it so far; leaves the alternatives for this value, for a name
//         those of its object. Within a value (or string) that must be one of some constants also
//         { constants, written }: their texts, and what there is of it. again: for each open member
//         with a declared name, { schemas, written }: what additional ones may be, and its text
export function place(root, text) {
  const stack = [];
  let now = leaves(root, [root]), kind = 'value', body = '', isEscaped = false, start = 0, at = 0;
  const down = (pick) => {
    now = leaves(root, stack.at(-1).leaves.map(pick));
    kind = 'value';
    start = at + 1;
  };
  const leave = () => {
    stack.pop();
    kind = 'after';
  };
  const child = (s, top) => (top.isArray ? element(s, top.index) : member(s, top.name));
  const parse = (bytes) => JSON.parse(Buffer.from(bytes, 'latin1').toString());
  // A scalar has ended: alternatives of what holds it that do not take it are none any longer.
  const endScalar = (value) => {
    const top = stack.at(-1);
    const isTaken = (s) => isConstant(s) || leaves(root, [child(s, top)]).some((l) => takes(l, value));
    if (top) top.leaves = top.leaves.filter(isTaken);
  };
  for (; at < text.length; at++) {
    const c = text[at];
    if (kind === 'string' || kind === 'name') {
      if (c === '"' && !isEscaped) {
        if (kind === 'name') stack.at(-1).name = parse(`"${body}"`);
        else endScalar(parse(`"${body}"`));
        kind = kind === 'name' ? 'colon' : 'after';
        continue;
      }
      isEscaped = c === '\\' && !isEscaped;
      body += c;
      continue;
    }
    if ((kind === 'number' && /[-+.0-9eE]/.test(c)) || (kind === 'literal' && /[a-z]/.test(c))) {
      body += c;
      continue;
    }
    const top = stack.at(-1);
    if (kind === 'number' || kind === 'literal') endScalar(parse(body));
    body = '';
    if (c === '"') kind = kind === 'key' ? 'name' : 'string';
    else if (c === ':') {
      down((s) => member(s, top.name));
      top.start = at + 1;
      top.again = top.leaves.filter((s) => isDeclared(s, top.name) && s.additionalProperties !== false)
        .map((s) => s.additionalProperties ?? true);
    } else if (c === '{' || c === '[') {
      stack.push({ leaves: now, whole: start, index: 0, isArray: c === '[', again: [] });
      kind = 'key';
      if (c === '[') down((s) => element(s, 0));
    } else if (c === '}' || c === ']') leave();
    else if (c === ',' && top.isArray) {
      top.index++;
      down((s) => element(s, top.index));
    } else if (c === ',') kind = 'key';
    else {
      kind = /[-0-9]/.test(c) ? 'number' : 'literal';
      body = c;
    }
  }
  const isOpen = ['string', 'name', 'number', 'value'].includes(kind);
  const open = now.filter((s) => kind !== 'string' || isConstant(s) || may(s, 'string'));
  const fixed = [...stack, { leaves: open, whole: start }].find((v) => v.leaves.length > 0 && v.leaves.every(isConstant));
  return {
    kind: isOpen ? kind : 'other', body: isOpen ? body : '', leaves: kind === 'name' ? stack.at(-1).leaves : now,
    ...(fixed && { constants: fixed.leaves.flatMap(constantTexts), written: text.slice(fixed.whole) }),
    again: stack.filter((v) => v.again.length > 0).map((v) => ({ schemas: v.again, written: text.slice(v.start) })),
  };
}
