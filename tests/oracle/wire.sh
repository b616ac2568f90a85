#!/bin/sh
# What clients get wrong and servers mishandle, over plain HTTP, every answer checked against the
# official types: the cases T, P, S, M and H of what users of local engines suffer from.
# tags: timeout=300
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! node -e 'import("ts-json-schema-generator").catch(() => process.exit(1))' >/dev/null 2>&1; then
    echo "skip wire node or the npm package ts-json-schema-generator is missing"
    exit 0
fi
exec node wire.mjs "$@"
