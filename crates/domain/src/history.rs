//! History of executions: numbers for each span of time, and the distribution of durations.
//!
//! Durations are counted in classes whose bounds grow by a constant factor, so percentiles of many executions are computed
//! from few numbers, and the numbers of shards and of spans are added. A percentile differs from the exact one by at most
//! 5 %, or by 1 ms (C. Masson, J. Rim and H. Lee, VLDB 2019). `noetl.history_class` in
//! `migrations/0010_execution_history.sql` computes the class of a duration.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

/// Largest relative error of a percentile.
const ERROR: f64 = 0.05;
/// Factor between the bounds of a class.
const FACTOR: f64 = (1.0 + ERROR) / (1.0 - ERROR);

/// Length of a span of the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Interval {
    /// 60 seconds.
    Minute,
    /// 60 minutes.
    Hour,
    /// 24 hours.
    Day,
}

impl Interval {
    /// Returns the length in seconds.
    #[must_use]
    pub const fn seconds(self) -> i32 {
        match self {
            Self::Minute => 60,
            Self::Hour => 3600,
            Self::Day => 86400,
        }
    }

    /// Returns the starts of the spans from the one that contains `from` to the last one before `to`, and the end of the
    /// last one. Spans begin at multiples of their length in UTC. `None`: there are more than `most`, none, or one beyond
    /// the times that can be represented.
    #[must_use]
    pub fn spans(self, from: DateTime<Utc>, to: DateTime<Utc>, most: usize) -> Option<Spans> {
        let length = i64::from(self.seconds());
        let first = from.timestamp().div_euclid(length);
        let part = i64::from(to.timestamp_subsec_nanos() > 0);
        let last = (to.timestamp() + part + length - 1).div_euclid(length);
        usize::try_from(last - first).ok().filter(|count| *count <= most && from < to)?;
        let start = |number: i64| DateTime::from_timestamp(number * length, 0);
        let starts = (first..last).map(start).collect::<Option<Vec<_>>>()?;
        Some(Spans { from: start(first)?, to: start(last)?, starts })
    }
}

/// Adjacent spans of the same length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    /// Start of the first span.
    pub from: DateTime<Utc>,
    /// End of the last span.
    pub to: DateTime<Utc>,
    /// Start of each span.
    pub starts: Vec<DateTime<Utc>>,
}

/// Numbers of durations by class.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Durations {
    by_class: BTreeMap<i16, i64>,
}

impl Durations {
    /// Adds durations of a class.
    pub fn add(&mut self, class: i16, count: i64) {
        *self.by_class.entry(class).or_default() += count;
    }

    /// Returns the duration in seconds that this share of the durations (above 0, up to 1) does not exceed; `None` without
    /// durations.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a number of executions is below 2^53")]
    pub fn percentile(&self, share: f64) -> Option<f64> {
        let wanted = self.by_class.values().sum::<i64>() as f64 * share;
        let mut counted = 0;
        let reached = |(class, count): (&i16, &i64)| {
            counted += *count;
            (counted > 0 && counted as f64 >= wanted).then_some(*class)
        };
        self.by_class.iter().find_map(reached).map(seconds_of)
    }
}

/// Returns the duration in seconds that differs least from those of a class, relative to them.
fn seconds_of(class: i16) -> f64 {
    let milliseconds = if class < 1 { 1.0 } else { FACTOR.powi(i32::from(class)) * (1.0 - ERROR) };
    milliseconds / 1000.0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the class of a duration in milliseconds, as `noetl.history_class` does.
    #[expect(clippy::cast_possible_truncation, reason = "classes of a few hundred")]
    fn class(milliseconds: f64) -> i16 {
        (milliseconds.max(1.0).ln() / FACTOR.ln()).ceil() as i16
    }

    proptest! {
        #[test]
        fn percentiles_differ_from_the_exact_ones_by_at_most_5_percent_or_a_millisecond(
            mut milliseconds in prop::collection::vec((0.0..42.0_f64).prop_map(|power| power.exp2() - 1.0), 1..200),
            share in prop::sample::select(vec![0.5, 0.95, 0.99, 1.0]),
        ) {
            let mut durations = Durations::default();
            for one in &milliseconds {
                durations.add(class(*one), 1);
            }
            milliseconds.sort_by(f64::total_cmp);
            let number = |count: usize| f64::from(u32::try_from(count).unwrap());
            let wanted = number(milliseconds.len()) * share;
            let exact = (1..).zip(&milliseconds).find(|(rank, _)| number(*rank) >= wanted).map(|(_, one)| *one).unwrap();
            let estimate = durations.percentile(share).unwrap() * 1000.0;
            let error = (estimate - exact).abs();
            prop_assert!(error <= (exact * 0.0501).max(1.0), "{estimate} of {exact}");
        }

        #[test]
        fn spans_cover_the_time_without_a_gap(from in 0_i64..4_000_000_000, seconds in 1_i64..90_000, nanos in 0_u32..2) {
            for interval in [Interval::Minute, Interval::Hour, Interval::Day] {
                let to = DateTime::from_timestamp(from + seconds, nanos).unwrap();
                let from = DateTime::from_timestamp(from, 0).unwrap();
                let spans = interval.spans(from, to, 2000).unwrap();
                let length = chrono::TimeDelta::seconds(interval.seconds().into());
                prop_assert!(spans.from <= from && from < spans.from + length);
                prop_assert!(spans.to >= to && to > spans.to - length);
                let ends: Vec<_> = spans.starts.iter().map(|start| *start + length).collect();
                prop_assert_eq!((spans.starts.first(), ends.last()), (Some(&spans.from), Some(&spans.to)));
                prop_assert_eq!(&spans.starts[1..], &ends[..ends.len() - 1]);
            }
        }
    }

    #[test]
    fn too_many_spans_and_an_empty_time_are_refused() {
        let at = |seconds| DateTime::from_timestamp(seconds, 0).unwrap();
        assert!(Interval::Minute.spans(at(0), at(600), 10).is_some());
        assert_eq!(Interval::Minute.spans(at(0), at(601), 10), None);
        assert_eq!(Interval::Minute.spans(at(5), at(5), 10), None);
        assert_eq!(Interval::Minute.spans(at(6), at(5), 10), None);
        let (first, last) = (DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC);
        assert_eq!(Interval::Day.spans(first, last, 10), None);
        assert_eq!(Durations::default().percentile(0.5), None);
    }
}
