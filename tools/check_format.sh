#!/bin/sh
# Whether every C, CUDA and header file of src, tests and bench is as .clang-format says; --fix makes it so.
set -eu
files=$(find src tests bench -name node_modules -prune -o \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) -print | LC_ALL=C sort)
if ! command -v clang-format >/dev/null; then
    echo "check_format: clang-format is missing" >&2
    exit 1
fi
if [ "${1-}" = --fix ]; then
    echo "$files" | xargs clang-format -i
    exit 0
fi
if echo "$files" | xargs clang-format --dry-run -Werror -ferror-limit=1 2>&1 | grep -E 'error|warning'; then
    echo "check_format: run \`make format\`" >&2
    exit 1
fi
echo "check_format: $(echo "$files" | wc -l) files"
