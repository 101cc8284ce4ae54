"""What a sandbox reaches: the outside by NAT, and nothing of this machine or its neighbours."""

import socket
import subprocess
import threading
import uuid

import pytest
from raw import DataPlane

# Stands for the internet: a public range, routed on this machine only to a namespace of the test's own.
OUTSIDE, OUR_SIDE = "11.22.33.2", "11.22.33.1"
DENIED = ["169.254.169.254", "10.1.2.3", "172.16.0.1", "192.168.1.1", "100.64.0.1", "127.0.0.1", "0.0.0.0", "224.0.0.1"]
# Dials all at once: a refused packet is often dropped, and each then takes its whole time.
DIAL = """
import concurrent.futures, socket, sys
def dial(target):
    address, port = target.rsplit(":", 1)
    try:
        link = socket.create_connection((address, int(port)), 3)
        link.settimeout(3)
        return "reached " + link.recv(100).decode()
    except OSError as error:
        return f"no {error}"
with concurrent.futures.ThreadPoolExecutor(64) as pool:
    print("\\n".join(pool.map(dial, sys.argv[1:])))
"""


def dial_all(plane, targets, user="user"):
    """What the sandbox gets from each `address:port`: `reached <greeting>` or `no <error>`."""
    run = plane.run("/usr/bin/python3", "-c", DIAL, *targets, user=user, timeout_ms=30_000)
    assert run.exit_code == 0, (run.stderr, run.reply)
    return dict(zip(targets, run.stdout.decode().splitlines(), strict=True))


def dial(plane, address, port, user="user"):
    """The same for one."""
    return next(iter(dial_all(plane, [f"{address}:{port}"], user).values()))


def addresses(plane):
    """The sandbox's own address and its gateway."""
    run = plane.run("/usr/bin/python3", "-c", "print(open('/proc/net/route').read()); print(open('/proc/net/fib_trie').read())")
    text = run.stdout.decode()
    gateway = next(line.split()[2] for line in text.splitlines()[1:] if line.split()[1:2] == ["00000000"])
    gateway = socket.inet_ntoa(bytes.fromhex(gateway)[::-1])
    own = [before.split()[-1] for before, line in zip(text.splitlines(), text.splitlines()[1:])
           if "host LOCAL" in line and not before.split()[-1].startswith("127.")]
    return own[0], gateway


class Greeter:
    """A listener on every address of this machine that tells each caller where it comes from."""

    def __enter__(self):
        self.socket = socket.create_server(("0.0.0.0", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def _serve(self):
        while True:
            try:
                link, peer = self.socket.accept()
            except OSError:
                return
            link.sendall(peer[0].encode())
            link.close()

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()


@pytest.fixture
def outside():
    """A host on the outside, in a namespace of its own; yields its port. It greets with the caller's address."""
    name = link_name()
    greet = ("import socket, sys\nprint('up', flush=True)\nsys.stdin.readline()\ns = socket.create_server(('0.0.0.0', 7777))\n"
             "print('listens', flush=True)\n"
             "while True:\n link, peer = s.accept()\n link.sendall(peer[0].encode())\n link.close()\n")
    server = subprocess.Popen(["unshare", "--net", "python3", "-c", greet], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert server.stdout.readline() == b"up\n"
        ip("link", "add", name, "type", "veth", "peer", "name", "out0", "netns", str(server.pid))
        ip("addr", "add", f"{OUR_SIDE}/30", "dev", name)
        ip("link", "set", name, "up")
        inside = ["nsenter", "--net", f"--target={server.pid}", "ip"]
        for words in [("addr", "add", f"{OUTSIDE}/30", "dev", "out0"), ("link", "set", "out0", "up")]:
            subprocess.run([*inside, *words], check=True)
        server.stdin.write(b"go\n")
        server.stdin.flush()
        assert server.stdout.readline() == b"listens\n"
        yield 7777
    finally:
        subprocess.run(["ip", "link", "del", name], capture_output=True)
        server.kill()
        server.communicate()


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True)


def link_name():
    """Unlike any other on this machine; a link's name has 15 bytes."""
    return "wt" + uuid.uuid4().hex[:8]


def test_the_outside_is_reached_and_sees_this_machine(plane, outside):
    assert dial(plane, OUTSIDE, outside) == f"reached {OUR_SIDE}"


def test_nothing_on_this_machine_is_reached(plane, node):
    own, gateway = addresses(plane)
    with Greeter() as greeter:
        with socket.create_connection(("127.0.0.1", greeter.port), 3) as link:
            assert link.recv(10) == b"127.0.0.1"
        host = _addresses_of_this_machine() | {gateway}
        targets = [f"{address}:{port}" for address in host | {"127.0.0.1"} for port in [greeter.port, node.port]]
        for user in ["user", "root"]:
            got = dial_all(plane, targets, user)
            assert all(answer.startswith("no") for answer in got.values()), got
        assert own not in host


def _addresses_of_this_machine():
    listed = subprocess.run(["hostname", "-I"], capture_output=True, text=True).stdout.split()
    return {address for address in listed if "." in address}


def test_another_sandbox_is_not_reached(plane, api):
    made = api.create()
    other = DataPlane(api, made)
    try:
        own, _ = addresses(other)
        serve = ("python3 -c \"import socket; s = socket.create_server(('0.0.0.0', 6666))\nwhile True: s.accept()[0].sendall(b'hi')\""
                 " >/dev/null 2>&1 &")
        other.run("/bin/sh", "-c", serve)
        assert dial(other, own, 6666) == "reached hi"
        assert dial(plane, own, 6666).startswith("no")
        assert dial(plane, own, 6666, "root").startswith("no")
    finally:
        api.kill(made)


def test_private_link_local_and_special_ranges_are_denied(plane):
    got = dial_all(plane, [f"{address}:80" for address in DENIED])
    assert all(answer.startswith("no") for answer in got.values()), got


def test_a_denied_range_stays_denied_when_this_machine_could_route_it(plane):
    """A listener on a private address of this machine: without the rule the sandbox would reach it."""
    name = link_name()
    ip("link", "add", name, "type", "veth", "peer", "name", name + "p")
    try:
        ip("addr", "add", "192.168.213.1/32", "dev", name)
        for end in [name, name + "p"]:
            ip("link", "set", end, "up")
        with Greeter() as greeter:
            with socket.create_connection(("192.168.213.1", greeter.port), 3) as link:
                assert link.recv(20)
            assert dial(plane, "192.168.213.1", greeter.port).startswith("no")
    finally:
        subprocess.run(["ip", "link", "del", name], capture_output=True)


def test_a_forged_source_address_does_not_leave(plane, outside):
    forge = ("import socket, sys\ns = socket.socket()\ns.setsockopt(0, 19, 1)\n"
             "try:\n s.bind(('10.218.200.201', 0)); s.settimeout(3); s.connect((sys.argv[1], int(sys.argv[2]))); print('reached')\n"
             "except OSError as error: print('no', error)\n")
    run = plane.run("/usr/bin/python3", "-c", forge, OUTSIDE, str(outside), user="root", timeout_ms=20_000)
    assert run.stdout.startswith(b"no"), run.stdout
