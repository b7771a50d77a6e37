//! Group commit: concurrent calls share one statement.
//!
//! A *batch* is one statement (or a few) for the items of one or more *calls*. A call that finds no batch in progress
//! starts one at once. A call that arrives during a batch waits for the end of that batch, and joins the next one
//! together with all other waiting calls. So a single caller does not wait, and the more calls there are at a time,
//! the fewer statements each of them costs. These rules hold:
//!
//! - A batch has at most [`MAX_ITEMS`] items and [`MAX_BYTES`] bytes, unless its only call has more.
//! - The calls of each caller form a queue, and a batch takes one call from each queue in turn. So a caller with many
//!   calls does not delay the others.
//! - Each call gets its own results. If a batch fails soon and one call may have caused the error, each call is carried
//!   out alone.
//! - A call whose caller has gone before its batch begins, or before it is carried out alone, is left out. A batch that
//!   has begun runs to its end.
//! - A batch with another number of results than items fails.
//! - A batch that takes longer than [`LATE`] does not delay the calls behind it: up to [`MAX_BATCHES`] batches run at a
//!   time.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::{FutureExt, StreamExt, stream};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, Span};

/// Maximum number of items of a batch with several calls.
pub const MAX_ITEMS: usize = 512;
/// Maximum size in bytes of a batch with several calls.
pub const MAX_BYTES: usize = 4 << 20;
/// Maximum number of batches at a time.
const MAX_BATCHES: usize = 4;
/// Duration from which a batch does not delay the next one.
const LATE: Duration = Duration::from_millis(20);
/// Duration of a failed batch up to which its calls are carried out alone. A later response would be too late: one more
/// statement must end within the deadline of an operation on a database (`OPERATION_DEADLINE` in
/// `crates/storage/src/pools.rs`).
const ALONE_WITHIN: Duration = Duration::from_millis(2500);
/// Maximum number of items of calls for which no caller waits.
const MAX_UNAWAITED: usize = 20_000;

/// Work that concurrent calls share.
pub trait SharedWork: Send + Sync + 'static {
    /// Identity of a caller, for fairness.
    type Caller: PartialEq + Send;
    /// Property of a call. Only calls with equal kinds share a batch.
    type Kind: PartialEq + Clone + Send + Sync;
    /// Part of a call.
    type Item: Clone + Send + Sync;
    /// Result of an item.
    type Output: Send;
    /// Error of a batch.
    type Error: Clone + Send + From<Unfinished>;

    /// Carries out the items, and returns their results in the same order. `shared` is true if they are of several
    /// calls, or of one of several calls that failed together: then the batch should not wait long for what one item
    /// needs.
    fn carry_out(
        &self,
        kind: &Self::Kind,
        items: Vec<Self::Item>,
        shared: bool,
    ) -> impl Future<Output = Result<Vec<Self::Output>, Self::Error>> + Send;

    /// Returns whether one of several calls may have caused the error, so that the others may succeed without it.
    fn may_be_caused_by_one_call(error: &Self::Error) -> bool;
}

/// Error of a call whose batch panicked, or had another number of results than items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a statement that several calls shared ended without a result")]
pub struct Unfinished;

/// Calls that share batches. Cheap to clone.
pub struct Coalescer<W: SharedWork>(Arc<Shared<W>>);

struct Shared<W: SharedWork> {
    work: W,
    queue: Mutex<Queue<W>>,
    runners: TaskTracker,
}

/// Calls that wait, and the number of batches.
struct Queue<W: SharedWork> {
    callers: VecDeque<CallerQueue<W>>,
    /// Number of waiting items for which no caller waits.
    unawaited: usize,
    /// Number of runners: tasks that carry out one batch after the other until no call waits.
    runners: usize,
    /// Number of runners whose batch is late.
    late: usize,
}

/// Waiting calls of one caller, oldest first; never empty.
struct CallerQueue<W: SharedWork> {
    caller: W::Caller,
    calls: VecDeque<Call<W>>,
}

struct Call<W: SharedWork> {
    kind: W::Kind,
    items: Vec<W::Item>,
    bytes: usize,
    /// Receives the results; `None`: no caller waits for them.
    reply: Option<Reply<W>>,
    span: Span,
}

type Reply<W> = oneshot::Sender<Result<Vec<<W as SharedWork>::Output>, <W as SharedWork>::Error>>;

