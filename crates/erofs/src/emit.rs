//! Writes a laid-out tree: inodes, directory blocks, file data, and last the superblock.

use crate::convert::Summary;
use crate::error::ConvertError;
use crate::format::{
    BLOCK, BLOCK_BITS, BLOCK_LEN, COMPAT_MTIME, COMPAT_SB_CHKSUM, DIRENT_LEN,
    INCOMPAT_CHUNKED_FILE, INODE_LEN, LAYOUT_CHUNKED, LAYOUT_INLINE, LAYOUT_PLAIN, MAGIC,
    NULL_ADDR, S_IFMT, SLOT, SUPER_LEN, SUPER_OFFSET, super_checksum,
};
use crate::layout::{
    Layout, Place, Storage, block_fill, chunk_len_blocks, data_chunks, sorted_names,
};
use crate::tree::{Body, Directory, Index, ROOT, Segment, Tree};
use crate::xattr;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};

/// Copy and write buffer.
const BUFFER: usize = 1 << 20;

/// Writes the whole image.
pub(crate) fn image<S, W>(tree: &Tree<'_>, spool: S, out: W) -> Result<Summary, ConvertError>
where
    S: Read + Seek,
    W: Write + Seek,
{
    let layout = Layout::new(tree)?;
    let mut out = Output {
        inner: BufWriter::with_capacity(BUFFER, out),
        at: 0,
        head: Vec::new(),
    };
    for (serial, index) in layout.order.iter().enumerate() {
        inode(tree, &layout, *index, serial, &mut out)?;
    }
    for index in &layout.order {
        let place = layout.place(*index);
        let content = short_content(tree, &layout, *index);
        let blocks = whole_part(place, content.len());
        if blocks > 0 {
            out.advance_to(u64::from(place.block) * BLOCK)?;
            out.put(&content[..blocks])?;
        }
    }
    let mut summary = Summary::default();
    let mut copier = Copier {
        spool,
        at: 0,
        buffer: vec![0; BUFFER],
    };
    for index in &layout.order {
        if let Body::File { segments, .. } = &tree.nodes[*index].body {
            summary.data_bytes += segments.iter().map(|s| s.length).sum::<u64>();
            file(layout.place(*index), segments, &mut copier, &mut out)?;
        }
    }
    summary.inodes = layout.order.len() as u64;
    summary.image_bytes = u64::from(layout.blocks) * BLOCK;
    summary.implicit_directories = implicit_directories(tree);
    out.finish(&layout)?;
    Ok(summary)
}

/// One inode with its attributes and what lies behind it.
fn inode<W: Write + Seek>(
    tree: &Tree<'_>,
    layout: &Layout,
    index: Index,
    serial: usize,
    out: &mut Output<W>,
) -> Result<(), ConvertError> {
    let node = &tree.nodes[index];
    let place = layout.place(index);
    let area = xattr::encode(&node.metadata.xattrs);
    let (format, union) = match (place.storage, &node.body) {
        (Storage::Chunked { bits }, _) => (LAYOUT_CHUNKED, u32::from(bits - BLOCK_BITS)),
        (_, Body::CharDevice(device) | Body::BlockDevice(device)) => (LAYOUT_PLAIN, *device),
        (_, Body::Fifo | Body::Whiteout) => (LAYOUT_PLAIN, 0),
        (Storage::Inline, _) => (LAYOUT_INLINE, place.block),
        (Storage::Plain, _) => (LAYOUT_PLAIN, place.block),
    };
    let serial = u32::try_from(serial + 1).expect("inodes are limited");
    let mut bytes = Vec::with_capacity(INODE_LEN + area.len());
    bytes.extend((1 | format << 1).to_le_bytes());
    bytes.extend(xattr::count(&area).to_le_bytes());
    bytes.extend(node.mode().to_le_bytes());
    bytes.extend([0; 2]);
    bytes.extend(place.size.to_le_bytes());
    bytes.extend(union.to_le_bytes());
    bytes.extend(serial.to_le_bytes());
    bytes.extend(node.metadata.uid.to_le_bytes());
    bytes.extend(node.metadata.gid.to_le_bytes());
    bytes.extend(node.metadata.mtime.to_le_bytes());
    bytes.extend(node.metadata.mtime_nsec.to_le_bytes());
    bytes.extend(place.links.to_le_bytes());
    bytes.extend([0; 16]);
    bytes.extend(area);
    match (place.storage, &node.body) {
        (Storage::Inline, _) => {
            let content = short_content(tree, layout, index);
            bytes.extend(&content[whole_part(place, content.len())..]);
        }
        (Storage::Chunked { bits }, Body::File { segments, .. }) => {
            let table = chunk_table(place, bits, segments);
            bytes.extend(table.iter().flat_map(|address| address.to_le_bytes()));
        }
        _ => {}
    }
    out.advance_to(place.offset)?;
    out.put(&bytes)
}

/// Content of directories and symbolic links; files have theirs in the spool.
fn short_content(tree: &Tree<'_>, layout: &Layout, index: Index) -> Vec<u8> {
    match &tree.nodes[index].body {
        Body::Directory(d) => directory(tree, layout, index, d),
        Body::Symlink(target) => target.clone(),
        _ => Vec::new(),
    }
}

/// How much of the content lies in blocks of its own.
fn whole_part(place: &Place, length: usize) -> usize {
    match place.storage {
        Storage::Inline => length / BLOCK_LEN * BLOCK_LEN,
        _ => length,
    }
}

/// Directory blocks: entries, then names; names sorted over the whole directory.
fn directory(tree: &Tree<'_>, layout: &Layout, index: Index, from: &Directory) -> Vec<u8> {
    let all = sorted_names(&from.names);
    let mut rest = all.as_slice();
    let mut out = Vec::new();
    while !rest.is_empty() {
        out.resize(out.len().next_multiple_of(BLOCK_LEN), 0);
        let (taken, _) = block_fill(rest);
        let mut name_at = taken * DIRENT_LEN;
        for (name, node) in &rest[..taken] {
            let node = match node {
                Some(node) => *node,
                None if *name == b"." => index,
                None => layout.place(index).parent,
            };
            let nid = layout.place(node).offset / SLOT;
            out.extend(nid.to_le_bytes());
            let short = u16::try_from(name_at).expect("offsets within a block are short");
            out.extend(short.to_le_bytes());
            out.extend([file_type(tree.nodes[node].mode()), 0]);
            name_at += name.len();
        }
        out.extend(rest[..taken].iter().flat_map(|(name, _)| name.iter()));
        rest = &rest[taken..];
    }
    out
}

/// The type byte of a directory entry.
fn file_type(mode: u16) -> u8 {
    match mode & S_IFMT {
        0o100_000 => 1,
        0o040_000 => 2,
        0o020_000 => 3,
        0o060_000 => 4,
        0o010_000 => 5,
        0o120_000 => 7,
        _ => 0,
    }
}

/// Block address of each chunk, [`NULL_ADDR`] for holes.
fn chunk_table(place: &Place, bits: u8, segments: &[Segment]) -> Vec<u32> {
    let count = usize::try_from(place.size.div_ceil(1 << bits)).expect("tables are bounded");
    let mut table = vec![NULL_ADDR; count];
    let mut next = place.block;
    for index in data_chunks(bits, segments) {
        let slot = usize::try_from(index).expect("tables are bounded");
        table[slot] = next;
        let blocks = chunk_len_blocks(place.size, bits, index);
        next += u32::try_from(blocks).expect("the layout counted the same blocks");
    }
    table
}

fn file<S, W>(
    place: &Place,
    segments: &[Segment],
    copier: &mut Copier<S>,
    out: &mut Output<W>,
) -> Result<(), ConvertError>
where
    S: Read + Seek,
    W: Write + Seek,
{
    let Storage::Chunked { bits } = place.storage else {
        for segment in segments {
            out.advance_to(u64::from(place.block) * BLOCK)?;
            copier.copy(segment.spool, segment.length, out)?;
        }
        return Ok(());
    };
    let table = chunk_table(place, bits, segments);
    for segment in segments {
        let (mut at, end) = (segment.file, segment.file + segment.length);
        while at < end {
            let to = end.min(((at >> bits) + 1) << bits);
            let slot = usize::try_from(at >> bits).expect("tables are bounded");
            let within = at & ((1 << bits) - 1);
            out.advance_to(u64::from(table[slot]) * BLOCK + within)?;
            copier.copy(segment.spool + (at - segment.file), to - at, out)?;
            at = to;
        }
    }
    Ok(())
}

/// Paths of the directories that no entry described, in path order.
fn implicit_directories(tree: &Tree<'_>) -> Vec<Vec<u8>> {
    let mut out = Vec::new();
    let mut waiting: Vec<(Vec<u8>, Index)> = vec![(Vec::new(), ROOT)];
    while let Some((path, index)) = waiting.pop() {
        let Body::Directory(d) = &tree.nodes[index].body else {
            continue;
        };
        for (name, child) in &d.names {
            if matches!(tree.nodes[*child].body, Body::Directory(_)) {
                let path = if path.is_empty() {
                    name.clone()
                } else {
                    [&path, name.as_slice()].join(&b'/')
                };
                waiting.push((path, *child));
            }
        }
        if d.implicit {
            out.push(path);
        }
    }
    out.sort_unstable();
    out
}

/// Copies runs of the spool.
struct Copier<S> {
    spool: S,
    at: u64,
    buffer: Vec<u8>,
}

impl<S: Read + Seek> Copier<S> {
    fn copy<W: Write + Seek>(
        &mut self,
        from: u64,
        length: u64,
        out: &mut Output<W>,
    ) -> Result<(), ConvertError> {
        let spooled = |source| ConvertError::Spool { source };
        if self.at != from {
            self.spool.seek(SeekFrom::Start(from)).map_err(spooled)?;
        }
        let mut left = length;
        while left > 0 {
            let n = usize::try_from(left).map_or(BUFFER, |l| l.min(BUFFER));
            self.spool
                .read_exact(&mut self.buffer[..n])
                .map_err(spooled)?;
            out.put(&self.buffer[..n])?;
            left -= n as u64;
        }
        self.at = from + length;
        Ok(())
    }
}

/// The image as it grows; keeps the first block for the checksum.
struct Output<W: Write + Seek> {
    inner: BufWriter<W>,
    at: u64,
    head: Vec<u8>,
}

impl<W: Write + Seek> Output<W> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), ConvertError> {
        let missing = BLOCK_LEN.saturating_sub(self.head.len());
        self.head.extend(bytes.iter().take(missing));
        let written = self.inner.write_all(bytes);
        written.map_err(|source| ConvertError::Write { source })?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Goes forward to `offset`: short gaps are written, long ones left as holes.
    fn advance_to(&mut self, offset: u64) -> Result<(), ConvertError> {
        const ZEROS: [u8; BLOCK_LEN] = [0; BLOCK_LEN];
        let gap = offset
            .checked_sub(self.at)
            .expect("the layout only goes forward");
        match usize::try_from(gap) {
            Ok(gap) if gap <= BLOCK_LEN => self.put(&ZEROS[..gap]),
            _ => {
                let sought = self.inner.seek(SeekFrom::Start(offset));
                sought.map_err(|source| ConvertError::Write { source })?;
                self.head.resize(BLOCK_LEN, 0);
                self.at = offset;
                Ok(())
            }
        }
    }

