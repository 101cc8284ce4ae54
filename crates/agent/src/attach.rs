//! From a waiting process to PID 1 of a sandbox: one message with the root and all else.
//!
//! Everything here happens before a second thread exists: what is locked down here holds for all threads.

use crate::{Cgroups, Config, Reaping, Waiting};
use model::attach::{self, AttachFile, AttachReply, AttachRequest, Message, PrepareRequest};
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::net::SocketFlags;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use sys::confine::{Confine, Seccomp};
use sys::process::NewRoot;

/// Directory of the waiting process's root on which the new root is put for a moment.
const STAGE: &str = "/stage";

/// What the waiting process was started with.
#[derive(Debug)]
pub struct Inherited {
    /// Listening socket.
    pub listener: OwnedFd,
    /// Detached `/proc`, `/dev`, `/sys`.
    pub mounts: [OwnedFd; 3],
}

/// A step of becoming a sandbox that failed.
#[derive(Debug, thiserror::Error)]
#[error("{step}")]
pub struct AttachError {
    step: String,
    #[source]
    cause: io::Error,
}

fn at(step: impl Into<String>) -> impl FnOnce(io::Error) -> AttachError {
    let step = step.into();
    move |cause| AttachError { step, cause }
}

/// What is ready before the sandbox is claimed.
struct Ready {
    seccomp: Seccomp,
    cgroups: Cgroups,
    first: Option<Waiting>,
}

/// Waits for both messages, becomes the sandbox, answers. Returns what the server is made from.
///
/// # Errors
/// A step failed; the peer was told, and the process must end.
pub fn attach(inherited: Inherited) -> Result<(OwnedFd, Config), AttachError> {
    let Inherited { listener, mounts } = inherited;
    // Compiled while nobody waits.
    let seccomp = Seccomp::compile().map_err(at("compile the seccomp filter"))?;
    let ready = answer(&listener, |message, fds| match message {
        Message::Prepare(request) => prepare(&request, fds, seccomp),
        Message::Attach(_) => Err(out_of_turn("an attach before a prepare")),
    })?;
    let config = answer(&listener, |message, fds| match message {
        Message::Attach(request) => enter(*request, fds, mounts, ready),
        Message::Prepare(_) => Err(out_of_turn("a second prepare")),
    })?;
    Ok((listener, config))
}

fn out_of_turn(what: &str) -> AttachError {
    at("read the message")(io::Error::other(format!("{what} is out of turn")))
}

/// Takes one message, does `work` for it, tells the peer how that went.
fn answer<T>(
    listener: &OwnedFd,
    work: impl FnOnce(Message, Vec<OwnedFd>) -> Result<T, AttachError>,
) -> Result<T, AttachError> {
    let peer = rustix::net::accept_with(listener, SocketFlags::CLOEXEC);
    let peer = peer.map_err(|errno| at("accept the node")(errno.into()))?;
    let done = sys::socket::recv_message(peer.as_fd(), attach::MESSAGE_BYTES_MAX, attach::FDS_MAX)
        .map_err(at("receive the message"))
        .and_then(|(bytes, fds)| {
            let message = serde_json::from_slice(&bytes)
                .map_err(|error| at("read the message")(io::Error::other(error)))?;
            work(message, fds)
        });
    let reply = match &done {
        Ok(_) => AttachReply::Ready,
        Err(AttachError { step, cause }) => AttachReply::Failed(format!("{step}: {cause}")),
    };
    let reply = serde_json::to_vec(&reply).expect("a reply is a word or a string");
    let sent = sys::socket::send_message(peer.as_fd(), &reply, &[]);
    let value = done?;
    sent.map_err(at("answer the node"))?;
    Ok(value)
}

/// Takes the cgroups and lets the first command's process enter them, which takes the kernel a while.
fn prepare(
    request: &PrepareRequest,
    fds: Vec<OwnedFd>,
    seccomp: Seccomp,
) -> Result<Ready, AttachError> {
    let expected = request.cgroup_join + usize::from(request.cgroup_track);
    expect(expected, fds.len())?;
    let mut fds = fds.into_iter();
    let join = fds.by_ref().take(request.cgroup_join).collect();
    let cgroups = Cgroups {
        join,
        track: fds.next(),
    };
    let first = Waiting::first(&cgroups, &seccomp).map_err(at("fork the first command"))?;
    Ok(Ready {
        seccomp,
        cgroups,
        first: Some(first),
    })
}

