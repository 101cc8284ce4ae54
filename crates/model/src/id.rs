//! Sandbox ids: `i` and 20 of `[a-z0-9]`; the first four name the node, the rest are random.
//!
//! No dash is allowed: the data plane splits the host label `<port>-<id>` there.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
/// Characters after the leading `i`.
const BODY: usize = 20;
/// Characters of the body that name the node.
const NODE: usize = 4;

/// Name of one sandbox, unique over all nodes and for ever.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SandboxId(String);

/// The text is not a sandbox id.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("sandbox id {text:?} is not 'i' followed by 20 of [a-z0-9]")]
pub struct ParseSandboxIdError {
    text: String,
}

impl SandboxId {
    /// Makes an id from a number that names the node and random bytes.
    #[must_use]
    pub fn new(node: u32, random: [u8; BODY - NODE]) -> Self {
        let letter = |n: u32| ALPHABET[(n % 36) as usize] as char;
        let mut text = String::with_capacity(1 + BODY);
        text.push('i');
        text.extend([1, 36, 36 * 36, 36 * 36 * 36].map(|place| letter(node / place)));
        text.extend(random.iter().map(|b| letter(u32::from(*b))));
        Self(text)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxId {
    type Err = ParseSandboxIdError;

    /// Accepts the legacy form `<id>-<client>` of old SDKs and drops the suffix.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = || ParseSandboxIdError {
            text: text.to_owned(),
        };
        let (id, client) = text
            .split_once('-')
            .map_or((text, None), |(i, c)| (i, Some(c)));
        let alnum = |s: &str| s.bytes().all(|c| ALPHABET.contains(&c));
        let client_ok = client.is_none_or(|c| !c.is_empty() && alnum(c));
        if id.len() != 1 + BODY || !id.starts_with('i') || !alnum(id) || !client_ok {
            return Err(bad());
        }
        Ok(Self(id.to_owned()))
    }
}

impl fmt::Display for SandboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<SandboxId> for String {
    fn from(id: SandboxId) -> Self {
        id.0
    }
}

impl TryFrom<String> for SandboxId {
    type Error = ParseSandboxIdError;

    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_ids_parse_back_and_begin_with_the_node() {
        let id = SandboxId::new(36 + 2, [7; 16]);
        assert_eq!(id.as_str(), "icbaahhhhhhhhhhhhhhhh");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn the_legacy_client_suffix_is_dropped() {
        let id = SandboxId::new(1, [1; 16]);
        assert_eq!(format!("{id}-6532622b").parse(), Ok(id));
    }

    #[test]
    fn malformed_ids_are_refused() {
        let id = SandboxId::new(1, [1; 16]).to_string();
        for bad in [
            "",
            "i",
            &id[1..],
            &id.to_uppercase(),
            &format!("{id}-a-b"),
            &format!("{id}-"),
            "../../etc/passwd",
        ] {
            assert!(bad.parse::<SandboxId>().is_err(), "{bad}");
        }
    }
}
