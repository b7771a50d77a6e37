//! Places of connections, capped in total and per network. The connections that wait for a request are kept in the
//! order in which they began to wait.
//!
//! Lock order: a connection's phase, then the ledger.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use metrics::{counter, gauge};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::callers::LARGE;
use super::super::limits::Limits;
use super::network::Network;

/// Position in the order in which connections began to wait.
type Turn = u64;

/// Places of one listener.
#[derive(Debug)]
pub(super) struct Places {
    total: usize,
    per_network: usize,
    /// Maximum number of bytes of incomplete WebSocket messages.
    unfinished_bytes: usize,
    /// Number of bytes of incomplete WebSocket messages.
    unfinished: AtomicUsize,
    ledger: Mutex<Ledger>,
}

#[derive(Debug, Default)]
struct Ledger {
    open: usize,
    networks: HashMap<Network, usize>,
    next: Turn,
    waiting: BTreeMap<Turn, (Network, CancellationToken)>,
    waiting_by_network: BTreeSet<(Network, Turn)>,
}

impl Places {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            total: limits.connections,
            per_network: limits.per_caller(limits.connections),
            unfinished_bytes: limits.buffered_bytes,
            unfinished: AtomicUsize::new(0),
            ledger: Mutex::default(),
        }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the connection that has waited longest for a request, if any waits.
    pub(super) fn evict_one(&self) {
        self.ledger().evict(None);
    }
}

impl Ledger {
    /// Ends the connection that has waited longest, of one network or of all. Returns false if none waits.
    fn evict(&mut self, network: Option<Network>) -> bool {
        let turn = match network {
            None => self.waiting.keys().next().copied(),
            Some(network) => {
                let mut turns = self.waiting_by_network.range((network, Turn::MIN)..=(network, Turn::MAX));
                turns.next().map(|(_, turn)| *turn)
            }
        };
        let Some((network, evicted)) = turn.and_then(|turn| self.waiting.remove(&turn)) else { return false };
        self.waiting_by_network.remove(&(network, turn.unwrap_or_default()));
        evicted.cancel();
        counter!("http_connections_evicted_total").increment(1);
        true
    }

    fn wait(&mut self, network: Network, evicted: &CancellationToken) -> Turn {
        let turn = self.next;
        self.next += 1;
        self.waiting.insert(turn, (network, evicted.clone()));
        self.waiting_by_network.insert((network, turn));
        turn
    }

    fn wait_no_longer(&mut self, network: Network, turn: Turn) {
        self.waiting.remove(&turn);
        self.waiting_by_network.remove(&(network, turn));
    }
}

/// Place of one connection. Dropping its last clone frees the place.
#[derive(Debug, Clone)]
pub(super) struct Place(Arc<Held>);

#[derive(Debug)]
struct Held {
    places: Arc<Places>,
    address: SocketAddr,
    network: Network,
    evicted: CancellationToken,
    phase: Mutex<Phase>,
    /// Whether the connection is a WebSocket.
    upgraded: AtomicBool,
    /// Number of bytes that have arrived on the WebSocket since its last complete message.
    unfinished: AtomicUsize,
}

/// Activity of a connection.
#[derive(Debug)]
struct Phase {
    /// Number of requests in flight, stalled writes and upgrades.
    busy: usize,
    /// Position among the waiting connections; `None` while busy.
    turn: Option<Turn>,
    /// Time at which the connection was opened, its request head began, or its last request ended.
    since: Instant,
    /// Whether a request head is awaited: the first one, or one that has begun to arrive.
    head: bool,
    http2: bool,
}

impl Place {
    /// Takes a place, evicting a waiting connection if necessary. Returns `None` at a cap if all connections of the
    /// network, or all in total, are busy.
    pub(super) fn claim(places: &Arc<Places>, address: SocketAddr) -> Option<Self> {
        let (network, evicted) = (Network::from(address.ip()), CancellationToken::new());
        let mut ledger = places.ledger();
        let of_network = ledger.networks.get(&network).copied().unwrap_or_default();
        if of_network >= places.per_network && !ledger.evict(Some(network)) {
            return None;
        }
        if of_network < places.per_network && ledger.open >= places.total && !ledger.evict(None) {
            return None;
        }
        ledger.open += 1;
        *ledger.networks.entry(network).or_default() += 1;
        let turn = Some(ledger.wait(network, &evicted));
        drop(ledger);
        gauge!("http_connections").increment(1);
        let phase = Mutex::new(Phase { busy: 0, turn, since: Instant::now(), head: true, http2: false });
        Some(Self(Arc::new(Held {
            places: Arc::clone(places),
            address,
            network,
            evicted,
            phase,
            upgraded: AtomicBool::new(false),
            unfinished: AtomicUsize::new(0),
        })))
    }

    pub(super) fn peer(&self) -> Peer {
        Peer { place: self.clone() }
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }

    /// Records that bytes have arrived. Fails if they belong to a large incomplete WebSocket message and the bytes of
    /// all incomplete messages exceed the cap.
    pub(super) fn heard(&self, bytes: usize) -> io::Result<()> {
        if self.0.upgraded.load(Ordering::Relaxed) {
            return self.0.receive(bytes);
        }
        let mut phase = self.0.phase();
        // Frames of HTTP/2 need not belong to a request.
        if phase.busy == 0 && !phase.head && !phase.http2 {
            (phase.head, phase.since) = (true, Instant::now());
        }
        Ok(())
    }

