//! Index of the events that the readers of one shard follow.
//!
//! Readers with equal filters and scopes form a group. An event is compared with the groups that the index finds for
//! its execution, parent, node, type and tenant, and with the groups that have no such condition; not with each reader.
//! A group lists the numbers of its latest matches in the ring, and wakes only its own readers.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use noetl_domain::event::{Event, EventFilter};
use noetl_domain::ids::Id;
use noetl_domain::tenant::Scope;

/// Maximum number of matches that a group lists. A reader that is further behind searches the ring itself.
const MAX_LISTED: usize = 256;

/// Events that a reader follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Interest {
    /// Conditions that an event must meet.
    pub filter: EventFilter,
    /// Data that the reader may receive.
    pub scope: Scope,
}

/// Value of an event by which the index finds groups.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// Value of every event.
    Any,
    Execution(Id),
    Parent(Id),
    Node(String),
    Type(String),
    TypePrefix(String),
    Tenant(String),
}

impl Interest {
    /// Returns whether the reader follows the event.
    #[must_use]
    pub fn includes<J>(&self, event: &Event<J>) -> bool {
        self.filter.matches(event, &self.scope)
    }

    /// Returns the keys of the most selective condition. An event that has none of the keys does not match.
    fn keys(&self) -> Vec<Key> {
        let EventFilter { execution_ids, parent_execution_id, types, node_names, tenant_id, .. } = &self.filter;
        if let Some(ids) = execution_ids {
            return ids.iter().copied().map(Key::Execution).collect();
        }
        if let Some(parent) = parent_execution_id {
            return vec![Key::Parent(*parent)];
        }
        if let Some(nodes) = node_names {
            return nodes.iter().cloned().map(Key::Node).collect();
        }
        if let Some(types) = types {
            return types.iter().map(|wanted| type_key(wanted)).collect();
        }
        let tenant = tenant_id.as_deref().or(self.scope.tenant());
        vec![tenant.map_or(Key::Any, |tenant| Key::Tenant(tenant.to_owned()))]
    }
}

fn type_key(wanted: &str) -> Key {
    wanted.strip_suffix('*').map_or_else(|| Key::Type(wanted.to_owned()), |stem| Key::TypePrefix(stem.to_owned()))
}

/// Readers with equal interests.
#[derive(Debug)]
pub(super) struct Group {
    interest: Interest,
    matches: Mutex<Matches>,
    /// Changes with each match; the readers of the group wait for it.
    matched: watch::Sender<()>,
}

#[derive(Debug)]
struct Matches {
    readers: usize,
    /// Numbers of the latest matches in the ring, in ascending order.
    listed: VecDeque<u64>,
    /// Number from which on all matches are listed.
    from: u64,
}

/// Next match of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextMatch {
    /// No event from the given number on matches.
    None,
    /// The first match has this number.
    At(u64),
    /// The group no longer lists matches that are so old.
    Unknown,
}

impl Group {
    fn new(interest: Interest, from: u64) -> Self {
        let matches = Mutex::new(Matches { readers: 0, listed: VecDeque::new(), from });
        Self { interest, matches, matched: watch::Sender::new(()) }
    }

    /// Returns a receiver that changes with each match.
    pub(super) fn watch(&self) -> watch::Receiver<()> {
        self.matched.subscribe()
    }

    /// Returns the first match from a number on.
    pub(super) fn next_match(&self, from: u64) -> NextMatch {
        let matches = self.matches();
        if from < matches.from {
            return NextMatch::Unknown;
        }
        let index = matches.listed.partition_point(|number| *number < from);
        matches.listed.get(index).map_or(NextMatch::None, |number| NextMatch::At(*number))
    }

    /// Lists an event, unless it is listed. `first` is the number of the first event in the ring.
    fn list(&self, number: u64, first: u64) {
        let mut matches = self.matches();
        if matches.listed.back() == Some(&number) {
            return;
        }
        matches.listed.push_back(number);
        while matches.listed.len() > MAX_LISTED || matches.listed.front().is_some_and(|oldest| *oldest < first) {
            if let Some(dropped) = matches.listed.pop_front() {
                matches.from = dropped + 1;
            }
        }
        self.matched.send_replace(());
    }

