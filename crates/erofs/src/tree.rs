//! The files of a layer as a tree, built entry by entry with the rules of tar and OCI.
//!
//! Nodes live in one vector and are named by index, so that hard links share a node and nothing recurses.

use crate::convert::Limits;
use crate::error::{ConvertError, EntryFault, entry, text};
use crate::format::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFREG};
use crate::xattr;
use std::collections::BTreeMap;

/// Names a node.
pub(crate) type Index = usize;
/// The root directory's node.
pub(crate) const ROOT: Index = 0;
/// What one node costs in memory and image besides its names and attributes, bytes.
const NODE_COST: u64 = 256;

/// Permission bits, owner, time and extended attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Metadata {
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: i64,
    pub(crate) mtime_nsec: u32,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// A run of bytes of a file and where it lies in the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) file: u64,
    pub(crate) spool: u64,
    pub(crate) length: u64,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Body {
    Directory(Directory),
    File {
        size: u64,
        segments: Vec<Segment>,
    },
    Symlink(Vec<u8>),
    CharDevice(u32),
    BlockDevice(u32),
    Fifo,
    /// Hides what layers below have under this name.
    Whiteout,
}

/// A directory's names and how it came to be.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    pub(crate) names: BTreeMap<Vec<u8>, Index>,
    /// No entry described it; only paths below it did.
    pub(crate) implicit: bool,
}

/// One file of any kind.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) metadata: Metadata,
    pub(crate) body: Body,
}

impl Node {
    /// Type and permission bits.
    pub(crate) fn mode(&self) -> u16 {
        let kind = match self.body {
            Body::Directory(_) => S_IFDIR,
            Body::File { .. } => S_IFREG,
            Body::Symlink(_) => S_IFLNK,
            Body::CharDevice(_) | Body::Whiteout => S_IFCHR,
            Body::BlockDevice(_) => S_IFBLK,
            Body::Fifo => S_IFIFO,
        };
        kind | self.metadata.mode
    }
}

/// The tree and what it costs so far.
#[derive(Debug)]
pub(crate) struct Tree<'l> {
    pub(crate) nodes: Vec<Node>,
    limits: &'l Limits,
    cost: u64,
}

/// The components of a path, without empty ones and `.`.
pub(crate) fn components<'p>(
    path: &'p [u8],
    limits: &Limits,
) -> Result<Vec<&'p [u8]>, ConvertError> {
    let max = limits.path_bytes_max;
    if path.len() > max {
        let shown = path.get(..64).unwrap_or(path);
        return Err(entry(shown, EntryFault::PathTooLong { max }));
    }
    let parts = path.split(|b| *b == b'/');
    let parts: Vec<&[u8]> = parts.filter(|p| !p.is_empty() && *p != b".").collect();
    for part in &parts {
        if *part == b".." {
            return Err(entry(path, EntryFault::Escapes));
        }
        if part.len() > 255 || part.contains(&0) {
            return Err(entry(path, EntryFault::BadName));
        }
    }
    Ok(parts)
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.join(&b'/')
}

impl<'l> Tree<'l> {
    pub(crate) fn new(limits: &'l Limits) -> Self {
        let mut tree = Self {
            nodes: Vec::new(),
            limits,
            cost: 0,
        };
        tree.nodes.push(implicit_directory());
        tree
    }

    fn charge(&mut self, bytes: u64) -> Result<(), ConvertError> {
        self.cost = self.cost.saturating_add(bytes);
        let max = self.limits.metadata_bytes_max;
        if self.cost > max {
            return Err(ConvertError::Limit {
                what: "bytes of metadata",
                max,
            });
        }
        Ok(())
    }

