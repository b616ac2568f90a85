#!/usr/bin/env python3
"""The rules of CONTRIBUTING.md that a machine can check; tools/style_exceptions.txt lists the
named exceptions. Errors fail; warnings are only shown. An argument names another root than the working
folder."""
import os
import re
import sys

ROOT = sys.argv[1] if len(sys.argv) > 1 else "."
FILE_LINES, FUNCTION_LINES, KERNEL_LINES, COLUMNS = 900, 100, 150, 100
CODE = (".c", ".h", ".cu", ".cuh")
WORDS = re.compile(r"\b(TODO|FIXME|XXX)\b")
# What only one place may call. (pattern, the files that may, what to use instead)
OWNED = [
    (r"\b(malloc|calloc|realloc|free|posix_memalign|aligned_alloc|strdup|strndup|asprintf|"
     r"vasprintf|getline)\s*\(", r"src/base/mem\.c", "base/mem.h or an arena"),
    (r"\bcuda(Malloc|Free|HostAlloc|FreeHost|MallocHost|MallocAsync|FreeAsync|MallocManaged)\b",
     r"src/backend/cuda/cuda_mem\.cu", "cuda_mem"),
    (r"\b(secure_)?getenv\s*\(", r"src/base/option\.c", "base/option.h"),
    (r"\b(_?exit|_Exit|quick_exit|abort)\s*\(", r"src/base/asserts\.h|.*_main\.c",
     "a status, or ASSERT for a programmer's mistake"),
    (r"\bRIPTIDE_CUDA\b", r"src/backend/registry\.c", "the registry"),
    (r"\b(gets|strcpy|strcat|sprintf|vsprintf|strtok|atoi|atol|atof|setlocale)\s*\(", r"(?!)",
     "a bounded function, or base/str.h"),
]
FOLDER_NAMES = re.compile(r"(^|/|_)(utils?|common|helpers?|misc)(/|_|\.|$)")


def strip(text):
    """Comments and the contents of strings blanked, line breaks kept."""
    def blank(found):
        s = found.group(0)
        if s[0] == "/":
            return re.sub(r"[^\n]", " ", s)
        return s[0] + re.sub(r"[^\n]", " ", s[1:-1]) + s[-1]
    token = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(token, blank, text, flags=re.S)


def functions(code):
    """(name, first line, number of lines, is kernel) of each function defined at file level: its
    body opens with a brace in column 0, or at the end of an unindented line."""
    lines = code.split("\n")
    start = None
    for i, line in enumerate(lines):
        if start is None and line.startswith("{"):
            head = i
            while head > 0 and lines[head - 1].strip() and lines[head - 1][0] not in "}#{;":
                head -= 1
            text = "\n".join(lines[head:i])
            name = re.search(r"(\w+)\s*\(", re.sub(r"__\w+__\s*(\([^()]*(\([^()]*\))?\))?", "", text))
            if name:
                start = (name.group(1), i + 1, "__global__" in text)
        elif start is not None and line.startswith("}"):
            yield start[0], start[1], i + 2 - start[1], start[2]
            start = None


class Report:
    def __init__(self):
        self.errors = self.warnings = 0

    def error(self, place, text):
        self.errors += 1
        print("%s: %s" % (place, text))

    def warning(self, place, text):
        self.warnings += 1
        print("%s: warning: %s" % (place, text))


def read_exceptions():
    """Lines `path rule reason`; a rule is `lines`, or the name of a long function or of a call."""
    allowed = {}
    path = os.path.join(ROOT, "tools/style_exceptions.txt")
    for line in open(path, encoding="utf-8"):
        words = line.split("#")[0].split(None, 2)
        if len(words) == 3:
            allowed[words[0], words[1]] = words[2].strip()
    return allowed


def files_below(*folders):
    for folder in folders:
        for at, dirs, names in os.walk(os.path.join(ROOT, folder)):
            dirs[:] = sorted(d for d in dirs if d not in ("corpus", "node_modules", "golden",
                                                          "__pycache__"))
            for name in sorted(names):
                yield os.path.relpath(os.path.join(at, name), ROOT)


