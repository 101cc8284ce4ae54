//! The real machine: native isolation, network and roots joined behind [`Host`].

mod instance;
mod open;

pub use open::{MachineConfig, OpenError, run_spawner};

use crate::host::{Host, HostError, HostRecord, HostShell, Order};
use isolation::{Attach, Backend, ExtraMount, ShellSpec};
use model::{Digest, SandboxId};
use network::{Internet, Network};
use rootfs::Roots;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::error::Error;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Everything of this host that sandboxes are made of.
#[derive(Debug)]
pub struct Machine {
    backend: Arc<dyn Backend>,
    network: Network,
    roots: Roots,
    sockets_dir: PathBuf,
    /// Last, so that it is let go of last.
    held: open::Held,
}

/// A half of the machine could not be closed; what remains is named.
#[derive(Debug, thiserror::Error)]
#[error("close {part}")]
pub struct CloseError {
    part: &'static str,
    #[source]
    source: Box<dyn Error + Send + Sync>,
}

impl Machine {
    fn new(held: open::Held, network: Network, roots: Roots, sockets_dir: PathBuf) -> Self {
        let backend: Arc<dyn Backend> = held.native.clone();
        Self {
            backend,
            network,
            roots,
            sockets_dir,
            held,
        }
    }

    /// Unmounts and unloads all that the machine's parts hold and ends the spawner. All sandboxes must be gone.
    ///
    /// Goes on after a failure; the first one is told.
    pub fn close(self) -> Result<(), CloseError> {
        let network = self.network.close().map_err(|e| failed_close("network", e));
        let roots = self.roots.close().map_err(|e| failed_close("roots", e));
        let held = self.held.close();
        network.and(roots).and(held)
    }

    fn prepare(&self, id: &SandboxId, index: u32) -> Result<HostShell, HostError> {
        self.roots
            .create_upper(id)
            .map_err(|e| failed("prepare storage", id, e))?;
        let socket = self.sockets_dir.join(format!("{id}.sock"));
        let spec = ShellSpec {
            id: id.clone(),
            socket,
        };
        let shell = self
            .backend
            .prepare(&spec)
            .map_err(|e| failed("prepare shell", id, e))?;
        let joined = self
            .network
            .connect(index, shell.pid)
            .map_err(|e| failed("prepare network", id, e))
            .and_then(|_| {
                self.backend
                    .record(&shell)
                    .map_err(|e| failed("prepare record", id, e))
            });
        match joined {
            Ok(record) => {
                let record = HostRecord {
                    shell: record,
                    network_index: index,
                    internet: true,
                };
                Ok(HostShell { shell, record })
            }
            Err(e) => {
                if let Err(left) = self.backend.remove(&shell) {
                    tracing::warn!(error = &left as &dyn Error, "a half-made shell remains");
                }
                Err(e)
            }
        }
    }
}

