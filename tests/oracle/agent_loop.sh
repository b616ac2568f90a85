#!/bin/sh
# A small agent of our own mends files with the bundled model, over each of the protocols.
# tags: timeout=300
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! node -e 'Promise.all(["openai", "@anthropic-ai/sdk"].map((p) => import(p))).catch(() => process.exit(1))' >/dev/null 2>&1; then
    echo "skip agent_loop node or the official clients are missing"
    exit 0
fi
exec node agent_loop.mjs "$@"
