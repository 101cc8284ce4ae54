//! Content digests: `sha256:` and 64 lower-case hex digits, as OCI writes them.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A sha256 digest. Ordered and hashed by its bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

/// The text is not a sha256 digest.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("digest {text:?} is not of the form sha256:<64 lower-case hex digits>")]
pub struct ParseDigestError {
    text: String,
}

impl Digest {
    /// Wraps the 32 raw bytes of a sha256.
    #[must_use]
    pub fn from_sha256(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 raw bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hex digits without the algorithm, fit for a file name.
    #[must_use]
    pub fn hex(&self) -> String {
        use fmt::Write;
        self.0.iter().fold(String::with_capacity(64), |mut s, b| {
            write!(s, "{b:02x}").expect("writing to a String cannot fail");
            s
        })
    }

    /// The first 12 hex digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }
}

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseDigestError {
            text: text.to_owned(),
        };
        let hex = text.strip_prefix("sha256:").ok_or_else(bad)?;
        let ok = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
        if hex.len() != 64 || !hex.bytes().all(ok) {
            return Err(bad());
        }
        let mut bytes = [0u8; 32];
        for (i, b) in bytes.iter_mut().enumerate() {
            *b = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sha256:{}", self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(d: Digest) -> Self {
        d.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = ParseDigestError;

    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_value_round_trip() {
        let d = Digest::from_sha256([0xab; 32]);
        assert_eq!(d.to_string().parse::<Digest>(), Ok(d));
        assert_eq!(d.short(), "abababababab");
    }

    #[test]
    fn wrong_algorithm_length_case_and_alphabet_are_refused() {
        let hex = "ab".repeat(32);
        for bad in [
            format!("sha512:{hex}"),
            hex.clone(),
            format!("sha256:{}", &hex[1..]),
            format!("sha256:{}", hex.to_uppercase()),
            format!("sha256:{}zz", &hex[2..]),
            "sha256:é".to_owned(),
        ] {
            assert!(bad.parse::<Digest>().is_err(), "{bad}");
        }
    }
}
