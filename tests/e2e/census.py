"""Counts what a sandbox can leave on a host: the tests compare before and after."""

import glob
import os
import re
import subprocess
import time

# Host ids of sandboxes: a process that runs as one of these belongs to a sandbox.
SANDBOX_UIDS = range(1_000_000, 1_065_536)
# Network namespaces and their links go asynchronously after the last process.
SETTLE_SECONDS = 15


def _mounts():
    with open("/proc/self/mountinfo") as file:
        return {line.split()[4] for line in file}


def _network_namespaces():
    found = set(os.listdir("/run/netns")) if os.path.isdir("/run/netns") else set()
    for path in glob.glob("/proc/[0-9]*/ns/net"):
        try:
            found.add(os.readlink(path))
        except OSError:
            pass
    return found


def _cgroups():
    return {directory for directory, _, _ in os.walk("/sys/fs/cgroup")}


def _links():
    return set(os.listdir("/sys/class/net"))


def _tables():
    listed = subprocess.run(["nft", "list", "tables"], capture_output=True, text=True)
    return set(listed.stdout.splitlines())


def _processes():
    """Warren's own processes and those of sandboxes, by pid and start time."""
    found = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                stat = file.read()
            uid = os.stat(f"/proc/{name}").st_uid
        except OSError:
            continue
        command, _, rest = stat.partition("(")[2].rpartition(")")
        if uid in SANDBOX_UIDS or command.startswith("warren"):
            found.add(f"{name} ({command}) started {rest.split()[19]}")
    return found


def _loop_devices():
    return {open(path).read().strip() for path in glob.glob("/sys/block/loop*/loop/backing_file")}


def _subvolumes():
    with open("/proc/self/mountinfo") as file:
        roots = {line.split()[4] for line in file if re.search(r" - btrfs ", line)}
    found = set()
    for root in roots:
        listed = subprocess.run(["btrfs", "subvolume", "list", root], capture_output=True, text=True)
        found |= {f"{root}: {line}" for line in listed.stdout.splitlines()}
    return found


KINDS = {
    "mounts": _mounts, "network namespaces": _network_namespaces, "cgroups": _cgroups, "links": _links,
    "nft tables": _tables, "processes": _processes, "loop devices": _loop_devices,
    "btrfs subvolumes": _subvolumes,
}


def take():
    """Everything there is now, by kind."""
    return {kind: look() for kind, look in KINDS.items()}


def added(before, after):
    """What `after` has and `before` had not; empty kinds are left out."""
    difference = {kind: sorted(after[kind] - before[kind]) for kind in KINDS}
    return {kind: items for kind, items in difference.items() if items}


def left_after_settling(before):
    """What is there and was not `before`, after time to settle."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while (found := added(before, take())) and time.monotonic() < deadline:
        time.sleep(0.25)
    return found
