//! A whole image: its documents first, then its layers side by side.

use crate::credentials::Credentials;
use crate::error::ImportError;
use crate::image_config::ImageConfig;
use crate::ingest::{Ingest, Ingested};
use crate::patch;
use crate::registry::Registry;
use crate::source::{FoundImage, ImageSource, Origin};
use crate::store::Pin;
use model::Digest;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Layers that are read at once.
const PARALLEL: usize = 4;

/// What to import and how to get at it.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Where the image is.
    pub source: ImageSource,
    /// What opens its registry.
    pub credentials: Credentials,
}

/// An image whose layers are all in the store. They cannot be collected while this lives.
#[derive(Debug)]
pub struct ImportedImage {
    /// Where it came from.
    pub reference: String,
    /// Digest of its manifest; of its configuration where an archive has none.
    pub manifest_digest: Digest,
    /// How processes start in it.
    pub config: ImageConfig,
    /// Bottom to top.
    pub layers: Vec<Digest>,
    /// Bytes of the layers' images.
    pub size_bytes: u64,
    pins: Vec<Pin>,
}

impl ImportedImage {
    /// What keeps its layers in the store.
    #[must_use]
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }
}

/// Imports on threads of its own, so that it may be called from anywhere.
pub(crate) fn import(
    ingest: &Ingest<'_>,
    request: &ImportRequest,
) -> Result<ImportedImage, ImportError> {
    std::thread::scope(|scope| {
        let work = scope.spawn(|| run(ingest, request));
        work.join().unwrap_or_else(|panic| resume_unwind(panic))
    })
}

fn run(ingest: &Ingest<'_>, request: &ImportRequest) -> Result<ImportedImage, ImportError> {
    let origin: Box<dyn Origin> = match &request.source {
        ImageSource::Registry(reference) => {
            Box::new(Registry::new(reference, &request.credentials)?)
        }
        local => local
            .open_local(ingest.store)?
            .expect("all others are local"),
    };
    let found = origin.find()?;
    let mut layers = all_layers(ingest, origin.as_ref(), &found)?;
    layers.extend(patch::layer(ingest, &layers)?);
    Ok(ImportedImage {
        reference: request.source.to_string(),
        manifest_digest: found.manifest_digest,
        config: found.config.config,
        layers: layers.iter().map(|l| l.record.layer).collect(),
        size_bytes: layers.iter().map(|l| l.record.image_bytes).sum(),
        pins: layers.into_iter().map(|l| l.pin).collect(),
    })
}

/// All layers in order; the first failure stops those that have not begun.
fn all_layers(
    ingest: &Ingest<'_>,
    origin: &dyn Origin,
    image: &FoundImage,
) -> Result<Vec<Ingested>, ImportError> {
    let count = image.layers.len();
    let next = AtomicUsize::new(0);
    let failed = AtomicBool::new(false);
    let results: Mutex<Vec<(usize, Result<Ingested, ImportError>)>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..count.min(PARALLEL) {
            scope.spawn(|| {
                while !failed.load(Ordering::Relaxed) {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(blob) = image.layers.get(at) else {
                        return;
                    };
                    let result = ingest.layer(origin, blob);
                    failed.fetch_or(result.is_err(), Ordering::Relaxed);
                    results
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push((at, result));
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    let layers = results
        .into_iter()
        .map(|(_, r)| r)
        .collect::<Result<Vec<_>, _>>()?;
    if layers.len() < count {
        return Err(ImportError::Stopped);
    }
    Ok(layers)
}