impl<W: SharedWork> std::fmt::Debug for Coalescer<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Coalescer").field("runners", &self.0.runners.len()).finish_non_exhaustive()
    }
}

impl<W: SharedWork> Clone for Coalescer<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<W: SharedWork> Coalescer<W> {
    /// Creates the coalescer of one statement on one database.
    pub fn new(work: W) -> Self {
        let queue = Queue { callers: VecDeque::new(), unawaited: 0, runners: 0, late: 0 };
        Self(Arc::new(Shared { work, queue: Mutex::new(queue), runners: TaskTracker::new() }))
    }

    /// Carries out the items of a call, and returns their results in the same order. `bytes` is their approximate size.
    pub async fn run(
        &self,
        caller: W::Caller,
        kind: W::Kind,
        items: Vec<W::Item>,
        bytes: usize,
    ) -> Result<Vec<W::Output>, W::Error> {
        let (reply, results) = oneshot::channel();
        self.0.add(caller, Call { kind, items, bytes, reply: Some(reply), span: Span::current() });
        results.await.unwrap_or_else(|_| Err(Unfinished.into()))
    }

    /// Carries out the items later, and does not wait for it. Returns `false` if too many such items wait; then nothing
    /// is done.
    pub fn submit(&self, caller: W::Caller, kind: W::Kind, items: Vec<W::Item>, bytes: usize) -> bool {
        let waiting = self.0.queue().unawaited;
        if waiting + items.len() > MAX_UNAWAITED {
            return false;
        }
        self.0.add(caller, Call { kind, items, bytes, reply: None, span: Span::none() });
        true
    }

    /// Waits until no call waits and no batch is in progress. No call may follow.
    pub async fn finish(&self) {
        self.0.runners.close();
        self.0.runners.wait().await;
    }
}

impl<W: SharedWork> Shared<W> {
    fn queue(&self) -> MutexGuard<'_, Queue<W>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, caller: W::Caller, call: Call<W>) {
        let mut queue = self.queue();
        queue.unawaited += call.unawaited();
        match queue.callers.iter_mut().find(|queue| queue.caller == caller) {
            Some(queue) => queue.calls.push_back(call),
            None => queue.callers.push_back(CallerQueue { caller, calls: VecDeque::from([call]) }),
        }
        self.start_runner(&mut queue);
    }

    /// Starts a runner, unless one whose batch is not late carries out the waiting calls soon.
    fn start_runner(self: &Arc<Self>, queue: &mut Queue<W>) {
        if !queue.callers.is_empty() && queue.runners == queue.late && queue.runners < MAX_BATCHES {
            queue.runners += 1;
            self.runners.spawn(Arc::clone(self).run_batches());
        }
    }

    /// Carries out batches until no call waits.
    async fn run_batches(self: Arc<Self>) {
        while let Some(calls) = self.take_batch() {
            let batch = AssertUnwindSafe(self.carry_out(calls)).catch_unwind();
            tokio::pin!(batch);
            if timeout(LATE, &mut batch).await.is_ok() {
                continue;
            }
            self.delayed();
            // A panic was reported by the panic hook; its calls have got no result.
            drop(batch.await);
            if self.queue().is_relieved() {
                return;
            }
        }
    }

    fn take_batch(&self) -> Option<Vec<Call<W>>> {
        self.queue().take_batch()
    }

    fn delayed(self: &Arc<Self>) {
        let mut queue = self.queue();
        queue.late += 1;
        self.start_runner(&mut queue);
    }

    async fn carry_out(&self, calls: Vec<Call<W>>) {
        let span = span_of(&calls);
        let Some(kind) = calls.first().map(|call| call.kind.clone()) else { return };
        let items = calls.iter().flat_map(|call| call.items.iter().cloned()).collect();
        let begun = Instant::now();
        match self.results(&kind, items, calls.len() > 1).instrument(span.clone()).await {
            Ok(outputs) => {
                let mut outputs = outputs.into_iter();
                for call in calls {
                    let own = outputs.by_ref().take(call.items.len()).collect();
                    call.reply(Ok(own));
                }
            }
            Err(error) if calls.len() > 1 && begun.elapsed() < ALONE_WITHIN && W::may_be_caused_by_one_call(&error) => {
                let alone = async |call: Call<W>| {
                    if !call.is_abandoned() {
                        let result = self.results(&kind, call.items.clone(), true).await;
                        call.reply(result);
                    }
                };
                stream::iter(calls).for_each_concurrent(MAX_BATCHES, alone).instrument(span).await;
            }
            Err(error) => calls.into_iter().for_each(|call| call.reply(Err(error.clone()))),
        }
    }

    /// Carries out a batch, which must have a result for each item.
    async fn results(&self, kind: &W::Kind, items: Vec<W::Item>, shared: bool) -> Result<Vec<W::Output>, W::Error> {
        let wanted = items.len();
        let outputs = self.work.carry_out(kind, items, shared).await?;
        if outputs.len() == wanted { Ok(outputs) } else { Err(Unfinished.into()) }
    }
}

