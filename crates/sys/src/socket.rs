//! Messages with file descriptors over unix sockets.
//!
//! Two framings: [`send_message`]/[`recv_message`] put a `u32` little-endian length before the bytes and
//! work on stream sockets; [`send_packet`]/[`recv_packet`] are one packet each on a `SOCK_SEQPACKET`.
//! Descriptors travel with the first byte; received ones are close-on-exec.

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Kernel limit of descriptors in one message (SCM_MAX_FD in the kernel's net/scm.h).
pub const SCM_FDS_MAX: usize = 253;

/// Sends `bytes` behind their length, with `fds` attached to the first byte.
pub fn send_message(sock: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(|_| too_long(bytes.len()))?;
    let head = length.to_le_bytes();
    let mut sent = send_once(sock, &[&head, bytes], fds)?;
    let total = head.len() + bytes.len();
    while sent < total {
        let rest: &[&[u8]] = if sent < head.len() {
            &[&head[sent..], bytes]
        } else {
            &[&bytes[sent - head.len()..]]
        };
        sent += send_once(sock, rest, &[])?;
    }
    Ok(())
}

/// Receives one message of [`send_message`]; more than `bytes_max` bytes or `fds_max` descriptors is an error.
pub fn recv_message(
    sock: BorrowedFd<'_>,
    bytes_max: u32,
    fds_max: usize,
) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut head = [0u8; 4];
    let mut fds = Vec::new();
    fill(sock, &mut head, &mut fds, fds_max)?;
    let length = u32::from_le_bytes(head);
    if length > bytes_max {
        return Err(too_long(length as usize));
    }
    let mut bytes = vec![0u8; length as usize];
    fill(sock, &mut bytes, &mut fds, fds_max)?;
    Ok((bytes, fds))
}

/// Sends one packet.
pub fn send_packet(sock: BorrowedFd<'_>, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let sent = send_once(sock, &[bytes], fds)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(too_long(bytes.len()))
    }
}

/// Receives one packet of at most `bytes_max` bytes; an empty one means that the peer hung up.
pub fn recv_packet(
    sock: BorrowedFd<'_>,
    bytes_max: usize,
    fds_max: usize,
) -> io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0u8; bytes_max];
    let mut fds = Vec::new();
    let n = recv_once(sock, &mut bytes, &mut fds, fds_max)?;
    bytes.truncate(n);
    Ok((bytes, fds))
}

fn too_long(length: usize) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("message of {length} bytes is too long"),
    )
}

fn fill(
    sock: BorrowedFd<'_>,
    buf: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    fds_max: usize,
) -> io::Result<()> {
    let mut at = 0;
    while at < buf.len() {
        match recv_once(sock, &mut buf[at..], fds, fds_max)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => at += n,
        }
    }
    Ok(())
}

fn send_once(sock: BorrowedFd<'_>, parts: &[&[u8]], fds: &[BorrowedFd<'_>]) -> io::Result<usize> {
    if fds.len() > SCM_FDS_MAX {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "too many descriptors",
        ));
    }
    let slices: Vec<IoSlice<'_>> = parts.iter().map(|p| IoSlice::new(p)).collect();
    let mut space = vec![MaybeUninit::uninit(); SendAncillaryMessage::ScmRights(fds).size()];
    loop {
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::other("no room for descriptors"));
        }
        match sendmsg(sock, &slices, &mut control, SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
}

fn recv_once(
    sock: BorrowedFd<'_>,
    buf: &mut [u8],
    fds: &mut Vec<OwnedFd>,
    fds_max: usize,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(SCM_FDS_MAX))];
    loop {
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        match recvmsg(sock, &mut [IoSliceMut::new(buf)], &mut control, flags) {
            Err(Errno::INTR) => {}
            Err(e) => return Err(e.into()),
            Ok(msg) => {
                for part in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(received) = part {
                        fds.extend(received);
                    }
                }
                if fds.len() > fds_max {
                    return Err(io::Error::new(
                        io::ErrorKind::InvalidData,
                        "more descriptors than allowed",
                    ));
                }
                return Ok(msg.bytes);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn bytes_and_descriptors_arrive_together() {
        let (a, b) = UnixStream::pair().expect("pair");
        let mut file = tempfile::tempfile().expect("file");
        file.write_all(b"hello").expect("write");
        let big = vec![7u8; 3 << 20];
        let expected = big.clone();
        let sender = std::thread::spawn(move || {
            send_message(a.as_fd(), &big, &[file.as_fd(), file.as_fd()]).expect("send");
        });
        let (bytes, fds) = recv_message(b.as_fd(), 8 << 20, 2).expect("receive");
        sender.join().expect("sender");
        assert_eq!((bytes == expected, fds.len()), (true, 2));
        let mut copy = std::fs::File::from(fds.into_iter().next().expect("one"));
        copy.rewind().expect("seek");
        let mut text = String::new();
        copy.read_to_string(&mut text).expect("read");
        assert_eq!(text, "hello");
    }

    #[test]
    fn too_long_messages_and_too_many_descriptors_are_refused() {
        let (a, b) = UnixStream::pair().expect("pair");
        send_message(a.as_fd(), &[0; 100], &[]).expect("send");
        let error = recv_message(b.as_fd(), 99, 0).expect_err("too long");
        assert!(error.to_string().contains("100 bytes"), "{error}");
        let (a, b) = UnixStream::pair().expect("pair");
        send_message(a.as_fd(), b"x", &[a.as_fd(), a.as_fd()]).expect("send");
        assert!(recv_message(b.as_fd(), 10, 1).is_err());
    }

    #[test]
    fn a_peer_that_hangs_up_early_is_an_error() {
        let (mut a, b) = UnixStream::pair().expect("pair");
        a.write_all(&[9, 0, 0, 0, 1]).expect("write");
        drop(a);
        let error = recv_message(b.as_fd(), 10, 0).expect_err("short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }
}
