//! One 512-byte tar header: numbers, names, checksum; v7, ustar and GNU.

/// Bytes of a header and unit of padding.
pub(crate) const RECORD: usize = 512;

/// A header whose checksum holds.
pub(crate) struct Header<'a>(pub(crate) &'a [u8; RECORD]);

impl<'a> Header<'a> {
    /// Checks the checksum; old writers summed signed bytes.
    pub(crate) fn new(record: &'a [u8; RECORD]) -> Option<Self> {
        let stored = i64::try_from(number(&record[148..156])?).ok()?;
        let (mut unsigned, mut signed) = (0i64, 0i64);
        for (i, byte) in record.iter().enumerate() {
            let byte = if (148..156).contains(&i) { b' ' } else { *byte };
            unsigned += i64::from(byte);
            signed += i64::from(byte.cast_signed());
        }
        (stored == unsigned || stored == signed).then_some(Self(record))
    }

    pub(crate) fn kind(&self) -> u8 {
        self.0[156]
    }

    pub(crate) fn mode(&self) -> Option<i128> {
        number(&self.0[100..108])
    }

    pub(crate) fn uid(&self) -> Option<i128> {
        number(&self.0[108..116])
    }

    pub(crate) fn gid(&self) -> Option<i128> {
        number(&self.0[116..124])
    }

    pub(crate) fn size(&self) -> Option<i128> {
        number(&self.0[124..136])
    }

    pub(crate) fn mtime(&self) -> Option<i128> {
        number(&self.0[136..148])
    }

    pub(crate) fn device(&self) -> Option<(i128, i128)> {
        if &self.0[257..262] != b"ustar" {
            return Some((0, 0));
        }
        Some((number(&self.0[329..337])?, number(&self.0[337..345])?))
    }

    pub(crate) fn link(&self) -> &'a [u8] {
        until_nul(&self.0[157..257])
    }

    /// The path, with the prefix field where the format has one.
    pub(crate) fn path(&self) -> Vec<u8> {
        let name = until_nul(&self.0[..100]);
        let prefix = until_nul(&self.0[345..500]);
        if &self.0[257..263] != b"ustar\0" || prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }
}

/// The field up to its first NUL.
pub(crate) fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|b| *b == 0).next().unwrap_or_default()
}

/// An octal number, or a base-256 one (first bit set, two's complement). Empty is zero.
pub(crate) fn number(field: &[u8]) -> Option<i128> {
    let first = *field.first()?;
    if first & 0x80 != 0 {
        // Bit 7 is the marker, bit 6 the sign; a field has at most 12 bytes, so 96 bits.
        let start = i128::from((first << 1).cast_signed() >> 1);
        return Some(
            field[1..]
                .iter()
                .fold(start, |n, b| (n << 8) | i128::from(*b)),
        );
    }
    let text = until_nul(field).trim_ascii();
    text.iter().try_fold(0i128, |n, b| {
        (b'0'..=b'7')
            .contains(b)
            .then(|| n * 8 + i128::from(b - b'0'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_base_256_with_sign() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"   17 \0\0"), Some(15));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"12x4567\0"), None);
        assert_eq!(
            number(&[0x80, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0]),
            Some(2 << 32)
        );
        assert_eq!(number(&[0xff; 12]), Some(-1));
    }

    #[test]
    fn a_header_with_a_wrong_checksum_is_refused() {
        let mut header = tar::Header::new_gnu();
        header.set_path("a").expect("short");
        header.set_cksum();
        let mut record = *header.as_bytes();
        assert!(Header::new(&record).is_some());
        record[0] = b'b';
        assert!(Header::new(&record).is_none());
    }
}
