//! One sandbox as the node holds it: facts that never change, and its life behind one lock.

use crate::host::HostShell;
use crate::proxy::AgentLink;
use crate::record::{Record, RecordError, Records};
use jiff::Timestamp;
use model::{Cause, Digest, Event, Resources, SandboxId, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What is decided at create and never changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub(crate) id: SandboxId,
    pub(crate) template_id: String,
    pub(crate) alias: Option<String>,
    /// Layers of its root: they stay in the store while it lives.
    pub(crate) layers: Vec<Digest>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) resources: Resources,
    /// As create said; `None` means yes.
    pub(crate) internet: Option<bool>,
    pub(crate) started_at: Timestamp,
}

/// Whether a new time to live may come before the old one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extend {
    /// It replaces the old one.
    Set,
    /// The later one counts.
    Only,
}

#[derive(Debug)]
struct Life {
    state: State,
    end_at: Timestamp,
    deadline: Instant,
    ended_at: Option<Timestamp>,
}

/// A sandbox that runs or is being ended.
#[derive(Debug)]
pub(crate) struct Sandbox {
    pub(crate) facts: Facts,
    /// Opens the agent's interface.
    pub(crate) token: String,
    pub(crate) host: HostShell,
    pub(crate) agent: AgentLink,
    /// Fires when its end is decided: connections through the proxy are dropped.
    pub(crate) ended: CancellationToken,
    /// Fires when nothing of it remains.
    pub(crate) removed: CancellationToken,
    /// Wakes its watcher after the end was moved.
    pub(crate) moved: Notify,
    /// Guards state and end; held while the record is written, never across await.
    life: Mutex<Life>,
}

impl Sandbox {
    /// A sandbox whose agent answered.
    pub(crate) fn running(facts: Facts, token: String, host: HostShell, end_at: Timestamp) -> Self {
        let state = State::Creating
            .on(Event::Ready)
            .expect("the state table lets a sandbox become ready");
        let left = end_at.duration_since(Timestamp::now());
        Self {
            agent: AgentLink::new(host.shell.socket.clone()),
            facts,
            token,
            host,
            ended: CancellationToken::new(),
            removed: CancellationToken::new(),
            moved: Notify::new(),
            life: Mutex::new(Life {
                state,
                end_at,
                deadline: Instant::now() + left.try_into().unwrap_or(Duration::ZERO),
                ended_at: None,
            }),
        }
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn id(&self) -> &SandboxId {
        &self.facts.id
    }

    pub(crate) fn state(&self) -> State {
        self.life().state
    }

    pub(crate) fn end_at(&self) -> Timestamp {
        self.life().end_at
    }

    pub(crate) fn ended_at(&self) -> Option<Timestamp> {
        self.life().ended_at
    }

    pub(crate) fn deadline(&self) -> Instant {
        self.life().deadline
    }

    /// Moves the end to `timeout` from now and stores that. False: its end was decided already.
    pub(crate) fn move_end(
        &self,
        timeout: Duration,
        extend: Extend,
        records: &Records,
    ) -> Result<bool, RecordError> {
        let mut life = self.life();
        if !life.state.is_running() {
            return Ok(false);
        }
        let end_at = truncated(Timestamp::now() + timeout);
        if extend == Extend::Only && end_at <= life.end_at {
            return Ok(true);
        }
        records.put(&self.record(end_at))?;
        life.end_at = end_at;
        life.deadline = Instant::now() + timeout;
        drop(life);
        self.moved.notify_one();
        Ok(true)
    }

    fn record(&self, end_at: Timestamp) -> Record {
        let (facts, token) = (self.facts.clone(), self.token.clone());
        Record::new(facts, token, end_at, self.host.record.clone())
    }

    /// Writes its record for the first time.
    pub(crate) fn store(&self, records: &Records) -> Result<(), RecordError> {
        let life = self.life();
        records.put(&self.record(life.end_at))
    }

    /// Decides its end and forgets its record. False: it was decided before.
    pub(crate) fn begin_end(&self, cause: Cause, records: &Records) -> bool {
        let mut life = self.life();
        if !life.state.is_running() {
            return false;
        }
        match life.state.on(Event::End(cause)) {
            Ok(state) => life.state = state,
            Err(_) => return false,
        }
        life.ended_at = Some(truncated(Timestamp::now()));
        if let Err(error) = records.delete(&self.facts.id) {
            // The sandbox is ended all the same; a restarted node finds no process and drops the record.
            tracing::warn!(id = %self.facts.id, error = %crate::error::chain(&error), "record stays");
        }
        true
    }

    /// Notes that nothing of it remains.
    pub(crate) fn finish_end(&self) {
        let mut life = self.life();
        if let Ok(state) = life.state.on(Event::Removed) {
            life.state = state;
        }
        drop(life);
        self.removed.cancel();
    }
}

/// Microseconds: what every SDK's time parser takes.
pub(crate) fn truncated(time: Timestamp) -> Timestamp {
    Timestamp::from_microsecond(time.as_microsecond()).unwrap_or(time)
}
