#!/bin/sh
# device_ops: op tests, sanitizer runs and floors of the cuda backend on a machine with a GPU.
#
# Usage: device_ops.sh DIR OUT STEP...
#   DIR   built programs (test_ops, test_cuda_linear, linear_floor) and the libraries they want
#   OUT   where logs go
#   STEP  ops:NAME[,NAME…]   test_ops of tests whose name contains NAME
#         wide               test_cuda_linear
#         floor[:NAME]       linear_floor
#         TOOL:NAME[,NAME…]  test_ops under compute-sanitizer's memcheck, racecheck, initcheck or
#                            synccheck
#         TOOL-wide:NAME     test_cuda_linear under it
# A failing step is reported and the next one runs. The exit status is 1 when any failed.
DIR=$1
OUT=$2
shift 2
export LD_LIBRARY_PATH="$DIR/lib"
export RIPTIDE_TEST_BACKENDS="${RIPTIDE_TEST_BACKENDS:-cuda}"
SANITIZER=${SANITIZER:-compute-sanitizer}
failed=0

# step LOG COMMAND...: runs it for at most 170 s, keeps the log, prints the end.
step() {
    log="$OUT/$1"
    shift
    start=$(date +%s)
    timeout 170 "$@" >>"$log" 2>&1
    rc=$?
    echo "[$rc] $(($(date +%s) - start)) s: $*"
    grep -E "FAILED|failed|other bits|from ref|from the formula|ERROR SUMMARY|RACECHECK SUMMARY|cases |wants |Error:|hazard" "$log" | tail -n 40
    [ $rc -eq 0 ] || failed=1
}

for s in "$@"; do
    tool=${s%%:*}
    names=$(echo "${s#*:}" | tr ',' ' ')
    case $s in
    wide) step wide.log "$DIR/test_cuda_linear" ;;
    floor) step floor.txt "$DIR/linear_floor" && cat "$OUT/floor.txt" ;;
    floor:*) step floor.txt "$DIR/linear_floor" "$names" && cat "$OUT/floor.txt" ;;
    ops:*)
        for n in $names; do step "ops_$n.log" "$DIR/test_ops" "$n"; done
        ;;
    *-wide:*)
        for n in $names; do
            step "${tool}_$n.log" "$SANITIZER" --tool "${tool%-wide}" --error-exitcode 9 \
                "$DIR/test_cuda_linear" "$n"
        done
        ;;
    *:*)
        for n in $names; do
            step "${tool}_$n.log" "$SANITIZER" --tool "$tool" --error-exitcode 9 "$DIR/test_ops" "$n"
        done
        ;;
    *)
        echo "unknown step $s"
        failed=1
        ;;
    esac
done
exit $failed
