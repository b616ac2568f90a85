#!/bin/sh
# The Identity rule over every way that the engine computes an answer: `riptide bench oracle`, short.
# tags: timeout=600 one-thread
cd "${RIPTIDE_ROOT:-.}" || exit 1
riptide=${RIPTIDE_BUILD:-build}/riptide
"$riptide" bench oracle --model models/mini-dense --kv-format int8 --tokens 16 --prompt 130 --threads 1 || code=1
"$riptide" bench oracle --model models/mini-moe --kv-format bf16 --state-format bf16 --tokens 14 --prompt 180 --threads 1 || code=1
exit ${code:-0}
