"""Images and stores that cannot be used: a line that says why, and nothing half made."""

import os
import subprocess
import tempfile

import bcrypt
import census
import pytest
from images import layout, tree
from node import Node, free_port
from registry import Registry

WARREN_FAILED = 125
BAD = {
    "path-escapes": "../../evil", "link-escapes": "etc/passwd", "trusted-xattr": "trusted.overlay.redirect",
    "truncated-layer": "", "not-a-tar": "tar", "altered-blob": "sha256:", "missing-blob": "sha256",
    "manifest-not-json": "", "wrong-diff-id": "sha256:",
}


def state_of(node):
    """Everything of a node on disk and in the kernel that a failed pull or create may leave."""
    listed = {}
    for kind in ["cache", "catalog", "state"]:
        for directory, names, files in os.walk(f"{node.data_dir}/{kind}"):
            # The pool makes and replaces waiting sandboxes meanwhile.
            names[:] = [name for name in names if name != "sandboxes"]
            listed.update({os.path.join(directory, name): "there" for name in [*names, *files]})
    templates = sorted(node.cli("template", "ls", "-q").stdout.split())
    mounts = sorted(line.split()[4] for line in open("/proc/self/mountinfo") if node.home in line)
    return {"files": listed, "templates": templates, "mounts": mounts}


@pytest.mark.parametrize("fault", BAD)
def test_a_bad_image_is_refused_in_words_and_leaves_nothing(node, images, fault):
    before = state_of(node)
    result = node.cli("pull", f"oci:{images}/bad/{fault}:latest", "--name", "bad")
    assert result.returncode == WARREN_FAILED, result
    assert BAD[fault] in result.stderr and len(result.stderr.strip()) > 20, result.stderr
    assert "panicked" not in result.stderr
    assert state_of(node) == before
    assert not os.path.exists("/evil") and not os.path.exists(f"{node.data_dir}/../evil")


def test_a_blob_that_does_not_match_its_digest_is_refused_from_a_registry(node, tmp_path):
    # A layer of its own: one that the node already has would not be fetched.
    with open(tmp_path / "layer.tar", "wb") as file:
        layer = tree.Layer(file)
        layer.regular("file", os.urandom(50_000))
        layer.close()
    layout.Layout(f"{tmp_path}/image").image("one", [(tmp_path / "layer.tar", "plain")], {})
    with Registry() as registry:
        registry.push(f"oci:{tmp_path}/image:one", "small:damaged")
        damaged = next(path for path in _blobs(registry) if os.path.getsize(path) > 10_000)
        with open(damaged, "r+b") as file:
            file.seek(5000)
            byte = file.read(1)
            file.seek(5000)
            file.write(bytes([byte[0] ^ 1]))
        before = state_of(node)
        result = node.cli("pull", f"{registry.address}/small:damaged", "--name", "bad")
        assert result.returncode == WARREN_FAILED and "sha256:" in result.stderr, result
        assert state_of(node) == before


def _blobs(registry):
    for directory, _, files in os.walk(f"{registry.root}/data/docker/registry/v2/blobs"):
        yield from (os.path.join(directory, name) for name in files)


def test_sources_that_are_not_there_are_named(node, registry, images):
    port = free_port()
    for source, words in [
        (f"127.0.0.1:{port}/some/image:tag", [f"127.0.0.1:{port}"]),
        (f"{registry.address}/no/such:image", ["no/such"]),
        (f"{registry.address}/small:no-such-tag", ["no-such-tag"]),
        ("oci:/no/such/layout:tag", ["/no/such/layout"]),
        (f"oci:{images}/small:no-such-tag", ["no-such-tag"]),
        ("docker-archive:/no/such.tar", ["/no/such.tar"]),
        (f"docker-archive:{images}/images/index.json", ["index.json"]),
        ("not a reference!", ["not a reference!"]),
    ]:
        before = state_of(node)
        result = node.cli("pull", source, "--name", "bad")
        assert result.returncode == WARREN_FAILED, (source, result)
        for word in words:
            assert word in result.stderr, (source, result.stderr)
        assert state_of(node) == before


