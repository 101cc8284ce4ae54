#!/usr/bin/env bash
# Runs every script in bench/, one after the other. Called by `make bench`.
set -euo pipefail
cd "$(dirname "$0")/.."

export WARREN_DIST=$CARGO_TARGET_DIR/warren-dist
failed=0
for script in bench/*.sh; do
  if [[ ! -e $script ]]; then echo "bench: nothing in bench/" >&2; exit 1; fi
  echo "=== $script" >&2
  bash "$script" </dev/null || { echo "bench: $script failed" >&2; failed=1; }
done
exit "$failed"