impl Host for Machine {
    fn kind(&self) -> &'static str {
        self.backend.capabilities().kind
    }

    fn prepare_shell(&self, id: &SandboxId) -> Result<HostShell, HostError> {
        let index = self
            .network
            .reserve()
            .map_err(|e| failed("prepare network", id, e))?;
        self.prepare(id, index).inspect_err(|_| {
            if let Err(left) = self.network.disconnect(index) {
                tracing::warn!(%id, error = &left as &dyn Error, "a network link remains");
            }
            if let Err(left) = self.roots.remove_upper(id) {
                tracing::warn!(%id, error = &left as &dyn Error, "storage remains");
            }
        })
    }

    fn attach(&self, shell: &HostShell, order: Order) -> Result<(), HostError> {
        let id = shell.id();
        if !order.internet {
            // Before anything of the user runs.
            self.network
                .set_internet(shell.record.network_index, Internet::Denied)
                .map_err(|e| failed("close network", id, e))?;
        }
        let upper = self
            .roots
            .find_upper(id)
            .ok_or_else(|| failed("mount root", id, "its writable storage is gone"))?;
        let begun = Instant::now();
        let root = self
            .roots
            .mount_root(&order.plan, &upper)
            .map_err(|e| failed("mount root", id, e))?;
        metrics::histogram!("node_create_seconds", "stage" => "mount").record(begun.elapsed());
        let mounts = root.extra.into_iter();
        let extra_mounts = mounts
            .map(|m| ExtraMount {
                target: m.target,
                mount: m.mount,
            })
            .collect();
        let attach = Attach {
            root: root.root,
            extra_mounts,
            resources: order.plan.resources,
            request: order.request,
        };
        self.backend
            .attach(&shell.shell, attach)
            .map_err(|e| failed("attach", id, e))
    }

    fn kill(&self, shell: &HostShell) -> Result<(), HostError> {
        sys::process::kill(shell.shell.pidfd.as_fd()).map_err(|e| failed("kill", shell.id(), e))
    }

    fn remove(&self, shell: &HostShell) -> Result<(), HostError> {
        let id = shell.id();
        self.backend
            .remove(&shell.shell)
            .map_err(|e| failed("remove shell", id, e))?;
        let network = self.network.disconnect(shell.record.network_index);
        self.roots
            .remove_upper(id)
            .map_err(|e| failed("remove storage", id, e))?;
        network.map_err(|e| failed("remove network", id, e))
    }

    fn usage(&self, shell: &HostShell) -> Result<isolation::Usage, HostError> {
        self.backend
            .usage(&shell.shell)
            .map_err(|e| failed("read usage", shell.id(), e))
    }

    fn adopt(&self, record: &HostRecord) -> Result<Option<HostShell>, HostError> {
        let id = &record.shell.id;
        let adopted = self
            .backend
            .adopt(&record.shell)
            .map_err(|e| failed("adopt", id, e))?;
        let Some(shell) = adopted else {
            return Ok(None);
        };
        let internet = if record.internet {
            Internet::Allowed
        } else {
            Internet::Denied
        };
        self.network
            .adopt(record.network_index, internet)
            .map_err(|e| failed("adopt network", id, e))?;
        Ok(Some(HostShell {
            shell,
            record: record.clone(),
        }))
    }

    fn reap_strays(&self, keep: &[SandboxId]) -> Result<Vec<String>, HostError> {
        let nobody = |action, e: Box<dyn Error + Send + Sync>| HostError {
            action,
            id: "(strays)".to_owned(),
            exhausted: false,
            source: e,
        };
        let mut removed = self
            .backend
            .reap_strays(keep)
            .map_err(|e| nobody("reap shells", e.into()))?;
        let keep: BTreeSet<_> = keep.iter().collect();
        for id in self
            .roots
            .list_uppers()
            .map_err(|e| nobody("reap storage", e.into()))?
        {
            if !keep.contains(&id) {
                self.roots
                    .remove_upper(&id)
                    .map_err(|e| nobody("reap storage", e.into()))?;
                removed.push(format!("storage of sandbox {id}"));
            }
        }
        // What adoption did not take over belongs to nobody.
        let links = self
            .network
            .reap_unused()
            .map_err(|e| nobody("reap network", e.into()))?;
        removed.extend(
            links
                .into_iter()
                .map(|device| format!("network device {device}")),
        );
        removed.extend(
            self.reap_sockets(&keep)
                .map_err(|e| nobody("reap sockets", e.into()))?,
        );
        Ok(removed)
    }

    fn report(&self) -> serde_json::Value {
        serde_json::json!({
            "checks": sys::host::report(),
            "isolation": self.kind(),
            "writable": format!("{:?}", self.roots.writable()),
        })
    }
}

impl Machine {
    /// Unmounts every layer that is not in `in_use`; running sandboxes keep theirs.
    pub(crate) fn unmount_unused(&self, in_use: &[Digest]) -> Result<(), rootfs::LayerError> {
        self.roots.unmount_unused(in_use).map(drop)
    }

    fn reap_sockets(&self, keep: &BTreeSet<&SandboxId>) -> std::io::Result<Vec<String>> {
        let mut removed = Vec::new();
        for entry in std::fs::read_dir(&self.sockets_dir)? {
            let path = entry?.path();
            let id = path
                .file_stem()
                .and_then(|s| s.to_str())
                .and_then(|s| s.parse().ok());
            let kept = id.is_some_and(|id: SandboxId| keep.contains(&id));
            if !kept && path.extension().is_some_and(|e| e == "sock") {
                std::fs::remove_file(&path)?;
                removed.push(format!("socket {}", path.display()));
            }
        }
        Ok(removed)
    }
}

fn failed(
    action: &'static str,
    id: &SandboxId,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> HostError {
    let source = source.into();
    HostError {
        action,
        id: id.to_string(),
        exhausted: is_exhausted(source.as_ref()),
        source,
    }
}

/// Whether some error of the chain is want of space, memory, descriptors or processes.
fn is_exhausted(error: &(dyn Error + 'static)) -> bool {
    let wants = [
        Errno::NOSPC,
        Errno::DQUOT,
        Errno::NOMEM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::AGAIN,
    ];
    let mut at = Some(error);
    while let Some(error) = at {
        let io = error.downcast_ref::<std::io::Error>();
        let number = io.and_then(|e| e.raw_os_error().or_else(|| sys::mount::errno(e)));
        let full = io.is_some_and(|e| e.kind() == std::io::ErrorKind::StorageFull);
        if full || number.is_some_and(|n| wants.iter().any(|w| w.raw_os_error() == n)) {
            return true;
        }
        at = error.source();
    }
    false
}

fn failed_close(part: &'static str, error: impl Into<Box<dyn Error + Send + Sync>>) -> CloseError {
    CloseError {
        part,
        source: error.into(),
    }
}
