//! JSON bodies: bounded, and an error that names field and line.

use crate::error::ApiError;
use axum::body::to_bytes;
use axum::extract::{FromRequest, Request};
use serde::de::DeserializeOwned;

/// Largest body of the API, bytes; environments may be large, files go through the data plane.
const BODY_BYTES_MAX: usize = 4 << 20;

/// A body as `T`. An empty one counts as `{}`: some SDKs send none where all fields are optional.
pub(super) struct Json<T>(pub(super) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let bytes = to_bytes(request.into_body(), BODY_BYTES_MAX)
            .await
            .map_err(|e| {
                let text = format!("request body: {e}; the limit is {BODY_BYTES_MAX} bytes");
                ApiError::invalid(text)
            })?;
        let text: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
        parse(text).map(Self)
    }
}

fn parse<T: DeserializeOwned>(text: &[u8]) -> Result<T, ApiError> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let path = e.path().to_string();
        match path.as_str() {
            // The path is unknown where the text is no JSON at all.
            "." | "?" => ApiError::invalid(format!("request body: {}", e.inner())),
            path => ApiError::invalid(format!("request body: field {path}: {}", e.inner())),
        }
    })?;
    json.end()
        .map_err(|e| ApiError::invalid(format!("request body: {e}")))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::e2b::NewSandbox;

    #[test]
    fn errors_name_field_and_line() {
        for (text, words) in [
            ("{\"templateID\":\n", ["EOF", "line 2"]),
            ("{}", ["templateID", "line 1"]),
            (
                "{\"templateID\":\"x\",\n\"timeout\":\"5\"}",
                ["field timeout", "line 2"],
            ),
            (
                "{\"templateID\":\"x\",\"metadata\":{\"a\":1}}",
                ["field metadata.a", "line 1"],
            ),
            ("{\"templateID\":\"x\"} x", ["trailing", "line 1"]),
            ("[]", ["invalid", "line 1"]),
            ("\u{0}", ["expected value", "line 1"]),
        ] {
            let Err(error) = parse::<NewSandbox>(text.as_bytes()) else {
                unreachable!("{text} was taken")
            };
            for word in words {
                assert!(error.to_string().contains(word), "{text}: {error}");
            }
        }
    }
}
