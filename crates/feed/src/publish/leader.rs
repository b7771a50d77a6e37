//! The leader of a feed, as it introduces itself to others: of two copies of one database, at most one leads.

use noetl_domain::feed::FeedOwner;
use noetl_storage::tail::TailCursor;

/// Leader of a feed, as it introduces itself on the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Leader {
    /// Database for which it publishes.
    pub(super) owner: FeedOwner,
    /// OID of the database. It distinguishes the databases of one server.
    pub(super) database: u32,
    /// Start time of the PostgreSQL server in microseconds since 1970. It distinguishes copies of a server's files, which
    /// have the same system identifier and timeline.
    pub(super) started: i64,
}

impl Leader {
    /// Returns the leader with this cursor.
    pub(super) fn of(cursor: &TailCursor) -> Self {
        Self { owner: cursor.owner, database: cursor.database_oid, started: cursor.server_started }
    }

    /// Returns true if `other` publishes the same feed for another copy of the database.
    pub(super) fn is_rival(&self, other: &Self) -> bool {
        self.owner.feed == other.owner.feed && self != other
    }

    /// Returns true if the server was promoted from a standby of the other one, or of the same primary.
    pub(super) fn replaces(&self, other: &Self) -> bool {
        self.database == other.database && self.owner.replaces(&other.owner)
    }

    /// Returns true if this leader continues although `other` leads too.
    pub(super) fn precedes(&self, other: &Self) -> bool {
        if self.replaces(other) || other.replaces(self) {
            return self.replaces(other);
        }
        // Both started at the same moment. Any order will do, if both compare in the same way.
        let order =
            |leader: &Self| (leader.owner.system_identifier, leader.owner.timeline, leader.database, leader.started);
        order(self) < order(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use noetl_domain::feed::FeedId;

    fn leader(system_identifier: i64, timeline: i32, started: i64) -> Leader {
        Leader { owner: FeedOwner { feed: FeedId::new(1), system_identifier, timeline }, database: 5, started }
    }

    #[test]
    fn of_two_leaders_exactly_one_continues_and_a_promoted_server_goes_first() {
        let copy = Leader { database: 6, ..leader(7, 1, 50) };
        let all = [leader(7, 1, 50), leader(7, 2, 10), leader(7, 2, 60), leader(6, 1, 70), copy];
        for one in &all {
            assert!(!one.is_rival(one));
            for other in all.iter().filter(|other| *other != one) {
                assert_eq!(one.precedes(other), !other.precedes(one), "{one:?} {other:?}");
            }
        }
        assert!(all[2].precedes(&all[0]) && all[1].precedes(&all[0]));
    }
}
