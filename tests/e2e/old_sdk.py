"""A short life of one sandbox; run by the interpreters of older SDKs, so it uses what they all have."""

import sys

from e2b import Sandbox


def main():
    sandbox = Sandbox.create(timeout=60) if hasattr(Sandbox, "create") else Sandbox(timeout=60)
    try:
        assert sandbox.is_running()
        assert sandbox.commands.run("echo from the $WHERE", envs={"WHERE": "sandbox"}).stdout == "from the sandbox\n"
        sandbox.files.write("/tmp/file", "text")
        assert sandbox.files.read("/tmp/file") == "text"
        assert [entry.name for entry in sandbox.files.list("/tmp")] == ["file"]
        sandbox.set_timeout(90)
        handle = sandbox.commands.run("cat", background=True, stdin=True) if "--stdin" in sys.argv else None
        if handle:
            sandbox.commands.send_stdin(handle.pid, "x\n")
            assert handle.kill()
    finally:
        assert sandbox.kill()
    print("ok")


if __name__ == "__main__":
    main()