impl<W: SharedWork> Queue<W> {
    /// Takes the calls of the next batch. `None`: no call waits, so the runner ends.
    fn take_batch(&mut self) -> Option<Vec<Call<W>>> {
        let (mut taken, mut passed): (Vec<Call<W>>, VecDeque<CallerQueue<W>>) = (Vec::new(), VecDeque::new());
        let (mut items, mut bytes) = (0, 0);
        while let Some(mut queue) = self.callers.pop_front() {
            while queue.calls.pop_front_if(|call| call.is_abandoned()).is_some() {}
            let Some(call) = queue.calls.front() else { continue };
            if let Some(first) = taken.first() {
                if call.kind != first.kind {
                    passed.push_back(queue);
                    continue;
                }
                if items + call.items.len() > MAX_ITEMS || bytes + call.bytes > MAX_BYTES {
                    passed.push_back(queue);
                    break;
                }
            }
            (items, bytes) = (items + call.items.len(), bytes + call.bytes);
            self.unawaited -= call.unawaited();
            taken.extend(queue.calls.pop_front());
            if !queue.calls.is_empty() {
                self.callers.push_back(queue);
            }
        }
        // The callers that were passed over come first next time.
        passed.append(&mut self.callers);
        self.callers = passed;
        if taken.is_empty() {
            self.runners -= 1;
            return None;
        }
        Some(taken)
    }

    /// Records the end of a late batch. Returns whether another runner has taken over, so that this one ends.
    fn is_relieved(&mut self) -> bool {
        self.late -= 1;
        let relieved = self.runners - self.late > 1;
        self.runners -= usize::from(relieved);
        relieved
    }
}

impl<W: SharedWork> Call<W> {
    fn unawaited(&self) -> usize {
        if self.reply.is_none() { self.items.len() } else { 0 }
    }

    fn is_abandoned(&self) -> bool {
        self.reply.as_ref().is_some_and(oneshot::Sender::is_closed)
    }

    fn reply(self, result: Result<Vec<W::Output>, W::Error>) {
        if let Some(reply) = self.reply {
            // The caller may have gone during the batch.
            drop(reply.send(result));
        }
    }
}

