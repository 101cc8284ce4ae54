"""What a hostile sandbox, root inside included, must not get out of the agent and its descriptors."""

import os
import time
import uuid

import pytest
from e2b import Sandbox
from e2b.exceptions import SandboxException

# More descriptors than an agent holds.
NUMBERS = range(64)
UP = "/../../../../../../../.."


@pytest.fixture
def marker():
    """A file of the host that everybody may read, and a name nobody has written yet."""
    path = f"/tmp/warren-host-{uuid.uuid4().hex}"
    with open(path, "w") as file:
        file.write("host")
    os.chmod(path, 0o644)
    yield path
    os.remove(path)


def plant(sandbox):
    """A link per descriptor of whoever follows it, and one per descriptor of PID 1, each climbing up."""
    script = "".join(
        f"ln -sfn /proc/self/fd/{n}{UP} /tmp/self{n}; ln -sfn /proc/1/fd/{n}{UP} /tmp/one{n};" for n in NUMBERS)
    sandbox.commands.run(script)
    return [f"/tmp/{kind}{n}" for n in NUMBERS for kind in ("self", "one")]


def test_no_descriptor_of_the_agent_leads_the_files_api_to_the_host(node, marker):
    with Sandbox.create("base") as sandbox:
        for link in plant(sandbox):
            try:
                assert not sandbox.files.exists(link + marker), link
            except SandboxException:
                pass  # "not a directory": the link leads to a pipe or a socket
            written = f"{marker}-{os.path.basename(link)}"
            try:
                sandbox.files.write(link + written, "x")
            except SandboxException:
                pass
            assert not os.path.exists(written), link


def test_no_descriptor_of_the_agent_leads_a_working_directory_to_the_host(node, marker):
    # The second size is beyond what a waiting process takes, so it is forked from the agent itself.
    big = {f"V{n}": "x" * 100_000 for n in range(3)}
    with Sandbox.create("base") as sandbox:
        for link in plant(sandbox)[:60]:
            for envs in ({}, big):
                try:
                    seen = sandbox.commands.run(f"ls .{marker} 2>/dev/null || true", cwd=link, envs=envs).stdout
                except SandboxException:
                    continue
                assert seen == "", link


def test_the_log_of_the_server_is_not_among_the_agents_descriptors(node):
    with Sandbox.create("base") as sandbox:
        before = node.log()
        for number in (0, 1, 2):
            for path in (f"/proc/self/fd/{number}", f"/proc/1/fd/{number}"):
                try:
                    assert "INFO" not in sandbox.files.read(path)
                    sandbox.files.write(path, "forged")
                except SandboxException:
                    pass
        assert "forged" not in node.log() and node.log().startswith(before)


def test_root_inside_can_not_look_into_the_agent(node):
    with Sandbox.create("base") as sandbox:
        looked = sandbox.commands.run(
            "for f in mem environ maps fd/3 root; do head -c1 /proc/1/$f >/dev/null 2>&1 && echo $f; done; true", user="root")
        assert looked.stdout == ""


def test_the_hypervisor_cannot_be_spoken_to(node):
    with Sandbox.create("base") as sandbox:
        text = "import socket\ntry:\n    socket.socket(40, socket.SOCK_STREAM)\n    print('open')\nexcept OSError as e: print(e.errno)"
        assert sandbox.commands.run(f'python3 -c "{text}"').stdout == "1\n"


def test_large_commands_leave_no_cgroup_behind(node):
    big = {"V": "x" * 120_000, "W": "x" * 120_000}
    with Sandbox.create("base") as sandbox:
        for _ in range(12):
            assert sandbox.commands.run("echo $$", envs=big).exit_code == 0
        # Swept a moment later; that of the process in waiting stays.
        for _ in range(50):
            groups = [root for root, _, _ in os.walk("/sys/fs/cgroup") if f"/{sandbox.sandbox_id}/c" in root]
            if len(groups) <= 1:
                return
            sandbox.commands.run("true")
            time.sleep(0.1)
        raise AssertionError(groups)
