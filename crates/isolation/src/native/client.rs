//! The node's side: makes shells through the spawner, claims them, ends them.

use super::protocol::{FDS_MAX, PACKET_BYTES_MAX, Reply, Request};
use crate::backend::{
    Attach, AttachError, Backend, Capabilities, PrepareError, RemoveError, Shell, ShellRecord,
    ShellSpec, Usage,
};
use model::attach::{AttachReply, AttachRequest, MESSAGE_BYTES_MAX, Message, PrepareRequest};
use model::{Resources, SandboxId, USERNS_HOST_BASE};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use sys::cgroup::{AGENTS, Cgroups, Limits};

/// Longest wait for the agent's answer to an attach: a claim takes milliseconds, a loaded host seconds.
const ATTACH_LIMIT: Duration = Duration::from_secs(30);
/// Longest wait for a killed tree to be gone; a process in uninterruptible I/O may take long.
const KILL_LIMIT: Duration = Duration::from_secs(30);

/// How to reach the spawner and where limits live.
#[derive(Debug, Clone)]
pub struct NativeConfig {
    /// The spawner's socket.
    pub spawner: PathBuf,
    /// Name of the node's parent cgroup.
    pub cgroup_parent: String,
}

/// Containers by the native launcher.
#[derive(Debug)]
pub struct Native {
    spawner: Mutex<OwnedFd>,
    /// Of the spawner's process.
    spawner_pidfd: OwnedFd,
    cgroups: Box<dyn Cgroups>,
}

/// The backend cannot start.
#[derive(Debug, thiserror::Error)]
#[error("start native isolation: {step}")]
pub struct ConnectError {
    step: String,
    #[source]
    source: io::Error,
}

impl Native {
    /// Connects to a running spawner and opens the node's cgroup.
    pub fn connect(config: &NativeConfig) -> Result<Self, ConnectError> {
        let spawner = connect_spawner(&config.spawner).map_err(|source| ConnectError {
            step: format!("connect to spawner at {}", config.spawner.display()),
            source,
        })?;
        let cgroups = sys::cgroup::open(&config.cgroup_parent).map_err(|source| ConnectError {
            step: format!("open cgroup {:?}", config.cgroup_parent),
            source,
        })?;
        let spawner_pidfd =
            adopt_spawner(spawner.as_fd(), cgroups.as_ref()).map_err(|source| ConnectError {
                step: "move the spawner to the agents' cgroup".to_owned(),
                source,
            })?;
        Ok(Self {
            spawner: Mutex::new(spawner),
            spawner_pidfd,
            cgroups,
        })
    }

    /// Ends the spawner and removes the node's cgroup. All sandboxes must be gone.
    ///
    /// A spawner that is gone already is fine. Goes on after a failure; the first one is told.
    pub fn close(&self) -> io::Result<()> {
        let bytes = serde_json::to_vec(&Request::Quit).expect("a unit variant serialises");
        let spawner = self.spawner.lock().unwrap_or_else(PoisonError::into_inner);
        let told = match sys::socket::send_packet(spawner.as_fd(), &bytes, &[]) {
            Err(e) if is_gone(&e) => Ok(()),
            other => other,
        };
        drop(spawner);
        // It is a member of the group that is to go.
        let ended = sys::process::wait_exit(self.spawner_pidfd.as_fd(), KILL_LIMIT).map(drop);
        let agents = self.cgroups.remove(AGENTS);
        told.and(ended)
            .and(agents)
            .and_then(|()| self.cgroups.close())
    }

