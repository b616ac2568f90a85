#!/bin/sh
# The chat page in a real browser, without a screen, against `riptide serve` with the bundled model.
# tags: timeout=300
cd "${RIPTIDE_ROOT:-.}/tests/oracle" || exit 1
browser=$(command -v chromium || command -v chromium-browser || command -v google-chrome || true)
if [ -z "$browser" ]; then
    echo "skip page chromium is missing"
    exit 0
fi
if ! node -e 'import("playwright-core").catch(() => process.exit(1))' >/dev/null 2>&1; then
    echo "skip page node or the npm package playwright-core is missing"
    exit 0
fi
exec node page.mjs "$browser"
