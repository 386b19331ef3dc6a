#!/bin/sh
# Checks the dependencies against deny.toml, without the network. Advisories are checked where a copy of their database is.
set -eu
cd "$(dirname "$0")/.."
deny="target/tools/bin/cargo-deny --offline --locked check --hide-inclusion-graph"
$deny bans licenses sources
if [ -d "${CARGO_HOME:-$HOME/.cargo}/advisory-dbs" ]; then
    $deny advisories
else
    echo "advisories are not checked: there is no copy of their database (cargo deny fetch)"
fi
