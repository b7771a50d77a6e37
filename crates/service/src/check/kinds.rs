//! The kinds of differences between the databases and the streams: their meaning, and their repair.

use std::fmt;

/// Kind of a difference.
// The order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// An id in a log is after the range of its machine id.
    IdAfterRange,
    /// The range of a machine id ends in the future, further than the generator of ids can be raised.
    RangeInFuture,
    /// A registration has an open intent for a long time.
    UnfinishedRegistration,
    /// A registration names a subscription without a log.
    RegistrationWithoutLog,
    /// A live subscription is not the registered one of its path.
    LiveSubscriptionNotRegistered,
    /// A path has more than one live subscription.
    SeveralLiveSubscriptions,
    /// A dedup claim is reserved for a long time.
    UnfinishedClaim,
    /// A dedup claim names an execution that does not exist.
    ClaimWithoutExecution,
    /// An execution with a dedup key has no claim.
    ExecutionWithoutClaim,
    /// A row of the executions' list has no log.
    ListRowWithoutLog,
    /// A row of the executions' list is newer than its log.
    ListRowAfterLog,
    /// A row of the executions' list lacks events of its log.
    ListRowBehindLog,
    /// The index of labels has other labels than a row of the executions' list.
    LabelsNotIndexed,
    /// An execution's log has no row in the executions' list.
    LogWithoutListRow,
    /// A snapshot is newer than its log.
    SnapshotAfterLog,
    /// The history of executions has other numbers than the executions.
    HistoryDiffers,
    /// An outbox row has no event.
    OutboxRowWithoutEvent,
    /// The catalog lacks the entry of an execution.
    UnknownCatalogEntry,
    /// The parent of an execution does not exist.
    MissingParent,
    /// A log is on a shard that does not own it.
    LogOnOtherShard,
    /// A database has another history than the cursor of its feed.
    RestoredDatabase,
    /// A stream ends before the cursor of its feed.
    StreamBehindCursor,
    /// A stream has an event that its database lacks.
    PublishedEventMissing,
    /// A stream has a message that no server of this deployment published.
    ForeignMessage,
}

/// Way in which differences of a kind are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// `check --repair` removes them.
    Command,
    /// The servers handle them without help.
    Servers,
    /// A person has to decide.
    Operator,
}

impl Repair {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Command => "check --repair",
            Self::Servers => "servers",
            Self::Operator => "operator",
        }
    }
}

/// Description of a kind.
#[derive(Debug)]
struct Texts {
    kind: Kind,
    repair: Repair,
    name: &'static str,
    meaning: &'static str,
    action: &'static str,
}

