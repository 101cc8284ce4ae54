//! A layer that gives directories back the owner, mode and time that upper layers hide.
//!
//! Some tools write tars without entries for the directories above a file. Unpacked one over the other, such
//! a layer leaves an existing directory as it is; stacked as overlays, the directory that had to be invented
//! for it hides the described one below. The patch goes on top and repeats the descriptions.

use crate::error::ImportError;
use crate::hashing::digest_of;
use crate::ingest::{Ingest, Ingested};
use crate::layered::{Described, Layered};
use crate::source::{FoundImage, LayerBlob, Origin};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};

/// The patch for these layers, bottom to top; `None` if nothing is hidden.
///
/// The root is left out: a sandbox's own writable layer decides about it.
pub(crate) fn layer(
    ingest: &Ingest<'_>,
    layers: &[Ingested],
) -> Result<Option<Ingested>, ImportError> {
    let upper = layers
        .iter()
        .skip(1)
        .flat_map(|l| &l.record.implicit_directories);
    let implied: BTreeSet<&str> = upper
        .map(String::as_str)
        .filter(|p| !p.is_empty())
        .collect();
    if implied.is_empty() {
        return Ok(None);
    }
    let mut layered = Layered::open(ingest.store, layers)?;
    let mut entries: BTreeMap<String, Option<Described>> = BTreeMap::new();
    for path in implied {
        match layered.described(path)? {
            Some(described) if described.is_shadowed => {
                for (end, _) in path.match_indices('/') {
                    let above = &path[..end];
                    if !entries.contains_key(above) {
                        entries.insert(above.to_owned(), layered.described(above)?);
                    }
                }
                entries.insert(path.to_owned(), Some(described));
            }
            _ => {}
        }
    }
    if entries.is_empty() {
        return Ok(None);
    }
    let bytes = tar(&entries);
    let digest = digest_of(&bytes);
    let blob = LayerBlob {
        diff_id: digest,
        digest: None,
        size: Some(bytes.len() as u64),
        name: "of hidden directories".to_owned(),
    };
    ingest.layer(&InMemory(bytes), &blob).map(Some)
}

fn tar(entries: &BTreeMap<String, Option<Described>>) -> Vec<u8> {
    const IN_MEMORY: &str = "writing to memory cannot fail";
    let mut tar = tar::Builder::new(Vec::new());
    for (path, described) in entries {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(tar::EntryType::Directory);
        header.set_size(0);
        header.set_mode(0o755);
        let mut records: Vec<(String, Vec<u8>)> =
            vec![("path".to_owned(), format!("{path}/").into_bytes())];
        if let Some(Described { inode, xattrs, .. }) = described {
            header.set_mode(u32::from(inode.mode));
            records.push(("uid".to_owned(), inode.uid.to_string().into_bytes()));
            records.push(("gid".to_owned(), inode.gid.to_string().into_bytes()));
            records.push((
                "mtime".to_owned(),
                time(inode.mtime, inode.mtime_nsec).into_bytes(),
            ));
            for (name, value) in xattrs {
                let name = String::from_utf8_lossy(name);
                if !name.contains("overlay.") {
                    records.push((format!("SCHILY.xattr.{name}"), value.clone()));
                }
            }
        }
        let records = records
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_slice()));
        tar.append_pax_extensions(records).expect(IN_MEMORY);
        header.set_cksum();
        tar.append(&header, &[][..]).expect(IN_MEMORY);
    }
    tar.into_inner().expect(IN_MEMORY)
}

/// Seconds and nanoseconds as PAX writes them; nanoseconds count upwards, also before 1970.
fn time(seconds: i64, nanos: u32) -> String {
    match (seconds < 0, nanos) {
        (_, 0) => seconds.to_string(),
        (false, n) => format!("{seconds}.{n:09}"),
        (true, n) => format!("-{}.{:09}", (seconds + 1).unsigned_abs(), 1_000_000_000 - n),
    }
}

struct InMemory(Vec<u8>);

impl Origin for InMemory {
    fn find(&self) -> Result<FoundImage, ImportError> {
        unreachable!("a patch is a layer, not an image")
    }

    fn open(&self, _: &LayerBlob) -> Result<Box<dyn Read + Send + '_>, ImportError> {
        Ok(Box::new(Cursor::new(&self.0)))
    }
}
