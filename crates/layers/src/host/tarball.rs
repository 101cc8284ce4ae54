//! A tar with fixed times, for files made by Warren.

use tar::{Builder, EntryType, Header};

/// Writing to memory cannot fail; names here are short.
const IN_MEMORY: &str = "short names, written to memory";
/// 2020-01-01: fixed, so that the layer is the same each time, and late enough for zip files.
const MTIME: u64 = 1_577_836_800;

/// Collects files; owner is root unless said.
pub(super) struct Tarball(Builder<Vec<u8>>);

impl Tarball {
    pub(super) fn new() -> Self {
        Self(Builder::new(Vec::new()))
    }

    fn header(kind: EntryType, mode: u32, owner: u64, size: usize) -> Header {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(MTIME);
        header.set_size(size as u64);
        header
    }

    pub(super) fn directory(&mut self, path: &str, mode: u32, owner: u64) {
        let mut header = Self::header(EntryType::Directory, mode, owner, 0);
        let path = format!("{path}/");
        self.0
            .append_data(&mut header, path, &[][..])
            .expect(IN_MEMORY);
    }

    pub(super) fn file(&mut self, path: &str, mode: u32, content: &str) {
        self.owned_file(path, mode, 0, content);
    }

    pub(super) fn owned_file(&mut self, path: &str, mode: u32, owner: u64, content: &str) {
        let mut header = Self::header(EntryType::Regular, mode, owner, content.len());
        self.0
            .append_data(&mut header, path, content.as_bytes())
            .expect(IN_MEMORY);
    }

    pub(super) fn group(&mut self, path: &str, mode: u32, gid: u64, content: &str) {
        let mut header = Self::header(EntryType::Regular, mode, 0, content.len());
        header.set_gid(gid);
        self.0
            .append_data(&mut header, path, content.as_bytes())
            .expect(IN_MEMORY);
    }

    pub(super) fn symlink(&mut self, path: &str, target: &str) {
        let mut header = Self::header(EntryType::Symlink, 0o777, 0, 0);
        self.0
            .append_link(&mut header, path, target)
            .expect(IN_MEMORY);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0.into_inner().expect(IN_MEMORY)
    }
}
