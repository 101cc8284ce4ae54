//! Where everything goes: inode offsets, directory blocks, file data.

use crate::error::ConvertError;
use crate::format::{
    BLOCK, BLOCK_BITS, DIRENT_LEN, INODE_LEN, NULL_ADDR, SLOT, SUPER_LEN, SUPER_OFFSET,
};
use crate::tree::{Body, Index, Node, ROOT, Segment, Tree};
use crate::xattr;
use std::collections::BTreeMap;

/// Entries of one file's chunk table; more make the chunks larger instead. 64 KiB of table at most.
const CHUNKS_MAX: u64 = 16_384;

/// How a node's content is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Storage {
    /// No content, or whole blocks only.
    Plain,
    /// The last partial block lies behind the inode.
    Inline,
    /// Holes: chunks of `1 << bits` bytes.
    Chunked { bits: u8 },
}

/// One inode's place.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// Byte offset of the inode.
    pub(crate) offset: u64,
    /// First block of the content.
    pub(crate) block: u32,
    /// Bytes of the content as the inode says.
    pub(crate) size: u64,
    pub(crate) storage: Storage,
    pub(crate) links: u32,
    pub(crate) parent: Index,
}

/// The places of all nodes that have a name.
#[derive(Debug)]
pub(crate) struct Layout {
    /// Breadth first, so that the inodes of one directory are neighbours.
    pub(crate) order: Vec<Index>,
    /// By node; `None` for nodes that were replaced.
    pub(crate) places: Vec<Option<Place>>,
    /// Blocks of the whole image.
    pub(crate) blocks: u32,
    /// Whether any file is chunked.
    pub(crate) has_chunks: bool,
}

impl Layout {
    pub(crate) fn place(&self, node: Index) -> &Place {
        self.places[node]
            .as_ref()
            .expect("nodes with a name have a place")
    }

    pub(crate) fn new(tree: &Tree<'_>) -> Result<Self, ConvertError> {
        let mut layout = Self {
            order: Vec::new(),
            places: vec![None; tree.nodes.len()],
            blocks: 0,
            has_chunks: false,
        };
        layout.visit(tree);
        let end = layout.place_inodes(tree);
        layout.place_content(tree, end.div_ceil(BLOCK))?;
        Ok(layout)
    }

    /// Orders the nodes and counts their names.
    fn visit(&mut self, tree: &Tree<'_>) {
        self.see(tree, ROOT, ROOT);
        let mut at = 0;
        while let Some(&directory) = self.order.get(at) {
            if let Body::Directory(d) = &tree.nodes[directory].body {
                for child in d.names.values() {
                    self.see(tree, *child, directory);
                }
            }
            at += 1;
        }
    }

    fn see(&mut self, tree: &Tree<'_>, node: Index, parent: Index) {
        let is_directory = matches!(tree.nodes[node].body, Body::Directory(_));
        if is_directory && node != parent {
            self.places[parent]
                .as_mut()
                .expect("parents come first")
                .links += 1;
        }
        match &mut self.places[node] {
            Some(place) => place.links += 1,
            none => {
                *none = Some(Place {
                    offset: 0,
                    block: 0,
                    size: 0,
                    storage: Storage::Plain,
                    links: if is_directory { 2 } else { 1 },
                    parent,
                });
                self.order.push(node);
            }
        }
    }

    /// Gives each inode its offset; returns where the inode area ends.
    fn place_inodes(&mut self, tree: &Tree<'_>) -> u64 {
        let mut at = (SUPER_OFFSET + SUPER_LEN) as u64;
        for index in &self.order {
            let node = &tree.nodes[*index];
            let head = head_len(node);
            let size = content_len(node);
            let tail = size % BLOCK;
            let (storage, behind) = match &node.body {
                Body::File { segments, .. } if !is_dense(size, segments) => {
                    self.has_chunks = true;
                    let bits = chunk_bits(size);
                    (Storage::Chunked { bits }, 4 * size.div_ceil(1 << bits))
                }
                Body::Directory(_) | Body::Symlink(_) if tail > 0 && head + tail <= BLOCK => {
                    (Storage::Inline, tail)
                }
                _ => (Storage::Plain, 0),
            };
            at = at.next_multiple_of(SLOT);
            let crosses = at / BLOCK != (at + head + behind - 1) / BLOCK;
            if storage == Storage::Inline && crosses {
                at = at.next_multiple_of(BLOCK); // The kernel wants inode and tail in one block.
            }
            let place = self.places[*index]
                .as_mut()
                .expect("ordered nodes have a place");
            (place.offset, place.size, place.storage) = (at, size, storage);
            at += head + behind;
        }
        at
    }

