//! Ended sandboxes and why they ended, bounded.

use crate::sandbox::Facts;
use jiff::Timestamp;
use model::{Cause, SandboxId};
use std::collections::{HashMap, VecDeque};

/// A sandbox that is no more.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) facts: Facts,
    pub(crate) cause: Cause,
    pub(crate) end_at: Timestamp,
    pub(crate) ended_at: Timestamp,
}

/// The last ended sandboxes.
#[derive(Debug)]
pub(crate) struct History {
    max: usize,
    order: VecDeque<SandboxId>,
    ended: HashMap<SandboxId, Ended>,
}

impl History {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            order: VecDeque::new(),
            ended: HashMap::new(),
        }
    }

    pub(crate) fn push(&mut self, ended: Ended) {
        let id = ended.facts.id.clone();
        if self.ended.insert(id.clone(), ended).is_none() {
            self.order.push_back(id);
        }
        while self.order.len() > self.max {
            if let Some(oldest) = self.order.pop_front() {
                self.ended.remove(&oldest);
            }
        }
    }

    pub(crate) fn get(&self, id: &SandboxId) -> Option<&Ended> {
        self.ended.get(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_oldest_is_forgotten_first() {
        let mut history = History::new(2);
        let ids: Vec<_> = (0..3).map(|n| SandboxId::new(1, [n; 16])).collect();
        for id in &ids {
            history.push(Ended {
                facts: Facts {
                    id: id.clone(),
                    template_id: "t".into(),
                    alias: None,
                    layers: Vec::new(),
                    metadata: BTreeMap::new(),
                    resources: model::Resources::default(),
                    internet: None,
                    started_at: Timestamp::UNIX_EPOCH,
                },
                cause: Cause::Killed,
                end_at: Timestamp::UNIX_EPOCH,
                ended_at: Timestamp::UNIX_EPOCH,
            });
        }
        let known: Vec<_> = ids.iter().map(|id| history.get(id).is_some()).collect();
        assert_eq!(known, [false, true, true]);
    }
}
