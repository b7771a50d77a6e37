//! The form of a message on the stream, which the publishing and the reading side share: names of streams and subjects,
//! headers, and cursors. Also the access to the streams.

pub mod cursor;
pub mod envelope;
pub mod names;
pub mod notifications;
pub mod streams;
