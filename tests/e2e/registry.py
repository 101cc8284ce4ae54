"""The distribution's registry program with its files in a temporary directory."""

import http.client
import os
import shutil
import subprocess
import tempfile
import time

from node import free_port

START_SECONDS = 30

CONFIG = """\
version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: {root}/data}}, delete: {{enabled: true}}}}
http: {{addr: "127.0.0.1:{port}"}}
{auth}
"""
AUTH = "auth: {{htpasswd: {{realm: warren-test, path: {root}/htpasswd}}}}\n"


class Registry:
    """Started on entry, removed on exit. With `htpasswd` (`name:bcrypt hash`) it asks for a password."""

    def __init__(self, htpasswd=None):
        self.root = tempfile.mkdtemp(prefix="wt-registry-")
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        auth = AUTH.format(root=self.root) if htpasswd else ""
        if htpasswd:
            with open(f"{self.root}/htpasswd", "w") as file:
                file.write(htpasswd + "\n")
        self.config = f"{self.root}/config.yml"
        with open(self.config, "w") as file:
            file.write(CONFIG.format(root=self.root, port=self.port, auth=auth))
        self.process = None

    def __enter__(self):
        self.process = subprocess.Popen(["docker-registry", "serve", self.config],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise RuntimeError("docker-registry does not start")
            time.sleep(0.05)
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()
        shutil.rmtree(self.root)

    def _answers(self):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/v2/")
            return connection.getresponse().status in (200, 401)
        except OSError:
            return False

    def push(self, source, name, *options):
        """Copies an image in by skopeo; `name` is `repository:tag`."""
        subprocess.run(["skopeo", "copy", "--insecure-policy", "-q", "--dest-tls-verify=false",
                        "--preserve-digests", *options,
                        source, f"docker://{self.address}/{name}"], check=True, capture_output=True)

    def blob_path(self, digest):
        """Where the registry keeps a blob, to damage it."""
        name = digest.removeprefix("sha256:")
        return os.path.join(self.root, "data/docker/registry/v2/blobs/sha256", name[:2], name, "data")
