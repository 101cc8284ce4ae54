//! Templates as JSON files, one each, changed under one lock, read from memory.
//!
//! A damaged file is told by name and touches no other template. Changes of another process are seen by
//! the time stamp of the directory.

use crate::error::CatalogError;
use crate::hashing::digest_of;
use crate::image_config::ImageConfig;
use crate::record::{self, BuildRecord, FORMAT, TemplateRecord};
use model::{Digest, Resources, TemplateRef};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

/// Characters of a template id.
const ID_LEN: usize = 20;
const SUFFIX: &str = ".json";

/// The templates of one data directory.
#[derive(Debug)]
pub struct Catalog {
    directory: PathBuf,
    lock_path: PathBuf,
    state: RwLock<Arc<State>>,
}

#[derive(Debug, Default)]
struct State {
    stamp: Option<SystemTime>,
    records: BTreeMap<String, Arc<TemplateRecord>>,
    damaged: Vec<Damaged>,
}

/// A record that could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Its file.
    pub path: PathBuf,
    /// What is wrong.
    pub reason: String,
}

/// All templates, and what could not be read.
#[derive(Debug, Clone)]
pub struct Listing {
    /// By template id.
    pub templates: Vec<Arc<TemplateRecord>>,
    /// Files that are damaged.
    pub damaged: Vec<Damaged>,
}

/// A build before it has an id and a time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewBuild {
    /// Bottom to top.
    pub layers: Vec<Digest>,
    /// Where the image came from.
    pub image: String,
    /// Digest of its manifest.
    pub manifest_digest: Option<Digest>,
    /// How processes start in it.
    pub config: ImageConfig,
    /// What a sandbox of it may use.
    pub resources: Resources,
    /// Command run when a sandbox starts.
    pub start_cmd: Option<String>,
    /// Command that succeeds once it is ready.
    pub ready_cmd: Option<String>,
    /// Bytes of its layers.
    pub size_bytes: u64,
}

/// Whether sandboxes use the template that is to be removed; the caller knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// None does.
    Unused,
    /// At least one does.
    InUse,
}

impl Catalog {
    /// Makes the directory if needed and reads all records.
    pub fn open(catalog: &Path) -> Result<Self, CatalogError> {
        let directory = catalog.join("templates");
        fs::create_dir_all(&directory).map_err(CatalogError::io("make", &directory))?;
        let opened = Self {
            lock_path: catalog.join(".lock"),
            directory,
            state: RwLock::default(),
        };
        let state = opened.load()?;
        for Damaged { path, reason } in &state.damaged {
            tracing::warn!(path = %path.display(), reason, "a template record is damaged");
        }
        opened.set(state);
        Ok(opened)
    }

    fn set(&self, state: State) {
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(state);
    }

    fn path(&self, id: &str) -> PathBuf {
        self.directory.join(format!("{id}{SUFFIX}"))
    }

    fn stamp(&self) -> Result<SystemTime, CatalogError> {
        let stamp = fs::metadata(&self.directory).and_then(|m| m.modified());
        stamp.map_err(CatalogError::io("look at", &self.directory))
    }

