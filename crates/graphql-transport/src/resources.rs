//! Resources that callers take. They are counted in total and per caller. A request beyond a cap is refused; it never
//! waits.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::available_parallelism;

use async_graphql::parser::types::OperationType;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use metrics::{Gauge, gauge};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::limits::{LARGE_MESSAGE_BYTES, Limits};
use super::listener::{Network, Peer};
use super::reply::Reply;

/// Estimated memory of a subscription in bytes, without its document and variables.
const LIVE_BYTES: usize = 4 << 10;
/// Bytes of memory for each byte of a subscription's document and variables.
const LIVE_FACTOR: usize = 10;

/// Name under which a caller's resources are counted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum CallerKey {
    /// Subject of an authenticated caller.
    Subject(Arc<str>),
    /// Address of an anonymous caller.
    Network(Network),
    /// All callers without a [`Peer`] together.
    Unknown,
}

impl CallerKey {
    /// Returns the key of an anonymous caller.
    pub(super) fn of(peer: Option<&Peer>) -> Self {
        peer.map_or(Self::Unknown, |peer| Self::Network(peer.network()))
    }
}

/// Resource that callers share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Requests,
    LiveConnections,
    BufferedBytes,
    LiveBytes,
}

impl Resource {
    /// Returns the name of the limit's field in [`Limits`].
    pub(super) fn limit(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::LiveConnections => "live_connections",
            Self::BufferedBytes => "buffered_bytes",
            Self::LiveBytes => "live_bytes",
        }
    }

    fn total(self, limits: &Limits) -> usize {
        match self {
            Self::Requests => limits.requests,
            Self::LiveConnections => limits.live_connections,
            Self::BufferedBytes => limits.buffered_bytes,
            Self::LiveBytes => limits.live_bytes,
        }
    }
}

/// Amount of each resource that is taken, indexed by [`Resource`].
type Amounts = [usize; 4];

/// Resources in use of one transport, in total and by caller.
pub(super) struct ResourceUsage {
    limits: Limits,
    ledger: Mutex<Ledger>,
    /// Free encoders for responses. There is one for each processor.
    encoders: Arc<Semaphore>,
    /// Number of requests in flight, for metrics.
    requests: Gauge,
}

#[derive(Default)]
struct Ledger {
    total: Amounts,
    callers: HashMap<CallerKey, Amounts>,
}

impl ResourceUsage {
    pub(super) fn new(limits: &Limits) -> Arc<Self> {
        Self::with_gauge(limits, gauge!("graphql_requests"))
    }

    /// Returns the resources of other routes than the API's, which are not in the metrics.
    pub(super) fn of_other_routes(limits: &Limits) -> Arc<Self> {
        Self::with_gauge(limits, Gauge::noop())
    }

    fn with_gauge(limits: &Limits, requests: Gauge) -> Arc<Self> {
        let encoders = Arc::new(Semaphore::new(available_parallelism().map_or(1, NonZeroUsize::get)));
        Arc::new(Self { limits: *limits, ledger: Mutex::default(), encoders, requests })
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes `amount` of a resource. Fails if the resource is used up, for this caller or in total.
    pub(super) fn take(
        self: &Arc<Self>,
        caller: &CallerKey,
        resource: Resource,
        amount: usize,
    ) -> Result<ResourceGuard, Resource> {
        let mut guard = ResourceGuard { usage: Arc::clone(self), caller: caller.clone(), resource, amount: 0 };
        guard.grow(amount)?;
        Ok(guard)
    }
}

/// Amount of a resource that a caller has taken. Dropping it returns the amount.
pub(super) struct ResourceGuard {
    usage: Arc<ResourceUsage>,
    caller: CallerKey,
    resource: Resource,
    amount: usize,
}

impl ResourceGuard {
    /// Takes buffered bytes for the same caller; `None` for a message of at most [`LARGE_MESSAGE_BYTES`] bytes.
    pub(super) fn buffer(&self, bytes: usize) -> Result<Option<Self>, Resource> {
        let take = || self.usage.take(&self.caller, Resource::BufferedBytes, bytes);
        (bytes > LARGE_MESSAGE_BYTES).then(take).transpose()
    }

