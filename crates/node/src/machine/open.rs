//! Opening the machine of a node: directories, lock, spawner, cgroup, network, roots.

use super::instance::Instance;
use super::{CloseError, Machine, failed_close};
use isolation::native::{Native, NativeConfig, SpawnerConfig, SpawnerError};
use network::{Network, NetworkConfig, Subnet};
use rootfs::{Roots, RootsConfig};
use std::error::Error;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait for a new spawner to listen; it takes milliseconds.
const SPAWNER_LIMIT: Duration = Duration::from_secs(10);
const SPAWNER_POLL: Duration = Duration::from_millis(2);

/// What the machine part of a node is told.
#[derive(Debug, Clone)]
pub struct MachineConfig {
    /// Layers, catalog, writable storage.
    pub data_dir: PathBuf,
    /// Sockets and layer mounts.
    pub run_dir: PathBuf,
    /// First address and prefix length of the sandboxes' range.
    pub subnet: (Ipv4Addr, u8),
    /// Resolvers that sandboxes may ask.
    pub dns: Vec<Ipv4Addr>,
    /// The program `warren-agent`.
    pub agent: PathBuf,
}

/// The machine cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The host lacks something that is required.
    #[error("this host cannot run sandboxes:\n  {}", .missing.join("\n  "))]
    Host {
        /// Each lack with its fix.
        missing: Vec<String>,
    },
    /// Two nodes on the same directories.
    #[error("another warren serve uses run directory {run_dir}", run_dir = run_dir.display())]
    InUse {
        /// The directory.
        run_dir: PathBuf,
    },
    /// The agent's program is not there.
    #[error(
        "agent {path} is not there; `cargo xtask build` puts it beside warren, --agent names another",
        path = path.display()
    )]
    NoAgent {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The spawner ended or hangs.
    #[error("start the spawner: {message}")]
    Spawner {
        /// What happened.
        message: String,
    },
    /// A step failed.
    #[error("{step}")]
    Step {
        /// What was attempted on what.
        step: String,
        /// Cause.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// What must be let go of last.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) native: Arc<Native>,
    spawner_socket: PathBuf,
    _lock: File,
}

impl Held {
    pub(super) fn close(&self) -> Result<(), CloseError> {
        self.native
            .close()
            .map_err(|e| failed_close("spawner", e))?;
        std::fs::remove_file(&self.spawner_socket).map_err(|e| failed_close("spawner's socket", e))
    }
}

impl Machine {
    /// Opens everything; `program` is run as `<program> spawner --run-dir D --agent A` unless a spawner of
    /// an earlier node still listens. What an earlier node left is adopted or reaped by the node later.
    pub fn open(config: &MachineConfig, program: &Path) -> Result<Self, OpenError> {
        require_host()?;
        let instance = Instance::of(&config.run_dir);
        let sockets_dir = config.run_dir.join("sandboxes");
        for dir in [&config.data_dir, &config.run_dir, &sockets_dir] {
            make_private_dir(dir)
                .map_err(|e| step(format!("make directory {}", dir.display()), e))?;
        }
        let lock = lock(&config.run_dir)?;
        let spawner_socket = spawner_socket(&config.run_dir);
        start_spawner(config, program, &spawner_socket)?;
        let native = Native::connect(&NativeConfig {
            spawner: spawner_socket.clone(),
            cgroup_parent: instance.cgroup.clone(),
        });
        let native = Arc::new(native.map_err(|e| step("open isolation", e))?);
        let held = Held {
            native,
            spawner_socket,
            _lock: lock,
        };
        let opened = open_parts(config, instance);
        match opened {
            Ok((network, roots)) => Ok(Self::new(held, network, roots, sockets_dir)),
            Err(e) => {
                // Sandboxes of an earlier node, if any, live on without the spawner.
                if let Err(left) = held.close() {
                    tracing::warn!(error = &left as &dyn Error, "the spawner's things remain");
                }
                Err(e)
            }
        }
    }
}

/// Serves as the parent of sandboxes; for a process of its own with a single thread.
pub fn run_spawner(run_dir: &Path, agent: &Path) -> Result<(), SpawnerError> {
    let config = SpawnerConfig {
        socket: spawner_socket(run_dir),
        agent: agent.to_owned(),
    };
    isolation::native::run_spawner(&config)
}

fn open_parts(config: &MachineConfig, instance: Instance) -> Result<(Network, Roots), OpenError> {
    let (address, prefix) = config.subnet;
    let subnet: Subnet = format!("{address}/{prefix}")
        .parse()
        .map_err(|e| step("read the subnet", e))?;
    let network = Network::open(NetworkConfig {
        table: instance.table,
        veth_prefix: instance.veth_prefix,
        subnet,
        dns: config.dns.clone(),
        forwarding_note: config.run_dir.join("ip_forward"),
    });
    let network = network.map_err(|e| step("open the network", e))?;
    let roots = RootsConfig {
        data_dir: config.data_dir.clone(),
        run_dir: config.run_dir.clone(),
    };
    match Roots::open(roots) {
        Ok(roots) => Ok((network, roots)),
        Err(e) => {
            if let Err(left) = network.close() {
                tracing::warn!(error = &left as &dyn Error, "the network remains open");
            }
            Err(step("open the writable storage", e))
        }
    }
}

fn step(step: impl Into<String>, source: impl Into<Box<dyn Error + Send + Sync>>) -> OpenError {
    OpenError::Step {
        step: step.into(),
        source: source.into(),
    }
}

fn spawner_socket(run_dir: &Path) -> PathBuf {
    run_dir.join("spawner.sock")
}

/// All that is missing on this host, together and with its fix.
fn require_host() -> Result<(), OpenError> {
    let missing: Vec<String> = sys::host::report()
        .into_iter()
        .filter(|c| c.required && !c.ok)
        .map(|c| format!("{}: {}; {}", c.name, c.found, c.fix.unwrap_or_default()))
        .collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(OpenError::Host { missing })
    }
}

