//! Requests that wait for an answer. Equal requests get the same answer; without that, each reader that replays would
//! be a client of its own for the broker.

use std::collections::VecDeque;

use tokio::sync::oneshot;

use crate::read::error::ReadError;

/// Answer to a request, when it arrives.
pub(super) type Answer<T> = oneshot::Receiver<Result<T, ReadError>>;

/// Requests in the order of their arrival. Each one has a reader that waits for it, so their number is bounded by that
/// of the readers.
#[derive(Debug)]
pub(super) struct Requests<K, T>(VecDeque<Request<K, T>>);

#[derive(Debug)]
struct Request<K, T> {
    key: K,
    answer: oneshot::Sender<Result<T, ReadError>>,
}

/// Requests that were taken to answer them. Their readers get an error if the value is dropped.
#[derive(Debug)]
pub(super) struct Asking<T>(Vec<oneshot::Sender<Result<T, ReadError>>>);

impl<T: Clone> Asking<T> {
    /// Sends the answer to all readers that still wait.
    pub(super) fn answer(self, answer: &Result<T, ReadError>) {
        for reader in self.0 {
            // The reader may have gone.
            drop(reader.send(answer.clone()));
        }
    }
}

impl<K, T> Default for Requests<K, T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<K: Copy + Ord, T: Clone> Requests<K, T> {
    /// Adds a request.
    pub(super) fn ask(&mut self, key: K) -> Answer<T> {
        let (sender, answer) = oneshot::channel();
        self.0.push_back(Request { key, answer: sender });
        answer
    }

    /// Takes the oldest request whose reader still waits, and all equal ones, and returns their key. Requests that are
    /// added later need another answer.
    pub(super) fn take_oldest(&mut self) -> Option<(K, Asking<T>)> {
        self.forget_closed();
        let key = self.0.front()?.key;
        Some((key, self.take(|other| other == key)))
    }

    /// Returns the lowest key from `from` on whose reader still waits, or the lowest of all if there is none.
    pub(super) fn next_from(&mut self, from: K) -> Option<K> {
        self.forget_closed();
        let keys = || self.0.iter().map(|request| request.key);
        keys().filter(|key| *key >= from).min().or_else(|| keys().min())
    }

    /// Takes and answers all requests whose key is `included`.
    pub(super) fn answer(&mut self, included: impl Fn(K) -> bool, answer: &Result<T, ReadError>) {
        self.take(included).answer(answer);
    }

    fn take(&mut self, included: impl Fn(K) -> bool) -> Asking<T> {
        let (taken, others) = std::mem::take(&mut self.0).into_iter().partition(|request| included(request.key));
        self.0 = others;
        let taken: VecDeque<Request<K, T>> = taken;
        Asking(taken.into_iter().map(|request| request.answer).collect())
    }

    fn forget_closed(&mut self) {
        self.0.retain(|request| !request.answer.is_closed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_requests_get_one_answer_and_closed_ones_are_forgotten() {
        let mut requests = Requests::<u64, u8>::default();
        drop(requests.ask(1));
        let (mut one, mut other, mut third) = (requests.ask(7), requests.ask(7), requests.ask(3));
        assert_eq!([2, 4, 8].map(|from| requests.next_from(from)), [Some(3), Some(7), Some(3)]);
        let (key, asking) = requests.take_oldest().unwrap();
        asking.answer(&Ok(5));
        assert_eq!((key, [&mut one, &mut other].map(|answer| answer.try_recv().unwrap().unwrap())), (7, [5, 5]));
        requests.answer(|key| key > 3, &Ok(6));
        assert!(third.try_recv().is_err());
        requests.answer(|key| key == 3, &Ok(6));
        assert_eq!(third.try_recv().unwrap().unwrap(), 6);
        assert!(requests.take_oldest().is_none());
    }
}
