//! This machine's `/usr` as a lower of an overlay: an idmapped clone of its mount, never written.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use sys::mount::{self, Attr, Depth};

/// What is cloned, and where it is seen in a sandbox.
pub(crate) const USR: &str = "/usr";

/// Clones `/usr` alone, without mounts below it.
pub(crate) fn clone_idmapped(userns: &OwnedFd) -> io::Result<OwnedFd> {
    let clone = mount::clone_tree(Path::new(USR), Depth::Single)?;
    let attr = Attr::MOUNT_ATTR_RDONLY | Attr::MOUNT_ATTR_NODEV;
    mount::set_attr(clone.as_fd(), attr, Depth::Single)?;
    mount::set_idmap(clone.as_fd(), userns.as_fd())?;
    Ok(clone)
}

/// Type of the filesystem that holds `/usr`, for an error message.
pub(crate) fn filesystem() -> String {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    type_of(&table, USR).unwrap_or("unknown").to_owned()
}

/// The type of the filesystem at `path` by a mount table: that of the longest mount point above it.
fn type_of<'a>(mountinfo: &'a str, path: &str) -> Option<&'a str> {
    let mut best: Option<(usize, &str)> = None;
    for line in mountinfo.lines() {
        let at = line.split(' ').nth(4)?;
        let kind = line.split(" - ").nth(1)?.split(' ').next()?;
        let above = Path::new(path).starts_with(at);
        // Of two at the same place the later one is on top.
        if above && best.is_none_or(|(length, _)| at.len() >= length) {
            best = Some((at.len(), kind));
        }
    }
    best.map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_and_topmost_mount_tells_the_type() {
        let root = "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n";
        let usr = "28 27 0:9 / /usr ro shared:2 - squashfs /dev/vdb ro\n";
        let over = "29 28 0:10 / /usr ro - zfs tank ro\n";
        let other = "30 27 0:11 / /us rw - tmpfs t rw\n";
        assert_eq!(type_of(root, USR), Some("ext4"));
        assert_eq!(type_of(&[root, usr, other].concat(), USR), Some("squashfs"));
        assert_eq!(type_of(&[root, usr, over].concat(), USR), Some("zfs"));
        assert_eq!(type_of("", USR), None);
    }
}
