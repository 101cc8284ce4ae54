//! What an import tells while it runs.

use model::Digest;

/// Where one layer of an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It was in the store already.
    Cached,
    /// Its bytes are being read and converted.
    Reading,
    /// It is in the store.
    Done,
}

/// One step of one layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The layer as the image names it: the digest of its plain tar.
    pub layer: Digest,
    /// Where it is.
    pub phase: Phase,
    /// Bytes read of what is transported (compressed).
    pub done_bytes: u64,
    /// How many there are, if known.
    pub total_bytes: Option<u64>,
}
