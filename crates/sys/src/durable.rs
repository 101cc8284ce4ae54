//! Whole-file writes that are either there or not.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

static SERIAL: AtomicU64 = AtomicU64::new(0);

/// Replaces `path` so that it survives a power loss: temp, fsync, rename, fsync of the directory.
pub fn write(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(path, bytes, mode, true)
}

/// Replaces `path` in one step but without waiting for the disk: for records that need not outlive the machine.
pub fn write_volatile(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    put(path, bytes, mode, false)
}

/// Makes `path` only if nothing is there; durable. `AlreadyExists` otherwise.
pub fn create_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let temp = fill_temp(path, bytes, mode, true)?;
    let linked = std::fs::hard_link(&temp, path);
    let removed = std::fs::remove_file(&temp);
    linked.map_err(|e| named(e, path))?;
    removed.map_err(|e| named(e, &temp))?;
    sync_parent(path)
}

/// Renames durably within one filesystem.
pub fn rename(from: &Path, to: &Path) -> io::Result<()> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the module that the ban points to"
    )]
    std::fs::rename(from, to).map_err(|e| named(e, to))?;
    sync_parent(to)
}

/// Adds the path to an error's text, keeping its kind.
pub fn named(error: io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn put(path: &Path, bytes: &[u8], mode: u32, sync: bool) -> io::Result<()> {
    let temp = fill_temp(path, bytes, mode, sync)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the module that the ban points to"
    )]
    let renamed = std::fs::rename(&temp, path);
    if let Err(e) = renamed {
        // The first error is the one to tell; a left-over temp is only litter.
        drop(std::fs::remove_file(&temp));
        return Err(named(e, path));
    }
    if sync { sync_parent(path) } else { Ok(()) }
}

fn fill_temp(path: &Path, bytes: &[u8], mode: u32, sync: bool) -> io::Result<PathBuf> {
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.{serial}.tmp", std::process::id()));
    let temp = path.with_file_name(name);
    let result = (|| {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temp)?;
        file.write_all(bytes)?;
        if sync { file.sync_all() } else { Ok(()) }
    })();
    if let Err(e) = result {
        drop(std::fs::remove_file(&temp));
        return Err(named(e, path));
    }
    Ok(temp)
}

fn sync_parent(path: &Path) -> io::Result<()> {
    let parent = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    File::open(parent)
        .and_then(|d| d.sync_all())
        .map_err(|e| named(e, parent))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_write_replaces_whole_and_leaves_no_temp() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("record");
        write(&path, b"one", 0o600).expect("write");
        write_volatile(&path, b"two", 0o600).expect("write");
        assert_eq!(std::fs::read(&path).expect("read"), b"two");
        let mode = std::fs::metadata(&path).expect("stat").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn create_new_never_replaces() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("key");
        create_new(&path, b"first", 0o600).expect("create");
        let error = create_new(&path, b"second", 0o600).expect_err("exists");
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).expect("read"), b"first");
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn errors_name_the_path() {
        let error = write(Path::new("/nonexistent/x"), b"", 0o600).expect_err("no directory");
        assert!(error.to_string().contains("/nonexistent/x"), "{error}");
    }
}
