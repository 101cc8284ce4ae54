"""podman and runc on the same root, each in directories of its own that are removed at the end."""

import os
import subprocess
import time
import uuid

from parity import runc_root

IMAGE = "localhost/warren-bench:root"


def first_output_seconds(command):
    """From the start of `command` to the first byte it prints; then waits for its end."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    first = process.stdout.read(1)
    seconds = time.perf_counter() - started
    _, errors = process.communicate()
    if process.returncode or not first:
        raise RuntimeError(f"{command[0]} failed ({process.returncode}): {errors.decode()[-1000:]}")
    return seconds


class Podman:
    """Without a network, which spares podman the set-up of one (Warren's sandboxes have theirs)."""

    name = "podman"

    def __init__(self, root_tar, home):
        self.base = ["podman", "--root", f"{home}/podman", "--runroot", f"{home}/podman-run",
                     "--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--runtime", "runc"]
        subprocess.run([*self.base, "import", "--quiet", root_tar, IMAGE], check=True, capture_output=True)

    def start(self, command):
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=4096:4096"]
        return first_output_seconds([*self.base, "run", "--rm", "--network=none", *limits, IMAGE, *command])

    def close(self):
        subprocess.run([*self.base, "rmi", "--all", "--force"], capture_output=True)


class Runc:
    """As confined as Warren's sandboxes (user namespace, filter); its root is ready and shared by all runs."""

    name = "runc"

    def __init__(self, root_tar, home, command):
        self.state, self.bundle = f"{home}/runc-state", f"{home}/runc"
        root = f"{self.bundle}/rootfs"
        os.makedirs(root)
        subprocess.run(["tar", "-xf", root_tar, "-C", root, "--exclude=./dev/*"], check=True)
        runc_root.shift_owners(root)
        runc_root.spec(self.bundle, command, no_new_privs=False)

    def start(self, _command):
        name = "bench-" + uuid.uuid4().hex[:12]
        return first_output_seconds(["runc", "--root", self.state, "run", "--bundle", self.bundle, name])

    def close(self):
        """Each run has removed its own container."""
