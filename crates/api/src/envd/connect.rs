//! The Connect protocol: error codes, error bodies, and the frames of streaming calls.

use serde::{Deserialize, Serialize};

/// Content type of unary calls.
pub const UNARY_TYPE: &str = "application/json";
/// Content type of streaming calls.
pub const STREAM_TYPE: &str = "application/connect+json";
/// Longest message accepted in a frame or unary body, bytes: bounds what one call can hold in memory.
pub const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// Bytes before each message: flags, then its length in big endian.
const HEADER_BYTES: usize = 5;
const FLAG_COMPRESSED: u8 = 0x01;
const FLAG_END: u8 = 0x02;

/// Outcome classes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// The caller went away.
    Canceled,
    /// The request can never work.
    InvalidArgument,
    /// The call's deadline passed.
    DeadlineExceeded,
    /// The named thing is not there.
    NotFound,
    /// The thing to be made is there.
    AlreadyExists,
    /// Not allowed for this caller.
    PermissionDenied,
    /// A limit is reached.
    ResourceExhausted,
    /// The state of the thing forbids it.
    FailedPrecondition,
    /// Given up half way, for example by a concurrent call.
    Aborted,
    /// Past the valid range.
    OutOfRange,
    /// Known but not offered.
    Unimplemented,
    /// A fault on the serving side.
    Internal,
    /// Try again later.
    Unavailable,
    /// Data is gone for good.
    DataLoss,
    /// The caller is not known.
    Unauthenticated,
    /// Failure of no known class.
    #[serde(other)]
    Unknown,
}

impl Code {
    /// HTTP status of a unary call that fails with this code.
    #[must_use]
    pub fn http_status(self) -> u16 {
        match self {
            Self::Canceled => 499,
            Self::InvalidArgument | Self::FailedPrecondition | Self::OutOfRange => 400,
            Self::DeadlineExceeded => 504,
            Self::NotFound => 404,
            Self::AlreadyExists | Self::Aborted => 409,
            Self::PermissionDenied => 403,
            Self::ResourceExhausted => 429,
            Self::Unimplemented => 501,
            Self::Unavailable => 503,
            Self::Unauthenticated => 401,
            Self::Unknown | Self::Internal | Self::DataLoss => 500,
        }
    }
}

/// A failed call, as in a unary body or in the last frame of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct ConnectError {
    /// Class.
    pub code: Code,
    /// Text for a human.
    #[serde(default)]
    pub message: String,
}

impl ConnectError {
    /// An error of this class.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
        }
    }
}

/// Content of the last frame of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndOfStream {
    /// Set if the call failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ConnectError>,
}

/// One frame of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message, as JSON.
    Message(Vec<u8>),
    /// The last frame.
    End(EndOfStream),
}

/// Bytes that are not a stream of frames.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// A message is longer than [`MESSAGE_BYTES_MAX`].
    #[error("a message of {0} bytes is longer than the {MESSAGE_BYTES_MAX} bytes allowed")]
    TooLong(usize),
    /// No compression is offered, yet a message claims one.
    #[error("compressed messages are not supported")]
    Compressed,
    /// The last frame is not the JSON it must be.
    #[error("the end of the stream cannot be read")]
    BadEnd(#[source] serde_json::Error),
}

/// A frame holding `message`, which is JSON already.
#[must_use]
pub fn encode_message(message: &[u8]) -> Vec<u8> {
    encode(0, message)
}

/// The last frame of a stream.
#[must_use]
pub fn encode_end(error: Option<ConnectError>) -> Vec<u8> {
    let end = EndOfStream { error };
    let json = serde_json::to_vec(&end).expect("a struct of strings is always valid JSON");
    encode(FLAG_END, &json)
}

fn encode(flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("messages stay under MESSAGE_BYTES_MAX");
    let mut frame = Vec::with_capacity(HEADER_BYTES + payload.len());
    frame.push(flags);
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

/// Cuts a byte stream into frames; feed it with [`Self::push`], however the bytes arrive.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    /// Bytes at the front of `buffer` that are consumed already.
    consumed: usize,
}

impl FrameDecoder {
    /// Adds bytes as they arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.consumed);
        self.consumed = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole frame; `None` until more bytes come.
    ///
    /// # Errors
    /// The bytes are not frames, or a frame is too long; the stream cannot be read further.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let bytes = self.buffer.get(self.consumed..).unwrap_or_default();
        let Some((&[flags, l0, l1, l2, l3], rest)) = bytes.split_first_chunk::<HEADER_BYTES>()
        else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(FrameError::TooLong(length));
        }
        if flags & FLAG_COMPRESSED != 0 {
            return Err(FrameError::Compressed);
        }
        let Some(payload) = rest.get(..length) else {
            return Ok(None);
        };
        let frame = if flags & FLAG_END == 0 {
            Frame::Message(payload.to_vec())
        } else {
            Frame::End(serde_json::from_slice(payload).map_err(FrameError::BadEnd)?)
        };
        self.consumed += HEADER_BYTES + length;
        Ok(Some(frame))
    }

    /// Whether bytes of an unfinished frame are left over.
    #[must_use]
    pub fn is_inside_frame(&self) -> bool {
        self.buffer.len() > self.consumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_survive_any_split_of_their_bytes() {
        let mut bytes = encode_message(b"{\"a\":1}");
        bytes.extend(encode_message(b""));
        bytes.extend(encode_end(Some(ConnectError::new(Code::NotFound, "no"))));
        for step in 1..bytes.len() {
            let mut decoder = FrameDecoder::default();
            let mut frames = Vec::new();
            for part in bytes.chunks(step) {
                decoder.push(part);
                while let Some(frame) = decoder.next_frame().unwrap() {
                    frames.push(frame);
                }
            }
            assert!(!decoder.is_inside_frame());
            let end = EndOfStream {
                error: Some(ConnectError::new(Code::NotFound, "no")),
            };
            assert_eq!(
                frames,
                [
                    Frame::Message(b"{\"a\":1}".to_vec()),
                    Frame::Message(vec![]),
                    Frame::End(end)
                ],
                "split every {step} bytes"
            );
        }
    }

    #[test]
    fn a_frame_longer_than_the_limit_is_refused_before_its_bytes_arrive() {
        let mut decoder = FrameDecoder::default();
        decoder.push(&[0, 0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(decoder.next_frame(), Err(FrameError::TooLong(_))));
    }

    #[test]
    fn codes_are_spelled_as_the_protocol_spells_them() {
        let json = serde_json::to_string(&ConnectError::new(Code::InvalidArgument, "x")).unwrap();
        assert_eq!(json, r#"{"code":"invalid_argument","message":"x"}"#);
        let read: ConnectError = serde_json::from_str(r#"{"code":"brand_new"}"#).unwrap();
        assert_eq!(read.code, Code::Unknown);
    }
}
