//! The layer store: one file per layer, named by its digest, there whole or not at all.
//!
//! A layer is written as `.<pid>-<n>.tmp` in the same directory, synced, then renamed. Its writer holds a
//! lock on it meanwhile; temps without one are removed when the store is opened.

use crate::error::{StoreError, is_full};
use model::Digest;
use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const SUFFIX: &str = ".erofs";
const TEMP_SUFFIX: &str = ".tmp";
static SERIAL: AtomicU64 = AtomicU64::new(0);

/// The directory of layers.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    /// How often each layer is pinned. Held over a removal, so that a pin comes before or after it.
    pins: Arc<Mutex<HashMap<Digest, usize>>>,
    /// One lock per layer that is being converted, by diff id.
    flights: Mutex<HashMap<Digest, Arc<Mutex<()>>>>,
}

/// Keeps a layer from being collected while it lives.
#[derive(Debug)]
pub struct Pin {
    layer: Digest,
    pins: Arc<Mutex<HashMap<Digest, usize>>>,
}

impl Pin {
    /// The layer that is kept.
    #[must_use]
    pub fn layer(&self) -> Digest {
        self.layer
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = lock(&self.pins);
        if let Some(count) = pins.get_mut(&self.layer) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&self.layer);
            }
        }
    }
}

/// The maps here stay whole whatever panics while they are held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store {
    /// Makes the directory if needed and clears what dead processes left.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(directory).map_err(StoreError::io("make", directory))?;
        let store = Self {
            directory: directory.to_owned(),
            pins: Arc::default(),
            flights: Mutex::default(),
        };
        for name in store.names()? {
            if !name.ends_with(TEMP_SUFFIX) {
                continue;
            }
            let path = directory.join(&name);
            // Gone meanwhile is as good as removed.
            let is_stale = File::open(&path).is_ok_and(|file| file.try_lock().is_ok());
            if is_stale {
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
            }
        }
        Ok(store)
    }

    /// Where the layer's file is or would be.
    #[must_use]
    pub fn path(&self, layer: &Digest) -> PathBuf {
        self.directory.join(layer.hex() + SUFFIX)
    }

    /// Whether the layer is complete here.
    #[must_use]
    pub fn contains(&self, layer: &Digest) -> bool {
        self.path(layer).is_file()
    }

    /// Bytes that the layer's file takes on the disk.
    pub fn disk_bytes(&self, layer: &Digest) -> Result<u64, StoreError> {
        use std::os::unix::fs::MetadataExt;
        let path = self.path(layer);
        let metadata = fs::metadata(&path).map_err(StoreError::io("look at", &path))?;
        Ok(metadata.blocks() * 512)
    }

    /// All complete layers.
    pub fn list(&self) -> Result<BTreeSet<Digest>, StoreError> {
        let names = self.names()?;
        let hex = names.iter().filter_map(|name| name.strip_suffix(SUFFIX));
        Ok(hex
            .filter_map(|hex| format!("sha256:{hex}").parse().ok())
            .collect())
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let failed = |e| StoreError::io("list", &self.directory)(e);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            names.extend(entry.map_err(failed)?.file_name().into_string());
        }
        Ok(names)
    }

    /// Opens a layer for reading.
    pub fn open_layer(&self, layer: &Digest) -> Result<erofs::Image<File>, StoreError> {
        let path = self.path(layer);
        let file = File::open(&path).map_err(StoreError::io("open", &path))?;
        let damaged = |source| StoreError::Damaged {
            layer: *layer,
            source,
        };
        erofs::Image::open(file).map_err(damaged)
    }

    /// Keeps the layer from being collected, whether it is here yet or not.
    #[must_use]
    pub fn pin(&self, layer: Digest) -> Pin {
        *lock(&self.pins).entry(layer).or_default() += 1;
        Pin {
            layer,
            pins: Arc::clone(&self.pins),
        }
    }

    /// Removes the layers that are neither in `keep` nor pinned; returns them.
    pub(crate) fn retain(&self, keep: &BTreeSet<Digest>) -> Result<Vec<Digest>, StoreError> {
        let mut removed = Vec::new();
        for layer in self.list()? {
            let pins = lock(&self.pins);
            if !keep.contains(&layer) && !pins.contains_key(&layer) {
                let path = self.path(&layer);
                fs::remove_file(&path).map_err(StoreError::io("remove", &path))?;
                removed.push(layer);
            }
        }
        Ok(removed)
    }

    /// Runs `work` while no other thread does so for the same diff id.
    pub(crate) fn alone<T>(&self, diff_id: Digest, work: impl FnOnce() -> T) -> T {
        let flight = Arc::clone(lock(&self.flights).entry(diff_id).or_default());
        let result = {
            let _alone = lock(&flight);
            work()
        };
        let mut flights = lock(&self.flights);
        // One here and one in the map: nobody else waits.
        if Arc::strong_count(&flight) == 2 {
            flights.remove(&diff_id);
        }
        result
    }

    /// An empty file that becomes a layer or goes away.
    pub(crate) fn temp(&self) -> Result<Temp, StoreError> {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}-{serial}{TEMP_SUFFIX}", std::process::id());
        let path = self.directory.join(name);
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create_new(true).open(&path);
        let file = file.map_err(StoreError::io("make", &path))?;
        file.lock().map_err(StoreError::io("lock", &path))?;
        Ok(Temp {
            file,
            path,
            is_kept: false,
        })
    }

    /// An empty file without a name.
    pub(crate) fn spool(&self) -> Result<File, StoreError> {
        let temp = self.temp()?;
        let path = temp.path.clone();
        temp.file.try_clone().map_err(StoreError::io("open", path))
    }

    /// Gives a finished temp its name; the same layer already there is as good.
    pub(crate) fn keep(&self, mut temp: Temp, layer: &Digest) -> Result<(), StoreError> {
        temp.file
            .sync_all()
            .map_err(StoreError::io("write", &temp.path))?;
        let path = self.path(layer);
        sys::durable::rename(&temp.path, &path).map_err(StoreError::io("rename to", &path))?;
        temp.is_kept = true;
        Ok(())
    }

    /// The error for a failed write into the store's directory.
    pub(crate) fn write_error(&self, source: std::io::Error) -> StoreError {
        let directory = self.directory.clone();
        match is_full(&source) {
            true => StoreError::DiskFull { directory },
            false => StoreError::Io {
                action: "write a layer in",
                path: directory,
                source,
            },
        }
    }
}

