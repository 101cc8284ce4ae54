//! The real catalog behind [`Templates`]: layers and templates under the data directory.

use crate::machine::Machine;
use crate::templates::{ResolvedTemplate, TemplateError, Templates};
use api::ErrorKind;
use api::warren::{NewAlias, PullProgress, PullRequest, TemplateInfo, TemplateLayer};
use jiff::Timestamp;
use layers::{
    BuildRecord, CatalogError, Credentials, ImageSource, ImportError, ImportRequest, NewBuild,
    Phase, Progress, TemplateRecord, Use,
};
use model::{Digest, Resources, TemplateRef};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

/// Templates of one node.
#[derive(Debug)]
pub struct Library {
    library: layers::Library,
    machine: Arc<Machine>,
}

impl Library {
    /// Opens the catalog and makes the built-in template, if this machine allows it.
    pub fn open(data_dir: &Path, machine: Arc<Machine>) -> Result<Self, CatalogError> {
        let library = layers::Library::open(data_dir)?;
        if let Err(error) = library.prepare_host(Path::new("/")) {
            tracing::warn!(error = chain(&error), "template host is not available");
        }
        Ok(Self { library, machine })
    }

    fn info(&self, record: &TemplateRecord) -> Result<TemplateInfo, TemplateError> {
        let newest = record
            .tags
            .iter()
            .max_by_key(|(_, build)| build.created_at_ms);
        let Some((_, build)) = newest else {
            return Err(failed(
                ErrorKind::Internal,
                "read template",
                "it has no build",
            ));
        };
        let process = &build.config.process;
        let names = std::iter::once(&record.name).chain(&record.aliases);
        Ok(TemplateInfo {
            template_id: record.template_id.clone(),
            names: names
                .flat_map(|name| record.tags.keys().map(move |tag| format!("{name}:{tag}")))
                .collect(),
            source: Some(build.image.clone()),
            layers: self.layers(build)?,
            env: process.env.clone(),
            user: process.user.clone(),
            workdir: process.workdir.clone(),
            cpu_count: build.resources.cpu_count,
            memory_mb: build.resources.memory_mib,
            disk_size_mb: build.resources.disk_mib,
            builtin: build.uses_host_usr,
            created_at: timestamp(record.created_at_ms),
            updated_at: timestamp(record.updated_at_ms),
        })
    }

    fn layers(&self, build: &BuildRecord) -> Result<Vec<TemplateLayer>, TemplateError> {
        let layers = build.layers.iter().map(|digest| {
            let size = std::fs::metadata(self.library.store().path(digest)).map_err(|e| {
                failed(
                    ErrorKind::Internal,
                    &format!("read size of layer {digest}"),
                    e,
                )
            })?;
            Ok(TemplateLayer {
                digest: digest.to_string(),
                size_bytes: size.len(),
            })
        });
        layers.collect()
    }
}

impl Templates for Library {
    fn resolve(&self, reference: &TemplateRef) -> Result<ResolvedTemplate, TemplateError> {
        let resolved = self
            .library
            .resolve(reference)
            .map_err(|e| catalog(e, reference))?;
        Ok(ResolvedTemplate {
            id: resolved.template_id,
            alias: Some(resolved.name),
            plan: resolved.plan,
        })
    }

    fn list(&self) -> Result<Vec<TemplateInfo>, TemplateError> {
        let listing = self
            .library
            .list()
            .map_err(|e| failed(kind(e.kind()), "list templates", e))?;
        for damaged in &listing.damaged {
            tracing::warn!(path = %damaged.path.display(), reason = damaged.reason, "damaged template");
        }
        listing
            .templates
            .iter()
            .map(|record| self.info(record))
            .collect()
    }

    fn inspect(&self, reference: &TemplateRef) -> Result<TemplateInfo, TemplateError> {
        let record = self
            .library
            .inspect(reference)
            .map_err(|e| catalog(e, reference))?;
        self.info(&record)
    }

    fn delete(&self, reference: &TemplateRef, live: &[Digest]) -> Result<(), TemplateError> {
        let what = format!("delete template {reference}");
        self.library
            .remove(reference, Use::Unused, live)
            .map_err(|e| failed(kind(e.kind()), &what, e))?;
        if let Err(error) = self.machine.unmount_unused(&self.kept(live.to_vec())) {
            tracing::warn!(error = chain(&error), "a layer stays mounted");
        }
        Ok(())
    }

    fn alias(&self, alias: &NewAlias) -> Result<TemplateInfo, TemplateError> {
        let target = parse(&alias.target)?;
        let name = parse(&alias.name)?;
        let record = match name.explicit_tag() {
            Some(tag) if name.name() == target.name() && name.namespace() == target.namespace() => {
                self.library.catalog().tag(&target, tag, now_ms())
            }
            Some(_) => {
                let why = "a tag goes with the template's own name";
                return Err(failed(
                    ErrorKind::Invalid,
                    &format!("name template {name}"),
                    why,
                ));
            }
            None => self.library.catalog().add_alias(&target, &name),
        };
        record
            .map_err(|e| catalog(e, &target))
            .and_then(|record| self.info(&record))
    }

