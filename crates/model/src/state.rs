//! The life of a sandbox as a pure table: which event is allowed in which state.

use crate::Cause;

/// Where a sandbox is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Being built; no client can use it yet.
    Creating,
    /// Usable.
    Running,
    /// Its end was decided and is being carried out.
    Killing(Cause),
    /// Gone.
    Dead(Cause),
}

/// What can happen to a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// The agent answered: it can be used.
    Ready,
    /// Somebody or something decided its end.
    End(Cause),
    /// Its processes and files are gone.
    Removed,
}

/// The event is not allowed in this state.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{event:?} is not possible while the sandbox is {state:?}")]
pub struct Denied {
    /// State it stays in.
    pub state: State,
    /// What was refused.
    pub event: Event,
}

impl State {
    /// The state after `event`. A second end while one is under way changes nothing: the first cause stands.
    pub fn on(self, event: Event) -> Result<Self, Denied> {
        match (self, event) {
            (Self::Creating, Event::Ready) => Ok(Self::Running),
            (Self::Creating | Self::Running, Event::End(cause)) => Ok(Self::Killing(cause)),
            (Self::Killing(cause), Event::End(_)) => Ok(Self::Killing(cause)),
            (Self::Killing(cause), Event::Removed) => Ok(Self::Dead(cause)),
            (state, event) => Err(Denied { state, event }),
        }
    }

    /// Whether clients may use the sandbox.
    #[must_use]
    pub fn is_running(self) -> bool {
        self == Self::Running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_of_an_end_stands() {
        let killing = State::Running
            .on(Event::End(Cause::Timeout))
            .expect("allowed");
        let again = killing.on(Event::End(Cause::Killed)).expect("joins");
        assert_eq!(again.on(Event::Removed), Ok(State::Dead(Cause::Timeout)));
    }

    #[test]
    fn nothing_happens_to_the_dead_and_nothing_is_removed_alive() {
        let dead = State::Dead(Cause::Killed);
        for event in [Event::Ready, Event::End(Cause::Oom), Event::Removed] {
            assert_eq!(dead.on(event), Err(Denied { state: dead, event }));
        }
        for state in [State::Creating, State::Running] {
            assert!(state.on(Event::Removed).is_err());
        }
        assert!(State::Running.on(Event::Ready).is_err());
    }
}
