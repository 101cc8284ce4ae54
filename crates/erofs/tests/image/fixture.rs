//! Tars with all that the `tar` crate's builder can and cannot say, and images as plain maps.

use erofs::{ConvertError, FileKind, Image, Inode, Limits, Summary, convert};
use std::collections::BTreeMap;
use std::io::Cursor;
use tar::{EntryType, Header};

/// A header with fixed owner and time.
pub(crate) fn header(kind: EntryType, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(if kind == EntryType::Directory {
        0o755
    } else {
        0o644
    });
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(1_000_000_000);
    header.set_size(size);
    header
}

/// Collects entries; `finish` gives the stream.
pub(crate) struct TarOf(tar::Builder<Vec<u8>>);

impl TarOf {
    pub(crate) fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    pub(crate) fn file(mut self, path: &str, data: &[u8]) -> Self {
        let mut header = header(EntryType::Regular, data.len() as u64);
        self.0
            .append_data(&mut header, path, data)
            .expect("in memory");
        self
    }

    pub(crate) fn directory(mut self, path: &str) -> Self {
        let mut header = header(EntryType::Directory, 0);
        self.0
            .append_data(&mut header, path, &[][..])
            .expect("in memory");
        self
    }

    pub(crate) fn link(mut self, kind: EntryType, path: &str, target: &str) -> Self {
        let mut header = header(kind, 0);
        self.0
            .append_link(&mut header, path, target)
            .expect("in memory");
        self
    }

    /// Records for the next entry.
    pub(crate) fn pax(mut self, records: &[(&str, &[u8])]) -> Self {
        let records = records.iter().copied();
        self.0.append_pax_extensions(records).expect("in memory");
        self
    }

    /// A header as it is, with a path that the builder would refuse.
    pub(crate) fn raw(mut self, path: &[u8], mut header: Header, data: &[u8]) -> Self {
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.set_cksum();
        self.0.append(&header, data).expect("in memory");
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0.into_inner().expect("in memory")
    }
}

/// Converts in memory.
pub(crate) fn convert_bytes(tar: &[u8]) -> Result<(Vec<u8>, Summary), ConvertError> {
    let mut out = Cursor::new(Vec::new());
    let spool = Cursor::new(Vec::new());
    let summary = convert(tar, spool, &mut out, &Limits::default())?;
    let image = out.into_inner();
    assert_eq!(image.len() as u64, summary.image_bytes);
    Ok((image, summary))
}

/// A file as the tests compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) inode: Inode,
    /// Content of a file or target of a link.
    pub(crate) content: Vec<u8>,
    pub(crate) xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Seen {
    pub(crate) fn xattr(&self, name: &str) -> Option<&[u8]> {
        self.xattrs.get(name.as_bytes()).map(Vec::as_slice)
    }

    pub(crate) fn is_opaque(&self) -> bool {
        let both = ["trusted.overlay.opaque", "user.overlay.opaque"];
        both.iter().all(|name| self.xattr(name) == Some(b"y"))
    }
}

/// Everything in an image by path.
pub(crate) fn read_back(image: &[u8]) -> BTreeMap<String, Seen> {
    let mut reader = Image::open(Cursor::new(image)).expect("opens");
    let mut found = Vec::new();
    let walked = reader.walk(|path, inode| {
        let path = String::from_utf8(path.to_vec()).expect("test names are text");
        found.push((path, inode.clone()));
    });
    walked.expect("walks");
    let mut out = BTreeMap::new();
    for (path, inode) in found {
        let content = match inode.kind {
            FileKind::File => reader.read_file(&inode, 1 << 30).expect("reads"),
            FileKind::Symlink => reader.read_link(&inode).expect("reads"),
            _ => Vec::new(),
        };
        let xattrs = reader.xattrs(&inode).expect("reads").into_iter().collect();
        out.insert(
            path,
            Seen {
                inode,
                content,
                xattrs,
            },
        );
    }
    out
}

/// Converts and reads back.
pub(crate) fn files(tar: &[u8]) -> BTreeMap<String, Seen> {
    read_back(&convert_bytes(tar).expect("converts").0)
}

/// The error's text.
pub(crate) fn refusal(tar: &[u8]) -> String {
    let error = convert_bytes(tar).expect_err("is refused");
    assert!(error.is_bad_input(), "{error}");
    error.to_string()
}
