//! Which sandboxes exist: being created (counted), running, being ended, ended (bounded history).

use crate::history::{Ended, History};
use crate::sandbox::Sandbox;
use model::{SandboxId, State};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why no further sandbox is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The node stops.
    Closed,
    /// The node holds as many as it may.
    Full,
}

/// What is known of an id.
#[derive(Debug, Clone)]
pub(crate) enum Known {
    /// Running or being ended.
    Present(Arc<Sandbox>),
    /// Gone.
    Ended(Box<Ended>),
}

#[derive(Debug)]
struct Inner {
    closed: bool,
    creating: usize,
    live: HashMap<SandboxId, Arc<Sandbox>>,
    ending: HashMap<SandboxId, Arc<Sandbox>>,
    history: History,
}

/// All sandboxes of the node.
#[derive(Debug)]
pub(crate) struct Registry {
    max: usize,
    /// Guards the maps; held for a few instructions, never across await.
    inner: Mutex<Inner>,
}

/// A place for a sandbox that is being created; given back when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    registry: Arc<Registry>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.registry.lock().creating -= 1;
    }
}

impl Registry {
    pub(crate) fn new(max: usize, history_max: usize) -> Self {
        Self {
            max,
            inner: Mutex::new(Inner {
                closed: false,
                creating: 0,
                live: HashMap::new(),
                ending: HashMap::new(),
                history: History::new(history_max),
            }),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a place for a sandbox to be created.
    pub(crate) fn reserve(self: &Arc<Self>) -> Result<Place, Refused> {
        let mut inner = self.lock();
        if inner.closed {
            return Err(Refused::Closed);
        }
        if inner.creating + inner.live.len() >= self.max {
            return Err(Refused::Full);
        }
        inner.creating += 1;
        Ok(Place {
            registry: Arc::clone(self),
        })
    }

    /// Makes a sandbox reachable; false when the node stops meanwhile.
    pub(crate) fn insert(&self, sandbox: &Arc<Sandbox>) -> bool {
        let mut inner = self.lock();
        if inner.closed {
            return false;
        }
        inner.live.insert(sandbox.id().clone(), Arc::clone(sandbox));
        true
    }

    /// The running sandbox of this id.
    pub(crate) fn get(&self, id: &SandboxId) -> Option<Arc<Sandbox>> {
        self.lock().live.get(id).cloned()
    }

    pub(crate) fn known(&self, id: &SandboxId) -> Option<Known> {
        let inner = self.lock();
        let present = inner.live.get(id).or_else(|| inner.ending.get(id));
        present
            .cloned()
            .map(Known::Present)
            .or_else(|| Some(Known::Ended(Box::new(inner.history.get(id)?.clone()))))
    }

    pub(crate) fn running(&self) -> Vec<Arc<Sandbox>> {
        self.lock().live.values().cloned().collect()
    }

    pub(crate) fn running_count(&self) -> usize {
        self.lock().live.len()
    }

    /// Takes a sandbox out of reach; it stays known while it is removed.
    pub(crate) fn retire(&self, sandbox: &Arc<Sandbox>) {
        let mut inner = self.lock();
        inner.live.remove(sandbox.id());
        inner
            .ending
            .insert(sandbox.id().clone(), Arc::clone(sandbox));
    }

    /// Moves a removed sandbox to the history.
    pub(crate) fn bury(&self, sandbox: &Sandbox) {
        let (State::Dead(cause) | State::Killing(cause)) = sandbox.state() else {
            return;
        };
        let end_at = sandbox.end_at();
        let ended = Ended {
            facts: sandbox.facts.clone(),
            cause,
            end_at,
            ended_at: sandbox.ended_at().unwrap_or(end_at),
        };
        let mut inner = self.lock();
        inner.ending.remove(sandbox.id());
        inner.history.push(ended);
    }

    /// Notes a sandbox that ended while no node watched.
    pub(crate) fn note_ended(&self, ended: Ended) {
        self.lock().history.push(ended);
    }

    /// Takes no more sandboxes; returns those that run.
    pub(crate) fn close(&self) -> Vec<Arc<Sandbox>> {
        let mut inner = self.lock();
        inner.closed = true;
        inner.live.values().cloned().collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Whether nothing is being created, runs or is being ended.
    pub(crate) fn is_empty(&self) -> bool {
        let inner = self.lock();
        inner.creating == 0 && inner.live.is_empty() && inner.ending.is_empty()
    }

    pub(crate) fn ending_count(&self) -> usize {
        self.lock().ending.len()
    }
}
