//! Signed file URLs without a sandbox in them: the sandbox is the one whose token made the signature.
//!
//! An SDK that was given one URL for everything signs `<url>/files?path=..&signature=..`. The signature is
//! unique to the token, so it is tried against every running sandbox. The agent checks it again, and its expiry.

use super::Target;
use crate::daemon::Daemon;
use crate::error::ApiError;
use crate::listing::pairs;
use api::ErrorKind;
use axum::body::Body;
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use http::{Method, Request};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

#[derive(Debug, Default)]
struct Signed {
    path: String,
    user: String,
    signature: String,
    expiration: Option<String>,
}

pub(super) fn target(daemon: &Daemon, request: &Request<Body>) -> Result<Option<Target>, ApiError> {
    let operation = match *request.method() {
        Method::GET | Method::HEAD => "read",
        Method::POST => "write",
        _ => return Ok(None),
    };
    if request.uri().path() != "/files" {
        return Ok(None);
    }
    let signed = read(request.uri().query().unwrap_or_default());
    if signed.signature.is_empty() {
        return Ok(None);
    }
    let sandboxes = daemon.registry.running();
    let signer = sandboxes.iter().find(|sandbox| {
        let expected = sign(&signed, operation, &sandbox.token);
        expected
            .as_bytes()
            .ct_eq(signed.signature.as_bytes())
            .into()
    });
    let none = || {
        let text = "the signature is of no running sandbox";
        ApiError::new(ErrorKind::Unauthorized, text)
    };
    let signer = signer.ok_or_else(none)?;
    Ok(Some(Target::agent(signer.id().as_str())))
}

fn read(query: &str) -> Signed {
    let mut signed = Signed::default();
    for (key, value) in pairs(query) {
        match key.as_str() {
            "path" => signed.path = value,
            "username" => signed.user = value,
            "signature" => signed.signature = value,
            "signature_expiration" => signed.expiration = Some(value),
            _ => {}
        }
    }
    signed
}

fn sign(signed: &Signed, operation: &str, token: &str) -> String {
    let Signed {
        path,
        user,
        expiration,
        ..
    } = signed;
    let mut raw = format!("{path}:{operation}:{user}:{token}");
    if let Some(expiration) = expiration {
        raw.push(':');
        raw.push_str(expiration);
    }
    format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(raw)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expiration_is_part_of_what_is_signed() {
        let without = read("path=/a%20b&username=user&signature=x");
        let with = read("path=/a+b&username=user&signature=x&signature_expiration=9");
        assert_eq!(without.path, with.path);
        let (a, b) = (sign(&without, "read", "t"), sign(&with, "read", "t"));
        assert!(a.starts_with("v1_") && !a.ends_with('=') && a != b);
        assert_ne!(a, sign(&without, "write", "t"));
    }
}
