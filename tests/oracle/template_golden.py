#!/usr/bin/python3
# tags: library
"""Writes tests/golden/template/*.jsonl with python3-jinja2: tests/oracle/template_golden.py

mini.jsonl       the bundled template: a first line with tools and kwargs, then one conversation a
                 line {name, messages, tools, kwargs (indices), text or error}
language.jsonl   one template a line {template, text or error}; the first line has the variables
Review the diff before committing: these files are what the unit tests believe."""
import json
import os

import template
import template_cases as cases

FOLDER = os.path.join(template.ROOT, "tests", "golden", "template")


def write(name, lines):
    with open(os.path.join(FOLDER, name), "w", encoding="utf-8") as f:
        for line in lines:
            f.write(json.dumps(line, ensure_ascii=False) + "\n")


def outcome(env, cache, source, variables):
    text, error = template.python_render(env, cache, source, variables)
    return {"text": text} if error is None else {"error": type(error).__name__}


def mini(env):
    source = open(os.path.join(template.ROOT, "models/mini-dense/chat_template.jinja")).read()
    tools = [None, [cases.WEATHER], [cases.COMPLEX, cases.NO_PARAMETERS]]
    kwargs = [{}, {"enable_thinking": False}]
    yield {"tools": tools, "kwargs": kwargs}
    for i, (name, messages) in enumerate(cases.message_sets()):
        for t, k in ((0, 0), (1, 1), (2, 0)) if i % 5 == 0 else ((i % 3, i % 2),):
            variables = {"messages": messages, "tools": tools[t], "documents": None,
                         "add_generation_prompt": True, **kwargs[k]}
            yield {"name": name, "messages": messages, "tools": t, "kwargs": k,
                   **outcome(env, {}, source, variables)}


def language(env):
    variables = cases.fuzz_variables()
    yield {"variables": variables}
    for source in cases.fixed_sources():
        if "strftime" not in source:
            yield {"template": source, **outcome(env, {}, source, variables)}
    generator = cases.Generator(20260101)
    for _ in range(250):
        source = generator.template()
        python = template.python_render(env, {}, source, variables)
        if len(source) < 600 and not cases.is_unfair(source, python) and \
                (python[0] is None or len(python[0]) < 600):
            yield {"template": source, **outcome(env, {}, source, variables)}


def main():
    env = template.make_environment()
    write("mini.jsonl", mini(env))
    write("language.jsonl", language(env))


if __name__ == "__main__":
    main()
