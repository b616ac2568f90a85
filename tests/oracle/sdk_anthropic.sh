#!/bin/sh
# The official Anthropic client, unchanged, against `riptide serve` with the bundled model.
# tags: timeout=300
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! command -v node >/dev/null 2>&1; then
    echo "skip sdk_anthropic node is missing"
    exit 0
fi
if ! node -e 'import("@anthropic-ai/sdk").catch(() => process.exit(1))' >/dev/null 2>&1; then
    echo "skip sdk_anthropic the npm package @anthropic-ai/sdk is missing"
    exit 0
fi
exec node sdk_anthropic.mjs "$@"
