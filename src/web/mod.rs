//! Routes beside the API: the files of the console, its sign-in, probes, metrics and the backlog for autoscalers.

pub mod assets;
pub mod health;
pub mod sign_in;