    fn ask(&self, request: &Request, fds: &[BorrowedFd<'_>]) -> io::Result<(i32, Vec<OwnedFd>)> {
        let bytes = serde_json::to_vec(request).map_err(io::Error::other)?;
        let spawner = self.spawner.lock().unwrap_or_else(PoisonError::into_inner);
        sys::socket::send_packet(spawner.as_fd(), &bytes, fds)?;
        let (bytes, fds) = sys::socket::recv_packet(spawner.as_fd(), PACKET_BYTES_MAX, FDS_MAX)?;
        drop(spawner);
        if bytes.is_empty() {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the spawner is gone",
            ));
        }
        match serde_json::from_slice(&bytes).map_err(io::Error::other)? {
            Reply::Spawned { pid } => Ok((pid, fds)),
            Reply::Failed { message } => Err(io::Error::other(message)),
        }
    }

    /// Everything of [`Backend::prepare`] after the cgroup exists.
    fn spawn(&self, spec: &ShellSpec) -> Result<Arc<Shell>, (String, io::Error)> {
        let id = spec.id.as_str();
        let step = |what: &str| {
            let what = what.to_owned();
            move |e: io::Error| (what, e)
        };
        self.cgroups
            .set_limits(id, &limits(&Resources::default()))
            .map_err(step("set limits"))?;
        let at = format!("listen on {}", spec.socket.display());
        let listener = listen(&spec.socket).map_err(step(&at))?;
        let (pid, fds) = self
            .ask(&Request::Spawn { id: id.to_owned() }, &[listener.as_fd()])
            .map_err(step("clone namespaces"))?;
        let Ok([pidfd, status]) = <[OwnedFd; 2]>::try_from(fds) else {
            let error = io::Error::other("the spawner sent no pidfd");
            return Err(step("clone namespaces")(error));
        };
        let shell = Shell {
            id: spec.id.clone(),
            pid,
            pidfd,
            socket: spec.socket.clone(),
        };
        await_exec(status)?;
        match self.introduce(&shell) {
            Ok(AttachReply::Ready) => Ok(Arc::new(shell)),
            Ok(AttachReply::Failed(text)) => Err((
                format!("prepare agent: {text}"),
                io::ErrorKind::Other.into(),
            )),
            Err((what, e)) => Err((format!("prepare agent: {what}"), e)),
        }
    }

    /// Tells a fresh agent where commands will run.
    fn introduce(&self, shell: &Shell) -> Result<AttachReply, (&'static str, io::Error)> {
        let id = shell.id.as_str();
        let joins = self
            .cgroups
            .join_files(id)
            .map_err(|e| ("open cgroup", e))?;
        let track = self
            .cgroups
            .track_dir(id, USERNS_HOST_BASE)
            .map_err(|e| ("open cgroup", e))?;
        let request = PrepareRequest {
            cgroup_join: joins.len(),
            cgroup_track: true,
        };
        let mut fds: Vec<_> = joins.iter().map(AsFd::as_fd).collect();
        fds.push(track.as_fd());
        exchange(shell, &Message::Prepare(request), &fds)
    }
}

/// Waits until the agent's program runs, or tells why it does not.
fn await_exec(status: OwnedFd) -> Result<(), (String, io::Error)> {
    let mut text = String::new();
    match File::from(status).read_to_string(&mut text) {
        Ok(0) => Ok(()),
        Ok(_) => Err((format!("set up shell: {text}"), io::ErrorKind::Other.into())),
        Err(e) => Err(("set up shell".to_owned(), e)),
    }
}

