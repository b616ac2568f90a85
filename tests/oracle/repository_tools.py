#!/usr/bin/env python3
# tags: one-thread
"""The tools that judge the repository must themselves say no: each rule is broken once in a small
tree of its own, and the runner is given programs that fail, crash, hang and skip."""
import os
import stat
import subprocess
import sys
import tempfile

ROOT = os.environ.get("RIPTIDE_ROOT", os.getcwd())
GOOD = {
    "tools/layers.txt": "base:\ntensor: base\ncli: base\n",
    "tools/style_exceptions.txt": "",
    "src/base/good.h": "#ifndef RIPTIDE_BASE_GOOD_H\n#define RIPTIDE_BASE_GOOD_H\n#endif\n",
    "src/tensor/good.c": '#include "base/good.h"\n\nint f(void)\n{\n    return 0;\n}\n',
    "tests/unit/tensor/test_good.c": "\n",
}
LONG = "int f(void)\n{\n" + "    f();\n" * 101 + "}\n"
# (tool, file, its text, what must be said)
BAD = [
    ("layers", "src/base/x.c", '#include "tensor/y.h"\n', "may not include"),
    ("layers", "src/tensor/x.c", '#include "base/y_priv.h"\n', "private header"),
    ("layers", "src/tensor/x.c", '#include "good.h"\n', "write it from src/"),
    ("layers", "src/tensor/x.c", '#include "tests/support/test.h"\n', "is no folder"),
    ("layers", "src/other/x.c", "\n", "not in tools/layers.txt"),
    ("layers", "tools/layers.txt", "base: tensor\ntensor:\ncli:\n", "stands not above"),
    ("style", "src/base/x.c", "int a;\n" * 901, "at most 900"),
    ("style", "src/base/x.c", LONG, "f has 103 lines, at most 100"),
    ("style", "src/base/x.c", "static void g(void)\n{\n    f(malloc(3));\n}\n", "malloc: use"),
    ("style", "src/base/x.c", "void g(void)\n{\n    free(p);\n}\n", "free: use"),
    ("style", "src/tensor/x.cu", "void g()\n{\n    cudaMalloc(&p, 3);\n}\n", "cudaMalloc: use"),
    ("style", "src/base/x.c", 'void g(void)\n{\n    f(getenv("A"));\n}\n', "getenv: use"),
    ("style", "src/base/x.c", "void g(void)\n{\n    exit(1);\n}\n", "exit: use"),
    ("style", "src/base/x.c", "void g(void)\n{\n    abort();\n}\n", "abort: use"),
    ("style", "src/base/x.c", '#include "base/y.c"\n', "includes a source file"),
    ("style", "src/base/x.c", "#ifdef RIPTIDE_CUDA\n#endif\n", "RIPTIDE_CUDA: use"),
    ("style", "src/base/x.c", "/* TO" "DO: more */\n", "unfinished work"),
    ("style", "src/base/x.c", "int " + "a" * 100 + ";\n", "columns, at most 100"),
    ("style", "src/base/x.c", "int a; \n", "white space at the end"),
    ("style", "src/base/x.h", "int a;\n", "no include guard"),
    ("style", "src/base/utils.c", "int a;\n", "a name that says nothing"),
    ("style", "src/base/misc/x.c", "int a;\n", "a name that says nothing"),
    ("style", "src/cli/good.c", "int a;\n", "the same file name"),
    ("style", "tools/style_exceptions.txt", "src/a.c lines reason\n", "needs no exception"),
]
# What must not be reported: (tool, file, text)
FINE = [
    ("layers", "src/cli/x_main.c", '#include "tensor/y.h"\n'),
    ("layers", "src/tensor/x.c", '#include "tensor/y_priv.h"\n#include "build_id.h"\n'),
    ("style", "src/base/mem.c", "void g(void)\n{\n    free(malloc(3));\n}\n"),
    ("style", "src/cli/x_main.c", "void g(void)\n{\n    exit(1);\n}\n"),
    ("style", "src/base/x.c", 'static const char *a = "malloc(3) /* getenv(" /* exit( */;\n'),
    ("style", "src/base/x.c", LONG.replace("    f();\n" * 4, "")),
]
RUNNER = {
    "passes.sh": ('echo "ok one"\necho "skip two no weights here"\n', 0,
                  ["skipped 1: no weights here", "1 passed, 0 failed, 1 skipped"]),
    "fails.sh": ('echo "the reason"\necho "not ok one"\n', 1,
                 ["FAILED one", "the reason", "0 passed, 1 failed, 0 skipped"]),
    "crashes.sh": ('echo "ok one"\nkill -SEGV $$\n', 1, ["killed by SIGSEGV", "1 passed, 1 failed"]),
    "exits.sh": ('echo "ok one"\nexit 3\n', 1, ["exit status 3", "1 passed, 1 failed"]),
    "hangs.sh": ("# tags: timeout=1\necho start\nsleep 30\n", 1, ["ran longer than 1 s"]),
    "silent.sh": ("true\n", 1, ["it ran no test"]),
    "sanitized.sh": ('echo "WARNING: ThreadSanitizer: data race"\necho "ok one"\n', 1,
                     ["FAILED (sanitizer)"]),
}
CMOCKA = r"""#!/bin/sh
echo '[==========] Running 4 test(s).'
echo '[ RUN      ] good'
echo '[       OK ] good'
echo '[ RUN      ] bad'
echo '[  ERROR   ] --- 1 != 2'
echo '[  FAILED  ] bad'
echo '[ RUN      ] left_out'
echo 'SKIP: no such file'
echo '[  SKIPPED ] left_out'
echo '[ RUN      ] crash'
kill -ABRT $$
"""
failures = 0


