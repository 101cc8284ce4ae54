//! Network namespaces: open one by a process, and do something inside one.
//!
//! Joining a namespace changes the calling thread. That must never be a thread of a runtime, so
//! the work is done on a thread that is made for it and ends after it.

use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The network namespace of a process.
pub fn of_pid(pid: i32) -> io::Result<OwnedFd> {
    Ok(File::open(format!("/proc/{pid}/ns/net"))?.into())
}

/// The network namespace of the calling thread.
pub fn current() -> io::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Runs `work` on a new thread inside `netns` and waits for it. Costs about 50 us.
///
/// Sockets that it returns stay in that namespace wherever they are used.
pub fn run_in<T: Send>(
    netns: BorrowedFd<'_>,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("netns".to_owned())
            .spawn_scoped(scope, || {
                move_into_link_name_space(netns, Some(LinkNameSpaceType::Network))?;
                work()
            })?;
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// A blocking, close-on-exec socket that belongs to `netns`.
pub fn socket_in(
    netns: BorrowedFd<'_>,
    domain: AddressFamily,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> io::Result<OwnedFd> {
    run_in(netns, || {
        let flags = SocketFlags::CLOEXEC;
        Ok(socket_with(domain, kind, flags, protocol)?)
    })
}
