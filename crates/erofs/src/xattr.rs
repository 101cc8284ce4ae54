//! Inline extended attributes: the bytes behind an inode.

use crate::format::{XATTR_ENTRY_LEN, XATTR_HEADER_LEN, XATTR_PREFIXES, u16_at};
use std::collections::BTreeMap;

/// Largest attribute area; its length is counted in 4-byte units in 16 bits.
pub(crate) const AREA_BYTES_MAX: usize = (u16::MAX as usize - 1) * 4 + XATTR_HEADER_LEN;

/// The number of the name's prefix and the rest, if EROFS can hold it.
pub(crate) fn split(name: &[u8]) -> Option<(u8, &[u8])> {
    XATTR_PREFIXES.iter().find_map(|(index, prefix)| {
        let rest = name.strip_prefix(*prefix)?;
        // An ACL's name is its prefix; every other name needs something after it.
        (prefix.ends_with(b".") != rest.is_empty()).then_some((*index, rest))
    })
}

/// The attribute area of an inode; empty without attributes.
pub(crate) fn encode(xattrs: &BTreeMap<Vec<u8>, Vec<u8>>) -> Vec<u8> {
    if xattrs.is_empty() {
        return Vec::new();
    }
    let mut out = vec![0u8; XATTR_HEADER_LEN];
    for (name, value) in xattrs {
        let (index, rest) = split(name).expect("names were checked when taken");
        out.push(u8::try_from(rest.len()).expect("names were checked when taken"));
        out.push(index);
        let length = u16::try_from(value.len()).expect("values were checked when taken");
        out.extend(length.to_le_bytes());
        out.extend(rest);
        out.extend(value);
        out.resize(out.len().next_multiple_of(4), 0);
    }
    out
}

/// Bytes that [`encode`] makes of an attribute.
pub(crate) fn encoded_len(name: &[u8], value: &[u8]) -> usize {
    (XATTR_ENTRY_LEN + name.len() + value.len()).next_multiple_of(4)
}

/// The `i_xattr_icount` of an area.
pub(crate) fn count(area: &[u8]) -> u16 {
    match area.len().checked_sub(XATTR_HEADER_LEN) {
        None => 0,
        Some(body) => u16::try_from(body / 4 + 1).expect("areas were bounded when taken"),
    }
}

/// Reads an area back; `None` if it is not well formed.
pub(crate) fn decode(area: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut out = Vec::new();
    let mut at = XATTR_HEADER_LEN;
    if area.is_empty() {
        return Some(out);
    }
    if *area.get(4)? != 0 {
        return None; // Shared attributes; this writer never makes them.
    }
    while at < area.len() {
        let name_len = usize::from(*area.get(at)?);
        let index = *area.get(at + 1)?;
        let value_len = usize::from(u16_at(area, at + 2)?);
        let name_at = at + XATTR_ENTRY_LEN;
        let value_at = name_at + name_len;
        let (_, prefix) = XATTR_PREFIXES.iter().find(|(i, _)| *i == index)?;
        let name = [prefix, area.get(name_at..value_at)?].concat();
        out.push((name, area.get(value_at..value_at + value_len)?.to_vec()));
        at = (value_at + value_len).next_multiple_of(4);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_round_trip_and_acl_names_have_no_rest() {
        let mut xattrs = BTreeMap::new();
        for name in [
            &b"user.a"[..],
            b"security.capability",
            b"system.posix_acl_access",
            b"trusted.overlay.opaque",
        ] {
            xattrs.insert(name.to_vec(), vec![0, 10, 255]);
        }
        let area = encode(&xattrs);
        assert_eq!(usize::from(count(&area)), (area.len() - 12) / 4 + 1);
        let back = decode(&area).expect("well formed");
        assert_eq!(back.into_iter().collect::<BTreeMap<_, _>>(), xattrs);
        assert_eq!(split(b"user."), None);
        assert_eq!(split(b"system.posix_acl_accessx"), None);
        assert_eq!(split(b"com.apple.x"), None);
    }
}
