//! The programs of a sandbox: a table of those that run and, for a while, of those that have ended.

mod input;
mod output;
mod rpc;
mod start;
mod status;
mod stream;
mod supervise;

pub(crate) use rpc::call;

use crate::tree::Tree;
use api::envd::process::{ProcessConfig, ProcessInfo, ProcessSelector};
use api::envd::{Code, ConnectError};
use input::Input;
use output::Output;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How long an exit status is kept for a late `Connect`.
const RETENTION: Duration = Duration::from_mins(10);
/// Ended processes kept at most; the oldest go first.
const ENDED_MAX: usize = 4096;
/// Output kept of all ended processes together, bytes; the oldest lose theirs first, not their status.
const ENDED_OUTPUT_BYTES_MAX: usize = 16 << 20;

/// One program, running or ended.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    config: ProcessConfig,
    tag: Option<String>,
    input: Input,
    output: Output,
    tree: Tree,
    ended: AtomicBool,
    /// Whether the deadline of its `Start` call ended it.
    timed_out: AtomicBool,
}

impl Process {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    fn info(&self) -> ProcessInfo {
        ProcessInfo {
            config: self.config.clone(),
            pid: self.pid,
            tag: self.tag.clone(),
        }
    }

    fn is(&self, selector: &ProcessSelector) -> bool {
        match (&selector.pid, &selector.tag) {
            (Some(pid), _) => self.pid == *pid,
            (None, Some(tag)) => self.tag.as_ref() == Some(tag),
            (None, None) => false,
        }
    }
}

/// All known processes.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// Never held across an await.
    inner: Mutex<Rows>,
}

#[derive(Debug, Default)]
struct Rows {
    running: HashMap<u32, Arc<Process>>,
    /// Oldest first.
    ended: VecDeque<(Instant, Arc<Process>)>,
}

impl Table {
    fn insert(&self, process: &Arc<Process>) {
        let mut rows = crate::locked(&self.inner);
        // The kernel gave the number out again: the old holder is no longer what it names.
        rows.ended.retain(|(_, old)| old.pid != process.pid);
        rows.running.insert(process.pid, Arc::clone(process));
    }

    /// Moves a process to the ended ones and drops what is over the limits.
    fn retire(&self, process: &Arc<Process>) {
        process.ended.store(true, Ordering::Release);
        let mut rows = crate::locked(&self.inner);
        // The kernel may have given the number out again while this one's output was awaited.
        if rows
            .running
            .get(&process.pid)
            .is_some_and(|row| Arc::ptr_eq(row, process))
        {
            rows.running.remove(&process.pid);
        }
        rows.ended.retain(|(since, _)| since.elapsed() < RETENTION);
        rows.ended.push_back((Instant::now(), Arc::clone(process)));
        while rows.ended.len() > ENDED_MAX {
            rows.ended.pop_front();
        }
        let mut kept = 0;
        for (_, old) in rows.ended.iter().rev() {
            kept += old.output.kept_bytes();
            if kept > ENDED_OUTPUT_BYTES_MAX {
                kept -= old.output.kept_bytes();
                old.output.forget();
            }
        }
    }

    /// Those that run, by id.
    fn list(&self) -> Vec<ProcessInfo> {
        let rows = crate::locked(&self.inner);
        let mut infos: Vec<_> = rows
            .running
            .values()
            .map(|process| process.info())
            .collect();
        infos.sort_by_key(|info| info.pid);
        infos
    }

    fn running(&self, selector: &ProcessSelector) -> Result<Arc<Process>, ConnectError> {
        let rows = crate::locked(&self.inner);
        // Of several with one tag the newest is meant.
        let matching = rows.running.values().filter(|process| process.is(selector));
        let process = matching.max_by_key(|process| process.pid).cloned();
        process.ok_or_else(|| not_found(selector))
    }

    /// Also finds those that have ended not long ago.
    fn known(&self, selector: &ProcessSelector) -> Result<Arc<Process>, ConnectError> {
        self.running(selector).or_else(|error| {
            let mut rows = crate::locked(&self.inner);
            rows.ended.retain(|(since, _)| since.elapsed() < RETENTION);
            let mut newest_first = rows.ended.iter().rev().map(|(_, process)| process);
            newest_first
                .find(|process| process.is(selector))
                .cloned()
                .ok_or(error)
        })
    }
}

fn not_found(selector: &ProcessSelector) -> ConnectError {
    match (&selector.pid, &selector.tag) {
        (Some(pid), _) => {
            ConnectError::new(Code::NotFound, format!("process with pid {pid} not found"))
        }
        (None, Some(tag)) => {
            ConnectError::new(Code::NotFound, format!("process with tag {tag} not found"))
        }
        (None, None) => ConnectError::new(Code::InvalidArgument, "no process selected"),
    }
}
