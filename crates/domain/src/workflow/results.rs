//! Results of a loop's iterations, read from the log. A stored state does not contain them.

use serde_json::Value;

use super::fact::{self, KINDS, Kind, StepKind};
use super::step::StepState;
use crate::event::Event;

/// Fold of a loop's results.
#[derive(Debug)]
pub struct LoopResults(StepState);

impl Default for LoopResults {
    fn default() -> Self {
        Self(StepState::new())
    }
}

impl LoopResults {
    /// Returns the event types that must be folded.
    pub fn types() -> impl Iterator<Item = &'static str> {
        KINDS.into_iter().filter(|(_, kind)| is_needed(*kind)).map(|(name, _)| name)
    }

    /// Folds an event of the step. Events of other types are ignored. The order has no effect.
    pub fn fold(&mut self, event: &Event) {
        if let Some(Kind::Step(kind)) = fact::kind(&event.event_type).filter(|kind| is_needed(*kind)) {
            // A state that was never sealed can't be contradicted.
            let _ = self.0.fold(kind, event);
        }
    }

    /// Returns the results of the completed iterations, in the order in which they ended; `None`: there is none.
    #[must_use]
    pub fn list(&self) -> Option<Value> {
        let results = self.0.iteration_results();
        (!results.is_empty()).then(|| results.into_iter().cloned().collect())
    }
}

/// Returns whether the results depend on events of a kind: the start of a run, or the end of an iteration.
fn is_needed(kind: Kind) -> bool {
    matches!(kind, Kind::Step(StepKind::Entered | StepKind::Completed))
}
