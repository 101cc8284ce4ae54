//! Tar to image: one pass over the tar, file data put aside, then everything written in order.

use crate::emit;
use crate::error::{ConvertError, EntryFault, entry};
use crate::format::SYMLINK_BYTES_MAX;
use crate::tar_entry::{TarEntry, TarKind, TarStream};
use crate::tree::{Body, Metadata, Segment, Tree, components};
use std::io::{Read, Seek, SeekFrom, Write};

/// Unit in which zeros become holes; aligned in the file, so that the result does not depend on reads.
const PIECE: usize = 64 << 10;
/// A piece without content.
static ZEROS: [u8; PIECE] = [0; PIECE];

/// Bounds on what a layer may make this process hold and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Files of any kind, whiteouts included.
    pub inodes_max: u64,
    /// Bytes of names, attributes and inodes together.
    pub metadata_bytes_max: u64,
    /// Bytes of one path; the kernel's own limit by default.
    pub path_bytes_max: usize,
    /// Bytes of one attribute's value.
    pub xattr_value_bytes_max: usize,
    /// Bytes of one file's attributes.
    pub xattr_area_bytes_max: usize,
    /// Pieces of one sparse file.
    pub sparse_pieces_max: u64,
    /// Bytes of file data, without holes.
    pub data_bytes_max: u64,
}

impl Default for Limits {
    /// Far above real layers (the largest known have some 500,000 files), far below this machine's memory.
    fn default() -> Self {
        Self {
            inodes_max: 4_000_000,
            metadata_bytes_max: 1 << 30,
            path_bytes_max: 4096,
            xattr_value_bytes_max: 65_535,
            xattr_area_bytes_max: 128 << 10,
            sparse_pieces_max: 1 << 20,
            data_bytes_max: 1 << 40,
        }
    }
}

/// What became of a tar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Inodes of the image.
    pub inodes: u64,
    /// Bytes of file data that the image stores.
    pub data_bytes: u64,
    /// Bytes of the image, holes included.
    pub image_bytes: u64,
    /// Attributes of namespaces that no Linux filesystem has here, left out.
    pub xattrs_dropped: u64,
    /// Directories that no entry described, in path order: their owner and mode are a guess, and above
    /// another layer they hide its.
    pub implicit_directories: Vec<Vec<u8>>,
}

/// Converts a plain tar stream. `spool` and `out` begin empty; `spool` holds file data meanwhile.
///
/// The same stream gives the same bytes, everywhere and always. The input is read to the end of the
/// archive, not to the end of the stream.
pub fn convert<R, S, W>(
    tar: R,
    mut spool: S,
    out: W,
    limits: &Limits,
) -> Result<Summary, ConvertError>
where
    R: Read,
    S: Read + Write + Seek,
    W: Write + Seek,
{
    let mut stream = TarStream::new(tar, limits);
    let mut tree = Tree::new(limits);
    let mut writer = Spool {
        inner: &mut spool,
        end: 0,
        limits,
        buffer: vec![0; PIECE],
    };
    let mut dropped = 0;
    while let Some(entry) = stream.next_entry()? {
        dropped += entry.xattrs_dropped;
        take(&mut tree, &mut stream, &mut writer, entry)?;
    }
    let spooled = |source| ConvertError::Spool { source };
    spool.flush().map_err(spooled)?;
    spool.seek(SeekFrom::Start(0)).map_err(spooled)?;
    let mut summary = emit::image(&tree, spool, out)?;
    summary.xattrs_dropped = dropped;
    Ok(summary)
}

/// Puts one entry into the tree, its data into the spool.
fn take<R: Read, S: Write>(
    tree: &mut Tree<'_>,
    stream: &mut TarStream<'_, R>,
    spool: &mut Spool<'_, S>,
    from: TarEntry,
) -> Result<(), ConvertError> {
    let parts = components(&from.path, spool.limits)?;
    if let Some((name, above)) = parts.split_last() {
        // aufs kept its own files under this prefix; they are no part of a layer.
        let is_meta = |part: &&[u8]| part.starts_with(b".wh..wh.");
        if *name == b".wh..wh..opq" {
            return tree.opaque(above);
        }
        if parts.iter().any(is_meta) {
            return Ok(());
        }
        if above.iter().any(|part| part.starts_with(b".wh.")) {
            return Err(entry(&from.path, EntryFault::BadName));
        }
        if let Some(hidden) = name.strip_prefix(b".wh.") {
            return tree.whiteout(above, hidden);
        }
    }
    let (major, minor) = from.device;
    let device = (minor & 0xff) | (major << 8) | ((minor & !0xff) << 12);
    let metadata = Metadata {
        mode: from.mode,
        uid: from.uid,
        gid: from.gid,
        mtime: from.mtime,
        mtime_nsec: from.mtime_nsec,
        xattrs: from.xattrs,
    };
    let body = match from.kind {
        TarKind::Directory => return tree.put_directory(&parts, metadata),
        TarKind::HardLink => return tree.link(&parts, &from.link),
        TarKind::Symlink if from.link.is_empty() || from.link.len() > SYMLINK_BYTES_MAX => {
            return Err(entry(&from.path, EntryFault::BadSymlink));
        }
        TarKind::Symlink => Body::Symlink(from.link),
        TarKind::CharDevice => Body::CharDevice(device),
        TarKind::BlockDevice => Body::BlockDevice(device),
        TarKind::Fifo => Body::Fifo,
        TarKind::File => {
            let segments = spool.file(stream, &from.map.pieces)?;
            Body::File {
                size: from.map.size,
                segments,
            }
        }
    };
    let mode = match &body {
        Body::Symlink(_) => 0o777, // Linux has no other.
        _ => metadata.mode,
    };
    tree.put(&parts, Metadata { mode, ..metadata }, body)
}

/// Where file data waits for its place.
struct Spool<'a, S> {
    inner: &'a mut S,
    end: u64,
    limits: &'a Limits,
    /// One piece.
    buffer: Vec<u8>,
}

impl<S: Write> Spool<'_, S> {
    /// Copies an entry's stored bytes, leaving out aligned pieces of zeros.
    fn file<R: Read>(
        &mut self,
        stream: &mut TarStream<'_, R>,
        pieces: &[(u64, u64)],
    ) -> Result<Vec<Segment>, ConvertError> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut buffer = std::mem::take(&mut self.buffer);
        for (offset, length) in pieces {
            let (mut at, end) = (*offset, offset + length);
            while at < end {
                let to = (at / PIECE as u64 + 1) * PIECE as u64;
                let n = usize::try_from(to.min(end) - at).expect("at most a piece");
                let data = &mut buffer[..n];
                stream.read_data(data)?;
                if *data != ZEROS[..] {
                    self.append(data, at, &mut segments)?;
                }
                at += n as u64;
            }
        }
        self.buffer = buffer;
        debug_assert_eq!(
            stream.unread(),
            0,
            "maps are checked against the stored length"
        );
        Ok(segments)
    }

    fn append(
        &mut self,
        data: &[u8],
        at: u64,
        segments: &mut Vec<Segment>,
    ) -> Result<(), ConvertError> {
        let written = self.inner.write_all(data);
        written.map_err(|source| ConvertError::Spool { source })?;
        let length = data.len() as u64;
        match segments.last_mut() {
            Some(last) if last.file + last.length == at => last.length += length,
            _ => segments.push(Segment {
                file: at,
                spool: self.end,
                length,
            }),
        }
        self.end += length;
        let max = self.limits.data_bytes_max;
        if self.end > max {
            return Err(ConvertError::Limit {
                what: "bytes of file data",
                max,
            });
        }
        Ok(())
    }
}
