//! The result and the error of a step.

use serde_json::Value;

use super::order::Rank;
use super::register::Place;
use super::step::StepState;
use super::view::StepStatus;
use super::work::Work;
use plain_json::AnyJson;

impl StepState {
    /// Returns the result of the step. For a loop, this is the result in its end; without one, it is the list of the
    /// results of its iterations, once the loop is completed. `None` if [`Self::has_result_in_log`] is true.
    #[must_use]
    pub fn result(&self) -> Option<Value> {
        let own = self.outcome.place().zip(self.outcome.get());
        if self.is_loop() {
            return own.map(|(_, AnyJson(value))| value.clone()).or_else(|| self.list_of_results());
        }
        let of_command = self.commands.values().filter_map(result_of_completion).max_by_key(|(rank, _)| *rank);
        let of_command = of_command.map(|(rank, result)| (rank.event(), result));
        let completion = own.into_iter().chain(of_command).max_by_key(|(event, _)| *event);
        let result = self.called.get().or(completion.map(|(_, result)| result));
        result.map(|AnyJson(value)| value.clone())
    }

    /// Returns whether the result is the list of the results of a loop's iterations, and these are only in the log.
    /// [`super::LoopResults`] reads them.
    #[must_use]
    pub fn has_result_in_log(&self) -> bool {
        !self.sealed.is_empty() && self.outcome.is_empty() && self.status() == StepStatus::Completed
    }

    /// Returns the results of a loop's completed iterations that have records, in the order in which they ended.
    #[must_use]
    pub fn iteration_results(&self) -> Vec<&Value> {
        if !self.is_loop() || self.is_cursor() {
            return Vec::new();
        }
        let mut results: Vec<_> = self.iteration_works().filter_map(result_of_completion).collect();
        results.sort_by_key(|(rank, _)| rank.event());
        results.into_iter().map(|(_, AnyJson(value))| value).collect()
    }

    fn list_of_results(&self) -> Option<Value> {
        if self.has_result_in_log() {
            return None;
        }
        let results = self.iteration_results();
        let is_list = self.status() == StepStatus::Completed && !results.is_empty();
        is_list.then(|| results.into_iter().cloned().collect())
    }

    /// Returns the latest error.
    ///
    /// An error of a failure is cleared when a command or a callback of the step completes without error. In a loop, only
    /// the command that failed can do so, because the others are other iterations. An error with which a call ended is
    /// cleared only by another call of the command, or by another command.
    #[must_use]
    pub fn error(&self) -> Option<&str> {
        let errors = if self.is_loop() { self.errors_of_loop() } else { self.errors_of_attempts() };
        errors.into_iter().max_by_key(|(rank, _)| *rank).map(|(_, error)| error)
    }

    fn errors_of_attempts(&self) -> Vec<(Rank, &str)> {
        let works = || self.commands.values().chain([&self.own]);
        let success = works().filter_map(Work::success).chain(self.callback()).max();
        let failures = works().filter_map(Work::failure).filter(|(rank, _)| Some(*rank) > success);
        let replaced = |work: &Work, rank: Rank| {
            let others = self.commands.values().filter(|other| !std::ptr::eq(*other, work));
            others.filter_map(Work::success).any(|success| success > rank)
        };
        let last_call = works().filter_map(|work| Some((work.call()?, work))).max_by_key(|(rank, _)| *rank);
        let call = last_call.and_then(|(_, work)| work.call_error().filter(|(rank, _)| !replaced(work, *rank)));
        failures.chain(call).collect()
    }

    fn errors_of_loop(&self) -> Vec<(Rank, &str)> {
        let all_completed = self.all_iterations_completed();
        let superseded = |command: &&Work| all_completed && !command.is_completed();
        let works = self.undone().filter(|command| !superseded(command)).chain([&self.own]);
        works.flat_map(|work| [work.standing_failure(), work.call_error()]).flatten().collect()
    }
}

/// Returns the result in a command's completion, and its place.
fn result_of_completion(command: &Work) -> Option<(Rank, &AnyJson)> {
    let (rank, completion) = command.completion()?;
    Some((rank, completion.result.as_ref()?))
}
