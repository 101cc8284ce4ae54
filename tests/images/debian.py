"""The Debian root under the fixtures, made by mmdebstrap from the mirror this machine's apt uses."""

import glob
import os
import re
import subprocess

SUITE = "bookworm"
# Small, but with what the tests call: python3 for the walker, sudo and getcap for privileges.
PACKAGES = "python3,sudo,libcap2-bin,attr,procps,curl,ca-certificates,iproute2"


def mirror():
    """URI of the archive that holds SUITE in this machine's apt sources."""
    for path in sorted(glob.glob("/etc/apt/sources.list.d/*.sources")):
        with open(path) as file:
            for stanza in re.split(r"\n\s*\n", file.read()):
                fields = dict(re.findall(r"(?m)^(URIs|Suites):\s*(.+)$", stanza))
                if SUITE in fields.get("Suites", "").split():
                    return fields["URIs"].split()[0]
    for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*.list")]:
        if not os.path.exists(path):
            continue
        with open(path) as file:
            for line in file:
                found = re.match(r"deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)\s", line)
                if found and found[2] == SUITE:
                    return found[1]
    raise RuntimeError(f"no apt source with suite {SUITE}: the Debian image fixture needs one")


def build(tar):
    """Writes the root as a tar, every time stamp clamped."""
    env = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [
        "mmdebstrap", "--variant=minbase", "--mode=root", "--format=tar", f"--include={PACKAGES}",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        SUITE, tar, mirror(),
    ]
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"mmdebstrap failed ({done.returncode}): {done.stderr[-2000:]}")
