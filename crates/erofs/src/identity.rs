//! A layer's identity: a digest over the digests of its plain chunks.
//!
//! Recompressing or re-packing a layer changes nothing, and each chunk can be verified alone.

use sha2::{Digest, Sha256};
use std::io::{self, Read};

/// Bytes of a chunk; the last one is as long as what is left.
pub const CHUNK_BYTES: usize = 256 << 10;
/// A chunk without content.
static ZEROS: [u8; CHUNK_BYTES] = [0; CHUNK_BYTES];

/// The sha256 over the concatenated sha256 of each chunk of `image`. Zero chunks are not hashed again.
pub fn layer_digest(mut image: impl Read) -> io::Result<[u8; 32]> {
    let mut whole = Sha256::new();
    let mut zero_digest = None;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let mut filled = 0;
        while filled < CHUNK_BYTES {
            match image.read(&mut chunk[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let bytes = &chunk[..filled];
        if bytes == &ZEROS[..] {
            whole.update(zero_digest.get_or_insert_with(|| Sha256::digest(&ZEROS[..])));
        } else if filled > 0 {
            whole.update(Sha256::digest(bytes));
        }
        if filled < CHUNK_BYTES {
            return Ok(whole.finalize().into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_chunk_digests() {
        let mut bytes = vec![0u8; 2 * CHUNK_BYTES + 5];
        bytes[CHUNK_BYTES] = 1;
        let mut list = Vec::new();
        for chunk in bytes.chunks(CHUNK_BYTES) {
            list.extend(Sha256::digest(chunk));
        }
        let wanted: [u8; 32] = Sha256::digest(&list).into();
        assert_eq!(layer_digest(&bytes[..]).expect("in memory"), wanted);
    }

    #[test]
    fn an_image_of_whole_chunks_has_no_empty_last_chunk() {
        let bytes = vec![0u8; 2 * CHUNK_BYTES];
        let one = Sha256::digest(&bytes[..CHUNK_BYTES]);
        let wanted: [u8; 32] = Sha256::digest([one, one].concat()).into();
        assert_eq!(layer_digest(&bytes[..]).expect("in memory"), wanted);
    }
}
