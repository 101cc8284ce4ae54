"""Commands by the newest SDK, sync: output, exit codes, users, streams, signals."""

import threading
import time

import pytest
from e2b import CommandExitException, InvalidArgumentException, NotFoundException, TimeoutException


def test_stdout_stderr_and_exit_code_come_apart(sandbox):
    done = sandbox.commands.run("echo out; echo err >&2")
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n", "err\n", 0)
    with pytest.raises(CommandExitException) as failed:
        sandbox.commands.run("echo before; exit 3")
    assert (failed.value.exit_code, failed.value.stdout) == (3, "before\n")


def test_output_is_streamed_while_the_command_runs(sandbox):
    seen = []
    sandbox.commands.run("echo one; sleep 1; echo two", on_stdout=lambda text: seen.append((time.monotonic(), text)))
    assert "".join(text for _, text in seen) == "one\ntwo\n"
    assert seen[-1][0] - seen[0][0] > 0.7


def test_environment_of_the_sandbox_and_of_the_call(node):
    from e2b import Sandbox
    sandbox = Sandbox.create("base", envs={"A": "sandbox", "B": "sandbox"}, timeout=60)
    try:
        done = sandbox.commands.run('echo "$A $B $C"', envs={"B": "call", "C": "ü b"})
        assert done.stdout == "sandbox call ü b\n"
        assert sandbox.commands.run("echo $E2B_SANDBOX_ID").stdout.strip() == sandbox.sandbox_id
    finally:
        sandbox.kill()


def test_working_directory(sandbox):
    assert sandbox.commands.run("pwd").stdout == "/home/user\n"
    assert sandbox.commands.run("pwd", cwd="/usr").stdout == "/usr\n"
    sandbox.files.make_dir("/home/user/below")
    assert sandbox.commands.run("pwd", cwd="below").stdout == "/home/user/below\n"


def test_p13_a_missing_working_directory_is_named_before_the_start(sandbox):
    with pytest.raises(InvalidArgumentException, match="/nope"):
        sandbox.commands.run("touch /tmp/ran", cwd="/nope")
    assert not sandbox.files.exists("/tmp/ran")


def test_user_and_root(sandbox):
    assert sandbox.commands.run("id -un; echo $HOME").stdout == "user\n/home/user\n"
    assert sandbox.commands.run("id -u; echo $HOME", user="root").stdout == "0\n/root\n"
    with pytest.raises(Exception, match="nobody-of-that-name"):
        sandbox.commands.run("true", user="nobody-of-that-name")


def test_background_list_connect_and_kill(sandbox):
    handle = sandbox.commands.run("echo ready; sleep 100", background=True)
    listed = {process.pid: process for process in sandbox.commands.list()}
    assert "sleep 100" in " ".join(listed[handle.pid].args)
    again = sandbox.commands.connect(handle.pid)
    assert sandbox.commands.kill(handle.pid) is True
    with pytest.raises(CommandExitException):
        again.wait()
    assert sandbox.commands.kill(handle.pid) is False
    assert handle.pid not in {process.pid for process in sandbox.commands.list()}


def test_connect_to_a_pid_that_is_not_there(sandbox):
    with pytest.raises(NotFoundException, match="999999"):
        sandbox.commands.connect(999999).wait()


def test_send_stdin_and_close(sandbox):
    handle = sandbox.commands.run("cat; echo closed", background=True, stdin=True)
    sandbox.commands.send_stdin(handle.pid, "line one\n")
    sandbox.commands.send_stdin(handle.pid, "ünïcode\n")
    sandbox.commands.close_stdin(handle.pid)
    assert handle.wait().stdout == "line one\nünïcode\nclosed\n"


def test_stream_input_takes_a_megabyte(sandbox):
    handle = sandbox.commands.run("sha256sum | cut -d' ' -f1", background=True, stdin=True)
    pieces = [bytes([number]) * 65536 for number in range(16)]
    sandbox.commands.stream_input(handle.pid, pieces)
    sandbox.commands.close_stdin(handle.pid)
    import hashlib
    assert handle.wait().stdout.strip() == hashlib.sha256(b"".join(pieces)).hexdigest()


def test_p05_without_stdin_readers_see_the_end_at_once(sandbox):
    started = time.monotonic()
    assert sandbox.commands.run("cat; python3 -c 'input()' 2>&1 | tail -1", timeout=20).stdout.startswith("EOFError")
    assert sandbox.commands.run("readlink /proc/self/fd/0").stdout == "/dev/null\n"
    assert time.monotonic() - started < 10


def test_p06_a_child_left_behind_does_not_hold_the_command(sandbox):
    started = time.monotonic()
    done = sandbox.commands.run("sleep 300 & echo done", timeout=60)
    assert done.stdout == "done\n"
    assert time.monotonic() - started < 10
    assert sandbox.commands.run("pgrep -xc sleep").stdout == "1\n"


