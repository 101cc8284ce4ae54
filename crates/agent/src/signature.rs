//! Who may use the data plane: the access token, or a signed `/files` address.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// Whether two secrets are equal, in a time that does not tell where they differ.
pub(crate) fn same(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

/// What a signed address allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Read,
    Write,
}

/// The parts of a signed address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Signed<'a> {
    pub(crate) path: &'a str,
    pub(crate) user: &'a str,
    pub(crate) operation: Operation,
    pub(crate) signature: &'a str,
    /// Unix time, seconds.
    pub(crate) expiration: Option<i64>,
}

/// Why a signed address is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SignatureError {
    #[error("invalid signature")]
    Invalid,
    #[error("signature is already expired")]
    Expired,
}

impl Signed<'_> {
    /// Checks against the token and the time now.
    pub(crate) fn check(&self, token: &str, now: i64) -> Result<(), SignatureError> {
        if !same(&self.expected(token), self.signature) {
            return Err(SignatureError::Invalid);
        }
        match self.expiration {
            Some(expiration) if expiration < now => Err(SignatureError::Expired),
            _ => Ok(()),
        }
    }

    fn expected(&self, token: &str) -> String {
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        let mut raw = format!("{}:{operation}:{}:{token}", self.path, self.user);
        if let Some(expiration) = self.expiration {
            raw.push_str(&format!(":{expiration}"));
        }
        format!("v1_{}", STANDARD_NO_PAD.encode(Sha256::digest(raw)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_path_user_operation_and_time_only() {
        // Made by: printf /home/user/f:read:user:tok:100 | openssl dgst -sha256 -binary | base64
        let signature = "v1_RYoc2wTFGrpixmkbx4X0qoIplvHFNbIqMSAYzGlgmjM";
        let signed = Signed {
            path: "/home/user/f",
            user: "user",
            operation: Operation::Read,
            signature,
            expiration: Some(100),
        };
        assert_eq!(signed.check("tok", 100), Ok(()));
        assert_eq!(signed.check("tok", 101), Err(SignatureError::Expired));
        assert_eq!(signed.check("other", 100), Err(SignatureError::Invalid));
        let write = Signed {
            operation: Operation::Write,
            ..signed
        };
        assert_eq!(write.check("tok", 100), Err(SignatureError::Invalid));
        let elsewhere = Signed {
            path: "/etc/shadow",
            ..signed
        };
        assert_eq!(elsewhere.check("tok", 100), Err(SignatureError::Invalid));
    }
}