    fn charge_metadata(&mut self, path: &[u8], metadata: &Metadata) -> Result<(), ConvertError> {
        let area: usize = metadata
            .xattrs
            .iter()
            .map(|(n, v)| xattr::encoded_len(n, v))
            .sum();
        if area
            > self
                .limits
                .xattr_area_bytes_max
                .min(xattr::AREA_BYTES_MAX / 2)
        {
            let name = "(all together)".to_owned();
            return Err(entry(path, EntryFault::XattrTooLarge { name }));
        }
        self.charge(area as u64)
    }

    fn push(&mut self, node: Node) -> Result<Index, ConvertError> {
        let max = self.limits.inodes_max;
        if self.nodes.len() as u64 >= max {
            return Err(ConvertError::Limit { what: "files", max });
        }
        let extra = match &node.body {
            Body::Symlink(target) => target.len() as u64,
            Body::File { segments, .. } => 24 * segments.len() as u64,
            _ => 0,
        };
        self.charge(NODE_COST + extra)?;
        self.nodes.push(node);
        Ok(self.nodes.len() - 1)
    }

    fn names(&self, directory: Index) -> Option<&BTreeMap<Vec<u8>, Index>> {
        match &self.nodes[directory].body {
            Body::Directory(d) => Some(&d.names),
            _ => None,
        }
    }

    fn child(&self, directory: Index, name: &[u8]) -> Option<Index> {
        self.names(directory)?.get(name).copied()
    }

    fn set_child(
        &mut self,
        directory: Index,
        name: &[u8],
        child: Index,
    ) -> Result<(), ConvertError> {
        self.charge(64 + name.len() as u64)?;
        let Body::Directory(d) = &mut self.nodes[directory].body else {
            unreachable!("callers pass what `directory` returned");
        };
        d.names.insert(name.to_vec(), child);
        Ok(())
    }

    /// The directory at `parts`, made if it is not there.
    ///
    /// A whiteout on the way becomes an opaque directory: what is below is gone, what comes is new.
    fn directory(&mut self, parts: &[&[u8]]) -> Result<Index, ConvertError> {
        let mut at = ROOT;
        for (depth, part) in parts.iter().enumerate() {
            let next = self.child(at, part);
            at = match next.map(|n| (n, &self.nodes[n].body)) {
                Some((next, Body::Directory(_))) => next,
                None => self.add_directory(at, part)?,
                Some((_, Body::Whiteout)) => {
                    let new = self.add_directory(at, part)?;
                    self.make_opaque(new);
                    new
                }
                Some(_) => {
                    let parent = text(&joined(&parts[..=depth]));
                    let fault = EntryFault::UnderNonDirectory { parent };
                    return Err(entry(&joined(parts), fault));
                }
            };
        }
        Ok(at)
    }

    fn add_directory(&mut self, parent: Index, name: &[u8]) -> Result<Index, ConvertError> {
        let new = self.push(implicit_directory())?;
        self.set_child(parent, name, new)?;
        Ok(new)
    }

    /// Both spellings: which one the kernel honours depends on who mounts.
    fn make_opaque(&mut self, directory: Index) {
        let xattrs = &mut self.nodes[directory].metadata.xattrs;
        for name in [&b"trusted.overlay.opaque"[..], b"user.overlay.opaque"] {
            xattrs.insert(name.to_vec(), b"y".to_vec());
        }
    }

