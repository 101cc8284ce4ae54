//! Making a sandbox: admit, claim a shell, attach its root, record, register.
//!
//! All of it runs in one hop to a blocking thread, so a client that hangs up leaves a whole sandbox or none.

use crate::daemon::Daemon;
use crate::end::watch;
use crate::error::ApiError;
use crate::host::{HostShell, Order};
use crate::observe::Stages;
use crate::registry::Refused;
use crate::sandbox::{Facts, Sandbox, truncated};
use crate::templates::ResolvedTemplate;
use api::ErrorKind;
use jiff::Timestamp;
use model::attach::{AttachFile, AttachRequest, Confinement, Init};
use model::{Cause, Digest, TemplateRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Open files that sandboxed processes begin with; what build tools and servers expect.
const OPEN_FILES_SOFT: u64 = 65_536;
/// Open files they may raise that to.
const OPEN_FILES_HARD: u64 = 1_048_576;
/// `RLIMIT_NOFILE` of Linux.
const RLIMIT_NOFILE: u32 = 7;

/// A checked wish for a sandbox.
#[derive(Debug, Clone)]
pub(crate) struct Creation {
    pub(crate) template: TemplateRef,
    pub(crate) timeout: Duration,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) internet: Option<bool>,
}

impl Daemon {
    /// Makes a sandbox whose agent serves.
    pub(crate) async fn create(
        self: &Arc<Self>,
        creation: Creation,
    ) -> Result<Arc<Sandbox>, ApiError> {
        let stages = Stages::begin();
        let daemon = Arc::clone(self);
        tokio::task::spawn_blocking(move || daemon.create_blocking(creation, stages))
            .await
            .unwrap_or_else(|error| Err(ApiError::internal(&error)))
    }

    fn create_blocking(
        self: Arc<Self>,
        creation: Creation,
        mut stages: Stages,
    ) -> Result<Arc<Sandbox>, ApiError> {
        let _place = self.registry.reserve().map_err(refused)?;
        let template = self.catalog.take(&creation.template, Timestamp::now())?;
        stages.end("admit");
        let template_id = template.id.clone();
        let layers: Vec<Digest> = template.plan.layers().copied().collect();
        let made = self.claim_and_attach(creation, template, &mut stages);
        match &made {
            Ok(sandbox) => self.announce(sandbox, &stages),
            Err(_) => {
                self.catalog.release(&template_id, &layers);
                metrics::counter!("node_ends_total", "cause" => Cause::StartFailed.as_str())
                    .increment(1);
            }
        }
        made
    }

    fn claim_and_attach(
        self: &Arc<Self>,
        creation: Creation,
        template: ResolvedTemplate,
        stages: &mut Stages,
    ) -> Result<Arc<Sandbox>, ApiError> {
        let shell = self.claim()?;
        stages.end("claim");
        let attached = self.attach(&shell, creation, template);
        let sandbox = match attached {
            Ok(sandbox) => Arc::new(sandbox),
            Err(error) => {
                self.discard(&shell);
                return Err(error);
            }
        };
        stages.end("attach");
        if let Err(error) = sandbox.store(&self.records) {
            self.discard(&shell);
            return Err(ApiError::internal(&error));
        }
        if !self.registry.insert(&sandbox) {
            sandbox.begin_end(Cause::Evicted, &self.records);
            self.discard(&shell);
            return Err(refused(Refused::Closed));
        }
        tokio::spawn(watch(Arc::clone(self), Arc::clone(&sandbox)));
        Ok(sandbox)
    }

    /// A shell of the pool, or one made now.
    fn claim(&self) -> Result<HostShell, ApiError> {
        let waiting = self.pool.claim();
        let result = if waiting.is_some() { "hit" } else { "miss" };
        metrics::counter!("node_pool_claims_total", "result" => result).increment(1);
        match waiting {
            Some(shell) => Ok(shell),
            None => Ok(self.host.prepare_shell(&self.pool.new_id())?),
        }
    }

    fn attach(
        &self,
        shell: &HostShell,
        creation: Creation,
        template: ResolvedTemplate,
    ) -> Result<Sandbox, ApiError> {
        let token = self.seed.envd_token(shell.id());
        let resources = template.plan.resources;
        let layers = template.plan.layers().copied().collect();
        let mut attached = shell.clone();
        attached.record.internet = creation.internet.unwrap_or(true);
        let order = Order {
            request: self.request(shell, &creation, &template, &token),
            internet: attached.record.internet,
            plan: template.plan,
        };
        self.host.attach(shell, order)?;
        let started_at = truncated(Timestamp::now());
        let facts = Facts {
            id: shell.id().clone(),
            template_id: template.id,
            alias: template.alias,
            layers,
            metadata: creation.metadata,
            resources,
            internet: creation.internet,
            started_at,
        };
        let end_at = started_at + creation.timeout;
        Ok(Sandbox::running(facts, token, attached, end_at))
    }

    fn request(
        &self,
        shell: &HostShell,
        creation: &Creation,
        template: &ResolvedTemplate,
        token: &str,
    ) -> AttachRequest {
        let process = &template.plan.process;
        let hostname = shell.id().to_string();
        AttachRequest {
            sandbox_id: shell.id().to_string(),
            template_id: template.id.clone(),
            files: self.files(&hostname),
            hostname,
            extra_mounts: Vec::new(),
            confinement: Confinement {
                no_new_privs: false,
                rlimits: vec![open_files()],
            },
            init: Init {
                image_env: process.env.clone(),
                env: creation.env.clone(),
                user: process.user.clone(),
                workdir: process.workdir.clone(),
                access_token: Some(token.to_owned()),
            },
        }
    }

    fn files(&self, hostname: &str) -> Vec<AttachFile> {
        let file = |path: &str, content: String| AttachFile {
            path: path.to_owned(),
            content,
            mode: 0o644,
        };
        let hosts = format!(
            "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t{hostname}\n"
        );
        let resolv = self.config.dns.iter().fold(String::new(), |text, server| {
            text + &format!("nameserver {server}\n")
        });
        vec![
            file("/etc/hosts", hosts),
            file("/etc/hostname", format!("{hostname}\n")),
            file("/etc/resolv.conf", resolv),
        ]
    }

    /// Removes a shell whose sandbox never was.
    fn discard(&self, shell: &HostShell) {
        if let Err(error) = self.host.remove(shell) {
            let error = crate::error::chain(&error);
            tracing::error!(id = %shell.id(), %error, "remains of a failed create");
        }
    }

    fn announce(&self, sandbox: &Sandbox, stages: &Stages) {
        stages.publish();
        metrics::gauge!("node_sandboxes_running").set(self.registry.running_count() as f64);
        let facts = &sandbox.facts;
        tracing::info!(
            id = %facts.id,
            template = %facts.template_id,
            took_ms = stages.total().as_secs_f64() * 1e3,
            "sandbox created"
        );
    }
}

/// The limit on open files, no higher than this process may give.
fn open_files() -> (u32, u64, u64) {
    let own = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .maximum
        .unwrap_or(OPEN_FILES_HARD);
    let hard = OPEN_FILES_HARD.min(own);
    (RLIMIT_NOFILE, OPEN_FILES_SOFT.min(hard), hard)
}

fn refused(refused: Refused) -> ApiError {
    match refused {
        Refused::Closed => ApiError::new(ErrorKind::Unavailable, "this node is stopping")
            .with_code("sandbox_create_refused"),
        Refused::Full => ApiError::new(
            ErrorKind::Exhausted,
            "this node holds as many sandboxes as it may; end some or raise its limit",
        )
        .with_code("sandbox_capacity_unavailable"),
    }
}