    fn load(&self) -> Result<State, CatalogError> {
        let failed = |e| CatalogError::io("list", &self.directory)(e);
        // The stamp first: a change while reading is then seen the next time.
        let mut state = State {
            stamp: Some(self.stamp()?),
            ..State::default()
        };
        for entry in fs::read_dir(&self.directory).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path
                .file_name()
                .and_then(|n| n.to_str())
                .unwrap_or_default();
            let Some(id) = name.strip_suffix(SUFFIX).filter(|n| !n.starts_with('.')) else {
                continue;
            };
            let read = fs::read(&path).map_err(|e| e.to_string());
            let parsed = read.and_then(|bytes| record::parse::<TemplateRecord>(&bytes));
            let own = |r: TemplateRecord| match r.template_id == id {
                true => Ok(r),
                false => Err(format!("it holds the template {}", r.template_id)),
            };
            match parsed.and_then(own) {
                Ok(record) => drop(state.records.insert(id.to_owned(), Arc::new(record))),
                Err(reason) => state.damaged.push(Damaged { path, reason }),
            }
        }
        Ok(state)
    }

    fn known(&self) -> Arc<State> {
        Arc::clone(&self.state.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The present state, read again only if the directory changed.
    fn state(&self) -> Result<Arc<State>, CatalogError> {
        let stamp = self.stamp()?;
        let known = self.known();
        if known.stamp == Some(stamp) {
            return Ok(known);
        }
        self.set(self.load()?);
        Ok(self.known())
    }

    /// Runs `change` on the state as it is on disk, alone among all processes.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut State) -> Result<T, CatalogError>,
    ) -> Result<T, CatalogError> {
        let failed = |e| CatalogError::io("lock", &self.lock_path)(e);
        let lock = File::create(&self.lock_path).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut state = self.load()?;
        let result = change(&mut state);
        // The stamp is of before the change: the next look reads again.
        state.stamp = None;
        self.set(state);
        result
    }

    fn write(
        &self,
        state: &mut State,
        record: TemplateRecord,
    ) -> Result<Arc<TemplateRecord>, CatalogError> {
        let path = self.path(&record.template_id);
        let written = sys::durable::write(&path, &record::bytes(&record), 0o644);
        written.map_err(CatalogError::io("write", path))?;
        let record = Arc::new(record);
        state
            .records
            .insert(record.template_id.clone(), Arc::clone(&record));
        Ok(record)
    }

    /// All templates by id, and what could not be read.
    pub fn list(&self) -> Result<Listing, CatalogError> {
        let state = self.state()?;
        let templates = state.records.values().cloned().collect();
        Ok(Listing {
            templates,
            damaged: state.damaged.clone(),
        })
    }

    /// The template with this name, alias or id. A tag is not looked at.
    pub fn get(&self, wanted: &TemplateRef) -> Result<Arc<TemplateRecord>, CatalogError> {
        let state = self.state()?;
        find(&state, wanted).ok_or_else(|| self.absent(wanted))
    }

    /// The template and the build of the tag that is meant.
    pub fn get_build(
        &self,
        wanted: &TemplateRef,
    ) -> Result<(Arc<TemplateRecord>, BuildRecord), CatalogError> {
        let record = self.get(wanted)?;
        let build = record.tags.get(wanted.tag()).cloned();
        let (name, tag) = (record.name.clone(), wanted.tag().to_owned());
        build
            .map(|b| (record, b))
            .ok_or(CatalogError::TagNotFound { name, tag })
    }

    /// Why there is no such template: perhaps its file is damaged.
    fn absent(&self, wanted: &TemplateRef) -> CatalogError {
        let path = self.path(wanted.name());
        let state = self.known();
        match state.damaged.iter().find(|d| d.path == path) {
            Some(Damaged { path, reason }) => CatalogError::Damaged {
                path: path.clone(),
                reason: reason.clone(),
            },
            None => CatalogError::NotFound {
                name: wanted.to_string(),
            },
        }
    }

    /// Puts a build under the name's tag: of the template that has the name, else of a new one with the id
    /// `id`, or one made from the name and the time.
    pub fn put(
        &self,
        name: &TemplateRef,
        id: Option<&str>,
        build: NewBuild,
        now_ms: u64,
    ) -> Result<Arc<TemplateRecord>, CatalogError> {
        let key = key(name);
        let id = match id {
            Some(id) => id.to_owned(),
            None => derived_id(&format!("{key}\0{now_ms}")),
        };
        check_id(&id)?;
        self.change(|state| {
            let found = find(state, name).map(|r| (*r).clone());
            if found.is_none() && state.records.contains_key(&id) {
                return Err(CatalogError::NameTaken {
                    name: id.clone(),
                    owner: id.clone(),
                });
            }
            let mut record = found.unwrap_or_else(|| TemplateRecord {
                format: FORMAT,
                template_id: id.clone(),
                name: key,
                aliases: Vec::new(),
                tags: BTreeMap::new(),
                created_at_ms: now_ms,
                updated_at_ms: now_ms,
                spawn_count: 0,
                last_spawned_at_ms: None,
            });
            record.updated_at_ms = now_ms;
            let build = with_id(&record.template_id, name.tag(), build, now_ms);
            record.tags.insert(name.tag().to_owned(), build);
            self.write(state, record)
        })
    }

    /// Points one more tag of the template at the build of `wanted`.
    pub fn tag(
        &self,
        wanted: &TemplateRef,
        tag: &str,
        now_ms: u64,
    ) -> Result<Arc<TemplateRecord>, CatalogError> {
        self.update(wanted, |record| {
            let (name, from) = (record.name.clone(), wanted.tag().to_owned());
            let build = record.tags.get(wanted.tag()).cloned();
            let build = build.ok_or(CatalogError::TagNotFound { name, tag: from })?;
            record.tags.insert(tag.to_owned(), build);
            record.updated_at_ms = now_ms;
            Ok(())
        })
    }

    /// Gives the template one more name.
    pub fn add_alias(
        &self,
        wanted: &TemplateRef,
        alias: &TemplateRef,
    ) -> Result<Arc<TemplateRecord>, CatalogError> {
        let name = key(alias);
        let owner = self.state().map(|state| find(&state, alias))?;
        let own = self.get(wanted)?.template_id.clone();
        match owner {
            Some(owner) if owner.template_id == own => return Ok(owner),
            Some(owner) => {
                return Err(CatalogError::NameTaken {
                    name,
                    owner: owner.template_id.clone(),
                });
            }
            None => {}
        }
        self.update(wanted, |record| {
            record.aliases.push(name);
            Ok(())
        })
    }

    /// Counts sandboxes that were started from it; costs a read of the whole catalog, so callers gather
    /// counts. Not synced: a lost count is no loss.
    pub fn add_spawns(&self, id: &str, count: u64, now_ms: u64) -> Result<(), CatalogError> {
        self.change(|state| {
            let Some(record) = state.records.get(id) else {
                return Ok(()); // Removed meanwhile, or built in.
            };
            let mut record = (**record).clone();
            record.spawn_count += count;
            record.last_spawned_at_ms = Some(now_ms);
            let path = self.path(id);
            let written = sys::durable::write_volatile(&path, &record::bytes(&record), 0o644);
            written.map_err(CatalogError::io("write", path))?;
            state.records.insert(id.to_owned(), Arc::new(record));
            Ok(())
        })
    }

    fn update(
        &self,
        wanted: &TemplateRef,
        edit: impl FnOnce(&mut TemplateRecord) -> Result<(), CatalogError>,
    ) -> Result<Arc<TemplateRecord>, CatalogError> {
        self.change(|state| {
            let name = wanted.to_string();
            let found = find(state, wanted).ok_or(CatalogError::NotFound { name })?;
            let mut record = (*found).clone();
            edit(&mut record)?;
            self.write(state, record)
        })
    }

    /// Removes the template, or only the tag that is written. Layers stay until they are collected.
    pub fn remove(&self, wanted: &TemplateRef, used: Use) -> Result<(), CatalogError> {
        drop(self.get(wanted)?);
        self.change(|state| {
            let name = wanted.to_string();
            let Some(found) = find(state, wanted) else {
                return Err(CatalogError::NotFound { name });
            };
            if used == Use::InUse {
                return Err(CatalogError::InUse { name });
            }
            let mut record = (*found).clone();
            if let Some(tag) = wanted.explicit_tag() {
                if record.tags.remove(tag).is_none() {
                    return Err(CatalogError::TagNotFound {
                        name: record.name,
                        tag: tag.to_owned(),
                    });
                }
                if !record.tags.is_empty() {
                    return self.write(state, record).map(drop);
                }
            }
            let path = self.path(&record.template_id);
            fs::remove_file(&path).map_err(CatalogError::io("remove", path))?;
            state.records.remove(&record.template_id);
            Ok(())
        })
    }
}