    /// The parent of the entry and its name; the error names the whole entry.
    fn parent<'p>(&mut self, parts: &[&'p [u8]]) -> Result<(Index, &'p [u8]), ConvertError> {
        let Some((name, above)) = parts.split_last() else {
            return Err(entry(b"/", EntryFault::RootNotDirectory));
        };
        match self.directory(above) {
            Ok(parent) => Ok((parent, name)),
            Err(ConvertError::Entry { fault, .. }) => Err(entry(&joined(parts), fault)),
            Err(other) => Err(other),
        }
    }

    /// A directory entry: over a directory it sets the metadata, over anything else it replaces.
    pub(crate) fn put_directory(
        &mut self,
        parts: &[&[u8]],
        metadata: Metadata,
    ) -> Result<(), ConvertError> {
        self.charge_metadata(&joined(parts), &metadata)?;
        let at = match parts.is_empty() {
            true => ROOT,
            false => {
                let (parent, name) = self.parent(parts)?;
                match self.child(parent, name).map(|c| (c, &self.nodes[c].body)) {
                    Some((child, Body::Directory(_))) => child,
                    Some((_, Body::Whiteout)) => {
                        let new = self.add_directory(parent, name)?;
                        self.make_opaque(new);
                        new
                    }
                    _ => self.add_directory(parent, name)?,
                }
            }
        };
        let node = &mut self.nodes[at];
        let mut xattrs = std::mem::take(&mut node.metadata.xattrs);
        xattrs.extend(metadata.xattrs);
        node.metadata = Metadata { xattrs, ..metadata };
        if let Body::Directory(d) = &mut node.body {
            d.implicit = false;
        }
        Ok(())
    }

    /// Anything else than a directory or a link; replaces what has the path.
    pub(crate) fn put(
        &mut self,
        parts: &[&[u8]],
        metadata: Metadata,
        body: Body,
    ) -> Result<(), ConvertError> {
        self.charge_metadata(&joined(parts), &metadata)?;
        let (parent, name) = self.parent(parts)?;
        let new = self.push(Node { metadata, body })?;
        self.set_child(parent, name, new)
    }

    /// One more name for a file of this layer.
    pub(crate) fn link(&mut self, parts: &[&[u8]], target: &[u8]) -> Result<(), ConvertError> {
        let fail = |fault| entry(&joined(parts), fault);
        let missing = || {
            fail(EntryFault::LinkTargetMissing {
                target: text(target),
            })
        };
        let target_parts = components(target, self.limits).map_err(|_| missing())?;
        let found = target_parts
            .iter()
            .try_fold(ROOT, |at, part| self.child(at, part));
        let found = found.ok_or_else(missing)?;
        match self.nodes[found].body {
            Body::Whiteout => return Err(missing()),
            Body::Directory(_) => {
                return Err(fail(EntryFault::LinkToDirectory {
                    target: text(target),
                }));
            }
            _ => {}
        }
        let (parent, name) = self.parent(parts)?;
        self.set_child(parent, name, found)
    }

    /// Hides `name` of the layers below. What this layer itself has under the name stays, and if that is a
    /// directory it becomes opaque, whatever the order of the entries (OCI: whiteouts apply to lower layers).
    pub(crate) fn whiteout(&mut self, above: &[&[u8]], name: &[u8]) -> Result<(), ConvertError> {
        let whole: Vec<&[u8]> = above.iter().copied().chain([name]).collect();
        if matches!(name, b"" | b"." | b"..") {
            return Err(entry(&joined(&whole), EntryFault::BadName));
        }
        let (parent, name) = self.parent(&whole)?;
        match self.child(parent, name) {
            Some(child) if matches!(self.nodes[child].body, Body::Directory(_)) => {
                self.make_opaque(child);
            }
            Some(_) => {}
            None => {
                let metadata = Metadata::default();
                let new = self.push(Node {
                    metadata,
                    body: Body::Whiteout,
                })?;
                self.set_child(parent, name, new)?;
            }
        }
        Ok(())
    }

    /// Hides everything that layers below have in the directory.
    pub(crate) fn opaque(&mut self, parts: &[&[u8]]) -> Result<(), ConvertError> {
        let directory = self.directory(parts)?;
        self.make_opaque(directory);
        Ok(())
    }
}

/// What tar makes of a directory it was not told about, but with a fixed time.
fn implicit_directory() -> Node {
    let names = BTreeMap::new();
    let metadata = Metadata {
        mode: 0o755,
        ..Metadata::default()
    };
    Node {
        metadata,
        body: Body::Directory(Directory {
            names,
            implicit: true,
        }),
    }
}
