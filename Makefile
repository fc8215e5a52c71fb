# make demo   build dyno, run the demo suite on this machine, print the path of its report
# make test   everything that must hold before a change lands
# make bench  dyno beside its peers, alternating, on separate CPUs (BENCH="keep-alive tls" for parts of it)
# make lint   formatting, clippy, types, the viewer's lints
# make fuzz   each fuzz target for a minute (FUZZ_SECONDS=60, FUZZ_TARGETS="hpack worker"); needs a nightly compiler and cargo-fuzz

DYNO := target/release/dyno
FUZZ_SECONDS ?= 60

.PHONY: demo test bench lint fuzz dyno web

dyno:
	cargo build --release --locked -p dyno

# Status 1 says that some steps are not valid, which the report explains; it is no reason to hide the report.
demo:
	./scripts/setup demo
	$(MAKE) --no-print-directory dyno
	$(DYNO) run suites/hello.toml || [ $$? -eq 1 ]

# What fails keeps nothing else from running, and is named at the end, as is what this machine cannot check.
test:
	./scripts/setup test
	MAKE="$(MAKE)" ./scripts/test

lint: web
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items --locked --quiet
	# The fuzz targets stand outside of the workspace; without libFuzzer itself any compiler can check them.
	CUSTOM_LIBFUZZER_PATH=none/libfuzzer.a cargo check --manifest-path fuzz/Cargo.toml --bins --locked --quiet
	cd web && npm run --silent check && npm run --silent lint && npm run --silent build
	git diff --exit-code --stat crates/report/viewer || (echo "the viewer was stale; commit the fresh one" >&2; exit 1)

web: web/node_modules/.installed

web/node_modules/.installed: web/package-lock.json
	cd web && npm ci --no-audit --no-fund --loglevel=error
	touch $@

bench:
	./scripts/setup bench
	$(MAKE) --no-print-directory dyno
	cargo build --release --locked -p dyno-driver --example bare
	./benches/side-by-side $(BENCH)

# The seeds lie in fuzz/corpus; what is found besides goes there, too, and is not committed. FUZZ_TARGETS="hpack worker": only these.
FUZZ_TARGETS ?= $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))

fuzz:
	@cargo +nightly --version >/dev/null 2>&1 || (echo "fuzz: needs a nightly compiler: rustup toolchain install nightly" >&2; exit 1)
	@cargo fuzz --version >/dev/null 2>&1 || (echo "fuzz: needs cargo-fuzz: cargo install cargo-fuzz" >&2; exit 1)
	./scripts/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)
