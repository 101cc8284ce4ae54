//! What the node needs from the catalog, and who uses which template.

use api::ErrorKind;
use api::warren::{NewAlias, PullProgress, PullRequest, TemplateInfo};
use jiff::Timestamp;
use model::{Digest, RootPlan, TemplateRef};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A template, decided down to its layers.
#[derive(Debug, Clone)]
pub struct ResolvedTemplate {
    /// Its id.
    pub id: String,
    /// Its name, if it has one.
    pub alias: Option<String>,
    /// Its root.
    pub plan: RootPlan,
}

/// An operation on a template failed.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TemplateError {
    /// Kind, for the status.
    pub kind: ErrorKind,
    /// What was attempted on what, why it failed, what to do.
    pub message: String,
    /// Cause, for the log.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl TemplateError {
    /// No template has this name or id.
    #[must_use]
    pub fn not_found(name: &str) -> Self {
        Self {
            kind: ErrorKind::NotFound,
            message: format!("template {name:?} was not found; `warren template ls` lists them"),
            source: None,
        }
    }
}

/// The catalog below the node. All calls block; callers bring a thread.
pub trait Templates: Send + Sync + Debug {
    /// Decides a reference (name or id) down to its layers. On the path of each create: keep it in memory.
    fn resolve(&self, reference: &TemplateRef) -> Result<ResolvedTemplate, TemplateError>;

    /// All templates, by name.
    fn list(&self) -> Result<Vec<TemplateInfo>, TemplateError>;

    /// One template by name or id.
    fn inspect(&self, reference: &TemplateRef) -> Result<TemplateInfo, TemplateError>;

    /// Deletes one template by name or id; the caller has made sure that nothing uses it. `live` are the
    /// layers that sandboxes use.
    fn delete(&self, reference: &TemplateRef, live: &[Digest]) -> Result<(), TemplateError>;

    /// Gives a template a further name.
    fn alias(&self, alias: &NewAlias) -> Result<TemplateInfo, TemplateError>;

    /// Imports an image and names it. `progress` may be called from any thread and does not block. A pull
    /// goes on when its client goes away: the next one finds the layers.
    fn pull(
        &self,
        request: &PullRequest,
        progress: &(dyn Fn(PullProgress) + Sync),
    ) -> Result<TemplateInfo, TemplateError>;
}

/// Use of one template since the node started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Use {
    /// Sandboxes that exist.
    pub(crate) live: usize,
    /// Creates in all.
    pub(crate) spawned: u64,
    /// Last of them.
    pub(crate) last: Option<Timestamp>,
}

/// What sandboxes use.
#[derive(Debug, Default)]
struct Users {
    templates: HashMap<String, Use>,
    layers: HashMap<Digest, usize>,
}

impl Users {
    fn add(&mut self, template: &str, layers: &[Digest]) -> &mut Use {
        for layer in layers {
            *self.layers.entry(*layer).or_default() += 1;
        }
        let used = self.templates.entry(template.to_owned()).or_default();
        used.live += 1;
        used
    }

    fn remove(&mut self, template: &str, layers: &[Digest]) {
        for layer in layers {
            if let Entry::Occupied(mut entry) = self.layers.entry(*layer) {
                *entry.get_mut() -= 1;
                if *entry.get() == 0 {
                    entry.remove();
                }
            }
        }
        if let Some(used) = self.templates.get_mut(template) {
            used.live = used.live.saturating_sub(1);
        }
    }
}

/// Counts the users of each template and layer, so that none is deleted under a sandbox.
#[derive(Debug)]
pub(crate) struct Catalog {
    templates: Arc<dyn Templates>,
    /// Guards counts; held while resolving and deleting, so that the two cannot cross. Never across await.
    users: Mutex<Users>,
}

impl Catalog {
    pub(crate) fn new(templates: Arc<dyn Templates>) -> Self {
        Self {
            templates,
            users: Mutex::default(),
        }
    }

    pub(crate) fn templates(&self) -> &Arc<dyn Templates> {
        &self.templates
    }

    fn lock(&self) -> MutexGuard<'_, Users> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Resolves and counts one more user; [`Catalog::release`] takes it back.
    pub(crate) fn take(
        &self,
        reference: &TemplateRef,
        now: Timestamp,
    ) -> Result<ResolvedTemplate, TemplateError> {
        let mut users = self.lock();
        let resolved = self.templates.resolve(reference)?;
        let layers: Vec<Digest> = resolved.plan.layers().copied().collect();
        let used = users.add(&resolved.id, &layers);
        used.spawned += 1;
        used.last = Some(now);
        Ok(resolved)
    }

    /// Counts a user that an earlier node process had.
    pub(crate) fn adopt(&self, id: &str, layers: &[Digest]) {
        self.lock().add(id, layers);
    }

    pub(crate) fn release(&self, id: &str, layers: &[Digest]) {
        self.lock().remove(id, layers);
    }

    pub(crate) fn usage(&self, id: &str) -> Use {
        self.lock().templates.get(id).copied().unwrap_or_default()
    }

    /// Deletes a template that nothing uses.
    pub(crate) fn delete(&self, reference: &TemplateRef) -> Result<(), TemplateError> {
        let users = self.lock();
        let info = self.templates.inspect(reference)?;
        let live = users.templates.get(&info.template_id).map_or(0, |u| u.live);
        if live > 0 {
            return Err(TemplateError {
                kind: ErrorKind::Conflict,
                message: format!(
                    "template {reference} is in use by {live} sandbox(es); end them first"
                ),
                source: None,
            });
        }
        let layers: Vec<Digest> = users.layers.keys().copied().collect();
        self.templates.delete(reference, &layers)
    }
}
