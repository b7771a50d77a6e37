//! The lifecycle of a source subscription, as a state table.

use std::fmt;

/// State of a source subscription: the status of its latest lifecycle event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// Registered, never activated.
    Registered,
    /// Receives messages.
    Active,
    /// Receives no messages until it is resumed or activated.
    Paused,
    /// Finishes the messages that it received, and receives no more.
    Draining,
    /// Ended. Its path is free for another registration.
    Deactivated,
    /// Stored under a name that this server does not know. The subscription is live, and can only be deactivated.
    Unknown,
}

/// Action on a registered subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Starts to receive messages.
    Activate,
    /// Stops receiving messages until it is resumed.
    Pause,
    /// Receives messages again after a pause.
    Resume,
    /// Finishes the received messages and receives no more.
    Drain,
    /// Ends the subscription.
    Deactivate,
}

/// Event type of a registration.
pub const REGISTERED: &str = "subscription.registered";
/// Event type of an activation. Like a registration, it makes a subscription live.
pub const ACTIVATED: &str = "subscription.activated";
/// Event type of the audit event for a duplicate message. It is not a lifecycle event.
pub const DEDUPLICATED: &str = "subscription.message.deduplicated";

/// Returns whether events of this type are lifecycle events, which determine a subscription's state.
#[must_use]
pub fn is_lifecycle(event_type: &str) -> bool {
    event_type == REGISTERED || Action::ALL.iter().any(|action| action.event_type() == event_type)
}

/// Returns the types of the events in the logs of source subscriptions. Executions have no such event.
pub fn types_of_subscriptions() -> impl Iterator<Item = &'static str> {
    Action::ALL.iter().map(|action| action.event_type()).chain([REGISTERED, DEDUPLICATED])
}

/// A transition that the state table does not allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a subscription that is {from} can't be {}; available: {}", action.participle(), Available(*from))]
pub struct InvalidTransition {
    /// Current state.
    pub from: State,
    /// Requested action.
    pub action: Action,
}

struct Available(State);

impl fmt::Display for Available {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, action) in self.0.available_actions().into_iter().enumerate() {
            write!(f, "{}{action}", if position == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

impl State {
    /// Every state that this server knows, in the order of the lifecycle.
    pub const ALL: [Self; 5] = [Self::Registered, Self::Active, Self::Paused, Self::Draining, Self::Deactivated];

    /// Returns the state with this name in the status of an event. An unknown name is not an error, because other
    /// servers write to the same log.
    #[must_use]
    pub fn from_stored(name: &str) -> Self {
        Self::ALL.into_iter().find(|state| state.as_str() == name).unwrap_or(Self::Unknown)
    }

    /// Returns the name in the status of events.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "REGISTERED",
            Self::Active => "ACTIVE",
            Self::Paused => "PAUSED",
            Self::Draining => "DRAINING",
            Self::Deactivated => "DEACTIVATED",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Returns whether the subscription is live: it occupies its path.
    #[must_use]
    pub const fn is_live(self) -> bool {
        !matches!(self, Self::Deactivated)
    }

    /// Returns the state after an action, or an error if the action is not allowed.
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

    /// Returns the actions that change this state. Some others are allowed too, but keep it.
    #[must_use]
    pub fn available_actions(self) -> Vec<Action> {
        Action::ALL.into_iter().filter(|action| self.after(*action).is_ok_and(|next| next != self)).collect()
    }
}

impl Action {
    /// Every action.
    pub const ALL: [Self; 5] = [Self::Activate, Self::Pause, Self::Resume, Self::Drain, Self::Deactivate];

    /// Returns the type of the event that the action writes.
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

#[cfg(test)]
mod tests {
    use super::{Action::*, State::*, *};

    /// The required table: each state, then the next state for each action of `Action::ALL`.
    const TABLE: [(State, [Option<State>; 5]); 6] = [
        (Registered, [Some(Active), None, None, None, Some(Deactivated)]),
        (Active, [Some(Active), Some(Paused), Some(Active), Some(Draining), Some(Deactivated)]),
        (Paused, [Some(Active), Some(Paused), Some(Active), Some(Draining), Some(Deactivated)]),
        (Draining, [None, None, None, Some(Draining), Some(Deactivated)]),
        (Deactivated, [Some(Active), None, None, None, Some(Deactivated)]),
        (Unknown, [None, None, None, None, Some(Deactivated)]),
    ];

    #[test]
    fn every_transition_matches_the_required_table() {
        for (from, targets) in TABLE {
            for (action, target) in Action::ALL.into_iter().zip(targets) {
                assert_eq!(from.after(action).ok(), target, "{from} {action}");
            }
        }
    }

    #[test]
    fn available_actions_are_those_that_change_the_state() {
        let expected: [(State, &[Action]); 6] = [
            (Registered, &[Activate, Deactivate]),
            (Active, &[Pause, Drain, Deactivate]),
            (Paused, &[Activate, Resume, Drain, Deactivate]),
            (Draining, &[Deactivate]),
            (Deactivated, &[Activate]),
            (Unknown, &[Deactivate]),
        ];
        for (state, actions) in expected {
            assert_eq!(state.available_actions(), actions, "{state}");
        }
    }

    #[test]
    fn every_state_is_read_from_its_name_and_another_name_is_unknown_and_live() {
        assert!(State::ALL.into_iter().all(|state| State::from_stored(state.as_str()) == state));
        for name in ["", "active", "STARTED"] {
            assert_eq!(State::from_stored(name), Unknown);
        }
        assert!(Unknown.is_live(), "its path is not free");
    }

    #[test]
    fn refusal_names_the_state_and_the_available_actions() {
        let refusal = Draining.after(Resume).unwrap_err().to_string();
        assert_eq!(refusal, "a subscription that is DRAINING can't be resumed; available: DEACTIVATE");
    }

    #[test]
    fn only_registrations_and_actions_write_lifecycle_events() {
        let written = [
            (Activate, "subscription.activated"),
            (Pause, "subscription.paused"),
            (Resume, "subscription.resumed"),
            (Drain, "subscription.draining"),
            (Deactivate, "subscription.deactivated"),
        ];
        for (action, event_type) in written {
            assert_eq!(action.event_type(), event_type);
            assert!(is_lifecycle(event_type), "{event_type}");
        }
        assert!(is_lifecycle("subscription.registered"));
        for other in ["subscription.message.deduplicated", "subscription.", "playbook_started", ""] {
            assert!(!is_lifecycle(other), "{other:?}");
        }
    }

    #[test]
    fn every_state_except_deactivated_is_live() {
        for state in State::ALL {
            assert_eq!(state.is_live(), state != Deactivated, "{state}");
        }
    }
}
