#!/bin/sh
# tags: one-thread
# Our GGUF files as others read them: npm @huggingface/gguf for the tables, node-llama-cpp (llama.cpp)
# for what the model says.
# tags: timeout=600
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
if ! command -v node >/dev/null 2>&1; then
    echo "skip gguf node is missing"
    exit 0
fi
exec node gguf.mjs "$@"
