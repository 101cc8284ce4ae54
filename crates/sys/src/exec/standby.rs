//! A child that waits, in its cgroups already, for the program it shall become.
//!
//! Entering a cgroup costs a grace period of the kernel (5 to 10 ms measured), which a command should not
//! wait for. So the child is forked ahead, enters, and blocks on its socket until the order comes. Between
//! fork and exec it neither allocates nor locks: the memory for the order is laid out before the fork.

use super::{
    ExecError, Spawn, Started, Step, Target, become_program, candidates, close_all_but, give_up,
    join_cgroups, last_errno, reset_signals,
};
use crate::confine::{Confine, Seccomp, lock_down};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

/// Longest order, bytes. Longer ones (huge environments) are for [`super::spawn`].
const ORDER_BYTES_MAX: usize = 192 * 1024;
/// Most strings of an order.
const STRINGS_MAX: usize = 4096;
/// Most supplementary groups; the kernel's own limit (NGROUPS_MAX) is 65,536, real users have a handful.
const GROUPS_MAX: usize = 256;
/// Most limits of a lockdown.
const RLIMITS_MAX: usize = 16;
/// Descriptors of an order: standard input, output, error, report.
const FDS: usize = 4;

/// A waiting child.
#[derive(Debug)]
pub struct Standby {
    /// Its process id.
    pub pid: i32,
    order: OwnedFd,
}

/// The fixed part of an order, followed by limits, groups and strings.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    /// Whether to lock down first.
    confine: u32,
    no_new_privs: u32,
    rlimits: u32,
    has_user: u32,
    uid: u32,
    gid: u32,
    groups: u32,
    candidates: u32,
    argv: u32,
    env: u32,
}

const HEAD_WORDS: usize = size_of::<Head>() / size_of::<u32>();

impl Head {
    fn words(self) -> [u32; HEAD_WORDS] {
        let Self {
            confine,
            no_new_privs,
            rlimits,
            has_user,
            uid,
            gid,
            groups,
            ..
        } = self;
        let Self {
            candidates,
            argv,
            env,
            ..
        } = self;
        [
            confine,
            no_new_privs,
            rlimits,
            has_user,
            uid,
            gid,
            groups,
            candidates,
            argv,
            env,
        ]
    }

    fn from_words(w: [u32; HEAD_WORDS]) -> Self {
        let [
            confine,
            no_new_privs,
            rlimits,
            has_user,
            uid,
            gid,
            groups,
            candidates,
            argv,
            env,
        ] = w;
        Self {
            confine,
            no_new_privs,
            rlimits,
            has_user,
            uid,
            gid,
            groups,
            candidates,
            argv,
            env,
        }
    }
}

impl Standby {
    /// Forks the child. It enters `cgroups` on its own time. With `seccomp` it is able to lock itself
    /// down when the order says so; only for callers that are not locked down yet and have one thread.
    pub fn fork(cgroups: &[BorrowedFd<'_>], seccomp: Option<&Seccomp>) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC;
        let (order, theirs) =
            rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        set_send_buffer(&order)?;
        let mut keep: Vec<RawFd> = cgroups.iter().map(AsRawFd::as_raw_fd).collect();
        let cgroups = keep.clone();
        keep.push(theirs.as_raw_fd());
        keep.sort_unstable();
        let mut room = Room::new();
        let socket = theirs.as_raw_fd();
        // SAFETY: the child makes system calls on memory laid out above and never returns from `wait`.
        // Where it may call more (lock_down), the caller has one thread, so no lock can be held.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            // SAFETY: this is the child of the fork, as `wait` demands.
            0 => unsafe { wait(&keep, &cgroups, socket, seccomp, &mut room) },
            pid => Ok(Self { pid, order }),
        }
    }

    /// Tells the child what to become. `confine`: lock down first (see [`Self::fork`]).
    ///
    /// `Ok(None)`: the order is too large for a waiting child, or the child is gone; use [`super::spawn`].
    /// The child ends by itself when this value is dropped.
    pub fn start(
        self,
        spawn: &Spawn<'_>,
        confine: Option<&Confine>,
    ) -> io::Result<Option<Started>> {
        let Some(bytes) = encode(spawn, confine) else {
            return Ok(None);
        };
        let (outcome, report) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let fds = [spawn.stdin, spawn.stdout, spawn.stderr, report.as_fd()];
        match crate::socket::send_packet(self.order.as_fd(), &bytes, &fds) {
            Ok(()) => Ok(Some(Started {
                pid: self.pid,
                outcome,
            })),
            Err(_) => Ok(None),
        }
    }
}

/// A packet must fit the socket's buffer, whose default is 208 KiB in the kernel's own accounting.
fn set_send_buffer(socket: &OwnedFd) -> io::Result<()> {
    // Clipped to net.core.wmem_max; a packet that then does not fit fails and is sent another way.
    rustix::net::sockopt::set_socket_send_buffer_size(socket, 2 * ORDER_BYTES_MAX)?;
    Ok(())
}

