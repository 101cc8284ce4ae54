//! Metrics: one process-wide recorder, rendered for Prometheus. No sandbox id is ever a label.

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Upper bounds of the create histogram, seconds: fine around the promised 8 ms.
const CREATE_BUCKETS: [f64; 14] = [
    0.0005, 0.001, 0.002, 0.003, 0.005, 0.008, 0.012, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0,
];

static RECORDER: OnceLock<PrometheusHandle> = OnceLock::new();

/// The handle of the process's recorder; installs it at the first call.
pub(crate) fn recorder() -> &'static PrometheusHandle {
    RECORDER.get_or_init(|| {
        let recorder = PrometheusBuilder::new()
            .set_buckets_for_metric(Matcher::Full("node_create_seconds".into()), &CREATE_BUCKETS)
            .expect("the list of buckets is not empty")
            .build_recorder();
        let handle = recorder.handle();
        describe();
        if metrics::set_global_recorder(recorder).is_err() {
            tracing::warn!("another metrics recorder is installed; /metrics stays empty");
        }
        handle
    })
}

fn describe() {
    use metrics::{describe_counter, describe_gauge, describe_histogram};
    describe_histogram!("node_create_seconds", "time of creates by stage");
    describe_counter!(
        "node_pool_claims_total",
        "claims of a waiting shell by result"
    );
    describe_counter!("node_ends_total", "ends of sandboxes by cause");
    describe_counter!(
        "node_removal_failures_total",
        "sandboxes of which something remains"
    );
    describe_gauge!("node_sandboxes_running", "sandboxes that run");
    describe_gauge!(
        "node_sandboxes_ending",
        "ended sandboxes that are not removed yet"
    );
    describe_gauge!("node_pool_waiting", "waiting shells");
}

/// Times of the stages of one create.
#[derive(Debug)]
pub(crate) struct Stages {
    begin: Instant,
    last: Instant,
    ended: Vec<(&'static str, Duration)>,
}

impl Stages {
    pub(crate) fn begin() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            last: now,
            ended: Vec::with_capacity(3),
        }
    }

    pub(crate) fn end(&mut self, stage: &'static str) {
        let now = Instant::now();
        self.ended.push((stage, now - self.last));
        self.last = now;
    }

    pub(crate) fn total(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(crate) fn publish(&self) {
        let record = |stage, time: Duration| {
            metrics::histogram!("node_create_seconds", "stage" => stage).record(time);
        };
        for (stage, time) in &self.ended {
            record(*stage, *time);
        }
        record("total", self.total());
    }
}
