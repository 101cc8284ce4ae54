//! Errors of handlers, and how they become replies.

use crate::host::HostError;
use crate::templates::TemplateError;
use api::{ErrorBody, ErrorKind};
use axum::response::{IntoResponse, Response};
use http::{HeaderName, HeaderValue, header};

/// Tells SDKs whether to send a request again.
pub(crate) const SHOULD_RETRY: HeaderName = HeaderName::from_static("should-retry");

/// A refusal with its words for the client.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    kind: ErrorKind,
    message: String,
    error_code: Option<&'static str>,
    allow: Option<String>,
}

impl ApiError {
    /// An error of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            error_code: None,
            allow: None,
        }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn unimplemented(what: impl std::fmt::Display) -> Self {
        Self::new(
            ErrorKind::Unimplemented,
            format!("{what} is not implemented yet"),
        )
    }

    pub(crate) fn sandbox_not_found(id: &str) -> Self {
        let message = format!("Sandbox \"{id}\" doesn't exist or you don't have access to it");
        Self::new(ErrorKind::NotFound, message)
    }

    /// A fault of the node: logged here with its whole chain, told to the client in its own words.
    pub(crate) fn internal(error: &(dyn std::error::Error + 'static)) -> Self {
        let message = chain(error);
        tracing::error!(error = %message, "request failed");
        Self::new(ErrorKind::Internal, message)
    }

    pub(crate) fn with_code(mut self, error_code: &'static str) -> Self {
        self.error_code = Some(error_code);
        self
    }

    /// Kind, for the status.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn body(&self) -> ErrorBody {
        ErrorBody {
            error_code: self.error_code.map(str::to_owned),
            ..ErrorBody::new(self.kind, self.message.clone())
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.kind.status(), axum::Json(self.body())).into_response();
        let headers = response.headers_mut();
        match self.kind {
            ErrorKind::Unimplemented => {
                headers.insert(SHOULD_RETRY, HeaderValue::from_static("false"));
            }
            ErrorKind::Exhausted => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            ErrorKind::Unauthorized => {
                headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        response
    }
}

impl From<TemplateError> for ApiError {
    fn from(error: TemplateError) -> Self {
        if error.kind == ErrorKind::Internal {
            return Self::internal(&error);
        }
        Self::new(error.kind, chain(&error))
    }
}

impl From<HostError> for ApiError {
    fn from(error: HostError) -> Self {
        let failed = Self::internal(&error);
        if error.exhausted {
            let kind = ErrorKind::Unavailable;
            return Self { kind, ..failed }.with_code("sandbox_capacity_unavailable");
        }
        failed.with_code("sandbox_create_failed")
    }
}

/// The error and its causes in one line.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
