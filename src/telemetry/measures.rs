//! The kinds of metric: prometheus's own, with the conversions this program needs. Counting is one atomic operation.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::time::Duration;

use prometheus::core::Collector;
use prometheus::{
    Error, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

/// A closed set of label values.
pub trait Label: Copy + Eq + Hash + 'static {
    /// The names of the labels.
    const NAMES: &'static [&'static str];

    /// The members whose series exist from the start.
    fn all() -> Vec<Self>;

    /// The values, one for each name.
    fn values(self) -> Vec<&'static str>;
}

/// Registers a metric of one kind.
pub(super) trait Register: Sized {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error>;
}

/// Counts up.
#[derive(Clone, Debug)]
pub struct Counter(IntCounter);

impl Counter {
    /// One more.
    pub fn increment(&self) {
        self.0.inc();
    }

    /// `count` more; a negative number counts as a huge one, so pass none.
    pub fn add<N: TryInto<u64>>(&self, count: N) {
        self.0.inc_by(count.try_into().unwrap_or(u64::MAX));
    }

    /// The count since the start.
    #[must_use]
    pub fn value(&self) -> u64 {
        self.0.get()
    }
}

impl Register for Counter {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        Ok(Self(registered(registry, IntCounter::new(name, help)?)?))
    }
}

/// Shows the present value.
#[derive(Clone, Debug)]
pub struct Gauge(IntGauge);

impl Gauge {
    /// Sets the value; what does not fit becomes the highest.
    pub fn set<N: TryInto<i64>>(&self, value: N) {
        self.0.set(value.try_into().unwrap_or(i64::MAX));
    }

    /// The present value.
    #[must_use]
    pub fn value(&self) -> i64 {
        self.0.get()
    }
}

impl Register for Gauge {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        Ok(Self(registered(registry, IntGauge::new(name, help)?)?))
    }
}

/// Counts up, apart by label.
pub struct CounterBy<L> {
    counters: IntCounterVec,
    prepared: HashMap<L, IntCounter>,
}

impl<L: Label> CounterBy<L> {
    /// One more with this label.
    pub fn increment(&self, label: L) {
        self.child(label).inc();
    }

    /// The count since the start.
    #[must_use]
    pub fn value(&self, label: L) -> u64 {
        self.child(label).get()
    }

    fn child(&self, label: L) -> IntCounter {
        // The second way is for pairs that are not there from the start; the set is closed all the same.
        self.prepared.get(&label).cloned().unwrap_or_else(|| self.counters.with_label_values(&label.values()))
    }
}

impl<L: Label> Register for CounterBy<L> {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        let counters = registered(registry, IntCounterVec::new(Opts::new(name, help), L::NAMES)?)?;
        let prepared =
            L::all().into_iter().map(|label| (label, counters.with_label_values(&label.values()))).collect();
        Ok(Self { counters, prepared })
    }
}

/// Shows the present value, apart by label.
pub struct GaugeBy<L> {
    gauges: IntGaugeVec,
    prepared: HashMap<L, IntGauge>,
}

impl<L: Label> GaugeBy<L> {
    /// Sets the value of this label.
    pub fn set<N: TryInto<i64>>(&self, label: L, value: N) {
        let value = value.try_into().unwrap_or(i64::MAX);
        match self.prepared.get(&label) {
            Some(gauge) => gauge.set(value),
            None => self.gauges.with_label_values(&label.values()).set(value),
        }
    }
}

impl<L: Label> Register for GaugeBy<L> {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        let gauges = registered(registry, IntGaugeVec::new(Opts::new(name, help), L::NAMES)?)?;
        let prepared =
            L::all().into_iter().map(|label| (label, gauges.with_label_values(&label.values()))).collect();
        Ok(Self { gauges, prepared })
    }
}

/// Shows parts of a whole between 0 and 1, apart by label.
pub struct RatioBy<L> {
    gauges: GaugeVec,
    labels: std::marker::PhantomData<L>,
}

impl<L: Label> RatioBy<L> {
    /// Sets hundredths of the whole.
    pub fn set_hundredths(&self, label: L, hundredths: u64) {
        let hundredths = u32::try_from(hundredths).unwrap_or(u32::MAX);
        self.gauges.with_label_values(&label.values()).set(f64::from(hundredths) / 100.0);
    }
}

impl<L: Label> Register for RatioBy<L> {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        let gauges = registered(registry, GaugeVec::new(Opts::new(name, help), L::NAMES)?)?;
        for label in L::all() {
            gauges.with_label_values(&label.values()).set(0.0);
        }
        Ok(Self { gauges, labels: std::marker::PhantomData })
    }
}

impl<L> fmt::Debug for RatioBy<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RatioBy").finish_non_exhaustive()
    }
}

/// How long something took, in seconds.
#[derive(Clone, Debug)]
pub struct DurationHistogram(Histogram);

impl DurationHistogram {
    /// Upper bounds of the buckets in seconds: from a fast device to a write that is about to time out.
    const BUCKETS: &'static [f64] =
        &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0];

    /// Notes one duration.
    pub fn observe(&self, duration: Duration) {
        self.0.observe(duration.as_secs_f64());
    }
}

impl Register for DurationHistogram {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        let options = HistogramOpts::new(name, help).buckets(Self::BUCKETS.to_vec());
        Ok(Self(registered(registry, Histogram::with_opts(options)?)?))
    }
}

/// How many there were at a time.
#[derive(Clone, Debug)]
pub struct SizeHistogram(Histogram);

impl SizeHistogram {
    /// Upper bounds of the buckets, up to the largest batch that can be configured.
    const BUCKETS: &'static [f64] =
        &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0];

    /// Notes one size.
    pub fn observe(&self, size: usize) {
        self.0.observe(f64::from(u32::try_from(size).unwrap_or(u32::MAX)));
    }
}

impl Register for SizeHistogram {
    fn register(registry: &Registry, name: &str, help: &str) -> Result<Self, Error> {
        let options = HistogramOpts::new(name, help).buckets(Self::BUCKETS.to_vec());
        Ok(Self(registered(registry, Histogram::with_opts(options)?)?))
    }
}

fn registered<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> Result<C, Error> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

impl<L> fmt::Debug for CounterBy<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("CounterBy").field("series", &self.prepared.len()).finish_non_exhaustive()
    }
}

impl<L> fmt::Debug for GaugeBy<L> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("GaugeBy").field("series", &self.prepared.len()).finish_non_exhaustive()
    }
}
