#!/usr/bin/env bash
# Starts `warren serve` unless it answers already, then runs the quick start. Called by `make up`.
set -euo pipefail
cd "$(dirname "$0")/.."

dist=$CARGO_TARGET_DIR/warren-dist
data=${WARREN_DATA_DIR:-/var/lib/warren}
run=${WARREN_RUN_DIR:-/run/warren}
url=http://${WARREN_LISTEN:-127.0.0.1:9277}
log=$data/serve.log
root=()
if [[ $(id -u) != 0 ]]; then root=(sudo --preserve-env=WARREN_DATA_DIR,WARREN_RUN_DIR,WARREN_LISTEN,WARREN_SUBNET,WARREN_DNS,WARREN_POOL,WARREN_DOMAIN); fi

ready() { curl -fsS --noproxy '*' --max-time 2 -o /dev/null "$url/readyz" 2>/dev/null; }

start() {
  "${root[@]}" mkdir -p "$data" "$run"
  # The shell that stays behind as root writes the pid of the server itself, not of sudo.
  "${root[@]}" bash -c 'setsid nohup "$1" serve >>"$2" 2>&1 </dev/null & echo $! >"$3"' \
    start "$dist/warren" "$log" "$run/serve.pid"
  local pid
  pid=$("${root[@]}" cat "$run/serve.pid")
  for _ in $(seq 300); do
    ready && return
    if [[ ! -d /proc/$pid ]]; then break; fi
    sleep 0.1
  done
  echo "up: the server is not ready; the end of $log:" >&2
  "${root[@]}" tail -n 20 "$log" >&2
  "${root[@]}" kill "$pid" 2>/dev/null || true
  exit 1
}

if ready; then
  echo "up: a server answers at $url already"
  pid=$("${root[@]}" cat "$run/serve.pid" 2>/dev/null || true)
  # A build replaces the program; what runs is then the one that is no more.
  if [[ -n $pid && $("${root[@]}" readlink "/proc/$pid/exe" 2>/dev/null) == *"(deleted)" ]]; then
    echo "up: it is an older build; \`make down\` ends it and its sandboxes, then \`make up\` starts this one" >&2
  fi
else
  start
fi

venv=$HOME/.cache/warren/venv-quickstart
[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet --disable-pip-version-check --upgrade e2b </dev/null

E2B_API_KEY=$("${root[@]}" "$dist/warren" --quiet auth)
export E2B_API_KEY E2B_API_URL=$url E2B_SANDBOX_URL=$url
"$venv/bin/python" examples/quickstart.py
