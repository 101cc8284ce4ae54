//! One OCI layer into the store: decompress, verify, convert, name, remember.

use crate::decode::Decoder;
use crate::error::ImportError;
use crate::hashing::Hashing;
use crate::progress::{Phase, Progress};
use crate::record::{self, FORMAT, LayerRecord};
use crate::source::{LayerBlob, Origin};
use crate::store::{Pin, Store};
use erofs::{ConvertError, Limits};
use model::Digest;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Downloads of one layer before its failure is final.
const ATTEMPTS: u32 = 3;
/// Before the second attempt; doubles.
const BACKOFF: Duration = Duration::from_millis(300);

/// What OCI layers became, by blob digest and by diff id.
#[derive(Debug)]
pub(crate) struct LayerIndex {
    directory: PathBuf,
}

impl LayerIndex {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.join(digest.hex() + ".json")
    }

    /// A damaged record is as good as none: the layer is converted again.
    fn get(&self, digest: &Digest) -> Option<LayerRecord> {
        let path = self.path(digest);
        let bytes = std::fs::read(&path).ok()?;
        let parsed = record::parse(&bytes);
        parsed
            .inspect_err(|e| tracing::warn!(path = %path.display(), error = %e, "ignored"))
            .ok()
    }

    fn put(&self, digest: &Digest, record: &LayerRecord) -> Result<(), ImportError> {
        let path = self.path(digest);
        let written = sys::durable::write(&path, &record::bytes(record), 0o644);
        Ok(written.map_err(crate::CatalogError::io("write", path))?)
    }

    /// Forgets what became of layers that are gone.
    pub(crate) fn forget(&self, gone: &[Digest]) -> Result<(), crate::CatalogError> {
        let failed = |path: &Path| crate::CatalogError::io("clear", path.to_owned());
        if gone.is_empty() {
            return Ok(());
        }
        for entry in std::fs::read_dir(&self.directory).map_err(|e| failed(&self.directory)(e))? {
            let path = entry.map_err(|e| failed(&self.directory)(e))?.path();
            let bytes = std::fs::read(&path).map_err(|e| failed(&path)(e))?;
            let stale = record::parse::<LayerRecord>(&bytes).is_ok_and(|r| gone.contains(&r.layer));
            if stale {
                std::fs::remove_file(&path).map_err(|e| failed(&path)(e))?;
            }
        }
        Ok(())
    }
}

/// Brings layers into a store and tells how it goes.
pub(crate) struct Ingest<'i> {
    pub(crate) store: &'i Store,
    pub(crate) index: &'i LayerIndex,
    pub(crate) observe: &'i (dyn Fn(Progress) + Sync),
}

/// A layer that is in the store and stays.
#[derive(Debug)]
pub(crate) struct Ingested {
    pub(crate) record: LayerRecord,
    pub(crate) pin: Pin,
}

