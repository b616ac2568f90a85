#!/bin/sh
# Token ids against Hugging Face's own tokenizers (npm `tokenizers`, its Rust build).
# tags: timeout=600 one-thread
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! command -v node >/dev/null 2>&1; then
    echo "skip tokenizer node is missing"
    exit 0
fi
if ! node -e 'require("tokenizers")' >/dev/null 2>&1; then
    echo "skip tokenizer the npm package tokenizers is missing"
    exit 0
fi
exec node tokenizer.mjs "$@"
