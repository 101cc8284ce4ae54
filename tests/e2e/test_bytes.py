"""Command streams on the wire: bytes pass unchanged, every stream has its end."""

import re
import time

from concurrent.futures import ThreadPoolExecutor

PRINT_WIDE = "import sys; sys.stdout.write('a' * 32767 + '😀' * 50 + 'é' * 100_000)"


def test_p01_multibyte_characters_survive_any_split(plane, node):
    run = plane.run("/usr/bin/python3", "-c", PRINT_WIDE, envs={"PYTHONIOENCODING": "utf-8"})
    assert run.stdout.decode() == "a" * 32767 + "😀" * 50 + "é" * 100_000
    assert run.exit_code == 0


def test_p01_the_sdk_shows_no_replacement_characters(sandbox):
    done = sandbox.commands.run(f'PYTHONIOENCODING=utf-8 python3 -c "{PRINT_WIDE}"')
    assert done.stdout == "a" * 32767 + "😀" * 50 + "é" * 100_000


def test_p02_arbitrary_bytes_and_the_exit_code_arrive(plane):
    run = plane.run("/bin/sh", "-c", "head -c 100000 /dev/urandom | tee /tmp/copy; exit 3")
    assert run.exit_code == 3
    assert run.stdout == plane.request("GET", "/files?path=/tmp/copy").body
    assert len(run.stdout) == 100_000


def test_every_stream_is_start_then_data_then_one_end(plane):
    run = plane.run("/bin/sh", "-c", "echo a; echo b >&2")
    assert run.order[0] == "start" and run.order[-1] == "end" and run.order.count("end") == 1
    assert run.trailer == {}
    assert run.end == {"exited": True, "status": "exit status 0"}


def test_a_signal_is_reported_as_in_the_protocol(plane):
    run = plane.run("/bin/sh", "-c", "kill -9 $$")
    assert run.end.get("exitCode") == -1 and not run.end.get("exited")
    assert run.end["status"] == "signal: killed"


def test_p10_a_command_that_fails_at_once_always_has_an_end(plane):
    started = time.monotonic()
    with ThreadPoolExecutor(4) as pool:
        runs = list(pool.map(lambda _: plane.run("/bin/sh", "-c", "no-such-program -e 1"), range(500)))
    assert {run.exit_code for run in runs} == {127}
    assert time.monotonic() - started < 20


def test_a_program_that_is_not_there_is_refused_with_its_name(plane):
    run = plane.run("/no/such/program")
    assert run.error["code"] == "invalid_argument" and "/no/such/program" in run.error["message"], run.reply


def test_a_hundred_megabytes_of_output_arrive(plane):
    run = plane.run("/bin/sh", "-c", "head -c 100000000 /dev/zero")
    assert len(run.stdout) == 100_000_000 and run.exit_code == 0


def test_nothing_inside_is_root_of_the_host(plane):
    for user in ["root", "user"]:
        maps = plane.run("/bin/cat", "/proc/self/uid_map", "/proc/self/gid_map", user=user).stdout.split()
        assert maps == [b"0", b"1000000", b"65536"] * 2
    # What the kernel of the host says about the same processes.
    sleeper = plane.run("/bin/sh", "-c", "sleep 37.25 >/dev/null 2>&1 & echo $!", user="root")
    assert re.match(rb"\d+", sleeper.stdout)
    owners = _owners_of(b"sleep\x0037.25\x00")
    assert owners and all(1_000_000 <= owner < 1_065_536 for owner in owners)


def _owners_of(command_line):
    import glob
    import os
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read() == command_line:
                    found.append(os.stat(path).st_uid)
        except OSError:
            pass
    return found
