"""The command line as a user types it; exit codes as docker's."""

import json
import time

import pytest

PLATFORM, NOT_EXECUTABLE, NOT_FOUND = 125, 126, 127
GONE = "i" + "0" * 20


@pytest.fixture
def started(node):
    """Id of a sandbox made by `warren start`."""
    result = node.cli("start", "base", "--timeout", "2m", "-m", "by=cli")
    assert result.returncode == 0, result.stderr
    sandbox_id = result.stdout.strip()
    assert sandbox_id.isalnum() and len(sandbox_id) == 21, result.stdout
    yield sandbox_id
    node.cli("rm", sandbox_id)


def ids(node):
    return node.cli("ls", "-q").stdout.split()


def test_run_prints_the_output_and_removes_the_sandbox(node):
    before = ids(node)
    result = node.cli("run", "base", "-e", "A=b c", "-w", "/usr", "--", "sh", "-c", 'echo "$A"; pwd; echo err >&2; exit 4')
    assert (result.stdout, result.stderr, result.returncode) == ("b c\n/usr\n", "err\n", 4)
    assert ids(node) == before


def test_run_passes_input_and_user_on(node):
    assert node.cli("run", "base", "-i", "--", "cat", stdin="in and out\n").stdout == "in and out\n"
    assert node.cli("run", "base", "--", "cat", stdin="not passed on").stdout == ""
    assert node.cli("run", "base", "-u", "root", "--", "id", "-u").stdout == "0\n"


def test_run_detached_prints_the_bare_id(node):
    result = node.cli("run", "base", "-d", "--timeout", "1m", "--", "sleep", "50")
    sandbox_id = result.stdout.strip()
    assert result.stdout == sandbox_id + "\n" and sandbox_id in ids(node)
    assert "sleep" in node.cli("exec", sandbox_id, "--", "ps", "ax").stdout
    assert node.cli("rm", sandbox_id).returncode == 0


def test_run_keep_leaves_the_sandbox(node):
    before = set(ids(node))
    assert node.cli("run", "base", "--keep", "--timeout", "1m", "--", "true").returncode == 0
    kept = set(ids(node)) - before
    assert len(kept) == 1
    assert node.cli("rm", *kept).returncode == 0


@pytest.mark.parametrize("command, code", [
    (["true"], 0), (["false"], 1), (["sh", "-c", "exit 42"], 42), (["sh", "-c", "kill -9 $$"], 137),
    (["sh", "-c", "kill -15 $$"], 143), (["/no/such/program"], NOT_FOUND), (["no-such-program"], NOT_FOUND),
    (["/etc/passwd"], NOT_EXECUTABLE), (["/usr"], NOT_EXECUTABLE),
])
def test_p12_exec_codes_are_those_of_docker(node, started, command, code):
    result = node.cli("exec", started, "--", *command)
    assert result.returncode == code, result
    if code in (NOT_FOUND, NOT_EXECUTABLE):
        assert command[0] in result.stderr


def test_p12_a_sandbox_that_is_gone_differs_from_a_command_that_fails(node, started):
    assert node.cli("exec", started, "--", "grep", "foo", "/dev/null").returncode == 1
    gone = node.cli("exec", GONE, "--", "true")
    assert gone.returncode == PLATFORM and GONE in gone.stderr
    assert node.cli("run", "no-such-template", "--", "true").returncode == PLATFORM


def test_p13_exec_in_a_missing_directory(node, started):
    result = node.cli("exec", "-w", "/nope", started, "--", "true")
    assert result.returncode == PLATFORM and "/nope" in result.stderr


def test_exec_is_exact_in_bytes(node, started):
    import os
    import subprocess
    from node import binary
    data = os.urandom(300_000)
    done = subprocess.run([binary(), "exec", "-i", started, "--", "cat"], input=data, capture_output=True,
                          env={**os.environ, **node.environment()}, timeout=60)
    assert done.stdout == data


def test_exec_detached_prints_a_pid(node, started):
    pid = node.cli("exec", "-d", started, "--", "sleep", "40").stdout.strip()
    assert pid.isdigit()
    assert node.cli("exec", started, "--", "kill", "-0", pid).returncode == 0


def test_ls_inspect_timeout_and_rm(node, started):
    listed = json.loads(node.cli("ls", "-o", "json").stdout)
    assert started in json.dumps(listed)
    assert started in node.cli("ls", "-m", "by=cli", "-q").stdout.split()
    assert node.cli("ls", "-m", "by=nobody", "-q").stdout == ""
    assert started in node.cli("ls").stdout
    shown = node.cli("inspect", started, "-o", "json")
    assert started in json.dumps(json.loads(shown.stdout))
    assert node.cli("timeout", started, "10m").returncode == 0
    assert node.cli("rm", started).returncode == 0
    assert node.cli("rm", started).returncode == PLATFORM
    # The end and its cause can be asked for afterwards.
    ended = node.cli("inspect", started)
    assert ended.returncode == 0 and "killed" in ended.stdout
    unknown = node.cli("inspect", GONE)
    assert unknown.returncode == PLATFORM and GONE in unknown.stderr


def test_timeout_zero_ends_the_sandbox(node, started):
    assert node.cli("timeout", started, "0").returncode == 0
    deadline = time.monotonic() + 5
    while started in ids(node) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert started not in ids(node)


def test_templates_can_be_listed_and_shown(node):
    assert "host" in node.cli("template", "ls", "-q").stdout.split()
    assert isinstance(json.loads(node.cli("template", "ls", "-o", "json").stdout), (list, dict))
    assert "host" in node.cli("template", "inspect", "host").stdout
    missing = node.cli("template", "inspect", "no-such-template")
    assert missing.returncode == PLATFORM and "no-such-template" in missing.stderr


def test_auth_shows_what_an_sdk_needs(node):
    shown = node.cli("auth").stdout
    assert node.key in shown and node.url in shown


def test_version_and_doctor(node):
    version = node.cli("version")
    assert version.returncode == 0 and version.stdout.strip()
    doctor = node.cli("doctor")
    assert doctor.returncode == 0, doctor.stdout
    assert isinstance(json.loads(node.cli("doctor", "-o", "json").stdout), (list, dict))


def test_a_wrong_key_and_a_missing_server_are_told(node):
    wrong = node.cli("ls", environment={"WARREN_API_KEY": "e2b_00"})
    assert wrong.returncode == PLATFORM and "key" in wrong.stderr.lower()
    from node import free_port
    url = f"http://127.0.0.1:{free_port()}"
    missing = node.cli("--url", url, "ls")
    assert missing.returncode == PLATFORM and url in missing.stderr


def test_nothing_but_data_on_standard_output(node):
    piped = node.cli("ls", "-q")
    assert "\x1b" not in piped.stdout + piped.stderr
