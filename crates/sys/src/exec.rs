//! Starting a program for a user of the sandbox, and collecting what has ended.
//!
//! The child is made by a plain `fork`: the callers are small. Everything the child needs is laid out
//! before the fork, because between fork and exec nothing may allocate or lock. The parent does not wait
//! for the exec, which may sit in a slow filesystem; it reads how that went from [`Started::outcome`].

mod standby;

pub use standby::Standby;

use rustix::io::Errno;
use rustix::process::{Pid, WaitOptions, WaitStatus};
use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

/// Exit status of a child that did not get as far as its program, as shells use it.
const EXIT_NOT_EXECUTED: i32 = 127;
/// Where a name without a slash is looked for if the child has no PATH.
const PATH_DEFAULT: &[u8] = b"/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Highest signal number of Linux (`_NSIG`).
const SIGNAL_MAX: i32 = 64;

/// Who the program runs as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credentials {
    /// User.
    pub uid: u32,
    /// Primary group.
    pub gid: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

/// A program to start.
#[derive(Debug)]
pub struct Spawn<'a> {
    /// Program (a path, or a name looked up in the PATH of `env`) and its arguments.
    pub argv: Vec<CString>,
    /// Environment as `NAME=value`.
    pub env: Vec<CString>,
    /// Directory to start in; entered as the user.
    pub cwd: CString,
    /// `None`: stay who the caller is.
    pub credentials: Option<Credentials>,
    /// Standard input.
    pub stdin: BorrowedFd<'a>,
    /// Standard output.
    pub stdout: BorrowedFd<'a>,
    /// Standard error.
    pub stderr: BorrowedFd<'a>,
    /// Open `cgroup.procs` files the child enters, in order, while it is still the caller's user.
    pub cgroups: Vec<BorrowedFd<'a>>,
}

/// A child that is on its way to its program.
#[derive(Debug)]
pub struct Started {
    /// Its process id, also its session and process group.
    pub pid: i32,
    /// Reads as empty once the program runs, else as what [`exec_outcome`] understands.
    pub outcome: OwnedFd,
}

/// Steps of a child that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Step {
    /// Entering a cgroup.
    Cgroup = 1,
    /// Attaching the standard descriptors.
    Stdio = 2,
    /// Becoming the user.
    Credentials = 3,
    /// Entering the working directory.
    Chdir = 4,
    /// Running the program.
    Exec = 5,
}

/// Why a child never ran its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", match .step {
    Step::Cgroup => "enter the cgroup",
    Step::Stdio => "attach standard input and output",
    Step::Credentials => "become the user",
    Step::Chdir => "enter the working directory",
    Step::Exec => "run the program",
})]
pub struct ExecError {
    /// Which step.
    pub step: Step,
    /// What the kernel said.
    #[source]
    pub errno: Errno,
}

/// What `outcome`'s bytes mean, read to the end.
///
/// # Errors
/// The child did not run its program.
pub fn exec_outcome(bytes: &[u8]) -> Result<(), ExecError> {
    let Some((step, rest)) = bytes.split_first_chunk::<4>() else {
        return Ok(());
    };
    let errno = rest
        .first_chunk::<4>()
        .map_or(0, |bytes| i32::from_ne_bytes(*bytes));
    let step = match u32::from_ne_bytes(*step) {
        1 => Step::Cgroup,
        2 => Step::Stdio,
        3 => Step::Credentials,
        4 => Step::Chdir,
        _ => Step::Exec,
    };
    Err(ExecError {
        step,
        errno: Errno::from_raw_os_error(errno),
    })
}

/// All a child touches between fork and exec. Pointers stay valid: the owners outlive the fork.
struct Plan {
    candidates: Vec<*const libc::c_char>,
    argv: Vec<*const libc::c_char>,
    /// `/bin/sh`, a slot for the file, the arguments: for a script without `#!`, as execvp(3) does.
    script_argv: Vec<*const libc::c_char>,
    env: Vec<*const libc::c_char>,
    cgroups: Vec<RawFd>,
    stdio: [RawFd; 3],
    report: RawFd,
}

