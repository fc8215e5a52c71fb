# make demo   build dyno, run the demo suite on this machine, print the path of its report
# make test   everything that must hold before a change lands
# make bench  dyno beside its peers, alternating, on separate CPUs (BENCH="keep-alive tls" for parts
#             of it)
# make lint   formatting, clippy, types, purity, the viewer's lints and unit tests
# make nightly  the property tests with new random inputs (NIGHTLY_CASES=2000 each); what fails is
#             kept beside the tests
# make fuzz   each fuzz target for a minute (FUZZ_SECONDS=60, FUZZ_TARGETS="hpack worker"); needs a
#             nightly compiler and cargo-fuzz
# make mutants  which small changes of the code no test notices (SHARD=0/40: every 40th;
#             AREAS="analysis wire"); needs cargo-mutants

FUZZ_SECONDS ?= 60

.PHONY: demo test nightly bench lint fuzz mutants dyno web

dyno:
	@./scripts/built -p dyno

# Status 1 says that some steps are not valid, which the report explains; it is no reason to hide
# the report.
demo:
	./scripts/setup demo
	dyno=$$(./scripts/built -p dyno) || exit; "$$dyno" run suites/hello.toml || [ $$? -eq 1 ]

# What fails keeps nothing else from running, and is named at the end, as is what this machine
# cannot check.
test:
	./scripts/setup test
	MAKE="$(MAKE)" ./scripts/test

NIGHTLY_CASES ?= 2000

nightly:
	./scripts/nightly $(NIGHTLY_CASES)

lint: web
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" \
		cargo doc --workspace --no-deps --document-private-items --locked --quiet
	./scripts/pure
	# The fuzz targets stand outside of the workspace; without libFuzzer itself any compiler can
	# check them.
	CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a \
		cargo check --manifest-path fuzz/Cargo.toml --bins --locked --quiet
	cd web && npm run --silent check && npm run --silent lint && npm run --silent unit && \
		npm run --silent build
	git diff --exit-code --stat crates/report/viewer || \
		(echo "the viewer was stale; commit the fresh one" >&2; exit 1)

web: web/node_modules/.installed

web/node_modules/.installed: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	touch $@

bench:
	./scripts/setup bench
	./benches/side-by-side $(BENCH)

# The seeds lie in fuzz/corpus; what is found besides goes there, too, and is not committed.
# FUZZ_TARGETS="hpack worker": only these.
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

fuzz:
	@cargo +nightly --version >/dev/null 2>&1 || \
		(echo "fuzz: needs a nightly compiler: rustup toolchain install nightly" >&2; exit 1)
	@cargo fuzz --version >/dev/null 2>&1 || \
		(echo "fuzz: needs cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1)
	./scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# All of it is some six thousand changes, and hours: a shard is a sample that is fair to every file.
SHARD ?= 0/40

mutants:
	@cargo mutants --version >/dev/null 2>&1 || \
		(echo "mutants: needs cargo-mutants: cargo install cargo-mutants --locked" >&2; exit 1)
	./scripts/mutants $(SHARD) $(AREAS)
