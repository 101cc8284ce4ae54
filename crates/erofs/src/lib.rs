//! The layer format: tar streams in, deterministic EROFS images out, and a reader for them.
//!
//! Pure: bytes come and go through `Read`, `Write` and `Seek`; nothing here opens a file. Input is never
//! trusted: a hostile tar or image is an error that names the entry, not a panic and not a full memory.
//!
//! ```text
//! image: | 1024 zero | superblock | inodes in path order | directory blocks | file data, 4 KiB aligned |
//! ```

mod convert;
mod emit;
mod error;
mod format;
mod identity;
mod image;
mod layout;
mod pax;
mod sparse;
mod tar_entry;
mod tar_header;
mod tree;
mod xattr;

pub use convert::{Limits, Summary, convert};
pub use error::{ConvertError, EntryFault};
pub use identity::{CHUNK_BYTES, layer_digest};
pub use image::{DirEntry, FileKind, Image, ImageError, Inode, Nid, Xattr};
