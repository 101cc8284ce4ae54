"""One `warren serve` for tests: own port, directories and subnet, removed whole at the end."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from raw import Api

START_SECONDS = 60
STOP_SECONDS = 30


def binary():
    return os.environ["WARREN_BIN"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Node:
    """A running server; `data_dir` may be given to start it in a prepared place."""

    def __init__(self, subnet, pool=2, data_dir=None, extra=()):
        # Short: the path of a unix socket has 107 bytes.
        self.home = tempfile.mkdtemp(prefix="wt-")
        self.data_dir = data_dir or os.path.join(self.home, "d")
        self.run_dir = os.path.join(self.home, "r")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log_path = os.path.join(self.home, "log")
        self.command = [
            binary(), "serve", "--listen", f"127.0.0.1:{self.port}", "--data-dir", self.data_dir,
            "--run-dir", self.run_dir, "--subnet", subnet, "--pool", str(pool), "--agent", os.environ["WARREN_AGENT"], *extra,
        ]
        self.process = None

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._ready():
            if self.process.poll() is not None:
                raise RuntimeError(f"serve ended with {self.process.returncode}:\n{self.log()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"serve is not ready after {START_SECONDS} s:\n{self.log()}")
            time.sleep(0.05)
        with open(os.path.join(self.data_dir, "api-key")) as file:
            self.key = file.read().strip()
        self.api = Api(self.port, self.key)
        return self

    def _ready(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/readyz")
            return connection.getresponse().status < 300
        except OSError:
            return False

    def environment(self):
        """What an SDK or the CLI needs to find this server."""
        return {"E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url, "E2B_API_KEY": self.key,
                "WARREN_URL": self.url, "WARREN_API_KEY": self.key}

    def cli(self, *arguments, stdin=None, timeout=120, environment=None):
        """Runs the CLI against this server; output as text."""
        wanted = {**os.environ, **self.environment(), **(environment or {})}
        source = {"input": stdin} if stdin is not None else {"stdin": subprocess.DEVNULL}
        return subprocess.run([binary(), *arguments], env=wanted, capture_output=True, text=True,
                              timeout=timeout, **source)

    def log(self):
        with open(self.log_path, errors="replace") as file:
            return file.read()[-6000:]

    def remove_all_sandboxes(self):
        while listed := self.api.get("/v2/sandboxes?limit=100").json:
            for one in listed:
                self.api.delete(f"/sandboxes/{one['sandboxID']}")

    def stop(self):
        """The polite end: sandboxes removed by the API, then SIGTERM."""
        if self.process and self.process.poll() is None:
            try:
                self.remove_all_sandboxes()
            finally:
                self.process.send_signal(signal.SIGTERM)
                self.process.wait(STOP_SECONDS)

    def destroy(self):
        """Removes what a failed stop may have left, so that one failure does not poison the machine."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in processes_naming(self.home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for target in reversed(mounts_under(self.home)):
            subprocess.run(["umount", "--lazy", target], capture_output=True)
        shutil.rmtree(self.home, ignore_errors=True)


def processes_naming(text):
    """Processes whose command line holds `text`."""
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                if text.encode() in file.read() and int(name) != os.getpid():
                    found.append(int(name))
        except OSError:
            pass
    return found


def mounts_under(path):
    with open("/proc/self/mountinfo") as file:
        targets = [line.split()[4] for line in file]
    return [target for target in targets if target == path or target.startswith(path + "/")]
