//! Readers of a changed object share its reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_graphql::Result;
use futures::FutureExt;
use futures::future::join_all;
use noetl_api::shared_reads::{SharedReads, Wanted};
use noetl_feed::wire::cursor::Position;
use tokio::sync::Semaphore;

fn at(sequence: u64) -> Position {
    Position { epoch: 1, sequence }
}

/// Reads that count their starts, and end after the gate was opened.
struct Setup {
    reads: SharedReads<u8, u64>,
    count: Arc<AtomicU64>,
    gate: Arc<Semaphore>,
}

impl Setup {
    fn new() -> Self {
        Self { reads: SharedReads::default(), count: Arc::default(), gate: Arc::new(Semaphore::new(0)) }
    }

    fn open_gate(&self) {
        self.gate.add_permits(1);
    }

    async fn read(&self, key: u8, position: Position, fails: bool) -> Result<u64> {
        let (count, gate) = (Arc::clone(&self.count), Arc::clone(&self.gate));
        let read = move || async move {
            let number = count.fetch_add(1, Ordering::Relaxed) + 1;
            let _permit = gate.acquire().await.unwrap();
            if fails { Err("failed".into()) } else { Ok(number) }
        };
        self.reads.read(key, position, read).await.map(|read| read.value)
    }

    /// Returns the results of 50 readers that wait for the same change.
    async fn read_together(&self, fails: bool) -> Vec<Result<u64>> {
        let reading = join_all((0..50).map(|_| self.read(1, at(5), fails)));
        tokio::join!(reading, async { self.open_gate() }).0
    }
}

#[tokio::test]
async fn readers_share_a_read_that_includes_their_change() {
    let setup = Setup::new();
    assert!(setup.read_together(false).await.into_iter().all(|result| result.unwrap() == 1));
    assert_eq!(setup.read(1, at(4), false).await.unwrap(), 1);
    assert_eq!(setup.read(1, at(6), false).await.unwrap(), 2);
    assert_eq!(setup.read(2, at(1), false).await.unwrap(), 3);
}

#[tokio::test]
async fn objects_of_several_readers_are_read_together_and_once() {
    let reads: SharedReads<u8, u64> = SharedReads::default();
    let read = async |keys: [u8; 2], position| {
        let wanted = keys.map(|key| Wanted { key, position: at(position) });
        let mut read = Vec::new();
        let values = |missing: Vec<usize>| {
            read.clone_from(&missing);
            async move { Ok(missing.into_iter().map(|index| u64::from(keys[index])).collect()) }
        };
        let found = reads.read_all(wanted.into(), values).await.unwrap();
        (read, found.into_iter().map(|read| read.value).collect::<Vec<_>>())
    };
    assert_eq!(read([1, 2], 5).await, (vec![0, 1], vec![1, 2]));
    assert_eq!(read([2, 3], 5).await, (vec![1], vec![2, 3]));
    assert_eq!(read([3, 1], 6).await, (vec![0, 1], vec![3, 1]));
}

#[tokio::test]
async fn an_error_reaches_the_readers_that_wait_and_no_later_one() {
    let setup = Setup::new();
    assert!(setup.read_together(true).await.iter().all(Result::is_err));
    assert_eq!(setup.read(1, at(5), false).await.unwrap(), 2);
}

#[tokio::test]
async fn a_read_continues_if_the_reader_that_started_it_ends() {
    let setup = Setup::new();
    let mut first = Box::pin(setup.read(1, at(5), false));
    let mut second = Box::pin(setup.read(1, at(5), false));
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    drop(first);
    setup.open_gate();
    assert_eq!(second.await.unwrap(), 1);
}
