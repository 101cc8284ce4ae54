//! A plan made into a mounted root: shared layers below, one sandbox's own files on top.
//!
//! ```text
//! <data>/cache/<hex>.erofs            a layer, as stored
//! <run>/layers/<hex>                  its one mount on this host
//!    └ idmapped clone                 detached, held by this process, shares the superblock
//!         └ overlay                   detached, one per sandbox
//! <data>/state/sandboxes/<id>/        btrfs subvolume: upper, work, usr-upper, usr-work
//! ```
//!
//! The layers are idmapped, so that root in a sandbox owns what the image says root owns. The
//! upper is not (that would make the overlay read-only): its files belong to the ids of the range
//! on disk. All calls block.

mod host_usr;
mod layer;
mod roots;
mod upper;
mod writable;

pub use layer::LayerError;
pub use roots::{CloseError, ExtraMount, MountError, MountedRoot, OpenError, Roots, RootsConfig};
pub use upper::{Upper, UpperError};
pub use writable::{WritableError, WritableKind};
