"""Files by the newest SDK, sync: sizes, forms, directories, errors."""

import hashlib
import io
import random

import pytest
from e2b import FileNotFoundException, InvalidArgumentException
from e2b.sandbox.filesystem.filesystem import FileType, WriteEntry

KI, MI = 1 << 10, 1 << 20


@pytest.mark.parametrize("size", [0, 1, 18_431, 18_433, 64 * KI - 1, 64 * KI, 64 * KI + 1, MI, 200 * MI])
def test_p38_uploads_of_every_size_arrive_whole(sandbox, size):
    data = random.Random(size).randbytes(size)
    written = sandbox.files.write("/tmp/up", data, request_timeout=100)
    assert (written.path, written.name) == ("/tmp/up", "up")
    digest = sandbox.commands.run("sha256sum /tmp/up").stdout.split()[0]
    assert digest == hashlib.sha256(data).hexdigest()
    assert hashlib.sha256(sandbox.files.read("/tmp/up", format="bytes", request_timeout=100)).hexdigest() == digest


def test_text_bytes_and_streams(sandbox):
    sandbox.files.write("note", "naïve 日本 😀\n")
    assert sandbox.files.read("/home/user/note") == "naïve 日本 😀\n"
    raw = bytes(range(256)) * 1000
    sandbox.files.write("raw", io.BytesIO(raw))
    assert bytes(sandbox.files.read("raw", format="bytes")) == raw
    assert b"".join(sandbox.files.read("raw", format="stream")) == raw
    sandbox.files.write("raw", raw, use_octet_stream=True)
    assert bytes(sandbox.files.read("raw", format="bytes")) == raw
    sandbox.files.write("packed", raw, gzip=True)
    assert bytes(sandbox.files.read("packed", format="bytes", gzip=True)) == raw
    sandbox.files.write("iterated", (bytes([n]) * 1000 for n in range(100)))
    assert len(sandbox.files.read("iterated", format="bytes")) == 100_000


def test_several_files_in_one_call(sandbox):
    entries = [WriteEntry(path=f"/tmp/several/{n}/file", data=f"number {n}") for n in range(20)]
    assert [info.path for info in sandbox.files.write_files(entries)] == [entry["path"] for entry in entries]
    assert sandbox.commands.run("cat /tmp/several/*/file | wc -l; ls /tmp/several | wc -l").stdout == "0\n20\n"


def test_owner_and_mode_of_what_is_written(sandbox):
    sandbox.files.write("/tmp/by-user/deep/file", "x")
    sandbox.files.write("/tmp/by-root/file", "x", user="root")
    listed = sandbox.commands.run("stat -c '%U %a %n' /tmp/by-user /tmp/by-user/deep/file /tmp/by-root/file").stdout
    assert listed == "user 755 /tmp/by-user\nuser 644 /tmp/by-user/deep/file\nroot 644 /tmp/by-root/file\n"


def test_overwriting_makes_shorter(sandbox):
    sandbox.files.write("/tmp/f", "a long first content")
    sandbox.files.write("/tmp/f", "short")
    assert sandbox.files.read("/tmp/f") == "short"


def test_names_in_unicode_and_of_full_length(sandbox):
    for name in ["ünï-日本-😀 with spaces", "n" * 255, "a%2Fb+c&d=e?f#g", "-dash", "*"]:
        sandbox.files.write(f"/tmp/names/{name}", name)
        assert sandbox.files.read(f"/tmp/names/{name}") == name
        assert sandbox.files.get_info(f"/tmp/names/{name}").name == name


def test_list_by_depth(sandbox):
    sandbox.files.write("/tmp/tree/a/b/c/file", "x")
    sandbox.files.write("/tmp/tree/top", "x")
    names = lambda depth: sorted(entry.path.removeprefix("/tmp/tree/") for entry in sandbox.files.list("/tmp/tree", depth))
    assert names(1) == ["a", "top"]
    assert names(2) == ["a", "a/b", "top"]
    assert names(10) == ["a", "a/b", "a/b/c", "a/b/c/file", "top"]


def test_info_of_files_directories_and_links(sandbox):
    sandbox.files.write("/tmp/info/file", "12345")
    sandbox.commands.run("chmod 640 /tmp/info/file; ln -s file /tmp/info/link; chmod 750 /tmp/info")
    info = sandbox.files.get_info("/tmp/info/file")
    assert (info.type, info.size, info.mode, info.permissions) == (FileType.FILE, 5, 0o640, "-rw-r-----")
    assert (info.owner, info.group) == ("user", "user")
    folder = sandbox.files.get_info("/tmp/info")
    assert (folder.type, folder.permissions) == (FileType.DIR, "drwxr-x---")
    assert sandbox.files.get_info("/tmp/info/link").symlink_target == "/tmp/info/file"


def test_exists_make_dir_rename_remove(sandbox):
    files = sandbox.files
    assert not files.exists("/tmp/x")
    assert files.make_dir("/tmp/x/y") is True
    assert files.make_dir("/tmp/x/y") is False
    files.write("/tmp/x/y/f", "moved")
    assert files.rename("/tmp/x/y", "/tmp/x/z").path == "/tmp/x/z"
    assert files.read("/tmp/x/z/f") == "moved" and not files.exists("/tmp/x/y")
    files.remove("/tmp/x")
    assert not files.exists("/tmp/x/z/f")


def test_p41_a_missing_path_is_not_found(sandbox):
    files = sandbox.files
    for attempt in [lambda: files.read("/nope"), lambda: files.list("/nope"), lambda: files.get_info("/nope"),
                    lambda: files.rename("/nope", "/tmp/to")]:
        with pytest.raises(FileNotFoundException, match="/nope"):
            attempt()


def test_p41_a_directory_is_no_file(sandbox):
    with pytest.raises(InvalidArgumentException, match="/tmp"):
        sandbox.files.read("/tmp")
    with pytest.raises(InvalidArgumentException, match="/tmp"):
        sandbox.files.write("/tmp", "x")
    sandbox.files.write("/tmp/file", "x")
    with pytest.raises(InvalidArgumentException, match="/tmp/file"):
        sandbox.files.list("/tmp/file")


def test_p41_statuses_on_the_wire(plane):
    for method, message in [("Stat", {"path": "/nope"}), ("ListDir", {"path": "/nope"}),
                            ("Move", {"source": "/nope", "destination": "/tmp/x"})]:
        reply = plane.unary(f"filesystem.Filesystem/{method}", message)
        assert reply.status == 404 and reply.json["code"] == "not_found", reply
        assert "/nope" in reply.json["message"]
    for path, status in [("/nope", 404), ("/tmp", 400)]:
        reply = plane.request("GET", f"/files?path={path}")
        assert reply.status == status and reply.json["code"] == status and path in reply.json["message"], reply
    # Removing what is not there is no error in the protocol.
    assert plane.unary("filesystem.Filesystem/Remove", {"path": "/nope"}).status == 200


def test_ranges_of_a_file(plane):
    plane.request("POST", "/files?path=/tmp/r", b"0123456789", headers={"Content-Type": "application/octet-stream"})
    reply = plane.request("GET", "/files?path=/tmp/r", headers={"Range": "bytes=2-5"})
    assert (reply.status, reply.body) == (206, b"2345")


def test_metadata_of_an_upload_is_kept_and_listed(sandbox):
    sandbox.files.write("/tmp/m", "x", metadata={"origin": "test"})
    assert sandbox.files.get_info("/tmp/m").metadata == {"origin": "test"}
