//! A machine for tests: shells are agents on a runtime of their own, so that they outlive a node.

use crate::agent::{self, Counts};
use isolation::{Shell, ShellRecord, Usage};
use model::SandboxId;
use model::attach::AttachRequest;
use node::{Host, HostError, HostRecord, HostShell, Order};
use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use tokio::net::UnixListener;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;

#[derive(Debug)]
struct Process {
    shell: HostShell,
    /// Closing it is the exit of PID 1.
    life: Option<OwnedFd>,
    serving: Option<AbortHandle>,
}

/// Knobs and counters of the machine.
#[derive(Debug)]
pub(crate) struct FakeMachine {
    dir: PathBuf,
    runtime: Option<Runtime>,
    processes: Mutex<HashMap<SandboxId, Process>>,
    pub(crate) orders: Mutex<Vec<(AttachRequest, bool)>>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) prepared: AtomicUsize,
    pub(crate) prepare_fails: AtomicBool,
    pub(crate) attach_fails: AtomicBool,
    pub(crate) oom_kills: AtomicU64,
    pub(crate) removals_failing: AtomicUsize,
}

impl FakeMachine {
    pub(crate) fn new(dir: PathBuf) -> Arc<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        Arc::new(Self {
            dir,
            runtime: Some(runtime),
            processes: Mutex::default(),
            orders: Mutex::default(),
            counts: Arc::default(),
            prepared: AtomicUsize::new(0),
            prepare_fails: AtomicBool::new(false),
            attach_fails: AtomicBool::new(false),
            oom_kills: AtomicU64::new(0),
            removals_failing: AtomicUsize::new(0),
        })
    }

    /// Shells of which something exists.
    pub(crate) fn existing(&self) -> usize {
        self.processes.lock().expect("lock").len()
    }

    pub(crate) fn has(&self, id: &str) -> bool {
        self.processes
            .lock()
            .expect("lock")
            .keys()
            .any(|k| k.as_str() == id)
    }

    /// PID 1 of one sandbox ends, its connections break.
    pub(crate) fn exit(&self, id: &SandboxId) {
        let mut processes = self.processes.lock().expect("lock");
        if let Some(process) = processes.get_mut(id) {
            if let Some(serving) = process.serving.take() {
                serving.abort();
            }
            drop(process.life.take());
        }
    }

    /// All waiting shells die.
    pub(crate) fn exit_waiting(&self) {
        let waiting: Vec<_> = {
            let processes = self.processes.lock().expect("lock");
            let waiting = processes.iter().filter(|(_, p)| p.serving.is_none());
            waiting.map(|(id, _)| id.clone()).collect()
        };
        waiting.iter().for_each(|id| self.exit(id));
    }
}

impl Drop for FakeMachine {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn failed(action: &'static str, id: &SandboxId) -> HostError {
    HostError {
        action,
        id: id.to_string(),
        exhausted: false,
        source: io::Error::other("the test wants it").into(),
    }
}

impl Host for FakeMachine {
    fn kind(&self) -> &'static str {
        "container"
    }

    fn prepare_shell(&self, id: &SandboxId) -> Result<HostShell, HostError> {
        if self.prepare_fails.load(Ordering::Relaxed) {
            return Err(failed("prepare", id));
        }
        let (pidfd, life) = rustix::pipe::pipe().expect("a pipe");
        let pid = i32::try_from(self.prepared.fetch_add(1, Ordering::Relaxed)).expect("few");
        let socket = self.dir.join(format!("{id}.sock"));
        let record = ShellRecord {
            id: id.clone(),
            pid,
            start_ticks: 1,
            socket: socket.clone(),
        };
        let shell = HostShell {
            shell: Arc::new(Shell {
                id: id.clone(),
                pid,
                pidfd,
                socket,
            }),
            record: HostRecord {
                shell: record,
                network_index: 0,
                internet: true,
            },
        };
        let process = Process {
            shell: shell.clone(),
            life: Some(life),
            serving: None,
        };
        self.processes
            .lock()
            .expect("lock")
            .insert(id.clone(), process);
        Ok(shell)
    }

    fn attach(&self, shell: &HostShell, order: Order) -> Result<(), HostError> {
        if self.attach_fails.load(Ordering::Relaxed) {
            return Err(failed("attach", shell.id()));
        }
        let token = order.request.init.access_token.clone().expect("a token");
        self.orders
            .lock()
            .expect("lock")
            .push((order.request, order.internet));
        let runtime = self.runtime.as_ref().expect("the machine runs");
        let _inside = runtime.enter();
        let listener = UnixListener::bind(&shell.shell.socket).expect("a socket");
        let serving = runtime.spawn(agent::serve(
            listener,
            token.into(),
            Arc::clone(&self.counts),
        ));
        let mut processes = self.processes.lock().expect("lock");
        let process = processes.get_mut(shell.id()).expect("a prepared shell");
        process.serving = Some(serving.abort_handle());
        Ok(())
    }

    fn kill(&self, shell: &HostShell) -> Result<(), HostError> {
        self.exit(shell.id());
        Ok(())
    }

    fn remove(&self, shell: &HostShell) -> Result<(), HostError> {
        let failing = |n: usize| n.checked_sub(1);
        let order = Ordering::Relaxed;
        if self
            .removals_failing
            .fetch_update(order, order, failing)
            .is_ok()
        {
            return Err(failed("remove", shell.id()));
        }
        self.exit(shell.id());
        self.processes.lock().expect("lock").remove(shell.id());
        let _absent = std::fs::remove_file(&shell.shell.socket);
        Ok(())
    }

    fn usage(&self, _: &HostShell) -> Result<Usage, HostError> {
        let oom_kills = self.oom_kills.load(Ordering::Relaxed);
        Ok(Usage {
            cpu_usec: 1,
            memory_bytes: 2,
            memory_cache_bytes: 3,
            oom_kills,
        })
    }

    fn adopt(&self, record: &HostRecord) -> Result<Option<HostShell>, HostError> {
        let processes = self.processes.lock().expect("lock");
        let process = processes.get(&record.shell.id);
        Ok(process
            .filter(|p| p.life.is_some())
            .map(|p| p.shell.clone()))
    }

    fn reap_strays(&self, keep: &[SandboxId]) -> Result<Vec<String>, HostError> {
        let strays: Vec<HostShell> = {
            let processes = self.processes.lock().expect("lock");
            let strays = processes.values().filter(|p| !keep.contains(p.shell.id()));
            strays.map(|p| p.shell.clone()).collect()
        };
        for shell in &strays {
            self.remove(shell)?;
        }
        Ok(strays.iter().map(|s| s.id().to_string()).collect())
    }

    fn report(&self) -> serde_json::Value {
        serde_json::json!({"kernel": "played"})
    }
}
