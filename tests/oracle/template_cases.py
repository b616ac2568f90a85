# tags: library
"""Conversations, vectors and random templates for template.py."""
import itertools
import random
import re

# Stands in every string of the input and in no template.
INPUT_MARK = "Zmärk"

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "w",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"},
                                                    "days": {"type": "integer"}},
                   "required": ["city"]}}}

COMPLEX = {"type": "function", "function": {
    "name": "search_files",
    "description": "Compare if temp > 10 & humidity < 50 (user's choice) \"quoted\" " + INPUT_MARK,
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "Wörter\nzeile 2", "minLength": 1},
            "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
            "limit": {"type": "integer", "default": 10, "maximum": 9007199254740993},
            "ratio": {"type": "number", "default": 0.25, "minimum": 1.0},
            "flags": {"type": "array", "items": {"type": "string"}},
            "matrix": {"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            "anything": {"type": "array"},
            "exact": {"type": "boolean", "nullable": True, "default": False},
            "either": {"oneOf": [{"type": "string"}, {"type": "integer", "default": 3,
                                                      "description": "num"}]},
            "union": {"type": ["string", "null"]},
            "options": {"type": "object", "properties": {"deep": {"type": "object", "properties": {
                "x": {"type": "number"}}}}, "required": ["deep"], "additionalProperties": False},
            "nothing": {},
        },
        "required": ["query", "mode"]}}}

NO_PARAMETERS = {"type": "function", "function": {"name": "now", "description": "The time."}}
BARE = {"name": "bare", "description": "Not wrapped.", "parameters": {
    "type": "object", "properties": {"a": {"type": "string"}}}}

ARGUMENTS = {"city": "Oslo " + INPUT_MARK, "days": 2, "ratio": 1.0, "half": 0.5, "deep": {
    "list": [1, "zwei", None, True], "empty": {}}, "flag": False, "nothing": None,
    "code": "if a < b & c:\n    print('x')\n", "tag": "</parameter>\n<|im_end|>", "list": [],
    "big": 123456789012345678901234567890}


def message(role, content=None, **more):
    out = {"role": role}
    if content is not None:
        out["content"] = content
    out.update(more)
    return out


def user(text):
    return message("user", text if not isinstance(text, str) else f"{text} {INPUT_MARK}")


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def message_sets():
    U, A, S = user("Hi"), message("assistant", "Yo " + INPUT_MARK), message("system", "Be brief.")
    odd = " \t\u00a0lead\r\nmid\u2028dle\x85\x1c \u3000trail\n\n"
    both = [call("get_weather", ARGUMENTS), call("get_weather", {"city": "Rome"}, "call00002")]
    text_args = [call("get_weather", '{"city": "Oslo"}')]
    results = [message("tool", "1C " + INPUT_MARK, tool_call_id="call00001", name="get_weather"),
               message("tool", "20C", tool_call_id="call00002", name="get_weather")]
    parts = [{"type": "text", "text": "a "}, {"type": "image"}, {"type": "text", "text": " b"}]
    yield "empty", []
    yield "user", [U]
    yield "system user", [S, U]
    yield "padded system", [message("system", " Be brief. \n"), U]
    yield "empty system", [message("system", "  "), U]
    yield "developer", [message("developer", "Dev " + INPUT_MARK), U]
    yield "two systems", [S, message("system", "More."), U]
    yield "later system", [U, A, S, user("Bye")]
    yield "later developer", [U, A, message("developer", "D"), user("Bye")]
    yield "turns", [S, U, A, user("Bye"), A, user("Again")]
    yield "assistant last", [U, A]
    yield "two users", [U, user("more")]
    yield "two assistants", [U, A, A, user("x")]
    yield "reasoning", [U, message("assistant", "Yo", reasoning_content="r " + INPUT_MARK),
                        user("Bye")]
    yield "reasoning last", [U, message("assistant", "Yo", reasoning_content="\nr\n")]
    yield "thinking field", [U, message("assistant", "Yo", thinking="t"), user("Bye")]
    yield "empty reasoning", [U, message("assistant", "Yo", reasoning_content=""), user("x")]
    yield "think text", [U, message("assistant", "<think>\nwhy\n</think>\n\nYo"), user("Bye")]
    yield "think text last", [U, message("assistant", "<think>why</think>Yo")]
    yield "think marker in user", [user("<think>x</think> /no_think <|im_end|>")]
    yield "calls", [U, message("assistant", "", tool_calls=both), *results]
    yield "calls and text", [U, message("assistant", "Let me see.", tool_calls=both,
                                        reasoning_content="need it"), *results, A, user("ok")]
    yield "one call", [U, message("assistant", "", tool_calls=both[:1]), results[0]]
    yield "null content", [U, {"role": "assistant", "content": None, "tool_calls": both}, *results]
    yield "missing content", [U, message("assistant", tool_calls=both), *results]
    yield "text arguments", [U, message("assistant", "", tool_calls=text_args), results[0]]
    yield "null content text arguments", [
        U, {"role": "assistant", "content": None, "tool_calls": text_args}, results[0], A]
    yield "no arguments", [U, message("assistant", "", tool_calls=[call("now", {})]), results[0]]
    yield "flat calls", [U, message("assistant", "", tool_calls=[
        {"name": "f", "arguments": {"a": "b"}}]), results[0]]
    yield "empty calls", [U, message("assistant", "x", tool_calls=[]), user("y")]
    yield "tool result first", [results[0], U]
    yield "result of parts", [U, message("assistant", "", tool_calls=both[:1]),
                              message("tool", [{"type": "text", "text": "1C"}]), user("so?")]
    yield "tool response as user", [user("Hi"), A, message(
        "user", "<tool_response>\nx\n</tool_response>")]
    yield "steps", [S, U, message("assistant", "", tool_calls=both[:1], reasoning_content="a"),
                    results[0], message("assistant", "", tool_calls=both[1:],
                                        reasoning_content="b"), results[1],
                    message("assistant", "Done.", reasoning_content="c"), user("Thanks")]
    yield "text parts", [message("user", [{"type": "text", "text": "a"},
                                          {"type": "text", "text": "b " + INPUT_MARK}])]
    yield "image", [message("user", parts)]
    yield "image_url", [message("user", [{"type": "image_url", "image_url": {"url": "data:x"}},
                                         {"type": "text", "text": "what?"}])]
    yield "video", [message("user", [{"type": "video"}, {"type": "text", "text": "?"}])]
    yield "odd part", [message("user", [{"type": "audio"}])]
    yield "system parts", [message("system", [{"type": "text", "text": "Sys"}]), U]
    yield "system image", [message("system", parts), U]
    yield "odd space", [message("system", odd), message("user", odd), message("assistant", odd),
                        message("user", odd)]
    yield "unicode", [user("日本語 \U0001f600 é ß İ")]
    yield "null user", [{"role": "user", "content": None}]
    yield "missing user", [{"role": "user"}]
    yield "number content", [message("user", 5)]
    yield "unknown role", [U, message("robot", "x")]
    yield "no role", [{"content": "x"}]
    yield "many", [S] + [m for i in range(8) for m in (user(f"q{i}"), A)] + [U]


