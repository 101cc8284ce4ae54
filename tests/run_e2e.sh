#!/bin/sh
# Runs the end-to-end and parity tests with the newest official Python SDK.
# WARREN_DIST: directory of the built binaries (set by `cargo xtask ci`), or WARREN_BIN and WARREN_AGENT: each path.
# WARREN_VENV_E2E: virtual environment, outside the clone. Further arguments go to pytest.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
venv=${WARREN_VENV_E2E:-$HOME/.cache/warren/venv-e2e}
WARREN_BIN=${WARREN_BIN:-${WARREN_DIST:?directory of the built binaries, see cargo xtask build}/warren}
WARREN_AGENT=${WARREN_AGENT:-${WARREN_DIST:-}/warren-agent}
export WARREN_BIN WARREN_AGENT

if [ "$(id -u)" != 0 ]; then
    echo "run_e2e.sh: sandboxes need root: run it as root" >&2
    exit 1
fi
missing=
for tool in mmdebstrap skopeo umoci docker-registry runc gcc nft ip btrfs; do
    command -v "$tool" >/dev/null || missing="$missing $tool"
done
if [ -n "$missing" ]; then
    echo "run_e2e.sh: not installed:$missing (.ci/run installs them)" >&2
    exit 1
fi

[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --upgrade e2b pytest pytest-asyncio pytest-timeout zstandard bcrypt

cd "$here"
export PYTHONDONTWRITEBYTECODE=1
echo "e2b $("$venv/bin/python" -c 'import importlib.metadata as m; print(m.version("e2b"))') from PyPI"
# pytest's last line counts passed, failed and skipped; -ra lists each skip with its reason.
exec "$venv/bin/python" -m pytest "$@"
