#!/usr/bin/env python3
# tags: library
"""Writes src/chat/jinja_unicode_tables.inc: what Python's str knows of Unicode and utf8proc does not.

Run by hand with the Python whose behaviour is the oracle: tests/oracle/template_tables.py > FILE
"""
import sys
import unicodedata

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def ranges(test):
    out = []
    for c in ALL:
        if test(chr(c)):
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def print_ranges(name, why, test):
    print(f"/* {why} */")
    print(f"static const uint32_t {name}[][2] = {{")
    row = "   "
    for a, b in ranges(test):
        item = f" {{0x{a:x}, 0x{b:x}}},"
        if len(row) + len(item) > 100:
            print(row)
            row = "   "
        row += item
    print(row + "\n};\n")


def print_special(name, why, method):
    print(f"/* {why} */")
    print(f"static const uint32_t {name}[][4] = {{")
    for c in ALL:
        to = getattr(chr(c), method)()
        if len(to) > 1:
            cells = [c] + [ord(x) for x in to] + [0] * (3 - len(to))
            print("    {" + ", ".join(f"0x{x:x}" for x in cells) + "},")
    print("};\n")


def category(c):
    return unicodedata.category(c)


print(f"/* Made by tests/oracle/template_tables.py from Python {sys.version.split()[0]} "
      f"(Unicode {unicodedata.unidata_version}). */\n")
print_special("upper_special", "{code point, its upper case: two or three code points}", "upper")
print_special("title_special", "{code point, its title case: two or three code points}", "title")
print_ranges("digit_ranges", "isdigit() but not decimal", lambda c: c.isdigit() and not c.isdecimal())
print_ranges("numeric_ranges", "isnumeric() outside the number categories",
             lambda c: c.isnumeric() and category(c) not in ("Nd", "Nl", "No"))
print_ranges("lower_ranges", "islower() outside category Ll",
             lambda c: c.islower() and category(c) != "Ll")
print_ranges("upper_ranges", "isupper() outside category Lu",
             lambda c: c.isupper() and category(c) != "Lu")