    /// Brings the image to its full length and writes the superblock.
    fn finish(mut self, layout: &Layout) -> Result<(), ConvertError> {
        let end = u64::from(layout.blocks) * BLOCK;
        if self.at < end {
            self.advance_to(end - 1)?;
            self.put(&[0])?;
        }
        let written = |source| ConvertError::Write { source };
        let superblock = superblock(layout, &self.head);
        self.inner
            .seek(SeekFrom::Start(SUPER_OFFSET as u64))
            .map_err(written)?;
        self.inner.write_all(&superblock).map_err(written)?;
        self.inner.flush().map_err(written)
    }
}

fn superblock(layout: &Layout, head: &[u8]) -> Vec<u8> {
    let root = layout.place(ROOT).offset / SLOT;
    let root = u16::try_from(root).expect("the root is the first inode");
    let incompat = if layout.has_chunks {
        INCOMPAT_CHUNKED_FILE
    } else {
        0
    };
    let mut bytes = Vec::with_capacity(SUPER_LEN);
    bytes.extend(MAGIC.to_le_bytes());
    bytes.extend([0; 4]); // checksum
    bytes.extend((COMPAT_SB_CHKSUM | COMPAT_MTIME).to_le_bytes());
    bytes.extend([BLOCK_BITS, 0]);
    bytes.extend(root.to_le_bytes());
    bytes.extend((layout.order.len() as u64).to_le_bytes());
    bytes.extend([0; 12]); // build time
    bytes.extend(layout.blocks.to_le_bytes());
    bytes.extend([0; 8]); // start of metadata, start of shared attributes
    bytes.extend([0; 32]); // uuid and volume name
    bytes.extend(incompat.to_le_bytes());
    bytes.resize(SUPER_LEN, 0);
    let mut block = head.to_vec();
    block.resize(BLOCK_LEN, 0);
    block[SUPER_OFFSET..SUPER_OFFSET + SUPER_LEN].copy_from_slice(&bytes);
    let checksum = super_checksum(&block).expect("a whole block");
    bytes[4..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}
