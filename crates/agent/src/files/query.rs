//! The query of `/files`.

use crate::route::HttpError;
use crate::signature::{Operation, Signed};
use http::StatusCode;
use percent_encoding::percent_decode_str;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) path: Option<String>,
    pub(super) username: Option<String>,
    signature: Option<String>,
    expiration: Option<i64>,
}

impl Query {
    pub(super) fn parse(query: &str) -> Result<Self, HttpError> {
        let mut parsed = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = value.replace('+', " ");
            let value = percent_decode_str(&value).decode_utf8();
            let value =
                value.map_err(|_| invalid(format!("query parameter '{name}' is not UTF-8")))?;
            let given = (!value.is_empty()).then(|| value.to_string());
            match name {
                "path" => parsed.path = given,
                "username" => parsed.username = given,
                "signature" => parsed.signature = given,
                "signature_expiration" => {
                    parsed.expiration = given.map(|text| expiration(&text)).transpose()?;
                }
                _ => {}
            }
        }
        Ok(parsed)
    }

    /// The parts that a signature covers, if there is one.
    pub(super) fn signed(&self, operation: Operation) -> Option<Signed<'_>> {
        Some(Signed {
            path: self.path.as_deref().unwrap_or_default(),
            user: self.username.as_deref().unwrap_or_default(),
            operation,
            signature: self.signature.as_deref()?,
            expiration: self.expiration,
        })
    }
}

fn expiration(text: &str) -> Result<i64, HttpError> {
    text.parse()
        .map_err(|_| invalid(format!("signature_expiration '{text}' is not a number")))
}

fn invalid(text: String) -> HttpError {
    HttpError::new(StatusCode::BAD_REQUEST, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_empty_ones_are_absent() {
        let query = Query::parse("path=%2Fa%20b+c%C3%A9&username=&x=1").unwrap();
        assert_eq!(query.path.as_deref(), Some("/a b cé"));
        assert_eq!(query.username, None);
        assert!(Query::parse("path=%FF").is_err());
        assert!(Query::parse("signature_expiration=soon").is_err());
    }
}