/// A layer in the making; removed unless kept.
#[derive(Debug)]
pub(crate) struct Temp {
    pub(crate) file: File,
    path: PathBuf,
    is_kept: bool,
}

impl Drop for Temp {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "a temporary layer stays behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temps_without_a_writer_are_removed_and_those_in_use_stay() {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::open(dir.path()).expect("opens");
        let living = store.temp().expect("temp");
        let stale = dir.path().join(".1-0.tmp");
        drop(File::create(&stale).expect("creates"));
        drop(Store::open(dir.path()).expect("opens"));
        assert!(!stale.exists() && living.path.exists());
        let path = living.path.clone();
        drop(living);
        assert!(!path.exists());
    }

    #[test]
    fn pinned_and_kept_layers_survive_a_collection() {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::open(dir.path()).expect("opens");
        let layers = [1, 2, 3].map(|n| Digest::from_sha256([n; 32]));
        for layer in &layers {
            store
                .keep(store.temp().expect("temp"), layer)
                .expect("keeps");
        }
        let pin = store.pin(layers[0]);
        let keep = BTreeSet::from([layers[1]]);
        assert_eq!(store.retain(&keep).expect("collects"), [layers[2]]);
        drop(pin);
        assert_eq!(store.retain(&keep).expect("collects"), [layers[0]]);
        assert_eq!(store.list().expect("lists"), keep);
    }

    #[test]
    fn a_full_disk_is_told_with_the_directory() {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::open(dir.path()).expect("opens");
        let error = store.write_error(std::io::ErrorKind::StorageFull.into());
        assert!(
            error
                .to_string()
                .contains(&dir.path().display().to_string())
        );
        assert_eq!(error.kind(), crate::ErrorKind::Exhausted);
    }
}