    fn matches(&self) -> MutexGuard<'_, Matches> {
        self.matches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Groups of one shard's readers, by the keys of their interests.
#[derive(Debug, Default)]
pub(super) struct Interests {
    groups: HashMap<Interest, Arc<Group>>,
    by_key: HashMap<Key, Vec<Arc<Group>>>,
    /// Number of groups for each length of a type's prefix in bytes.
    prefix_lengths: BTreeMap<usize, usize>,
}

impl Interests {
    /// Adds a reader whose first event has the number `from`, and returns its group.
    pub(super) fn join(&mut self, interest: Interest, from: u64) -> Arc<Group> {
        let group = match self.groups.get(&interest) {
            Some(group) => Arc::clone(group),
            None => self.add(interest, from),
        };
        group.matches().readers += 1;
        group
    }

    /// Removes a reader of a group, and the group with its last reader.
    pub(super) fn leave(&mut self, group: &Arc<Group>) {
        let left = {
            let mut matches = group.matches();
            matches.readers = matches.readers.saturating_sub(1);
            matches.readers
        };
        if left == 0 {
            self.remove(group);
        }
    }

    /// Lists an event in each group that follows it. If `follows` is false, the event does not directly follow the one
    /// before it; then each group gets it, so that its readers notice the gap.
    pub(super) fn list<J>(&self, number: u64, first: u64, follows: bool, event: Option<&Event<J>>) {
        if !follows {
            return self.groups.values().for_each(|group| group.list(number, first));
        }
        let Some(event) = event else { return };
        let found = self.keys_of(event).filter_map(|key| self.by_key.get(&key)).flatten();
        for group in found.filter(|group| group.interest.includes(event)) {
            group.list(number, first);
        }
    }

    /// Returns the keys by which groups can be registered for an event.
    fn keys_of<J>(&self, event: &Event<J>) -> impl Iterator<Item = Key> {
        let event_type = &event.event_type;
        let prefixes = self.prefix_lengths.keys().filter_map(|length| event_type.get(..*length));
        let prefixes = prefixes.map(|prefix| Key::TypePrefix(prefix.to_owned()));
        let parent = event.parent_execution_id.map(Key::Parent);
        let node = event.node_name.clone().map(Key::Node);
        let tenant = Key::Tenant(event.tenant_id.clone());
        let own = [Key::Any, Key::Execution(event.execution_id), Key::Type(event_type.clone()), tenant];
        own.into_iter().chain(parent).chain(node).chain(prefixes)
    }

    fn add(&mut self, interest: Interest, from: u64) -> Arc<Group> {
        let group = Arc::new(Group::new(interest.clone(), from));
        for key in interest.keys() {
            if let Key::TypePrefix(prefix) = &key {
                *self.prefix_lengths.entry(prefix.len()).or_default() += 1;
            }
            self.by_key.entry(key).or_default().push(Arc::clone(&group));
        }
        self.groups.insert(interest, Arc::clone(&group));
        group
    }