def conversations():
    kwargs = [{}, {"enable_thinking": False}, {"enable_thinking": True, "thinking": True},
              {"reasoning_effort": "low"}, {"reasoning_effort": "medium", "preserve_thinking": False},
              {"reasoning_effort": "high", "preserve_thinking": True},
              {"add_vision_id": True, "builtin_tools": ["browser", "python"],
               "model_identity": "I am " + INPUT_MARK}]
    tools = [None, [WEATHER], [COMPLEX, NO_PARAMETERS, BARE], []]
    for (label, messages), t, k in itertools.product(message_sets(), range(len(tools)),
                                                     range(len(kwargs))):
        if k > 3 and t > 1:
            continue
        yield f"{label} / tools {t} / {kwargs[k]}", {
            "messages": messages, "tools": tools[t], "kwargs": kwargs[k]}
    for label, messages in message_sets():
        yield f"{label} / no generation prompt", {"messages": messages, "tools": [WEATHER],
                                                  "add_generation_prompt": False}


def vectors():
    """Cases A to J of the model specification: name, bytes, start of the sha256."""
    U, W = {"role": "user", "content": "Hi"}, [WEATHER]
    off = {"enable_thinking": False}
    calls = [{"type": "function", "function": {"name": "get_weather",
                                               "arguments": {"city": "Oslo", "days": 2}}},
             {"type": "function", "function": {"name": "get_weather",
                                               "arguments": {"city": "Rome"}}}]
    return [
        ("A", 297, "596929565581b70c", {"messages": [U]}),
        ("B", 71, "87b9f5b6243d8823", {"messages": [U], "kwargs": off}),
        ("C", 60, "7562ba8388193b82", {"messages": [U], "kwargs": {"reasoning_effort": "medium"}}),
        ("D", 226, "a977b3c6cefccfe9", {"messages": [U], "kwargs": {"reasoning_effort": "low"}}),
        ("E", 99, "7af1302f02f3df31", {
            "messages": [{"role": "system", "content": " Be brief. "}, U],
            "kwargs": {"reasoning_effort": "medium"}}),
        ("F", 1195, "81558c78402e2a30", {"messages": [U], "tools": W, "kwargs": off}),
        ("G", 1404, "ed127dcc4ca58c6f", {
            "messages": [{"role": "system", "content": "Be brief."}, U], "tools": W}),
        ("H", 1575, "06a9714e4879d2ef", {
            "messages": [U, {"role": "assistant", "content": "", "reasoning_content": "need it",
                             "tool_calls": calls},
                         {"role": "tool", "content": "1C"}, {"role": "tool", "content": "20C"}],
            "tools": W, "kwargs": off}),
        ("I", 126, "54a63b8b3d9d0ed8", {
            "messages": [U, {"role": "assistant", "content": "Yo", "reasoning_content": "r"},
                         {"role": "user", "content": "Bye"}],
            "kwargs": {"preserve_thinking": False, "reasoning_effort": "medium"}}),
        ("J", 117, "7355105d8833b2c8", {
            "messages": [{"role": "user", "content": [{"type": "image"},
                                                      {"type": "text", "text": "what?"}]}],
            "kwargs": off}),
    ]


