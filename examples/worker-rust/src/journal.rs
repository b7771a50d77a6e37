//! Journal of the received events: a file with one JSON line for each item.
//!
//! Each line has the item and its cursor, so one write stores both, and no crash can separate them. The cursor of the
//! last line is the position from which the stream continues.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use serde_json::Value;

const REMEMBERED: usize = 1000;

pub struct Journal {
    file: File,
    cursor: Option<String>,
    seen: VecDeque<Value>,
}

impl Journal {
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let bytes = std::fs::read(path)?;
        // A crash in the middle of a write leaves a line without its end. The event is delivered again.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        file.set_len(whole as u64)?;
        let mut journal = Self { file, cursor: None, seen: VecDeque::new() };
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            journal.remember(&serde_json::from_slice(line)?);
        }
        Ok(journal)
    }

    /// Returns the cursor of the last item.
    pub fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }

    /// Stores an item with its cursor. Returns false if it is a repetition: an event without its large fields has an
    /// earlier cursor, so events after it can be delivered again.
    pub fn add(&mut self, item: &Value) -> io::Result<bool> {
        if self.seen.contains(&key(item)) {
            return Ok(false);
        }
        self.file.write_all(format!("{item}\n").as_bytes())?;
        self.remember(item);
        Ok(true)
    }

    fn remember(&mut self, item: &Value) {
        self.cursor = item["cursor"].as_str().map(str::to_owned);
        self.seen.push_back(key(item));
        if self.seen.len() > REMEMBERED {
            self.seen.pop_front();
        }
    }
}

fn key(item: &Value) -> Value {
    let event = &item["event"];
    if event.is_null() { item["cursor"].clone() } else { serde_json::json!([event["executionId"], event["eventId"]]) }
}
