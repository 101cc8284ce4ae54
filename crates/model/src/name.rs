//! Template references: `[namespace/]name[:tag]`, lower-cased.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Tag that is meant when none is written.
const DEFAULT_TAG: &str = "default";
/// Longest name or tag; the bound of a file name with room for a suffix.
const LEN_MAX: usize = 128;

/// What a client writes to name a template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TemplateRef {
    namespace: Option<String>,
    name: String,
    tag: Option<String>,
}

/// The text is not a template reference.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("template {text:?} is not [namespace/]name[:tag]: {why}")]
pub struct ParseTemplateRefError {
    text: String,
    why: &'static str,
}

impl TemplateRef {
    /// The namespace, if one was written.
    #[must_use]
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// The name without namespace and tag.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The tag as written, if any.
    #[must_use]
    pub fn explicit_tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The tag, [`DEFAULT_TAG`] if none was written.
    #[must_use]
    pub fn tag(&self) -> &str {
        self.tag.as_deref().unwrap_or(DEFAULT_TAG)
    }
}

fn ident(s: &str, dot: bool) -> bool {
    let ok = |c: u8| {
        c.is_ascii_lowercase()
            || c.is_ascii_digit()
            || matches!(c, b'-' | b'_')
            || (dot && c == b'.')
    };
    !s.is_empty() && s.len() <= LEN_MAX && s.bytes().all(ok) && s != "." && s != ".."
}

impl FromStr for TemplateRef {
    type Err = ParseTemplateRefError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = |why| ParseTemplateRefError {
            text: text.to_owned(),
            why,
        };
        let lower = text.trim().to_lowercase();
        let (path, tag) = match lower.split_once(':') {
            Some((path, tag)) => (path, Some(tag)),
            None => (lower.as_str(), None),
        };
        let (namespace, name) = match path.split_once('/') {
            Some((ns, name)) => (Some(ns), name),
            None => (None, path),
        };
        if !ident(name, false) || !namespace.is_none_or(|n| ident(n, false)) {
            return Err(bad("names are 1 to 128 of [a-z0-9-_]"));
        }
        if !tag.is_none_or(|t| ident(t, true)) {
            return Err(bad("tags are 1 to 128 of [a-z0-9-_.]"));
        }
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
            tag: tag.map(str::to_owned),
        })
    }
}

impl fmt::Display for TemplateRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(ns) = &self.namespace {
            write!(f, "{ns}/")?;
        }
        f.write_str(&self.name)?;
        self.tag.as_ref().map_or(Ok(()), |t| write!(f, ":{t}"))
    }
}

impl From<TemplateRef> for String {
    fn from(r: TemplateRef) -> Self {
        r.to_string()
    }
}

impl TryFrom<String> for TemplateRef {
    type Error = ParseTemplateRefError;

    fn try_from(s: String) -> Result<Self, Self::Error> {
        s.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_split_and_lower_cased() {
        let r: TemplateRef = "Team/Py-Thon_3:v1.2".parse().expect("valid");
        assert_eq!(
            (r.namespace(), r.name(), r.tag()),
            (Some("team"), "py-thon_3", "v1.2")
        );
        assert_eq!(r.to_string(), "team/py-thon_3:v1.2");
        let plain: TemplateRef = "host".parse().expect("valid");
        assert_eq!((plain.tag(), plain.explicit_tag()), ("default", None));
    }

    #[test]
    fn names_that_could_leave_a_directory_are_refused() {
        for bad in [
            "",
            "..",
            "a/b/c",
            "../x",
            "a:",
            ":a",
            "a b",
            "a:..",
            "é",
            &"x".repeat(129),
        ] {
            assert!(bad.parse::<TemplateRef>().is_err(), "{bad}");
        }
    }
}
