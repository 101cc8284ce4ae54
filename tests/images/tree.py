"""A deterministic layer tar: every attribute that the tests compare, written as a builder would."""

import io
import tarfile

BLOCK = 512
# 2023-11-14; a moment with a sub-second part that a double cannot hold.
MTIME = "1700000000.123456789"
SUID, SGID, STICKY = 0o4000, 0o2000, 0o1000
# VFS_CAP_REVISION_2 with the effective bit, and CAP_NET_RAW (13) permitted.
CAP_NET_RAW_EP = bytes.fromhex("0100000200200000000000000000000000000000")


def text(raw):
    """Bytes as the tarfile module wants them: not UTF-8 is kept, byte for byte."""
    return raw.decode("utf-8", "surrogateescape") if isinstance(raw, bytes) else raw


class Layer:
    """Writes one layer into `file`; a directory must be named before what is in it."""

    def __init__(self, file):
        self.tar = tarfile.open(
            fileobj=file, mode="w", format=tarfile.PAX_FORMAT, errors="surrogateescape"
        )
        self.file = file

    def _add(self, path, kind, body=None, size=0, **attributes):
        info = tarfile.TarInfo(text(path))
        info.type = kind
        info.size = size
        info.mode = attributes.get("mode", 0o755 if kind == tarfile.DIRTYPE else 0o644)
        info.uid = attributes.get("uid", 0)
        info.gid = attributes.get("gid", 0)
        info.linkname = text(attributes.get("target", ""))
        info.devmajor, info.devminor = attributes.get("device", (0, 0))
        mtime = attributes.get("mtime", MTIME)
        info.mtime = int(mtime.split(".")[0])
        info.pax_headers = {"mtime": mtime} if "." in mtime else {}
        for name, value in attributes.get("xattrs", {}).items():
            info.pax_headers["SCHILY.xattr." + text(name)] = text(value)
        info.pax_headers.update(attributes.get("pax", {}))
        self.tar.addfile(info, body)

    def directory(self, path, **attributes):
        self._add(path, tarfile.DIRTYPE, **attributes)

    def regular(self, path, data=b"", **attributes):
        data = data.encode() if isinstance(data, str) else data
        self._add(path, tarfile.REGTYPE, io.BytesIO(data), len(data), **attributes)

    def stream(self, path, size, body, **attributes):
        self._add(path, tarfile.REGTYPE, body, size, **attributes)

    def symlink(self, path, target, **attributes):
        self._add(path, tarfile.SYMTYPE, target=target, mode=0o777, **attributes)

    def hardlink(self, path, target, **attributes):
        self._add(path, tarfile.LNKTYPE, target=target, **attributes)

    def fifo(self, path, **attributes):
        self._add(path, tarfile.FIFOTYPE, **attributes)

    def device(self, path, kind, major, minor, **attributes):
        kind = {"c": tarfile.CHRTYPE, "b": tarfile.BLKTYPE}[kind]
        self._add(path, kind, device=(major, minor), **attributes)

    def whiteout(self, path):
        parent, _, name = path.rpartition("/")
        self.regular(f"{parent}/.wh.{name}".lstrip("/"))

    def opaque(self, directory):
        self.regular(f"{directory}/.wh..wh..opq")

    def pax_sparse(self, path, size, islands, **attributes):
        """A file in GNU's sparse format 1.0: `islands` is a list of (offset, bytes)."""
        head = f"{len(islands)}\n" + "".join(f"{o}\n{len(d)}\n" for o, d in islands)
        head = head.encode().ljust(-(-len(head) // BLOCK) * BLOCK, b"\0")
        data = head + b"".join(d for _, d in islands)
        pax = {
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0",
            "GNU.sparse.name": path, "GNU.sparse.realsize": str(size),
        }
        self._add(path, tarfile.REGTYPE, io.BytesIO(data), len(data), pax=pax, **attributes)

    def close(self):
        self.tar.close()


class Islands(io.RawIOBase):
    """A readable stream of `size` zeros with data at some offsets."""

    def __init__(self, size, islands):
        self.size, self.islands, self.at = size, islands, 0

    def read(self, count=-1):
        count = self.size - self.at if count < 0 else min(count, self.size - self.at)
        piece = bytearray(count)
        for offset, data in self.islands:
            start, end = max(offset, self.at), min(offset + len(data), self.at + count)
            if start < end:
                piece[start - self.at : end - self.at] = data[start - offset : end - offset]
        self.at += count
        return bytes(piece)
