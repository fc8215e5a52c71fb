//! Defines all metrics, each with its key, its unit and the function that returns its value.
//!
//! Summaries, comparisons and tables use [`METRICS`], so a new metric needs only an entry there.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use crate::load::Percentiles;
use crate::load::percentile_value::PercentileValue;
use crate::series::{RepeatValue, TurnValues};
use crate::server::ServerUse;
use crate::stats::Repeated;
use crate::trial::TrialResult;
use crate::turns::RoundResult;
pub use crate::unit::Unit;

/// A quantity that is measured per trial.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Metric {
    /// Name in results, such as `throughput_rps`.
    pub key: &'static str,
    /// Name in reports.
    pub title: &'static str,
    pub unit: Unit,
    pub better: Better,
    /// Whether the metric depends on the wait for CPUs, directly or through work that accumulates
    /// during the wait. Such a metric does not compare servers that are loaded at the same time on
    /// the same CPUs.
    #[serde(skip)]
    pub includes_waits: bool,
    /// Trials of a cell that are included in the metric.
    #[serde(skip)]
    pub selection: TrialSelection,
    /// Function that returns the value in a trial; `None`: not measured in the trial.
    #[serde(skip)]
    pub pick: fn(&TrialResult) -> Option<f64>,
    /// Function that returns the value in a round of turns; `None`: measured per trial only.
    #[serde(skip)]
    pick_round: Option<fn(&RoundResult) -> Option<f64>>,
}

/// Direction in which a metric is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    Higher,
    Lower,
    /// Neither direction is better: the metric only explains others.
    Neither,
}

/// Trials of a cell (one arm, workload and step) that are included in a metric.
#[derive(Clone, Copy, Debug)]
pub enum TrialSelection {
    /// Valid trials.
    Valid,
    /// Valid trials, and trials that are invalid only because of the generator's capacity. The
    /// generator's capacity limits a server's request rate, not the cost of a request.
    ValidOrLimited,
    /// All trials, for the share of errors. Errors are often the reason why a trial is not valid,
    /// so valid trials alone would hide them.
    All,
    /// Valid trials, for a percentile: its quantile (0 to 1), and its distribution. Trials in which
    /// the percentile lies among the unanswered requests rank above all others.
    Quantile(f64, fn(&TrialResult) -> Option<&Percentiles>),
}

/// Metrics are equal if their keys are, because keys are unique.
impl PartialEq for Metric {
    fn eq(&self, other: &Metric) -> bool {
        self.key == other.key
    }
}

/// Returns a metric over valid trials that does not depend on the wait for CPUs.
const fn metric(
    key: &'static str,
    title: &'static str,
    unit: Unit,
    better: Better,
    pick: fn(&TrialResult) -> Option<f64>,
) -> Metric {
    Metric {
        key,
        title,
        unit,
        better,
        includes_waits: false,
        selection: TrialSelection::Valid,
        pick,
        pick_round: None,
    }
}

impl Metric {
    /// Returns the metric over the selected trials.
    const fn with_selection(self, selection: TrialSelection) -> Metric {
        Metric { selection, ..self }
    }

    /// Returns the metric with values in the rounds of turns.
    const fn with_rounds(self, pick_round: fn(&RoundResult) -> Option<f64>) -> Metric {
        Metric { pick_round: Some(pick_round), ..self }
    }

    /// Returns the metric with [`Metric::includes_waits`] set.
    const fn with_waits(self) -> Metric {
        Metric { includes_waits: true, ..self }
    }

