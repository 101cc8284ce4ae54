"""Start latency and throughput of sandboxes. One line `RESULT <name> <value>` per figure.

What is measured, and how:
- start_warm: from sending the create request to the first output of `/bin/echo ok` in that sandbox, both through
  HTTP on one kept connection, one after another with a short pause; the server has waiting shells.
- start_podman, start_runc: from exec of `podman run` or `runc run` to the first output of the same command,
  alternating with Warren. Ratios are peer / Warren, of medians.
- start_sdk: the same with the newest SDK, whose own work is in the figure, through its `bash -l -c`.
- create_destroy_per_s: create and delete by several workers without a pause; pairs that succeeded.
- create_post_cN (average; p95 beside it), create64 (p99): N creates sent at once, several rounds; everything is
  deleted and the server given time to settle between rounds.
- client_roundtrip: a request that does nothing; what client and loopback cost in each request above.
"""

import argparse
import os
import subprocess
import tempfile
import threading
import time

from images import build, layout
from node import Node
from peers import Podman, Runc
from wire import Connection

COMMAND = ["/bin/echo", "ok"]
TEMPLATE = "bench"
SUBNET = "10.220.0.0/16"
POOL = 64
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
WARM_UP, ROUNDS, WARREN_PER_ROUND = 20, 12, 20
PAUSE_SECONDS = 0.02
SDK_STARTS = 50
SUSTAINED_SECONDS, SUSTAINED_WORKERS = 12, 8
BURST_ROUNDS, SINGLE_ROUNDS = 8, 100
# Time for the server to replace the shells that a burst took.
SETTLE_SECONDS = 2


def result(name, value):
    print(f"RESULT {name} {value:.2f}", flush=True)


