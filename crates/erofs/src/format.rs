//! Numbers of the EROFS on-disk format that writer and reader share.

/// Block size; the only one written or read.
pub(crate) const BLOCK: u64 = 4096;
/// The same as a length of slices.
pub(crate) const BLOCK_LEN: usize = 4096;
/// `log2` of the block size.
pub(crate) const BLOCK_BITS: u8 = 12;
/// Where the superblock begins.
pub(crate) const SUPER_OFFSET: usize = 1024;
/// Bytes of the superblock.
pub(crate) const SUPER_LEN: usize = 128;
/// First four bytes of the superblock.
pub(crate) const MAGIC: u32 = 0xE0F5_E1E2;
/// `feature_compat`: the superblock's block carries a crc32c.
pub(crate) const COMPAT_SB_CHKSUM: u32 = 1;
/// `feature_compat`: inodes carry modification times.
pub(crate) const COMPAT_MTIME: u32 = 2;
/// `feature_incompat`: some files have a chunk table (Linux 5.15).
pub(crate) const INCOMPAT_CHUNKED_FILE: u32 = 4;
/// Inode numbers are byte offsets in units of this.
pub(crate) const SLOT: u64 = 32;
/// Bytes of an extended inode.
pub(crate) const INODE_LEN: usize = 64;
/// Data in consecutive blocks.
pub(crate) const LAYOUT_PLAIN: u16 = 0;
/// As plain, the last partial block behind the inode.
pub(crate) const LAYOUT_INLINE: u16 = 2;
/// A table of block addresses behind the inode; holes have [`NULL_ADDR`].
pub(crate) const LAYOUT_CHUNKED: u16 = 4;
/// Address of a hole.
pub(crate) const NULL_ADDR: u32 = u32::MAX;
/// Bytes of a directory entry without its name.
pub(crate) const DIRENT_LEN: usize = 12;
/// Bytes before the first inline attribute.
pub(crate) const XATTR_HEADER_LEN: usize = 12;
/// Bytes of an inline attribute before its name.
pub(crate) const XATTR_ENTRY_LEN: usize = 4;
/// Largest size of a file; far above any disk, far below overflow.
pub(crate) const FILE_BYTES_MAX: u64 = 1 << 56;
/// Longest target of a symbolic link (`PATH_MAX` without its NUL).
pub(crate) const SYMLINK_BYTES_MAX: usize = 4095;

/// File type bits of a mode.
pub(crate) const S_IFMT: u16 = 0o170_000;
pub(crate) const S_IFIFO: u16 = 0o010_000;
pub(crate) const S_IFCHR: u16 = 0o020_000;
pub(crate) const S_IFDIR: u16 = 0o040_000;
pub(crate) const S_IFBLK: u16 = 0o060_000;
pub(crate) const S_IFREG: u16 = 0o100_000;
pub(crate) const S_IFLNK: u16 = 0o120_000;

/// Prefixes of attribute names and their numbers; the whole name of an ACL is its prefix.
pub(crate) const XATTR_PREFIXES: [(u8, &[u8]); 5] = [
    (1, b"user."),
    (2, b"system.posix_acl_access"),
    (3, b"system.posix_acl_default"),
    (4, b"trusted."),
    (6, b"security."),
];

/// `N` bytes at `at`, if they are there.
pub(crate) fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

/// Little-endian 16 bits at `at`.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_le_bytes)
}

/// Little-endian 32 bits at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes_at(bytes, at).map(u32::from_le_bytes)
}

/// Little-endian 64 bits at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    bytes_at(bytes, at).map(u64::from_le_bytes)
}

/// The checksum of the superblock's block: crc32c without the final inversion, its own field as zero.
pub(crate) fn super_checksum(first_block: &[u8]) -> Option<u32> {
    let mut body = first_block.get(SUPER_OFFSET..BLOCK_LEN)?.to_vec();
    body.get_mut(4..8)?.fill(0);
    Some(!crc32c::crc32c(&body))
}