    pub(super) fn note_http2(&self) {
        self.0.phase().http2 = true;
    }

    pub(super) fn is_http2(&self) -> bool {
        self.0.phase().http2
    }

    /// Protects the connection from eviction and timeouts until the guard is dropped.
    pub(super) fn hold(&self) -> Busy {
        let mut phase = self.0.phase();
        phase.busy += 1;
        if let Some(turn) = phase.turn.take() {
            self.0.places.ledger().wait_no_longer(self.0.network, turn);
        }
        Busy(self.clone())
    }

    /// Returns the time at which the connection times out; `None` while it is busy.
    pub(super) fn due(&self, limits: &Limits) -> Option<Instant> {
        let phase = self.0.phase();
        let patience = if phase.head { limits.header_timeout } else { limits.keep_alive };
        (phase.busy == 0).then(|| phase.since + patience)
    }
}

impl Held {
    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn receive(&self, bytes: usize) -> io::Result<()> {
        let own = self.unfinished.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.places.unfinished.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if own > LARGE && total > self.places.unfinished_bytes {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    fn message_read(&self) {
        self.places.unfinished.fetch_sub(self.unfinished.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.message_read();
        let turn = self.phase().turn;
        let mut ledger = self.places.ledger();
        if let Some(turn) = turn {
            ledger.wait_no_longer(self.network, turn);
        }
        ledger.open -= 1;
        if let Some(count) = ledger.networks.get_mut(&self.network) {
            *count -= 1;
            if *count == 0 {
                ledger.networks.remove(&self.network);
            }
        }
        drop(ledger);
        gauge!("http_connections").decrement(1);
    }
}

/// Guard that protects a connection from eviction and timeouts.
#[derive(Debug)]
pub(crate) struct Busy(Place);

impl Drop for Busy {
    fn drop(&mut self) {
        let held = &self.0.0;
        let mut phase = held.phase();
        phase.busy -= 1;
        if phase.busy == 0 {
            (phase.head, phase.since) = (false, Instant::now());
            phase.turn = Some(held.places.ledger().wait(held.network, &held.evicted));
        }
    }
}

/// Client at the other end of a request's connection: an extension of every request.
#[derive(Debug, Clone)]
pub struct Peer {
    place: Place,
}

impl Peer {
    /// Returns the address and port of the client, or of the proxy through which it connects.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.place.0.address
    }

    pub(crate) fn network(&self) -> Network {
        self.place.0.network
    }

    /// Records that the connection has become a WebSocket.
    pub(crate) fn upgraded(&self) {
        self.place.0.upgraded.store(true, Ordering::Relaxed);
    }

    /// Records that a WebSocket message has arrived completely.
    pub(crate) fn message_read(&self) {
        self.place.0.message_read();
    }

    /// Waits until the connection is evicted. A connection is never evicted while it is held.
    pub(crate) async fn evicted(&self) {
        self.place.evicted().await;
    }

    /// Protects the connection from eviction and timeouts after its response, as an upgraded connection needs.
    pub(crate) fn hold(&self) -> Busy {
        self.place.hold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> SocketAddr {
        ([10, 0, 0, host], 1).into()
    }

    fn places(connections: usize, caller_share: u8) -> Arc<Places> {
        Arc::new(Places::new(&Limits { connections, caller_share, ..Limits::default() }))
    }

    fn is_evicted(place: &Place) -> bool {
        place.0.evicted.is_cancelled()
    }

    #[tokio::test]
    async fn longest_waiting_connection_is_evicted_and_busy_ones_stay() {
        let places = places(10, 20);
        let first = Place::claim(&places, address(1)).unwrap();
        let second = Place::claim(&places, address(1)).unwrap();
        let busy = first.hold();
        let third = Place::claim(&places, address(1)).unwrap();
        assert!(!is_evicted(&first) && is_evicted(&second) && !is_evicted(&third));
        drop(second);
        let busy_too = third.hold();
        assert!(Place::claim(&places, address(1)).is_none(), "all are busy");
        assert!(Place::claim(&places, address(2)).is_some(), "another network has its own share");
        drop((busy, busy_too));
        assert!(Place::claim(&places, address(1)).is_some());
        assert!(is_evicted(&first), "it has waited longest");
    }

    #[tokio::test]
    async fn at_the_total_cap_a_connection_of_another_network_is_evicted() {
        let places = places(2, 100);
        let (first, second) = (Place::claim(&places, address(1)).unwrap(), Place::claim(&places, address(2)).unwrap());
        let third = Place::claim(&places, address(3)).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&third));
        drop((first, second, third));
        let ledger = places.ledger();
        assert_eq!((ledger.open, ledger.networks.len(), ledger.waiting.len()), (0, 0, 0));
        assert!(ledger.waiting_by_network.is_empty());
    }

    #[tokio::test]
    async fn timeout_depends_on_whether_a_request_head_is_awaited() {
        let limits = Limits::default();
        let places = places(1, 100);
        let place = Place::claim(&places, address(1)).unwrap();
        let since = || place.0.phase().since;
        assert_eq!(place.due(&limits), Some(since() + limits.header_timeout), "the first head");
        let busy = place.hold();
        assert_eq!(place.due(&limits), None);
        place.heard(1).unwrap();
        drop(busy);
        assert_eq!(place.due(&limits), Some(since() + limits.keep_alive));
        place.heard(1).unwrap();
        assert_eq!(place.due(&limits), Some(since() + limits.header_timeout), "the next head has begun");
    }
}
