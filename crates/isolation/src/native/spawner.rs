//! The spawner: single-threaded parent of all shells.
//!
//! It exists because cloning a big process costs 40 to 80 ms and a small one 1 ms, and so that sandboxes
//! outlive the node process. It keeps no state: whatever it made is found by pidfd and cgroup.

use super::protocol::{FDS_MAX, PACKET_BYTES_MAX, Reply, Request};
use super::shell::{self, Shared};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_bind, mount_change, unmount,
};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use sys::process::{Namespace, leave_namespace};

/// Where the spawner listens and what it executes.
#[derive(Debug, Clone)]
pub struct SpawnerConfig {
    /// Unix socket to make.
    pub socket: PathBuf,
    /// The agent's program.
    pub agent: PathBuf,
}

/// The spawner cannot start.
#[derive(Debug, thiserror::Error)]
#[error("start spawner: {step}")]
pub struct SpawnerError {
    step: String,
    #[source]
    source: io::Error,
}

/// Device nodes of every sandbox: name, major, minor (the OCI runtime specification's default devices).
const DEVICES: [(&str, u32, u32); 6] = [
    ("null", 1, 3),
    ("zero", 1, 5),
    ("full", 1, 7),
    ("random", 1, 8),
    ("urandom", 1, 9),
    ("tty", 5, 0),
];

/// Serves until told to quit.
pub fn run(config: &SpawnerConfig) -> Result<(), SpawnerError> {
    let step = |what: &str| {
        let step = what.to_owned();
        move |source: io::Error| SpawnerError { step, source }
    };
    let agent = open_program(&config.agent)
        .map_err(step(&format!("open agent {}", config.agent.display())))?;
    let listener =
        listen(&config.socket).map_err(step(&format!("listen on {}", config.socket.display())))?;
    sys::process::reap_automatically().map_err(step("ignore SIGCHLD"))?;
    enter_small_root().map_err(step("make a private root"))?;
    let shared = Shared::new(agent);
    Server {
        listener,
        connections: Vec::new(),
        shared,
    }
    .serve()
    .map_err(step("serve"))
}

fn open_program(path: &Path) -> io::Result<OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    Ok(rustix::fs::open(
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
    )?)
}

fn listen(path: &Path) -> io::Result<OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::fs::chmod(path, rustix::fs::Mode::from_raw_mode(0o600))?;
    rustix::net::listen(&socket, 64)?;
    Ok(socket)
}

/// A private mount namespace that holds next to nothing: every shell starts with a copy of it, so its
/// size is paid at each clone. `/proc` and `/sys` must be there for the kernel to allow new ones inside
/// a user namespace.
fn enter_small_root() -> io::Result<()> {
    leave_namespace(Namespace::Mount)?;
    mount_change(
        "/",
        MountPropagationFlags::PRIVATE | MountPropagationFlags::REC,
    )?;
    // Any existing directory serves as mount point; it is visible in this namespace only.
    let at = Path::new("/tmp");
    let attr = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("tmpfs", at, "tmpfs", attr, Some(c"mode=755"))?;
    for dir in [
        "proc",
        "sys",
        "nodes",
        &shell::STAGE[1..],
        &shell::BUILD[1..],
    ] {
        std::fs::create_dir(at.join(dir))?;
    }
    mount_bind("/proc", at.join("proc"))?;
    mount_bind("/sys", at.join("sys"))?;
    for (name, major, minor) in DEVICES {
        use rustix::fs::{CWD, FileType, Mode, makedev, mknodat};
        let path = at.join("nodes").join(name);
        let mode = Mode::from_raw_mode(0o666);
        mknodat(
            CWD,
            &path,
            FileType::CharacterDevice,
            mode,
            makedev(major, minor),
        )?;
        rustix::fs::chmod(&path, mode)?;
    }
    rustix::process::chdir(at)?;
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    Ok(())
}

struct Server {
    listener: OwnedFd,
    connections: Vec<OwnedFd>,
    shared: Shared,
}

impl Server {
    fn serve(&mut self) -> io::Result<()> {
        loop {
            let mut fds = vec![PollFd::new(&self.listener, PollFlags::IN)];
            fds.extend(
                self.connections
                    .iter()
                    .map(|c| PollFd::new(c, PollFlags::IN)),
            );
            match poll(&mut fds, None) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let ready: Vec<bool> = fds.iter().map(|f| !f.revents().is_empty()).collect();
            drop(fds);
            // From the back, so that removing one moves none that is still to be looked at.
            for at in (0..self.connections.len()).rev().filter(|i| ready[i + 1]) {
                match self.answer(at) {
                    Next::Serve => {}
                    Next::HungUp => drop(self.connections.remove(at)),
                    Next::Quit => return Ok(()),
                }
            }
            if ready[0] {
                use rustix::net::{SocketFlags, accept_with};
                self.connections
                    .push(accept_with(&self.listener, SocketFlags::CLOEXEC)?);
            }
        }
    }

    fn answer(&self, at: usize) -> Next {
        let connection = self.connections[at].as_fd();
        let packet = sys::socket::recv_packet(connection, PACKET_BYTES_MAX, FDS_MAX);
        let Ok((bytes, fds)) = packet else {
            return Next::HungUp;
        };
        if bytes.is_empty() {
            return Next::HungUp;
        }
        let outcome = match serde_json::from_slice(&bytes) {
            Ok(Request::Quit) => return Next::Quit,
            Ok(Request::Spawn { id }) => self.spawn(&id, fds),
            Err(e) => Err(io::Error::other(format!("malformed request: {e}"))),
        };
        let (reply, fds) = match outcome {
            Ok((pid, fds)) => (Reply::Spawned { pid }, fds),
            Err(e) => (
                Reply::Failed {
                    message: e.to_string(),
                },
                Vec::new(),
            ),
        };
        let bytes = serde_json::to_vec(&reply).expect("plain text and numbers serialise");
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        match sys::socket::send_packet(connection, &bytes, &fds) {
            Ok(()) => Next::Serve,
            Err(_) => Next::HungUp,
        }
    }

    fn spawn(&self, id: &str, mut fds: Vec<OwnedFd>) -> io::Result<(i32, Vec<OwnedFd>)> {
        let Some(socket) = fds.pop() else {
            return Err(io::Error::other(
                "no listening socket came with the request",
            ));
        };
        let (go_read, go_write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (status_read, status_write) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let child = sys::process::clone_namespaces(|| {
            let mut status = File::from(status_write);
            let error = shell::run(&self.shared, File::from(go_read), socket, id);
            // If nobody reads it any more there is nobody to tell.
            drop(status.write_all(error.to_string().as_bytes()));
            1
        })?;
        if let Err(e) = admit(child.pid, File::from(go_write)) {
            sys::process::kill(child.pidfd.as_fd())?;
            return Err(e);
        }
        Ok((child.pid, vec![child.pidfd, status_read]))
    }
}

/// Gives the child its ids, then lets it go on.
fn admit(pid: i32, mut go: File) -> io::Result<()> {
    let (base, size) = (model::USERNS_HOST_BASE, model::USERNS_SIZE);
    for map in ["uid_map", "gid_map"] {
        let path = PathBuf::from(format!("/proc/{pid}/{map}"));
        File::options()
            .write(true)
            .open(&path)
            .and_then(|mut f| f.write_all(format!("0 {base} {size}\n").as_bytes()))
            .map_err(|e| sys::durable::named(e, &path))?;
    }
    go.write_all(b"g")
}

enum Next {
    Serve,
    HungUp,
    Quit,
}