    /// Returns the metric with this key.
    ///
    /// # Panics
    /// If no metric has this key.
    #[must_use]
    pub fn from_key(key: &str) -> &'static Metric {
        METRICS
            .iter()
            .find(|metric| metric.key == key)
            .unwrap_or_else(|| panic!("there is no metric {key:?}"))
    }

    /// Whether the metric includes a trial.
    pub(crate) fn includes(&self, trial: &TrialResult) -> bool {
        match self.selection {
            TrialSelection::All => true,
            TrialSelection::ValidOrLimited => trial.valid || trial.has_known_cost(),
            TrialSelection::Valid | TrialSelection::Quantile(..) => trial.valid,
        }
    }

    /// Returns the metric's value in a trial. A metric that includes the wait for CPUs has no value
    /// if other servers were loaded at the same time.
    pub(crate) fn point(&self, trial: &TrialResult) -> RepeatValue {
        if self.includes_waits && trial.duet.is_some() {
            return RepeatValue::Missing;
        }
        if self.is_unanswered(trial) {
            return RepeatValue::Unanswered;
        }
        (self.pick)(trial).map_or(RepeatValue::Missing, RepeatValue::Known)
    }

    /// Returns the metric's values in the rounds of a trial that took turns, or ran at the same
    /// time as others. `None`: the trial ran alone.
    pub(crate) fn turn_values(&self, trial: &TrialResult) -> Option<TurnValues> {
        let turns = trial.turns.as_ref().map(|turns| (turns.began_ns, &turns.rounds));
        let (began_ns, rounds) =
            turns.or(trial.duet.as_ref().map(|duet| (duet.began_ns, &duet.rounds)))?;
        let rounds = self.pick_round.and_then(|pick| rounds.iter().map(pick).collect());
        Some(TurnValues { began_ns, rounds })
    }

    /// Whether the metric is a percentile, and lies among the trial's unanswered requests.
    fn is_unanswered(&self, trial: &TrialResult) -> bool {
        match self.selection {
            TrialSelection::Quantile(q, percentiles) => percentiles(trial)
                .is_some_and(|p| matches!(p.value(q), PercentileValue::Unanswered(_))),
            TrialSelection::Valid | TrialSelection::ValidOrLimited | TrialSelection::All => false,
        }
    }

    /// Whether the metric includes repeats in which only the generator's capacity was the limit.
    pub(crate) const fn includes_limited(&self) -> bool {
        matches!(self.selection, TrialSelection::ValidOrLimited)
    }

    /// Whether the metric is a percentile of times.
    pub(crate) const fn is_percentile(&self) -> bool {
        matches!(self.selection, TrialSelection::Quantile(..))
    }

    /// Whether two cells may be compared by this metric. A metric over all trials includes invalid
    /// trials, which do not form pairs.
    pub(crate) const fn has_ratios(&self) -> bool {
        !matches!(self.selection, TrialSelection::All)
    }
}

/// A metric over the repeats of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OverStep")]
pub struct MetricSummary {
    #[serde(flatten)]
    pub repeats: Repeated,
    /// Number of repeats in which the percentile lies among the unanswered requests, which rank
    /// above every known value.
    #[serde(rename = "beyond")]
    pub unanswered_repeats: usize,
}

/// Metrics over the repeats of one cell, without unknown metrics.
pub type ByMetric = BTreeMap<MetricId, MetricSummary>;

/// Ratios of metrics, without unknown ratios.
pub type Ratios = BTreeMap<MetricId, Repeated>;

/// Returns the values of a metric over repeats; without values if the metric is unknown.
#[must_use]
pub fn repeats_of(metrics: &ByMetric, id: MetricId) -> &Repeated {
    metrics.get(&id).map_or(&NO_REPEATS, |metric| &metric.repeats)
}

/// Returns a ratio; without values if it is unknown.
#[must_use]
pub fn ratio_of(ratios: &Ratios, id: MetricId) -> &Repeated {
    ratios.get(&id).unwrap_or(&NO_REPEATS)
}

static NO_REPEATS: LazyLock<Repeated> = LazyLock::new(Repeated::default);

fn response(t: &TrialResult) -> Option<&Percentiles> {
    Some(&t.load.response_time_us)
}

fn service(t: &TrialResult) -> Option<&Percentiles> {
    Some(&t.load.service_time_us)
}

fn page(t: &TrialResult) -> Option<&Percentiles> {
    Some(&t.load.pages.as_ref()?.group.time_us)
}

fn visit(t: &TrialResult) -> Option<&Percentiles> {
    Some(&t.load.visits.as_ref()?.group.time_us)
}

fn server(t: &TrialResult) -> &ServerUse {
    &t.server
}

/// Returns the memory that the server itself holds, in bytes.
pub(crate) fn memory(t: &TrialResult) -> Option<f64> {
    t.server.memory_held_bytes.map(|bytes| bytes as f64)
}

use Better::{Higher, Lower, Neither};
use Unit::{Bytes, Count, MegabyteSeconds, Microseconds, PerSecond, Share};

pub const THROUGHPUT: Metric =
    metric("throughput_rps", "Throughput", PerSecond, Higher, |t| Some(t.load.throughput_rps))
        .with_rounds(|round| round.throughput_rps)
        .with_waits();
pub const RESPONSE_P50: Metric =
    metric("response_p50_us", "Response time, p50", Microseconds, Lower, |t| response(t)?.p50)
        .with_selection(TrialSelection::Quantile(0.5, response))
        .with_waits();
