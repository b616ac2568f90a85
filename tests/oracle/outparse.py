#!/usr/bin/python3
# tags: timeout=300 one-thread
"""Round trips of tool calls: jinja2 renders a turn with the model's template, outparse reads it.

    tests/oracle/outparse.py [--build DIR] [--template FILE] [--cases N] [--seed N]

Every case renders an assistant turn (reasoning, text, calls with random typed arguments), takes
what the model would have written, and feeds it cut into random pieces. Reasoning, text, names and
arguments must come back as they went in, for every way of cutting; damaged copies (cut off,
closing tags dropped or doubled) must still give every call, and the same events however cut.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from template import ROOT, make_environment, program  # noqa: E402

TYPES = {"string": {"type": "string"}, "integer": {"type": "integer"}, "number": {"type": "number"},
         "boolean": {"type": "boolean"}, "object": {"type": "object"}, "array": {"type": "array"},
         "optional": {"anyOf": [{"type": "string"}, {"type": "null"}]},
         "ref": {"$ref": "#/$defs/point"}, "ints": {"type": "array", "items": {"type": "integer"}},
         "word": {"enum": ["fast", "slow"]}, "either": {"oneOf": [{"type": "integer"},
                                                                  {"type": "boolean"}]},
         "all": {"allOf": [{"type": "string"}, {"minLength": 0}]}, "untyped": {}}
DEFS = {"point": {"type": "object", "properties": {"x": {"type": "number"}}}}
PIECES = ["a", "Wörld", "\n", "\n\n", " ", "<b>x</b>", "</parameter>", "<parameter=city>", "</function>",
          "<tool_call>", "</think>", "<", "</", "\"quoted\"", "\\n", "日本", "\U0001f600", "\t", "{\"a\": 1}",
          "print('</parameter>')", "0", "02134", "null", "true", "<function=", "if a < b:\n    c()", "\x07",
          "</tool_call> x", "&amp;", "'", "1e5", "\r\n", "</parameter> and", "\u2028"]


class Driver:
    def __init__(self, build):
        self.process = subprocess.Popen([program(build, "outparse_driver")], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, text, tools, in_reasoning, cuts):
        request = {"text": text, "tools": tools, "in_reasoning": in_reasoning, "cuts": cuts}
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"the driver died on {request!r}")
        answer = json.loads(answer)
        answer.pop("events")
        return answer


class Cases:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self):
        return "".join(self.r.choice(PIECES) for _ in range(self.r.randint(0, 6)))

    def value(self, kind):
        r = self.r
        if kind in ("string", "all", "untyped"):
            return self.text()
        if kind == "optional":
            return None if r.random() < 0.3 else "s" + self.text()
        if kind == "integer":
            return r.choice([0, 5, -7, 10 ** 20])
        if kind == "number":
            return r.choice([1, 2.5, -0.125, 1e100])
        if kind == "boolean":
            return r.random() < 0.5
        if kind in ("object", "ref"):
            return {"x": r.choice([1, 2.5]), **({self.text(): self.text()} if kind == "object" else {})}
        if kind == "array":
            return [self.text(), 1, None, {"k": [True]}]
        if kind == "ints":
            return [1, 2, 3]
        if kind == "word":
            return r.choice(["fast", "slow"])
        return r.choice([3, True])

    def tool(self, name):
        keys = [f"p{i}_{kind}" for i, kind in enumerate(self.r.sample(list(TYPES), self.r.randint(0, 6)))]
        properties = {key: TYPES[key.split("_")[1]] for key in keys}
        return {"type": "function", "function": {"name": name, "parameters": {
            "type": "object", "properties": properties, "$defs": DEFS}}}

    def cuts(self, n):
        how = self.r.random()
        if how < 0.2:
            return list(range(1, n))
        return sorted(self.r.sample(range(n + 1), min(n, self.r.randint(0, 12))))


def is_ambiguous(value):
    """Text that no reader could tell from the end of the value."""
    if not isinstance(value, str):
        return False
    value = value + "\n"
    for tag in ("</parameter>", "</function>", "</tool_call>"):
        at = value.find(tag)
        while at >= 0:
            rest = value[at + len(tag):].lstrip(" \t\r\n")
            if not rest or any(rest.startswith(x) for x in ("</parameter>", "</function>", "</tool_call>",
                                                            "<parameter=", "<tool_call>", "<function=")):
                return True
            at = value.find(tag, at + 1)
    return "<tool_call>" in value and "<function=" in value


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("RIPTIDE_BUILD", "build"))
    parser.add_argument("--template", default=os.path.join(ROOT, "models/mini-dense/chat_template.jinja"))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    args = parser.parse_args()
    template = make_environment().from_string(open(args.template, newline="").read())
    driver = Driver(args.build)
    cases = Cases(args.seed)
    counts = {"round trips": 0, "left out": 0, "damaged": 0, "bad": 0}
    for _ in range(args.cases):
        tools = [cases.tool(name) for name in ("alpha", "beta_2")]
        calls = []
        for _ in range(cases.r.randint(0, 3)):
            tool = cases.r.choice(tools)["function"]
            arguments = {key: cases.value(key.split("_")[1]) for key in tool["parameters"]["properties"]
                         if cases.r.random() < 0.8}
            calls.append({"type": "function", "function": {"name": tool["name"], "arguments": arguments}})
        reasoning, content = cases.r.choice(["", "Let me think.\nAgain <b>"]), cases.r.choice(["", "Sure:"])
        turn = {"role": "assistant", "content": content, "reasoning_content": reasoning, "tool_calls": calls}
        user = {"role": "user", "content": "x"}
        prompt = template.render(messages=[user], tools=None, add_generation_prompt=True)
        text = template.render(messages=[user, turn], tools=None, add_generation_prompt=False)
        assert text.startswith(prompt)
        text = text[len(prompt):].removesuffix("<|im_end|>\n")
        whole = driver.ask(text, tools, True, [])
        cut_text = driver.ask(text, tools, True, byte_cuts(cases, text))
        if whole != cut_text:
            report(counts, "cutting matters", text, whole, cut_text)
        values = [v for c in calls for v in c["function"]["arguments"].values()]
        if any(is_ambiguous(v) or is_untellable(v) for v in values):
            counts["left out"] += 1
        else:
            want = {"reasoning": reasoning, "content": content, "calls": [
                {"name": c["function"]["name"], "arguments": c["function"]["arguments"],
                 "complete": True} for c in calls]}
            got = {**whole, "calls": [{**c, "arguments": json.loads(c["arguments"])}
                                      for c in whole["calls"]]}
            counts["round trips"] += 1
            if got != want or json.dumps(got) != json.dumps(want):
                report(counts, "round trip", text, want, got)
        damage(counts, cases, driver, tools, text, len(calls))
    print(("not ok" if counts["bad"] else "ok") + f" tool_calls seed {args.seed}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(1 if counts["bad"] else 0)


def is_untellable(value):
    """An optional string that looks like null, or one whose outer newlines are not its own."""
    return isinstance(value, str) and (value.strip() in ("null", "None") or value.endswith("\r"))


def byte_cuts(cases, text):
    # The driver gets code points decoded from JSON but cuts bytes: offsets are into UTF-8.
    return cases.cuts(len(text.encode()))


def damage(counts, cases, driver, tools, text, n_calls):
    r = cases.r
    how = r.random()
    if how < 0.4:
        broken = text[:r.randint(0, len(text))]
    else:
        tag = r.choice(["</parameter>\n", "</function>\n", "</tool_call>", "</think>"])
        broken = text.replace(tag, r.choice(["", tag + tag]), r.choice([1, -1]))
    whole = driver.ask(broken, tools, True, [])
    cut = driver.ask(broken, tools, True, byte_cuts(cases, broken))
    counts["damaged"] += 1
    if whole != cut:
        report(counts, "cutting damaged text matters", broken, whole, cut)
    for call in whole["calls"]:
        if not isinstance(json.loads(call["arguments"]), dict):
            report(counts, "arguments", broken, None, whole)


def report(counts, what, text, want, got):
    counts["bad"] += 1
    if counts["bad"] <= 10:
        print(f"BAD {what}\n  text: {text!r}\n  want: {want}\n  got:  {got}")


if __name__ == "__main__":
    main()
