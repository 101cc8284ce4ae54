"""Sandboxes by the newest SDK, sync: create, list, page, time out, kill, ports, several at once."""

import time
import uuid
from datetime import datetime, timezone

import pytest
from e2b import NotFoundException, Sandbox, SandboxQuery, SandboxState, TimeoutException
from raw import DataPlane


@pytest.fixture
def label(node):
    """A metadata value of this test alone; its sandboxes are removed at the end."""
    value = uuid.uuid4().hex
    yield value
    for one in pages(metadata={"label": value}):
        Sandbox.kill(one.sandbox_id)


def pages(limit=100, order=None, **query):
    """All listed sandboxes, over as many pages as needed."""
    found, paginator = [], Sandbox.list(query=SandboxQuery(**query), limit=limit, order=order)
    while paginator.has_next:
        found += paginator.next_items()
    return found


def test_info_tells_what_was_asked_for(label):
    made = Sandbox.create("base", timeout=90, metadata={"label": label, "ü &=%": "wörth&=%20 +"})
    info = made.get_info()
    assert info.sandbox_id == made.sandbox_id and info.metadata == {"label": label, "ü &=%": "wörth&=%20 +"}
    assert info.state == SandboxState.RUNNING
    left = (info.end_at - datetime.now(timezone.utc)).total_seconds()
    assert 80 < left <= 90
    assert info.cpu_count >= 1 and info.memory_mb >= 64


def test_list_filters_by_metadata_state_and_template(label):
    first = Sandbox.create("base", timeout=60, metadata={"label": label, "kind": "a b&c=d"})
    second = Sandbox.create("host", timeout=60, metadata={"label": label, "kind": "other"})
    ids = lambda **query: [one.sandbox_id for one in pages(**query)]
    assert ids(metadata={"label": label, "kind": "a b&c=d"}) == [first.sandbox_id]
    assert ids(metadata={"label": label}) == [second.sandbox_id, first.sandbox_id]
    assert ids(metadata={"label": label}, state=[SandboxState.RUNNING]) == [second.sandbox_id, first.sandbox_id]
    assert ids(metadata={"label": label}, state=[SandboxState.PAUSED]) == []
    assert ids(metadata={"label": "no such label"}) == []


def test_pages_and_order_are_stable(label):
    made = [Sandbox.create("base", timeout=60, metadata={"label": label}).sandbox_id for _ in range(5)]
    for limit in [1, 2, 5, 100]:
        assert [one.sandbox_id for one in pages(limit, metadata={"label": label})] == made[::-1]
        assert [one.sandbox_id for one in pages(limit, "asc", metadata={"label": label})] == made


def test_kill_is_true_once_and_calls_then_say_so(label):
    made = Sandbox.create("base", timeout=60, metadata={"label": label})
    assert made.is_running() is True
    assert made.kill() is True
    assert made.kill() is False
    assert made.is_running() is False
    with pytest.raises(NotFoundException):
        Sandbox.connect(made.sandbox_id)
    with pytest.raises((NotFoundException, TimeoutException)):
        made.commands.run("true")


def test_connect_finds_files_and_environment_again(label):
    made = Sandbox.create("base", timeout=60, metadata={"label": label}, envs={"KEPT": "yes"})
    made.files.write("/tmp/kept", "here")
    again = Sandbox.connect(made.sandbox_id, timeout=60)
    assert again.files.read("/tmp/kept") == "here"
    assert again.commands.run("echo $KEPT").stdout == "yes\n"


def test_connect_never_shortens_and_set_timeout_may(label):
    made = Sandbox.create("base", timeout=100, metadata={"label": label})
    before = made.get_info().end_at
    Sandbox.connect(made.sandbox_id, timeout=10)
    assert made.get_info().end_at == before
    made.set_timeout(20)
    assert (before - made.get_info().end_at).total_seconds() > 70
    made.set_timeout(200)
    assert (made.get_info().end_at - before).total_seconds() > 90


def test_a_sandbox_is_killed_at_its_timeout(label):
    made = Sandbox.create("base", timeout=2, metadata={"label": label})
    assert made.is_running()
    time.sleep(1)
    assert made.is_running()
    time.sleep(2.5)
    assert made.is_running() is False
    assert pages(metadata={"label": label}) == []


def test_timeout_zero_ends_a_sandbox_now(label):
    made = Sandbox.create("base", timeout=60, metadata={"label": label})
    made.set_timeout(0)
    deadline = time.monotonic() + 5
    while made.is_running() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert made.is_running() is False


SERVER = """
import http.server, hashlib
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f"{self.path} {self.headers.get('Host')}".encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        digest = hashlib.sha256()
        left = int(self.headers["Content-Length"])
        while left:
            piece = self.rfile.read(min(left, 65536)); left -= len(piece); digest.update(piece)
        body = digest.hexdigest().encode()
        self.send_response(201); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8765), Handler).serve_forever()
"""


def test_a_server_on_the_loopback_of_the_sandbox_is_reached(sandbox, api):
    import hashlib
    plane = DataPlane(api, {"sandboxID": sandbox.sandbox_id})
    sandbox.files.write("/tmp/server.py", SERVER)
    sandbox.commands.run("python3 /tmp/server.py", background=True, timeout=0)
    deadline = time.monotonic() + 20
    while (reply := plane.request("GET", "/some/path?q=1", port=8765)).status == 502 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert reply.status == 200 and reply.body.startswith(b"/some/path?q=1 "), reply
    data = b"\x01\x02\x03\x04" * (5 << 20)
    posted = plane.request("POST", "/in", data, port=8765)
    assert (posted.status, posted.body.decode()) == (201, hashlib.sha256(data).hexdigest())


def test_a_closed_port_and_a_missing_sandbox_are_502_with_their_words(plane, api):
    closed = plane.request("GET", "/", port=4444)
    assert closed.status == 502 and closed.json["code"] == 502, closed
    assert "port is not open" in closed.json["message"] and closed.json["port"] == 4444
    gone = DataPlane(api, {"sandboxID": "i" + "z" * 20}).request("GET", "/health")
    assert gone.status == 502 and "was not found" in gone.json["message"], gone
    assert gone.json["sandboxId"] == "i" + "z" * 20


def test_sandboxes_see_nothing_of_each_other(label):
    both = [Sandbox.create("base", timeout=60, metadata={"label": label}) for _ in range(2)]
    both[0].files.write("/tmp/mine", "x")
    both[0].commands.run("sleep 123", background=True)
    assert not both[1].files.exists("/tmp/mine")
    assert both[1].commands.run("pgrep -xc sleep || true").stdout == "0\n"
    names = {one.commands.run("cat /proc/sys/kernel/hostname").stdout for one in both}
    assert len(names) == 2
