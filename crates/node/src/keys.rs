//! API keys and the seed of access tokens, each a 0600 file made at first start.

use model::SandboxId;
use sha2::{Digest, Sha256};
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use subtle::{Choice, ConstantTimeEq};

/// Random bytes of a key: 40 hex digits after `e2b_`.
const KEY_BYTES: usize = 20;
/// Random bytes of the seed.
const SEED_BYTES: usize = 32;
/// Block of SHA-256, for HMAC.
const BLOCK_BYTES: usize = 64;

/// A key file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// It could not be read or made.
    #[error("{action} key file {path}", path = path.display())]
    File {
        /// `make` or `read`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// It holds no key.
    #[error("key file {path} holds no key; delete it to have one made", path = path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

/// The accepted API keys, as digests of equal length.
#[derive(Debug)]
pub(crate) struct ApiKeys(Vec<[u8; 32]>);

impl ApiKeys {
    /// Reads the keys, one per line; makes the file with one key if there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, KeyError> {
        let text = read_or_make(path, || {
            format!("e2b_{}\n", hex::encode(rand::random::<[u8; KEY_BYTES]>()))
        })?;
        let keys: Vec<_> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .map(|key| Sha256::digest(key).into())
            .collect();
        if keys.is_empty() {
            return Err(KeyError::Empty {
                path: path.to_owned(),
            });
        }
        Ok(Self(keys))
    }

    /// Whether `key` is one of them; looks at all of them whatever the answer.
    pub(crate) fn accepts(&self, key: &[u8]) -> bool {
        let given: [u8; 32] = Sha256::digest(key).into();
        let hit = self
            .0
            .iter()
            .fold(Choice::from(0), |hit, known| hit | known.ct_eq(&given));
        hit.into()
    }
}

/// Secret from which access tokens are derived, so that they survive a restart.
pub(crate) struct Seed(Vec<u8>);

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

impl Seed {
    /// Reads the seed; makes it if there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, KeyError> {
        let text = read_or_make(path, || {
            hex::encode(rand::random::<[u8; SEED_BYTES]>()) + "\n"
        })?;
        let seed = text.trim();
        if seed.is_empty() {
            return Err(KeyError::Empty {
                path: path.to_owned(),
            });
        }
        Ok(Self(seed.as_bytes().to_vec()))
    }

    /// Token that opens the agent's interface of one sandbox.
    pub(crate) fn envd_token(&self, id: &SandboxId) -> String {
        hex::encode(self.hmac(&format!("envd:{id}")))
    }

    /// Number that begins the ids of this node's sandboxes.
    pub(crate) fn node_number(&self) -> u32 {
        let mac = self.hmac("node");
        u32::from_le_bytes([mac[0], mac[1], mac[2], mac[3]])
    }

    /// HMAC-SHA256 (RFC 2104).
    fn hmac(&self, message: &str) -> [u8; 32] {
        let mut key = [0u8; BLOCK_BYTES];
        if self.0.len() > BLOCK_BYTES {
            key[..32].copy_from_slice(&Sha256::digest(&self.0));
        } else {
            key[..self.0.len()].copy_from_slice(&self.0);
        }
        let inner = Sha256::new_with_prefix(key.map(|b| b ^ 0x36)).chain_update(message);
        let outer = Sha256::new_with_prefix(key.map(|b| b ^ 0x5c));
        outer.chain_update(inner.finalize()).finalize().into()
    }
}

fn read_or_make(path: &Path, content: impl FnOnce() -> String) -> Result<String, KeyError> {
    let error = |action| {
        move |source| KeyError::File {
            action,
            path: path.to_owned(),
            source,
        }
    };
    match fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        read => return read.map_err(error("read")),
    }
    let content = content();
    let made = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        });
    match made {
        // Another process was faster: its key counts.
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
            fs::read_to_string(path).map_err(error("read"))
        }
        made => made.map_err(error("make")).map(|()| content),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once_readable_by_its_owner_only() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api-key");
        let keys = ApiKeys::open(&path).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let key = text.trim();
        assert!(key.len() == 44 && key.starts_with("e2b_"), "{key}");
        assert_eq!(
            fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert!(keys.accepts(key.as_bytes()) && !keys.accepts(b"e2b_00") && !keys.accepts(b""));
        assert!(ApiKeys::open(&path).unwrap().accepts(key.as_bytes()));
    }

    #[test]
    fn an_empty_key_file_is_an_error_that_says_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("api-key");
        fs::File::create(&path).unwrap();
        let error = ApiKeys::open(&path).expect_err("no key").to_string();
        assert!(error.contains("delete it"), "{error}");
    }

    #[test]
    fn the_mac_is_that_of_rfc_4231_test_case_2() {
        let mac = Seed(b"Jefe".to_vec()).hmac("what do ya want for nothing?");
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        assert_eq!(hex::encode(mac), expected);
    }

    #[test]
    fn tokens_depend_on_seed_and_id_alone() {
        let (a, b) = (Seed(b"a".to_vec()), Seed(b"b".to_vec()));
        let (x, y) = (SandboxId::new(1, [1; 16]), SandboxId::new(1, [2; 16]));
        assert_eq!(a.envd_token(&x), a.envd_token(&x));
        assert_ne!(a.envd_token(&x), b.envd_token(&x));
        assert_ne!(a.envd_token(&x), a.envd_token(&y));
    }
}