def test_p07_a_timeout_kills_the_whole_tree(sandbox):
    tree = "sleep 997 & setsid sleep 998 & (setsid -f bash -c 'sleep 996 & sleep 995') ; sleep 999"
    assert sandbox.commands.run("pgrep -xc sleep || true").stdout == "0\n"
    with pytest.raises(TimeoutException):
        sandbox.commands.run(tree, timeout=1)
    deadline = time.monotonic() + 5
    while (left := sandbox.commands.run("pgrep -xa sleep || true").stdout) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == ""


def test_p07_kill_by_the_client_kills_the_whole_tree(sandbox):
    handle = sandbox.commands.run("sleep 998 & setsid sleep 997 & sleep 999", background=True)
    time.sleep(0.5)
    handle.kill()
    time.sleep(1)
    assert sandbox.commands.run("pgrep -xa sleep || true").stdout == ""


def test_p08_a_dropped_stream_kills_nothing_and_a_late_reader_gets_all(sandbox):
    handle = sandbox.commands.run("for i in 1 2 3 4 5; do echo $i; sleep 0.4; done; exit 7", background=True, timeout=0)
    handle.disconnect()
    time.sleep(0.6)
    with pytest.raises(CommandExitException) as ended:
        sandbox.commands.connect(handle.pid, timeout=0).wait()
    assert (ended.value.exit_code, ended.value.stdout) == (7, "1\n2\n3\n4\n5\n")
    # Also after the end: the exit status is kept for a while.
    with pytest.raises(CommandExitException) as late:
        sandbox.commands.connect(handle.pid, timeout=0).wait()
    assert (late.value.exit_code, late.value.stdout) == (7, "1\n2\n3\n4\n5\n")


def test_p28_output_before_a_timeout_is_delivered(sandbox):
    seen = []
    with pytest.raises(TimeoutException):
        sandbox.commands.run("echo start; sleep 99", timeout=1, on_stdout=seen.append)
    assert "".join(seen) == "start\n"


def test_p32_init_reaps_zombies(sandbox):
    sandbox.commands.run("for i in $(seq 2000); do (sleep 0.01 &); done", timeout=100)
    deadline = time.monotonic() + 10
    count = "grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"
    while (zombies := sandbox.commands.run(count).stdout) != "0\n" and time.monotonic() < deadline:
        time.sleep(0.2)
    assert zombies == "0\n"


def test_p11_a_sandbox_lost_in_the_middle_never_looks_like_success(node):
    from e2b import Sandbox
    for _ in range(10):
        lost = Sandbox.create("base", timeout=60)
        handle = lost.commands.run("sleep 0.2; sleep 100; echo finished", background=True)
        threading.Timer(0.2, lost.kill).start()
        with pytest.raises(Exception) as failed:
            handle.wait()
        assert not isinstance(failed.value, AssertionError)
        assert getattr(failed.value, "exit_code", None) != 0


def test_signal_deaths_are_told_apart_from_exit_codes(sandbox):
    with pytest.raises(CommandExitException) as killed:
        sandbox.commands.run("kill -9 $$")
    assert "killed" in str(killed.value.error)


def test_sudo_gives_root_of_the_sandbox_only(sandbox):
    if sandbox.commands.run("command -v sudo || true").stdout == "":
        pytest.skip("this machine has no sudo, and the template host shows its /usr")
    assert sandbox.commands.run("sudo id -u").stdout == "0\n"
    assert sandbox.commands.run("cat /proc/self/uid_map", user="root").stdout.split() == ["0", "1000000", "65536"]


def test_the_host_template_shows_nothing_private_of_the_host(sandbox):
    import os
    import uuid
    assert sandbox.commands.run("ls -A /root", user="root").stdout in ("", ".bashrc\n.profile\n", ".profile\n")
    assert sandbox.commands.run("ls /home").stdout == "user\n"
    name = f"warren-marker-{uuid.uuid4().hex}"
    markers = [f"/{directory}/{name}" for directory in ("etc", "root", "var", "var/lib", "home", "opt", "srv")
               if os.path.isdir(f"/{directory}")]
    try:
        for marker in markers:
            with open(marker, "w") as file:
                file.write("private")
        assert markers
        found = sandbox.commands.run(f"find / -xdev -name {name} 2>/dev/null || true", user="root").stdout
        assert found == ""
    finally:
        for marker in markers:
            os.remove(marker)
    # What is written under /usr stays in the sandbox.
    assert sandbox.commands.run(f"touch /usr/bin/{name} && ls /usr/bin/{name}", user="root").exit_code == 0
    assert not os.path.exists(f"/usr/bin/{name}")