/// `[namespace/]name`, as records have it.
pub(crate) fn key(name: &TemplateRef) -> String {
    match name.namespace() {
        Some(namespace) => format!("{namespace}/{}", name.name()),
        None => name.name().to_owned(),
    }
}

fn find(state: &State, wanted: &TemplateRef) -> Option<Arc<TemplateRecord>> {
    let key = key(wanted);
    let mut records = state.records.values();
    let by_name = records.find(|r| r.name == key || r.aliases.contains(&key));
    by_name.or_else(|| state.records.get(&key)).cloned()
}

fn check_id(id: &str) -> Result<(), CatalogError> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    if id.len() == ID_LEN && id.bytes().all(fits) {
        return Ok(());
    }
    Err(CatalogError::BadId { id: id.to_owned() })
}

/// A template id that looks random and is not.
pub(crate) fn derived_id(seed: &str) -> String {
    const ALPHABET: &[u8; 36] = b"abcdefghijklmnopqrstuvwxyz0123456789";
    let digest = digest_of(seed.as_bytes());
    let letters = digest.as_bytes().iter().take(ID_LEN);
    letters
        .map(|b| char::from(ALPHABET[usize::from(*b) % ALPHABET.len()]))
        .collect()
}

/// A build id in the form of a UUID, made from what the build is.
pub(crate) fn derived_build_id(seed: &str) -> String {
    let hex = digest_of(seed.as_bytes()).hex();
    // Version 8: own making; variant as the standard has it.
    format!(
        "{}-{}-8{}-8{}-{}",
        &hex[..8],
        &hex[8..12],
        &hex[13..16],
        &hex[17..20],
        &hex[20..32]
    )
}

fn with_id(template_id: &str, tag: &str, build: NewBuild, now_ms: u64) -> BuildRecord {
    let seed = format!("{template_id}\0{tag}\0{now_ms}\0{:?}", build.layers);
    BuildRecord {
        build_id: derived_build_id(&seed),
        layers: build.layers,
        uses_host_usr: false,
        image: build.image,
        manifest_digest: build.manifest_digest,
        config: build.config,
        resources: build.resources,
        start_cmd: build.start_cmd,
        ready_cmd: build.ready_cmd,
        created_at_ms: now_ms,
        size_bytes: build.size_bytes,
    }
}
