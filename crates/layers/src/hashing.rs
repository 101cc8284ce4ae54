//! A reader that knows the sha256 and number of what went through it.

use model::Digest;
use sha2::{Digest as _, Sha256};
use std::io::{self, Read};

/// Calls of `observe` are at least this many bytes apart.
const OBSERVE_BYTES: u64 = 256 << 10;

/// Hashes what is read and tells `observe` the count now and then.
pub(crate) struct Hashing<R, F> {
    inner: R,
    hash: Sha256,
    count: u64,
    told: u64,
    observe: F,
}

impl<R: Read, F: FnMut(u64)> Hashing<R, F> {
    pub(crate) fn new(inner: R, observe: F) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            count: 0,
            told: 0,
            observe,
        }
    }

    /// Reads what is left, then gives the digest of everything and the reader.
    pub(crate) fn finish(mut self) -> io::Result<(Digest, R)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((Digest::from_sha256(self.hash.finalize().into()), self.inner))
    }

    pub(crate) fn into_inner(self) -> R {
        self.inner
    }

    /// Bytes read so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }
}

impl<R: Read, F: FnMut(u64)> Read for Hashing<R, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.hash.update(&buffer[..n]);
        self.count += n as u64;
        if self.count - self.told >= OBSERVE_BYTES {
            self.told = self.count;
            (self.observe)(self.count);
        }
        Ok(n)
    }
}

/// The digest of bytes at hand.
pub(crate) fn digest_of(bytes: &[u8]) -> Digest {
    Digest::from_sha256(Sha256::digest(bytes).into())
}
