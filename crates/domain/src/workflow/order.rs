//! Order of the events of a step.
//!
//! Event ids come from several clocks: the orchestrator's, which enters steps and issues their commands, and the
//! workers'. If a worker's clock is ahead or behind, ids do not order the events of a step: the completion of one run
//! can have a larger id than the start of the next run, and a completion can have a smaller id than the claim of its
//! own command.
//!
//! NoETL's command ids contain the id of the event that issued the command: `<execution>:<step>:<event>`, followed by
//! `:i<index>` for an iteration. So the events of such a command are placed at the event that issued it, and ordered by
//! their kind first. All other events are placed by their own ids.

use serde::{Deserialize, Serialize};

use super::fact::StepKind;
use super::register::Place;
use crate::ids::Id;

/// Place of an event among the events of its command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Moment(u8, Id);

impl Moment {
    /// Returns the place of an event. `issued` is the event that issued its command, if that is known.
    pub(super) fn of(kind: StepKind, issued: Option<Id>, event: Id) -> Self {
        Self(issued.map_or(0, |_| stage(kind)), event)
    }

    /// Returns whether the event ended its command. The event that issued the command must be known.
    pub(super) fn is_end(self) -> bool {
        self.0 == ENDED
    }
}

impl Place for Moment {
    fn position(self) -> Id {
        self.1
    }

    fn event(self) -> Id {
        self.1
    }
}

/// Place of an event among the events of its step: the event that issued its command, else the event itself; then its
/// place within the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Rank(Id, Moment);

impl Rank {
    /// Returns the place of an event. `issued` is the event that issued its command, if that is known.
    pub(super) fn of(issued: Option<Id>, moment: Moment) -> Self {
        Self(issued.unwrap_or(moment.1), moment)
    }
}

impl Place for Rank {
    fn position(self) -> Id {
        self.0
    }

    fn event(self) -> Id {
        self.1.1
    }
}

/// Last stage of a command.
const ENDED: u8 = 5;

/// Stages of a command, in order.
fn stage(kind: StepKind) -> u8 {
    match kind {
        StepKind::Issued => 1,
        StepKind::Claimed => 2,
        StepKind::Entered | StepKind::Started | StepKind::Parked => 3,
        StepKind::Done | StepKind::CallFailed => 4,
        StepKind::Completed | StepKind::Failed | StepKind::Skipped | StepKind::LoopDone => ENDED,
    }
}

/// Returns the id of the event that issued a command, if the command's id contains it. An event of an execution has a
/// larger id than the execution, so a small number, such as that of an attempt, is not an event.
pub(super) fn issued_by(command: &str, execution: Id) -> Option<Id> {
    let (head, last) = command.rsplit_once(':')?;
    let is_index = last.strip_prefix('i').is_some_and(|index| index.bytes().all(|digit| digit.is_ascii_digit()));
    let (head, event) = if is_index { head.rsplit_once(':')? } else { (head, last) };
    let (of, _step) = head.split_once(':')?;
    let event: Id = event.parse().ok()?;
    (of.parse() == Ok(execution) && event > execution).then_some(event)
}

/// Returns the index of the iteration that a command of NoETL belongs to, if the command's id contains it.
pub(super) fn index_of(command: &str) -> Option<u64> {
    let (_, last) = command.rsplit_once(':')?;
    let text = last.strip_prefix('i')?;
    text.parse().ok().filter(|index: &u64| index.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_an_iteration_is_the_number_at_the_end_of_a_command_id() {
        assert_eq!(index_of("70:fetch:75:i12"), Some(12));
        assert_eq!(index_of("70:fetch:75:i0"), Some(0));
        for other in ["70:fetch:75", "70:fetch:75:i", "70:fetch:75:i012", "70:fetch:75:i+1", "i1", "70:fetch:i1x"] {
            assert_eq!(index_of(other), None, "{other:?}");
        }
    }

    #[test]
    fn only_command_ids_of_noetl_name_the_event_that_issued_the_command() {
        let issued = |command: &str| issued_by(command, Id::new(70));
        assert_eq!(issued("70:fetch:75"), Some(Id::new(75)));
        assert_eq!(issued("70:fetch:75:i12"), Some(Id::new(75)));
        assert_eq!(issued("70:a:b:75"), Some(Id::new(75)), "a step's name may contain colons");
        for other in [
            "",
            "75",
            "fetch:75",
            "70:75",
            "71:fetch:75",
            "70:fetch:1",
            "70:fetch:70",
            "70:fetch:",
            "70:fetch:075",
            "70:i1",
        ] {
            assert_eq!(issued(other), None, "{other:?}");
        }
    }
}
