"""A node that is killed, and sandboxes that cannot come up: nothing lost, nothing left."""

import hashlib
import io
import json
import os
import platform
import signal
import tarfile
import time

import census
import pytest
from node import Node
from raw import DataPlane


@pytest.fixture
def own(nothing_remains):
    """A server of the test's own, whose process may be killed."""
    server = Node("10.221.0.0/16", pool=1)
    try:
        yield server.start()
        server.stop()
    finally:
        server.destroy()


def write_archive(path, links):
    """A `docker save` archive of one layer that holds only symlinks."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
    diff_id = "sha256:" + hashlib.sha256(layer.getvalue()).hexdigest()
    config = {"architecture": "amd64" if platform.machine() == "x86_64" else "arm64", "os": "linux",
              "config": {}, "rootfs": {"type": "layers", "diff_ids": [diff_id]}}
    members = {"config.json": json.dumps(config).encode(), "layer.tar": layer.getvalue(),
               "manifest.json": json.dumps([{"Config": "config.json", "RepoTags": ["hostile:1"], "Layers": ["layer.tar"]}]).encode()}
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))


def shell(plane, script):
    run = plane.run("/bin/sh", "-c", script)
    assert run.exit_code == 0, (run.stderr, run.reply)
    return run.stdout.decode()


def test_sandboxes_live_through_a_kill_of_the_server(own):
    made = [own.api.create(metadata={"n": str(n)}) for n in range(4)]
    planes = [DataPlane(own.api, one) for one in made]
    for plane in planes:
        shell(plane, "(while :; do date +%s.%N >> /tmp/ticks; sleep 0.05; done) >/dev/null 2>&1 &")
    before = {one["sandboxID"]: one for one in own.api.get("/v2/sandboxes").json}
    for _ in range(3):
        own.process.send_signal(signal.SIGKILL)
        own.process.wait()
        own.start()
        after = {one["sandboxID"]: one for one in own.api.get("/v2/sandboxes").json}
        assert after == before
    for plane in planes:
        ticks = [float(line) for line in shell(plane, "cat /tmp/ticks").split()]
        gaps = [b - a for a, b in zip(ticks, ticks[1:])]
        assert max(gaps) < 2 and time.time() - ticks[-1] < 2, "its process went on all the time"
    # The old and a new one are both ended as ever.
    new = own.api.create()
    for one in [*made, new]:
        assert own.api.kill(one).status == 204
    assert own.api.get("/v2/sandboxes").json == []


def test_a_sandbox_whose_root_is_refused_leaves_nothing(own, tmp_path):
    """The image links `/proc` away: its layers are fine, so it fails as late as can be, in the agent."""
    archive = tmp_path / "hostile.tar"
    write_archive(archive, links={"proc": "/etc"})
    pulled = own.cli("pull", f"docker-archive:{archive}", "--name", "hostile")
    assert pulled.returncode == 0, pulled.stderr
    own.api.kill(own.api.create())
    # Its layer is mounted by the first attempt and stays for the next one, as of any template.
    own.api.post("/v2/sandboxes", {"templateID": "hostile"})
    time.sleep(3)  # The pool makes its shell anew.
    before = census.take()
    for _ in range(5):
        refused = own.api.post("/v2/sandboxes", {"templateID": "hostile"})
        assert refused.status == 500 and "/proc" in json.dumps(refused.json), refused
    assert own.api.get("/v2/sandboxes").json == []
    # The pool has replaced the shells that were used up; what is there now must be as many as before.
    deadline = time.monotonic() + 20
    while True:
        now = census.take()
        same = {kind: len(items) for kind, items in now.items()} == {kind: len(items) for kind, items in before.items()}
        if same or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert same, {kind: (sorted(before[kind]), sorted(now[kind])) for kind in now if len(now[kind]) != len(before[kind])}
    assert not os.path.exists("/etc/self")