/// The order as bytes; `None` if it is beyond what a child has room for.
fn encode(spawn: &Spawn<'_>, confine: Option<&Confine>) -> Option<Vec<u8>> {
    let program = spawn.argv.first()?;
    let candidates = candidates(program, &spawn.env);
    let user = spawn.credentials.as_ref();
    let groups = user.map_or(&[][..], |c| &c.groups);
    let rlimits = confine.map_or(&[][..], |c| &c.rlimits);
    let strings = candidates.len() + spawn.argv.len() + spawn.env.len();
    if strings + 8 > STRINGS_MAX || groups.len() > GROUPS_MAX || rlimits.len() > RLIMITS_MAX {
        return None;
    }
    let count = |n: usize| u32::try_from(n).ok();
    let head = Head {
        confine: confine.is_some().into(),
        no_new_privs: confine.is_some_and(|c| c.no_new_privs).into(),
        rlimits: count(rlimits.len())?,
        has_user: user.is_some().into(),
        uid: user.map_or(0, |c| c.uid),
        gid: user.map_or(0, |c| c.gid),
        groups: count(groups.len())?,
        candidates: count(candidates.len())?,
        argv: count(spawn.argv.len())?,
        env: count(spawn.env.len())?,
    };
    let mut bytes = Vec::with_capacity(4096);
    bytes.extend(head.words().into_iter().flat_map(u32::to_ne_bytes));
    for (resource, soft, hard) in rlimits {
        bytes.extend(u64::from(*resource).to_ne_bytes());
        bytes.extend(soft.to_ne_bytes());
        bytes.extend(hard.to_ne_bytes());
    }
    bytes.extend(groups.iter().flat_map(|g| g.to_ne_bytes()));
    let strings = [&spawn.cwd]
        .into_iter()
        .chain(&candidates)
        .chain(&spawn.argv)
        .chain(&spawn.env);
    strings.for_each(|s| bytes.extend(s.as_bytes_with_nul()));
    (bytes.len() <= ORDER_BYTES_MAX).then_some(bytes)
}

/// Memory of a waiting child, made before the fork. Untouched pages cost nothing.
struct Room {
    bytes: Vec<u8>,
    pointers: Vec<*const libc::c_char>,
    groups: [u32; GROUPS_MAX],
    rlimits: Vec<(u32, u64, u64)>,
    control: [u64; 8],
}

impl Room {
    fn new() -> Self {
        Self {
            bytes: vec![0; ORDER_BYTES_MAX],
            pointers: vec![ptr::null(); 2 * STRINGS_MAX],
            groups: [0; GROUPS_MAX],
            rlimits: Vec::with_capacity(RLIMITS_MAX),
            control: [0; 8],
        }
    }
}

/// The child's side.
///
/// # Safety
/// Only in the child of a fork.
unsafe fn wait(
    keep: &[RawFd],
    cgroups: &[RawFd],
    socket: RawFd,
    seccomp: Option<&Seccomp>,
    room: &mut Room,
) -> ! {
    // SAFETY: system calls on plain numbers and on the room's memory.
    unsafe {
        reset_signals();
        // Foremost the ends of other programs' pipes: a copy here would keep them open.
        close_all_but(keep);
        let joined = join_cgroups(cgroups);
        let received = receive(socket, room);
        let Some((length, fds)) = received else {
            libc::_exit(0)
        };
        let [stdin, stdout, stderr, report] = fds;
        let failed = match joined {
            Ok(()) => obey(length, [stdin, stdout, stderr], seccomp, room),
            Err(error) => error,
        };
        give_up(report, failed)
    }
}

/// Waits for the order; `None` when the other end was closed.
unsafe fn receive(socket: RawFd, room: &mut Room) -> Option<(usize, [RawFd; FDS])> {
    let mut part = libc::iovec {
        iov_base: room.bytes.as_mut_ptr().cast(),
        iov_len: room.bytes.len(),
    };
    // SAFETY: all zero is a valid msghdr; pointers and lengths below describe the room's memory; CMSG
    // macros walk what the kernel wrote there.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = room.control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&room.control);
        let length = loop {
            let n = libc::recvmsg(socket, &raw mut message, libc::MSG_CMSG_CLOEXEC);
            if n >= 0 || last_errno() != rustix::io::Errno::INTR {
                break n;
            }
        };
        let length = usize::try_from(length).ok().filter(|n| *n > 0)?;
        let header = libc::CMSG_FIRSTHDR(&raw const message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        let mut fds = [0; FDS];
        ptr::copy_nonoverlapping(
            libc::CMSG_DATA(header).cast::<RawFd>(),
            fds.as_mut_ptr(),
            FDS,
        );
        Some((length, fds))
    }
}

