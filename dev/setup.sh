#!/usr/bin/env bash
# Installs the Debian packages that are missing. Usage: dev/setup.sh [run] [test]
# Quiet and without the network when nothing is missing.
set -euo pipefail

# To build: a C compiler for zstd. To run: file systems, firewall, the quick start's Python.
run=(build-essential ca-certificates curl btrfs-progs nftables python3 python3-venv)
# Peers that tests and benches compare with, and tools that make their inputs.
test=(runc podman skopeo umoci mmdebstrap docker-registry erofs-utils attr libcap2-bin sudo zstd
      iproute2 procps git)

packages=()
for set in "${@:-run}"; do
  case $set in
    run) packages+=("${run[@]}") ;;
    test) packages+=("${test[@]}") ;;
    *) echo "setup: no package set is called $set" >&2; exit 2 ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Abbrev}' "$package" 2>/dev/null || true)
  [[ $status == ii* ]] || missing+=("$package")
done
((${#missing[@]})) || exit 0

if ! command -v apt-get >/dev/null; then
  echo "setup: this is not Debian; install the equivalents of: ${missing[*]}" >&2
  exit 1
fi
root=()
if [[ $(id -u) != 0 ]]; then root=(sudo); fi
echo "setup: installing ${missing[*]}" >&2
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() {
  "${root[@]}" apt-get update
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}
if ! install </dev/null >"$log" 2>&1; then
  cat "$log" >&2
  echo "setup: apt-get could not install ${missing[*]}" >&2
  exit 1
fi