def test_a_registry_with_a_password(node, images):
    hashed = bcrypt.hashpw(b"right password", bcrypt.gensalt(4)).decode()
    with Registry(f"warren:{hashed}") as registry:
        registry.push(f"oci:{images}/small:tiny", "small:locked", "--dest-creds", "warren:right password")
        pull = ("pull", f"{registry.address}/small:locked", "--name", "locked")
        anonymous = node.cli(*pull)
        assert anonymous.returncode == WARREN_FAILED and registry.address in anonymous.stderr, anonymous
        wrong = node.cli(*pull, "--username", "warren", "--password-stdin", stdin="wrong")
        assert wrong.returncode == WARREN_FAILED and "wrong" not in wrong.stderr, wrong
        right = node.cli(*pull, "--username", "warren", "--password-stdin", stdin="right password\n")
        assert right.returncode == 0, right.stderr
        assert "right password" not in node.log()
    assert node.cli("template", "rm", "locked").returncode == 0


def test_a_template_in_use_is_not_removed(node, pulled, api):
    name = pulled("small:tiny-zstd")
    made = api.create(name)
    refused = node.cli("template", "rm", name)
    assert refused.returncode == WARREN_FAILED and name in refused.stderr and "in use" in refused.stderr
    assert name in node.cli("template", "ls", "-q").stdout.split()
    api.kill(made)


def test_failed_creates_leave_no_sandbox_mount_cgroup_or_namespace(node, api):
    api.kill(api.create())
    before, listed = census.take(), api.get("/v2/sandboxes").json
    for number in range(30):
        for body in [{"templateID": "no-such"}, {"templateID": "base", "timeout": -1},
                     {"templateID": "base", "envVars": {"A=B": "x"}}]:
            assert api.post("/v2/sandboxes", body).status in (400, 404), number
    assert api.get("/v2/sandboxes").json == listed
    # Waiting shells may be made or replaced meanwhile, so only kinds that a pool does not change are exact.
    found = census.left_after_settling(before)
    assert not {kind: items for kind, items in found.items() if kind in ("mounts", "nft tables", "loop devices")}, found


def fill(path, size):
    with open(path, "wb") as file:
        os.posix_fallocate(file.fileno(), 0, size)


def test_a_node_refuses_to_start_without_room(nothing_remains):
    place = tempfile.mkdtemp(prefix="wt-small-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=160m", "tmpfs", place], check=True)
    server = Node("10.219.0.0/24", pool=1, data_dir=f"{place}/d")
    try:
        with pytest.raises(RuntimeError, match="bytes are free.*another data directory"):
            server.start()
    finally:
        server.destroy()
        subprocess.run(["umount", "--lazy", place], check=True)
        os.rmdir(place)


@pytest.mark.timeout(300)
def test_a_full_disk_is_said_and_leaves_a_working_node(nothing_remains, images):
    place = tempfile.mkdtemp(prefix="wt-full-")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500m", "tmpfs", place], check=True)
    server = Node("10.219.0.0/24", pool=1, data_dir=f"{place}/d")
    try:
        server.start()
        # All but a little of the room; a node that starts with as little refuses, which is another test.
        room = os.statvfs(place)
        fill(f"{place}/filler", room.f_bavail * room.f_frsize - (60 << 20))
        result = server.cli("pull", f"oci:{images}/images:debian", "--name", "too-big", timeout=240)
        assert result.returncode == WARREN_FAILED, result
        assert "space" in result.stderr.lower(), result.stderr
        assert server.cli("template", "ls", "-q").stdout.split() != []
        assert "too-big" not in server.cli("template", "ls", "-q").stdout
        assert server.cli("pull", f"oci:{images}/small:tiny", "--name", "fits").returncode == 0
        assert server.cli("run", "host", "--", "echo", "alive").stdout == "alive\n"
        server.stop()
    finally:
        server.destroy()
        subprocess.run(["umount", "--lazy", place], check=True)
        os.rmdir(place)
