//! Records of running sandboxes, from which a restarted node adopts them.
//!
//! `<run_dir>/records/<id>.json`, mode 0600, written beside and renamed. Not synced: a container does not
//! outlive its machine, so a record that a power cut loses is one that would have been reaped anyway.

use crate::host::HostRecord;
use crate::sandbox::Facts;
use jiff::Timestamp;
use model::SandboxId;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Version of the record format; others are not adopted.
const VERSION: u32 = 1;

/// One running sandbox on disk.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Record {
    version: u32,
    pub(crate) facts: Facts,
    pub(crate) token: String,
    pub(crate) end_at: Timestamp,
    pub(crate) host: HostRecord,
}

impl Record {
    pub(crate) fn new(facts: Facts, token: String, end_at: Timestamp, host: HostRecord) -> Self {
        Self {
            version: VERSION,
            facts,
            token,
            end_at,
            host,
        }
    }
}

/// A record could not be handled.
#[derive(Debug, thiserror::Error)]
#[error("{action} record {path}", path = path.display())]
pub struct RecordError {
    action: &'static str,
    path: PathBuf,
    #[source]
    source: io::Error,
}

/// The directory of records.
#[derive(Debug)]
pub(crate) struct Records {
    dir: PathBuf,
}

impl Records {
    pub(crate) fn open(dir: PathBuf) -> Result<Self, RecordError> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&dir)
            .map_err(error("make directory of", &dir))?;
        Ok(Self { dir })
    }

    fn path(&self, id: &SandboxId) -> PathBuf {
        self.dir.join(format!("{id}.json"))
    }

    /// Writes or replaces one record. Two writers of one sandbox take turns by its own lock.
    #[expect(
        clippy::disallowed_methods,
        reason = "a rename without sync is the point here: see the module text"
    )]
    pub(crate) fn put(&self, record: &Record) -> Result<(), RecordError> {
        let path = self.path(&record.facts.id);
        let beside = path.with_extension("new");
        let json = serde_json::to_vec(record).expect("a record holds only text, numbers and maps");
        let write = || {
            let mut file = fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(&json)?;
            fs::rename(&beside, &path)
        };
        write().map_err(error("write", &path))
    }

    /// Forgets one record; one that is not there is forgotten already.
    pub(crate) fn delete(&self, id: &SandboxId) -> Result<(), RecordError> {
        let path = self.path(id);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(error("delete", &path)(e)),
            _ => Ok(()),
        }
    }

    /// All records that can be read; what cannot is logged and deleted, so that its sandbox is reaped.
    pub(crate) fn load(&self) -> Result<Vec<Record>, RecordError> {
        let list = error("list directory of", &self.dir);
        let entries: io::Result<Vec<_>> = fs::read_dir(&self.dir)
            .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect());
        let mut records = Vec::new();
        for path in entries.map_err(list)? {
            match read(&path) {
                Ok(record) => records.push(record),
                Err(e) => {
                    tracing::warn!(path = %path.display(), error = %e, "record is not usable");
                    fs::remove_file(&path).map_err(error("delete", &path))?;
                }
            }
        }
        Ok(records)
    }
}

fn read(path: &Path) -> io::Result<Record> {
    if path.extension().is_none_or(|e| e != "json") {
        return Err(io::Error::other("left by an interrupted write"));
    }
    let record: Record = serde_json::from_slice(&fs::read(path)?)?;
    if record.version != VERSION {
        let text = format!("version {} is not {VERSION}", record.version);
        return Err(io::Error::other(text));
    }
    Ok(record)
}

fn error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> RecordError {
    let path = path.to_owned();
    move |source| RecordError {
        action,
        path,
        source,
    }
}