/// Every kind, in the order of the report.
const TEXTS: [Texts; 24] = [
    Texts {
        kind: Kind::IdAfterRange,
        repair: Repair::Command,
        name: "id after range",
        meaning: "a log has an id that the lease on its machine id does not cover, so the id could be issued again",
        action: "raises the ranges, so that later ids are larger",
    },
    Texts {
        kind: Kind::RangeInFuture,
        repair: Repair::Command,
        name: "range in the future",
        meaning: "the range of a machine id ends more than two days in the future, so its holder makes ids of that time",
        action: "lowers the range, if no replica holds the machine id; stop its holder first",
    },
    Texts {
        kind: Kind::UnfinishedRegistration,
        repair: Repair::Command,
        name: "unfinished registration",
        meaning: "a registration or activation was reserved, and its event was not written",
        action: "writes the event",
    },
    Texts {
        kind: Kind::RegistrationWithoutLog,
        repair: Repair::Command,
        name: "registration without log",
        meaning: "the registered subscription of a path has no log on its shard",
        action: "registers the subscription again under its id; it must be activated again",
    },
    Texts {
        kind: Kind::LiveSubscriptionNotRegistered,
        repair: Repair::Command,
        name: "live subscription not registered",
        meaning: "a live subscription is not the one that the registry names for its path",
        action: "registers it",
    },
    Texts {
        kind: Kind::SeveralLiveSubscriptions,
        repair: Repair::Command,
        name: "several live subscriptions",
        meaning: "a path has more than one live subscription",
        action: "keeps the one with the latest lifecycle event, and deactivates the others",
    },
    Texts {
        kind: Kind::UnfinishedClaim,
        repair: Repair::Command,
        name: "unfinished claim",
        meaning: "a dedup key is reserved, and its execution was not created or not confirmed",
        action: "creates the execution from the stored request, and settles the claim",
    },
    Texts {
        kind: Kind::ClaimWithoutExecution,
        repair: Repair::Command,
        name: "claim without execution",
        meaning: "a dedup key belongs to an execution that does not exist, so its message would never run",
        action: "releases the key, so that the message runs when it is sent again",
    },
    Texts {
        kind: Kind::ExecutionWithoutClaim,
        repair: Repair::Command,
        name: "execution without claim",
        meaning: "an execution was started with a dedup key that is not claimed, so its message would run again",
        action: "makes the claim again from the started event",
    },
    Texts {
        kind: Kind::ListRowWithoutLog,
        repair: Repair::Command,
        name: "list row without log",
        meaning: "the executions' list has an execution that has no events",
        action: "deletes the row and its snapshot, unless an outbox row of it is undelivered",
    },
    Texts {
        kind: Kind::ListRowAfterLog,
        repair: Repair::Command,
        name: "list row after log",
        meaning: "a row of the executions' list includes an event after the end of its log",
        action: "builds the row from the log",
    },
    Texts {
        kind: Kind::ListRowBehindLog,
        repair: Repair::Command,
        name: "list row behind log",
        meaning: "a row of the executions' list lacks an event that is older than a minute",
        action: "builds the row from the log",
    },
    Texts {
        kind: Kind::LabelsNotIndexed,
        repair: Repair::Command,
        name: "labels not indexed",
        meaning: "the index of labels has other labels than the row of the executions' list, so filters miss the execution",
        action: "indexes the labels of the row again",
    },
    Texts {
        kind: Kind::LogWithoutListRow,
        repair: Repair::Command,
        name: "log without list row",
        meaning: "an execution has events and no row in the executions' list",
        action: "builds the row from the log",
    },
    Texts {
        kind: Kind::SnapshotAfterLog,
        repair: Repair::Command,
        name: "snapshot after log",
        meaning: "a stored snapshot includes an event after the end of its log",
        action: "deletes the snapshot and builds it from the log",
    },
    Texts {
        kind: Kind::HistoryDiffers,
        repair: Repair::Command,
        name: "history differs",
        meaning: "the stored numbers of an hour, of its minutes or of a day are not those of the executions",
        action: "notes the hour: its executions are counted until the servers compute the numbers again",
    },
    Texts {
        kind: Kind::OutboxRowWithoutEvent,
        repair: Repair::Command,
        name: "outbox row without event",
        meaning: "an outbox row belongs to an event that does not exist",
        action: "deletes the row, unless a worker holds it",
    },
    Texts {
        kind: Kind::UnknownCatalogEntry,
        repair: Repair::Operator,
        name: "unknown catalog entry",
        meaning: "the catalog lacks an entry that executions run",
        action: "register the document again for later executions; the entry with this id can't be made again",
    },
    Texts {
        kind: Kind::MissingParent,
        repair: Repair::Operator,
        name: "missing parent",
        meaning: "the parent of an execution does not exist on its shard",
        action: "cancel the executions, or restore the parent's shard to a later time",
    },
    Texts {
        kind: Kind::LogOnOtherShard,
        repair: Repair::Operator,
        name: "log on other shard",
        meaning: "a log is on a shard that the bucket map does not assign to it, so requests don't find it",
        action: "check the order of NOETL_SHARDS and the restored bucket map",
    },
    Texts {
        kind: Kind::RestoredDatabase,
        repair: Repair::Servers,
        name: "restored database",
        meaning: "a shard was restored or promoted since its feed was published last",
        action: "the tailer compares the stream with the database, and begins a new epoch if readers must discard events",
    },
    Texts {
        kind: Kind::StreamBehindCursor,
        repair: Repair::Servers,
        name: "stream behind cursor",
        meaning: "a stream lacks messages that its feed has published",
        action: "the tailer publishes the events again in a new epoch",
    },
    Texts {
        kind: Kind::PublishedEventMissing,
        repair: Repair::Servers,
        name: "published event missing",
        meaning: "a stream has an event that its shard does not have",
        action: "the tailer begins a new epoch, and tells readers to discard the event",
    },
    Texts {
        kind: Kind::ForeignMessage,
        repair: Repair::Servers,
        name: "foreign message",
        meaning: "a stream has a message that this deployment did not publish",
        action: "readers and the tailer skip it; find its publisher, because only this deployment may write there",
    },
];

impl Kind {
    /// Returns every kind.
    pub fn all() -> impl Iterator<Item = Self> {
        TEXTS.iter().map(|texts| texts.kind)
    }

    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.texts().name
    }

    /// Returns the meaning.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.texts().meaning
    }

    /// Returns the repair, in words.
    #[must_use]
    pub const fn action(self) -> &'static str {
        self.texts().action
    }

    /// Returns the way of the repair.
    #[must_use]
    pub const fn repair(self) -> Repair {
        self.texts().repair
    }

    const fn texts(self) -> &'static Texts {
        &TEXTS[self as usize]
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