    fn pull(
        &self,
        request: &PullRequest,
        progress: &(dyn Fn(PullProgress) + Sync),
    ) -> Result<TemplateInfo, TemplateError> {
        let what = format!("pull {}", request.image);
        let name = parse(&request.name)?;
        let resources = resources(request).map_err(|e| failed(ErrorKind::Invalid, &what, e))?;
        let source: ImageSource = request
            .image
            .parse()
            .map_err(|e: ImportError| failed(kind(e.kind()), &what, e))?;
        let credentials = credentials(request);
        let imported = self
            .library
            .import(
                &ImportRequest {
                    source,
                    credentials,
                },
                &|step| progress(told(&step)),
            )
            .map_err(|e| failed(kind(e.kind()), &what, e))?;
        let build = NewBuild {
            layers: imported.layers.clone(),
            image: imported.reference.clone(),
            manifest_digest: Some(imported.manifest_digest),
            config: imported.config.clone(),
            resources,
            start_cmd: None,
            ready_cmd: None,
            size_bytes: imported.size_bytes,
        };
        let record = self
            .library
            .put(&name, None, build, now_ms())
            .map_err(|e| failed(kind(e.kind()), &what, e))?;
        self.info(&record)
    }
}

impl Library {
    /// Layers that must stay mounted: those of sandboxes and of all templates.
    fn kept(&self, mut live: Vec<Digest>) -> Vec<Digest> {
        if let Ok(listing) = self.library.list() {
            let builds = listing.templates.iter().flat_map(|t| t.tags.values());
            live.extend(builds.flat_map(|b| b.layers.iter().copied()));
        }
        live
    }
}

fn told(step: &Progress) -> PullProgress {
    let word = match step.phase {
        Phase::Cached => "reuse",
        Phase::Reading => "convert",
        Phase::Done => "commit",
    };
    PullProgress {
        step: word.to_owned(),
        item: Some(step.layer.to_string()),
        done_bytes: Some(step.done_bytes),
        total_bytes: step.total_bytes,
    }
}

fn resources(request: &PullRequest) -> Result<Resources, model::ResourcesError> {
    let default = Resources::default();
    Resources {
        cpu_count: request.cpu_count.unwrap_or(default.cpu_count),
        memory_mib: request.memory_mb.unwrap_or(default.memory_mib),
        disk_mib: request.disk_size_mb.unwrap_or(default.disk_mib),
        ..default
    }
    .check()
}

fn credentials(request: &PullRequest) -> Credentials {
    match (&request.username, &request.password) {
        (Some(username), password) => Credentials::Basic {
            username: username.clone(),
            password: password.clone().unwrap_or_default(),
        },
        (None, Some(token)) => Credentials::Bearer(token.clone()),
        (None, None) => Credentials::Anonymous,
    }
}

fn parse(text: &str) -> Result<TemplateRef, TemplateError> {
    text.parse()
        .map_err(|e| failed(ErrorKind::Invalid, "read template name", e))
}

fn now_ms() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

fn timestamp(ms: u64) -> Timestamp {
    i64::try_from(ms)
        .ok()
        .and_then(|ms| Timestamp::from_millisecond(ms).ok())
        .unwrap_or_default()
}

fn kind(kind: layers::ErrorKind) -> ErrorKind {
    match kind {
        layers::ErrorKind::Invalid => ErrorKind::Invalid,
        layers::ErrorKind::NotFound => ErrorKind::NotFound,
        layers::ErrorKind::Conflict => ErrorKind::Conflict,
        layers::ErrorKind::Denied => ErrorKind::Forbidden,
        layers::ErrorKind::Exhausted | layers::ErrorKind::Unavailable => ErrorKind::Unavailable,
        layers::ErrorKind::Corrupt | layers::ErrorKind::Internal => ErrorKind::Internal,
    }
}

fn catalog(error: CatalogError, wanted: &TemplateRef) -> TemplateError {
    match error.kind() {
        layers::ErrorKind::NotFound => TemplateError::not_found(&wanted.to_string()),
        other => failed(kind(other), &format!("use template {wanted}"), error),
    }
}

fn failed(
    kind: ErrorKind,
    what: &str,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> TemplateError {
    let source = source.into();
    TemplateError {
        kind,
        message: format!("{what}: {}", chain(source.as_ref())),
        source: None,
    }
}

/// The error and its causes in one line.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        text = format!("{text}: {cause}");
        at = cause.source();
    }
    text
}
