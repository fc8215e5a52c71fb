//! Formats the totals of a running load as OpenMetrics text (version 1.0.0), the format that
//! Prometheus reads.

use dyno_analysis::load::percentile_value::quantile_of_due;
use dyno_analysis::load::{LoadConfig, Percentiles};
use dyno_model::times::Recording;
use dyno_model::{Interval, Outcome, Outcomes, Phase};

use crate::present::exposition::Exposition;
use crate::redact;

/// Media type of the page.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const QUANTILES: [f64; 6] = [0.5, 0.75, 0.9, 0.99, 0.999, 0.9999];

/// Totals since the load began. Fields include the warm-up, except where noted.
#[derive(Debug, Default)]
pub struct LoadTotals {
    url: String,
    outcomes: Outcomes,
    dropped: u64,
    bytes_sent: u64,
    bytes_received: u64,
    /// Response times of correct responses, without the warm-up.
    response: Recording,
    /// Intended requests without a correct response, without the warm-up.
    unanswered: u64,
    /// Open connections in the last interval before the drain. The next two fields are from the
    /// same interval. `None`: no interval has ended, or the value is unknown.
    connections_open: Option<f64>,
    throughput_rps: Option<f64>,
    busiest_thread: Option<f64>,
}

impl LoadTotals {
    #[must_use]
    pub fn new(config: &LoadConfig) -> LoadTotals {
        // Secrets are removed, because monitoring systems store labels and show them to others.
        LoadTotals { url: redact::text(&config.url), ..LoadTotals::default() }
    }

    /// Adds an interval that has ended.
    pub fn add(&mut self, interval: &Interval) {
        self.outcomes.add(&interval.outcomes);
        self.outcomes.add(&interval.carried);
        self.dropped += interval.dropped;
        self.bytes_sent += interval.bytes_sent;
        self.bytes_received += interval.bytes_received;
        let result = dyno_analysis::load::interval_result(interval);
        if interval.phase != Phase::Warmup {
            self.response.add(&interval.times.response);
            self.unanswered += result.response_time_us.unanswered;
        }
        if interval.phase != Phase::Drain {
            self.connections_open = Some(result.connections_open as f64);
            self.throughput_rps = Some(result.throughput_rps);
            self.busiest_thread = result.busiest_thread_utilisation;
        }
    }

    /// Formats the page at `/metrics`.
    #[must_use]
    pub fn page(&self) -> String {
        let mut out = Exposition::default();
        let url = [("url", self.url.as_str())];
        let exchanges = "Exchanges (requests with their responses) that ended, by outcome.";
        out.metric("dyno_exchanges", ("counter", ""), exchanges);
        for outcome in Outcome::ALL {
            let labels = [url[0], ("outcome", outcome.name())];
            out.sample("dyno_exchanges_total", &labels, self.outcomes.get(*outcome));
        }
        let dropped = "Requests that dyno did not send, because too many were waiting.";
        for (name, unit, help, value) in [
            ("dyno_dropped", "", dropped, self.dropped),
            ("dyno_sent_bytes", "bytes", "Bytes sent.", self.bytes_sent),
            ("dyno_received_bytes", "bytes", "Bytes received.", self.bytes_received),
        ] {
            out.metric(name, ("counter", unit), help);
            out.sample(&format!("{name}_total"), &url, value);
        }
        // A gauge has no sample until its first interval has ended, and while its value is unknown.
        let throughput = "Correct responses per second in the last interval.";
        let busiest = "CPU share of the busiest generator thread.";
        for (name, help, value) in [
            ("dyno_connections_open", "Open connections.", self.connections_open),
            ("dyno_throughput_rps", throughput, self.throughput_rps),
            ("dyno_generator_utilisation", busiest, self.busiest_thread),
        ] {
            out.gauge(name, help, &url, value);
        }
        self.write_response_time(&mut out);
        out.into_text() + "# EOF\n"
    }

    /// Writes the summary of response times.
    fn write_response_time(&self, out: &mut Exposition) {
        let name = "dyno_response_time_seconds";
        let url = [("url", self.url.as_str())];
        let times = self.response.to_times();
        let intended = Percentiles { unanswered: self.unanswered, ..Percentiles::new(&times) };
        out.metric(
            name,
            ("summary", "seconds"),
            "Response time from the intended start to the last byte, since the window opened. Sum \
             and count are of correct responses. Quantiles rank all intended requests. A quantile \
             is +Inf if it lies among requests without a correct response.",
        );
        for q in QUANTILES.into_iter().filter(|q| intended.has_samples_above(*q)) {
            let seconds = match quantile_of_due(&intended, &times, q) {
                Some(us) => (us / 1e6).to_string(),
                None if intended.is_unanswered(q) => "+Inf".into(),
                None => continue,
            };
            out.sample(name, &[url[0], ("quantile", &q.to_string())], seconds);
        }
        let sum = times.mean().unwrap_or(0.0) * times.count() as f64 / 1e9;
        out.sample(&format!("{name}_sum"), &url, sum);
        out.sample(&format!("{name}_count"), &url, times.count());
    }
}