pub const RESPONSE_P90: Metric =
    metric("response_p90_us", "Response time, p90", Microseconds, Lower, |t| response(t)?.p90)
        .with_selection(TrialSelection::Quantile(0.9, response))
        .with_waits();
pub const RESPONSE_P99: Metric =
    metric("response_p99_us", "Response time, p99", Microseconds, Lower, |t| response(t)?.p99)
        .with_selection(TrialSelection::Quantile(0.99, response))
        .with_waits();
pub const ERROR_SHARE: Metric =
    metric("error_share", "Requests without a correct response", Share, Lower, |t| t.error_share)
        .with_selection(TrialSelection::All);
pub const CPU: Metric = metric(
    "server_cpu_us_per_request",
    "Server's CPU time per request",
    Microseconds,
    Lower,
    |t| server(t).cpu_us_per_request,
)
.with_selection(TrialSelection::ValidOrLimited)
.with_rounds(|round| round.cpu_us_per_request);
pub const MEMORY: Metric =
    metric("server_memory_bytes", "Server's memory", Unit::Bytes, Lower, memory);
pub const MEMORY_TIME: Metric = metric(
    "server_memory_mb_s_per_request",
    "Server's memory × time per response",
    MegabyteSeconds,
    Lower,
    |t| server(t).memory_mb_s_per_request,
)
.with_waits();
pub const PAGE_CACHE: Metric =
    metric("server_memory_file_bytes", "Page cache of the server's files", Bytes, Neither, |t| {
        Some(server(t).memory_file_bytes? as f64)
    });
pub const KERNEL_MEMORY: Metric =
    metric("server_memory_kernel_bytes", "Kernel's memory for the server", Bytes, Lower, |t| {
        Some(server(t).memory_kernel_bytes? as f64)
    });
pub const CONTEXT_SWITCHES: Metric = metric(
    "server_context_switches_per_request",
    "Server's context switches per response",
    Count,
    Neither,
    |t| server(t).per_request.context_switches,
)
.with_waits();

/// Defines [`MetricId`] and [`METRICS`]: each metric by its name in code, in the order of tables.
macro_rules! metrics {
    ($($id:ident = $metric:expr;)*) => {
        /// A metric, as an index of [`METRICS`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum MetricId {
            $($id,)*
        }

        /// Every metric, in the order of tables.
        pub static METRICS: &[Metric] = &[$($metric,)*];

        impl MetricId {
            /// Every metric, in the order of [`METRICS`].
            pub const ALL: &[MetricId] = &[$(MetricId::$id,)*];
        }
    };
}