/// What a child becomes, as pointers to terminated arrays and strings.
struct Target<'a> {
    cwd: *const libc::c_char,
    /// User, group, supplementary groups.
    user: Option<(u32, u32, &'a [u32])>,
    stdio: [RawFd; 3],
    candidates: &'a [*const libc::c_char],
    argv: &'a [*const libc::c_char],
    script_argv: &'a mut [*const libc::c_char],
    env: &'a [*const libc::c_char],
}

/// Starts the child.
///
/// # Errors
/// `argv` is empty, or there are no descriptors or processes left.
pub fn spawn(spawn: &Spawn<'_>) -> io::Result<Started> {
    let Some(program) = spawn.argv.first() else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "no program named",
        ));
    };
    let (outcome, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // Numbers below 3 would be overwritten by the child's own standard descriptors.
    let report = rustix::io::fcntl_dupfd_cloexec(report, 3)?;
    let stdio =
        [spawn.stdin, spawn.stdout, spawn.stderr].map(|fd| rustix::io::fcntl_dupfd_cloexec(fd, 3));
    let [stdin, stdout, stderr] = stdio;
    let stdio = [stdin?, stdout?, stderr?];
    let pointers = |strings: &[CString]| {
        strings
            .iter()
            .map(|s| s.as_ptr())
            .chain([ptr::null()])
            .collect::<Vec<_>>()
    };
    let argv = pointers(&spawn.argv);
    let mut script_argv = vec![c"/bin/sh".as_ptr(), ptr::null()];
    script_argv.extend(argv.iter().skip(1));
    let candidates = candidates(program, &spawn.env);
    let mut plan = Plan {
        candidates: candidates.iter().map(|c| c.as_ptr()).collect(),
        argv,
        script_argv,
        env: pointers(&spawn.env),
        stdio: [
            stdio[0].as_raw_fd(),
            stdio[1].as_raw_fd(),
            stdio[2].as_raw_fd(),
        ],
        cgroups: spawn.cgroups.iter().map(AsRawFd::as_raw_fd).collect(),
        report: report.as_raw_fd(),
    };
    // SAFETY: the child calls only async-signal-safe functions on memory laid out above and never
    // returns from `child`; the parent goes on as before.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: this is the child of the fork, as `child` demands.
        0 => unsafe { child(spawn, &mut plan) },
        pid => Ok(Started { pid, outcome }),
    }
}

/// Paths to try, in order.
fn candidates(program: &CStr, env: &[CString]) -> Vec<CString> {
    let name = program.to_bytes();
    if name.contains(&b'/') || name.is_empty() {
        return vec![program.to_owned()];
    }
    let path = env
        .iter()
        .find_map(|pair| pair.to_bytes().strip_prefix(b"PATH="));
    let directories = path.unwrap_or(PATH_DEFAULT).split(|byte| *byte == b':');
    let join = |directory: &[u8]| {
        // An empty entry of PATH means the working directory.
        let directory = if directory.is_empty() {
            b"."
        } else {
            directory
        };
        let path = std::path::Path::new(OsStr::from_bytes(directory)).join(OsStr::from_bytes(name));
        CString::new(path.into_os_string().into_encoded_bytes()).ok()
    };
    directories.filter_map(join).collect()
}

