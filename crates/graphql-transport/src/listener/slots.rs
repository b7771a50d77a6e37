//! Slots of connections, capped in total and per network. The connections that wait for a request are kept in the
//! order in which they began to wait.
//!
//! Lock order: a connection's phase, then the ledger.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use metrics::{counter, gauge};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::super::limits::{LARGE_MESSAGE_BYTES, Limits};
use super::network::Network;

/// Position in the order in which connections began to wait.
type WaitOrder = u64;

/// Slots of one listener.
#[derive(Debug)]
pub(super) struct ConnectionSlots {
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
    next: WaitOrder,
    waiting: BTreeMap<WaitOrder, (Network, CancellationToken)>,
    waiting_by_network: BTreeSet<(Network, WaitOrder)>,
}

impl ConnectionSlots {
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
        let order = match network {
            None => self.waiting.keys().next().copied(),
            Some(network) => {
                let mut orders = self.waiting_by_network.range((network, WaitOrder::MIN)..=(network, WaitOrder::MAX));
                orders.next().map(|(_, order)| *order)
            }
        };
        let Some((network, evicted)) = order.and_then(|order| self.waiting.remove(&order)) else { return false };
        self.waiting_by_network.remove(&(network, order.unwrap_or_default()));
        evicted.cancel();
        counter!("http_connections_evicted_total").increment(1);
        true
    }

    fn wait(&mut self, network: Network, evicted: &CancellationToken) -> WaitOrder {
        let order = self.next;
        self.next += 1;
        self.waiting.insert(order, (network, evicted.clone()));
        self.waiting_by_network.insert((network, order));
        order
    }

    fn stop_waiting(&mut self, network: Network, order: WaitOrder) {
        self.waiting.remove(&order);
        self.waiting_by_network.remove(&(network, order));
    }
}

/// Slot of one connection. Dropping its last clone frees the slot.
#[derive(Debug, Clone)]
pub(super) struct ConnectionSlot(Arc<SlotState>);

#[derive(Debug)]
struct SlotState {
    slots: Arc<ConnectionSlots>,
    address: SocketAddr,
    network: Network,
    evicted: CancellationToken,
    phase: Mutex<Phase>,
    /// Whether the connection is a WebSocket.
    upgraded: AtomicBool,
    /// Number of bytes that have arrived on the WebSocket since its last complete message.
    unfinished: AtomicUsize,
    /// Times since which responses wait until the client takes more, by their numbers.
    unread: Mutex<BTreeMap<u64, Instant>>,
    responses: AtomicU64,
}

/// Activity of a connection.
#[derive(Debug)]
struct Phase {
    /// Number of requests in flight, stalled writes and upgrades.
    busy: usize,
    /// Position among the waiting connections; `None` while busy.
    order: Option<WaitOrder>,
    /// Time at which the connection was opened, its request head began, or its last request ended.
    since: Instant,
    /// Whether a request head is awaited: the first one, or one that has begun to arrive.
    head: bool,
    http2: bool,
}

impl ConnectionSlot {
    /// Takes a slot, evicting a waiting connection if necessary. Returns `None` at a cap if all connections of the
    /// network, or all in total, are busy.
    pub(super) fn claim(slots: &Arc<ConnectionSlots>, address: SocketAddr) -> Option<Self> {
        let (network, evicted) = (Network::from(address.ip()), CancellationToken::new());
        let mut ledger = slots.ledger();
        let of_network = ledger.networks.get(&network).copied().unwrap_or_default();
        if of_network >= slots.per_network && !ledger.evict(Some(network)) {
            return None;
        }
        if of_network < slots.per_network && ledger.open >= slots.total && !ledger.evict(None) {
            return None;
        }
        ledger.open += 1;
        *ledger.networks.entry(network).or_default() += 1;
        let order = Some(ledger.wait(network, &evicted));
        drop(ledger);
        gauge!("http_connections").increment(1);
        let phase = Mutex::new(Phase { busy: 0, order, since: Instant::now(), head: true, http2: false });
        Some(Self(Arc::new(SlotState {
            slots: Arc::clone(slots),
            address,
            network,
            evicted,
            phase,
            upgraded: AtomicBool::new(false),
            unfinished: AtomicUsize::new(0),
            unread: Mutex::default(),
            responses: AtomicU64::new(0),
        })))
    }

    pub(super) fn peer(&self) -> Peer {
        Peer { slot: self.clone() }
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.0.evicted.cancelled().await;
    }

    /// Records that bytes have arrived. Fails if they belong to a large incomplete WebSocket message and the bytes of
    /// all incomplete messages exceed the cap.
    pub(super) fn record_received(&self, bytes: usize) -> io::Result<()> {
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
        if let Some(order) = phase.order.take() {
            self.0.slots.ledger().stop_waiting(self.0.network, order);
        }
        Busy(self.clone())
    }

    /// Begins to watch a response of which the client has to take data.
    pub(super) fn watch_response(&self) -> Unread {
        let unread = Unread { slot: self.clone(), number: self.0.responses.fetch_add(1, Ordering::Relaxed) };
        unread.wait_for_client();
        unread
    }

    /// Returns whether the client has taken nothing of a response for this time.
    pub(super) fn leaves_unread(&self, limit: Duration) -> bool {
        self.0.unread().values().any(|since| since.elapsed() > limit)
    }

    /// Returns the time at which the connection times out; `None` while it is busy.
    pub(super) fn due(&self, limits: &Limits) -> Option<Instant> {
        let phase = self.0.phase();
        let limit = if phase.head { limits.header_timeout } else { limits.keep_alive };
        (phase.busy == 0).then(|| phase.since + limit)
    }
}

