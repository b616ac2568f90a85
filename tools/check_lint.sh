#!/bin/sh
# clang-tidy with the checks of .clang-tidy over every C file of src, tests and bench.
set -eu
if ! command -v clang-tidy >/dev/null; then
    echo "check_lint: clang-tidy is missing" >&2
    exit 1
fi
gen=$(mktemp -d)
trap 'rm -rf "$gen"' EXIT
sh tools/build_id.sh "$gen/build_id.h"
export gen
files=$(find src tests bench -name node_modules -prune -o -name '*.c' -print | LC_ALL=C sort)
# What needs packages that this machine lacks is not built either.
for file in bench/*.c; do
    needs=$(sed -n '1s/.*needs: *\([^*]*[^ *]\) *\*.*/\1/p' "$file")
    # shellcheck disable=SC2086 # a list of words
    [ -z "$needs" ] || pkg-config --exists $needs 2>/dev/null ||
        files=$(echo "$files" | grep -vx "$file")
done
# Kernel files are read as for the widest instruction set; nothing is run.
if echo "$files" | xargs -P 2 -n 10 sh -c 'clang-tidy --quiet "$@" -- -std=c11 -D_GNU_SOURCE \
    -Isrc -Itests -I"$gen" -isystem /usr/share/include/llhttp -Wall -Wextra $(uname -m | sed -n \
    "s/x86_64/-mavx2 -mfma -mf16c -mbmi2 -mavx512f -mavx512bw -mavx512vl -mavx512dq \
    -mavx512vnni -mavx512bf16/p") 2>/dev/null' sh; then
    echo "check_lint: $(echo "$files" | wc -l) files"
else
    exit 1
fi
