#!/bin/sh
# How fast sandboxes start, against podman and runc on the same root in the same run.
# Own server, port and data directory; everything is removed at the end. Less than 10 minutes.
# WARREN_DIST: directory of the built binaries (or WARREN_BIN and WARREN_AGENT); without it they are built first.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
venv=${WARREN_VENV_E2E:-$HOME/.cache/warren/venv-e2e}

if [ "$(id -u)" != 0 ]; then
    echo "bench/start.sh: sandboxes need root: run it as root" >&2
    exit 1
fi
for tool in podman runc mmdebstrap; do
    command -v "$tool" >/dev/null || { echo "bench/start.sh: $tool is not installed (.ci/run installs it)" >&2; exit 1; }
done

export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$HOME/.cache/warren/target}"
if [ -z "${WARREN_BIN:-}" ]; then
    dist=${WARREN_DIST:-$(cd "$root" && cargo xtask build)}
    WARREN_BIN=$dist/warren
    WARREN_AGENT=$dist/warren-agent
fi
export WARREN_BIN WARREN_AGENT

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet e2b zstandard
export PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/tests:$root/tests/e2e:$here"
exec "$venv/bin/python" "$here/start.py" "$@"
