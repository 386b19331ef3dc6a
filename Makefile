# The two commands of the README. Everything else is plain cargo: see .cargo/config.toml.
# Where the programs are is asked of cargo: CARGO_TARGET_DIR and cargo's configuration can put them anywhere.
CARGO ?= cargo
DEMO = $(CARGO) run --quiet --locked --package tests --bin demo --

.PHONY: demo test build programs

build:
	@echo "building pintle (a first build takes some minutes)"
	@$(CARGO) build --locked --workspace --bins

# Prints the folder of the programs.
programs:
	@$(DEMO) --programs

demo: build
	@$(DEMO)

test:
	@tests/prerequisites.sh
	@$(MAKE) --no-print-directory build
	@rm -f "$$($(DEMO) --programs)/../skipped-tests"
	@$(CARGO) fmt --all --check
	@tests/dependencies.sh
	@$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings
	@RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --quiet --workspace --exclude tests
	@tests/timed.sh $(CARGO) test --locked --workspace
	@list="$$($(DEMO) --programs)/../skipped-tests"; \
		[ ! -s "$$list" ] || { echo "These tests cannot run on this host:"; cat "$$list"; }
