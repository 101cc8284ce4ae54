//! API keys: `X-API-Key`, or `Authorization: Bearer`.

use super::State;
use crate::error::ApiError;
use api::ErrorKind;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, header};

const HEADER_API_KEY: &str = "x-api-key";

/// Lets a request with a known key pass.
pub(super) async fn require_key(
    daemon: State,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let refuse = |text: &str| Err(ApiError::new(ErrorKind::Unauthorized, text));
    let Some(key) = key(request.headers()) else {
        return refuse("an API key is needed: send the header X-API-Key");
    };
    if !daemon.keys.accepts(key) {
        return refuse("this API key is not known to the node");
    }
    Ok(next.run(request).await)
}

fn key(headers: &HeaderMap) -> Option<&[u8]> {
    let bearer = || {
        let value = headers.get(header::AUTHORIZATION)?.as_bytes();
        let (scheme, key) = value.split_at_checked(7)?;
        scheme.eq_ignore_ascii_case(b"bearer ").then_some(key)
    };
    let own = headers.get(HEADER_API_KEY).map(|value| value.as_bytes());
    own.or_else(bearer).map(<[u8]>::trim_ascii)
}
