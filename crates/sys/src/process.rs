//! Processes: cloning into namespaces, entering a root, executing by descriptor, pidfds.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, UnmountFlags, move_mount, unmount};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::Path;
use std::time::{Duration, Instant};

/// A child made by [`clone_namespaces`].
#[derive(Debug)]
pub struct Child {
    /// Its id in the caller's pid namespace.
    pub pid: i32,
    /// Readable when it has exited.
    pub pidfd: OwnedFd,
}

/// The namespaces of a sandbox shell. The cgroup namespace follows later by `unshare`, when the
/// process sits in its cgroup: the namespace's root is the cgroup at that moment.
const SHELL_NAMESPACES: libc::c_int = libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET;

/// Clones the calling process into new namespaces; `child` runs there and must not return control.
///
/// Only for single-threaded callers (the spawner): the child runs ordinary code, which after a clone
/// of a multi-threaded process could meet a lock that nobody will release. Fails with `EBUSY` otherwise.
pub fn clone_namespaces(child: impl FnOnce() -> i32) -> io::Result<Child> {
    if std::fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(Errno::BUSY.into());
    }
    let mut pidfd: RawFd = -1;
    let flags = SHELL_NAMESPACES | libc::CLONE_PIDFD;
    // SAFETY: zero is a valid value for every field of this plain C struct.
    let mut args: libc::clone_args = unsafe { std::mem::zeroed() };
    args.flags = u64::from(flags.cast_unsigned());
    args.pidfd = std::ptr::from_mut(&mut pidfd) as u64;
    args.exit_signal = u64::from(libc::SIGCHLD.cast_unsigned());
    // SAFETY: `args` is valid for its size and its pidfd pointer outlives the call. No CLONE_VM: the
    // child gets a copy of the memory and continues on its own stack copy, as after fork; the process
    // has one thread (checked above), so no lock is held by a thread that the child lacks.
    let pid = unsafe {
        libc::syscall(
            libc::SYS_clone3,
            std::ptr::from_mut(&mut args),
            size_of::<libc::clone_args>(),
        )
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let status =
                std::panic::catch_unwind(std::panic::AssertUnwindSafe(child)).unwrap_or(101);
            // SAFETY: ends the process at once; nothing of the parent's copy may run (destructors, buffers).
            unsafe { libc::_exit(status) }
        }
        pid => {
            let pid = i32::try_from(pid).map_err(io::Error::other)?;
            // SAFETY: the kernel stored a fresh descriptor there that nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Child { pid, pidfd })
        }
    }
}

/// A namespace of the calling process that [`leave_namespace`] replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Namespace {
    /// What it sees mounted.
    Mount,
    /// What it sees as the root of its cgroups: the groups it is in now.
    Cgroup,
}

