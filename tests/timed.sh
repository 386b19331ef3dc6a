#!/bin/bash
# Runs a command that runs test suites (cargo test), and prints the ten slowest suites at its end. The exit status is that
# of the command.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
"$@" 2>&1 | tee "$output"
status=${PIPESTATUS[0]}
slowest=$(awk '
    /^ +Running / { suite = $NF; sub(/.*\//, "", suite); sub(/-[0-9a-f]+\)$/, "", suite) }
    /^ +Doc-tests / { suite = $2 " (doc)" }
    /^test result: .*finished in / { time = $NF; sub(/s$/, "", time); printf "%8.1f s  %s\n", time, suite }
' "$output" | sort -rn | head -n 10)
[ -z "$slowest" ] || printf 'The slowest test suites:\n%s\n' "$slowest"
exit "$status"
