#!/bin/sh
# The AI SDK, LangChain and OpenAI's agents, unchanged, against `riptide serve` with the bundled model.
# tags: timeout=300
# On a network of nothing but loopback where that can be had. Their 200 MB are fetched by
# `./dev install-only clients`, which .ci/run does.
cd "${RIPTIDE_ROOT:-.}/tests/oracle/clients" || exit 1
for needed in node ../node_modules/ts-json-schema-generator node_modules/.installed; do
    if ! [ -e "$needed" ] && ! command -v "$needed" >/dev/null 2>&1; then
        echo "skip sdk_clients $needed is missing: ./dev install-only clients"
        exit 0
    fi
done
if unshare -rn ip link set lo up 2>/dev/null; then
    exec unshare -rn sh -c 'ip link set lo up && exec node clients.mjs "$@"' clients "$@"
fi
exec node clients.mjs "$@"