/// The child's side.
///
/// # Safety
/// Only in the child of a fork.
unsafe fn child(spawn: &Spawn<'_>, plan: &mut Plan) -> ! {
    let target = Target {
        cwd: spawn.cwd.as_ptr(),
        user: spawn
            .credentials
            .as_ref()
            .map(|c| (c.uid, c.gid, c.groups.as_slice())),
        stdio: plan.stdio,
        candidates: &plan.candidates,
        argv: &plan.argv,
        script_argv: &mut plan.script_argv,
        env: &plan.env,
    };
    // SAFETY: plain system calls on the child's own state; pointers in `plan` are valid and terminated.
    unsafe {
        reset_signals();
        let failed = match join_cgroups(&plan.cgroups) {
            Ok(()) => {
                // Before the working directory is entered: its path may lead through `/proc/self/fd`.
                let [stdin, stdout, stderr] = plan.stdio;
                let mut keep = [stdin, stdout, stderr, plan.report];
                keep.sort_unstable();
                close_all_but(&keep);
                become_program(target)
            }
            Err(error) => error,
        };
        give_up(plan.report, failed)
    }
}

/// Reports why the program does not run, and ends.
///
/// # Safety
/// Only in the child of a fork.
unsafe fn give_up(report: RawFd, failed: ExecError) -> ! {
    let mut message = [0u8; 8];
    message[..4].copy_from_slice(&(failed.step as u32).to_ne_bytes());
    message[4..].copy_from_slice(&failed.errno.raw_os_error().to_ne_bytes());
    // SAFETY: writes from a local buffer; _exit never returns and runs no handlers of the parent's.
    unsafe {
        libc::write(report, message.as_ptr().cast(), message.len());
        libc::_exit(EXIT_NOT_EXECUTED)
    }
}

/// Becomes the program; returns only what prevented it.
unsafe fn become_program(target: Target<'_>) -> ExecError {
    let check = |step, result: libc::c_long| {
        if result < 0 {
            Err(ExecError {
                step,
                errno: last_errno(),
            })
        } else {
            Ok(())
        }
    };
    // SAFETY: see the callers; each call gets descriptors and pointers that live until exec.
    let prepared = unsafe {
        libc::setsid();
        libc::umask(0o022);
        libc::setpriority(libc::PRIO_PROCESS, 0, 0);
        attach_stdio(target.stdio)
            .and_then(|()| match target.user {
                Some((uid, gid, groups)) => become_user(uid, gid, groups),
                None => Ok(()),
            })
            .and_then(|()| check(Step::Chdir, libc::chdir(target.cwd).into()))
    };
    if let Err(error) = prepared {
        return error;
    }
    // SAFETY: marks descriptors; the report pipe stays open until exec succeeds.
    unsafe {
        libc::syscall(
            libc::SYS_close_range,
            3,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        );
        ExecError {
            step: Step::Exec,
            errno: execute(target),
        }
    }
}

/// Tries each candidate as execvp(3) does; returns why none ran.
unsafe fn execute(target: Target<'_>) -> Errno {
    let mut denied = false;
    for path in target.candidates {
        // SAFETY: both arrays are null-terminated arrays of C strings that live in the caller.
        unsafe { libc::execve(*path, target.argv.as_ptr(), target.env.as_ptr()) };
        match last_errno() {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => denied = true,
            Errno::NOEXEC => {
                target.script_argv[1] = *path;
                let (argv, env) = (target.script_argv.as_ptr(), target.env.as_ptr());
                // SAFETY: as above.
                unsafe { libc::execve(c"/bin/sh".as_ptr(), argv, env) };
                return Errno::NOEXEC;
            }
            other => return other,
        }
    }
    if denied { Errno::ACCESS } else { Errno::NOENT }
}

fn last_errno() -> Errno {
    // SAFETY: the location is this thread's own.
    Errno::from_raw_os_error(unsafe { *libc::__errno_location() })
}

/// Nothing the agent blocks or ignores may leak into programs (a program with SIGPIPE ignored misbehaves).
/// Raw calls: the C library hides its own two signals.
unsafe fn reset_signals() {
    // Handler, flags, restorer and mask of the kernel's structure: all zero is SIG_DFL and an empty set.
    let zero = [0u64; 4];
    let size = size_of::<u64>();
    // SAFETY: the kernel reads at most 32 bytes of the first and 8 bytes of the second argument.
    unsafe {
        for signal in 1..=SIGNAL_MAX {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                zero.as_ptr(),
                ptr::null::<u8>(),
                size,
            );
        }
        let set = libc::SIG_SETMASK;
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            set,
            zero.as_ptr(),
            ptr::null::<u8>(),
            size,
        );
    }
}

