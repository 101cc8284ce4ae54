//! User namespaces as descriptors: for idmapped mounts, which need the maps and no process.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;

/// A user namespace in which the ids `0..size` are `base..` on the host.
///
/// The namespace is made by a short-lived child and lives by the descriptor alone.
pub fn mapped(base: u32, size: u32) -> io::Result<OwnedFd> {
    let child = Child::start()?;
    let map = format!("0 {base} {size}");
    for file in ["uid_map", "gid_map"] {
        // A map is accepted in one write only, and only once.
        OpenOptions::new()
            .write(true)
            .open(child.path(file))?
            .write_all(map.as_bytes())?;
    }
    Ok(File::open(child.path("ns/user"))?.into())
}

/// A process that does nothing in a new user namespace; killed and reaped on drop.
struct Child {
    pid: libc::pid_t,
}

impl Child {
    fn start() -> io::Result<Self> {
        let blocked = SignalsBlocked::all()?;
        let flags = libc::CLONE_NEWUSER;
        // SAFETY: all pointers are null, so the child runs on a copy of this stack like after
        // fork. It makes only the async-signal-safe calls of `wait_to_be_killed`, which never
        // returns, so no destructor and no lock of the parent is touched.
        let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        if pid == 0 {
            wait_to_be_killed();
        }
        let error = io::Error::last_os_error();
        drop(blocked);
        match libc::pid_t::try_from(pid) {
            Ok(pid) if pid > 0 => Ok(Self { pid }),
            _ => Err(error),
        }
    }

    fn path(&self, file: &str) -> String {
        format!("/proc/{}/{file}", self.pid)
    }
}

/// The whole life of the child. No exit signal was asked for, so the parent gets no SIGCHLD.
fn wait_to_be_killed() -> ! {
    // SAFETY: plain system calls without pointers, allowed after a fork of a threaded process.
    // The death signal covers a parent that is killed before it kills this child.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        loop {
            libc::pause();
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the pid is our own unreaped child, so it cannot have been reused; the status
        // pointer may be null. `__WALL` because the child has no exit signal.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            while libc::waitpid(self.pid, std::ptr::null_mut(), libc::__WALL) < 0
                && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
            {}
        }
    }
}

/// Blocks every signal of this thread for a while, so that no handler of the parent runs in a
/// child that shares its descriptors (a runtime's handler would wake the parent by them).
struct SignalsBlocked {
    before: libc::sigset_t,
}

impl SignalsBlocked {
    fn all() -> io::Result<Self> {
        // SAFETY: an all-zero signal set is a valid value of this plain C type, and both sets
        // are live for the calls.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            let code = libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            if code != 0 {
                return Err(io::Error::from_raw_os_error(code));
            }
            Ok(Self { before })
        }
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        // SAFETY: `before` is the set that the kernel gave us; the old set is not asked for.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_SETMASK,
                &raw const self.before,
                std::ptr::null_mut(),
            );
        }
    }
}
