//! Stored layers seen as one tree, without mounting: which layer decides about a directory.

use crate::error::{ImportError, StoreError};
use crate::ingest::Ingested;
use crate::store::Store;
use erofs::{FileKind, Image, Inode, Xattr};
use model::Digest;
use std::collections::HashSet;
use std::fs::File;

/// Open layers, bottom to top.
pub(crate) struct Layered {
    layers: Vec<Layer>,
}

struct Layer {
    digest: Digest,
    diff_id: Digest,
    image: Image<File>,
    implicit: HashSet<String>,
}

/// What one layer says about a path.
enum Found {
    /// Nothing.
    Nothing,
    /// Nothing, and layers below are hidden here.
    Hidden,
    /// A directory; `is_end`: layers below are hidden.
    Directory { inode: Inode, is_end: bool },
    /// Something else than a directory and than a whiteout, at the path or above it.
    Other,
}

/// A directory as some entry described it.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) inode: Inode,
    pub(crate) xattrs: Vec<Xattr>,
    /// Whether a layer above only implies it, so that the description does not show.
    pub(crate) is_shadowed: bool,
}

impl Layered {
    pub(crate) fn open(store: &Store, layers: &[Ingested]) -> Result<Self, StoreError> {
        let open = |l: &Ingested| {
            Ok(Layer {
                digest: l.record.layer,
                diff_id: l.record.diff_id,
                image: store.open_layer(&l.record.layer)?,
                implicit: l.record.implicit_directories.iter().cloned().collect(),
            })
        };
        let layers = layers.iter().map(open).collect::<Result<_, _>>()?;
        Ok(Self { layers })
    }

    /// The uppermost description of the directory that holds in the merged tree.
    pub(crate) fn described(&mut self, path: &str) -> Result<Option<Described>, ImportError> {
        let mut implied_by = None;
        for layer in self.layers.iter_mut().rev() {
            let digest = layer.digest;
            let damaged = |source| StoreError::Damaged {
                layer: digest,
                source,
            };
            match look(&mut layer.image, path).map_err(damaged)? {
                Found::Nothing => {}
                Found::Hidden => return Ok(None),
                Found::Other => match implied_by {
                    None => return Ok(None),
                    Some(layer) => {
                        return Err(ImportError::ThroughLink {
                            layer,
                            path: path.to_owned(),
                        });
                    }
                },
                Found::Directory { is_end, .. } if layer.implicit.contains(path) => {
                    implied_by = Some(layer.diff_id);
                    if is_end {
                        return Ok(None);
                    }
                }
                Found::Directory { inode, .. } => {
                    let xattrs = layer.image.xattrs(&inode).map_err(damaged)?;
                    let is_shadowed = implied_by.is_some();
                    return Ok(Some(Described {
                        inode,
                        xattrs,
                        is_shadowed,
                    }));
                }
            }
        }
        Ok(None)
    }
}

/// Whether layers below do not show in the directory.
fn is_opaque(image: &mut Image<File>, inode: &Inode) -> Result<bool, erofs::ImageError> {
    let xattrs = image.xattrs(inode)?;
    Ok(xattrs
        .iter()
        .any(|(name, _)| name == b"trusted.overlay.opaque"))
}

fn look(image: &mut Image<File>, path: &str) -> Result<Found, erofs::ImageError> {
    let mut at = image.root()?;
    let mut is_end = is_opaque(image, &at)?;
    for part in path.split('/').filter(|p| !p.is_empty()) {
        let found = image
            .read_dir(&at)?
            .into_iter()
            .find(|e| e.name == part.as_bytes());
        let Some(found) = found else {
            return Ok(if is_end {
                Found::Hidden
            } else {
                Found::Nothing
            });
        };
        at = image.inode(found.nid)?;
        if at.is_whiteout() {
            return Ok(Found::Hidden);
        }
        if at.kind != FileKind::Directory {
            return Ok(Found::Other);
        }
        is_end = is_end || is_opaque(image, &at)?;
    }
    Ok(Found::Directory { inode: at, is_end })
}
