//! Descriptions of metrics, for the recorder and for documentation.

use metrics::{describe_counter, describe_gauge, describe_histogram};

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
}

impl Metric {
    /// Creates a counter.
    #[must_use]
    pub const fn counter(name: &'static str, labels: &'static [&'static str], description: &'static str) -> Self {
        Self { name, metric_type: MetricType::Counter, labels, description }
    }

    /// Creates a gauge.
    #[must_use]
    pub const fn gauge(name: &'static str, labels: &'static [&'static str], description: &'static str) -> Self {
        Self { name, metric_type: MetricType::Gauge, labels, description }
    }

    /// Creates a histogram.
    #[must_use]
    pub const fn histogram(name: &'static str, labels: &'static [&'static str], description: &'static str) -> Self {
        Self { name, metric_type: MetricType::Histogram, labels, description }
    }

    /// Describes the metric to the recorder.
    pub fn describe(&self) {
        match self.metric_type {
            MetricType::Counter => describe_counter!(self.name, self.description),
            MetricType::Gauge => describe_gauge!(self.name, self.description),
            MetricType::Histogram => describe_histogram!(self.name, self.description),
        }
    }
}