metrics! {
    Throughput = THROUGHPUT;
    ResponseP50 = RESPONSE_P50;
    ResponseP90 = RESPONSE_P90;
    ResponseP99 = RESPONSE_P99;
    ResponseP999 =
        metric("response_p99_9_us", "Response time, p99.9", Microseconds, Lower, |t| {
            response(t)?.p99_9
        })
        .with_selection(TrialSelection::Quantile(0.999, response))
        .with_waits();
    ServiceP50 =
        metric("service_p50_us", "Service time, p50", Microseconds, Lower, |t| service(t)?.p50)
            .with_selection(TrialSelection::Quantile(0.5, service))
            .with_waits();
    ServiceP99 =
        metric("service_p99_us", "Service time, p99", Microseconds, Lower, |t| service(t)?.p99)
            .with_selection(TrialSelection::Quantile(0.99, service))
            .with_waits();
    SendLagP99 =
        metric("send_lag_p99_us", "Send lag, p99", Microseconds, Neither, |t| {
            t.load.send_lag_us.p99
        })
        .with_waits();
    ErrorShare = ERROR_SHARE;
    Cpu = CPU;
    UserCpu = metric(
        "server_cpu_user_us_per_request",
        "Server's CPU time per request, in user space",
        Microseconds,
        Lower,
        |t| server(t).per_request.cpu_user_us,
    )
    .with_selection(TrialSelection::ValidOrLimited);
    SystemCpu = metric(
        "server_cpu_sys_us_per_request",
        "Server's CPU time per request, in the kernel",
        Microseconds,
        Lower,
        |t| server(t).per_request.cpu_sys_us,
    )
    .with_selection(TrialSelection::ValidOrLimited);
    CpuUtilisation = metric(
        "server_cpu_utilisation",
        "Server's CPU use (share of its allowed CPU time)",
        Share,
        Neither,
        |t| server(t).cpu_utilisation,
    )
    .with_waits();
    BusiestThread = metric(
        "server_busiest_thread",
        "CPU use of the server's busiest thread",
        Share,
        Neither,
        |t| server(t).busiest_thread_utilisation,
    )
    .with_waits();
    Threads = metric("server_threads", "Server's threads", Count, Neither, |t| {
        server(t).threads.filter(|n| *n > 0).map(|n| n as f64)
    });
    RunDelay = metric(
        "server_run_delay_us_per_request",
        "Wait of the server's threads for a CPU, per response",
        Microseconds,
        Lower,
        |t| server(t).per_request.run_delay_us,
    )
    .with_waits();
    ContextSwitches = CONTEXT_SWITCHES;
    WakeUps = metric(
        "server_wakeups_per_request",
        "Server's wake-ups per response",
        Count,
        Neither,
        |t| server(t).per_request.wakeups,
    )
    .with_waits();
    PageFaults = metric(
        "server_page_faults_per_request",
        "Server's page faults per response",
        Count,
        Lower,
        |t| server(t).per_request.page_faults,
    );
    SystemCalls = metric(
        "server_syscalls_per_request",
        "Server's system calls per response",
        Count,
        Neither,
        |t| Some(server(t).calls.as_ref()?.per_response),
    )
    .with_waits();
    BytesPerRead =
        metric("server_bytes_per_read", "Server's bytes per read", Bytes, Neither, |t| {
            server(t).calls.as_ref()?.reads?.bytes_per_call
        })
        .with_waits();
    BytesPerWrite =
        metric("server_bytes_per_write", "Server's bytes per write", Bytes, Neither, |t| {
            server(t).calls.as_ref()?.writes?.bytes_per_call
        })
        .with_waits();
    Writes =
        metric("server_writes_per_request", "Server's writes per response", Count, Neither, |t| {
            Some(server(t).calls.as_ref()?.writes?.per_response)
        })
        .with_waits();
    EventsPerWait = metric(
        "server_events_per_wait",
        "Server's events per epoll_wait or similar call",
        Count,
        Neither,
        |t| server(t).calls.as_ref()?.events_per_wait,
    )
    .with_waits();
    NoDelay =
        metric("server_nodelay", "Server's connections with TCP_NODELAY", Share, Neither, |t| {
            server(t).sockets.as_ref()?.nodelay
        });
    Memory = MEMORY;
    MemoryTime = MEMORY_TIME;
    BytesReceived =
        metric("bytes_in_per_response", "Bytes received per response", Bytes, Neither, |t| {
            t.load.bytes.per_response(t.load.bytes.received)
        });
    BytesSent =
        metric("bytes_out_per_response", "Bytes sent per response", Bytes, Neither, |t| {
            t.load.bytes.per_response(t.load.bytes.sent)
        });
    Segments = metric(
        "segments_per_response",
        "Received TCP segments with data, per response",
        Count,
        Neither,
        |t| t.load.tcp.data_segments_per_response,
    )
    .with_waits();
    Retransmits =
        metric("retransmits", "Generator's TCP retransmits", Count, Lower, |t| {
            t.load.tcp.retransmits.map(|n| n as f64)
        })
        .with_waits();
    FramesPerSegment =
        metric("frames_per_segment", "HTTP/2 frames per TCP segment", Count, Neither, |t| {
            t.load.http2.as_ref()?.frames_per_segment
        })
        .with_waits();
    Http2Segments = metric(
        "http2_segments_per_response",
        "Received TCP segments per HTTP/2 response",
        Count,
        Neither,
        |t| t.load.http2.as_ref()?.segments_per_response,
    )
    .with_waits();
    Frames =
        metric("frames_per_response", "HTTP/2 frames received per response", Count, Neither, |t| {
            Some(t.load.http2.as_ref()?.frames_per_response.values().sum())
        });
    HeaderBytesSavedIn = metric(
        "header_bytes_saved_in",
        "Share of received header bytes saved by HPACK",
        Share,
        Neither,
        |t| t.load.http2.as_ref()?.header_fields_in.saved,
    );
    HeaderBytesSavedOut = metric(
        "header_bytes_saved_out",
        "Share of sent header bytes saved by HPACK",
        Share,
        Neither,
        |t| t.load.http2.as_ref()?.header_fields_out.saved,
    );
    WindowStalls = metric(
        "window_stalls",
        "Stalls of request bodies by HTTP/2 flow control",
        Count,
        Lower,
        |t| Some(t.load.http2.as_ref()?.window_stall_us.count as f64),
    )
    .with_waits();
    RequestsRetried =
        metric("requests_retried", "HTTP/2 requests retried", Count, Lower, |t| {
            Some(t.load.http2.as_ref()?.retried as f64)
        });
    ResponsesPerReceive =
        metric("responses_per_receive", "HTTP/2 responses per receive", Count, Neither, |t| {
            t.load.http2.as_ref()?.responses_per_receive
        })
        .with_waits();
    PagesPerSecond = metric("pages_per_second", "Pages", PerSecond, Higher, |t| {
        Some(t.load.pages.as_ref()?.group.per_second)
    })
    .with_waits();
    PageP50 =
        metric("page_p50_us", "Page time, p50", Microseconds, Lower, |t| page(t)?.p50)
            .with_selection(TrialSelection::Quantile(0.5, page))
            .with_waits();
    PageP99 =
        metric("page_p99_us", "Page time, p99", Microseconds, Lower, |t| page(t)?.p99)
            .with_selection(TrialSelection::Quantile(0.99, page))
            .with_waits();
    VisitsPerSecond = metric("visits_per_second", "Visits", PerSecond, Higher, |t| {
        Some(t.load.visits.as_ref()?.group.per_second)
    })
    .with_waits();
    VisitP50 =
        metric("visit_p50_us", "Visit time, p50", Microseconds, Lower, |t| visit(t)?.p50)
            .with_selection(TrialSelection::Quantile(0.5, visit))
            .with_waits();
    VisitP99 =
        metric("visit_p99_us", "Visit time, p99", Microseconds, Lower, |t| visit(t)?.p99)
            .with_selection(TrialSelection::Quantile(0.99, visit))
            .with_waits();
    ConnectP50 = metric(
        "connect_p50_us",
        "TCP connect time (including warm-up), p50",
        Microseconds,
        Lower,
        |t| t.load.connect_us.p50,
    )
    .with_waits();
    ConnectP99 = metric(
        "connect_p99_us",
        "TCP connect time (including warm-up), p99",
        Microseconds,
        Lower,
        |t| t.load.connect_us.p99,
    )
    .with_waits();
    RetransmitsPerMillion = metric(
        "retransmits_per_million_responses",
        "Generator's TCP retransmits per million responses",
        Count,
        Lower,
        |t| t.load.tcp.retransmits_per_million_responses,
    )
    .with_waits();
    // Bytes and CPU time are divided by their own windows, because the server's observed window
    // differs slightly from the load's.
    BytesPerCpuSecond = metric(
        "bytes_per_server_cpu_second",
        "Response bytes per CPU second of the server",
        Bytes,
        Higher,
        |t| {
            let per_s = t.load.bytes.received as f64 / t.load.duration_s;
            let cpus = server(t).cpu_s()? / server(t).window_s;
            Some(per_s / cpus).filter(|n| n.is_finite())
        },
    );
    // Includes the responses of the warm-up, because connections are counted over the whole load.
    RequestsPerConnection = metric(
        "requests_per_connection",
        "Responses per connection (including warm-up)",
        Count,
        Neither,
        |t| {
            let (e, opened) = (&t.load.exchanges, t.load.connections.opened);
            (opened > 0).then(|| (e.warmup_completed + e.completed) as f64 / opened as f64)
        },
    )
    .with_waits();
    GeneratorBusiestThread = metric(
        "generator_busiest_thread",
        "CPU use of the generator's busiest thread",
        Share,
        Neither,
        |t| Some(t.load.client.busiest_thread_utilisation),
    )
    .with_waits();
    GeneratorCpu = metric(
        "generator_cpu_us_per_exchange",
        "Generator's CPU time per request",
        Microseconds,
        Neither,
        |t| t.load.client.cpu_us_per_exchange,
    )
    .with_waits();
    Cpus =
        metric("server_cpus", "Server's CPU time per second", Count, Neither, |t| server(t).cpus)
            .with_waits();
    PageCache = PAGE_CACHE;
    KernelMemory = KERNEL_MEMORY;
    WorkingSet = metric(
        "server_working_set_bytes",
        "Memory that the server accessed in the window",
        Bytes,
        Lower,
        |t| Some(server(t).memory_accessed_bytes? as f64),
    );
}

impl MetricId {
    /// Returns the definition of the metric.
    #[must_use]
    pub fn metric(self) -> &'static Metric {
        &METRICS[self as usize]
    }

    /// Returns the metric's name in results, such as `throughput_rps`.
    #[must_use]
    pub fn key(self) -> &'static str {
        self.metric().key
    }
}

impl Serialize for MetricId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}

impl JsonSchema for MetricId {
    fn schema_name() -> Cow<'static, str> {
        "MetricId".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "description": "Key of a metric, as in `metrics`."})
    }
}

#[cfg(test)]
mod tests;
