//! The kinds of differences between the databases and the streams: their meaning, and their repair.

use std::fmt;

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
    name: &'static str,
    repair: Repair,
    meaning: &'static str,
    action: &'static str,
}

/// Makes the kinds and their descriptions, in the order of the report.
macro_rules! kinds {
    ($($kind:ident, $repair:ident, $name:literal: $meaning:literal => $action:literal;)+) => {
        /// Kind of a difference.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Kind {
            $(#[doc = $meaning] $kind,)+
        }

        const TEXTS: &[Texts] =
            &[$(Texts { name: $name, repair: Repair::$repair, meaning: $meaning, action: $action }),+];
    };
}

kinds! {
    IdAfterRange, Command, "id after range":
        "a log has an id that the lease on its machine id does not cover, so the id could be issued again"
        => "raises the ranges, so that later ids are larger";
    RangeInFuture, Command, "range in the future":
        "the range of a machine id ends more than two days in the future, so its holder makes ids of that time"
        => "lowers the range, if no replica holds the machine id; stop its holder first";
    UnfinishedRegistration, Command, "unfinished registration":
        "a registration or activation was reserved, and its event was not written"
        => "writes the event";
    RegistrationWithoutLog, Command, "registration without log":
        "the registered subscription of a path has no log on its shard"
        => "registers the subscription again under its id; it must be activated again";
    LiveSubscriptionNotRegistered, Command, "live subscription not registered":
        "a live subscription is not the one that the registry names for its path"
        => "registers it";
    SeveralLiveSubscriptions, Command, "several live subscriptions":
        "a path has more than one live subscription"
        => "keeps the one with the latest lifecycle event, and deactivates the others";
    UnfinishedClaim, Command, "unfinished claim":
        "a dedup key is reserved, and its execution was not created or not confirmed"
        => "creates the execution from the stored request, and settles the claim";
    ClaimWithoutExecution, Command, "claim without execution":
        "a dedup key belongs to an execution that does not exist, so its message would never run"
        => "releases the key, so that the message runs when it is sent again";
    ExecutionWithoutClaim, Command, "execution without claim":
        "an execution was started with a dedup key that is not claimed, so its message would run again"
        => "makes the claim again from the started event";
    ListRowWithoutLog, Command, "list row without log":
        "the executions' list has an execution that has no events"
        => "deletes the row and its snapshot, unless an outbox row of it is undelivered";
    ListRowAfterLog, Command, "list row after log":
        "a row of the executions' list includes an event after the end of its log"
        => "builds the row from the log";
    ListRowBehindLog, Command, "list row behind log":
        "a row of the executions' list lacks an event that is older than a minute"
        => "builds the row from the log";
    LabelsNotIndexed, Command, "labels not indexed":
        "the index of labels has other labels than the row of the executions' list, so filters miss the execution"
        => "indexes the labels of the row again";
    LogWithoutListRow, Command, "log without list row":
        "an execution has events and no row in the executions' list"
        => "builds the row from the log";
    SnapshotAfterLog, Command, "snapshot after log":
        "a stored snapshot includes an event after the end of its log"
        => "deletes the snapshot and builds it from the log";
    HistoryDiffers, Command, "history differs":
        "the stored numbers of an hour, of its minutes or of a day are not those of the executions"
        => "notes the hour: its executions are counted until the servers compute the numbers again";
    OutboxRowWithoutEvent, Command, "outbox row without event":
        "an outbox row belongs to an event that does not exist"
        => "deletes the row, unless a worker holds it";
    UnknownCatalogEntry, Operator, "unknown catalog entry":
        "the catalog lacks an entry that executions run"
        => "register the document again for later executions; the entry with this id can't be made again";
    MissingParent, Operator, "missing parent":
        "the parent of an execution does not exist on its shard"
        => "cancel the executions, or restore the parent's shard to a later time";
    LogOnOtherShard, Operator, "log on other shard":
        "a log is on a shard that the bucket map does not assign to it, so requests don't find it"
        => "check the order of NOETL_SHARDS and the restored bucket map";
    RestoredDatabase, Servers, "restored database":
        "a shard was restored or promoted since its feed was published last"
        => "the tailer compares the stream with the database, and begins a new epoch if readers must discard events";
    StreamBehindCursor, Servers, "stream behind cursor":
        "a stream lacks messages that its feed has published"
        => "the tailer publishes the events again in a new epoch";
    PublishedEventMissing, Servers, "published event missing":
        "a stream has an event that its shard does not have"
        => "the tailer begins a new epoch, and tells readers to discard the event";
    ForeignMessage, Servers, "foreign message":
        "a stream has a message that this deployment did not publish"
        => "readers and the tailer skip it; find its publisher, because only this deployment may write there";
}

impl Kind {
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
