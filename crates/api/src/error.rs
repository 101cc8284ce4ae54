//! The error body of every route, and the one table from kinds of errors to HTTP statuses.

use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What went wrong, from the client's point of view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The request says something that cannot be meant.
    Invalid,
    /// No key, or one that is not known.
    Unauthorized,
    /// The key is known and may not do this.
    Forbidden,
    /// The named thing is not there.
    NotFound,
    /// The route is there, this method of it is not.
    MethodNotAllowed,
    /// The thing is in a state that does not allow this.
    Conflict,
    /// A limit of the caller is reached; later it may work.
    Exhausted,
    /// Part of the interface, and not built yet.
    Unimplemented,
    /// Something between the node and the sandbox does not answer.
    BadGateway,
    /// The node cannot do it now.
    Unavailable,
    /// A fault of the node.
    Internal,
}

impl ErrorKind {
    /// The HTTP status; who must act is in the right-hand column.
    #[must_use]
    pub fn status(self) -> StatusCode {
        match self {
            Self::Invalid => StatusCode::BAD_REQUEST, // caller: change the request
            Self::Unauthorized => StatusCode::UNAUTHORIZED, // caller: give a key
            Self::Forbidden => StatusCode::FORBIDDEN, // caller: ask for the right
            Self::NotFound => StatusCode::NOT_FOUND,  // caller: name something else
            Self::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED, // caller: see `Allow`
            Self::Conflict => StatusCode::CONFLICT,   // caller: change the state first
            Self::Exhausted => StatusCode::TOO_MANY_REQUESTS, // caller: wait, or end something
            Self::Unimplemented => StatusCode::NOT_IMPLEMENTED, // developers: build it
            Self::BadGateway => StatusCode::BAD_GATEWAY, // caller: look at the sandbox
            Self::Unavailable => StatusCode::SERVICE_UNAVAILABLE, // caller: wait
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR, // operator: read the log
        }
    }
}

/// Body of every reply that is not a success.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ErrorBody {
    /// The HTTP status again; the JavaScript SDK decides by it.
    pub code: u16,
    /// What was attempted on what, and why it failed.
    pub message: String,
    /// E2B's slug for errors that its SDKs tell apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
}

impl ErrorBody {
    /// The body of an error of this kind.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            code: kind.status().as_u16(),
            message: message.into(),
            error_code: None,
        }
    }
}

/// Body of the data plane's 502: SDKs match its texts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SandboxGone {
    /// The sandbox that was asked for.
    pub sandbox_id: String,
    /// Holds "was not found" or "port is not open".
    pub message: String,
    /// The port that is closed, if the sandbox runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// 502.
    pub code: u16,
}

impl SandboxGone {
    /// No such sandbox runs here.
    #[must_use]
    pub fn not_found(sandbox_id: &str) -> Self {
        Self::new(sandbox_id, "The sandbox was not found", None)
    }

    /// The sandbox runs, nothing listens on `port`.
    #[must_use]
    pub fn port_closed(sandbox_id: &str, port: u16) -> Self {
        let message = "The sandbox is running but port is not open";
        Self::new(sandbox_id, message, Some(port))
    }

    fn new(sandbox_id: &str, message: &str, port: Option<u16>) -> Self {
        Self {
            sandbox_id: sandbox_id.to_owned(),
            message: message.to_owned(),
            port,
            code: ErrorKind::BadGateway.status().as_u16(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_repeats_the_status_and_leaves_out_what_is_absent() {
        let body = ErrorBody::new(ErrorKind::NotFound, "no such thing");
        let json = serde_json::to_value(&body).expect("plain values");
        assert_eq!(
            json,
            serde_json::json!({"code": 404, "message": "no such thing"})
        );
    }

    #[test]
    fn gone_bodies_hold_the_texts_that_sdks_match() {
        let gone = serde_json::to_string(&SandboxGone::not_found("ix")).expect("plain values");
        assert!(gone.contains("was not found") && !gone.contains("port"));
        let closed = serde_json::to_string(&SandboxGone::port_closed("ix", 80)).expect("plain");
        assert!(closed.contains("port is not open") && closed.contains("\"port\":80"));
    }
}
