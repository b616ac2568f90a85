#!/bin/sh
# Token masks against xgrammar (npm @mlc-ai/web-xgrammar): xgrammar.sh [SCHEMAS] [PREFIXES] [SEED].
# tags: timeout=300 one-thread
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! command -v node >/dev/null 2>&1; then
    echo "skip masks node is missing"
    exit 0
fi
if ! [ -d node_modules/@mlc-ai/web-xgrammar ]; then
    echo "skip masks the npm package @mlc-ai/web-xgrammar is missing"
    exit 0
fi
exec node xgrammar.mjs "$@"
