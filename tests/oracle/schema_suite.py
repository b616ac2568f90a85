#!/usr/bin/env python3
# tags: one-thread
"""The JSON Schema compiler and judge against the official JSON Schema test suite (Debian's
libtest-json-schema-acceptance-perl).

For each schema that is taken: every valid instance must be accepted by the automaton in some order
of its properties, written compactly with plain numbers; every invalid one must be refused in all
orders. The judge must agree with the suite wherever it does not say that it cannot. What is refused
as unsupported is counted; the counts are src/grammar/COVERAGE.md, which must be up to date
(`schema_suite.py --write` writes it).
"""
import decimal
import glob
import itertools
import json
import os
import random
import struct
import subprocess
import sys

ROOT = os.environ.get("RIPTIDE_ROOT", os.getcwd())
BUILD = os.environ.get("RIPTIDE_BUILD", "build")
SUITE = "/usr/share/perl5/auto/share/dist/Test-JSON-Schema-Acceptance/tests"
COVERAGE = os.path.join(ROOT, "src/grammar/COVERAGE.md")
DRAFTS = ["draft7", "draft2019-09", "draft2020-12"]
OPTIONAL = ["bignum", "ecmascript-regex", "non-bmp-regex", "float-overflow"]
FORMATS = ["date", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "json-pointer",
           "relative-json-pointer", "time", "uri", "uri-reference", "uuid"]
CANDIDATES = 1000

# (file, group, instance) that differ on purpose, with the reason. "*" is any.
EXCEPTIONS = [
    ("format", "*", "*", "formats are asserted here, the suite's main files take them as notes"),
    ("vocabulary", "*no validation vocabulary*", "*", "custom vocabularies are not read"),
    ("*", "*", "valid leap second*", "leap seconds only at 23:59:60 UTC"),
    ("*", "*", "*leap second*offset*", "leap seconds only at 23:59:60 UTC"),
    ("*", "*", "a valid date-time with a leap second, UTC", "leap seconds only with their zone"),
]


class Probe:
    def __init__(self):
        self.process = subprocess.Popen([os.path.join(ROOT, BUILD, "tests/oracle/schema_probe")],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, question):
        text = json.dumps(question, ensure_ascii=False, default=plain).encode("utf-8")
        return self.ask_text(text)

    def ask_text(self, text):
        self.process.stdin.write(struct.pack("<I", len(text)) + text)
        self.process.stdin.flush()
        head = self.process.stdout.read(4)
        if len(head) != 4:
            raise SystemExit("not ok schema_probe it ended at %r" % text[:300])
        return json.loads(self.process.stdout.read(struct.unpack("<I", head)[0]))


class Number:
    """A number with its source text."""
    def __init__(self, text):
        self.text = text


def plain(value):
    raise TypeError(value)


def load(path):
    with open(path, encoding="utf-8") as f:
        return json.load(f, parse_int=Number, parse_float=Number)


def number_text(text):
    """One form for each value: no exponent, no zeros at the end."""
    d = decimal.Context(prec=2000).create_decimal(text)
    if d == d.to_integral_value():
        return format(d.quantize(decimal.Decimal(1), context=decimal.Context(prec=2000)), "f") \
            if d else "0"
    return format(d.normalize(decimal.Context(prec=2000)), "f")


def source(v):
    """As it stands in the suite: for the schema and for the judge."""
    if isinstance(v, Number):
        return v.text
    if isinstance(v, dict):
        return "{" + ",".join(json.dumps(k, ensure_ascii=False) + ":" + source(x)
                              for k, x in v.items()) + "}"
    if isinstance(v, list):
        return "[" + ",".join(source(x) for x in v) + "]"
    return json.dumps(v, ensure_ascii=False)


def texts(v):
    """Every order of properties."""
    if isinstance(v, Number):
        yield number_text(v.text)
    elif isinstance(v, list):
        for parts in itertools.product(*[list(itertools.islice(texts(x), CANDIDATES)) for x in v]):
            yield "[" + ",".join(parts) + "]"
    elif isinstance(v, dict):
        for keys in itertools.permutations(v):
            own = [[json.dumps(k, ensure_ascii=False) + ":" + t
                    for t in itertools.islice(texts(v[k]), CANDIDATES)] for k in keys]
            for parts in itertools.product(*own):
                yield "{" + ",".join(parts) + "}"
    else:
        yield json.dumps(v, ensure_ascii=False)


def match(pattern, text):
    if pattern.startswith("*") or pattern.endswith("*"):
        parts = pattern.strip("*").split("*")
        at = 0
        for part in parts:
            at = text.find(part, at)
            if at < 0:
                return False
            at += len(part)
        return True
    return pattern == text


def exception(name, group, test):
    for f, g, t, reason in EXCEPTIONS:
        if match(f, name) and match(g, group) and match(t, test):
            return reason
    return None


def encodable(text):
    try:
        text.encode("utf-8")
        return True
    except UnicodeEncodeError:
        return False


class Count:
    def __init__(self):
        self.groups = self.taken = self.tests = self.judged = self.excepted = 0
        self.wrong, self.refused = [], {}


