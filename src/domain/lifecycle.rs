//! The lifecycle of a source subscription (SPEC, "Source subscription lifecycle"): a state table and nothing else.

use std::fmt;
use std::str::FromStr;

/// Where a source subscription stands; the status of its latest lifecycle event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Known, never activated.
    Registered,
    /// Taking messages.
    Active,
    /// Not taking messages until it is resumed.
    Paused,
    /// Finishing what it took, taking no more.
    Draining,
    /// Ended; its path is free for another registration.
    Deactivated,
}

/// What a caller can ask of a registered subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Start taking messages.
    Activate,
    /// Stop taking messages for a while.
    Pause,
    /// Go on after a pause.
    Resume,
    /// Finish what was taken and take no more.
    Drain,
    /// End the subscription.
    Deactivate,
}

/// The event type of a registration.
pub const REGISTERED: &str = "subscription.registered";
/// The event type of an activation: like a registration, it makes a subscription live.
pub const ACTIVATED: &str = "subscription.activated";
/// The audit event of a duplicate message on a subscription's log; no lifecycle event.
pub const DEDUPLICATED: &str = "subscription.message.deduplicated";

/// Whether events of this type are what a subscription's state is read from.
#[must_use]
pub fn is_lifecycle(event_type: &str) -> bool {
    event_type == REGISTERED || Action::ALL.iter().any(|action| action.event_type() == event_type)
}

/// A transition that the state table does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subscription that is {from} can't be {}; allowed: {}", action.participle(), Allowed(*from))]
pub struct InvalidTransition {
    /// The state it is in.
    pub from: State,
    /// What was asked.
    pub action: Action,
}

struct Allowed(State);

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, action) in self.0.available_actions().into_iter().enumerate() {
            write!(f, "{}{action}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 5] = [Self::Registered, Self::Active, Self::Paused, Self::Draining, Self::Deactivated];

    /// The name that the event's status holds.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "REGISTERED",
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Draining => "DRAINING",
            Self::Deactivated => "DEACTIVATED",
        }
    }

    /// Whether the subscription occupies its path.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Deactivated)
    }

    /// The state after an action, or why there is none.
    pub const fn after(self, action: Action) -> Result<Self, InvalidTransition> {
        use Action::{Activate, Deactivate, Drain, Pause, Resume};
        use State::{Active, Deactivated, Draining, Paused, Registered};
        match (self, action) {
            (Registered | Paused | Deactivated | Active, Activate) | (Paused | Active, Resume) => Ok(Active),
            (Active | Paused, Pause) => Ok(Paused),
            (Active | Paused | Draining, Drain) => Ok(Draining),
            (_, Deactivate) => Ok(Deactivated),
            (from, action) => Err(InvalidTransition { from, action }),
        }
    }

    /// The actions allowed here.
    #[must_use]
    pub fn available_actions(self) -> Vec<Action> {
        Action::ALL.into_iter().filter(|action| self.after(*action).is_ok()).collect()
    }
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Activate, Self::Pause, Self::Resume, Self::Drain, Self::Deactivate];

    /// The type of the event that the action writes.
    #[must_use]
    pub const fn event_type(self) -> &'static str {
        match self {
            Self::Activate => ACTIVATED,
            Self::Pause => "subscription.paused",
            Self::Resume => "subscription.resumed",
            Self::Drain => "subscription.draining",
            Self::Deactivate => "subscription.deactivated",
        }
    }

    const fn participle(self) -> &'static str {
        match self {
            Self::Activate => "activated",
            Self::Pause => "paused",
            Self::Resume => "resumed",
            Self::Drain => "drained",
            Self::Deactivate => "deactivated",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Activate => "ACTIVATE",
            Self::Pause => "PAUSE",
            Self::Resume => "RESUME",
            Self::Drain => "DRAIN",
            Self::Deactivate => "DEACTIVATE",
        })
    }
}

/// A status that names no lifecycle state.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no lifecycle state")]
pub struct UnknownState(String);

impl FromStr for State {
    type Err = UnknownState;

    fn from_str(text: &str) -> Result<Self, UnknownState> {
        Self::ALL.into_iter().find(|state| state.as_str() == text).ok_or_else(|| UnknownState(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Action::*, State::*, *};

    /// SPEC's table, written down again: state, then where each action of `Action::ALL` leads.
    const TABLE: [(State, [Option<State>; 5]); 5] = [
        (Registered, [Some(Active), None, None, None, Some(Deactivated)]),
        (Active, [Some(Active), Some(Paused), Some(Active), Some(Draining), Some(Deactivated)]),
        (Paused, [Some(Active), Some(Paused), Some(Active), Some(Draining), Some(Deactivated)]),
        (Draining, [None, None, None, Some(Draining), Some(Deactivated)]),
        (Deactivated, [Some(Active), None, None, None, Some(Deactivated)]),
    ];

    #[test]
    fn the_state_table_is_the_spec() {
        for (from, targets) in TABLE {
            for (action, target) in Action::ALL.into_iter().zip(targets) {
                assert_eq!(from.after(action).ok(), target, "{from} {action}");
            }
        }
    }

    #[test]
    fn a_refusal_names_the_state_and_what_is_allowed() {
        let refusal = Draining.after(Resume).unwrap_err().to_string();
        assert_eq!(refusal, "a subscription that is DRAINING can't be resumed; allowed: DRAIN, DEACTIVATE");
    }
}
