//! Store, catalog and the built-in template as one: what a node holds.

use crate::catalog::{Catalog, Listing, NewBuild, Use, key};
use crate::error::{CatalogError, HostError, ImportError, StoreError};
use crate::host::{self, HostTemplate};
use crate::import::{self, ImportRequest, ImportedImage};
use crate::ingest::{Ingest, LayerIndex};
use crate::progress::Progress;
use crate::record::{BuildRecord, TemplateRecord};
use crate::store::Store;
use model::{Digest, RootPlan, RootSource, TemplateRef};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

/// Everything about layers and templates under one data directory.
#[derive(Debug)]
pub struct Library {
    store: Store,
    catalog: Catalog,
    index: LayerIndex,
    host: RwLock<Result<Arc<HostTemplate>, String>>,
}

/// A template that is fully decided: all its layers are in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedTemplate {
    /// 20 of `[a-z0-9]`.
    pub template_id: String,
    /// In the form of a UUID.
    pub build_id: String,
    /// The template's name, `[namespace/]name`.
    pub name: String,
    /// What to mount and how processes start in it.
    pub plan: RootPlan,
    /// The image's entrypoint and command.
    pub image_command: Vec<String>,
    /// Command run when a sandbox starts.
    pub start_cmd: Option<String>,
    /// Command that succeeds once it is ready.
    pub ready_cmd: Option<String>,
}

impl Library {
    /// Makes what is missing under the data directory and clears what a crash left. The template `host` is
    /// not there before [`Self::prepare_host`].
    pub fn open(data: &Path) -> Result<Self, CatalogError> {
        let catalog = data.join("catalog");
        let index = catalog.join("oci");
        std::fs::create_dir_all(&index).map_err(CatalogError::io("make", &index))?;
        let cache = data.join("cache");
        let store = Store::open(&cache).map_err(|error| match error {
            StoreError::Io {
                action,
                path,
                source,
            } => CatalogError::Io {
                action,
                path,
                source,
            },
            other => CatalogError::Io {
                action: "open",
                path: cache,
                source: std::io::Error::other(other),
            },
        })?;
        Ok(Self {
            store,
            catalog: Catalog::open(&catalog)?,
            index: LayerIndex::new(index),
            host: RwLock::new(Err("it has not been prepared".to_owned())),
        })
    }

    /// The layers.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The templates that users made.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Brings an image into the store. `observe` is called from several threads.
    pub fn import(
        &self,
        request: &ImportRequest,
        observe: &(dyn Fn(Progress) + Sync),
    ) -> Result<ImportedImage, ImportError> {
        let (store, index) = (&self.store, &self.index);
        import::import(
            &Ingest {
                store,
                index,
                observe,
            },
            request,
        )
    }

    /// Builds the layer of the template `host` from the root at `root` (of this machine: `/`). A failure is
    /// remembered as the reason why the template is not available.
    pub fn prepare_host(&self, root: &Path) -> Result<Arc<HostTemplate>, HostError> {
        let ingest = Ingest {
            store: &self.store,
            index: &self.index,
            observe: &|_| (),
        };
        let made = host::prepare(&ingest, root).map(Arc::new);
        let kept = made.as_ref().map(Arc::clone).map_err(ToString::to_string);
        *self.host.write().unwrap_or_else(PoisonError::into_inner) = kept;
        made
    }

    fn host(&self) -> Result<Arc<HostTemplate>, CatalogError> {
        let host = self.host.read().unwrap_or_else(PoisonError::into_inner);
        let unavailable = |reason: &String| CatalogError::Unavailable {
            name: host::NAME.to_owned(),
            reason: reason.clone(),
        };
        host.as_ref().map(Arc::clone).map_err(unavailable)
    }

    /// Whether the reference means the built-in template.
    fn is_host(&self, wanted: &TemplateRef) -> Result<bool, CatalogError> {
        let key = key(wanted);
        if key == host::NAME || key == host::template_id() {
            return Ok(true);
        }
        if key != host::ALIAS {
            return Ok(false);
        }
        match self.catalog.get(wanted) {
            Ok(_) => Ok(false),
            Err(CatalogError::NotFound { .. }) => Ok(true),
            Err(e) => Err(e),
        }
    }