    fn remove(&mut self, group: &Arc<Group>) {
        self.groups.remove(&group.interest);
        for key in group.interest.keys() {
            if let Key::TypePrefix(prefix) = &key
                && let Some(count) = self.prefix_lengths.get_mut(&prefix.len())
            {
                *count -= 1;
                if *count == 0 {
                    self.prefix_lengths.remove(&prefix.len());
                }
            }
            if let Some(groups) = self.by_key.get_mut(&key) {
                groups.retain(|other| !Arc::ptr_eq(other, group));
                if groups.is_empty() {
                    self.by_key.remove(&key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use serde_json::Value;

    use super::*;

    fn interest(filter: EventFilter) -> Interest {
        Interest { filter, scope: Scope::Unrestricted }
    }

    fn event() -> Event<Value> {
        Event {
            parent_execution_id: Some(Id::new(7)),
            node_name: Some("fetch".into()),
            ..Event::bare(Id::new(1), Id::new(2), Id::new(0), "call.done", DateTime::UNIX_EPOCH)
        }
    }

    /// Filters by each key. The first of each pair matches [`event`].
    fn pairs() -> Vec<[EventFilter; 2]> {
        let none = EventFilter::default;
        let texts = |texts: &[&str]| Some(texts.iter().map(|&text| text.to_owned()).collect());
        let ids = |ids: &[i64]| Some(ids.iter().copied().map(Id::new).collect());
        vec![
            [none(), EventFilter { statuses: texts(&["DONE"]), ..none() }],
            [3, 4].map(|id| EventFilter { execution_ids: ids(&[id - 2, 9]), ..none() }),
            [7, 8].map(|id| EventFilter { parent_execution_id: Some(Id::new(id)), ..none() }),
            ["fetch", "store"].map(|name| EventFilter { node_names: texts(&["x", name]), ..none() }),
            ["call.done", "call"].map(|name| EventFilter { types: texts(&["x", name]), ..none() }),
            ["call.*", "call.done.*"].map(|name| EventFilter {
                types: texts(&["call*", name]).filter(|_| name == "call.*").or(texts(&[name])),
                ..none()
            }),
            ["default", "acme"].map(|name| EventFilter { tenant_id: Some(name.into()), ..none() }),
            [1, 2].map(|id| EventFilter { execution_ids: ids(&[id]), types: texts(&["call.done"]), ..none() }),
            [ids(&[1]), Some(Vec::new())].map(|execution_ids| EventFilter { execution_ids, ..none() }),
        ]
    }

    #[test]
    fn an_event_is_listed_once_in_exactly_the_groups_whose_filter_it_matches() {
        let mut interests = Interests::default();
        let join = |filter: EventFilter, interests: &mut Interests| interests.join(interest(filter), 5);
        let groups: Vec<_> = pairs().into_iter().map(|pair| pair.map(|filter| join(filter, &mut interests))).collect();
        interests.list(5, 5, true, Some(&event()));
        for [matching, other] in &groups {
            assert_eq!((matching.next_match(5), other.next_match(5)), (NextMatch::At(5), NextMatch::None), "{other:?}");
            assert_eq!(matching.next_match(6), NextMatch::None);
        }
        // A gap concerns all readers.
        interests.list(6, 5, false, Some(&event()));
        assert!(groups.iter().flatten().all(|group| group.next_match(6) == NextMatch::At(6)));
        groups.iter().flatten().for_each(|group| interests.leave(group));
        assert!(interests.groups.is_empty() && interests.by_key.is_empty() && interests.prefix_lengths.is_empty());
    }

    #[test]
    fn readers_with_equal_interests_share_a_group_until_the_last_one_leaves() {
        let mut interests = Interests::default();
        let one = interests.join(interest(EventFilter::default()), 0);
        let other = interests.join(interest(EventFilter::default()), 3);
        assert!(Arc::ptr_eq(&one, &other));
        interests.leave(&one);
        interests.list(3, 0, true, Some(&event()));
        assert_eq!(other.next_match(3), NextMatch::At(3));
        interests.leave(&other);
        assert!(interests.by_key.is_empty());
    }

    #[test]
    fn matches_beyond_the_limit_or_out_of_the_ring_are_unknown() {
        let mut interests = Interests::default();
        let group = interests.join(interest(EventFilter::default()), 0);
        let last = MAX_LISTED as u64;
        (0..=last).for_each(|number| interests.list(number, 0, true, Some(&event())));
        assert_eq!((group.next_match(0), group.next_match(1)), (NextMatch::Unknown, NextMatch::At(1)));
        interests.list(last + 1, last, true, Some(&event()));
        assert_eq!((group.next_match(last - 1), group.next_match(last)), (NextMatch::Unknown, NextMatch::At(last)));
    }
}
