"""Small images: without a shell, with odd layers, and ones that no importer may accept."""

import gzip
import json
import os

from images import layers, layout, tree

STATIC_BINARY = "app/whoami"
PROBE = ["../parity/probe.c", "../parity/probe_syscalls.c"]


def _tar(path, fill):
    with open(path, "wb") as file:
        layer = tree.Layer(file)
        fill(layer)
        layer.close()
    return path


def _tiny(place):
    """Three small layers `FROM scratch`: no shell, no passwd, WORKDIR made by nobody."""
    def bottom(layer):
        layer.directory("app")
        layer.regular(STATIC_BINARY, layers.static_binary("whoami.c"), mode=0o755)
        layer.regular("app/gone", "deleted by the next layer")
    def middle(layer):
        layer.directory("app")
        layer.whiteout("app/gone")
        layer.regular("app/data", layers.noise(7, 300_000), xattrs={"user.note": b"kept"})
    def top(layer):
        layer.directory("tmp", mode=tree.STICKY | 0o777)
        layer.regular("tmp/last", "top layer")
    return [
        _tar(f"{place}/tiny-0.tar", bottom), _tar(f"{place}/tiny-1.tar", middle),
        _tar(f"{place}/tiny-2.tar", top),
    ]


def _cross_link(place):
    """A second layer that links to a file which only the first one holds."""
    def lower(layer):
        layer.directory("app")
        layer.regular("app/linked", layers.noise(3, 10_000), mode=0o755)
    def upper(layer):
        layer.directory("app")
        layer.hardlink("app/link", "app/linked", mode=0o755)
    return [_tar(f"{place}/cross-0.tar", lower), _tar(f"{place}/cross-1.tar", upper)]


def _edges(place):
    """What a second layer may leave unsaid: the parents of its files, and the order of its markers."""
    def lower(layer):
        layer.directory("app")
        layer.regular(STATIC_BINARY, layers.static_binary("whoami.c"), mode=0o755)
        layer.directory("private", mode=0o700, uid=5, gid=6)
        layer.regular("private/old", "old", mode=0o640)
        layer.directory("merged")
        layer.regular("merged/old", "hidden by the upper layer")
        layer.directory("again")
        layer.regular("again/old", "hidden by the upper layer")
    def upper(layer):
        layer.regular("private/new", "its directory is not named in this layer")
        layer.regular("not/named/anywhere", "nor are these")
        layer.directory("merged")
        layer.regular("merged/new", "before the marker")
        layer.opaque("merged")
        layer.directory("again")
        layer.regular("again/new", "in the same layer as the whiteout")
        layer.whiteout("again")
    return [_tar(f"{place}/edges-0.tar", lower), _tar(f"{place}/edges-1.tar", upper)]


def probe_root(layer):
    """The root of the parity test: the probe and what it needs, nothing that differs by itself."""
    layer.regular("probe", layers.static_binary(*PROBE), mode=0o755)
    layer.directory("etc")
    layer.regular("etc/passwd", "root:x:0:0:root:/:/probe\n")
    layer.regular("etc/group", "root:x:0:\n")
    for name in ["proc", "dev", "sys", "run"]:
        layer.directory(name)
    layer.directory("tmp", mode=tree.STICKY | 0o777)


def build(place, tars):
    """Writes the layout `small`: tags tiny, tiny-zstd, tiny-plain, tiny-indexed, edges, cross-link, probe."""
    images = layout.Layout(f"{place}/small")
    tiny, config = _tiny(tars), {"WorkingDir": "a/a", "Env": ["ONLY=this"]}
    images.image("tiny", [(tar, "gzip") for tar in tiny], config)
    images.image("tiny-zstd", [(tar, "zstd") for tar in tiny], config)
    images.image("tiny-plain", [(tar, "plain") for tar in tiny], config)
    images.image("tiny-indexed", [(tar, "gzip") for tar in tiny], config, other_platform=True)
    probe = _tar(f"{tars}/probe.tar", probe_root)
    images.image("probe", [(probe, "gzip")], {"WorkingDir": "/"})
    images.image("cross-link", [(tar, "gzip") for tar in _cross_link(tars)], {"WorkingDir": "/"})
    images.image("edges", [(tar, "gzip") for tar in _edges(tars)], {"WorkingDir": "/"})


def _damage(place, name, fill, change=None):
    """One layout `bad/<name>` with one image; `change` may then damage the layout."""
    path = f"{place}/bad/{name}"
    tar = _tar(f"{place}/.bad.tar", fill)
    images = layout.Layout(path)
    images.image("latest", [(tar, "gzip")], {})
    os.unlink(tar)
    if change:
        manifest_path = images.blob_path(images.index[0]["digest"])
        with open(manifest_path) as file:
            change(images, json.load(file))


def _replace_layer(images, manifest, data):
    manifest["layers"] = [images.put(data, layout.LAYER + "+gzip")]
    entry = images.put(manifest, layout.MANIFEST)
    entry["annotations"] = images.index[0]["annotations"]
    images.index[:] = [entry]
    images._write_index()


def _truncated(images, manifest):
    with open(images.blob_path(manifest["layers"][0]["digest"]), "rb") as file:
        data = file.read()
    _replace_layer(images, manifest, data[: len(data) // 2])


def _not_a_tar(images, manifest):
    _replace_layer(images, manifest, gzip.compress(b"this is no tar archive " * 1000, mtime=0))


def _altered_blob(images, manifest):
    path = images.blob_path(manifest["layers"][0]["digest"])
    with open(path, "r+b") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


def _missing_blob(images, manifest):
    os.unlink(images.blob_path(manifest["layers"][0]["digest"]))


def _manifest_not_json(images, _manifest):
    entry = images.put(b"{this is not json", layout.MANIFEST)
    entry["annotations"] = images.index[0]["annotations"]
    images.index[:] = [entry]
    images._write_index()


def _wrong_diff_id(images, manifest):
    with open(images.blob_path(manifest["config"]["digest"])) as file:
        config = json.load(file)
    config["rootfs"]["diff_ids"] = ["sha256:" + "0" * 64]
    manifest["config"] = images.put(config, layout.CONFIG)
    entry = images.put(manifest, layout.MANIFEST)
    entry["annotations"] = images.index[0]["annotations"]
    images.index[:] = [entry]
    images._write_index()


def build_bad(place):
    """Layouts under `bad/`, each with one fault; the names are what tests refer to."""
    plain = lambda layer: layer.regular("file", layers.noise(9, 100_000))
    _damage(place, "path-escapes", lambda layer: layer.regular("../../evil", "out"))
    _damage(place, "link-escapes", lambda layer: layer.hardlink("passwd", "../../../etc/passwd"))
    _damage(place, "trusted-xattr", lambda layer: layer.directory(
        "d", xattrs={"trusted.overlay.redirect": b"/etc"}))
    _damage(place, "truncated-layer", plain, _truncated)
    _damage(place, "not-a-tar", plain, _not_a_tar)
    _damage(place, "altered-blob", plain, _altered_blob)
    _damage(place, "missing-blob", plain, _missing_blob)
    _damage(place, "manifest-not-json", plain, _manifest_not_json)
    _damage(place, "wrong-diff-id", plain, _wrong_diff_id)
