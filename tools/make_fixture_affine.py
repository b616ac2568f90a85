#!/usr/bin/env python3
"""Write tests/unit/tensor/fixture_affine.h: digests of MLX affine quantisation made with numpy.

An oracle for src/tensor/quant.c that shares no code with it: rows from a small generator that the
test repeats, quantised with array arithmetic in float32, digests of codes, scales and biases.
Usage: make_fixture_affine.py OUT   (needs numpy)
"""
import sys

import numpy as np

ROWS, COLS = 16, 256


def inputs():
    """A 32-bit congruential generator; rows differ in size and offset, some are special."""
    state, out = 12345, np.zeros((ROWS, COLS), np.float32)
    for r in range(ROWS):
        for c in range(COLS):
            state = (state * 1664525 + 1013904223) % 2 ** 32
            out[r, c] = np.float32(state >> 8) / np.float32(2 ** 24)
    scale = np.float32(2) ** np.arange(-8, 8, dtype=np.float32)
    out = (out - np.float32(0.5)) * scale[:, None] + (scale * np.float32(0.375))[:, None]
    out[3] = np.abs(out[3])
    out[4] = -np.abs(out[4])
    out[5] = 0
    out[6] = np.float32(0.75)
    out[7, ::2] = 0
    return out.astype(np.float32)


def bf16(x):
    u = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return (((u + 0x7FFF + ((u >> 16) & 1)) >> 16) & 0xFFFF).astype(np.uint16)


def widen(h):
    return (h.astype(np.uint32) << 16).view(np.float32)


def quantise(x, bits, group):
    top = np.float32(2 ** bits - 1)
    g = x.reshape(ROWS, COLS // group, group)
    hi, lo = g.max(-1, keepdims=True), g.min(-1, keepdims=True)
    low = np.abs(lo) > np.abs(hi)
    step = np.maximum((hi - lo) / top, np.float32(1e-7))
    step = np.where(low, step, -step)
    edge = np.where(low, lo, hi)
    q0 = np.round(edge / step)
    safe = np.where(q0 == 0, np.float32(1), q0)
    scale = bf16(np.where(q0 == 0, step, edge / safe))
    bias = bf16(np.where(q0 == 0, np.float32(0), edge))
    q = np.clip(np.round((g - widen(bias)) / widen(scale)), 0, top).astype(np.uint8)
    codes = q.reshape(ROWS, COLS)
    string = ((codes[..., None] >> np.arange(bits, dtype=np.uint8)) & 1).reshape(ROWS, -1)
    return np.packbits(string, axis=1, bitorder="little"), scale, bias


def fnv(data):
    h = 0xCBF29CE484222325
    for b in data:
        h = (h ^ b) * 0x100000001B3 % 2 ** 64
    return h


def main():
    x = inputs()
    lines = []
    for bits in (2, 3, 4, 5, 6, 8):
        for group in (32, 64, 128):
            codes, scale, bias = quantise(x, bits, group)
            parts = [fnv(p.tobytes()) for p in (codes, scale, bias)]
            lines.append("    {%d, %d, {%s}}," % (bits, group, ", ".join("0x%016xu" % p for p in parts)))
    with open(sys.argv[1], "w") as f:
        f.write("/* Made by tools/make_fixture_affine.py; FNV-1a digests of codes, scales and biases of the\n"
                " * rows that its inputs() describes. */\n"
                "#include <stdint.h>\n\n"
                "enum { FIXTURE_ROWS = %d, FIXTURE_COLS = %d };\n"
                "static const struct {\n    int bits, group;\n    uint64_t digest[3];\n} fixture_affine[] = {\n"
                "%s\n};\n" % (ROWS, COLS, "\n".join(lines)))


main()
