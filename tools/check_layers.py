#!/usr/bin/env python3
"""Compares every #include "folder/…" of src/ with tools/layers.txt.

Refuses an arrow that the table lacks, a private header (*_priv.h) of another folder, an include
not written from src/, and anything that includes tests/. A *_main.c may include any door.
An argument names another root than the working folder.
"""
import os
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
SOURCE = (".c", ".h", ".cu", ".cuh", ".inc")


def read_table(path):
    """folder -> folders it may include; the order of the file is checked to be topological."""
    table = {}
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        folder, colon, others = line.partition(":")
        others = others.split()
        unknown = [o for o in others if o not in table]
        if not colon or folder in table or unknown:
            sys.exit("%s:%d: %s" % (path, number, "names %s, which stands not above" % unknown[0]
                                    if unknown else "not `folder: folders`, or named twice"))
        table[folder] = set(others)
    return table


def sources(root):
    for at, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith(SOURCE):
                yield os.path.relpath(os.path.join(at, name), root)


def check_include(table, path, target):
    """What is wrong with src/path including "target", or None."""
    folder, other = path.split("/")[0], target.split("/")[0]
    if target == "build_id.h":  # generated
        return None
    if "/" not in target:
        return "write it from src/: \"%s/%s\"" % (folder, target)
    if other not in table:
        return "%s/ is no folder of tools/layers.txt" % other
    if other == folder:
        return None
    if target.endswith("_priv.h"):
        return "a private header of %s/" % other
    if other not in table[folder] and not path.endswith("_main.c"):
        return "%s/ may not include %s/ (tools/layers.txt)" % (folder, other)
    return None


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    table = read_table(os.path.join(root, "tools/layers.txt"))
    src = os.path.join(root, "src")
    n_includes = n_wrong = 0
    for path in sources(src):
        if path.split("/")[0] not in table:
            print("src/%s: its folder is not in tools/layers.txt" % path)
            n_wrong += 1
            continue
        text = open(os.path.join(src, path), encoding="utf-8").read()
        for found in INCLUDE.finditer(text):
            n_includes += 1
            wrong = check_include(table, path, found.group(1))
            if wrong:
                line = text.count("\n", 0, found.start()) + 1
                print("src/%s:%d: #include \"%s\": %s" % (path, line, found.group(1), wrong))
                n_wrong += 1
    print("check_layers: %d includes, %d wrong" % (n_includes, n_wrong))
    return 1 if n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
