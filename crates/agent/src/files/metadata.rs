//! What an uploader says about a file: `X-Metadata-<key>` headers, kept as extended attributes.

use crate::route::HttpError;
use http::{HeaderMap, StatusCode};
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::Path;

const HEADER_PREFIX: &str = "x-metadata-";
const XATTR_PREFIX: &str = "user.e2b.";
/// The kernel allows 255 bytes for a whole name.
const KEY_BYTES_MAX: usize = 246;
/// All keys and values together; what common filesystems hold in one block.
const TOTAL_BYTES_MAX: usize = 4096;

/// The metadata of an upload's headers.
pub(super) fn from_headers(headers: &HeaderMap) -> Result<BTreeMap<String, String>, HttpError> {
    let invalid = |text: String| HttpError::new(StatusCode::BAD_REQUEST, text);
    let mut metadata = BTreeMap::new();
    let mut total = 0;
    for (name, value) in headers {
        let Some(key) = name.as_str().strip_prefix(HEADER_PREFIX) else {
            continue;
        };
        if key.is_empty() || key.len() > KEY_BYTES_MAX {
            return Err(invalid(format!(
                "metadata key '{key}' must have 1 to {KEY_BYTES_MAX} bytes"
            )));
        }
        let printable = value
            .to_str()
            .ok()
            .filter(|text| text.bytes().all(|b| (32..127).contains(&b)));
        let Some(text) = printable else {
            return Err(invalid(format!(
                "metadata value of '{key}' must be printable ASCII"
            )));
        };
        total += key.len() + text.len();
        metadata.insert(key.to_owned(), text.to_owned());
    }
    if total > TOTAL_BYTES_MAX {
        return Err(invalid(format!(
            "metadata is longer than {TOTAL_BYTES_MAX} bytes"
        )));
    }
    Ok(metadata)
}

/// Replaces all metadata of a file.
pub(super) fn replace(file: &File, metadata: &BTreeMap<String, String>) -> io::Result<()> {
    let size = rustix::fs::flistxattr_query(file);
    let names = list(size, |buffer| rustix::fs::flistxattr(file, buffer));
    for name in names.iter().filter(|name| name.starts_with(XATTR_PREFIX)) {
        rustix::fs::fremovexattr(file, name.as_str())?;
    }
    for (key, value) in metadata {
        let name = format!("{XATTR_PREFIX}{key}");
        rustix::fs::fsetxattr(file, name, value.as_bytes(), XattrFlags::empty())?;
    }
    Ok(())
}

/// The metadata of a path, links followed; empty where there are no extended attributes.
pub(crate) fn read(path: &Path) -> BTreeMap<String, String> {
    let size = rustix::fs::listxattr_query(path);
    let names = list(size, |buffer| rustix::fs::listxattr(path, buffer));
    let pairs = names.into_iter().filter_map(|name| {
        let key = name.strip_prefix(XATTR_PREFIX)?.to_owned();
        let mut value = vec![0; TOTAL_BYTES_MAX];
        let length = rustix::fs::getxattr(path, name.as_str(), value.as_mut_slice()).ok()?;
        value.truncate(length);
        Some((key, String::from_utf8_lossy(&value).into_owned()))
    });
    pairs.collect()
}

/// Names of attributes, given their total size.
fn list(
    size: rustix::io::Result<usize>,
    read: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
) -> Vec<String> {
    // Most files have none.
    let mut buffer = vec![0; size.unwrap_or(0)];
    let length = if buffer.is_empty() {
        0
    } else {
        read(&mut buffer).unwrap_or(0)
    };
    let names = buffer
        .get(..length)
        .unwrap_or_default()
        .split(|byte| *byte == 0);
    names
        .filter_map(|name| Some(std::str::from_utf8(name).ok()?.to_owned()))
        .collect()
}