def check_size(report, path, code, allowed, used):
    n_lines = code.count("\n")
    if n_lines > FILE_LINES:
        if (path, "lines") in allowed:
            used.add((path, "lines"))
        else:
            report.error(path, "%d lines, at most %d" % (n_lines, FILE_LINES))
    for name, line, n, is_kernel in functions(code):
        most = KERNEL_LINES if is_kernel else FUNCTION_LINES
        if n <= most:
            continue
        if (path, name) in allowed:
            used.add((path, name))
        else:
            report.error("%s:%d" % (path, line), "%s has %d lines, at most %d" % (name, n, most))


def check_text(report, path, text, code, allowed, used):
    in_tests = path.startswith("tests/")
    for number, line in enumerate(text.split("\n"), 1):
        place = "%s:%d" % (path, number)
        if WORDS.search(line):
            report.error(place, "unfinished work belongs in an issue, not in a comment")
        if len(line) > COLUMNS and path.endswith(CODE):
            report.error(place, "%d columns, at most %d" % (len(line), COLUMNS))
        if line != line.rstrip():
            report.error(place, "white space at the end of the line")
    for number, line in enumerate(code.split("\n"), 1):
        place = "%s:%d" % (path, number)
        if re.match(r'\s*#\s*include\s*".*\.c(u|c|pp)?"', text.split("\n")[number - 1]):
            report.error(place, "includes a source file")
        if line.lstrip().startswith("#") and "RIPTIDE_CUDA" not in line:
            continue
        for pattern, owners, instead in OWNED:
            found = re.search(pattern, line)
            if not found or re.fullmatch(owners, path):
                continue
            name = found.group(0).rstrip("( ")
            if path.startswith("bench/"):
                continue  # programs beside the product
            if (path, name) in allowed:
                used.add((path, name))
                continue
            if in_tests and name not in ("gets", "setlocale"):
                continue  # a test may allocate, copy and set up an environment by hand
            report.error(place, "%s: use %s" % (name, instead))


def check_names(report, paths):
    seen = {}
    for path in paths:
        name = os.path.basename(path)
        if FOLDER_NAMES.search(path):
            report.error(path, "a name that says nothing (utils, common, helpers, misc)")
        if path.endswith(CODE + (".inc", ".py", ".sh")):
            if name in seen:
                report.error(path, "the same file name as %s" % seen[name])
            seen[name] = path


def check_tests(report, paths):
    """Each src/<folder>/…/x.c wants tests/unit/<folder>/test_x.c; ops are tested in tests/ops."""
    tests = {os.path.basename(p) for p in paths if p.startswith("tests/")}
    for path in paths:
        name = os.path.basename(path)
        if not path.startswith("src/") or not path.endswith(".c") or name.endswith("_main.c"):
            continue
        if "test_" + name not in tests and not path.startswith("src/backend/"):
            report.warning(path, "no unit test test_%s" % name)


def check_guard(report, path, text):
    folder_and_name = re.sub(r"[^A-Za-z0-9]+", "_", "/".join(path.split("/")[1:])).upper()
    if path.startswith("src/") and path.endswith(".h"):
        if "#pragma once" not in text and not re.search(r"#ifndef RIPTIDE_\w+_H\n#define", text):
            report.error(path, "no include guard RIPTIDE_%s" % folder_and_name)


def main():
    report, allowed, used = Report(), read_exceptions(), set()
    paths = list(files_below("src", "tests", "tools", "bench"))
    for path in paths:
        if not path.endswith(CODE + (".py", ".sh", ".awk", ".mk", ".txt", ".md")):
            continue
        if path == "tools/check_style.py":
            continue
        text = open(os.path.join(ROOT, path), encoding="utf-8").read()
        if path.endswith(CODE):
            code = strip(text)
            check_size(report, path, code, allowed, used)
            check_text(report, path, text, code, allowed, used)
            check_guard(report, path, text)
        elif WORDS.search(text):
            report.error(path, "unfinished work belongs in an issue, not in a comment")
    check_names(report, paths)
    check_tests(report, paths)
    for key in sorted(set(allowed) - used):
        report.error("tools/style_exceptions.txt", "%s %s needs no exception" % key)
    print("check_style: %d files, %d errors, %d warnings"
          % (len(paths), report.errors, report.warnings))
    return 1 if report.errors else 0


if __name__ == "__main__":
    sys.exit(main())
