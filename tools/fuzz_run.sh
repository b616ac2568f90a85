#!/bin/sh
# fuzz_run.sh BUILD SECONDS: runs each fuzz target of BUILD over its corpus for SECONDS, two at a
# time: tests/fuzz/corpus, written by hand, and tests/fuzz/found, what long runs of some targets came
# to (ten minutes each, merged). What it finds on the way is kept in BUILD/corpus, inputs that crash
# in BUILD/crashes. Fails when any does.
set -u
build=$1
seconds=$2

# run_target NAME: one target, what it has to say into BUILD/NAME.result.
run_target() {
    name=$1
    seeds=tests/fuzz/corpus/${name#fuzz_}
    if [ -z "$(ls "$seeds" 2>/dev/null)" ]; then
        echo "not ok $name has no corpus in $seeds"
        return
    fi
    if [ ! -d "$build/corpus/$name" ]; then
        mkdir -p "$build/corpus/$name"
        found=tests/fuzz/found/${name#fuzz_}.tar.gz
        if [ -e "$found" ] && ! tar -xzf "$found" -C "$build/corpus/$name"; then
            echo "not ok $name cannot unpack $found"
            return
        fi
    fi
    mkdir -p "$build/crashes"
    log=$build/$name.log
    # What earlier runs found must still pass, then new inputs are made for the given time.
    if "$build/tests/fuzz/$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
        -malloc_limit_mb=512 -artifact_prefix="$build/crashes/$name-" -print_final_stats=1 \
        "$build/corpus/$name" "$seeds" >"$log" 2>&1; then
        echo "ok $name $(sed -n 's/^stat::number_of_executed_units: */runs /p' "$log")" \
            "$(sed -n 's/.*cov: \([0-9]*\).*/\1/p' "$log" | tail -1) edges"
    else
        echo "not ok $name"
        tail -n 60 "$log"
    fi
}

failed=0
# report NAME...: wait for what runs, then print it.
report() {
    wait
    for name in "$@"; do
        cat "$build/$name.result"
        grep -q '^ok ' "$build/$name.result" || failed=1
    done
}

before=
for source in tests/fuzz/fuzz_*.c; do
    name=$(basename "$source" .c)
    run_target "$name" >"$build/$name.result" &
    if [ -z "$before" ]; then
        before=$name
    else
        report "$before" "$name"
        before=
    fi
done
[ -z "$before" ] || report "$before"
exit $failed
