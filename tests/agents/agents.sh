#!/bin/sh
# Coding agents against `riptide serve`, in a network namespace that has nothing but loopback.
#
#     tests/agents/agents.sh [--install] [--keep FOLDER] [pi] [qwen] [opencode]
#
# --install fetches them first (npm, pinned in package.json; 600 MB). --keep writes what each asked
# and was answered. Not part of `./dev test`; README.md says how long it takes.
set -eu
cd "$(dirname "$0")"
if [ "${1-}" = --install ]; then
    shift
    npm install --no-package-lock --no-audit --no-fund --ignore-scripts --loglevel=error
    (cd node_modules/opencode-ai && node postinstall.mjs) # puts its program in place
fi
for needed in node unshare ip git; do
    if ! command -v "$needed" >/dev/null 2>&1; then
        echo "skip agents $needed is missing"
        exit 0
    fi
done
if ! unshare -rn true 2>/dev/null; then
    echo "skip agents no network namespaces here"
    exit 0
fi
exec unshare -rn sh -c 'ip link set lo up && exec node "$@"' agents agents.mjs "$@"
