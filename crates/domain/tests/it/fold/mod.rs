//! The fold gives the same state for the same set of events, in any order and with any repetition, and the state that
//! NoETL gives for the logs that it wrote. These logs are in `tests/golden`; its README tells what wrote them.

mod any_order;
mod history;
mod known_types;
mod later_noetl;
mod noetl_rules;
mod recorded;
mod recorded_histories;
mod recorded_results;
mod sealed_loops;
mod states;
mod status_from_steps;
mod stored_form;
