# make demo   build dyno, run the demo suite on this machine, print the path of its report
# make check  the quick part of the tests: formatting, clippy, unit tests and golden runs
# make test   run the checks that every change must pass
# make bench  compare dyno with other load generators, alternating, on separate CPUs
#             (BENCH="keep-alive tls": only these benchmarks)
# make style  formatting and clippy
# make viewer types, lints and freshness of the viewer
# make lint   both, the documentation, purity, the fuzz targets and the viewer's unit tests
# make nightly  what takes longer or breaks rarely: lint, new random inputs (NIGHTLY_CASES=2000),
#             long tests, all servers, fuzz targets, mutants and a soak, in shards. It continues
#             where the last one ended (SHARDS="fuzz-1 soak": only these)
# make fuzz   run each fuzz target for a minute (FUZZ_SECONDS=60, FUZZ_TARGETS="hpack worker");
#             needs a nightly compiler and cargo-fuzz
# make mutants  find small changes of the code that no test detects (SHARD=0/40: every 40th;
#             AREAS="analysis wire"); needs cargo-mutants

FUZZ_SECONDS ?= 60

.PHONY: demo check test nightly bench style viewer lint fuzz mutants dyno web

dyno:
	@./scripts/built -p dyno

# Exit status 1 means that some steps are not valid. The report explains why, so make succeeds.
demo:
	./scripts/setup demo
	dyno=$$(./scripts/built -p dyno) || exit; "$$dyno" run suites/hello.toml || [ $$? -eq 1 ]

# Needs no server, no root privileges and no browser.
check: style
	./scripts/unit-tests

# A failure does not stop the remaining checks. The end of the output lists failures, and checks
# that could not run on this machine.
test:
	./scripts/setup test
	MAKE="$(MAKE)" ./scripts/test

nightly:
	./scripts/setup test
	./scripts/setup nightly
	./scripts/nightly $(SHARDS)

style:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	# The fuzz targets have a lock file of their own, which a new dependency makes stale.
	cargo metadata --manifest-path fuzz/Cargo.toml --locked --format-version 1 --quiet >/dev/null

# Built into target/viewer and compared: rewriting crates/report/viewer would rebuild dyno-report.
viewer: web
	cd web && npm run --silent check && npm run --silent lint && \
		npm run --silent build -- --outDir ../target/viewer
	diff -rq --exclude=LICENSES.txt target/viewer crates/report/viewer || \
		(echo "crates/report/viewer is stale: run npm run build in web/, and commit it" >&2; exit 1)

# Not in `make test`: these checks build everything again, and changes rarely break them.
lint: style viewer
	RUSTDOCFLAGS="-D warnings" \
		cargo doc --workspace --no-deps --document-private-items --locked --quiet
	./scripts/pure
	# The fuzz targets are not in the workspace. Without libFuzzer a stable compiler can check them.
	CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a \
		cargo check --manifest-path fuzz/Cargo.toml --bins --locked --quiet
	cd web && npm run --silent unit

web: web/node_modules/.installed

web/node_modules/.installed: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	touch $@

bench:
	./scripts/setup bench
	./benches/side-by-side $(BENCH)

# The seeds are in fuzz/corpus. Fuzzing adds inputs there, which are not committed.
# FUZZ_TARGETS="hpack worker": only these.
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

fuzz:
	@cargo +nightly --version >/dev/null 2>&1 || \
		(echo "fuzz: needs a nightly compiler: rustup toolchain install nightly" >&2; exit 1)
	@cargo fuzz --version >/dev/null 2>&1 || \
		(echo "fuzz: needs cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1)
	./scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# All mutants are some six thousand changes, and take hours. A shard is a sample over all files.
SHARD ?= 0/40

mutants:
	@cargo mutants --version >/dev/null 2>&1 || \
		(echo "mutants: needs cargo-mutants: cargo install cargo-mutants --locked" >&2; exit 1)
	./scripts/mutants $(SHARD) $(AREAS)
