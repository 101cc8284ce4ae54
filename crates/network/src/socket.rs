//! A blocking netlink socket: sends requests, waits until the kernel has answered each.

use crate::message::{Answer, Request, answers};
use rustix::io::retry_on_intr;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// The kernel answers within the call; this only bounds a fault.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest piece that the kernel puts into one datagram of a dump.
const DATAGRAM_BYTES: usize = 32 * 1024;

#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

/// A request that the kernel refused, with the part that failed.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) step: &'static str,
    pub(crate) source: io::Error,
}

impl Socket {
    /// A socket in the calling thread's network namespace; it stays there.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let fd = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        Self::over(fd)
    }

    /// A socket in another network namespace.
    pub(crate) fn open_in(netns: BorrowedFd<'_>, protocol: Option<Protocol>) -> io::Result<Self> {
        let kind = SocketType::RAW;
        Self::over(sys::netns::socket_in(
            netns,
            AddressFamily::NETLINK,
            kind,
            protocol,
        )?)
    }

    fn over(fd: OwnedFd) -> io::Result<Self> {
        set_socket_timeout(&fd, Timeout::Recv, Some(ANSWER_TIMEOUT))?;
        Ok(Self {
            fd,
            sequence: 1,
            buffer: vec![0; DATAGRAM_BYTES],
        })
    }

    /// An empty request with the next free numbers.
    pub(crate) fn request(&self) -> Request {
        Request::new(self.sequence)
    }

    /// Sends all messages of `request` and waits for every answer; returns the data in them.
    ///
    /// The first refusal is the result. Answers that come after it are skipped by their number.
    pub(crate) fn exchange(&mut self, request: &Request) -> Result<Vec<Vec<u8>>, Refused> {
        let steps = request.steps();
        let first_step = steps.first().map_or("nothing", |s| s.name);
        let lost = |source: io::Error| Refused {
            step: first_step,
            source,
        };
        let count = u32::try_from(steps.len()).expect("few messages");
        self.sequence = self.sequence.wrapping_add(count);
        retry_on_intr(|| rustix::net::send(&self.fd, request.bytes(), SendFlags::empty()))
            .map_err(|e| lost(e.into()))?;
        let mut data = Vec::new();
        let mut open = steps.iter().filter(|s| s.answered).count();
        while open > 0 {
            let flags = RecvFlags::empty();
            let got = retry_on_intr(|| rustix::net::recv(&self.fd, &mut self.buffer[..], flags));
            let (size, _) = got.map_err(|e| lost(e.into()))?;
            for (sequence, answer) in answers(&self.buffer[..size]) {
                let number = sequence.wrapping_sub(request.first());
                let step = usize::try_from(number).ok().and_then(|n| steps.get(n));
                match (step, answer) {
                    // An answer to an earlier request that was given up.
                    (None, _) => {}
                    (Some(_), Answer::Done(0)) => open = open.saturating_sub(1),
                    (Some(step), Answer::Done(errno)) => {
                        return Err(Refused {
                            step: step.name,
                            source: io::Error::from_raw_os_error(errno),
                        });
                    }
                    (Some(_), Answer::Data(_, payload)) => data.push(payload.to_vec()),
                }
            }
        }
        Ok(data)
    }
}
