"""The same by the asynchronous SDK, and twenty sandboxes at once."""

import asyncio
import hashlib

import pytest
from e2b import AsyncSandbox, CommandExitException, FileNotFoundException, SandboxQuery, TimeoutException


@pytest.fixture
async def box(node):
    made = await AsyncSandbox.create("base", timeout=120)
    yield made
    await made.kill()


async def test_commands(box):
    done = await box.commands.run("echo out; echo err >&2; pwd", cwd="/usr", envs={"A": "b"})
    assert (done.stdout, done.stderr, done.exit_code) == ("out\n/usr\n", "err\n", 0)
    with pytest.raises(CommandExitException) as failed:
        await box.commands.run("exit 9")
    assert failed.value.exit_code == 9
    assert (await box.commands.run("id -u", user="root")).stdout == "0\n"


async def test_background_stdin_connect_and_kill(box):
    handle = await box.commands.run("cat", background=True, stdin=True)
    await box.commands.send_stdin(handle.pid, "typed\n")
    again = await box.commands.connect(handle.pid)
    await box.commands.close_stdin(handle.pid)
    assert (await again.wait()).stdout == "typed\n"
    sleeper = await box.commands.run("sleep 100", background=True)
    assert await box.commands.kill(sleeper.pid) is True
    with pytest.raises(CommandExitException):
        await sleeper.wait()


async def test_command_timeout(box):
    with pytest.raises(TimeoutException):
        await box.commands.run("sleep 50", timeout=1)


async def test_files(box):
    data = bytes(range(256)) * 4096
    await box.files.write("/tmp/a/b", data)
    assert bytes(await box.files.read("/tmp/a/b", format="bytes")) == data
    streamed = [piece async for piece in await box.files.read("/tmp/a/b", format="stream")]
    assert hashlib.sha256(b"".join(streamed)).digest() == hashlib.sha256(data).digest()
    assert [entry.name for entry in await box.files.list("/tmp/a")] == ["b"]
    assert (await box.files.get_info("/tmp/a/b")).size == len(data)
    await box.files.rename("/tmp/a/b", "/tmp/a/c")
    await box.files.remove("/tmp/a/c")
    assert not await box.files.exists("/tmp/a/c")
    with pytest.raises(FileNotFoundException):
        await box.files.read("/tmp/a/c")


async def test_lifecycle(box):
    assert await box.is_running()
    await box.set_timeout(300)
    info = await box.get_info()
    again = await AsyncSandbox.connect(box.sandbox_id)
    assert again.sandbox_id == info.sandbox_id
    paginator = AsyncSandbox.list(query=SandboxQuery(metadata=info.metadata), limit=100)
    assert box.sandbox_id in [one.sandbox_id for one in await paginator.next_items()]


async def test_twenty_sandboxes_at_once_do_not_mix(node):
    async def life(number):
        made = await AsyncSandbox.create("base", timeout=120, envs={"NUMBER": str(number)})
        try:
            await made.files.write("/tmp/number", str(number))
            outputs = await asyncio.gather(*(made.commands.run("echo $NUMBER; cat /tmp/number") for _ in range(3)))
            return {output.stdout for output in outputs}
        finally:
            assert await made.kill() is True

    answers = await asyncio.gather(*(life(number) for number in range(20)))
    assert answers == [{f"{number}\n{number}"} for number in range(20)]
