"""What the layers of the image `fixture` hold: one case of the bug log or of the format each."""

import os
import random
import subprocess
import tarfile
import tempfile

from images import tree

HERE = os.path.dirname(os.path.abspath(__file__))
MANY = 20_000
SPARSE_SIZE = 5 << 30
# Data at the start, in the middle, across 4 GiB (where 32-bit offsets wrap) and at the very end.
SPARSE_ISLANDS = [
    (0, b"first"),
    ((5 << 29) + 1, b"middle" * 1000),
    ((4 << 30) - 7, b"across the four GiB border"),
    ((5 << 30) - 4, b"last"),
]
UNICODE = "naïve-ü-日本語-😀-e\u0301"
LONGEST = "n" * 255
LONGEST_UNICODE = "é" * 127 + "x"


def noise(seed, size):
    """Bytes that do not compress, the same on every run."""
    return random.Random(seed).randbytes(size)


def static_binary(*sources):
    """Compiles C files (paths from this directory) without a dynamic loader."""
    with tempfile.TemporaryDirectory() as scratch:
        out = os.path.join(scratch, "binary")
        paths = [os.path.join(HERE, source) for source in sources]
        subprocess.run(["gcc", "-static", "-O2", "-s", "-Wl,--build-id=none", "-o", out, *paths], check=True)
        with open(out, "rb") as file:
            return file.read()


def accounts(root_tar):
    """passwd, group and shadow of the root with `dev` (uid 1000) in a supplementary group added."""
    with tarfile.open(root_tar) as tar:
        read = lambda name: tar.extractfile("./etc/" + name).read().decode()
        passwd, group, shadow = read("passwd"), read("group"), read("shadow")
    passwd += "dev:x:1000:1000:dev:/home/dev:/bin/bash\nother:x:1001:1001::/home/other:/bin/sh\n"
    group += "dev:x:1000:\nother:x:1001:\nextra:x:2000:dev\nwheel:x:2001:dev,other\n"
    shadow += "dev:*:19000:0:99999:7:::\nother:*:19000:0:99999:7:::\n"
    return {"passwd": passwd, "group": group, "shadow": shadow}


def first(layer, root_tar):
    """Everything that later layers change, and every attribute a file can have."""
    layer.directory("etc")
    for name, content in accounts(root_tar).items():
        layer.regular(f"etc/{name}", content, mode=0o640 if name == "shadow" else 0o644,
                      gid=42 if name == "shadow" else 0)
    layer.directory("etc/sudoers.d", mode=0o750)
    layer.regular("etc/sudoers.d/dev", "dev ALL=(ALL) NOPASSWD:ALL\n", mode=0o440)
    layer.directory("home")
    layer.directory("home/dev", uid=1000, gid=1000)
    layer.directory("opt")
    for name in ["tool", "tool/bin"]:
        layer.directory(f"opt/{name}")
    layer.regular("opt/tool/bin/which-tool", "#!/bin/sh\necho the image tool\n", mode=0o755)
    layer.directory("opt/rename-me")
    layer.regular("opt/rename-me/file", "renamed\n")
    base = "opt/fix"
    layer.directory(base)
    _to_be_changed(layer, base)
    _links(layer, f"{base}/links")
    _privileges(layer, f"{base}/privileges")
    _names(layer, f"{base}/names")
    _kinds(layer, f"{base}/kinds")
    _sizes(layer, f"{base}/sizes")


def _to_be_changed(layer, base):
    for path in ["deleted", "deleted/sub", "opaque", "opaque/sub", "remade", "remade/e", "turns"]:
        layer.directory(f"{base}/{path}")
    for path in ["deleted/a", "deleted/b", "deleted/sub/c", "opaque/x", "opaque/sub/y",
                 "remade/e/f", "turns/file-to-dir"]:
        layer.regular(f"{base}/{path}", path)
    layer.directory(f"{base}/turns/dir-to-file")
    layer.regular(f"{base}/turns/dir-to-file/inside", "gone later")
    layer.symlink(f"{base}/turns/link-to-dir", "file-to-dir")
    layer.directory(f"{base}/turns/dir-to-link")
    layer.regular(f"{base}/turns/mode-only", "same content", mode=0o644)
    layer.directory(f"{base}/many")
    for number in range(MANY):
        layer.regular(f"{base}/many/entry-{number:05}", b"", mtime="1600000000")


def _links(layer, base):
    # A hard link's header repeats the attributes of its file, as builders write it: engines differ if not.
    layer.directory(base)
    layer.regular(f"{base}/big", noise(1, 5 << 20), mode=0o755)
    layer.hardlink(f"{base}/big-too", f"{base}/big", mode=0o755)
    layer.hardlink(f"{base}/big-three", f"{base}/big", mode=0o755)
    layer.symlink(f"{base}/symlink", "big", mtime="1500000000.5")
    layer.hardlink(f"{base}/symlink-too", f"{base}/symlink", mode=0o777, mtime="1500000000.5")
    layer.symlink(f"{base}/dangling", "/nowhere/at/all")
    layer.symlink(f"{base}/long-target", "t" * 1000)