/// A response of which a client may leave data unread.
#[derive(Debug)]
pub(super) struct Unread {
    slot: ConnectionSlot,
    number: u64,
}

impl Unread {
    /// Records that the response waits until the client takes more.
    pub(super) fn wait_for_client(&self) {
        self.slot.0.unread().insert(self.number, Instant::now());
    }

    /// Records that the response has no data for the client now.
    pub(super) fn wait_for_data(&self) {
        self.slot.0.unread().remove(&self.number);
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.wait_for_data();
    }
}

impl SlotState {
    fn unread(&self) -> MutexGuard<'_, BTreeMap<u64, Instant>> {
        self.unread.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn phase(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn receive(&self, bytes: usize) -> io::Result<()> {
        let own = self.unfinished.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let total = self.slots.unfinished.fetch_add(bytes, Ordering::Relaxed) + bytes;
        if own > LARGE_MESSAGE_BYTES && total > self.slots.unfinished_bytes {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(())
    }

    fn message_read(&self) {
        self.slots.unfinished.fetch_sub(self.unfinished.swap(0, Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Drop for SlotState {
    fn drop(&mut self) {
        self.message_read();
        let order = self.phase().order;
        let mut ledger = self.slots.ledger();
        if let Some(order) = order {
            ledger.stop_waiting(self.network, order);
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
pub(crate) struct Busy(ConnectionSlot);

impl Drop for Busy {
    fn drop(&mut self) {
        let state = &self.0.0;
        let mut phase = state.phase();
        phase.busy -= 1;
        if phase.busy == 0 {
            (phase.head, phase.since) = (false, Instant::now());
            phase.order = Some(state.slots.ledger().wait(state.network, &state.evicted));
        }
    }
}

/// Client at the other end of a request's connection: an extension of every request.
#[derive(Debug, Clone)]
pub struct Peer {
    slot: ConnectionSlot,
}

impl Peer {
    /// Returns the address and port of the client, or of the proxy through which it connects.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.slot.0.address
    }

    pub(crate) fn network(&self) -> Network {
        self.slot.0.network
    }

    /// Records that the connection has become a WebSocket.
    pub(crate) fn upgraded(&self) {
        self.slot.0.upgraded.store(true, Ordering::Relaxed);
    }

    /// Records that a WebSocket message has arrived completely.
    pub(crate) fn message_read(&self) {
        self.slot.0.message_read();
    }

    /// Waits until the connection is evicted. A connection is never evicted while it is state.
    pub(crate) async fn evicted(&self) {
        self.slot.evicted().await;
    }

    /// Protects the connection from eviction and timeouts after its response, as an upgraded connection needs.
    pub(crate) fn hold(&self) -> Busy {
        self.slot.hold()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(host: u8) -> SocketAddr {
        ([10, 0, 0, host], 1).into()
    }

    fn slots(connections: usize, caller_share: u8) -> Arc<ConnectionSlots> {
        Arc::new(ConnectionSlots::new(&Limits { connections, caller_share, ..Limits::default() }))
    }

    fn is_evicted(slot: &ConnectionSlot) -> bool {
        slot.0.evicted.is_cancelled()
    }

    #[tokio::test]
    async fn longest_waiting_connection_is_evicted_and_busy_ones_stay() {
        let slots = slots(10, 20);
        let first = ConnectionSlot::claim(&slots, address(1)).unwrap();
        let second = ConnectionSlot::claim(&slots, address(1)).unwrap();
        let busy = first.hold();
        let third = ConnectionSlot::claim(&slots, address(1)).unwrap();
        assert!(!is_evicted(&first) && is_evicted(&second) && !is_evicted(&third));
        drop(second);
        let busy_too = third.hold();
        assert!(ConnectionSlot::claim(&slots, address(1)).is_none(), "all are busy");
        assert!(ConnectionSlot::claim(&slots, address(2)).is_some(), "another network has its own share");
        drop((busy, busy_too));
        assert!(ConnectionSlot::claim(&slots, address(1)).is_some());
        assert!(is_evicted(&first), "it has waited longest");
    }

    #[tokio::test]
    async fn at_the_total_cap_a_connection_of_another_network_is_evicted() {
        let slots = slots(2, 100);
        let (first, second) =
            (ConnectionSlot::claim(&slots, address(1)).unwrap(), ConnectionSlot::claim(&slots, address(2)).unwrap());
        let third = ConnectionSlot::claim(&slots, address(3)).unwrap();
        assert!(is_evicted(&first) && !is_evicted(&second) && !is_evicted(&third));
        drop((first, second, third));
        let ledger = slots.ledger();
        assert_eq!((ledger.open, ledger.networks.len(), ledger.waiting.len()), (0, 0, 0));
        assert!(ledger.waiting_by_network.is_empty());
    }

    #[tokio::test]
    async fn timeout_depends_on_whether_a_request_head_is_awaited() {
        let limits = Limits::default();
        let slots = slots(1, 100);
        let slot = ConnectionSlot::claim(&slots, address(1)).unwrap();
        let since = || slot.0.phase().since;
        assert_eq!(slot.due(&limits), Some(since() + limits.header_timeout), "the first head");
        let busy = slot.hold();
        assert_eq!(slot.due(&limits), None);
        slot.record_received(1).unwrap();
        drop(busy);
        assert_eq!(slot.due(&limits), Some(since() + limits.keep_alive));
        slot.record_received(1).unwrap();
        assert_eq!(slot.due(&limits), Some(since() + limits.header_timeout), "the next head has begun");
    }
}
