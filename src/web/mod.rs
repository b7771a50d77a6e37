//! Routes beside the API: the files of the console, probes, metrics and the backlog for autoscalers.

pub mod assets;
pub mod health;