# ---- random templates ----

def fuzz_variables():
    return {
        "s": "Hello, World", "t": "  pad \n", "u": "ünï ß Σας\tx", "e": "", "q": "it's \"q\"",
        "n": 5, "m": -3, "z": 0, "f": 2.5, "g": 1e16, "h": -0.125,
        "b": True, "c": False, "nil": None,
        "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "lm": [1, "x", None, 2.0], "em": [],
        "d": {"a": 1, "b": "two", "C": [1, 2]}, "ed": {}, "dn": {"2": {"k": "v"}, "items": 7},
        "o": [{"name": "Bob", "age": 3, "tags": ["p", "q"]}, {"name": "al", "age": 30, "tags": []},
              {"name": "Cy", "age": 3}],
    }


def fixed_sources():
    """Templates about single rules, most of them found by reading or by a difference once."""
    return [
        "a\n{% if true %}\n  b\n{% endif %}\nc\n", "  {% if true %}x{% endif %}  \n y",
        "a {%- if true -%} b {%- endif -%} c", "a\n  {%+ if true %}\nb{% endif +%}\nc",
        "{# c #}\nx{#- d -#}  y", "x  {#+ d +#}\n y", "{% raw %}{{ x }}{% endraw %}\nz",
        "a {%- raw -%} {% x {%- endraw -%} b", "\n\n{{ 1 }}\n\n", "{{ 1 -}}\n x", "x\r\ny\rz\r\n",
        "{{ 'a' 'b' \"c\" }}", "{{ 1_000 }} {{ 0xff }} {{ 0b11 }} {{ 0o17 }} {{ 1e3 }} {{ 1.5e-7 }}",
        r"{{ 'a\n\t\x41\u00e9\101\q\é' }}", "{{ 'a\\\nb' }}", "{{ {'a': {}}.a }}",
        "{{ 1 if false }}|{{ (1 if false) is defined }}", "{{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}",
        "{{ not 1 == 2 }} {{ 1 < 2 < 3 < 2 }} {{ 1 in [1] in [[1]] }}",
        "{{ 1 ~ 2 + 3 ~ 4 }} {{ 'a' ~ none ~ true ~ 1.0 ~ [1, 'x'] ~ {'k': (1,)} }}",
        "{{ x }}{{ x.y is defined }}", "{{ x is defined }} {{ d.q.r }}", "{{ d.q is defined }}",
        "{{ dn.items() | list }} {{ dn['items'] }}", "{{ dn.items is callable }}",
        "{{ l[::-1] }} {{ s[1:4] }} {{ s[-3:] }} {{ l[5:] }} {{ s[::2] }} {{ u[2:0:-1] }}",
        "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ ''.__class__ }}", "{{ s._x }}",
        "{% for i in l %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex }}"
        "{{ loop.previtem }}{{ loop.nextitem }}{{ loop.length }}{{ loop.cycle('a', 'b') }}"
        "{{ loop.changed(i > 1) }}{{ loop.depth }};{% endfor %}",
        "{% for i in l if i > 1 %}{{ loop.length }}{{ i }}{{ loop.last }}{% endfor %}",
        "{% for k, v in d.items() %}{{ k }}={{ v }},{% endfor %}{{ k }}",
        "{% for i in [] %}x{% else %}none{% endfor %}",
        "{% for i in l %}{% continue %}{% else %}E{% endfor %}",
        "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% else %}E{% endfor %}",
        "{% for a in l %}{% for b in ls %}{{ loop.index0 }}{% endfor %}{{ loop.index0 }}{% endfor %}",
        "{% for x in o recursive %}{{ x.name or x }}{% if x.tags %}({{ loop(x.tags) }})"
        "{{ loop.depth0 }}{% endif %}{% endfor %}",
        "{% set x = 1 %}{% for i in l %}{% set x = x + i %}{{ x }},{% endfor %}{{ x }}",
        "{% set ns = namespace(x=1) %}{% for i in l %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}",
        "{% if false %}{% set y = 1 %}{% endif %}{{ y is defined }}",
        "{% if true %}{% set n = 9 %}{% endif %}{{ n }}{% for i in [1] %}{{ n }}{% endfor %}",
        "{% macro m(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{{ varargs }}{{ kwargs }}{% endmacro %}"
        "{{ m(1) }}|{{ m(1, 3) }}|{{ m(1, z=5) }}|{{ m(1, 2, 3, 4, k=1) }}|{{ m() }}",
        "{% macro m() %}{{ caller('x') }}{% endmacro %}{% call(v) m() %}[{{ v }}{{ n }}]{% endcall %}",
        "{% macro m() %}-{% endmacro %}{% call m() %}x{% endcall %}",
        "{% macro m() %}{{ later }}{% endmacro %}{% set later = 3 %}{{ m() }}",
        "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(4) }}",
        "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set (c, d) = [3, 4] %}{{ c }}{{ d }}",
        "{% set x %}a{{ n }}{% endset %}{{ x }}{% set y | upper | trim %} b {% endset %}{{ y }}",
        "{% filter upper | replace('A', 'x') %}abc{{ n }}{% endfilter %}",
        "{% with a = 1, b = n %}{{ a }}{{ b }}{% set n = 3 %}{{ n }}{% endwith %}{{ a }}{{ n }}",
        "{% generation %}x{% set n = 1 %}{{ n }}{% endgeneration %}{{ n }}",
        "{% print 1, 'a' %}", "{% if x is defined and x %}1{% elif not x %}2{% else %}3{% endif %}",
        "{{ n is divisibleby 5 }} {{ n is divisibleby(2) }} {{ n is not none }} {{ n is odd }}",
        "{{ 'a' is in ['a'] }} {{ n is eq 5 }} {{ n is lt 9 }} {{ n is sameas n }}",
        "{{ 'x' if n is defined else 'y' }}", "{{ 'x' if n is defined if b else 'y' }}",
        "{{ o | map(attribute='name') | join(',') }} {{ o | map(attribute='x', default='-') | list }}",
        "{{ o | selectattr('age', 'equalto', 3) | map(attribute='name') | list }}",
        "{{ o | rejectattr('tags') | list | length }} {{ l | select('odd') | list }}",
        "{{ o | groupby('age') }} {{ o | sort(attribute='age,name') | map(attribute='name') | list }}",
        "{% for g in o | groupby('name') %}{{ g.grouper }}{{ g.list | length }}{% endfor %}",
        "{{ ls | sort }} {{ ls | sort(true, true) }} {{ ls | unique | list }} {{ d | dictsort }}",
        "{{ l | batch(2, 'x') | list }} {{ l | slice(2, 'x') | list }} {{ l | sum }} {{ l | max }}",
        "{{ o | sum(attribute='age') }} {{ [] | min is defined }} {{ l | first }} {{ l | last }}",
        "{{ [] | first }} {{ s | first }} {{ l | reverse | list }} {{ s | reverse }}",
        "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb\n' | indent('>', blank=true) }}",
        "{{ 'foo bar baz qux' | truncate(9) }} {{ 'foo bar baz qux' | truncate(9, true) }} "
        "{{ 'foo bar baz' | truncate(10, leeway=0) }}",
        "{{ 42.55 | round }} {{ 42.55 | round(1, 'floor') }} {{ 2.5 | round }} {{ 5 | round }} "
        "{{ 1234 | round(-2) }} {{ 0.5 | round | int }}",
        "{{ '42' | int }} {{ '4.7' | int }} {{ 'x' | int(7) }} {{ '0x1f' | int(0, 16) }} {{ '1e3' | float }}",
        "{{ 'hello world-foo' | title }} {{ 'hELLO' | capitalize }} {{ 'ß' | upper }} {{ 'ŉx' | title }}",
        "{{ '<a & \"b\">' | e }} {{ ('<' | e) + '<' }} {{ '<' + ('<b>' | safe) }} {{ '<' ~ ('<b>' | safe) }}",
        "{{ '%s-%05d-%.2f-%x-%r' | format('a', 42, 3.14159, 255, 'q') }} {{ '%(a)s' % {'a': 1} }}",
        "{{ '{} {0}'.format(1) }}", "{{ '{:>8}|{:<4}|{:^6}|{:05d}|{:.2f}|{!r}'.format('a', 1, 'b', 42, 2.5, 'x') }}",
        "{{ '{0[a]} {1.name} {x:,}'.format(d, o[0], x=1234567) }}",
        "{{ 1000 | filesizeformat }} {{ 1536 | filesizeformat(true) }} {{ 1 | filesizeformat }}",
        "{{ 'a b&c/d=ü' | urlencode }} {{ {'a b': 'c&d'} | urlencode }} {{ 'a b c' | wordcount }}",
        "{{ d | tojson }} {{ d | tojson(indent=2) }} {{ d | tojson(sort_keys=true, separators=(',', ':')) }}",
        "{{ [1.0, 1e100, -0.0, none, true, 'ü\n\x7f\u2028'] | tojson }} {{ 'ü😀' | tojson(ensure_ascii=true) }}",
        "{{ {1: 2, true: 3, none: 4, 1.5: 5} | tojson }}", "{{ (1, 2) | tojson }}", "{{ x | tojson }}",
        "{{ range(3) | list }} {{ range(5, 1, -2) | list }} {{ range(3) }} {{ dict(a=1, b=2) }}",
        "{{ dict(d, z=1) }} {{ namespace(a=1) }} {{ namespace(d).a }}",
        "{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.next() }}{{ c.current }}{{ c.reset() }}",
        "{% set j = joiner('|') %}{{ j() }}a{{ j() }}b", "{{ raise_exception('no') }}",
        "{{ strftime_now('%Y-%m-%d %H:%M') }}", "{{ s.split(', ') }} {{ ' a  b '.split() }} {{ 'a,b,c'.split(',', 1) }}",
        "{{ 'a b c'.rsplit(' ', 1) }} {{ ' a b  c '.split(none, 1) }} {{ ' a b  c '.rsplit(none, 1) }}",
        "{{ 'a\nb\r\nc'.splitlines() }} {{ 'a\nb'.splitlines(true) }} {{ 'a-b'.partition('-') }}",
        "{{ 'xxabxx'.strip('x') }} {{ t.strip() }} {{ t.lstrip() }} {{ 'a.b.'.rstrip('.') }}",
        "{{ s.startswith('He') }} {{ s.endswith(('x', 'ld')) }} {{ s.find('o', 5) }} {{ s.count('l') }}",
        "{{ s.replace('l', 'L', 2) }} {{ 'abc'.replace('', '-') }} {{ '-'.join(ls) }} {{ s.swapcase() }}",
        "{{ 'ab'.center(7, '*') }} {{ 'ab'.zfill(5) }} {{ '-5'.zfill(4) }} {{ 'abc'.ljust(5) }}|",
        "{{ 'They are'.title() }} {{ \"they're\".title() }} {{ 'ΑΣ'.lower() }} {{ 'İ'.lower() | length }}",
        "{{ 'a1'.isalnum() }} {{ '12'.isdigit() }} {{ 'Ab'.istitle() }} {{ ' '.isspace() }} {{ 'a'.islower() }}",
        "{{ 7 // 2 }} {{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 1 / 2 }} {{ 2 ** -1 }}",
        "{{ 1 / 0 }}", "{{ 'a' * 3 }} {{ 3 * [1] }} {{ [1] + [2] }} {{ (1,) + (2,) }} {{ 'a' + 1 }}",
        "{{ true + true }} {{ 1 == true }} {{ 1 == 1.0 }} {{ '1' == 1 }} {{ [1] == (1,) }} {{ none < 1 }}",
        "{{ [1, 2] < [1, 3] }} {{ 'a' < 'b' }} {{ 1 < 'a' }}", "{{ 0.1 + 0.2 }} {{ 1e22 }} {{ 1e16 }} {{ 123456789.0 }} {{ 5e-5 }}",
        "{{ 'a' in 'abc' }} {{ 1 in [1] }} {{ 'a' in d }} {{ 'z' not in d }} {{ x in x }} {{ 1 in 'a' }}",
        "{{ d.get('a') }} {{ d.get('x') }} {{ d.get('x', 5) }} {{ d.keys() }} {{ d.values() | list }} {{ d.items() }}",
        "{{ (1 if c else 2) ~ (c or 'x') ~ (b and 'y') }}", "{{ [1, 2,] }} {{ (1,) }} {{ () }} {{ {'a': 1,} }}",
        "{{ '' is string }} {{ d is mapping }} {{ l is sequence }} {{ x is sequence }} {{ 5 is number }} "
        "{{ x is iterable }} {{ none is iterable }} {{ 1.0 is float }} {{ true is integer }} {{ 1 is boolean }}",
        "{{ nope() }}", "{{ n() }}", "{{ x.y.z }}", "{{ x + 1 }}", "{{ x ~ 1 }}", "{{ -x }}",
        "{% for i in x %}a{% else %}b{% endfor %}", "{% for i in 5 %}{% endfor %}",
        "{{ s | nofilter }}", "{% if false %}{{ s | nofilter }}{% endif %}ok", "{{ 1 is notest }}",
        "{% unknown %}", "{% if %}", "{{ }}", "{{ 1 +  }}", "{{ (1 }}", "{% for %}", "{% endif %}",
        "{% if true %}", "{{ 'abc }}", "{{ a b }}", "{# open", "{% raw %} x", "{% set 1 = 2 %}",
        "{% break %}", "{% macro m(a=1, b) %}{% endmacro %}", "{% for loop in l %}{% endfor %}",
        "{{ 1 is string is string }}", "{{ {'a' 1} }}", "{{ [1 2] }}", "{{ f(a=1, 2) }}", "{{ s[1:2, 3] }}",
        "{% set x = [1, 2] %}{% for x in x %}{{ x }}{% endfor %}{{ x }}",
        "{% for x in l %}{% set y = x %}{% endfor %}{{ y is defined }}",
        "{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}{{ m }}",
        "{% set f = m2 if m2 is defined else 'no' %}{{ f }}", "{{ loop is defined }}",
        "{% for i in range(3) %}{% for j in range(i) %}{{ loop.index }}{% if j %}{% break %}{% endif %}{% endfor %}{% endfor %}",
        "{{ ['a', 'b'] | map('upper') | join }} {{ ['a'] | map('replace', 'a', 'b') | list }}",
        "{{ [[1, 2], [3]] | map('first') | list }} {{ o | map('attr', 'name') | list }}",
        "{{ d | attr('a') is defined }} {{ s.upper() | attr('lower')() }}",
        "{{ l | join(', ', attribute='x') }} {{ 'abc' | join('-') }} {{ d | join('-') }} {{ d | list }}",
        "{{ d | length }} {{ s | count }} {{ x | length }} {{ none | default('d', true) }} {{ x | d('e') }}",
        "{{ 5 | string ~ 5 }} {{ [1, 'a'] | string }} {{ none | string }} {{ true | lower }} {{ 12 | upper }}",
        "{{ 1.5 | abs }} {{ -5 | abs }} {{ (-5) | abs }} {{ 'x' | abs }}", "{{ 3.7 | int }} {{ -3.7 | int }} {{ '  7 ' | int }}",
        "{{ q }} {{ [q] }} {{ ['\\n\\\\'] }} {{ ['\u200b\x7fü'] }}",
        "{%- for m in o -%}{{- '\n' ~ m.name -}}{%- endfor -%}", "{{- 'x' -}}   \n  {{- 'y' }}",
    ]


