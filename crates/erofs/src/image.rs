//! Reads images: look-ups by path, directories, links, attributes, file data.
//!
//! Takes what the writer here makes (extended inodes, 4 KiB blocks, no compression) and nothing more. Every
//! number in the image is distrusted.

use crate::format::{
    BLOCK, BLOCK_BITS, BLOCK_LEN, COMPAT_SB_CHKSUM, DIRENT_LEN, FILE_BYTES_MAX,
    INCOMPAT_CHUNKED_FILE, INODE_LEN, LAYOUT_CHUNKED, LAYOUT_INLINE, LAYOUT_PLAIN, MAGIC,
    NULL_ADDR, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFREG, SLOT, SUPER_OFFSET,
    SYMLINK_BYTES_MAX, XATTR_HEADER_LEN, super_checksum, u16_at, u32_at, u64_at,
};
use crate::xattr;
use std::collections::BTreeSet;
use std::io::{self, Read, Seek, SeekFrom};

/// Largest directory read; 4 million names of ordinary length.
const DIRECTORY_BYTES_MAX: u64 = 1 << 28;

/// An inode's number: its byte offset in units of 32.
pub type Nid = u64;

/// The image could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// The bytes could not be had.
    #[error("read {length} bytes of the image at {offset}")]
    Read {
        /// Where.
        offset: u64,
        /// How many.
        length: usize,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The bytes make no sense.
    #[error("the image is corrupt at byte {offset}: {why}")]
    Corrupt {
        /// Where.
        offset: u64,
        /// What is wrong.
        why: &'static str,
    },
    /// A file is larger than the caller takes.
    #[error("the file of {size} bytes is larger than {max}")]
    TooLarge {
        /// Its size.
        size: u64,
        /// The caller's limit.
        max: u64,
    },
}

/// Name, with its prefix, and value of an extended attribute.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// What an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A character device; with number 0 a whiteout.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A named pipe.
    Fifo,
}

/// One inode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inode {
    /// Its number.
    pub nid: Nid,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits, set-id and sticky bits.
    pub mode: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Modification time, seconds.
    pub mtime: i64,
    /// Its nanoseconds.
    pub mtime_nsec: u32,
    /// Bytes of content.
    pub size: u64,
    /// Names it has.
    pub links: u32,
    /// Device number in the kernel's encoding.
    pub device: u32,
    union: u32,
    layout: u16,
    xattr_bytes: usize,
}

impl Inode {
    /// Whether it hides a name of the layers below.
    #[must_use]
    pub fn is_whiteout(&self) -> bool {
        self.kind == FileKind::CharDevice && self.device == 0
    }

    fn offset(&self) -> u64 {
        self.nid * SLOT
    }

    /// Where inline content or the chunk table begins.
    fn behind(&self) -> u64 {
        self.offset() + (INODE_LEN + self.xattr_bytes) as u64
    }
}

/// One name in a directory; `.` and `..` are not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirEntry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode it names.
    pub nid: Nid,
}

/// An image over any seekable bytes.
#[derive(Debug)]
pub struct Image<R> {
    input: R,
    length: u64,
    root: Nid,
    inodes: u64,
}

impl<R: Read + Seek> Image<R> {
    /// Checks the superblock and its checksum.
    pub fn open(mut input: R) -> Result<Self, ImageError> {
        let length = input.seek(SeekFrom::End(0));
        let length = length.map_err(|source| ImageError::Read {
            offset: 0,
            length: 0,
            source,
        })?;
        let mut image = Self {
            input,
            length,
            root: 0,
            inodes: 0,
        };
        let block = image.bytes(0, BLOCK_LEN)?;
        let field = |at| u32_at(&block, SUPER_OFFSET + at).unwrap_or_default();
        let bad = |why| ImageError::Corrupt {
            offset: SUPER_OFFSET as u64,
            why,
        };
        if field(0) != MAGIC {
            return Err(bad("there is no EROFS superblock"));
        }
        if block[SUPER_OFFSET + 12] != BLOCK_BITS {
            return Err(bad("the block size is not 4096"));
        }
        if field(8) & COMPAT_SB_CHKSUM != 0 && super_checksum(&block) != Some(field(4)) {
            return Err(bad("the superblock's checksum is wrong"));
        }
        if field(80) & !INCOMPAT_CHUNKED_FILE != 0 || field(40) != 0 {
            return Err(bad("a feature is used that layers do not have"));
        }
        if u64::from(field(36)) * BLOCK > length {
            return Err(bad("the image is cut off"));
        }
        image.root = u64::from(u16_at(&block, SUPER_OFFSET + 14).unwrap_or_default());
        image.inodes = u64_at(&block, SUPER_OFFSET + 16).unwrap_or_default();
        Ok(image)
    }

