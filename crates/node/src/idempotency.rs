//! Creates that a client may send twice: the second gets the reply of the first.

use crate::error::ApiError;
use api::ErrorKind;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Longest key, as E2B allows.
const KEY_BYTES_MAX: usize = 255;
/// Keys that are remembered; the oldest is forgotten first.
const KEYS_MAX: usize = 10_000;

#[derive(Debug, Clone)]
struct Entry {
    request: Vec<u8>,
    /// `None` while the create runs.
    reply: Option<api::e2b::Sandbox>,
}

#[derive(Debug, Default)]
struct Inner {
    order: VecDeque<String>,
    entries: HashMap<String, Entry>,
}

/// Remembered creates.
#[derive(Debug, Default)]
pub(crate) struct Idempotency(Mutex<Inner>);

/// What to do with a create that carries a key.
#[derive(Debug)]
pub(crate) enum Begin {
    /// Carry it out and tell the result to the ticket.
    First(Ticket),
    /// Answer with this.
    Again(Box<api::e2b::Sandbox>),
}

/// A create under way; forgotten when dropped without a result.
#[derive(Debug)]
pub(crate) struct Ticket {
    key: Option<String>,
    home: Arc<Idempotency>,
}

impl Idempotency {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(self: &Arc<Self>, key: &str, request: Vec<u8>) -> Result<Begin, ApiError> {
        let ok = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(ok) {
            let text = format!("Idempotency-Key {key:?} is not 1 to 255 of [a-z0-9-]");
            return Err(ApiError::invalid(text));
        }
        let mut inner = self.lock();
        match inner.entries.get(key) {
            Some(entry) if entry.request != request => {
                let text = format!("Idempotency-Key {key:?} was used for another request");
                return Err(ApiError::new(ErrorKind::Conflict, text)
                    .with_code("idempotency_request_mismatch"));
            }
            Some(Entry { reply: None, .. }) => {
                let text = format!("the create with Idempotency-Key {key:?} is under way");
                return Err(
                    ApiError::new(ErrorKind::Conflict, text).with_code("idempotency_in_progress")
                );
            }
            Some(Entry {
                reply: Some(reply), ..
            }) => return Ok(Begin::Again(Box::new(reply.clone()))),
            None => {}
        }
        inner.order.push_back(key.to_owned());
        let entry = Entry {
            request,
            reply: None,
        };
        inner.entries.insert(key.to_owned(), entry);
        while inner.order.len() > KEYS_MAX {
            if let Some(oldest) = inner.order.pop_front() {
                inner.entries.remove(&oldest);
            }
        }
        Ok(Begin::First(Ticket {
            key: Some(key.to_owned()),
            home: Arc::clone(self),
        }))
    }
}

impl Ticket {
    pub(crate) fn succeed(mut self, reply: &api::e2b::Sandbox) {
        if let Some(key) = self.key.take()
            && let Some(entry) = self.home.lock().entries.get_mut(&key)
        {
            entry.reply = Some(reply.clone());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(key) = self.key.take() {
            let mut inner = self.home.lock();
            inner.entries.remove(&key);
            inner.order.retain(|k| *k != key);
        }
    }
}
