//! What is said about a file.

use crate::accounts::Accounts;
use api::envd::ProtoInt64;
use api::envd::filesystem::{EntryInfo, FileType};
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

const TYPE_MASK: u32 = 0o170_000;
const PERMISSIONS: u32 = 0o777;

/// Describes `path`. Type and mode are those of what a link leads to, the rest is the link's.
pub(super) fn read(path: &str, accounts: &Accounts) -> io::Result<EntryInfo> {
    describe(path, &fs::symlink_metadata(path)?, accounts)
}

pub(super) fn describe(path: &str, own: &Metadata, accounts: &Accounts) -> io::Result<EntryInfo> {
    let is_symlink = own.file_type().is_symlink();
    let target = if is_symlink {
        fs::metadata(path).ok()
    } else {
        Some(own.clone())
    };
    let symlink_target = is_symlink.then(|| match fs::canonicalize(path) {
        Ok(resolved) => resolved.to_string_lossy().into_owned(),
        Err(_) => path.to_owned(),
    });
    let modified = jiff::Timestamp::new(own.mtime(), i32::try_from(own.mtime_nsec()).unwrap_or(0));
    Ok(EntryInfo {
        name: crate::paths::base(path),
        r#type: target.as_ref().map_or(FileType::Unspecified, file_type),
        path: path.to_owned(),
        size: ProtoInt64(i64::try_from(own.size()).unwrap_or(i64::MAX)),
        mode: target
            .as_ref()
            .map_or(0, |target| target.mode() & PERMISSIONS),
        permissions: permissions(own.mode()),
        owner: accounts.user_name(own.uid()),
        group: accounts.group_name(own.gid()),
        modified_time: modified.ok().map(|time| time.to_string()),
        symlink_target,
        metadata: crate::files::metadata::read(Path::new(path)),
        is_symlink,
    })
}

fn file_type(metadata: &Metadata) -> FileType {
    if metadata.is_dir() {
        FileType::Directory
    } else if metadata.is_file() {
        FileType::File
    } else {
        FileType::Unspecified
    }
}

/// As Go prints a mode: letters for the type and special bits, then the nine permissions.
fn permissions(mode: u32) -> String {
    let kind = match mode & TYPE_MASK {
        0o040_000 => "d",
        0o120_000 => "L",
        0o060_000 => "D",
        0o020_000 => "Dc",
        0o010_000 => "p",
        0o140_000 => "S",
        _ => "",
    };
    let mut text = kind.to_owned();
    for (bit, letter) in [(0o4000, 'u'), (0o2000, 'g'), (0o1000, 't')] {
        if mode & bit != 0 {
            text.push(letter);
        }
    }
    if text.is_empty() {
        text.push('-');
    }
    for (place, letter) in "rwxrwxrwx".chars().enumerate() {
        text.push(if mode & (0o400 >> place) == 0 {
            '-'
        } else {
            letter
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_printed_as_go_prints_them() {
        assert_eq!(permissions(0o100_644), "-rw-r--r--");
        assert_eq!(permissions(0o040_755), "drwxr-xr-x");
        assert_eq!(permissions(0o120_777), "Lrwxrwxrwx");
        assert_eq!(permissions(0o041_777), "dtrwxrwxrwx");
        assert_eq!(permissions(0o104_755), "urwxr-xr-x");
    }
}
