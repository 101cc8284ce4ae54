//! Netlink messages as bytes: several requests in one buffer, attributes, and replies.
//!
//! Pure; the layout is that of `<linux/netlink.h>`: everything in host byte order, padded to 4.

use std::ops::Range;

const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;

/// Requests that are sent in one go, each with the name that errors show.
#[derive(Debug)]
pub(crate) struct Request {
    bytes: Vec<u8>,
    message_at: usize,
    first: u32,
    steps: Vec<Step>,
}

/// One message of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) name: &'static str,
    /// Whether the kernel answers it.
    pub(crate) answered: bool,
}

/// Type and flags of a message; `NLM_F_REQUEST` is added.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) message: u16,
    pub(crate) flags: i32,
}

impl Request {
    /// Requests numbered from `first` on.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            bytes: Vec::with_capacity(512),
            message_at: 0,
            first,
            steps: Vec::with_capacity(8),
        }
    }

    /// Starts the next message with its fixed part.
    pub(crate) fn message(&mut self, name: &'static str, kind: Kind, fixed: &[u8]) {
        let answer = libc::NLM_F_ACK | libc::NLM_F_DUMP;
        self.message_at = self.bytes.len();
        let flags = u16::try_from(kind.flags | libc::NLM_F_REQUEST).expect("flags are 16 bits");
        let sequence = self.first + u32::try_from(self.steps.len()).expect("few messages");
        self.steps.push(Step {
            name,
            answered: kind.flags & answer != 0,
        });
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.message.to_ne_bytes());
        self.bytes.extend_from_slice(&flags.to_ne_bytes());
        self.bytes.extend_from_slice(&sequence.to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 4]);
        self.append(fixed);
    }

    /// Adds an attribute to the last message.
    pub(crate) fn attribute(&mut self, kind: u16, payload: &[u8]) {
        let size = u16::try_from(ATTRIBUTE_HEADER + payload.len()).expect("attributes are short");
        self.bytes.extend_from_slice(&size.to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.append(payload);
    }

    /// Adds a NUL-terminated string.
    pub(crate) fn text(&mut self, kind: u16, text: &str) {
        let mut payload = Vec::with_capacity(text.len() + 1);
        payload.extend_from_slice(text.as_bytes());
        payload.push(0);
        self.attribute(kind, &payload);
    }

    /// Adds an attribute that holds what `fill` adds.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let nested = u16::try_from(libc::NLA_F_NESTED).expect("a 16-bit flag");
        let at = self.bytes.len();
        self.attribute(kind | nested, &[]);
        fill(self);
        let size = u16::try_from(self.bytes.len() - at).expect("attributes are short");
        self.bytes[at..at + 2].copy_from_slice(&size.to_ne_bytes());
        self.close();
    }

    /// Adds bytes without an attribute header: the fixed part of a nested structure.
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.close();
    }

    fn close(&mut self) {
        let size = u32::try_from(self.bytes.len() - self.message_at).expect("messages are short");
        let at = self.message_at;
        self.bytes[at..at + 4].copy_from_slice(&size.to_ne_bytes());
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Sequence number of the first message.
    pub(crate) fn first(&self) -> u32 {
        self.first
    }
}

/// What the kernel said.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer<'a> {
    /// An error number, 0 for an acknowledgement.
    Done(i32),
    /// A message with what was asked for: type and payload.
    Data(u16, &'a [u8]),
}

/// Splits what one `recv` gave into (sequence number, answer); stops at the first malformed one.
pub(crate) fn answers(bytes: &[u8]) -> impl Iterator<Item = (u32, Answer<'_>)> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let size = usize::try_from(number(rest, 0..4)?).ok()?;
        let message = rest.get(..size).filter(|m| m.len() >= HEADER)?;
        rest = rest.get(size.next_multiple_of(4)..).unwrap_or(&[]);
        let kind = u16::from_ne_bytes(message[4..6].try_into().ok()?);
        let payload = &message[HEADER..];
        let answer = match i32::from(kind) {
            libc::NLMSG_ERROR | libc::NLMSG_DONE => Answer::Done(
                number(payload, 0..4)
                    .map_or(0, u32::cast_signed)
                    .wrapping_neg(),
            ),
            _ => Answer::Data(kind, payload),
        };
        Some((number(message, 8..12)?, answer))
    })
}

/// The payload of the first attribute of `kind` behind a fixed part of `fixed` bytes.
pub(crate) fn find_attribute(payload: &[u8], fixed: usize, kind: u16) -> Option<&[u8]> {
    let mut rest = payload.get(fixed..)?;
    loop {
        let size = usize::from(u16::from_ne_bytes(rest.get(..2)?.try_into().ok()?));
        let attribute = rest.get(..size).filter(|a| a.len() >= ATTRIBUTE_HEADER)?;
        if attribute[2..4] == kind.to_ne_bytes() {
            return Some(&attribute[ATTRIBUTE_HEADER..]);
        }
        rest = rest.get(size.next_multiple_of(4)..)?;
    }
}

/// The number at `range` (4 bytes), if the bytes reach so far.
pub(crate) fn number(bytes: &[u8], range: Range<usize>) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(range)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KIND: Kind = Kind {
        message: 16,
        flags: libc::NLM_F_ACK,
    };

    #[test]
    fn messages_in_one_buffer_are_found_again_with_their_numbers() {
        let mut request = Request::new(7);
        request.message("one", KIND, &[1, 2, 3]);
        request.text(3, "eth0");
        request.message("two", KIND, &[9; 8]);
        let found: Vec<_> = answers(request.bytes()).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[1], (8, Answer::Data(16, &[9; 8])));
        let Answer::Data(_, payload) = found[0].1 else {
            panic!("no data");
        };
        assert_eq!(find_attribute(payload, 4, 3), Some(&b"eth0\0"[..]));
        assert_eq!(find_attribute(payload, 4, 4), None);
    }

    #[test]
    fn nested_attributes_know_their_size() {
        let mut request = Request::new(0);
        request.message("m", KIND, &[]);
        request.nested(1, |r| {
            r.append(&[5; 16]);
            r.nested(2, |r| r.attribute(3, &[1, 2, 3, 4, 5]));
        });
        let size = request.bytes().len();
        assert_eq!(size, 16 + 4 + 16 + 4 + 4 + 8);
        assert_eq!(number(request.bytes(), 0..4), u32::try_from(size).ok());
        assert_eq!(request.bytes()[16..18], 36u16.to_ne_bytes()[..]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail(bytes: Vec<u8>) {
            for (_, answer) in answers(&bytes) {
                if let Answer::Data(_, payload) = answer {
                    find_attribute(payload, 0, 1);
                }
            }
        }
    }
}