    /// Takes a further amount.
    pub(super) fn grow(&mut self, amount: usize) -> Result<(), Resource> {
        let limits = &self.usage.limits;
        let total = self.resource.total(limits);
        self.grow_within(amount, total, limits.per_caller(total))
    }

    /// Takes a further amount, even beyond the caps.
    pub(super) fn grow_beyond(&mut self, amount: usize) {
        let _: Result<(), Resource> = self.grow_within(amount, usize::MAX, usize::MAX);
    }

    fn grow_within(&mut self, amount: usize, total: usize, per_caller: usize) -> Result<(), Resource> {
        let index = self.resource as usize;
        let mut ledger = self.usage.ledger();
        let own = ledger.callers.get(&self.caller).map_or(0, |usage| usage[index]);
        if ledger.total[index].saturating_add(amount) > total || own.saturating_add(amount) > per_caller {
            return Err(self.resource);
        }
        ledger.total[index] += amount;
        ledger.callers.entry(self.caller.clone()).or_default()[index] += amount;
        self.amount += amount;
        Ok(())
    }
}

impl Drop for ResourceGuard {
    fn drop(&mut self) {
        let index = self.resource as usize;
        let mut ledger = self.usage.ledger();
        ledger.total[index] -= self.amount;
        if let Some(usage) = ledger.callers.get_mut(&self.caller) {
            usage[index] -= self.amount;
            if *usage == Amounts::default() {
                ledger.callers.remove(&self.caller);
            }
        }
    }
}

/// Slot of a request, from its admission until it has a response. The bytes are counted until the response has been sent.
pub(super) struct RequestSlot {
    bytes: ResourceGuard,
    _in_flight: InFlight,
}

struct InFlight(ResourceGuard);

impl RequestSlot {
    /// Takes a slot for a caller.
    pub(super) fn take(usage: &Arc<ResourceUsage>, caller: &CallerKey) -> Result<Self, Resource> {
        let request = usage.take(caller, Resource::Requests, 1)?;
        let bytes = usage.take(caller, Resource::BufferedBytes, 0)?;
        usage.requests.increment(1);
        Ok(Self { bytes, _in_flight: InFlight(request) })
    }

    /// Counts further bytes that the request buffers.
    pub(super) fn buffer(&mut self, bytes: usize) -> Result<(), Resource> {
        self.bytes.grow(bytes)
    }

    /// Returns the resources that an operation whose replies are streamed keeps until its end: this slot, or the memory of a
    /// subscription whose document and variables have `text_bytes`.
    pub(super) fn until_end(self, kind: OperationType, text_bytes: usize) -> Result<Taken, Resource> {
        if kind != OperationType::Subscription {
            return Ok(Taken { _slot: Some(self), _memory: None });
        }
        let ResourceGuard { usage, caller, .. } = &self.bytes;
        let memory = usage.take(caller, Resource::LiveBytes, LIVE_BYTES + LIVE_FACTOR * text_bytes)?;
        Ok(Taken { _slot: None, _memory: Some(memory) })
    }

    /// Counts the bytes of a response's text. With `never_refuse`, for an operation that may have had an effect, the
    /// response is never refused.
    pub(super) fn buffer_response(&mut self, bytes: usize, never_refuse: bool) -> Result<(), Resource> {
        if never_refuse {
            self.bytes.grow_beyond(bytes);
            return Ok(());
        }
        self.buffer(bytes)
    }

    /// Takes an encoder that uses `bytes` of memory. `None` if all encoders are in use, or the buffered bytes are at their
    /// limit.
    pub(super) fn encoder(&self, bytes: usize) -> Option<EncoderGuard> {
        let ResourceGuard { usage, caller, .. } = &self.bytes;
        let permit = Arc::clone(&usage.encoders).try_acquire_owned().ok()?;
        let memory = usage.take(caller, Resource::BufferedBytes, bytes).ok()?;
        Some(EncoderGuard { _permit: permit, _memory: memory })
    }