/// Returns a span for a batch, within the span of its first call.
fn span_of<W: SharedWork>(calls: &[Call<W>]) -> Span {
    let Some((first, others)) = calls.split_first() else { return Span::none() };
    let span = tracing::debug_span!(parent: &first.span, "batch", calls = calls.len());
    for call in others {
        span.follows_from(&call.span);
    }
    span
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use tokio::sync::{Semaphore, mpsc};

    use super::*;

    /// Reports the items of each batch, and carries it out when it gets a permit.
    struct Gated {
        begun: mpsc::UnboundedSender<Vec<u32>>,
        gate: Arc<Semaphore>,
    }

    /// Item whose batch fails.
    const BAD: u32 = 13;
    /// Item whose batch panics.
    const PANICS: u32 = 14;
    /// Item that has no result.
    const LOST: u32 = 15;

    #[derive(Debug, Clone, PartialEq, Eq)]
    enum Failure {
        Bad,
        Unfinished,
    }

    impl From<Unfinished> for Failure {
        fn from(Unfinished: Unfinished) -> Self {
            Self::Unfinished
        }
    }

    impl SharedWork for Gated {
        type Caller = &'static str;
        type Kind = bool;
        type Item = u32;
        type Output = u32;
        type Error = Failure;

        async fn carry_out(&self, _: &bool, items: Vec<u32>, _: bool) -> Result<Vec<u32>, Failure> {
            self.begun.send(items.clone()).unwrap();
            self.gate.acquire().await.unwrap().forget();
            assert!(!items.contains(&PANICS));
            let kept = items.iter().filter(|item| **item != LOST);
            if items.contains(&BAD) { Err(Failure::Bad) } else { Ok(kept.map(|item| item * 10).collect()) }
        }

        fn may_be_caused_by_one_call(_: &Failure) -> bool {
            true
        }
    }

    struct Bench {
        coalescer: Coalescer<Gated>,
        batches: mpsc::UnboundedReceiver<Vec<u32>>,
        gate: Arc<Semaphore>,
    }

    impl Bench {
        fn new() -> Self {
            let (begun, batches) = mpsc::unbounded_channel();
            let gate = Arc::new(Semaphore::new(0));
            Self { coalescer: Coalescer::new(Gated { begun, gate: Arc::clone(&gate) }), batches, gate }
        }

        /// Starts a call, which waits in the queue when this returns.
        fn call(&self, caller: &'static str, kind: bool, items: &[u32]) -> Waiting {
            let (reply, results) = oneshot::channel();
            let call = Call { kind, items: items.to_vec(), bytes: items.len(), reply: Some(reply), span: Span::none() };
            self.coalescer.0.add(caller, call);
            results
        }

        async fn next_batch(&mut self) -> Vec<u32> {
            self.batches.recv().await.unwrap()
        }
    }

    type Waiting = oneshot::Receiver<Result<Vec<u32>, Failure>>;

    #[tokio::test(start_paused = true)]
    async fn calls_that_arrive_during_a_flight_share_the_next_one() {
        let mut bench = Bench::new();
        let first = bench.call("a", false, &[1]);
        assert_eq!(bench.next_batch().await, [1]);
        let (second, third) = (bench.call("a", false, &[2, 3]), bench.call("a", false, &[4]));
        bench.gate.add_permits(2);
        assert_eq!(bench.next_batch().await, [2, 3, 4]);
        assert_eq!(first.await.unwrap(), Ok(vec![10]));
        assert_eq!(second.await.unwrap(), Ok(vec![20, 30]));
        assert_eq!(third.await.unwrap(), Ok(vec![40]));
    }

    #[tokio::test(start_paused = true)]
    async fn callers_take_turns() {
        let mut bench = Bench::new();
        let _first = bench.call("busy", false, &[0]);
        bench.next_batch().await;
        let busy: Vec<Waiting> = (0..3).map(|_| bench.call("busy", false, &[1; MAX_ITEMS / 2])).collect();
        let other = bench.call("other", false, &[2]);
        bench.gate.add_permits(5);
        let batch = bench.next_batch().await;
        assert!(batch.contains(&2), "the other caller does not wait for all calls of the busy one");
        assert_eq!(batch.len(), MAX_ITEMS / 2 + 1, "a batch has a maximum size");
        assert_eq!(other.await.unwrap(), Ok(vec![20]));
        assert!(join_all(busy).await.into_iter().all(|result| result.unwrap().is_ok()));
    }

    #[tokio::test(start_paused = true)]
    async fn calls_of_different_kinds_share_no_flight_and_none_starves() {
        let mut bench = Bench::new();
        let _first = bench.call("a", false, &[0]);
        bench.next_batch().await;
        let _calls = [bench.call("a", false, &[1]), bench.call("b", true, &[2]), bench.call("c", false, &[3])];
        bench.gate.add_permits(1);
        assert_eq!(bench.next_batch().await, [1, 3]);
        let _later = bench.call("a", false, &[4]);
        bench.gate.add_permits(1);
        assert_eq!(bench.next_batch().await, [2]);
        bench.gate.add_permits(1);
        assert_eq!(bench.next_batch().await, [4]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_larger_than_a_flight_is_carried_out_alone() {
        let mut bench = Bench::new();
        let large = bench.call("a", false, &[1; MAX_ITEMS + 1]);
        assert_eq!(bench.next_batch().await.len(), MAX_ITEMS + 1);
        bench.gate.add_permits(1);
        assert_eq!(large.await.unwrap().unwrap().len(), MAX_ITEMS + 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_error_fails_only_the_call_that_caused_it() {
        let mut bench = Bench::new();
        let _first = bench.call("a", false, &[0]);
        bench.next_batch().await;
        let (good, bad, also_good) =
            (bench.call("a", false, &[1]), bench.call("b", false, &[BAD]), bench.call("c", false, &[2]));
        bench.gate.add_permits(10);
        assert_eq!(bad.await.unwrap(), Err(Failure::Bad));
        assert_eq!((good.await.unwrap(), also_good.await.unwrap()), (Ok(vec![10]), Ok(vec![20])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_fails_the_calls_of_its_flight_and_later_calls_succeed() {
        let mut bench = Bench::new();
        let coalescer = bench.coalescer.clone();
        let panics = tokio::spawn(async move { coalescer.run("a", false, vec![PANICS], 1).await });
        bench.next_batch().await;
        let later = bench.call("a", false, &[1]);
        bench.gate.add_permits(2);
        assert_eq!(panics.await.unwrap(), Err(Failure::Unfinished));
        assert_eq!(later.await.unwrap(), Ok(vec![10]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_flight_that_lacks_a_result_fails_and_no_call_gets_a_result_of_another() {
        let mut bench = Bench::new();
        let first = bench.call("a", false, &[0]);
        bench.next_batch().await;
        let (lacks, whole) = (bench.call("a", false, &[LOST, 1]), bench.call("b", false, &[2]));
        bench.gate.add_permits(4);
        assert_eq!(first.await.unwrap(), Ok(vec![0]));
        assert_eq!((lacks.await.unwrap(), whole.await.unwrap()), (Err(Failure::Unfinished), Ok(vec![20])));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_has_gone_is_not_carried_out_alone() {
        let mut bench = Bench::new();
        let _first = bench.call("a", false, &[0]);
        bench.next_batch().await;
        let (bad, gone, kept) =
            (bench.call("a", false, &[BAD]), bench.call("b", false, &[1]), bench.call("c", false, &[2]));
        bench.gate.add_permits(1);
        assert_eq!(bench.next_batch().await.len(), 3);
        drop(gone);
        bench.gate.add_permits(3);
        assert_eq!((bad.await.unwrap(), kept.await.unwrap()), (Err(Failure::Bad), Ok(vec![20])));
        let mut alone = [bench.next_batch().await, bench.next_batch().await];
        alone.sort_unstable();
        assert_eq!(alone, [[2], [BAD]]);
        assert!(bench.batches.try_recv().is_err(), "the call without a caller was carried out");
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_whose_caller_has_gone_is_left_out() {
        let mut bench = Bench::new();
        let _first = bench.call("a", false, &[0]);
        bench.next_batch().await;
        drop(bench.call("a", false, &[1]));
        let kept = bench.call("a", false, &[2]);
        bench.gate.add_permits(2);
        assert_eq!(bench.next_batch().await, [2]);
        assert_eq!(kept.await.unwrap(), Ok(vec![20]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_late_flight_does_not_delay_the_next_one_and_flights_are_bounded() {
        let mut bench = Bench::new();
        let mut calls = Vec::new();
        for number in 1..=u32::try_from(MAX_BATCHES).unwrap() {
            calls.push(bench.call("a", false, &[number]));
            assert_eq!(bench.next_batch().await, [number], "the paused clock advances when all tasks wait");
        }
        calls.extend([bench.call("a", false, &[8]), bench.call("a", false, &[9])]);
        tokio::time::sleep(LATE * 10).await;
        assert!(bench.batches.try_recv().is_err(), "no further batch begins");
        bench.gate.add_permits(1);
        assert_eq!(bench.next_batch().await, [8, 9]);
        bench.gate.add_permits(MAX_BATCHES);
        assert!(join_all(calls).await.into_iter().all(|result| result.unwrap().is_ok()));
        bench.coalescer.finish().await;
    }

    #[tokio::test(start_paused = true)]
    async fn items_for_which_no_caller_waits_are_bounded_and_carried_out_before_the_end() {
        let mut bench = Bench::new();
        assert!(bench.coalescer.submit("a", false, vec![1], 1));
        bench.next_batch().await;
        assert!(bench.coalescer.submit("a", false, vec![2; MAX_UNAWAITED], 1));
        assert!(!bench.coalescer.submit("a", false, vec![3], 1), "too many wait");
        bench.gate.add_permits(2);
        bench.coalescer.finish().await;
        assert_eq!(bench.next_batch().await.len(), MAX_UNAWAITED);
        assert!(bench.coalescer.submit("a", false, vec![4], 1));
    }
}