/// Sends one message to a waiting agent and takes its answer.
fn exchange(
    shell: &Shell,
    message: &Message,
    fds: &[BorrowedFd<'_>],
) -> Result<AttachReply, (&'static str, io::Error)> {
    let stream = UnixStream::connect(&shell.socket).map_err(|e| ("connect to agent", e))?;
    stream
        .set_read_timeout(Some(ATTACH_LIMIT))
        .map_err(|e| ("connect to agent", e))?;
    let bytes = serde_json::to_vec(message).map_err(|e| ("write message", e.into()))?;
    sys::socket::send_message(stream.as_fd(), &bytes, fds).map_err(|e| ("send message", e))?;
    let (bytes, _) = sys::socket::recv_message(stream.as_fd(), MESSAGE_BYTES_MAX, 0)
        .map_err(|e| ("receive answer", e))?;
    serde_json::from_slice(&bytes).map_err(|e| ("read answer", e.into()))
}

impl Backend for Native {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            kind: "container",
            pause: false,
            memory_snapshot: false,
        }
    }

    fn prepare(&self, spec: &ShellSpec) -> Result<Arc<Shell>, PrepareError> {
        let id = &spec.id;
        let failed = |(step, source)| PrepareError {
            id: id.clone(),
            step,
            source,
        };
        self.cgroups
            .create(id.as_str())
            .map_err(|e| failed(("make cgroup".to_owned(), e)))?;
        self.spawn(spec).map_err(|error| {
            // All or nothing; what cannot be removed now is found by reap_strays.
            drop(remove_socket(&spec.socket));
            drop(self.cgroups.remove(id.as_str()));
            failed(error)
        })
    }

    fn attach(&self, shell: &Shell, attach: Attach) -> Result<(), AttachError> {
        let id = &shell.id;
        if attach.resources != Resources::default() {
            self.set_limits(shell, &attach.resources)
                .map_err(|source| AttachError::Exchange {
                    id: id.clone(),
                    step: "set limits".to_owned(),
                    source,
                })?;
        }
        let request = AttachRequest {
            extra_mounts: attach
                .extra_mounts
                .iter()
                .map(|m| m.target.clone())
                .collect(),
            ..attach.request
        };
        let mut fds = vec![attach.root.as_fd()];
        fds.extend(attach.extra_mounts.iter().map(|m| m.mount.as_fd()));
        match exchange(shell, &Message::Attach(Box::new(request)), &fds) {
            Ok(AttachReply::Ready) => Ok(()),
            Ok(AttachReply::Failed(message)) => Err(AttachError::Refused {
                id: id.clone(),
                message,
            }),
            Err((step, source)) => Err(AttachError::Exchange {
                id: id.clone(),
                step: step.to_owned(),
                source,
            }),
        }
    }

    fn set_limits(&self, shell: &Shell, resources: &Resources) -> io::Result<()> {
        self.cgroups
            .set_limits(shell.id.as_str(), &limits(resources))
    }

    fn usage(&self, shell: &Shell) -> io::Result<Usage> {
        let usage = self.cgroups.usage(shell.id.as_str())?;
        Ok(Usage {
            cpu_usec: usage.cpu_usec,
            memory_bytes: usage.memory_bytes,
            memory_cache_bytes: usage.cache_bytes,
            oom_kills: usage.oom_kills,
        })
    }

    fn record(&self, shell: &Shell) -> io::Result<ShellRecord> {
        Ok(ShellRecord {
            id: shell.id.clone(),
            pid: shell.pid,
            start_ticks: sys::process::start_ticks(shell.pid)?,
            socket: shell.socket.clone(),
        })
    }

    fn adopt(&self, record: &ShellRecord) -> io::Result<Option<Arc<Shell>>> {
        let Ok(pidfd) = sys::process::pidfd(record.pid) else {
            return Ok(None);
        };
        // Looked at after the pidfd was opened: if it matches, the pidfd is that process for ever.
        let same = sys::process::start_ticks(record.pid).is_ok_and(|t| t == record.start_ticks);
        Ok(same.then(|| {
            Arc::new(Shell {
                id: record.id.clone(),
                pid: record.pid,
                pidfd,
                socket: record.socket.clone(),
            })
        }))
    }

    fn remove(&self, shell: &Shell) -> Result<(), RemoveError> {
        let failed = |step: &str| {
            let step = step.to_owned();
            |source| RemoveError {
                id: shell.id.clone(),
                step,
                source,
            }
        };
        sys::process::kill(shell.pidfd.as_fd()).map_err(failed("kill"))?;
        let gone = sys::process::wait_exit(shell.pidfd.as_fd(), KILL_LIMIT)
            .map_err(failed("wait for the end"))?;
        if !gone {
            return Err(failed("wait for the end")(io::ErrorKind::TimedOut.into()));
        }
        let socket = remove_socket(&shell.socket);
        self.cgroups
            .remove(shell.id.as_str())
            .map_err(failed("remove cgroup"))?;
        socket.map_err(failed("remove socket"))
    }

    fn reap_strays(&self, keep: &[SandboxId]) -> io::Result<Vec<String>> {
        super::strays::reap(self.cgroups.as_ref(), keep)
    }
}

fn limits(resources: &Resources) -> Limits {
    Limits {
        cpu_milli: u64::from(resources.cpu_count) * 1000,
        memory_bytes: resources.memory_bytes(),
        pids_max: u64::from(resources.pids_max),
    }
}

/// Whether the other end of a socket has ended, also with something unread.
fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected
    )
}

/// Whether a spawner accepts connections at `socket`.
#[must_use]
pub fn spawner_listens(socket: &Path) -> bool {
    connect_spawner(socket).is_ok()
}

/// Puts the spawner into the agents' group, so that every shell starts there. Moving each shell would
/// cost a grace period of the kernel (5 to 10 ms measured) per shell.
fn adopt_spawner(spawner: BorrowedFd<'_>, cgroups: &dyn Cgroups) -> io::Result<OwnedFd> {
    let peer = rustix::net::sockopt::socket_peercred(spawner)?;
    let pid = peer.pid.as_raw_nonzero().get();
    let pidfd = sys::process::pidfd(pid)?;
    for mut group in cgroups.join_files(AGENTS)? {
        group.write_all(pid.to_string().as_bytes())?;
    }
    Ok(pidfd)
}

fn connect_spawner(path: &Path) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// Listens where only root can connect. The socket lies outside every sandbox.
fn listen(path: &Path) -> io::Result<UnixListener> {
    let listener = UnixListener::bind(path)?;
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
    Ok(listener)
}

fn remove_socket(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(e),
        _ => Ok(()),
    }
}