unsafe fn join_cgroups(cgroups: &[RawFd]) -> Result<(), ExecError> {
    for fd in cgroups {
        // SAFETY: writes one byte of a constant; "0" means the writer.
        if unsafe { libc::write(*fd, b"0".as_ptr().cast(), 1) } < 0 {
            return Err(ExecError {
                step: Step::Cgroup,
                errno: last_errno(),
            });
        }
    }
    Ok(())
}

/// Closes every descriptor above the standard ones but those in `keep`, which is sorted.
unsafe fn close_all_but(keep: &[RawFd]) {
    let close = |first: RawFd, last: libc::c_uint| {
        // SAFETY: closes descriptors of this process only; an empty range is answered with EINVAL.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    };
    let mut from = 3;
    for fd in keep {
        if *fd > from {
            close(from, (*fd - 1).cast_unsigned());
        }
        from = from.max(*fd + 1);
    }
    close(from, libc::c_uint::MAX);
}

unsafe fn attach_stdio(stdio: [RawFd; 3]) -> Result<(), ExecError> {
    for (number, fd) in (0..).zip(stdio) {
        // SAFETY: sources are all above 2, so none is overwritten before its turn.
        if unsafe { libc::dup2(fd, number) } < 0 {
            return Err(ExecError {
                step: Step::Stdio,
                errno: last_errno(),
            });
        }
    }
    Ok(())
}

/// Raw calls: the C library's versions would signal threads that do not exist after a fork.
unsafe fn become_user(uid: u32, gid: u32, groups: &[u32]) -> Result<(), ExecError> {
    // SAFETY: the pointer and length describe `groups`; the other calls take plain numbers.
    let failed = unsafe {
        libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr()) < 0
            || libc::syscall(libc::SYS_setresgid, gid, gid, gid) < 0
            || libc::syscall(libc::SYS_setresuid, uid, uid, uid) < 0
    };
    if failed {
        return Err(ExecError {
            step: Step::Credentials,
            errno: last_errno(),
        });
    }
    Ok(())
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signaled {
        /// Its number.
        signal: i32,
        /// Whether it left a core file.
        core_dumped: bool,
    },
}

impl ExitStatus {
    fn new(status: WaitStatus) -> Option<Self> {
        let exited = status.exit_status().map(Self::Exited);
        let core_dumped = status.as_raw() & 0x80 != 0;
        exited.or_else(|| {
            status.terminating_signal().map(|signal| Self::Signaled {
                signal,
                core_dumped,
            })
        })
    }
}

/// Collects every child that has ended, also adopted ones. Only for PID 1 and subreapers.
#[must_use]
pub fn reap_all() -> Vec<(i32, ExitStatus)> {
    let mut ended = Vec::new();
    // ECHILD ends it as well: no children, nothing to reap.
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        ended.extend(ExitStatus::new(status).map(|status| (pid.as_raw_nonzero().get(), status)));
    }
    ended
}

/// Collects one child if it has ended.
#[must_use]
pub fn reap(pid: i32) -> Option<ExitStatus> {
    let (_, status) = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG).ok()??;
    ExitStatus::new(status)
}

/// Takes over descriptors the process was started with and keeps them from its own children. Once only.
///
/// # Errors
/// A number is not an open descriptor.
pub fn take_inherited<const N: usize>(numbers: [RawFd; N]) -> io::Result<[OwnedFd; N]> {
    for number in numbers {
        // SAFETY: changes a flag only; a closed number is answered with EBADF.
        if unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    // SAFETY: all are open, and by the contract of this call nothing else owns them.
    Ok(numbers.map(|number| unsafe { OwnedFd::from_raw_fd(number) }))
}

#[cfg(test)]
mod tests;