    /// Frees the slot and returns the bytes of a response. Those that were counted count as buffered until the response
    /// has been sent, so a client that does not read keeps no slot.
    pub(super) fn send(self, body: Vec<u8>) -> Bytes {
        holding(body.into(), Some(self.bytes))
    }
}

/// Encoder of a response. Dropping it returns the encoder and its memory.
pub(super) struct EncoderGuard {
    _permit: OwnedSemaphorePermit,
    _memory: ResourceGuard,
}

/// Resources that an operation keeps until its end.
pub(super) struct Taken {
    _slot: Option<RequestSlot>,
    _memory: Option<ResourceGuard>,
}

impl Taken {
    /// Keeps it until the stream of replies is dropped.
    pub(super) fn with(self, replies: BoxStream<'static, Reply>) -> BoxStream<'static, Reply> {
        replies.inspect(move |_| _ = &self).boxed()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.usage.requests.decrement(1);
    }
}

/// Text that has not been sent yet, with the resource that it holds until then.
struct UnsentBytes {
    text: Bytes,
    _guard: ResourceGuard,
}

impl AsRef<[u8]> for UnsentBytes {
    fn as_ref(&self) -> &[u8] {
        self.text.as_ref()
    }
}

/// Returns bytes that hold a resource until they have been sent.
pub(super) fn holding(bytes: Bytes, guard: Option<ResourceGuard>) -> Bytes {
    match guard {
        Some(guard) => Bytes::from_owner(UnsentBytes { text: bytes, _guard: guard }),
        None => bytes,
    }
}

#[cfg(test)]
mod tests {
    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;

    fn subject(name: &str) -> CallerKey {
        CallerKey::Subject(name.into())
    }

    #[test]
    fn caller_at_its_share_does_not_block_another_caller() {
        let usage = ResourceUsage::new(&Limits { requests: 4, ..Limits::default() });
        let take = |name: &str| RequestSlot::take(&usage, &subject(name));
        let (first, second) = (take("greedy").ok(), take("greedy").ok());
        assert!(first.is_some() && second.is_some());
        assert_eq!(take("greedy").err(), Some(Resource::Requests));
        let other = take("other").ok();
        assert!(other.is_some());
        drop(first);
        assert!(take("greedy").is_ok());
        drop((second, other));
        assert!(usage.ledger().callers.is_empty() && usage.ledger().total == Amounts::default());
    }

    #[test]
    fn all_callers_together_take_at_most_the_total() {
        let usage = ResourceUsage::new(&Limits { requests: 4, ..Limits::default() });
        let take = |name: &str| RequestSlot::take(&usage, &subject(name));
        let slots: Vec<_> = ["a", "a", "b", "b"].into_iter().map(take).collect();
        assert!(slots.iter().all(Result::is_ok));
        assert_eq!(take("c").err(), Some(Resource::Requests));
        drop(slots);
        assert!(take("c").is_ok());
    }

    #[test]
    fn callers_without_resources_are_forgotten() {
        let usage = ResourceUsage::new(&Limits { requests: 1, ..Limits::default() });
        let take = |amount| usage.take(&subject("a"), Resource::Requests, amount).map(drop);
        assert_eq!((take(0), take(1), take(2)), (Ok(()), Ok(()), Err(Resource::Requests)));
        assert!(usage.ledger().callers.is_empty());
    }

    #[test]
    fn resource_has_the_name_of_its_limit() {
        let limits = Limits::default();
        let fields = serde_json::to_value(limits).unwrap();
        for resource in [Resource::Requests, Resource::LiveConnections, Resource::BufferedBytes, Resource::LiveBytes] {
            assert_eq!(fields[resource.limit()], resource.total(&limits), "{resource:?}");
        }
    }

    #[test]
    fn gauge_counts_the_requests_in_flight() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let usage = metrics::with_local_recorder(&recorder, || ResourceUsage::new(&Limits::default()));
        let shown = |count: u8| recorder.handle().render().contains(&format!("graphql_requests {count}\n"));
        let slots = [(); 2].map(|()| RequestSlot::take(&usage, &subject("a")).ok());
        assert!(shown(2), "{}", recorder.handle().render());
        drop(slots);
        assert!(shown(0), "{}", recorder.handle().render());
    }