def check_group(probe, name, group, count):
    tests = [t for t in group["tests"] if encodable(source(t["data"]))]
    kept = []
    for t in tests:
        if exception(name, group["description"], t["description"]):
            count.excepted += 1
        else:
            kept.append(t)
    if not kept:
        return
    count.groups += 1
    candidates = [list(itertools.islice(texts(t["data"]), CANDIDATES)) for t in kept]
    flat = [c for own in candidates for c in own]
    question = '{"schema":%s,"texts":%s,"values":[%s]}' % (
        source(group["schema"]), json.dumps(flat, ensure_ascii=False),
        ",".join(source(t["data"]) for t in kept))
    said = probe.ask_text(question.encode("utf-8"))
    place = name + ": " + group["description"]
    if said["status"] in ("UNSUPPORTED", "LIMIT"):
        count.refused.setdefault(said["msg"] + " at " + said["where"].rsplit("/", 1)[-1], 0)
        count.refused[said["msg"] + " at " + said["where"].rsplit("/", 1)[-1]] += 1
    elif said["status"] in ("OK", "INVALID"):
        count.taken += 1
        at = 0
        for t, own in zip(kept, candidates):
            took = any(said["accepts"][at:at + len(own)])
            at += len(own)
            count.tests += 1
            if took != t["valid"]:
                count.wrong.append("%s: %s: automaton says %s" % (place, t["description"], took))
    else:
        count.wrong.append("%s: %s %s %s" % (place, said["status"], said["where"], said["msg"]))
    if said["check"] == "OK":
        for t, valid in zip(kept, said["valid"]):
            count.judged += 1
            if valid != t["valid"]:
                count.wrong.append("%s: %s: judge says %s" % (place, t["description"], valid))


def files(draft):
    for path in sorted(glob.glob(os.path.join(SUITE, draft, "*.json"))):
        yield os.path.basename(path)[:-5], path
    for name in OPTIONAL:
        path = os.path.join(SUITE, draft, "optional", name + ".json")
        if os.path.exists(path):
            yield "optional/" + name, path
    for name in FORMATS:
        path = os.path.join(SUITE, draft, "optional/format", name + ".json")
        if os.path.exists(path):
            yield "format/" + name, path


def table(rows):
    lines = ["# Coverage of the JSON Schema test suite", "",
             "Written by `tests/oracle/schema_suite.py --write` from the suite in Debian's",
             "libtest-json-schema-acceptance-perl; the same script checks it. A group is one schema with",
             "its instances. *taken*: compiled; *instances*: of those, all decided as the suite says;",
             "*judged*: instances that the judge of whole values decides, also for schemas not compiled;",
             "*left out*: on purpose, the reasons are in the script.", "",
             "| draft | file | groups | taken | instances | judged | left out |",
             "| --- | --- | --: | --: | --: | --: | --: |"]
    total = {}
    for draft, name, c in rows:
        lines.append("| %s | %s | %d | %d | %d | %d | %d |" % (
            draft, name, c.groups, c.taken, c.tests, c.judged, c.excepted))
        t = total.setdefault(draft, [0] * 5)
        for i, v in enumerate((c.groups, c.taken, c.tests, c.judged, c.excepted)):
            t[i] += v
    for draft, t in total.items():
        lines.append("| %s | **all** | %d | %d | %d | %d | %d |" % ((draft,) + tuple(t)))
    reasons = {}
    for _, _, c in rows:
        for why, n in c.refused.items():
            reasons[why] = reasons.get(why, 0) + n
    lines += ["", "Why groups are refused (message, last step of the JSON pointer):", "",
              "| reason | groups |", "| --- | --: |"]
    for why, n in sorted(reasons.items(), key=lambda x: (-x[1], x[0])):
        lines.append("| %s | %d |" % (why.replace("|", "\\|"), n))
    return "\n".join(lines) + "\n"


def main():
    random.seed(1)
    if not os.path.isdir(SUITE):
        print("skip suite the package libtest-json-schema-acceptance-perl is missing")
        return
    probe = Probe()
    rows = []
    for draft in DRAFTS:
        wrong, n = [], 0
        for name, path in files(draft):
            count = Count()
            for group in load(path):
                if draft == "draft7" and isinstance(group["schema"], dict):
                    group["schema"] = dict({"$schema": "http://json-schema.org/draft-07/schema#"},
                                           **group["schema"])
                check_group(probe, name, group, count)
            rows.append((draft, name, count))
            wrong += count.wrong
            n += count.tests
        for line in wrong:
            print(line)
        print("%s %s %d instances" % ("not ok" if wrong or n < 500 else "ok", draft, n))
    text = table(rows)
    if "--write" in sys.argv:
        with open(COVERAGE, "w", encoding="utf-8") as f:
            f.write(text)
    old = open(COVERAGE, encoding="utf-8").read() if os.path.exists(COVERAGE) else ""
    print("%s coverage" % ("ok" if old == text else "not ok"))


if __name__ == "__main__":
    main()
