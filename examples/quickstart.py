#!/usr/bin/env python3
"""Drives a Warren server with the official E2B SDK, step by step, with timings.

Needs E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY (`warren auth` prints them). Any failure raises,
so the exit status tells; the last line of a good run is QUICKSTART OK.
"""

import os
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from importlib.metadata import version

from e2b import Sandbox, SandboxQuery

# Named with slashes and an umlaut to show that paths travel unchanged.
NOTE = "/home/user/notes/grüße.txt"
PORT = 8000


@contextmanager
def step(name):
    """Prints how long the block took."""
    began = time.perf_counter()
    yield
    print(f"{(time.perf_counter() - began) * 1000:9.1f} ms  {name}", flush=True)


def expect(what, got, wanted):
    """Fails the run, also under `python -O`."""
    if got != wanted:
        raise SystemExit(f"quickstart: {what}: got {got!r}, wanted {wanted!r}")


def fetch(sandbox, port, path):
    """An HTTP request to a port of the sandbox. The headers say where; no DNS is needed."""
    request = urllib.request.Request(
        os.environ["E2B_SANDBOX_URL"] + path,
        headers={"E2b-Sandbox-Id": sandbox.sandbox_id, "E2b-Sandbox-Port": str(port)},
    )
    # The server is on this machine or in this network: no proxy of the environment in between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as reply:
        return reply.read().decode()


def fetch_when_open(sandbox, port, path):
    """The web server needs a moment to open its port; until then the proxy answers 502."""
    deadline = time.monotonic() + 10
    while True:
        try:
            return fetch(sandbox, port, path)
        except urllib.error.HTTPError as error:
            if error.code != 502 or time.monotonic() > deadline:
                raise
        time.sleep(0.02)


def commands(sandbox):
    with step("run a command"):
        result = sandbox.commands.run("echo $GREETING from $(id -un)", envs={"GREETING": "hello"})
    expect("output", result.stdout, "hello from user\n")
    with step("run it again"):
        result = sandbox.commands.run("echo out; echo err >&2")
    expect("both streams", (result.stdout, result.stderr), ("out\n", "err\n"))


def files(sandbox):
    with step("write and read a file"):
        sandbox.files.write(NOTE, "written by the SDK\n")
        expect("file", sandbox.files.read(NOTE), "written by the SDK\n")
    result = sandbox.commands.run(f"cat {NOTE}")
    expect("the file as a command sees it", result.stdout, "written by the SDK\n")


def background(sandbox):
    with step("start a background process and leave it"):
        process = sandbox.commands.run(
            "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done", background=True
        )
        process.disconnect()
    with step("reconnect by pid and wait for its end"):
        result = sandbox.commands.connect(process.pid).wait()
    expect("exit code", result.exit_code, 0)
    # Output is kept while nobody reads, so nothing is missing.
    expect("all lines", result.stdout, "".join(f"line {i}\n" for i in range(1, 6)))


def web_server(sandbox):
    with step("start a web server on the sandbox's loopback"):
        server = sandbox.commands.run(
            f"cd /home/user/notes && exec python3 -m http.server {PORT} --bind 127.0.0.1",
            background=True,
            timeout=0,
        )
    with step("read from it through the port proxy"):
        page = fetch_when_open(sandbox, PORT, "/gr%C3%BC%C3%9Fe.txt")
    expect("page", page, "written by the SDK\n")
    server.kill()


def listing(sandbox):
    with step("find it in the listing by its metadata"):
        query = SandboxQuery(metadata={"example": "quickstart"})
        found = [s.sandbox_id for s in Sandbox.list(query=query).next_items()]
    if sandbox.sandbox_id not in found:
        raise SystemExit(f"quickstart: {sandbox.sandbox_id} is not in the listing {found}")


def main():
    print(f"E2B Python SDK {version('e2b')} against {os.environ['E2B_API_URL']}\n")
    with step("create a sandbox"):
        sandbox = Sandbox.create("base", metadata={"example": "quickstart"}, timeout=120)
    try:
        for part in (commands, files, background, web_server, listing):
            part(sandbox)
    finally:
        with step("kill it"):
            killed = sandbox.kill()
    expect("killed", killed, True)
    expect("still running", sandbox.is_running(), False)

    print("\nTo use your own SDK or code with this server:\n")
    for name in ("E2B_API_URL", "E2B_SANDBOX_URL", "E2B_API_KEY"):
        print(f"  export {name}={os.environ[name]}")
    print("\nQUICKSTART OK")


if __name__ == "__main__":
    main()