    #[test]
    fn only_large_messages_count_as_buffered() {
        let usage = ResourceUsage::new(&Limits { buffered_bytes: 4 * LARGE_MESSAGE_BYTES, ..Limits::default() });
        let connection = usage.take(&subject("a"), Resource::LiveConnections, 1).unwrap_or_else(|_| panic!("refused"));
        let small = connection.buffer(LARGE_MESSAGE_BYTES);
        assert!(matches!(small, Ok(None)));
        let large = connection.buffer(LARGE_MESSAGE_BYTES + 1);
        assert!(matches!(large, Ok(Some(_))));
        assert_eq!(usage.ledger().total, [0, 1, LARGE_MESSAGE_BYTES + 1, 0]);
        assert_eq!(connection.buffer(LARGE_MESSAGE_BYTES + 1).err(), Some(Resource::BufferedBytes));
    }

    #[test]
    fn a_subscription_takes_memory_in_place_of_the_slot_of_its_request() {
        let usage = ResourceUsage::new(&Limits { live_bytes: 2 * (4096 + 10 * 100), ..Limits::default() });
        let slot = || RequestSlot::take(&usage, &subject("a")).unwrap_or_else(|_| panic!("a slot is free"));
        for (kind, expected) in [
            (OperationType::Query, [1, 0, 0, 0]),
            (OperationType::Mutation, [1, 0, 0, 0]),
            (OperationType::Subscription, [0, 0, 0, 5096]),
        ] {
            let taken = slot().until_end(kind, 100).unwrap_or_else(|_| panic!("{kind} is refused"));
            let replies = taken.with(futures::stream::pending().boxed());
            assert_eq!(usage.ledger().total, expected, "{kind}");
            let further = slot().until_end(OperationType::Subscription, 101);
            assert_eq!(further.err(), Some(Resource::LiveBytes), "{kind}");
            drop(replies);
            assert_eq!(usage.ledger().total, Amounts::default(), "{kind}");
        }
    }

    #[test]
    fn encoders_are_few_and_their_memory_is_counted_until_they_are_returned() {
        let usage = ResourceUsage::new(&Limits { buffered_bytes: 2 << 20, ..Limits::default() });
        let slot = RequestSlot::take(&usage, &subject("a")).unwrap_or_else(|_| panic!("a slot is free"));
        assert!(slot.encoder((1 << 20) + 1).is_none());
        let mut encoders: Vec<_> = (0..10_000).map_while(|_| slot.encoder(10)).collect();
        let count = available_parallelism().map_or(1, NonZeroUsize::get);
        assert_eq!((encoders.len(), usage.ledger().total), (count, [1, 0, 10 * count, 0]));
        encoders.pop();
        assert!(slot.encoder(10).is_some());
        drop((encoders, slot));
        assert_eq!(usage.ledger().total, Amounts::default());
    }

    #[test]
    fn response_frees_its_slot_and_counts_its_bytes_until_it_is_sent() {
        let usage = ResourceUsage::new(&Limits { buffered_bytes: 100, ..Limits::default() });
        let send = |bytes: usize, of_mutation: bool| {
            let mut slot = RequestSlot::take(&usage, &subject("a"))?;
            slot.buffer_response(bytes, of_mutation)?;
            Ok::<_, Resource>(slot.send(vec![b'x'; bytes]))
        };
        let unsent = send(50, false).unwrap();
        assert_eq!(send(1, false).err(), Some(Resource::BufferedBytes));
        let of_mutation = send(90, true).unwrap();
        assert_eq!(usage.ledger().total, [0, 0, 140, 0]);
        let part = unsent.slice(..1);
        drop((unsent, of_mutation));
        assert_eq!(usage.ledger().total, [0, 0, 50, 0]);
        drop(part);
        assert_eq!(usage.ledger().total, Amounts::default());
    }
}
