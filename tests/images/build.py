"""Builds the image fixtures once and keeps them in a cache outside the clone.

Run as `python -m images.build` it prints the directory, which holds:
images/  an OCI layout: `debian` (the root alone) and `fixture` (three layers on it; gzip, zstd, plain)
small/   an OCI layout of small images (see small.py); also as tiny.docker.tar and tiny.oci.tar
bad/     one OCI layout per fault
oracle/fixture, oracle/edges   what `umoci unpack` and walk.py say about those images
"""

import glob
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile

from images import debian, layers, layout, small, tree

HERE = os.path.dirname(os.path.abspath(__file__))
PATH = "/opt/tool/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
CONFIG = {
    "Env": [f"PATH={PATH}", "FIXTURE=from the image", "SPACES=a b  c"],
    "User": "dev", "WorkingDir": "/opt/fix", "Cmd": ["/bin/bash"],
}
# Not in the layers' namespace inside a sandbox: mounts of the sandbox, and files the node writes.
NOT_COMPARED = ["dev", "proc", "sys", "etc/hosts", "etc/hostname", "etc/resolv.conf"]


def cache_root():
    return os.environ.get("WARREN_IMAGES_CACHE") or os.path.expanduser("~/.cache/warren/images")


def key():
    """Changes whenever a script that makes the fixtures does."""
    found = hashlib.sha256()
    sources = [*glob.glob(f"{HERE}/*.py"), *glob.glob(f"{HERE}/*.c"), *glob.glob(f"{HERE}/../parity/*.[ch]")]
    for path in sorted(sources):
        with open(path, "rb") as file:
            found.update(file.read())
    return found.hexdigest()[:16]


def _tars(place, root_tar):
    fill = {"first": lambda layer: layers.first(layer, root_tar), "second": layers.second,
            "third": layers.third}
    paths = []
    for name, function in fill.items():
        paths.append(f"{place}/{name}.tar")
        with open(paths[-1], "wb") as file:
            layer = tree.Layer(file)
            function(layer)
            layer.close()
    return paths


def _oracle(layout_path, tag, out):
    """Unpacks with umoci as root and writes down what is there."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(out)) as scratch:
        bundle = f"{scratch}/bundle"
        subprocess.run(["umoci", "unpack", "--image", f"{layout_path}:{tag}", bundle],
                       check=True, capture_output=True)
        with open(out, "wb") as file:
            subprocess.run([sys.executable, f"{HERE}/walk.py", f"{bundle}/rootfs", *NOT_COMPARED],
                           check=True, stdout=file)


def _archives(place):
    for kind, name in [("docker-archive", "tiny.docker.tar"), ("oci-archive", "tiny.oci.tar")]:
        subprocess.run(["skopeo", "copy", "--insecure-policy", "-q", f"oci:{place}/small:tiny",
                        f"{kind}:{place}/{name}:tiny:latest"], check=True)


def _build(place, root_tar):
    tars = f"{place}/tars"
    os.makedirs(tars)
    os.makedirs(f"{place}/oracle")
    paths = _tars(tars, root_tar)
    images = layout.Layout(f"{place}/images")
    images.image("debian", [(root_tar, "gzip")], {"Cmd": ["/bin/bash"]})
    stack = [root_tar, *paths]
    images.image("fixture", list(zip(stack, ["gzip", "zstd", "plain", "gzip"])), CONFIG)
    # The distribution's umoci knows no zstd: same layers, so the same files, in gzip.
    for_oracle = layout.Layout(f"{place}/for-oracle")
    for_oracle.image("fixture", [(tar, "gzip") for tar in stack], CONFIG)
    small.build(place, tars)
    small.build_bad(place)
    shutil.rmtree(tars)
    _oracle(f"{place}/for-oracle", "fixture", f"{place}/oracle/fixture")
    _oracle(f"{place}/small", "edges", f"{place}/oracle/edges")
    shutil.rmtree(f"{place}/for-oracle")
    _archives(place)


def ensure():
    """Directory with the fixtures, built if it is not there; older ones are removed."""
    root = cache_root()
    place = os.path.join(root, key())
    if os.path.isdir(place):
        return place
    root_tar = debian_root()
    for old in os.listdir(root):
        if os.path.join(root, old) != root_tar:
            _remove(os.path.join(root, old))
    _build(place + ".new", root_tar)
    os.rename(place + ".new", place)
    return place


def debian_root():
    """Path of the Debian root as a tar, built if it is not there."""
    os.makedirs(cache_root(), exist_ok=True)
    with open(f"{HERE}/debian.py", "rb") as file:
        name = hashlib.sha256(file.read()).hexdigest()[:16]
    root_tar = os.path.join(cache_root(), f"debian-{name}.tar")
    if not os.path.exists(root_tar):
        debian.build(root_tar + ".new")
        os.rename(root_tar + ".new", root_tar)
    return root_tar


def _remove(path):
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


if __name__ == "__main__":
    print(ensure())
