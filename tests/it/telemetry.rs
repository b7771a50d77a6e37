//! The log and the metrics of a process.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use noetl_graphql::config::LogSettings;
use noetl_graphql::telemetry::repeats::Repeats;
use noetl_graphql::telemetry::{keep_small, recorder, start};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::SubscriberExt;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }

    /// Returns the log that writes here the lines that `repeats` lets pass.
    fn log(&self, repeats: &Repeats) -> impl Subscriber + Send + Sync + use<> {
        let writer = self.clone();
        let layer = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        tracing_subscriber::registry().with(layer.with_filter(repeats.clone()))
    }
}

#[test]
fn a_cause_that_repeats_is_one_line_and_a_number() {
    let (repeats, written) = (Repeats::default(), Written::default());
    let warn = |id: u32, shard: &str| tracing::warn!(id, shard, "no space");
    tracing::subscriber::with_default(written.log(&repeats), || {
        (0..1_000).for_each(|id| warn(id, "one"));
        warn(5, "two");
        (0..3).for_each(|id| tracing::info!(id, "is not counted"));
        (0..3).for_each(|id| tracing::error!(target: "noetl_graphql", id, "is not counted"));
        (0..3).for_each(|id| tracing::error!(target: "a_library", id, "no connection"));
        assert_eq!(written.lines().iter().filter(|line| line.contains("no space")).count(), 2);
        assert_eq!(written.lines().len(), 9);
        let due = |seconds| {
            let due = repeats.due(Instant::now() + Duration::from_secs(seconds));
            due.into_iter().map(|(count, _)| count).collect::<Vec<_>>()
        };
        assert_eq!(due(0), [0; 0]);
        let mut first = due(1);
        first.sort_unstable();
        assert_eq!(first, [2, 999]);
        // The line of a task that runs every few seconds.
        warn(6, "two");
        assert_eq!(due(2), [1]);
        warn(7, "one");
        assert_eq!(due(3), [1]);
        assert_eq!(written.lines().len(), 9);
        assert_eq!(due(70), [0; 0]);
        warn(8, "two");
        assert_eq!(written.lines().len(), 10);
    });
}

#[test]
fn of_a_storm_of_many_causes_only_some_are_remembered() {
    let (repeats, written) = (Repeats::default(), Written::default());
    // Digits would not make another cause.
    let storm =
        || (1..=1_500).for_each(|length| tracing::warn!("{}", "x".repeat(length % 40) + &"y".repeat(length / 40)));
    tracing::subscriber::with_default(written.log(&repeats), || {
        storm();
        assert_eq!(written.lines().len(), 1_500);
        storm();
        assert_eq!(written.lines().len(), 1_500 + 500);
    });
}

#[test]
fn debug_spans_are_not_recorded_unless_they_are_logged_or_exported() {
    start(&LogSettings { filter: "info".to_owned(), json: false }, None).unwrap();
    assert!(!tracing::span_enabled!(Level::DEBUG) && tracing::span_enabled!(Level::INFO));
}

/// Returns the resident memory in KiB (Linux).
fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn histogram_stays_small_without_a_scrape() {
    let recorder = recorder().unwrap().build_recorder();
    let (metrics, stop) = (recorder.handle(), CancellationToken::new());
    let every = Duration::from_millis(1);
    let folding = keep_small(metrics, every, stop.clone());
    let recording = async {
        let histogram =
            ::metrics::with_local_recorder(&recorder, || ::metrics::histogram!("noetl_tailer_batch_events"));
        let before = resident_kib();
        // 4 million samples take 32 MiB and more if they are kept.
        for _ in 0..400 {
            (0..10_000_u32).for_each(|sample| histogram.record(f64::from(sample)));
            sleep(every).await;
        }
        stop.cancel();
        resident_kib().saturating_sub(before)
    };
    let (grown, ()) = futures::future::join(recording, folding).await;
    assert!(grown < 16 << 10, "{grown} KiB");
}