    /// Number of inodes as the superblock says.
    #[must_use]
    pub fn inode_count(&self) -> u64 {
        self.inodes
    }

    fn bytes(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, ImageError> {
        let mut out = vec![0; self.in_image(offset, length as u64).map(|()| length)?];
        self.fill(offset, &mut out)?;
        Ok(out)
    }

    fn in_image(&self, offset: u64, length: u64) -> Result<(), ImageError> {
        match offset.checked_add(length) {
            Some(end) if end <= self.length => Ok(()),
            _ => Err(ImageError::Corrupt {
                offset,
                why: "it points behind the image's end",
            }),
        }
    }

    fn fill(&mut self, offset: u64, out: &mut [u8]) -> Result<(), ImageError> {
        self.in_image(offset, out.len() as u64)?;
        let length = out.len();
        let sought = self.input.seek(SeekFrom::Start(offset));
        let done = sought.and_then(|_| self.input.read_exact(out));
        done.map_err(|source| ImageError::Read {
            offset,
            length,
            source,
        })
    }

    /// The root directory.
    pub fn root(&mut self) -> Result<Inode, ImageError> {
        self.inode(self.root)
    }

    /// The inode with this number.
    pub fn inode(&mut self, nid: Nid) -> Result<Inode, ImageError> {
        let offset = nid.saturating_mul(SLOT);
        let bytes = self.bytes(offset, INODE_LEN)?;
        let bad = |why| ImageError::Corrupt { offset, why };
        let short = |at| u16_at(&bytes, at).unwrap_or_default();
        let word = |at| u32_at(&bytes, at).unwrap_or_default();
        let long = |at| u64_at(&bytes, at).unwrap_or_default();
        if short(0) & 1 == 0 || short(0) >> 4 != 0 {
            return Err(bad("it is not an extended inode"));
        }
        let kind = match short(4) & S_IFMT {
            S_IFREG => FileKind::File,
            S_IFDIR => FileKind::Directory,
            S_IFLNK => FileKind::Symlink,
            S_IFCHR => FileKind::CharDevice,
            S_IFBLK => FileKind::BlockDevice,
            S_IFIFO => FileKind::Fifo,
            _ => return Err(bad("an inode has no type")),
        };
        if long(8) > FILE_BYTES_MAX {
            return Err(bad("a size is impossible"));
        }
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        let xattr_bytes = match usize::from(short(2)) {
            0 => 0,
            n => XATTR_HEADER_LEN + (n - 1) * 4,
        };
        Ok(Inode {
            nid,
            kind,
            mode: short(4) & !S_IFMT,
            uid: word(24),
            gid: word(28),
            mtime: long(32).cast_signed(),
            mtime_nsec: word(40),
            size: long(8),
            links: word(44),
            device: if is_device { word(16) } else { 0 },
            union: word(16),
            layout: short(0) >> 1,
            xattr_bytes,
        })
    }

    /// The extended attributes, in the image's order.
    pub fn xattrs(&mut self, inode: &Inode) -> Result<Vec<Xattr>, ImageError> {
        let offset = inode.offset() + INODE_LEN as u64;
        let area = self.bytes(offset, inode.xattr_bytes)?;
        let why = "an attribute is malformed";
        xattr::decode(&area).ok_or(ImageError::Corrupt { offset, why })
    }

    /// Reads content at `offset` into `out`; fewer bytes only at the end of the content.
    pub fn read_at(
        &mut self,
        inode: &Inode,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, ImageError> {
        let left = inode.size.saturating_sub(offset);
        let n = usize::try_from(left).map_or(out.len(), |l| l.min(out.len()));
        let mut done = 0;
        while done < n {
            let (place, run) = self.map(inode, offset + done as u64)?;
            let run = usize::try_from(run).map_or(n - done, |r| r.min(n - done));
            let part = &mut out[done..done + run];
            match place {
                Some(place) => self.fill(place, part)?,
                None => part.fill(0),
            }
            done += run;
        }
        Ok(n)
    }

    /// Where the byte at `offset < size` lies (`None`: hole), and how many follow it there.
    fn map(&mut self, inode: &Inode, offset: u64) -> Result<(Option<u64>, u64), ImageError> {
        let start = u64::from(inode.union) * BLOCK;
        match inode.layout {
            LAYOUT_PLAIN => Ok((Some(start + offset), inode.size - offset)),
            LAYOUT_INLINE => {
                let tail = inode.size / BLOCK * BLOCK;
                if offset < tail {
                    return Ok((Some(start + offset), tail - offset));
                }
                Ok((Some(inode.behind() + (offset - tail)), inode.size - offset))
            }
            LAYOUT_CHUNKED if inode.union & !0x1f == 0 => {
                let bits = inode.union + u32::from(BLOCK_BITS);
                let chunk = 1u64 << bits;
                let slot = inode.behind() + 4 * (offset >> bits);
                let entry = self.bytes(slot, 4)?;
                let address = u32_at(&entry, 0).unwrap_or(NULL_ADDR);
                let within = offset & (chunk - 1);
                let run = (chunk - within).min(inode.size - offset);
                let place = (address != NULL_ADDR).then(|| u64::from(address) * BLOCK + within);
                Ok((place, run))
            }
            _ => {
                let why = "an inode has an unknown layout";
                Err(ImageError::Corrupt {
                    offset: inode.offset(),
                    why,
                })
            }
        }
    }

    /// The whole content of a file of at most `max` bytes.
    pub fn read_file(&mut self, inode: &Inode, max: u64) -> Result<Vec<u8>, ImageError> {
        let size = inode.size;
        let length = usize::try_from(size).ok().filter(|_| size <= max);
        let length = length.ok_or(ImageError::TooLarge { size, max })?;
        if inode.layout != LAYOUT_CHUNKED {
            self.in_image(0, size)?; // Before memory is taken for it.
        }
        let mut out = vec![0; length];
        self.read_at(inode, 0, &mut out)?;
        Ok(out)
    }

    /// The target of a symbolic link.
    pub fn read_link(&mut self, inode: &Inode) -> Result<Vec<u8>, ImageError> {
        self.read_file(inode, SYMLINK_BYTES_MAX as u64)
    }

    /// The names in a directory, in byte order.
    pub fn read_dir(&mut self, inode: &Inode) -> Result<Vec<DirEntry>, ImageError> {
        let content = self.read_file(inode, DIRECTORY_BYTES_MAX)?;
        let mut out = Vec::new();
        for block in content.chunks(BLOCK_LEN) {
            let why = "a directory is malformed";
            let bad = ImageError::Corrupt {
                offset: inode.offset(),
                why,
            };
            read_dir_block(block, &mut out).ok_or(bad)?;
        }
        Ok(out)
    }

    /// The inode at `path`, symbolic links not followed; `None` if there is none.
    pub fn lookup(&mut self, path: &[u8]) -> Result<Option<Inode>, ImageError> {
        let mut at = self.root()?;
        for part in path
            .split(|b| *b == b'/')
            .filter(|p| !p.is_empty() && *p != b".")
        {
            if at.kind != FileKind::Directory {
                return Ok(None);
            }
            let found = self.read_dir(&at)?.into_iter().find(|e| e.name == part);
            let Some(found) = found else { return Ok(None) };
            at = self.inode(found.nid)?;
        }
        Ok(Some(at))
    }

    /// Calls `visit` with the path and inode of everything, the root first under the empty path, each
    /// directory before what is in it. A directory that appears twice is corruption, not a loop.
    pub fn walk(&mut self, mut visit: impl FnMut(&[u8], &Inode)) -> Result<(), ImageError> {
        let mut waiting = vec![(Vec::new(), self.root()?)];
        let mut seen = BTreeSet::new();
        while let Some((path, inode)) = waiting.pop() {
            visit(&path, &inode);
            if inode.kind != FileKind::Directory {
                continue;
            }
            if !seen.insert(inode.nid) {
                let why = "a directory has two names";
                return Err(ImageError::Corrupt {
                    offset: inode.offset(),
                    why,
                });
            }
            for entry in self.read_dir(&inode)? {
                let mut below = path.clone();
                if !below.is_empty() {
                    below.push(b'/');
                }
                below.extend(entry.name);
                let child = self.inode(entry.nid)?;
                waiting.push((below, child));
            }
        }
        Ok(())
    }
}

fn read_dir_block(block: &[u8], out: &mut Vec<DirEntry>) -> Option<()> {
    let first_name = usize::from(u16_at(block, 8)?);
    if first_name == 0 || first_name % DIRENT_LEN != 0 || first_name > block.len() {
        return None;
    }
    let count = first_name / DIRENT_LEN;
    for i in 0..count {
        let at = i * DIRENT_LEN;
        let start = usize::from(u16_at(block, at + 8)?);
        let name = match i + 1 < count {
            true => block.get(start..usize::from(u16_at(block, at + DIRENT_LEN + 8)?))?,
            // The last name ends with the block or with a NUL.
            false => block.get(start..)?.split(|b| *b == 0).next()?,
        };
        if name.is_empty() || name.len() > 255 || name.contains(&b'/') {
            return None;
        }
        if name != b"." && name != b".." {
            let name = name.to_vec();
            out.push(DirEntry {
                name,
                nid: u64_at(block, at)?,
            });
        }
    }
    Some(())
}