def _privileges(layer, base):
    layer.directory(base)
    whoami = static_binary("whoami.c")
    layer.regular(f"{base}/setuid", whoami, mode=tree.SUID | 0o755)
    layer.regular(f"{base}/setuid-dev", whoami, mode=tree.SUID | 0o755, uid=1001, gid=1001)
    layer.regular(f"{base}/setgid", whoami, mode=tree.SGID | 0o755, gid=2000)
    layer.regular(f"{base}/capable", whoami, mode=0o755,
                  xattrs={"security.capability": tree.CAP_NET_RAW_EP})
    layer.directory(f"{base}/sticky", mode=tree.STICKY | 0o777)
    layer.directory(f"{base}/setgid-dir", mode=tree.SGID | 0o2775, gid=2000)
    layer.regular(f"{base}/highest-id", "x", uid=65535, gid=65535, mode=0o600)
    layer.regular(f"{base}/nobody", "x", uid=65534, gid=65534)
    layer.regular(f"{base}/no-permissions", "x", mode=0)
    layer.regular(f"{base}/xattrs", "x", xattrs={
        "user.plain": b"value", "user.binary": bytes(range(256)),
        "user.long": b"v" * 3000, "user.naïve-日本": "ü😀".encode(),
    })
    layer.directory(f"{base}/xattr-dir", xattrs={"user.on": b"a directory"})


def _names(layer, base):
    layer.directory(base)
    for name in [UNICODE, LONGEST, LONGEST_UNICODE, b"\xff\xfe-not-utf8", "new\nline", " blank ",
                 "back\\slash", "-dash", "*?[glob]", "wh.not-a-whiteout"]:
        layer.regular(base.encode() + b"/" + (name if isinstance(name, bytes) else name.encode()), "named")
    deep = base
    for level in range(12):
        deep += f"/level-{level:02}-{'d' * 60}"
        layer.directory(deep)
    layer.regular(f"{deep}/leaf", "deep")
    layer.directory(f"{base}/{UNICODE}-dir")
    layer.symlink(f"{base}/{UNICODE}-link", f"{UNICODE}-dir")


def _kinds(layer, base):
    layer.directory(base)
    layer.fifo(f"{base}/fifo", mode=0o640, uid=1000)
    layer.device(f"{base}/null", "c", 1, 3, mode=0o666)
    layer.device(f"{base}/block", "b", 7, 200, mode=0o660, gid=6)
    layer.device(f"{base}/large-minor", "c", 10, 70000)
    layer.directory(f"{base}/empty", mtime="1234567890.000000001")
    layer.regular(f"{base}/epoch", "x", mtime="0")
    layer.regular(f"{base}/year-2100", "x", mtime="4102444800.999999999")
    layer.regular(f"{base}/tenth", "x", mtime="1111111111.1")


def _sizes(layer, base):
    layer.directory(base)
    for size in [0, 1, 4095, 4096, 4097, 65536, (256 << 10) - 1, 256 << 10, (256 << 10) + 1]:
        layer.regular(f"{base}/{size}", noise(size, size))
    layer.stream(f"{base}/sparse-5g", SPARSE_SIZE, tree.Islands(SPARSE_SIZE, SPARSE_ISLANDS))
    layer.pax_sparse(f"{base}/sparse-pax", 64 << 20, [(0, b"h" * 4096), (32 << 20, b"m" * 5000)])


def second(layer):
    """Deletions, an opaque directory, changes of kind."""
    base = "opt/fix"
    layer.directory("opt")
    layer.directory(base, mode=0o751)
    layer.directory(f"{base}/deleted")
    layer.whiteout(f"{base}/deleted/a")
    layer.whiteout(f"{base}/deleted/sub")
    layer.directory(f"{base}/opaque", mode=0o711, uid=1000)
    layer.opaque(f"{base}/opaque")
    layer.regular(f"{base}/opaque/new", "only this one")
    layer.whiteout(f"{base}/remade")
    layer.directory(f"{base}/turns")
    layer.whiteout(f"{base}/turns/file-to-dir")
    layer.whiteout(f"{base}/turns/dir-to-file")
    layer.whiteout(f"{base}/turns/link-to-dir")
    layer.whiteout(f"{base}/turns/dir-to-link")
    layer.regular(f"{base}/turns/mode-only", "same content", mode=0o600)
    layer.directory(f"{base}/many")
    for number in range(0, MANY, 1000):
        layer.whiteout(f"{base}/many/entry-{number:05}")
    layer.directory("usr")
    layer.directory("usr/share")
    layer.whiteout("usr/share/common-licenses")


def third(layer):
    """What was deleted comes back, new and empty; links to a file of an earlier layer."""
    base = "opt/fix"
    layer.directory("opt")
    layer.directory(base, mode=0o751)
    layer.directory(f"{base}/remade", mode=0o700)
    layer.directory(f"{base}/remade/e")
    layer.directory(f"{base}/turns")
    layer.directory(f"{base}/turns/file-to-dir")
    layer.regular(f"{base}/turns/file-to-dir/now", "a directory")
    layer.regular(f"{base}/turns/dir-to-file", "a file")
    layer.directory(f"{base}/turns/link-to-dir")
    layer.symlink(f"{base}/turns/dir-to-link", "/etc/passwd")
    layer.directory(f"{base}/links")
    # As an overlay-based builder writes it: linking copies the file up, so both names are here.
    layer.regular(f"{base}/links/big", noise(1, 5 << 20), mode=0o755)
    layer.hardlink(f"{base}/links/later-link", f"{base}/links/big", mode=0o755)
    layer.directory(f"{base}/many")
    layer.regular(f"{base}/many/entry-01000", "back again")
