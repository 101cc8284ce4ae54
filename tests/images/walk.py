"""Prints every attribute of every file under a root, one Python literal a line.

Runs inside a sandbox and on the oracle's root alike, so it needs only the standard library. Usage:
walk.py ROOT [EXCLUDED_PATH...]; paths are relative to ROOT.
"""

import hashlib
import os
import stat
import sys

PIECE = 1 << 20
# st_blocks counts these, whatever the block size of the filesystem.
STAT_BLOCK = 512


def content_digest(path):
    found = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(PIECE):
            found.update(piece)
    return found.hexdigest()


def xattrs(path):
    found = {}
    for name in os.listxattr(path, follow_symlinks=False):
        # Only names a sandbox can see; trusted.* needs the host's CAP_SYS_ADMIN.
        if name.startswith(("user.", "security.capability")):
            found[name] = os.getxattr(path, name, follow_symlinks=False)
    return found


def describe(path, relative, inodes):
    info = os.lstat(path)
    entry = {
        "path": relative, "kind": stat.S_IFMT(info.st_mode), "mode": stat.S_IMODE(info.st_mode),
        "uid": info.st_uid, "gid": info.st_gid, "mtime_ns": info.st_mtime_ns,
    }
    if not stat.S_ISDIR(info.st_mode):
        entry["nlink"] = info.st_nlink
        entry["size"] = info.st_size
        # Which names share an inode: each is called by the first name of its group.
        entry["inode_of"] = inodes.setdefault((info.st_dev, info.st_ino), relative)
    if stat.S_ISREG(info.st_mode):
        entry["sha256"] = content_digest(path)
        entry["sparse"] = info.st_blocks * STAT_BLOCK < info.st_size // 2
    if stat.S_ISLNK(info.st_mode):
        entry["target"] = os.readlink(path)
    if stat.S_ISCHR(info.st_mode) or stat.S_ISBLK(info.st_mode):
        entry["rdev"] = (os.major(info.st_rdev), os.minor(info.st_rdev))
    entry["xattrs"] = xattrs(path)
    return entry


def walk(root, excluded):
    """Yields the entries in byte order of their paths."""
    inodes = {}
    root = os.fsencode(root)

    def visit(relative):
        path = os.path.join(root, relative)
        yield describe(path, relative, inodes)
        if stat.S_ISDIR(os.lstat(path).st_mode):
            for name in sorted(os.listdir(path)):
                child = os.path.join(relative, name) if relative != b"." else name
                if child not in excluded:
                    yield from visit(child)

    yield from visit(b".")


def main():
    excluded = {os.fsencode(name) for name in sys.argv[2:]}
    for entry in walk(sys.argv[1], excluded):
        print(ascii(entry))


if __name__ == "__main__":
    main()