def verdict(name, is_good, detail=""):
    global failures
    failures += not is_good
    if not is_good:
        print(detail)
    print("%s %s" % ("ok" if is_good else "not ok", name))


def write(root, files):
    for path, text in files.items():
        full = os.path.join(root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as f:
            f.write(text)


def judge(tool, files):
    with tempfile.TemporaryDirectory() as root:
        write(root, dict(GOOD, **files))
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools/check_%s.py" % tool), root],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def check_checkers():
    for tool in ("layers", "style"):
        status, text = judge(tool, {})
        verdict("%s_takes_a_good_tree" % tool, status == 0, text)
    for number, (tool, path, content, want) in enumerate(BAD):
        status, text = judge(tool, {path: content})
        verdict("%s_refuses_%d" % (tool, number), status != 0 and want in text,
                "%s %r\nwant %s, got %s" % (path, content[:80], want, text))
    for number, (tool, path, content) in enumerate(FINE):
        status, text = judge(tool, {path: content})
        verdict("%s_takes_%d" % (tool, number), status == 0, text)


def run_runner(files, *arguments):
    """The runner finds its tests beside itself: a copy in a tree of its own."""
    with tempfile.TemporaryDirectory() as root:
        with open(os.path.join(ROOT, "tests/run.py"), encoding="utf-8") as f:
            files = dict(files, **{"tests/run.py": f.read()})
        write(root, files)
        for path in files:
            if path.startswith("build/"):
                os.chmod(os.path.join(root, path), stat.S_IRWXU)
        done = subprocess.run([sys.executable, os.path.join(root, "tests/run.py"), *arguments],
                              capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


def check_runner():
    for name, (script, want_status, parts) in RUNNER.items():
        status, text = run_runner({"tests/oracle/" + name: script})
        good = status == want_status and all(p in text for p in parts)
        verdict("runner_" + name[:-3], good, "status %d\n%s" % (status, text))
    source, program = "tests/unit/base/test_x.c", "build/tests/unit/base/test_x"
    status, text = run_runner({source: "\n", program: CMOCKA}, "--tag", "fast")
    parts = ["FAILED bad", "1 != 2", "skipped 1: no such file", "FAILED crash",
             "killed by SIGABRT", "1 passed, 2 failed, 1 skipped"]
    verdict("runner_reads_cmocka", status == 1 and all(p in text for p in parts), text)
    status, text = run_runner({source: "\n"})
    verdict("runner_misses_a_program", status == 1 and "is not built" in text, text)
    status, text = run_runner({})
    verdict("runner_with_nothing_to_do", status == 1 and
            text.endswith("0 passed, 0 failed, 0 skipped\n"), text)


check_checkers()
check_runner()
sys.exit(1 if failures else 0)