class Generator:
    """Random templates from a grammar. Most expressions are well typed, so that both sides get far;
    some are not, so that errors are compared too. Slices are only taken of variables: jinja2 folds
    constants, and a folded slice of a number is undefined where an evaluated one is an error."""

    VARIABLES = {
        "str": ["s", "t", "u", "e", "q", "s", "x"], "num": ["n", "m", "z", "f", "h", "b", "n"],
        "list": ["l", "ls", "lm", "em", "o", "l", "ls"], "dict": ["d", "ed", "dn", "d", "o[0]"],
        "any": ["undef", "nil", "c", "i", "ns.v", "x", "g"],
    }
    LITERALS = {
        "str": ["'a'", "'b,c'", "''", "' x '", "'é'", '"it\'s"', "'\\n'", "'<b>'", "'aXbXc'", "'12'"],
        "num": ["0", "1", "2", "-1", "3", "10", "0.5", "2.0", "1e3", "true", "7", "1.25"],
        "list": ["[]", "[1, 2]", "['x', 'y']", "(1, 'a')", "[3, 1, 2]", "['b', 'A']", "[[1], [2, 3]]"],
        "dict": ["{}", "{'k': 1}", "{'a': 'x', 'b': [1, none]}", "{1: 'one'}"],
        "any": ["none", "true", "false", "()", "1", "'a'"],
    }
    # operand type, text after it, result type
    SUFFIXES = [
        *[("str", f" | {f}", "str") for f in (
            "upper", "lower", "title", "capitalize", "trim", "replace('a', 'b')", "replace('l', '')",
            "indent(2)", "indent(1, true)", "truncate(4)", "truncate(5, true, '')", "center(9)", "escape",
            "safe", "string", "reverse", "urlencode", "trim('Hd')", "forceescape", "default('d', true)",
            "replace('', '-')", "format", "join('.')", "first", "last")],
        *[("str", f".{f}", "str") for f in (
            "upper()", "lower()", "strip()", "title()", "replace('l', 'L')", "replace('l', 'L', 1)",
            "capitalize()", "rstrip('d')", "lstrip(' H')", "center(8)", "zfill(8)", "swapcase()",
            "removeprefix('He')", "removesuffix('d')", "ljust(7, '.')", "rjust(7)", "expandtabs(4)",
            "join(ls)", "join(['x', 'y'])", "format(1, 'b')")],
        *[("str", f".{f}", "num") for f in (
            "find('o')", "count('l')", "startswith('H')", "endswith(('d', 'a'))", "isdigit()", "isalpha()",
            "rfind('l')", "islower()", "isupper()", "istitle()", "isspace()", "isalnum()", "find('')",
            "isidentifier()", "isnumeric()", "isascii()", "isprintable()", "index('')", "count('')")],
        *[("str", f".{f}", "list") for f in (
            "split()", "split(',')", "split('l', 1)", "splitlines()", "rsplit(',', 1)", "partition('o')",
            "rsplit()", "rsplit(none, 1)", "rpartition('l')", "splitlines(true)", "split(maxsplit=1)")],
        *[("str", f" | {f}", "num") for f in ("length", "int", "float", "wordcount", "int(5)", "float(1.5)",
                                              "count", "int(0, 16)")],
        ("str", " | list", "list"), ("str", " | map('upper') | list", "list"),
        *[("num", f" | {f}", "num") for f in ("abs", "int", "float", "round", "round(1)", "round(0, 'ceil')",
                                              "round(1, 'floor')", "round(-1)", "default(3, true)")],
        *[("num", f" | {f}", "str") for f in ("string", "tojson", "filesizeformat", "center(5)")],
        *[("list", f" | {f}", "list") for f in (
            "list", "sort", "unique | list", "batch(2) | list", "batch(2, 'f') | list", "slice(2) | list",
            "slice(2, 0) | list", "map('string') | list", "select | list", "reject('none') | list",
            "select('string') | list", "reverse | list", "sort(reverse=true)", "map(attribute='name') | list",
            "selectattr('age') | list", "unique(true) | list", "map('default', 'x') | list",
            "map(attribute='name', default='?') | list", "rejectattr('tags') | list", "select('odd') | list",
            "selectattr('age', 'gt', 3) | list", "groupby('age')", "groupby('name', default='z') | list",
            "sort(attribute='name')", "map('length') | list", "map('tojson') | list", "select('in', l) | list")],
        *[("list", f" | {f}", "str") for f in (
            "join", "join(',')", "tojson", "tojson(indent=1)", "string", "join('|', 'name')",
            "tojson(separators=(',', ':'))", "map('upper') | join('-')", "map('e') | join")],
        *[("list", f" | {f}", "num") for f in ("length", "count", "sum", "select | list | length",
                                              "sum(attribute='age')", "sum(start=3)")],
        *[("list", f" | {f}", "any") for f in ("first", "last", "min", "max", "max(attribute='age')")],
        ("list", ".count(1)", "num"), ("list", ".index(1)", "num"), ("list", ".copy()", "list"),
        *[("dict", f" | {f}", "list") for f in ("dictsort", "items | list", "list", "dictsort(by='value')",
                                               "dictsort(true, reverse=true)")],
        *[("dict", f".{f}", "list") for f in ("items() | list", "keys() | list", "values() | list")],
        *[("dict", f" | {f}", "str") for f in ("tojson", "tojson(indent=2)", "tojson(sort_keys=true)",
                                               "string", "urlencode")],
        *[("dict", f"{f}", "any") for f in ("['a']", ".a", ".k", ".get('a')", ".get('zz', 3)", "['zz']",
                                            " | attr('a')", ".zz")],
        ("dict", " | length", "num"), ("dict", ".copy()", "dict"),
    ]
    TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "iterable",
             "sequence", "boolean", "true", "false", "odd", "even", "divisibleby(2)", "divisibleby 3",
             "in([1, 'a'])", "eq(1)", "ne 'a'", "lt(3)", "ge 1", "sameas(none)", "lower", "upper",
             "callable", "escaped", "in d", "equalto s", "filter", "test"]
    SLICES = ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[::2]", "[5]", "[n]", "[-2:]", "[1:-1]", "[z]",
              "[4:1:-2]", "[n:]", "[:m]", "[100]", "[nil:2]"]
    TYPES = ["str", "str", "num", "num", "list", "list", "dict", "any"]

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, items):
        return self.r.choice(items)

    def leaf(self, kind):
        if self.r.random() < 0.05:
            kind = self.pick(self.TYPES)
        return self.pick(self.VARIABLES[kind] if self.r.random() < 0.6 else self.LITERALS[kind])

    def of(self, kind, depth):
        """An expression that is probably of that type."""
        r = self.r.random()
        if r < 0.04:
            kind = self.pick(self.TYPES)
        if depth <= 0 or r < 0.2:
            return self.leaf(kind)
        if r < 0.28:
            test = self.of("any", depth - 1)
            return f"{self.operand(kind, depth)} if {test} else {self.operand(kind, depth)}"
        if r < 0.62:
            ways = [x for x in self.SUFFIXES if x[2] == kind or kind == "any"]
            if ways:
                source, suffix, _ = self.pick(ways)
                return self.operand(source, depth) + suffix
        o = lambda k: self.operand(k, depth)
        if kind == "str":
            return self.pick([
                lambda: f"{o('str')} + {o('str')}", lambda: f"{o('any')} ~ {o('num')} ~ {o('list')}",
                lambda: f"{o('str')} * {self.pick(['2', 'n', 'z', '0'])}",
                lambda: f"{self.pick(['s', 't', 'u', 'q'])}{self.pick(self.SLICES)}",
                lambda: f"'%s{self.pick(['', ' %d', ' %%', ' %.1f', '%5s|', '%-4d|', '%x', '%r', '%05d'])}'"
                        f" % ({o('any')}, {o('num')})",
                lambda: f"'{{}}{self.pick(['{}', '{:>6}', '{!r}', '{:<4}|', '{:^7}'])}'.format({o('num')}, "
                        f"{o('str')})"])()
        if kind == "num":
            return self.pick([
                lambda: f"{o('num')} {self.pick(['+', '-', '*', '/', '//', '%', '**'])} {o('num')}",
                lambda: f"{o('num')} {self.pick(['<', '<=', '>', '>=', '==', '!='])} {o('num')}",
                lambda: f"{o('str')} {self.pick(['<', '==', '!=', 'in', 'not in'])} {o('str')}",
                lambda: f"{o('any')} {self.pick(['in', 'not in', '=='])} {o('list')}",
                lambda: f"{o('num')} < {o('num')} {self.pick(['<', '==', '>='])} {o('num')}",
                lambda: f"{self.pick(['not ', '-', '+'])}{o('num')}",
                lambda: f"{o('any')} is {self.pick(['', 'not '])}{self.pick(self.TESTS)}"])()
        if kind == "list":
            return self.pick([
                lambda: f"{o('list')} + {o('list')}", lambda: f"[{o('any')}, {o('num')}]",
                lambda: f"{self.pick(['l', 'ls', 'lm', 'o'])}{self.pick(self.SLICES)}",
                lambda: f"range({self.pick(['n', '3', '1, 4', '5, 0, -2', 'z'])}) | list",
                lambda: f"[{o('str')}] * 2", lambda: f"({o('num')}, {o('str')})"])()
        if kind == "dict":
            return self.pick([
                lambda: f"{{'a': {o('any')}, 'b': {o('list')}}}", lambda: f"dict(a={o('num')}, z={o('str')})",
                lambda: f"dict({o('dict')}, q={o('any')})", lambda: f"{{{o('num')}: {o('str')}}}"])()
        return self.pick([
            lambda: f"{o('any')} {self.pick(['and', 'or'])} {o('any')}", lambda: f"not {o('any')}",
            lambda: f"{o('list')}[0]", lambda: f"{o('str')} if {o('any')}",
            lambda: self.of(self.pick(self.TYPES), depth - 1)])()

    def operand(self, kind, depth):
        text = self.of(kind, depth - 1)
        return text if re.fullmatch(r"[a-z]\w*", text) else f"({text})"

    def expression(self, depth):
        return self.of(self.pick(self.TYPES), depth)

    def statement(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.35:
            return "{{ " + self.expression(3) + " }}"
        if r < 0.45:
            return self.pick([" ", "\n", "x\n", "  y", "\n\n", "\t", "{# c #}\n", "{#- c -#} "])
        body = lambda: "".join(self.statement(depth - 1) for _ in range(self.r.randint(1, 3)))
        o, c = self.pick(["{%", "{%-", "{%+"]), self.pick(["%}", "-%}", "%}\n", "+%}\n"])
        tag = lambda text: f"{o} {text} {c}"
        if r < 0.56:
            middle = tag("else") + body() if self.r.random() < 0.4 else ""
            if self.r.random() < 0.3:
                middle = tag(f"elif {self.of('any', 2)}") + body() + middle
            return tag(f"if {self.of('any', 2)}") + body() + middle + tag("endif")
        if r < 0.68:
            source = self.pick(["l", "ls", "o", "d", "range(3)", "s", "em", self.of("list", 2)])
            test = self.pick(["", "", f" if {self.of('any', 1)}", " if i"])
            inner = body() + self.pick(["", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}",
                                        "{{ loop.previtem }}", "{{ loop.nextitem is defined }}",
                                        "{% if loop.first %}{% continue %}{% endif %}", "{{ loop.revindex }}",
                                        "{% if i == 2 %}{% break %}{% endif %}", "{{ loop.changed(i) }}"])
            other = tag("else") + body() if self.r.random() < 0.3 else ""
            return tag(f"for i in {source}{test}") + inner + other + tag("endfor")
        if r < 0.80:
            name, kind = self.pick([("x", "str"), ("n", "num"), ("s", "str"), ("l", "list"), ("d", "dict")])
            return tag(f"set {name} = {self.of(kind, 2)}")
        if r < 0.84:
            return tag("set x" + self.pick(["", " | upper", " | trim | title"])) + body() + tag("endset")
        if r < 0.88:
            return tag("set ns = namespace(v=1)") + tag(f"set ns.v = {self.expression(2)}")
        if r < 0.91:
            return tag("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "length"])) + body() + \
                tag("endfilter")
        if r < 0.94:
            return tag(f"with x = {self.of('str', 2)}, n = x") + body() + tag("endwith")
        if r < 0.98:
            arg = self.pick(["x", "x, y=2", "x=n", "", "x=1, y=x"])
            call = "{{ m(" + self.pick(["1", "n", "", "x=3", "1, 2", "s"]) + ") }}"
            if self.r.random() < 0.3:
                return tag(f"macro m({arg})") + body() + "{{ caller() }}" + tag("endmacro") + \
                    tag(f"call m({self.pick(['1', 'n'])})") + body() + tag("endcall")
            return tag(f"macro m({arg})") + body() + tag("endmacro") + call
        return tag("raw") + "{{ a }}" + "{% endraw %}"

    def template(self):
        if self.r.random() < 0.5:
            return "{{ " + self.expression(4) + " }}"
        return "".join(self.statement(3) for _ in range(self.r.randint(1, 4)))


def is_unfair(source, python):
    """Python shows an address (also one that was cut out of its words), or works with integers
    beyond 64 bits or complex numbers; or jinja2 writes a folded negative base without parentheses,
    so that (-1) ** x becomes -(1 ** x), or folds a dict with an unhashable key that is never
    reached."""
    text, error = python
    if re.search(r"\(-.*\*\*", source):
        return True
    if text is not None:
        return bool(re.search(r" object [ab]t 0x|0[xX][0-9a-fA-F]{9,}|<generator|<built-in|<function"
                              r"|<class|\d{19,}|\dj\)", text))
    return isinstance(error, (MemoryError, OverflowError)) or "unhashable type" in str(error)
