#!/bin/sh
# What the tests need beyond the Rust toolchain. Installed if it can be, else named: nothing is skipped.
set -eu
missing=
# debootstrap, systemd-nspawn and nft make the machines of tests/machines/, which needs root besides. The tests of the
# store start an etcd of their own.
for tool in cc python3 strace tmux zsh fish setpriv unshare debootstrap systemd-nspawn nft etcd etcdctl; do
    command -v "$tool" >/dev/null 2>&1 || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    echo "installing:$missing"
    packages=
    for tool in $missing; do
        case $tool in
        cc) packages="$packages gcc" ;;
        systemd-nspawn) packages="$packages systemd-container" ;;
        nft) packages="$packages nftables" ;;
        etcd) packages="$packages etcd-server" ;;
        etcdctl) packages="$packages etcd-client" ;;
        setpriv | unshare) packages="$packages util-linux" ;;
        *) packages="$packages $tool" ;;
        esac
    done
    sudo=
    [ "$(id -u)" = 0 ] || sudo=sudo
    # shellcheck disable=SC2086
    { $sudo apt-get update -qq && $sudo apt-get install -y -qq $packages; } ||
        { echo "make test needs these programs:$missing" >&2; exit 1; }
fi
# The interpreter itself and not what a version manager puts on PATH under its name: pyenv's takes a lock after each
# installation, which a killed installation leaves behind for ever.
python=$(python3 -c 'import sys; print(sys.executable)')
"$python" -m pip --version >/dev/null 2>&1 ||
    { echo "make test needs pip: python3 -m pip does not answer (Debian: python3-pip)" >&2; exit 1; }
# cargo-deny reads the crates of all platforms without the network; a build fetches only those of this one.
cargo fetch --quiet --locked || { echo "make test needs the crates of Cargo.lock: cargo cannot fetch them" >&2; exit 1; }

# Checks licences, sources and banned crates (deny.toml). Built once, 2 to 3 minutes, and kept in target/tools.
deny=0.20.2
tools=$(dirname "$0")/../target/tools
if ! "$tools/bin/cargo-deny" --version 2>/dev/null | grep -qx "cargo-deny $deny"; then
    echo "installing: cargo-deny $deny (for the tests only, into target/tools)"
    cargo install --quiet --locked --root "$tools" "cargo-deny@$deny" ||
        { echo "make test needs cargo-deny $deny: cargo cannot install it" >&2; exit 1; }
fi
# The package that test suites of charms drive `juju` with; its exact version is part of what is tested.
jubilant=jubilant==1.14.0
folder=$(dirname "$0")/../target/jubilant
if [ ! -d "$folder/${jubilant%%=*}-${jubilant##*=}.dist-info" ]; then
    echo "installing: $jubilant (for the tests only, into target/jubilant)"
    "$python" -m pip install -q --target "$folder" "$jubilant" ||
        { echo "make test needs $jubilant: pip cannot install it" >&2; exit 1; }
fi
# The source distribution of ops, whose test suites tests/tests/real_charms.rs runs, and what these import. ops-scenario
# is ops.testing, with which tests/tests/recorded_runs runs exported tests.
ops=3.9.0
scenario=8.9.0
folder=$(dirname "$0")/../target/ops-suite
if [ ! -d "$folder/ops-$ops" ] || [ ! -d "$folder/ops_scenario-$scenario.dist-info" ]; then
    echo "installing: the test suites of ops $ops (for the tests only, into target/ops-suite)"
    { "$python" -m pip install -q --target "$folder" pytest==9.2.0 minio==7.2.20 uv==0.13.9 "ops==$ops" "ops-scenario==$scenario" &&
        "$python" -m pip download -q --no-deps --no-binary :all: -d "$folder" "ops==$ops" &&
        tar -xf "$folder/ops-$ops.tar.gz" -C "$folder"; } ||
        { echo "make test needs the test suites of ops $ops: pip cannot download them" >&2; exit 1; }
fi