impl Ingest<'_> {
    /// The layer, converted now or before; one thread at a time for each diff id.
    pub(crate) fn layer(
        &self,
        origin: &dyn Origin,
        blob: &LayerBlob,
    ) -> Result<Ingested, ImportError> {
        self.store.alone(blob.diff_id, || {
            if let Some(known) = self.known(blob)? {
                self.tell(blob, Phase::Cached, blob.size.unwrap_or_default());
                return Ok(known);
            }
            let mut attempt = 1;
            loop {
                match self.read(origin, blob) {
                    Err(e) if e.is_retryable() && attempt < ATTEMPTS => {
                        tracing::warn!(layer = %blob.name, error = %e, attempt, "trying again");
                        std::thread::sleep(BACKOFF * 2u32.pow(attempt - 1));
                        attempt += 1;
                    }
                    result => return result,
                }
            }
        })
    }

    fn tell(&self, blob: &LayerBlob, phase: Phase, done_bytes: u64) {
        let (layer, total_bytes) = (blob.diff_id, blob.size);
        (self.observe)(Progress {
            layer,
            phase,
            done_bytes,
            total_bytes,
        });
    }

    fn known(&self, blob: &LayerBlob) -> Result<Option<Ingested>, ImportError> {
        let by_blob = blob.digest.and_then(|digest| self.index.get(&digest));
        if let Some(found) = &by_blob {
            check(
                "the plain tar of the layer",
                blob,
                blob.diff_id,
                found.diff_id,
            )?;
        }
        let Some(record) = by_blob.or_else(|| self.index.get(&blob.diff_id)) else {
            return Ok(None);
        };
        // The pin first: after it a collection leaves the layer, if it is still there.
        let pin = self.store.pin(record.layer);
        let found = self.store.contains(&record.layer);
        Ok(found.then_some(Ingested { record, pin }))
    }

    fn read(&self, origin: &dyn Origin, blob: &LayerBlob) -> Result<Ingested, ImportError> {
        self.tell(blob, Phase::Reading, 0);
        let input = origin.open(blob)?;
        let input = Hashing::new(input, |done| self.tell(blob, Phase::Reading, done));
        let decoder = Decoder::new(input).map_err(|source| convert_error(blob, 0, source))?;
        let mut plain = Hashing::new(decoder, |_| ());
        let temp = self.store.temp()?;
        let spool = self.store.spool()?;
        let converted = erofs::convert(&mut plain, spool, &temp.file, &Limits::default());
        let summary = match converted {
            Ok(summary) => summary,
            Err(ConvertError::Spool { source } | ConvertError::Write { source }) => {
                return Err(self.store.write_error(source).into());
            }
            Err(error) => return Err(blame(blob, plain, error)),
        };
        let offset = plain.count();
        let (diff_id, decoder) = plain.finish().map_err(|e| convert_error(blob, offset, e))?;
        let finished = decoder.into_inner().finish();
        let (digest, _) = finished.map_err(|e| convert_error(blob, offset, e))?;
        if let Some(wanted) = blob.digest {
            check("layer", blob, wanted, digest)?;
        }
        check("the plain tar of layer", blob, blob.diff_id, diff_id)?;
        let mut image = &temp.file;
        let named = image.rewind().and_then(|()| erofs::layer_digest(image));
        let layer = Digest::from_sha256(named.map_err(|e| self.store.write_error(e))?);
        let pin = self.store.pin(layer);
        self.store.keep(temp, &layer)?;
        let names = summary.implicit_directories.into_iter();
        let record = LayerRecord {
            format: FORMAT,
            layer,
            diff_id,
            image_bytes: summary.image_bytes,
            // A name that is no text keeps the guessed metadata.
            implicit_directories: names.filter_map(|n| String::from_utf8(n).ok()).collect(),
        };
        if let Some(digest) = blob.digest {
            self.index.put(&digest, &record)?;
        }
        self.index.put(&diff_id, &record)?;
        self.tell(blob, Phase::Done, blob.size.unwrap_or(offset));
        Ok(Ingested { record, pin })
    }
}

fn check(what: &str, blob: &LayerBlob, wanted: Digest, actual: Digest) -> Result<(), ImportError> {
    if wanted == actual {
        return Ok(());
    }
    let what = format!("{what} {}", blob.name);
    Err(ImportError::DigestMismatch {
        what,
        wanted,
        actual,
    })
}

fn convert_error(blob: &LayerBlob, offset: u64, source: std::io::Error) -> ImportError {
    let source = ConvertError::Read { offset, source };
    ImportError::Convert {
        layer: blob.name.clone(),
        source,
    }
}

/// Why a layer could not be converted: if its bytes are not those that were promised, that is the reason.
fn blame<R, F, G>(
    blob: &LayerBlob,
    plain: Hashing<Decoder<Hashing<R, F>>, G>,
    error: ConvertError,
) -> ImportError
where
    R: Read,
    F: FnMut(u64),
    G: FnMut(u64),
{
    let as_is = |source| ImportError::Convert {
        layer: blob.name.clone(),
        source,
    };
    let (true, Some(wanted)) = (error.is_bad_input(), blob.digest) else {
        return as_is(error);
    };
    match plain.into_inner().into_inner().finish() {
        Ok((actual, _)) => check("layer", blob, wanted, actual)
            .err()
            .unwrap_or(as_is(error)),
        Err(_) => as_is(error),
    }
}