    /// Gives directories, then files their blocks.
    fn place_content(&mut self, tree: &Tree<'_>, first: u64) -> Result<(), ConvertError> {
        let mut next = first;
        for want_files in [false, true] {
            for index in &self.order {
                let place = self.places[*index]
                    .as_mut()
                    .expect("ordered nodes have a place");
                let body = &tree.nodes[*index].body;
                if matches!(body, Body::File { .. }) != want_files {
                    continue;
                }
                place.block = address(next)?;
                next += match (place.storage, body) {
                    (Storage::Inline, _) => place.size / BLOCK,
                    (Storage::Plain, _) => place.size.div_ceil(BLOCK),
                    (Storage::Chunked { bits }, Body::File { segments, .. }) => {
                        chunk_blocks(place.size, bits, segments)
                    }
                    (Storage::Chunked { .. }, _) => unreachable!("only files are chunked"),
                };
            }
        }
        self.blocks = address(next)?;
        Ok(())
    }
}

/// A block address; the format ends at 16 TiB.
fn address(block: u64) -> Result<u32, ConvertError> {
    let max = u64::from(NULL_ADDR) - 1;
    let narrow = u32::try_from(block).ok().filter(|b| u64::from(*b) <= max);
    narrow.ok_or(ConvertError::Limit {
        what: "blocks of 4 KiB",
        max,
    })
}

/// Bytes of the inode and its attributes.
fn head_len(node: &Node) -> u64 {
    (INODE_LEN + xattr::encode(&node.metadata.xattrs).len()) as u64
}

/// Bytes of a node's content: of a file all, holes included.
fn content_len(node: &Node) -> u64 {
    match &node.body {
        Body::Directory(d) => directory_len(&d.names),
        Body::File { size, .. } => *size,
        Body::Symlink(target) => target.len() as u64,
        _ => 0,
    }
}

/// A directory's names with `.` and `..`, in byte order.
pub(crate) fn sorted_names(names: &BTreeMap<Vec<u8>, Index>) -> Vec<(&[u8], Option<Index>)> {
    let mut all: Vec<(&[u8], Option<Index>)> = Vec::with_capacity(names.len() + 2);
    all.extend([(&b"."[..], None), (&b".."[..], None)]);
    all.extend(
        names
            .iter()
            .map(|(name, node)| (name.as_slice(), Some(*node))),
    );
    all.sort_unstable();
    all
}

/// How many of `names` fit into one directory block, and the bytes they take.
pub(crate) fn block_fill<T>(names: &[(&[u8], T)]) -> (usize, u64) {
    let mut used = 0;
    for (i, (name, _)) in names.iter().enumerate() {
        let more = (DIRENT_LEN + name.len()) as u64;
        if used + more > BLOCK {
            return (i, used);
        }
        used += more;
    }
    (names.len(), used)
}

fn directory_len(names: &BTreeMap<Vec<u8>, Index>) -> u64 {
    let all = sorted_names(names);
    let mut rest = all.as_slice();
    let mut blocks = 0;
    loop {
        let (taken, used) = block_fill(rest);
        rest = &rest[taken..];
        if rest.is_empty() {
            return blocks * BLOCK + used;
        }
        blocks += 1;
    }
}

/// Whether the file has no holes, so that it can lie in consecutive blocks.
fn is_dense(size: u64, segments: &[Segment]) -> bool {
    match segments {
        [] => size == 0,
        [one] => one.file == 0 && one.length == size,
        _ => false,
    }
}

fn chunk_bits(size: u64) -> u8 {
    let mut bits = BLOCK_BITS;
    while size.div_ceil(1 << bits) > CHUNKS_MAX {
        bits += 1;
    }
    bits
}

/// The chunks that hold data, ascending.
pub(crate) fn data_chunks(bits: u8, segments: &[Segment]) -> impl Iterator<Item = u64> {
    let mut next = 0;
    segments.iter().flat_map(move |s| {
        let first = (s.file >> bits).max(next);
        let last = (s.file + s.length - 1) >> bits;
        next = next.max(last + 1);
        first..=last
    })
}

/// Blocks of the chunk at `index`; the last one ends with the file.
pub(crate) fn chunk_len_blocks(size: u64, bits: u8, index: u64) -> u64 {
    (size - (index << bits)).min(1 << bits).div_ceil(BLOCK)
}

fn chunk_blocks(size: u64, bits: u8, segments: &[Segment]) -> u64 {
    let chunks = data_chunks(bits, segments);
    chunks
        .map(|index| chunk_len_blocks(size, bits, index))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_chunk_with_data_is_counted_once() {
        let segment = |file, length| Segment {
            file,
            spool: 0,
            length,
        };
        let segments = [
            segment(0, 10),
            segment(20, 10),
            segment(8192, 5000),
            segment(30_000, 1),
        ];
        let chunks: Vec<u64> = data_chunks(12, &segments).collect();
        assert_eq!(chunks, [0, 2, 3, 7]);
        assert_eq!(chunk_blocks(30_001, 12, &segments), 4);
        assert_eq!(chunk_bits(5 << 30), 19);
        assert!(chunk_bits(crate::format::FILE_BYTES_MAX) < 12 + 32);
    }
}
