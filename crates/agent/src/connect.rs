//! The server's side of the Connect protocol in JSON: bodies in, replies and errors out, and what a call
//! says in its headers.

use crate::accounts::{Accounts, User};
use crate::route::Body;
use crate::sandbox::Sandbox;
use api::envd::connect::{
    FrameError, MESSAGE_BYTES_MAX, STREAM_TYPE, UNARY_TYPE, encode_end, encode_message,
};
use api::envd::{CONNECT_TIMEOUT, Code, ConnectError, Frame, FrameDecoder, KEEPALIVE_INTERVAL};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::convert::Infallible;
use std::time::Duration;

/// A finished answer.
pub(crate) type Reply = Response<Body>;

/// Keepalive interval if the call names none.
const KEEPALIVE_DEFAULT: Duration = Duration::from_secs(90);
/// Deadlines beyond are none: nothing here lives longer, and clocks would overflow.
const TIMEOUT_MAX: Duration = Duration::from_hours(24 * 365);

/// What a call says besides its message.
#[derive(Debug)]
pub(crate) struct Call {
    headers: HeaderMap,
}

impl Call {
    pub(crate) fn new(headers: HeaderMap) -> Self {
        Self { headers }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The user named by basic authentication (which only selects), or the default.
    pub(crate) fn user(&self, sandbox: &Sandbox) -> Result<(User, Accounts), ConnectError> {
        let found = sandbox.user(self.user_name().as_deref());
        found.map_err(|name| {
            ConnectError::new(Code::Unauthenticated, format!("invalid username: '{name}'"))
        })
    }

    fn user_name(&self) -> Option<String> {
        let value = self.text(header::AUTHORIZATION.as_str())?;
        let (scheme, encoded) = value.split_once(' ')?;
        if !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
        // The password is empty; the name itself may hold a colon (`name:group`).
        let name = decoded
            .rsplit_once(':')
            .map_or(decoded.as_str(), |(name, _)| name);
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// The call's deadline; 0 and absent: none.
    pub(crate) fn timeout(&self) -> Result<Option<Duration>, ConnectError> {
        let Some(value) = self.headers.get(CONNECT_TIMEOUT) else {
            return Ok(None);
        };
        let written = String::from_utf8_lossy(value.as_bytes());
        let milliseconds = written.trim().parse::<f64>().ok();
        let milliseconds = milliseconds.filter(|number| number.is_finite() && *number >= 0.0);
        let Some(milliseconds) = milliseconds else {
            let text = format!("{CONNECT_TIMEOUT} must be a number of milliseconds: '{written}'");
            return Err(ConnectError::new(Code::InvalidArgument, text));
        };
        let timeout = Duration::try_from_secs_f64(milliseconds / 1000.0).unwrap_or(Duration::MAX);
        Ok(Some(timeout).filter(|timeout| !timeout.is_zero() && *timeout < TIMEOUT_MAX))
    }

    /// After how much silence a stream says that it is still there.
    pub(crate) fn keepalive(&self) -> Duration {
        let seconds = self
            .text(KEEPALIVE_INTERVAL)
            .and_then(|text| text.trim().parse().ok());
        seconds
            .filter(|seconds| *seconds > 0)
            .map_or(KEEPALIVE_DEFAULT, Duration::from_secs)
    }
}

/// Reads the message of a unary call; nothing at all is the empty message.
pub(crate) async fn read_unary<T: DeserializeOwned>(body: Incoming) -> Result<T, ConnectError> {
    let bytes = read_all(body).await?;
    parse(if bytes.is_empty() { b"{}" } else { &bytes })
}

/// Reads the one message that starts a server stream.
pub(crate) async fn read_single_frame<T: DeserializeOwned>(
    body: Incoming,
) -> Result<T, ConnectError> {
    let mut decoder = FrameDecoder::default();
    decoder.push(&read_all(body).await?);
    match decoder.next_frame().map_err(bad_frame)? {
        Some(Frame::Message(json)) => parse(&json),
        _ => Err(ConnectError::new(
            Code::InvalidArgument,
            "the request holds no message",
        )),
    }
}

async fn read_all(body: Incoming) -> Result<Bytes, ConnectError> {
    // Room for the frame's header as well.
    let limited = Limited::new(body, MESSAGE_BYTES_MAX + 64);
    let collected = limited.collect().await.map_err(|error| {
        let code = if error.is::<http_body_util::LengthLimitError>() {
            Code::ResourceExhausted
        } else {
            Code::Canceled
        };
        ConnectError::new(code, format!("the request cannot be read: {error}"))
    })?;
    Ok(collected.to_bytes())
}

pub(crate) fn parse<T: DeserializeOwned>(json: &[u8]) -> Result<T, ConnectError> {
    let unreadable = |why: &dyn std::fmt::Display| {
        ConnectError::new(
            Code::InvalidArgument,
            format!("the message cannot be read: {why}"),
        )
    };
    // serde would take an array for a structure with the fields in order.
    let first = json.iter().find(|byte| !byte.is_ascii_whitespace());
    if first.is_some_and(|byte| *byte != b'{') {
        return Err(unreadable(&"it is no JSON object"));
    }
    serde_json::from_slice(json).map_err(|error| unreadable(&error))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as a function in map_err"
)]
pub(crate) fn bad_frame(error: FrameError) -> ConnectError {
    let code = match error {
        FrameError::TooLong(_) => Code::ResourceExhausted,
        FrameError::Compressed => Code::Unimplemented,
        FrameError::BadEnd(_) => Code::InvalidArgument,
    };
    ConnectError::new(code, error.to_string())
}

/// The reply of a unary call.
pub(crate) fn unary<T: Serialize>(result: Result<T, ConnectError>) -> Reply {
    match result {
        Ok(message) => reply(StatusCode::OK, UNARY_TYPE, Body::from(json(&message))),
        Err(error) => {
            let status = StatusCode::from_u16(error.code.http_status());
            let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            reply(status, UNARY_TYPE, Body::from(json(&error)))
        }
    }
}

/// The reply of a server stream; an error is a stream too, as the protocol wants.
pub(crate) fn server_stream<S>(result: Result<S, ConnectError>) -> Reply
where
    S: Stream<Item = Result<Bytes, Infallible>> + Send + 'static,
{
    let body = match result {
        Ok(frames) => Body::from_stream(frames),
        Err(error) => Body::from(encode_end(Some(error))),
    };
    reply(StatusCode::OK, STREAM_TYPE, body)
}

/// The reply of a client stream: one message, then the end.
pub(crate) fn single_message_stream<T: Serialize>(result: Result<T, ConnectError>) -> Reply {
    let body = match result {
        Ok(message) => {
            let mut body = encode_message(&json(&message));
            body.extend(encode_end(None));
            body
        }
        Err(error) => encode_end(Some(error)),
    };
    reply(StatusCode::OK, STREAM_TYPE, Body::from(body))
}

fn json<T: Serialize>(message: &T) -> Vec<u8> {
    serde_json::to_vec(message).expect("messages hold only strings and numbers")
}

fn reply(status: StatusCode, content_type: &'static str, body: Body) -> Reply {
    let mut reply = Response::new(body);
    *reply.status_mut() = status;
    let content_type = http::HeaderValue::from_static(content_type);
    reply
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type);
    reply
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &'static str, value: &str) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert(name, value.parse().unwrap());
        Call::new(headers)
    }

    #[test]
    fn deadlines_are_read_as_clients_write_them() {
        let timeout = |text| call(CONNECT_TIMEOUT, text).timeout();
        assert_eq!(timeout("60000.0").unwrap(), Some(Duration::from_secs(60)));
        assert_eq!(timeout("1").unwrap(), Some(Duration::from_millis(1)));
        assert_eq!(timeout("0").unwrap(), None);
        assert_eq!(timeout("1e300").unwrap(), None);
        for garbage in ["", "soon", "-1", "NaN", "inf"] {
            assert_eq!(
                timeout(garbage).unwrap_err().code,
                Code::InvalidArgument,
                "{garbage}"
            );
        }
    }

    #[test]
    fn the_user_may_be_named_with_a_group() {
        let name = |text: &str| {
            call("authorization", &format!("Basic {}", STANDARD.encode(text))).user_name()
        };
        assert_eq!(name("root:").as_deref(), Some("root"));
        assert_eq!(name("1:2:").as_deref(), Some("1:2"));
        assert_eq!(name(":"), None);
        assert_eq!(call("authorization", "Bearer x").user_name(), None);
    }
}
