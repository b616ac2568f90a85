#!/usr/bin/env python3
# tags: timeout=120 one-thread
"""Random schemas and values: the automaton and our judge against the npm package ajv.

Values that ajv calls valid must be accepted by the automaton in some order of their properties, the
others refused in all; what the automaton makes by itself must be valid for ajv.
"""
import itertools
import json
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import schema_suite  # noqa: E402

ROOT = os.environ.get("RIPTIDE_ROOT", os.getcwd())
SCHEMAS, VALUES, MADE = 150, 25, 6
NAMES = ["a", "b", "c", "xa", "xb", "\u00e9"]
PATTERNS = ["^a", "b$", "^[a-c]*$", "^(ab|c)+$", "^[^x]{1,3}$", "\\d", "^x.?$"]
LETTERS = ["a", "b", "c", "x", "1", "ab", "\u00e9", "\U0001f600", "\n", "\"", "\\"]


class Ajv:
    def __init__(self):
        self.process = subprocess.Popen(
            ["node", "schema_ajv.mjs"], cwd=os.path.join(ROOT, "tests/oracle"), text=True,
            encoding="utf-8", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    def ask(self, schema, values):
        self.process.stdin.write(json.dumps({"schema": schema, "values": values}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


def schema_string(r):
    s = {"type": "string"}
    if r.random() < 0.4:
        s["maxLength"] = r.randrange(5)
    if r.random() < 0.3:
        s["minLength"] = r.randrange(3)
    if r.random() < 0.4:
        s["pattern"] = r.choice(PATTERNS)
    return s


def schema_number(r):
    s = {"type": r.choice(["integer", "number"])}
    for key in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if r.random() < 0.25:
            s[key] = r.choice([-10, -1, 0, 1, 2.5, 7, 100])
    if r.random() < 0.2:
        s["multipleOf"] = r.choice([1, 2, 3, 0.5])
    return s


def schema_array(r, depth):
    s = {"type": "array"}
    if r.random() < 0.8:
        s["items"] = schema(r, depth - 1)
    if r.random() < 0.3:
        s["prefixItems"] = [schema(r, depth - 1) for _ in range(r.randrange(1, 3))]
    if r.random() < 0.4:
        s["minItems"] = r.randrange(3)
    if r.random() < 0.4:
        s["maxItems"] = r.randrange(4)
    return s


def schema_object(r, depth):
    names = r.sample(NAMES, r.randrange(4))
    s = {"type": "object", "properties": {n: schema(r, depth - 1) for n in names}}
    if r.random() < 0.5:
        s["required"] = r.sample(NAMES, r.randrange(2)) if r.random() < 0.3 else \
            [n for n in names if r.random() < 0.5]
    if r.random() < 0.6:
        s["additionalProperties"] = r.choice([False, False, schema(r, depth - 1)])
    if r.random() < 0.2:
        s["patternProperties"] = {r.choice(["^x", "b"]): schema(r, depth - 1)}
    if r.random() < 0.15:
        s["propertyNames"] = {"maxLength": 1} if r.random() < 0.7 else {"enum": ["a", "xb"]}
    if r.random() < 0.2:
        s["minProperties"] = r.randrange(3)
    if r.random() < 0.2:
        s["maxProperties"] = r.randrange(4)
    return s


def schema(r, depth):
    kind = r.randrange(13 if depth > 0 else 6)
    if kind == 0:
        return {"type": r.choice(["null", "boolean", ["string", "null"], ["integer", "boolean"]])}
    if kind == 1:
        return r.choice([{"enum": ["a", "b", 1, 2.5, None, [1], {"a": 1}]}, {"const": "ab"},
                         {"enum": ["a", "ab", "abc"], "maxLength": 2}])
    if kind in (2, 3):
        return schema_string(r)
    if kind in (4, 5):
        return schema_number(r)
    if kind in (6, 7):
        return schema_array(r, depth)
    if kind in (8, 9):
        return schema_object(r, depth)
    if kind == 10:
        return {"anyOf": [schema(r, depth - 1) for _ in range(r.randrange(1, 4))]}
    if kind == 11:
        return {"allOf": [schema_object(r, depth - 1), schema_object(r, depth - 1)]}
    return r.choice([{"$ref": "#/$defs/d"}, True,
                     {"oneOf": [schema_string(r), {"type": "null"}, schema_array(r, depth - 1)]},
                     {"minimum": 3, "maxLength": 2}])


def value(r, depth):
    kind = r.randrange(8 if depth > 0 else 5)
    if kind == 0:
        return r.choice([None, True, False])
    if kind in (1, 2):
        return "".join(r.choice(LETTERS) for _ in range(r.randrange(4)))
    if kind in (3, 4):
        return r.choice([-11, -1, 0, 1, 2, 2.5, 3, 6, 7, 7.25, 100, 12345678901])
    if kind == 5:
        return [value(r, depth - 1) for _ in range(r.randrange(4))]
    return {n: value(r, depth - 1) for n in r.sample(NAMES, r.randrange(4))}


def like(r, s, root, depth):
    """A value that has a chance to be valid."""
    if depth < 0 or not isinstance(s, dict) or r.random() < 0.08:
        return value(r, 2)
    if "$ref" in s:
        return like(r, root["$defs"]["d"], root, depth - 1)
    for key in ("enum", "anyOf", "oneOf", "allOf"):
        if key in s:
            one = r.choice(s[key])
            return one if key == "enum" else like(r, one, root, depth - 1)
    if "const" in s:
        return s["const"]
    kind = s.get("type")
    kind = r.choice(kind) if isinstance(kind, list) else kind
    if kind == "array":
        prefix = s.get("prefixItems", [])
        n = r.randrange(s.get("minItems", 0), max(s.get("maxItems", 3), s.get("minItems", 0)) + 1)
        return [like(r, prefix[i] if i < len(prefix) else s.get("items", True), root, depth - 1)
                for i in range(n)]
    if kind == "object":
        names = [n for n in s.get("properties", {}) if n in s.get("required", []) or r.random() < 0.5]
        names += [n for n in s.get("required", []) if n not in names]
        if r.random() < 0.3:
            names.append(r.choice(NAMES))
        other = s.get("additionalProperties", True)
        return {n: like(r, s.get("properties", {}).get(n, other), root, depth - 1) for n in names}
    if kind == "string":
        return "".join(r.choice(LETTERS) for _ in range(r.randrange(s.get("minLength", 0), 5)))
    if kind in ("integer", "number"):
        return r.choice([-1, 0, 1, 2, 3, 6, 7, 12, 2.5, 99])
    return {"null": None, "boolean": r.random() < 0.5}.get(kind, value(r, 1))


def numbers(v):
    """For schema_suite.texts, which wants numbers with their source."""
    if isinstance(v, bool) or v is None or isinstance(v, str):
        return v
    if isinstance(v, list):
        return [numbers(x) for x in v]
    if isinstance(v, dict):
        return {k: numbers(x) for k, x in v.items()}
    return schema_suite.Number(json.dumps(v))


def is_exact(v):
    """Whether JavaScript's numbers can tell this value from its neighbours."""
    if isinstance(v, dict):
        return all(is_exact(x) for x in v.values())
    if isinstance(v, list):
        return all(is_exact(x) for x in v)
    return not isinstance(v, (int, float)) or (abs(v) < 1e15 and len(repr(v)) < 15)


def has_no_twins(text):
    """Whether no object names a member twice, which a count of members would not see."""
    twins = []
    json.loads(text, object_pairs_hook=lambda p: twins.append(len(p) != len(dict(p))) or dict(p))
    return not any(twins)


def one_schema(r, probe, ajv, count):
    root = schema(r, 3)
    if not isinstance(root, dict):
        return None
    root = dict(root, **{"$defs": {"d": schema_object(r, 1)}})
    values = [like(r, root, root, 4) for _ in range(VALUES)]
    candidates = [list(itertools.islice(schema_suite.texts(numbers(v)), 400)) for v in values]
    said = probe.ask({"schema": root, "texts": [c for own in candidates for c in own],
                      "values": values, "generate": [r.randrange(1 << 40), MADE]})
    judged = ajv.ask(root, values)
    if isinstance(judged, str):
        return None
    if said["status"] not in ("OK", "INVALID"):
        count["refused"] += 1
        return None if said["status"] == "UNSUPPORTED" else "%s %s" % (said["status"], said["msg"])
    at = 0
    for v, own, valid, ours in zip(values, candidates, judged, said["valid"]):
        took = any(said["accepts"][at:at + len(own)])
        at += len(own)
        count["valid" if valid else "invalid"] += 1
        if said["check"] == "OK" and ours != valid:
            return "judge %s, ajv %s: %s" % (ours, valid, json.dumps(v))
        if took != valid and (took or len(own) < 400):
            return "automaton %s, ajv %s: %s" % (took, valid, json.dumps(v))
    texts = [t for t in said.get("made", []) if is_exact(json.loads(t)) and has_no_twins(t)]
    count["made"] += len(texts)
    for text, valid in zip(texts, ajv.ask(root, [json.loads(t) for t in texts])):
        if not valid:
            return "made %s, ajv calls it invalid" % text
    return None


def main():
    if not os.path.isdir(os.path.join(ROOT, "tests/oracle/node_modules/ajv")):
        print("skip ajv the npm package ajv is missing")
        return
    seed = int(os.environ.get("RIPTIDE_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    print("RIPTIDE_TEST_SEED=%d" % seed)
    r = random.Random(seed)
    probe, ajv = schema_suite.Probe(), Ajv()
    count = {"valid": 0, "invalid": 0, "made": 0, "refused": 0}
    for i in range(SCHEMAS):
        state = r.getstate()
        wrong = one_schema(r, probe, ajv, count)
        if wrong:
            r.setstate(state)
            root = schema(r, 3)
            print(json.dumps(root))
            print(wrong)
            print("not ok ajv schema %d" % i)
            return
    print(count)
    enough = count["valid"] > 200 and count["invalid"] > 200 and count["made"] > 100
    print("%s ajv" % ("ok" if enough else "not ok"))


if __name__ == "__main__":
    main()
