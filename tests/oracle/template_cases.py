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
        "{{ d.items }}", "{{ dn.items() | list }} {{ dn['items'] }}", "{{ dn.items is callable }}",
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
        "{{ s | attr('upper') }}", "{{ d | attr('a') is defined }} {{ s.upper() | attr('lower')() }}",
        "{{ l | join(', ', attribute='x') }} {{ 'abc' | join('-') }} {{ d | join('-') }} {{ d | list }}",
        "{{ d | length }} {{ s | count }} {{ x | length }} {{ none | default('d', true) }} {{ x | d('e') }}",
        "{{ 5 | string ~ 5 }} {{ [1, 'a'] | string }} {{ none | string }} {{ true | lower }} {{ 12 | upper }}",
        "{{ 1.5 | abs }} {{ -5 | abs }} {{ (-5) | abs }} {{ 'x' | abs }}", "{{ 3.7 | int }} {{ -3.7 | int }} {{ '  7 ' | int }}",
        "{{ q }} {{ [q] }} {{ ['\\n\\\\'] }} {{ ['\u200b\x7fü'] }}",
        "{%- for m in o -%}{{- '\n' ~ m.name -}}{%- endfor -%}", "{{- 'x' -}}   \n  {{- 'y' }}",
    ]


class Generator:
    """Random templates from a grammar: mostly sensible ones, so that both sides get far."""

    NAMES = list(fuzz_variables()) + ["undef", "i", "ns.v", "x"]
    LITERALS = ["0", "1", "2", "-1", "3", "10", "0.5", "2.0", "1e3", "'a'", "'b,c'", "''", "' x '",
                "'é'", "\"it's\"", "'\\n'", "true", "false", "none", "[]", "{}", "()", "[1, 2]",
                "['x', 'y']", "{'k': 1}", "(1, 'a')"]
    BINARY = ["+", "-", "*", "/", "//", "%", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in",
              "and", "or"]
    FILTERS = ["upper", "lower", "title", "capitalize", "trim", "length", "first", "last", "list",
               "string", "int", "float", "abs", "reverse", "sort", "unique | list", "join", "join(',')",
               "tojson", "default('d')", "default('d', true)", "round", "round(1)", "sum", "min", "max",
               "escape", "safe", "replace('a', 'b')", "replace('l', '')", "indent(2)", "truncate(4)",
               "batch(2) | list", "slice(2) | list", "map('string') | list", "map('upper') | join('-')",
               "select | list", "reject('none') | list", "select('string') | list", "wordcount",
               "map(attribute='name') | list", "selectattr('age') | list | length", "dictsort",
               "items | list", "center(9)", "format(1)", "urlencode", "count", "tojson(indent=1)",
               "groupby('age') | list | length", "sort(reverse=true)", "filesizeformat", "attr('a')",
               "unique(true) | list", "int(5)", "float(1.5)", "round(0, 'ceil')", "join('|', 'name')"]
    TESTS = ["defined", "undefined", "none", "string", "number", "integer", "float", "mapping", "iterable",
             "sequence", "boolean", "true", "false", "odd", "even", "divisibleby(2)", "divisibleby 3",
             "in([1, 'a'])", "eq(1)", "ne 'a'", "lt(3)", "ge 1", "sameas(none)", "lower", "upper",
             "callable", "escaped"]
    METHODS = ["upper()", "lower()", "strip()", "split()", "split(',')", "split('l', 1)", "title()",
               "startswith('H')", "endswith('d')", "replace('l', 'L')", "find('o')", "count('l')",
               "capitalize()", "isdigit()", "isalpha()", "splitlines()", "rstrip('d')", "lstrip(' H')",
               "items() | list", "keys() | list", "values() | list", "get('a')", "get('zz', 3)", "index(1)",
               "count(1)", "join(ls)", "center(8)", "rsplit(',', 1)", "partition('o')", "zfill(8)",
               "swapcase()", "format(1, 2)", "removeprefix('He')", "rfind('l')", "casefold" "x"]
    SUBSCRIPTS = ["[0]", "[-1]", "[1:]", "[:2]", "[::-1]", "[::2]", "['a']", ".a", ".name", "[5]", "[n]",
                  "[-2:]", ".C", "['k']", "[1:-1]", "[z]", ".items", ".0"]

    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, items):
        return self.r.choice(items)

    def expression(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.16:
            return self.pick(self.NAMES) if self.r.random() < 0.65 else self.pick(self.LITERALS)
        e = lambda: self.expression(depth - 1)
        if r < 0.34:
            return f"{self.operand(depth)} {self.pick(self.BINARY)} {self.operand(depth)}"
        if r < 0.52:
            return f"{self.operand(depth)} | {self.pick(self.FILTERS)}"
        if r < 0.60:
            no = self.pick(["", "not "])
            return f"{self.operand(depth)} is {no}{self.pick(self.TESTS)}"
        if r < 0.72:
            return f"{self.operand(depth)}.{self.pick(self.METHODS)}"
        if r < 0.80:
            return f"{self.operand(depth)}{self.pick(self.SUBSCRIPTS)}"
        if r < 0.84:
            return f"{e()} if {e()} else {e()}"
        if r < 0.86:
            return f"{e()} if {e()}"
        if r < 0.89:
            return f"{self.pick(['not ', '-', '+', 'not '])}{self.operand(depth)}"
        if r < 0.92:
            return f"[{e()}, {e()}]"
        if r < 0.94:
            return f"{{'a': {e()}, 'b': {e()}}}"
        if r < 0.96:
            return f"{e()} {self.pick(['<', '==', 'in', '>'])} {e()} {self.pick(['<', '!=', '>='])} {e()}"
        if r < 0.98:
            return f"range({self.pick(['n', '3', '1, 4', '5, 0, -2', 'z'])}) | list"
        return f"'%s{self.pick(['', ' %d', '%%', ' %.1f', '%5s|', '%-4d|'])}' % ({e()}, {e()})"

    def operand(self, depth):
        text = self.expression(depth - 1)
        return text if re.fullmatch(r"[\w.]+", text) else f"({text})"

    def statement(self, depth):
        r = self.r.random()
        if depth <= 0 or r < 0.35:
            return "{{ " + self.expression(3) + " }}"
        if r < 0.45:
            return self.pick([" ", "\n", "x\n", "  y", "\n\n", "\t"])
        body = lambda: "".join(self.statement(depth - 1) for _ in range(self.r.randint(1, 3)))
        o, c = self.pick(["{%", "{%-", "{%+"]), self.pick(["%}", "-%}", "%}\n"])
        tag = lambda text: f"{o} {text} {c}"
        if r < 0.56:
            middle = tag("else") + body() if self.r.random() < 0.4 else ""
            if self.r.random() < 0.3:
                middle = tag(f"elif {self.expression(2)}") + body() + middle
            return tag(f"if {self.expression(2)}") + body() + middle + tag("endif")
        if r < 0.68:
            source = self.pick(["l", "ls", "o", "d", "range(3)", "s", "em", self.expression(1)])
            test = self.pick(["", "", f" if {self.expression(1)}"])
            inner = body() + self.pick(["", "{{ loop.index }}", "{{ loop.last }}", "{{ loop.length }}",
                                        "{{ loop.previtem }}", "{% if loop.first %}{% continue %}{% endif %}",
                                        "{% if i == 2 %}{% break %}{% endif %}"])
            other = tag("else") + body() if self.r.random() < 0.3 else ""
            return tag(f"for i in {source}{test}") + inner + other + tag("endfor")
        if r < 0.80:
            name = self.pick(["x", "n", "s", "x", "l"])
            return tag(f"set {name} = {self.expression(2)}")
        if r < 0.84:
            return tag("set x") + body() + tag("endset")
        if r < 0.88:
            return tag("set ns = namespace(v=1)") + tag(f"set ns.v = {self.expression(2)}")
        if r < 0.91:
            return tag("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "length"])) + body() + \
                tag("endfilter")
        if r < 0.94:
            return tag(f"with x = {self.expression(2)}, n = x") + body() + tag("endwith")
        if r < 0.98:
            arg = self.pick(["x", "x, y=2", "x=n", ""])
            call = "{{ m(" + self.pick(["1", "n", "", "x=3", "1, 2"]) + ") }}"
            return tag(f"macro m({arg})") + body() + tag("endmacro") + call
        return tag("raw") + "{{ a }}" + "{% endraw %}"

    def template(self):
        if self.r.random() < 0.5:
            return "{{ " + self.expression(4) + " }}"
        return "".join(self.statement(3) for _ in range(self.r.randint(1, 4)))


def is_unfair(source, python):
    """Python shows an address, or works with integers beyond 64 bits or complex numbers."""
    text, error = python
    if text is not None:
        return bool(re.search(r" object at 0x|<generator|<built-in|<function|<class|\d{19,}|\dj\)",
                              text))
    return isinstance(error, (MemoryError, OverflowError))