/// Reads the order and becomes the program; returns only what prevented it.
unsafe fn obey(
    length: usize,
    stdio: [RawFd; 3],
    seccomp: Option<&Seccomp>,
    room: &mut Room,
) -> ExecError {
    let malformed = ExecError {
        step: Step::Exec,
        errno: rustix::io::Errno::INVAL,
    };
    let Room {
        bytes,
        pointers,
        groups,
        rlimits,
        ..
    } = room;
    let mut reader = Reader {
        bytes: bytes.get(..length).unwrap_or_default(),
    };
    let Some(head) = reader.head() else {
        return malformed;
    };
    for _ in 0..head.rlimits.min(16) {
        let (Some(which), Some(soft), Some(hard)) = (reader.long(), reader.long(), reader.long())
        else {
            return malformed;
        };
        // Within the capacity that was reserved before the fork.
        rlimits.push((u32::try_from(which).unwrap_or(u32::MAX), soft, hard));
    }
    let count = (head.groups as usize).min(GROUPS_MAX);
    for group in groups.iter_mut().take(count) {
        let Some(word) = reader.word() else {
            return malformed;
        };
        *group = word;
    }
    let Some(cwd) = reader.string() else {
        return malformed;
    };
    let Some(arrays) = Arrays::read(&mut reader, head, pointers) else {
        return malformed;
    };
    if head.confine != 0 {
        let limits = std::mem::take(rlimits);
        let confine = Confine {
            no_new_privs: head.no_new_privs != 0,
            rlimits: limits,
        };
        let locked = seccomp.map_or(Err(io::ErrorKind::Unsupported.into()), |seccomp| {
            lock_down(seccomp, &confine)
        });
        if let Err(error) = locked {
            let number = error.raw_os_error().unwrap_or(libc::EPERM);
            let errno = rustix::io::Errno::from_raw_os_error(number);
            return ExecError {
                step: Step::Credentials,
                errno,
            };
        }
    }
    let user = (head.has_user != 0).then_some((head.uid, head.gid, &groups[..count]));
    // Room for alignment of dup2's targets is not needed: received numbers are above the standard ones.
    // SAFETY: the arrays are terminated and point into the room, which lives until exec.
    unsafe {
        become_program(Target {
            cwd,
            user,
            stdio,
            candidates: arrays.candidates,
            argv: arrays.argv,
            script_argv: arrays.script_argv,
            env: arrays.env,
        })
    }
}

/// Terminated arrays of pointers to the order's strings.
struct Arrays<'a> {
    candidates: &'a [*const libc::c_char],
    argv: &'a [*const libc::c_char],
    script_argv: &'a mut [*const libc::c_char],
    env: &'a [*const libc::c_char],
}

impl<'a> Arrays<'a> {
    fn read(
        reader: &mut Reader<'_>,
        head: Head,
        pointers: &'a mut [*const libc::c_char],
    ) -> Option<Self> {
        let counts = [head.candidates, head.argv, head.env].map(|n| n as usize);
        let needed = counts.iter().sum::<usize>() + counts[1] + 8;
        if needed > pointers.len() || counts[1] == 0 {
            return None;
        }
        let (candidates, rest) = pointers.split_at_mut(counts[0]);
        let (argv, rest) = rest.split_at_mut(counts[1] + 1);
        let (env, rest) = rest.split_at_mut(counts[2] + 1);
        let (script_argv, _) = rest.split_at_mut(counts[1] + 2);
        for slot in candidates.iter_mut() {
            *slot = reader.string()?;
        }
        for slot in argv.iter_mut().take(counts[1]) {
            *slot = reader.string()?;
        }
        for slot in env.iter_mut().take(counts[2]) {
            *slot = reader.string()?;
        }
        script_argv[0] = c"/bin/sh".as_ptr();
        script_argv[2..=counts[1]].copy_from_slice(&argv[1..counts[1]]);
        Some(Self {
            candidates,
            argv,
            script_argv,
            env,
        })
    }
}

/// Takes an order apart. Never reads past its end.
struct Reader<'a> {
    bytes: &'a [u8],
}

impl Reader<'_> {
    fn word(&mut self) -> Option<u32> {
        let (first, rest) = self.bytes.split_first_chunk::<4>()?;
        self.bytes = rest;
        Some(u32::from_ne_bytes(*first))
    }

    fn long(&mut self) -> Option<u64> {
        let (first, rest) = self.bytes.split_first_chunk::<8>()?;
        self.bytes = rest;
        Some(u64::from_ne_bytes(*first))
    }

    fn head(&mut self) -> Option<Head> {
        let mut words = [0; HEAD_WORDS];
        for word in &mut words {
            *word = self.word()?;
        }
        Some(Head::from_words(words))
    }

    fn string(&mut self) -> Option<*const libc::c_char> {
        let text = CStr::from_bytes_until_nul(self.bytes).ok()?;
        self.bytes = self.bytes.get(text.to_bytes_with_nul().len()..)?;
        Some(text.as_ptr())
    }
}
