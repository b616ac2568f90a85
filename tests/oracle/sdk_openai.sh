#!/bin/sh
# The official OpenAI client, unchanged, against `riptide serve` with the bundled model.
# tags: timeout=300
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! command -v node >/dev/null 2>&1; then
    echo "skip sdk_openai node is missing"
    exit 0
fi
if ! node -e 'import("openai").catch(() => process.exit(1))' >/dev/null 2>&1; then
    echo "skip sdk_openai the npm package openai is missing"
    exit 0
fi
exec node sdk_openai.mjs "$@"
