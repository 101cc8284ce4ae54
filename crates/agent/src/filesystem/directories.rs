//! Making, walking, moving and removing trees.

use super::entry;
use crate::accounts::{Accounts, User};
use api::envd::filesystem::EntryInfo;
use rustix::io::Errno;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, chown, lchown, symlink};
use std::path::Path;

/// Makes the directory and its missing parents; what is made belongs to the user.
pub(crate) fn ensure(path: &str, user: &User) -> io::Result<()> {
    let mut missing = Vec::new();
    let mut path = Path::new(path);
    loop {
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => break,
            Ok(_) => return Err(Errno::NOTDIR.into()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => missing.push(path),
            Err(error) => return Err(error),
        }
        let Some(parent) = path.parent() else { break };
        path = parent;
    }
    for directory in missing.into_iter().rev() {
        match DirBuilder::new().mode(0o755).create(directory) {
            Ok(()) => give(directory, user)?,
            // Somebody else made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Only root can give things away; any other server makes them as its own user.
fn give(path: &Path, user: &User) -> io::Result<()> {
    if rustix::process::geteuid().is_root() {
        chown(path, Some(user.uid), Some(user.gid))?;
    }
    Ok(())
}

/// Entries below `path`, by name, directories before what is in them; links are not followed. What cannot
/// be read below it (`/proc` is full of such) is left out; `path` itself must be readable.
pub(super) fn walk(path: &str, depth: u32, accounts: &Accounts) -> io::Result<Vec<EntryInfo>> {
    let mut entries = Vec::new();
    let mut pending = vec![(path.to_owned(), 0)];
    while let Some((path, level)) = pending.pop() {
        let is_directory = if level == 0 {
            true
        } else {
            let Ok(own) = fs::symlink_metadata(&path) else {
                continue;
            };
            entries.extend(entry::describe(&path, &own, accounts));
            own.is_dir()
        };
        if is_directory && level < depth {
            let names = match names(&path) {
                Err(error) if level == 0 => return Err(error),
                names => names.unwrap_or_default().into_iter().rev(),
            };
            let prefix = path.trim_end_matches('/');
            pending.extend(names.map(|name| (format!("{prefix}/{name}"), level + 1)));
        }
    }
    Ok(entries)
}

fn names(path: &str) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort_unstable();
    Ok(names)
}

/// Renames; across filesystems, and for directories that an overlay cannot rename, copies and removes.
pub(super) fn rename(source: &str, destination: &str) -> io::Result<()> {
    match rustix::fs::rename(source, destination) {
        Err(Errno::XDEV) => {
            copy(Path::new(source), Path::new(destination))?;
            remove(Path::new(source))
        }
        result => Ok(result?),
    }
}

/// Copies a tree with owners and modes.
fn copy(source: &Path, destination: &Path) -> io::Result<()> {
    let own = fs::symlink_metadata(source)?;
    if own.is_dir() {
        fs::create_dir(destination)?;
        for entry in fs::read_dir(source)? {
            let entry = entry?;
            copy(&entry.path(), &destination.join(entry.file_name()))?;
        }
    } else if own.is_symlink() {
        symlink(fs::read_link(source)?, destination)?;
    } else if own.is_file() {
        fs::copy(source, destination)?;
    } else {
        return Err(Errno::XDEV.into());
    }
    if rustix::process::geteuid().is_root() {
        lchown(destination, Some(own.uid()), Some(own.gid()))?;
    }
    if !own.is_symlink() {
        // After the change of owner, which clears setuid.
        fs::set_permissions(destination, own.permissions())?;
    }
    Ok(())
}

/// Removes whatever is at `path`; nothing there is fine.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(own) if own.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT | Errno::NOTDIR) => Ok(()),
            _ => Err(error),
        },
        Ok(()) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_copied_with_links_and_modes_when_it_cannot_be_renamed() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::copy("/etc/passwd", from.join("sub/file")).unwrap();
        fs::set_permissions(from.join("sub/file"), PermissionsExt::from_mode(0o4711)).unwrap();
        symlink("sub/file", from.join("link")).unwrap();
        copy(&from, &to).unwrap();
        let mode = fs::metadata(to.join("sub/file")).unwrap().mode() & 0o7777;
        assert_eq!(mode, 0o4711);
        assert_eq!(
            fs::read_link(to.join("link")).unwrap(),
            Path::new("sub/file")
        );
        assert_eq!(
            fs::read(to.join("link")).unwrap(),
            fs::read("/etc/passwd").unwrap()
        );
        use std::os::unix::fs::PermissionsExt;
    }
}
