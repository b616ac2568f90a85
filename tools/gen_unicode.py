#!/usr/bin/env python3
"""Write src/token/unicode_tables.inc.

Usage: gen_unicode.py NODE_MODULES > src/token/unicode_tables.inc

NODE_MODULES holds npm's @unicode/unicode-9.0.0, -14.0.0 and -16.0.0 (MIT, generated from the
Unicode character database). Three tables come out:

  unicode_index, unicode_block   one byte of UNICODE_* flags for each code point, in two stages
  unicode_added                  what Unicode 16 has and Unicode 14 (PCRE2 10.42) has not,
                                 as ranges with their general category

Letters, marks, numbers and white space follow Unicode 16, as the regular expressions of Hugging
Face's tokenizers do. Normalisation follows Unicode 9, as their normaliser does: a code point
assigned later is left alone. Canonical decompositions and combining classes of assigned code
points never change (Unicode's stability policy), so Python's own data serves for any version.
"""
import os
import re
import sys
import unicodedata

N = 0x110000
ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
BLOCK = 128

# The flags, in the order of src/token/unicode_priv.h.
LETTER, MARK, NUMBER, SPACE, WORD, NFC_CLASS, NFC_CHANGES, NFC_BASE = (1 << i for i in range(8))

CATEGORIES = {
    "Lu": "Uppercase_Letter", "Ll": "Lowercase_Letter", "Lt": "Titlecase_Letter",
    "Lm": "Modifier_Letter", "Lo": "Other_Letter", "Mn": "Nonspacing_Mark",
    "Mc": "Spacing_Mark", "Me": "Enclosing_Mark", "Nd": "Decimal_Number",
    "Nl": "Letter_Number", "No": "Other_Number", "Pc": "Connector_Punctuation",
    "Pd": "Dash_Punctuation", "Ps": "Open_Punctuation", "Pe": "Close_Punctuation",
    "Pi": "Initial_Punctuation", "Pf": "Final_Punctuation", "Po": "Other_Punctuation",
    "Sm": "Math_Symbol", "Sc": "Currency_Symbol", "Sk": "Modifier_Symbol", "So": "Other_Symbol",
    "Zs": "Space_Separator", "Zl": "Line_Separator", "Zp": "Paragraph_Separator",
    "Cc": "Control", "Cf": "Format", "Co": "Private_Use", "Cs": "Surrogate",
}


def deltas(text):
    """Numbers of 5, 10, 15 or 21 bits in base 64; the first digit's top bits give the size."""
    digits = [ALPHABET.index(c) for c in text]
    i = 0
    while i < len(digits):
        first = digits[i]
        extra = 0 if first < 32 else 1 if first < 48 else 2 if first < 56 else 3
        value = first & (31, 15, 7, 7)[extra]
        for digit in digits[i + 1:i + 1 + extra]:
            value = value << 6 | digit
        i += 1 + extra
        yield value


def ranges(node_modules, version, prop):
    """[first, last] ranges of a property: gap and length alternate."""
    path = os.path.join(node_modules, "@unicode", f"unicode-{version}.0.0", prop, "ranges.mjs")
    with open(path, encoding="utf-8") as file:
        numbers = list(deltas(re.search(r"decodeRanges\('([^']*)'\)", file.read()).group(1)))
    end = -1
    for gap, length in zip(numbers[::2], numbers[1::2]):
        begin = end + 1 + gap
        end = begin + 1 + length
        yield begin, end - 1


def categories(node_modules, version):
    out = ["Cn"] * N
    for short, name in CATEGORIES.items():
        for first, last in ranges(node_modules, version, "General_Category/" + name):
            for cp in range(first, last + 1):
                assert out[cp] == "Cn", f"{cp:x} has two categories"
                out[cp] = short
    return out


def add_flag(flags, node_modules, prop, flag):
    for first, last in ranges(node_modules, 16, "Binary_Property/" + prop):
        for cp in range(first, last + 1):
            flags[cp] |= flag


def add_normalisation(flags, assigned):
    """NFC_CLASS: combining class is not 0. NFC_CHANGES: NFC_Quick_Check is not Yes.
    NFC_BASE: a starter that decomposes or that a following code point may join."""
    for cp in range(N):
        if not assigned[cp] or 0xD800 <= cp < 0xE000:
            continue
        char = chr(cp)
        if unicodedata.combining(char):
            flags[cp] |= NFC_CLASS
        if unicodedata.normalize("NFC", char) != char:
            flags[cp] |= NFC_CHANGES
        if unicodedata.normalize("NFD", char) == char:
            continue
        flags[cp] |= NFC_BASE
        parts = unicodedata.decomposition(char).split()
        if len(parts) == 2 and unicodedata.normalize("NFC", char) == char:
            flags[int(parts[0], 16)] |= NFC_BASE
            flags[int(parts[1], 16)] |= NFC_CHANGES
    for cp in range(0x1100, 0x1113):  # Hangul: leading consonants, vowels, trailing consonants
        flags[cp] |= NFC_BASE
    for cp in list(range(0x1161, 0x1176)) + list(range(0x11A8, 0x11C3)):
        flags[cp] |= NFC_CHANGES


def put_array(kind, name, values, per_line):
    print(f"const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(str(v) for v in values[i:i + per_line]) + ",")
    print("};")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    root = sys.argv[1]
    old, new, nine = (categories(root, version) for version in (14, 16, 9))
    flags = [0] * N
    for cp, category in enumerate(new):
        flags[cp] |= {"L": LETTER, "M": MARK, "N": NUMBER}.get(category[0], 0)
        if category[0] == "M" or category in ("Nd", "Pc"):
            flags[cp] |= WORD
    add_flag(flags, root, "White_Space", SPACE)
    add_flag(flags, root, "Alphabetic", WORD)
    add_flag(flags, root, "Join_Control", WORD)
    add_normalisation(flags, [category != "Cn" for category in nine])

    blocks, index = {}, []
    for start in range(0, N, BLOCK):
        index.append(blocks.setdefault(tuple(flags[start:start + BLOCK]), len(blocks)))
    added = []
    for cp in range(N):
        if new[cp] == old[cp]:
            continue
        if added and added[-1][1] == cp - 1 and added[-1][2] == new[cp]:
            added[-1][1] = cp
        else:
            added.append([cp, cp, new[cp]])

    print("/* Generated by tools/gen_unicode.py from npm @unicode/unicode-9.0.0, -14.0.0, -16.0.0. */")
    put_array("uint16_t", "unicode_index", index, 16)
    flat = [value for block in blocks for value in block]
    put_array("uint8_t", "unicode_block", flat, 20)
    print("/* first, last, general category in Unicode 16; another one, mostly none, in 14 */")
    print(f"const unicode_range unicode_added[{len(added)}] = {{")
    for first, last, category in added:
        print(f'    {{0x{first:04x}, 0x{last:04x}, "{category}"}},')
    print("};")


main()