fn expect(announced: usize, received: usize) -> Result<(), AttachError> {
    if announced == received {
        return Ok(());
    }
    let text = format!("{announced} descriptors announced, {received} received");
    Err(at("sort the descriptors")(io::Error::other(text)))
}

fn enter(
    request: AttachRequest,
    fds: Vec<OwnedFd>,
    base_mounts: [OwnedFd; 3],
    ready: Ready,
) -> Result<Config, AttachError> {
    expect(1 + request.extra_mounts.len(), fds.len())?;
    let mut fds = fds.into_iter();
    let root = fds.next().expect("counted: there is at least one");
    let targets = ["/proc", "/dev", "/sys"].map(str::to_owned);
    let mut mounts: Vec<_> = targets.into_iter().zip(base_mounts).collect();
    mounts.extend(request.extra_mounts.iter().cloned().zip(fds));
    sys::process::become_root(NewRoot {
        root,
        mounts,
        stage: STAGE,
    })
    .map_err(at("enter the root"))?;
    rustix::system::sethostname(request.hostname.as_bytes())
        .map_err(|errno| at("set the host name")(errno.into()))?;
    // Programs get their own umask; this one is for what the server makes.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    for file in &request.files {
        write(file).map_err(at(format!("write {}", file.path)))?;
    }
    if let Some(workdir) = &request.init.workdir {
        // As docker makes a WORKDIR that the image lacks; a command says so if this failed.
        fs::create_dir_all(Path::new("/").join(workdir)).ok();
    }
    // A sandbox outlives the process that made it.
    rustix::process::set_parent_process_death_signal(None)
        .map_err(|errno| at("outlive the parent")(errno.into()))?;
    let confinement = request.confinement;
    let confine = Confine {
        no_new_privs: confinement.no_new_privs,
        rlimits: confinement.rlimits,
    };
    sys::confine::lock_down(&ready.seccomp, &confine).map_err(at("lock down"))?;
    Ok(Config {
        sandbox_id: request.sandbox_id,
        template_id: request.template_id,
        init: request.init,
        cgroups: ready.cgroups,
        reaping: Reaping::All,
        first: ready.first.map(|first| first.confined(confine)),
    })
}

/// Puts a file in place of whatever is there, never through a link.
fn write(file: &AttachFile) -> io::Result<()> {
    let path = Path::new(&file.path);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    match rustix::fs::unlinkat(CWD, path, AtFlags::empty()) {
        Ok(()) | Err(rustix::io::Errno::NOENT) => {}
        Err(errno) => return Err(errno.into()),
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(file.mode);
    let mut open = File::from(rustix::fs::open(path, flags, mode)?);
    // The umask of whoever started us must not matter.
    rustix::fs::fchmod(&open, mode)?;
    open.write_all(file.content.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_the_node_replace_links_and_keep_their_targets() {
        let root = tempfile::tempdir().unwrap();
        let (target, link) = (root.path().join("target"), root.path().join("etc/hosts"));
        fs::create_dir(root.path().join("etc")).unwrap();
        File::create(&target).unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        for path in [link.clone(), root.path().join("new/dir/file")] {
            let path = path.to_str().unwrap().to_owned();
            let file = AttachFile {
                path,
                content: "text".into(),
                mode: 0o640,
            };
            write(&file).unwrap();
            assert_eq!(fs::read_to_string(&file.path).unwrap(), "text");
        }
        assert!(fs::symlink_metadata(&link).unwrap().is_file());
        assert_eq!(fs::read_to_string(&target).unwrap(), "");
    }

    #[test]
    fn a_message_with_the_wrong_number_of_descriptors_is_refused() {
        let request = PrepareRequest {
            cgroup_join: 2,
            cgroup_track: true,
        };
        for count in [0, 2, 4] {
            let fds = (0..count)
                .map(|_| File::open("/dev/null").unwrap().into())
                .collect();
            let error = prepare(&request, fds, Seccomp::compile().unwrap())
                .err()
                .unwrap();
            let text = format!("3 descriptors announced, {count} received");
            assert_eq!(error.cause.to_string(), text);
        }
    }
}
