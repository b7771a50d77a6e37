//! Descriptions of metrics, for the recorder and for documentation.

use metrics::{Label, counter, describe_counter, describe_gauge, describe_histogram};

/// Type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricType {
    /// Number that only grows.
    Counter,
    /// Number that grows and shrinks.
    Gauge,
    /// Distribution of numbers.
    Histogram,
}

/// A metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Type.
    pub metric_type: MetricType,
    /// Names of the labels.
    pub labels: &'static [&'static str],
    /// Meaning, with the unit if the name does not have it.
    pub description: &'static str,
    /// Upper bounds of a histogram's buckets, in increasing order.
    pub buckets: &'static [f64],
}

impl Metric {
    /// Creates a counter.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], description: &'static str) -> Self {
        Self { name, metric_type: MetricType::Counter, labels, description, buckets: &[] }
    }

    /// Creates a gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], description: &'static str) -> Self {
        Self { name, metric_type: MetricType::Gauge, labels, description, buckets: &[] }
    }

    /// Creates a histogram.
    #[must_use]
    pub const fn histogram(
        name: &'static str,
        labels: &'static [&'static str],
        description: &'static str,
        buckets: &'static [f64],
    ) -> Self {
        Self { name, metric_type: MetricType::Histogram, labels, description, buckets }
    }

    /// Describes the metric to the recorder.
    pub fn describe(&self) {
        match self.metric_type {
            MetricType::Counter => describe_counter!(self.name, self.description),
            MetricType::Gauge => describe_gauge!(self.name, self.description),
            MetricType::Histogram => describe_histogram!(self.name, self.description),
        }
    }

    /// Starts a counter at 0, so that a scraper sees its first increase. `values` are the known values of a label; a counter
    /// with other labels starts at its first use.
    pub fn begin(&self, values: &[(&'static str, Vec<String>)]) {
        if self.metric_type != MetricType::Counter {
            return;
        }
        match self.labels {
            [] => counter!(self.name).absolute(0),
            [label] => {
                let known = values.iter().filter(|(name, _)| name == label).flat_map(|(_, values)| values);
                for value in known {
                    counter!(self.name, vec![Label::new(*label, value.clone())]).absolute(0);
                }
            }
            _ => {}
        }
    }
}
