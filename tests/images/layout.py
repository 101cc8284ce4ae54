"""Writes images as OCI layouts from layer tars, each layer in a chosen compression."""

import gzip
import hashlib
import json
import os
import platform
import shutil

import zstandard

PIECE = 1 << 20
LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def digest(path):
    with open(path, "rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def compress(tar, kind, out):
    """Copies `tar` to `out` as gzip, zstd or plain."""
    with open(tar, "rb") as source, open(out, "wb") as target:
        if kind == "gzip":
            with gzip.GzipFile(fileobj=target, mode="wb", compresslevel=1, mtime=0, filename="") as sink:
                shutil.copyfileobj(source, sink, PIECE)
        elif kind == "zstd":
            zstandard.ZstdCompressor(level=1).copy_stream(source, target)
        else:
            shutil.copyfileobj(source, target, PIECE)


class Layout:
    """An OCI layout directory with one or more tagged images."""

    def __init__(self, path):
        self.path = path
        os.makedirs(os.path.join(path, "blobs/sha256"), exist_ok=True)
        with open(os.path.join(path, "oci-layout"), "w") as file:
            json.dump({"imageLayoutVersion": "1.0.0"}, file)
        self.index = []
        self._write_index()

    def _write_index(self):
        with open(os.path.join(self.path, "index.json"), "w") as file:
            json.dump({"schemaVersion": 2, "mediaType": INDEX, "manifests": self.index}, file)

    def blob_path(self, name):
        return os.path.join(self.path, "blobs/sha256", name.removeprefix("sha256:"))

    def put(self, data, media_type):
        """Stores bytes (or an object as JSON); returns its descriptor."""
        data = data if isinstance(data, bytes) else json.dumps(data, sort_keys=True).encode()
        name = "sha256:" + hashlib.sha256(data).hexdigest()
        with open(self.blob_path(name), "wb") as file:
            file.write(data)
        return {"mediaType": media_type, "digest": name, "size": len(data)}

    def put_layer(self, tar, kind):
        """Stores a layer tar compressed; returns its descriptor and diff id."""
        scratch = os.path.join(self.path, "blobs/sha256", ".new")
        compress(tar, kind, scratch)
        name = digest(scratch)
        size = os.path.getsize(scratch)
        os.rename(scratch, self.blob_path(name))
        suffix = "" if kind == "plain" else "+" + kind
        return {"mediaType": LAYER + suffix, "digest": name, "size": size}, digest(tar)

    def image(self, tag, layers, config, other_platform=False):
        """Adds an image of (tar, compression) layers; with `other_platform` behind a multi-arch index."""
        stored = [self.put_layer(tar, kind) for tar, kind in layers]
        full = {
            "architecture": ARCHITECTURE, "os": "linux", "config": config,
            "rootfs": {"type": "layers", "diff_ids": [diff for _, diff in stored]},
            "history": [{"created_by": "fixture"} for _ in stored],
        }
        manifest = {
            "schemaVersion": 2, "mediaType": MANIFEST, "config": self.put(full, CONFIG),
            "layers": [descriptor for descriptor, _ in stored],
        }
        entry = self.put(manifest, MANIFEST)
        if other_platform:
            entry = self._indexed(full, manifest, entry)
        entry["annotations"] = {"org.opencontainers.image.ref.name": tag}
        self.index.append(entry)
        self._write_index()

    def _indexed(self, full, manifest, entry):
        """A multi-arch index whose first entry is another machine's: its layers must not be taken."""
        foreign_config = {**full, "architecture": "s390x", "rootfs": {"type": "layers", "diff_ids": []}}
        foreign = {**manifest, "config": self.put(foreign_config, CONFIG), "layers": []}
        foreign_entry = self.put(foreign, MANIFEST)
        foreign_entry["platform"] = {"os": "linux", "architecture": "s390x"}
        entry["platform"] = {"os": "linux", "architecture": ARCHITECTURE}
        return self.put(
            {"schemaVersion": 2, "mediaType": INDEX, "manifests": [foreign_entry, entry]}, INDEX
        )