    /// Puts an imported image under a name; the template `host` cannot be replaced.
    pub fn put(
        &self,
        name: &TemplateRef,
        id: Option<&str>,
        build: NewBuild,
        now_ms: u64,
    ) -> Result<Arc<TemplateRecord>, CatalogError> {
        if key(name) == host::NAME || key(name) == host::template_id() {
            return Err(CatalogError::BuiltIn {
                name: name.to_string(),
            });
        }
        self.check_layers(&key(name), &build.layers)?;
        self.catalog.put(name, id, build, now_ms)
    }

    fn check_layers(&self, name: &str, layers: &[Digest]) -> Result<(), CatalogError> {
        match layers.iter().find(|l| !self.store.contains(l)) {
            None => Ok(()),
            Some(layer) => Err(CatalogError::LayerMissing {
                name: name.to_owned(),
                layer: *layer,
            }),
        }
    }

    /// Every template; the built-in one first, if it is available.
    pub fn list(&self) -> Result<Listing, CatalogError> {
        let mut listing = self.catalog.list()?;
        if let Ok(host) = self.host() {
            let has_alias = self.is_host(&alias())?;
            listing
                .templates
                .insert(0, Arc::new(host.record(has_alias)));
        }
        Ok(listing)
    }

    /// One template whole, by name, alias or id.
    pub fn inspect(&self, wanted: &TemplateRef) -> Result<Arc<TemplateRecord>, CatalogError> {
        if self.is_host(wanted)? {
            let has_alias = self.is_host(&alias())?;
            return Ok(Arc::new(self.host()?.record(has_alias)));
        }
        self.catalog.get(wanted)
    }

    /// Decides a template: nothing is left open, and all its layers are there.
    pub fn resolve(&self, wanted: &TemplateRef) -> Result<ResolvedTemplate, CatalogError> {
        let (record, build) = if self.is_host(wanted)? {
            let record = Arc::new(self.host()?.record(false));
            let build = record.tags.get(wanted.tag()).cloned();
            let (name, tag) = (record.name.clone(), wanted.tag().to_owned());
            (
                record,
                build.ok_or(CatalogError::TagNotFound { name, tag })?,
            )
        } else {
            self.catalog.get_build(wanted)?
        };
        self.check_layers(&record.name, &build.layers)?;
        Ok(resolved(&record, build))
    }

    /// Removes a template or one of its tags, then the layers that nothing needs any more.
    /// `live` are the layers of running sandboxes.
    pub fn remove(
        &self,
        wanted: &TemplateRef,
        used: Use,
        live: &[Digest],
    ) -> Result<(), ImportError> {
        if self.is_host(wanted)? {
            let name = wanted.to_string();
            return Err(CatalogError::BuiltIn { name }.into());
        }
        self.catalog.remove(wanted, used)?;
        // The template is gone whatever follows; a damaged neighbour only keeps its layers on the disk.
        if let Err(error) = self.collect(live) {
            tracing::warn!(%error, "layers stay in the store");
        }
        Ok(())
    }

    /// Removes layers that no template, no sandbox in `live` and no pin needs; returns them. With a damaged
    /// record nothing is removed: what it needs is not known.
    pub fn collect(&self, live: &[Digest]) -> Result<Vec<Digest>, ImportError> {
        let listing = self.catalog.list()?;
        if let Some(damaged) = listing.damaged.into_iter().next() {
            let (path, reason) = (damaged.path, damaged.reason);
            return Err(CatalogError::Damaged { path, reason }.into());
        }
        let mut keep: BTreeSet<Digest> = live.iter().copied().collect();
        let builds = listing.templates.iter().flat_map(|t| t.tags.values());
        keep.extend(builds.flat_map(|b| b.layers.iter().copied()));
        keep.extend(self.host().ok().map(|h| h.layer()));
        let removed = self.store.retain(&keep)?;
        self.index.forget(&removed)?;
        Ok(removed)
    }
}

fn alias() -> TemplateRef {
    host::ALIAS.parse().expect("a plain name")
}

fn resolved(record: &TemplateRecord, build: BuildRecord) -> ResolvedTemplate {
    let host = build.uses_host_usr.then_some(RootSource::HostUsr);
    let layers = build.layers.into_iter().map(RootSource::Layer);
    let command = build.config.entrypoint.into_iter().chain(build.config.cmd);
    ResolvedTemplate {
        template_id: record.template_id.clone(),
        build_id: build.build_id,
        name: record.name.clone(),
        plan: RootPlan {
            sources: host.into_iter().chain(layers).collect(),
            process: build.config.process,
            resources: build.resources,
        },
        image_command: command.collect(),
        start_cmd: build.start_cmd,
        ready_cmd: build.ready_cmd,
    }
}
