#!/usr/bin/env bash
# Stops the server that `make up` started: TERM, then waits for its end. Called by `make down`.
set -euo pipefail

run=${WARREN_RUN_DIR:-/run/warren}
root=()
if [[ $(id -u) != 0 ]]; then root=(sudo); fi

stop() { # name
  local file=$run/$1.pid pid
  pid=$("${root[@]}" cat "$file" 2>/dev/null) || return 0
  # A pid may have been given to somebody else since.
  if [[ $("${root[@]}" cat "/proc/$pid/comm" 2>/dev/null) == warren* ]]; then
    "${root[@]}" kill -TERM "$pid" 2>/dev/null || true
    for _ in $(seq 300); do
      [[ -d /proc/$pid ]] || break
      sleep 0.1
    done
    if [[ -d /proc/$pid ]]; then
      echo "down: $1 (pid $pid) did not end within 30 s" >&2
      return 1
    fi
    echo "down: $1 ended"
  fi
  "${root[@]}" rm -f "$file"
}

stop serve
stop spawner
