# The two commands of the README. Everything else is plain cargo: see .cargo/config.toml.
CARGO ?= cargo

.PHONY: demo test build

build:
	@echo "building pintle (a first build takes some minutes)"
	@$(CARGO) build --locked --workspace --bins

demo: build
	@target/debug/demo

test:
	@rm -f target/skipped-tests
	@tests/prerequisites.sh
	@$(MAKE) --no-print-directory build
	@$(CARGO) fmt --all --check
	@tests/dependencies.sh
	@$(CARGO) clippy --locked --workspace --all-targets --quiet -- -D warnings
	@$(CARGO) test --locked --workspace
	@[ ! -s target/skipped-tests ] || { echo "These tests cannot run on this host:"; cat target/skipped-tests; }