/// Moves the calling process into a new namespace. Only for processes with one thread.
pub fn leave_namespace(namespace: Namespace) -> io::Result<()> {
    let flag = match namespace {
        Namespace::Mount => libc::CLONE_NEWNS,
        Namespace::Cgroup => libc::CLONE_NEWCGROUP,
    };
    // SAFETY: takes a plain flag; neither namespace shares descriptors or memory with other threads.
    if unsafe { libc::unshare(flag) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Lets the kernel reap children by itself, so that the spawner never has zombies to wait for.
pub fn reap_automatically() -> io::Result<()> {
    // SAFETY: SIG_IGN is a valid disposition and no handler of ours is replaced.
    let previous = unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    if previous == libc::SIG_ERR {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Puts all signals back to their default and unblocks them, for a program about to be executed.
pub fn reset_signals() -> io::Result<()> {
    for signal in 1..=64 {
        if matches!(signal, libc::SIGKILL | libc::SIGSTOP | 32 | 33) {
            continue;
        }
        // SAFETY: SIG_DFL is valid for every signal; failures (reserved numbers) change nothing.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
    // SAFETY: `set` is filled by sigemptyset before use and outlives the call.
    let r = unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut())
    };
    if r == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Replaces the calling process by the program behind `program`, handing over exactly the descriptors
/// 0, 1 and 2, which are `null` opened anew, and `inherit`, which become 3, 4, ... in order. Returns only
/// on failure.
pub fn exec_fd(
    program: BorrowedFd<'_>,
    name: &str,
    null: &Path,
    inherit: Vec<OwnedFd>,
) -> io::Error {
    match place_and_exec(program, name, null, inherit) {
        Ok(never) => match never {},
        Err(e) => e,
    }
}

fn place_and_exec(
    program: BorrowedFd<'_>,
    name: &str,
    null: &Path,
    inherit: Vec<OwnedFd>,
) -> io::Result<std::convert::Infallible> {
    // Standard descriptors of the host (its log!) could be reached through `/proc/self/fd` inside.
    let null = rustix::fs::open(null, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for standard in 0..3 {
        // SAFETY: plain numbers; what stood there is given up.
        if unsafe { libc::dup2(null.as_raw_fd(), standard) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // First out of the way of the target numbers, close-on-exec, then down to them.
    let high = |fd: BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(fd, 100);
    let program = high(program)?;
    let parked = inherit
        .iter()
        .map(|fd| high(fd.as_fd()))
        .collect::<Result<Vec<_>, _>>()?;
    drop(inherit);
    let mut next: RawFd = 3;
    for fd in &parked {
        // SAFETY: both numbers are plain ints; descriptors at `next` were ours and are given up.
        if unsafe { libc::dup2(fd.as_raw_fd(), next) } < 0 {
            return Err(io::Error::last_os_error());
        }
        next += 1;
    }
    let argv0 = CString::new(name).map_err(io::Error::other)?;
    let argv = [argv0.as_ptr(), std::ptr::null()];
    let envp: [*const libc::c_char; 1] = [std::ptr::null()];
    // SAFETY: marks all descriptors from `next` up close-on-exec; then executes with NULL-terminated
    // arrays that live until the call replaces the process or fails.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            next,
            u32::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        libc::execveat(
            program.as_raw_fd(),
            c"".as_ptr(),
            argv.as_ptr().cast(),
            envp.as_ptr().cast(),
            libc::AT_EMPTY_PATH,
        );
    }
    Err(io::Error::last_os_error())
}

/// The mounts that become a sandbox's root.
#[derive(Debug)]
pub struct NewRoot {
    /// Detached mount of the root itself.
    pub root: OwnedFd,
    /// Detached mounts and their absolute targets inside, put on in this order.
    pub mounts: Vec<(String, OwnedFd)>,
    /// Existing directory of the present root on which the new root is put for a moment.
    pub stage: &'static str,
}

/// Makes `new.root` the root of this mount namespace and drops the old one.
///
/// Targets are resolved inside the new root; missing directories are made. A target that is or leads
/// through a symlink is refused, so that an image cannot redirect `/proc`.
pub fn become_root(new: NewRoot) -> io::Result<()> {
    move_mount(
        &new.root,
        "",
        rustix::fs::CWD,
        new.stage,
        MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH,
    )
    .map_err(|e| step("attach the root", e))?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root =
        rustix::fs::open(new.stage, flags, Mode::empty()).map_err(|e| step("open the root", e))?;
    for (target, mount) in &new.mounts {
        let at = make_dirs(root.as_fd(), target).map_err(|e| step(target, e))?;
        let flags =
            MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
        move_mount(mount, "", &at, "", flags).map_err(|e| step(target, e))?;
    }
    rustix::process::fchdir(&root).map_err(|e| step("enter the root", e))?;
    rustix::process::pivot_root(".", ".").map_err(|e| step("pivot_root", e))?;
    unmount(".", UnmountFlags::DETACH).map_err(|e| step("drop the old root", e))?;
    rustix::process::chdir("/").map_err(|e| step("chdir /", e))?;
    Ok(())
}

fn step(what: &str, error: Errno) -> io::Error {
    let error = io::Error::from(error);
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Opens the directory `target` under `root`, making what is missing, following no symlink.
fn make_dirs(root: BorrowedFd<'_>, target: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS;
    let mut at = rustix::fs::openat2(root, ".", flags, Mode::empty(), resolve)?;
    for part in target.split('/').filter(|p| !p.is_empty()) {
        let next = match rustix::fs::openat2(&at, part, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o755))?;
                rustix::fs::openat2(&at, part, flags, Mode::empty(), resolve)?
            }
            other => other?,
        };
        at = next;
    }
    Ok(at)
}

/// A pidfd for `pid`; readable when the process has exited.
pub fn pidfd(pid: i32) -> io::Result<OwnedFd> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::INVAL)?;
    Ok(rustix::process::pidfd_open(
        pid,
        rustix::process::PidfdFlags::empty(),
    )?)
}

/// Sends SIGKILL; a process that is already gone is fine.
pub fn kill(pidfd: BorrowedFd<'_>) -> io::Result<()> {
    match rustix::process::pidfd_send_signal(pidfd, rustix::process::Signal::KILL) {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(e) => Err(e.into()),
    }
}

/// Waits until the process has exited; `false` if `limit` passed before.
pub fn wait_exit(pidfd: BorrowedFd<'_>, limit: Duration) -> io::Result<bool> {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout = rustix::time::Timespec::try_from(left).map_err(io::Error::other)?;
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(
            pidfd,
            rustix::event::PollFlags::IN,
        )];
        match rustix::event::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(false),
            Ok(_) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

/// When `pid` started, clock ticks since boot (`proc_pid_stat(5)`, field 22).
pub fn start_ticks(pid: i32) -> io::Result<u64> {
    let path = format!("/proc/{pid}/stat");
    let stat =
        std::fs::read_to_string(&path).map_err(|e| crate::durable::named(e, Path::new(&path)))?;
    // The second field is the name in parentheses and may itself contain anything.
    stat.rsplit_once(')')
        .and_then(|(_, rest)| rest.split_ascii_whitespace().nth(19))
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, format!("{path}: no start time")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_running_process_has_a_start_time_and_its_exit_is_seen() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let pid = i32::try_from(child.id()).expect("pid");
        assert!(start_ticks(pid).expect("ticks") > 0);
        let fd = pidfd(pid).expect("pidfd");
        assert!(!wait_exit(fd.as_fd(), Duration::from_millis(1)).expect("poll"));
        kill(fd.as_fd()).expect("kill");
        assert!(wait_exit(fd.as_fd(), Duration::from_secs(10)).expect("poll"));
        child.wait().expect("reap");
        kill(fd.as_fd()).expect("killing the dead is fine");
        assert!(start_ticks(pid).is_err());
    }

    #[test]
    fn cloning_from_a_process_with_threads_is_refused() {
        let error = clone_namespaces(|| 0).expect_err("the test harness has threads");
        assert_eq!(error.raw_os_error(), Some(libc::EBUSY));
    }

    #[test]
    fn targets_never_lead_through_symlinks() {
        let dir = tempfile::tempdir().expect("dir");
        std::os::unix::fs::symlink("/etc", dir.path().join("proc")).expect("link");
        let flags = OFlags::PATH | OFlags::DIRECTORY;
        let root = rustix::fs::open(dir.path(), flags, Mode::empty()).expect("open");
        assert_eq!(
            make_dirs(root.as_fd(), "/proc").expect_err("symlink"),
            Errno::LOOP
        );
        make_dirs(root.as_fd(), "/a/b").expect("made");
        assert!(dir.path().join("a/b").is_dir());
    }
}