def quantile(values, part):
    """Nearest rank: a real observation, never an interpolation."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


class Failures:
    """Counts what went wrong, by figure; nothing is dropped in silence."""

    def __init__(self):
        self.counts, self.lock = {}, threading.Lock()

    def note(self, figure, error):
        with self.lock:
            self.counts[figure] = self.counts.get(figure, 0) + 1
            if self.counts[figure] <= 3:
                print(f"failure in {figure}: {error}", flush=True)


def start_once(connection):
    """Milliseconds to the first output in a new sandbox; the rest of its life is not counted."""
    started = time.perf_counter()
    sandbox = connection.create(TEMPLATE)
    stream = connection.first_output(sandbox, COMMAND)
    taken = (time.perf_counter() - started) * 1000
    for _ in stream:
        pass
    connection.kill(sandbox)
    return taken


def alternating(node, peers, failures):
    """Latencies of Warren and of each peer, taken in turns so that all see the same machine."""
    taken = {"warren": [], **{peer.name: [] for peer in peers}}
    connection = Connection(node.port, node.key)
    for _ in range(WARM_UP):
        start_once(connection)
    for _ in range(ROUNDS):
        for peer in peers:
            taken[peer.name].append(peer.start(COMMAND) * 1000)
        for _ in range(WARREN_PER_ROUND):
            time.sleep(PAUSE_SECONDS)
            try:
                taken["warren"].append(start_once(connection))
            except (RuntimeError, OSError) as error:
                failures.note("start_warm", error)
                connection = Connection(node.port, node.key)
    connection.close()
    return taken


def round_trip(node):
    """Milliseconds of requests that do nothing."""
    connection, taken = Connection(node.port, node.key), []
    for _ in range(200):
        started = time.perf_counter()
        connection.request("GET", "/livez")
        taken.append((time.perf_counter() - started) * 1000)
    connection.close()
    return taken


def with_sdk(node, failures):
    """Milliseconds of the same start by the SDK."""
    os.environ.update(node.environment())
    from e2b import Sandbox
    taken = []
    for _ in range(SDK_STARTS):
        time.sleep(PAUSE_SECONDS)
        started = time.perf_counter()
        try:
            sandbox = Sandbox.create(TEMPLATE, timeout=300)
            sandbox.commands.run("echo ok")
            taken.append((time.perf_counter() - started) * 1000)
            sandbox.kill()
        except Exception as error:  # Any failure of the SDK is a failure of the figure.
            failures.note("start_sdk", error)
    return taken


def in_threads(count, work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def sustained(node, failures):
    """Pairs of create and delete per second."""
    done = [0] * SUSTAINED_WORKERS
    begin = time.perf_counter()
    end = begin + SUSTAINED_SECONDS

    def work(number):
        connection = Connection(node.port, node.key)
        while time.perf_counter() < end:
            try:
                connection.kill(connection.create(TEMPLATE))
                done[number] += 1
            except (RuntimeError, OSError) as error:
                failures.note("create_destroy", error)
                connection = Connection(node.port, node.key)
        connection.close()

    in_threads(SUSTAINED_WORKERS, work)
    return sum(done) / (time.perf_counter() - begin)


def bursts(node, at_once, failures):
    """Milliseconds of each create when `at_once` are sent together."""
    connections = [Connection(node.port, node.key) for _ in range(at_once)]
    taken, lock = [], threading.Lock()
    for _ in range(BURST_ROUNDS if at_once > 1 else SINGLE_ROUNDS):
        barrier, made = threading.Barrier(at_once), [None] * at_once

        def work(number):
            barrier.wait()
            started = time.perf_counter()
            try:
                made[number] = connections[number].create(TEMPLATE)
                with lock:
                    taken.append((time.perf_counter() - started) * 1000)
            except (RuntimeError, OSError) as error:
                failures.note(f"create_c{at_once}", error)
                connections[number] = Connection(node.port, node.key)

        in_threads(at_once, work)
        for sandbox in filter(None, made):
            connections[0].kill(sandbox)
        time.sleep(SETTLE_SECONDS if at_once > 1 else PAUSE_SECONDS)
    for connection in connections:
        connection.close()
    return taken


def pull_root(node, root_tar, home):
    """Makes the template from the root that the peers use too."""
    layout.Layout(f"{home}/image").image("root", [(root_tar, "plain")], {"Env": [PATH]})
    done = node.cli("pull", f"oci:{home}/image:root", "--name", TEMPLATE, timeout=300)
    if done.returncode:
        raise RuntimeError(f"pull failed: {done.stderr}")


def report(node, peers, failures):
    result("client_roundtrip_p50_ms", quantile(round_trip(node), 0.5))
    taken = alternating(node, peers, failures)
    warm = taken.pop("warren")
    result("start_warm_p50_ms", quantile(warm, 0.5))
    result("start_warm_p99_ms", quantile(warm, 0.99))
    for name, values in taken.items():
        result(f"start_{name}_p50_ms", quantile(values, 0.5))
        result(f"start_{name}_ratio", quantile(values, 0.5) / quantile(warm, 0.5))
    result("start_sdk_p50_ms", quantile(with_sdk(node, failures), 0.5))
    result("create_destroy_per_s", sustained(node, failures))
    time.sleep(SETTLE_SECONDS)
    for at_once in [1, 20, 50]:
        posts = bursts(node, at_once, failures)
        result(f"create_post_c{at_once}_ms", sum(posts) / len(posts))
        result(f"create_post_c{at_once}_p95_ms", quantile(posts, 0.95))
    result("create64_p99_ms", quantile(bursts(node, 64, failures), 0.99))
    result("failures", sum(failures.counts.values()))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without-peers", action="store_true", help="Warren alone, for a quick look")
    parser.add_argument("--peers-only", action="store_true", help="podman and runc alone, without a server")
    return parser.parse_args()


def measure(chosen, root_tar, home, running):
    """Everything between set-up and clean-up; what must be cleaned is put into `running`."""
    if not chosen.without_peers:
        running.append(Podman(root_tar, home))
        running.append(Runc(root_tar, home, COMMAND))
    peers = list(running)
    if chosen.peers_only:
        for peer in peers:
            taken = [peer.start(COMMAND) * 1000 for _ in range(ROUNDS)]
            result(f"start_{peer.name}_p50_ms", quantile(taken, 0.5))
        return
    node = Node(SUBNET, pool=POOL)
    running.append(node)
    node.start()
    pull_root(node, root_tar, home)
    report(node, peers, Failures())
    node.stop()


def main():
    chosen, root_tar, running = parse_arguments(), build.debian_root(), []
    home = tempfile.mkdtemp(prefix="wb-")
    # runc's mapped root must be able to walk to its root.
    os.chmod(home, 0o755)
    try:
        measure(chosen, root_tar, home, running)
    finally:
        for started in reversed(running):
            started.destroy() if isinstance(started, Node) else started.close()
        subprocess.run(["rm", "-rf", "--one-file-system", home], check=True)


if __name__ == "__main__":
    main()
