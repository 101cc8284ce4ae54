//! PAX extended headers: `LENGTH KEY=VALUE\n` records whose values may hold any byte.

use crate::error::EntryFault;
use std::collections::BTreeMap;

/// Attributes by name.
pub(crate) type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

/// What the extended headers of one entry say.
#[derive(Debug, Default)]
pub(crate) struct Pax {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) uid: Option<u64>,
    pub(crate) gid: Option<u64>,
    pub(crate) mtime: Option<(i64, u32)>,
    pub(crate) xattrs: Xattrs,
    pub(crate) sparse: PaxSparse,
}

/// The `GNU.sparse.*` records, formats 0.0, 0.1 and 1.0.
#[derive(Debug, Default)]
pub(crate) struct PaxSparse {
    pub(crate) major: Option<u64>,
    pub(crate) name: Option<Vec<u8>>,
    pub(crate) real_size: Option<u64>,
    /// Pairs of offset and length from `offset`/`numbytes` or `map`, flat.
    pub(crate) map: Vec<u64>,
    pub(crate) has_map: bool,
}

/// Parses one header's records over what is already known.
pub(crate) fn parse(mut bytes: &[u8], pax: &mut Pax) -> Result<(), &'static str> {
    while !bytes.is_empty() {
        if bytes.iter().all(|b| *b == 0) {
            break; // Some writers pad with NULs.
        }
        let space = bytes.iter().take(20).position(|b| *b == b' ');
        let space = space.ok_or("a PAX record has no length")?;
        let length = decimal(&bytes[..space]).ok_or("a PAX record has a malformed length")?;
        let length = usize::try_from(length).map_err(|_| "a PAX record is too long")?;
        let record = bytes
            .get(space + 1..length)
            .ok_or("a PAX record is longer than its header")?;
        let Some((b'\n', record)) = record.split_last() else {
            return Err("a PAX record does not end in a newline");
        };
        let equals = record.iter().position(|b| *b == b'=');
        let equals = equals.ok_or("a PAX record has no '='")?;
        take(&record[..equals], &record[equals + 1..], pax)?;
        bytes = &bytes[length..];
    }
    Ok(())
}

fn take(key: &[u8], value: &[u8], pax: &mut Pax) -> Result<(), &'static str> {
    if let Some(name) = key.strip_prefix(b"SCHILY.xattr.") {
        pax.xattrs.insert(name.to_vec(), value.to_vec());
        return Ok(());
    }
    if value.is_empty() {
        return Ok(()); // An empty value withdraws the record; the header's own field stands.
    }
    let number = || decimal(value).ok_or("a PAX number is malformed");
    match key {
        b"path" => pax.path = Some(value.to_vec()),
        b"linkpath" => pax.link = Some(value.to_vec()),
        b"size" => pax.size = Some(number()?),
        b"uid" => pax.uid = Some(number()?),
        b"gid" => pax.gid = Some(number()?),
        b"mtime" => pax.mtime = Some(time(value).ok_or("a PAX time is malformed")?),
        b"GNU.sparse.major" => pax.sparse.major = Some(number()?),
        b"GNU.sparse.name" => pax.sparse.name = Some(value.to_vec()),
        b"GNU.sparse.size" | b"GNU.sparse.realsize" => pax.sparse.real_size = Some(number()?),
        b"GNU.sparse.offset" | b"GNU.sparse.numbytes" => {
            pax.sparse.has_map = true;
            pax.sparse.map.push(number()?);
        }
        b"GNU.sparse.numblocks" => pax.sparse.has_map = true,
        b"GNU.sparse.map" => {
            pax.sparse.has_map = true;
            for part in value.split(|b| *b == b',') {
                let part = decimal(part).ok_or("a PAX sparse map is malformed")?;
                pax.sparse.map.push(part);
            }
        }
        _ => {}
    }
    Ok(())
}

/// A plain decimal number.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |n, b| {
        let digit = b.is_ascii_digit().then(|| u64::from(b - b'0'))?;
        n.checked_mul(10)?.checked_add(digit)
    })
}

/// `[-]seconds[.fraction]` as seconds and nanoseconds, rounded down.
fn time(text: &[u8]) -> Option<(i64, u32)> {
    let (negative, text) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut parts = text.splitn(2, |b| *b == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let mut nanos = 0u32;
    let mut lost = false;
    let mut scale = 100_000_000;
    for byte in parts.next().unwrap_or_default() {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        nanos += digit * scale;
        lost |= scale == 0 && digit != 0;
        scale /= 10;
    }
    if !negative {
        return Some((seconds, nanos));
    }
    let nanos = nanos + u32::from(lost);
    match nanos {
        0 => Some((-seconds, 0)),
        n => Some((-seconds - 1, 1_000_000_000 - n)),
    }
}

/// Checks the names and sizes of attributes and drops those that EROFS has no number for.
///
/// `trusted.*` and the overlay's own attributes would let an image steer the node's mounts.
pub(crate) fn check_xattrs(
    xattrs: Xattrs,
    value_bytes_max: usize,
) -> Result<(Xattrs, u64), EntryFault> {
    let mut kept = BTreeMap::new();
    let mut dropped = 0;
    for (name, value) in xattrs {
        if name.starts_with(b"trusted.") || name.starts_with(b"user.overlay.") {
            let name = crate::error::text(&name);
            return Err(EntryFault::ReservedXattr { name });
        }
        if crate::xattr::split(&name).is_none() {
            dropped += 1;
            continue;
        }
        if name.len() > 255 || value.len() > value_bytes_max.min(usize::from(u16::MAX)) {
            let name = crate::error::text(&name[..name.len().min(255)]);
            return Err(EntryFault::XattrTooLarge { name });
        }
        kept.insert(name, value);
    }
    Ok((kept, dropped))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let body = key.len() + value.len() + 3;
        let length = (body..).find(|l| body + l.to_string().len() == *l);
        let length = length.expect("a length that counts itself");
        let mut out = format!("{length} {key}=").into_bytes();
        out.extend(value);
        out.push(b'\n');
        out
    }

    #[test]
    fn values_may_hold_newlines_equals_and_nul() {
        let value = b"\x01\n\x00=12 a=b\n";
        let mut bytes = record("SCHILY.xattr.security.capability", value);
        bytes.extend(record("path", "ü/x".as_bytes()));
        let mut pax = Pax::default();
        parse(&bytes, &mut pax).expect("well formed");
        assert_eq!(pax.xattrs[&b"security.capability"[..]], value);
        assert_eq!(pax.path.as_deref(), Some("ü/x".as_bytes()));
    }

    #[test]
    fn times_keep_their_fraction_and_round_down() {
        assert_eq!(time(b"12.5"), Some((12, 500_000_000)));
        assert_eq!(time(b"1.0000000019"), Some((1, 1)));
        assert_eq!(time(b"-1.25"), Some((-2, 750_000_000)));
        assert_eq!(time(b"-3"), Some((-3, 0)));
        assert_eq!(time(b"1e5"), None);
        assert_eq!(time(b""), None);
    }

    #[test]
    fn malformed_records_are_errors() {
        for bad in [
            &b"x"[..],
            b"99 a=b\n",
            b"5 a=b",
            b"6 abcd\n",
            b"0 \n",
            b"2 \n",
            b"-1 a=b\n",
            b"18446744073709551616 a=b\n",
            b"11 size=x1\n",
        ] {
            assert!(parse(bad, &mut Pax::default()).is_err(), "{bad:?}");
        }
    }
}
