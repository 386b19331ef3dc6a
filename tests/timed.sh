#!/bin/bash
# Runs a command that runs test suites (cargo test), and prints the ten slowest suites at its end. The exit status is that
# of the command.
output=$(mktemp)
trap 'rm -f "$output"' EXIT
exec 3> >(exec tee "$output")
tee=$!
"$@" >&3 2>&1 3>&-
status=$?
exec 3>&-
# A process that a test has left behind would keep the pipe open for ever: its end is not waited for.
timeout 5 tail --pid=$tee -f /dev/null
slowest=$(awk '
    /^ +Running / { suite = $NF; sub(/.*\//, "", suite); sub(/-[0-9a-f]+\)$/, "", suite) }
    /^ +Doc-tests / { suite = $2 " (doc)" }
    /^test result: .*finished in / { time = $NF; sub(/s$/, "", time); printf "%8.1f s  %s\n", time, suite }
' "$output" | sort -rn | head -n 10)
[ -z "$slowest" ] || printf 'The slowest test suites:\n%s\n' "$slowest"
exit "$status"