fn make_private_dir(dir: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// Held for the life of the process; the kernel lets go of it however the process ends.
fn lock(run_dir: &Path) -> Result<File, OpenError> {
    let path = run_dir.join("serve.lock");
    let what = || format!("lock {}", path.display());
    let file = File::create(&path).map_err(|e| step(what(), e))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(OpenError::InUse {
            run_dir: run_dir.to_owned(),
        }),
        Err(std::fs::TryLockError::Error(e)) => Err(step(what(), e)),
    }
}

fn start_spawner(config: &MachineConfig, program: &Path, socket: &Path) -> Result<(), OpenError> {
    if isolation::native::spawner_listens(socket) {
        return Ok(());
    }
    if !config.agent.is_file() {
        return Err(OpenError::NoAgent {
            path: config.agent.clone(),
        });
    }
    let mut command = Command::new(program);
    command.arg("spawner").arg("--run-dir").arg(&config.run_dir);
    command.arg("--agent").arg(&config.agent);
    // Its own process group: a Ctrl-C meant for the node must not end the parent of the sandboxes.
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0);
    let mut child = command.spawn().map_err(|e| step("start the spawner", e))?;
    await_spawner(&mut child, socket)
}

fn await_spawner(child: &mut Child, socket: &Path) -> Result<(), OpenError> {
    let failed = |message: String| OpenError::Spawner { message };
    let deadline = Instant::now() + SPAWNER_LIMIT;
    while !isolation::native::spawner_listens(socket) {
        match child.try_wait() {
            Ok(Some(status)) => return Err(failed(format!("it ended at its start: {status}"))),
            Ok(None) => {}
            Err(e) => return Err(step("watch the spawner", e)),
        }
        if Instant::now() > deadline {
            return Err(failed("it does not listen".to_owned()));
        }
        std::thread::sleep(SPAWNER_POLL);
    }
    Ok(())
}
