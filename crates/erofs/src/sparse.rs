//! Maps of sparse tar entries: GNU's old headers and the PAX formats 0.0, 0.1 and 1.0.

use crate::format::FILE_BYTES_MAX;
use crate::tar_header::{RECORD, number};

/// Where the stored bytes of a sparse file belong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SparseMap {
    /// Size of the whole file.
    pub(crate) size: u64,
    /// Offset and length of each stored piece, ascending, not empty.
    pub(crate) pieces: Vec<(u64, u64)>,
}

impl SparseMap {
    /// Checks a map as read against the number of bytes that are stored.
    pub(crate) fn checked(
        size: u64,
        pieces: impl IntoIterator<Item = (u64, u64)>,
        stored: u64,
    ) -> Result<Self, &'static str> {
        let mut end = 0u64;
        let mut sum = 0u64;
        let mut kept = Vec::new();
        for (offset, length) in pieces {
            let next = offset.checked_add(length).ok_or("a piece is too long")?;
            if length == 0 {
                continue; // Writers mark the end of the file with an empty piece.
            }
            if offset < end || next > size {
                return Err("pieces overlap, are out of order or behind the end");
            }
            end = next;
            sum += length;
            kept.push((offset, length));
        }
        if sum != stored {
            return Err("its pieces are not as long as its data");
        }
        if size > FILE_BYTES_MAX {
            return Err("the file is too large");
        }
        let pieces = kept;
        Ok(Self { size, pieces })
    }
}

/// A number of an old GNU sparse header.
fn field(bytes: &[u8]) -> Result<u64, &'static str> {
    number(bytes)
        .and_then(|n| u64::try_from(n).ok())
        .ok_or("a number is malformed")
}

/// The pieces in a run of old GNU descriptors, 24 bytes each; an empty one ends the run.
pub(crate) fn gnu_pieces(bytes: &[u8], out: &mut Vec<(u64, u64)>) -> Result<(), &'static str> {
    for descriptor in bytes.chunks_exact(24) {
        if descriptor[0] == 0 || descriptor[12] == 0 {
            break;
        }
        out.push((field(&descriptor[..12])?, field(&descriptor[12..])?));
    }
    Ok(())
}

/// The size field of an old GNU sparse header.
pub(crate) fn gnu_real_size(header: &[u8; RECORD]) -> Result<u64, &'static str> {
    field(&header[483..495])
}

/// Flat offset, length, offset, length... as pairs.
pub(crate) fn pairs(flat: &[u64]) -> Result<Vec<(u64, u64)>, &'static str> {
    let (pairs, rest) = flat.as_chunks::<2>();
    if !rest.is_empty() {
        return Err("the map ends in half a piece");
    }
    Ok(pairs
        .iter()
        .map(|[offset, length]| (*offset, *length))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_that_contradict_themselves_are_refused() {
        let ok = SparseMap::checked(100, [(0, 10), (50, 5), (100, 0)], 15).expect("sound");
        assert_eq!(ok.pieces, [(0, 10), (50, 5)]);
        for (size, pieces, stored) in [
            (100, vec![(0, 10), (5, 5)], 15),
            (100, vec![(95, 10)], 10),
            (100, vec![(0, 10)], 11),
            (u64::MAX, vec![(u64::MAX, 2)], 2),
            (u64::MAX, vec![], 0),
        ] {
            assert!(SparseMap::checked(size, pieces, stored).is_err());
        }
        assert!(pairs(&[1, 2, 3]).is_err());
    }
}
