# `make` lists the targets.

export SQLX_OFFLINE ?= true
# The same PATH as in scripts/programs.sh, which gives the reasons.
export PATH := $(CURDIR)/.noetl-tools/node/bin:$(PATH):$(HOME)/.cargo/bin:/usr/local/sbin:/usr/sbin

TARGET := $(or $(CARGO_TARGET_DIR),target)
SERVER := $(TARGET)/quick/noetl-graphql
PLAYGROUND_INPUTS := schema.graphql $(shell find playground/src playground/public playground/*.html playground/*.ts \
	playground/*.json -type f -not -name '*.generated.ts' 2>/dev/null)

.DEFAULT_GOAL := help
.NOTPARALLEL:
# `make soak` repeats a run: the same seed gives the same faults.
SEED ?= $(shell date +%s)
MINUTES ?= 20

.PHONY: help run check one test check-deploy bench soak night drill demo docs lint fmt schema accept-schema release sqlx clean prepare playground server program

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' Makefile | awk -F'|' '{ printf "make %-13s %s\n", $$1, $$2 }'

run: server ## install missing programs, build, and start everything: make run ARGS="--port 8090 --shards 4"
	@exec $(SERVER) dev $(ARGS)

demo: server ## send real traffic to a running server: make demo ARGS="--help"
	@exec $(SERVER) demo $(ARGS)

check: playground ## after each change: format, lints, unit tests, and some tests of each area
	@scripts/check

one: playground ## run the tests whose names contain a text: make one T=dedup::
	@test -n "$(T)" || { echo "one: name the tests: make one T=dedup::" >&2; exit 2; }
	@scripts/check "$(T)"

test: ## before you send a change: everything; a part of it: make test PARTS="rust browser"
	@scripts/test $(PARTS)

check-deploy: ## check the files in deploy/: image, compose file, Helm chart, alerts, dashboard
	@scripts/check-deploy

bench: playground ## run the benchmarks, with an optimised build on a private Postgres
	@scripts/test-servers run cargo bench --features jemalloc --bench promises -- $(ARGS)

soak: program ## after a change of the feed, the outbox or deduplication: everything fails at random under load, and the long forms of tests: make soak MINUTES=20 SEED=7
	@NOETL_LONG_TESTS=1 NOETL_SOAK_SEED=$(SEED) NOETL_SOAK_SECONDS=$$(($(MINUTES) * 60)) cargo test --quiet --test soak -- --nocapture
	@NOETL_LONG_TESTS=1 scripts/test-servers run cargo test --quiet --test workers --test operations -- past_states:: checks_of_many_rows::
	@NOETL_LONG_TESTS=1 scripts/test-servers run cargo test --quiet --test feed -- faults:: --test-threads 1
	@cargo build --quiet --package graphql-transport --example server
	@NOETL_LONG_TESTS=1 NOETL_SOAK_SEED=$(SEED) scripts/third-party

night: program ## cause each failure of the runbook under load, and see that its alerts fire, in about 25 minutes: make night ARGS=broker
	@scripts/deploy-tools && scripts/test-servers run cargo run --quiet --bin night -- $(ARGS)

drill: program ## lose one of each part and change the version under load; writes docs/drill.md: make drill PREVIOUS=v0.1.0
	@scripts/drill $(PREVIOUS)

lint: playground ## check the format, the lints and the dependencies
	@cargo fmt --check
	@cargo clippy --all-targets -- -D warnings
	@cd playground && npm run --silent typecheck && npm run --silent lint
	@if command -v cargo-deny >/dev/null; then cargo deny check; \
	else echo "lint: cargo-deny is not installed; the dependencies were not checked"; test -z "$$CI"; fi

fmt: ## format the Rust sources
	@cargo fmt

schema: server ## write what is generated from the code: schema.graphql and three pages in docs/
	@$(SERVER) schema >$(TARGET)/schema.graphql && mv $(TARGET)/schema.graphql schema.graphql
	@$(SERVER) reference errors >$(TARGET)/errors.md && mv $(TARGET)/errors.md docs/errors.md
	@$(SERVER) reference metrics >$(TARGET)/metrics.md && mv $(TARGET)/metrics.md docs/metrics.md
	@$(SERVER) reference settings >$(TARGET)/settings.md && mv $(TARGET)/settings.md docs/operations/settings.md

docs: ## build the site of the documentation, in target/docs/site
	@scripts/docs

release: ## build a release of the commit, with completions, manual pages, licenses and SBOMs: make release ARGS=verify
	@scripts/release $(ARGS)

accept-schema: ## accept schema.graphql as the contract with clients, for a release (docs/api-policy.md)
	@cp schema.graphql schema.accepted.graphql

sqlx: playground ## write .sqlx, the data for checking queries without a database
	@scripts/sqlx

clean: ## remove the build's files; .noetl, the data of `make run`, and .noetl-tools stay
	@cargo clean --quiet
	@rm -rf playground/dist playground/node_modules playground/test-results tests/third_party/node_modules \
		examples/worker-typescript/node_modules examples/worker-typescript/dist examples/worker-typescript/src/gql

prepare: ## install the missing programs
	@scripts/prepare

playground: prepare playground/dist/index.html ## build the browser console if its sources have changed

# The program that the tests start.
program: playground
	@cargo build --quiet --bin noetl-graphql

server: playground ## build the server
	@cargo build --quiet --profile quick --package noetl-graphql --bin noetl-graphql

playground/dist/index.html: playground/node_modules/.package-lock.json $(PLAYGROUND_INPUTS)
	@cd playground && npm run --silent build -- --logLevel warn
	@touch $@

playground/node_modules/.package-lock.json: playground/package.json playground/package-lock.json
	@cd playground && npm ci --loglevel error
	@touch $@
