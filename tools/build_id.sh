#!/bin/sh
# Writes the header $1 with a hash of all sources and of the build rules, if that has changed.
set -eu
id=$(find src Makefile tools/layers.txt -type f -print0 | LC_ALL=C sort -z |
    xargs -0 sha256sum | sha256sum | cut -c1-16)
line="#define RIPTIDE_BUILD_ID \"$id\""
[ -f "$1" ] && [ "$(cat "$1")" = "$line" ] && exit 0
echo "$line" >"$1.part.$$"
mv "$1.part.$$" "$1"
