//! Files in a tar archive, found by name, read in any order and by several threads.

use crate::decode::{Decoder, is_compressed};
use crate::error::{ImportError, StoreError};
use crate::store::Store;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Links followed from one name; archives of old docker link layers once.
const LINKS_MAX: usize = 8;
/// Most entries of an archive; each layer is a few.
const ENTRIES_MAX: usize = 100_000;

/// An archive with its table of contents in memory.
#[derive(Debug)]
pub(crate) struct Archive {
    file: File,
    path: PathBuf,
    members: BTreeMap<String, Member>,
}

#[derive(Debug)]
enum Member {
    File {
        offset: u64,
        size: u64,
    },
    /// To another member.
    Link(String),
}

impl Archive {
    /// Reads the table; a compressed archive is first unpacked into the store's directory, without a name.
    pub(crate) fn open(path: &Path, store: &Store) -> Result<Self, ImportError> {
        let failed = |source| ImportError::Read {
            path: path.to_owned(),
            source,
        };
        let mut file = File::open(path).map_err(failed)?;
        let mut magic = [0; 6];
        let n = file.read_at(&mut magic, 0).map_err(failed)?;
        if is_compressed(&magic[..n]) {
            let mut plain = store.spool()?;
            let mut decoder = Decoder::new(&file).map_err(failed)?;
            let mut buffer = vec![0; 1 << 20];
            loop {
                let n = decoder.read(&mut buffer).map_err(failed)?;
                if n == 0 {
                    break;
                }
                let written = io::Write::write_all(&mut plain, &buffer[..n]);
                written.map_err(|e| store.write_error(e))?;
            }
            io::Seek::rewind(&mut plain).map_err(StoreError::io("read", path))?;
            file = plain;
        }
        let members = table(&file).map_err(failed)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            members,
        })
    }

    /// Opens a member for reading; `None` if the archive has none of this name.
    pub(crate) fn member(&self, name: &str) -> Option<impl Read + Send + use<'_>> {
        let (offset, size) = self.find(name)?;
        Some(Section {
            file: &self.file,
            offset,
            left: size,
        })
    }

    /// A member's size.
    pub(crate) fn size(&self, name: &str) -> Option<u64> {
        self.find(name).map(|(_, size)| size)
    }

    fn find(&self, name: &str) -> Option<(u64, u64)> {
        let mut name = name.to_owned();
        for _ in 0..LINKS_MAX {
            match self.members.get(&name)? {
                Member::File { offset, size } => return Some((*offset, *size)),
                Member::Link(target) => target.clone_into(&mut name),
            }
        }
        None
    }

    /// A small member whole; `None` if there is none.
    pub(crate) fn document(&self, name: &str, max: u64) -> Result<Option<Vec<u8>>, ImportError> {
        let Some(member) = self.member(name) else {
            return Ok(None);
        };
        let failed = |source| ImportError::Read {
            path: self.path.join(name),
            source,
        };
        read_document(member, max).map(Some).map_err(failed)
    }
}

/// Reads to the end, but not more than `max` bytes.
pub(crate) fn read_document(mut from: impl Read, max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.by_ref().take(max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > max {
        let why = format!("the document is larger than {max} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(bytes)
}

fn table(file: &File) -> io::Result<BTreeMap<String, Member>> {
    let mut members = BTreeMap::new();
    let mut archive = tar::Archive::new(file);
    for entry in archive.entries_with_seek()? {
        let entry = entry?;
        let name = normal(&String::from_utf8_lossy(&entry.path_bytes()));
        let member = match entry.header().entry_type() {
            kind if kind.is_file() => Member::File {
                offset: entry.raw_file_position(),
                size: entry.size(),
            },
            tar::EntryType::Link => Member::Link(normal(&link(&entry))),
            tar::EntryType::Symlink => {
                let above = name.rsplit_once('/').map_or("", |(above, _)| above);
                Member::Link(normal(&format!("{above}/{}", link(&entry))))
            }
            _ => continue,
        };
        members.insert(name, member);
        if members.len() > ENTRIES_MAX {
            let why = format!("the archive has more than {ENTRIES_MAX} files");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
    }
    Ok(members)
}

fn link<R: Read>(entry: &tar::Entry<'_, R>) -> String {
    let target = entry.link_name_bytes().unwrap_or_default();
    String::from_utf8_lossy(&target).into_owned()
}

/// Without `.`, `..` and empty parts: names stay names within the archive.
fn normal(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// A run of a file, read by position.
struct Section<'f> {
    file: &'f File,
    offset: u64,
    left: u64,
}

impl Read for Section<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = usize::try_from(self.left).map_or(buffer.len(), |l| l.min(buffer.len()));
        let n = self.file.read_at(&mut buffer[..n], self.offset)?;
        self.offset += n as u64;
        self.left -= n as u64;
        Ok(n)
    }
}
