# The menu of the project; `make help` lists it. Everything is built outside the clone.
CARGO_TARGET_DIR ?= $(HOME)/.cache/warren/target
export CARGO_TARGET_DIR

.DEFAULT_GOAL := help
.PHONY: up down test bench build fmt help

up: ## Set up, build, start the server, run examples/quickstart.py
	@dev/setup.sh run
	@cargo xtask build
	@dev/up.sh

down: ## Stop the server
	@dev/down.sh

test: ## All checks and tests; the last line counts passed, failed, skipped
	@dev/setup.sh run test
	@cargo xtask ci

bench: build ## Every script in bench/
	@dev/setup.sh run test
	@dev/bench.sh

build: ## Build warren and warren-agent, print their directory
	@cargo xtask build

fmt: ## Format all Rust code
	@cargo fmt --all

help: ## This list
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16
