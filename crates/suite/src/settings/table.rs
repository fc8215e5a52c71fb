//! The table of settings.

use dyno_config::units;
use dyno_model::plan::Gaps;
use serde::Deserialize;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error;

use super::{LoadOption, LoadSettings, Setting, SuiteKey, Value};
use crate::defaults::drain_ns;
use crate::limits::{MAX_STREAMS, MIN_WARMUP_LIMIT_NS};

const MS: u64 = 1_000_000;
/// The shortest window of a load.
pub(super) const MIN_DURATION_NS: u64 = 10 * MS;
const SMALL: u64 = u32::MAX as u64;

const LOAD: &str = "Load";
const CHECKS: &str = "Response checks";
const HTTP2: &str = "HTTP/2";
const CONNECTIONS: &str = "Connections";
const GENERATOR: &str = "Generator";
const OUTPUT: &str = "Output";

/// Makes the table. The doc comment of a setting is its help in `dyno load`: its first paragraph is
/// the line of `-h`, and `--help` has the others, too.
macro_rules! settings {
    ($($(#[doc = $help:literal])* $key:ident = $setting:expr;)*) => {
        &[$(Setting { key: stringify!($key), help: &[$($help),*], ..$setting }),*]
    };
}

/// All settings, in the order of help and reference.
pub static SETTINGS: &[Setting] = settings! {
    model = choice(&["closed", "open"], |s, name| s.model = Some(variant(name)))
        .suite("`\"closed\"`", "or `\"open\"`; a rate implies `\"open\"`");
    order = choice(&["random", "fixed"], |s, name| s.load.order = variant(name))
        .suite("as `order` of `[suite]`",
            "of workloads and steps within a start: `\"random\"`, or `\"fixed\"`: as listed");
    /// Concurrent connections.
    connections = counts(u32::MAX, |s, numbers| s.connections = numbers)
        .option(LOAD, "N").short('c').default("64").per_workload()
        .suite("64", "connections; may be a list");
    /// Generator threads.
    ///
    /// Default: one thread per CPU that dyno may use, or half as many if the server is on this
    /// machine. With --cpus the default is one thread per listed CPU. There is at most one thread
    /// per connection.
    threads = whole(1, SMALL, |s, n| s.threads = Some(n as u32))
        .option(LOAD, "N").short('t').rare().suite("one per generator CPU", "generator threads");
    /// Length of the measured window [default: 10s].
    ///
    /// A bare number is in seconds. With -n or a trace the load ends with its last request.
    duration = time(MIN_DURATION_NS, units::span, |s, ns| s.load.duration_ns = ns)
        .option(LOAD, "TIME").short('d').suite("`\"10s\"`", "length of the measured window");
    /// End after this many requests.
    requests = whole(1, u64::MAX, |s, n| s.load.requests = Some(n)).option(LOAD, "N").short('n');
    /// Open loop: requests per second (5k, 1k..5k, 1k@10s,5k).
    ///
    /// Requests start on schedule, even if earlier responses are late. 5k is constant, 1k..5k is a
    /// ramp, and 1k@10s,1k..5k@30s,5k are sections of given lengths.
    rate = Setting::new(Value::Rates).option(LOAD, "RATE").short('r').per_workload()
        .suite("none", "open loop: requests per second, such as `[1000, \"5k\", \"1k..5k\", \
            \"1k@2s,1k..5k@6s,5k\"]`; or shares; or `\"find\"` ([rates](#rates))");
    /// Distribution of the gaps between scheduled requests.
    arrival = choice(&["constant", "poisson"], |s, name| s.gaps = gaps(name))
        .option(LOAD, "ARRIVAL").default("constant").rare().open_loop()
        .suite("`\"constant\"`", "or `\"poisson\"`");
    /// Open loop: drop requests while N wait for a connection [default: 262144 per thread].
    ///
    /// 0: a request that finds no free connection is dropped at once. Dropped requests are
    /// reported, and rank above every response in percentiles.
    max_waiting = whole(0, SMALL, |s, n| s.load.max_waiting = Some(n))
        .option(LOAD, "N").rare().open_loop()
        .suite("262,144 per thread", "open loop: requests that may wait for a connection; further \
            requests are dropped");
    find_width =
        Setting::new(Value::Share { parse: find_width, set: |s, share| s.find_width = Some(share) })
        .suite("`\"5%\"`", "largest gap between the rates at which a search ends; only with `rate \
            = \"find\"`");
    /// Load before the measured window [default: 0].
    ///
    /// With --find the default is 500ms.
    warmup = Setting::new(Value::Warmup).option(LOAD, "TIME").short('w')
        .suite("`\"auto\"`", "each start is warmed until it is steady; or a length for each step, \
            such as `\"2s\"`; or `\"measured\"`: no warm-up ([warm-up](#warm-up))");
    warmup_limit = time(MIN_WARMUP_LIMIT_NS, units::duration, |s, ns| s.warmup_limit_ns = ns)
        .suite("`\"60s\"`", "the longest warm-up of a start with `\"auto\"`");
    /// HTTP/1.1 requests in flight per connection.
    pipeline = counts(MAX_STREAMS, |s, numbers| s.pipeline = numbers)
        .option(LOAD, "N").short('p').default("1").per_workload()
        .suite("1", "requests in flight on a connection of HTTP/1.1; may be a list");
    /// HTTP/2 streams per connection [default: 1; pages: 100].
    ///
    /// If the server allows fewer streams, its limit is used.
    streams = counts(MAX_STREAMS, |s, numbers| s.streams = numbers)
        .option(HTTP2, "N").short('m').per_workload()
        .suite("1", "requests in flight (streams) on a connection of HTTP/2");
    in_flight = counts(u32::MAX, |s, numbers| s.in_flight = numbers)
        .suite("none", "requests in flight over all connections, such as `[100, 1000]`; instead of \
            `connections`");
    /// Flow-control window of a stream: 2^N − 1 bytes [default: 30].
    ///
    /// N is from 10 to 30.
    window_bits = whole(10, 30, |s, n| s.load.http2.window_bits = n as u8)
        .option(HTTP2, "N").rare().http2()
        .suite("30", "HTTP/2: the window of a stream is 2^N − 1 bytes; N is 10 to 30");
    /// Flow-control window of a connection: 2^N − 1 bytes [default: 30].
    ///
    /// HTTP/2 cannot announce fewer than 2^16 − 1 bytes. With N below 16, dyno sends window updates
    /// later instead.
    connection_window_bits = whole(10, 30, |s, n| s.load.http2.connection_window_bits = n as u8)
        .option(HTTP2, "N").rare().http2().suite("30", "the same for the window of a connection");
    /// Bytes of the HPACK table for response headers [default: 4096].
    ///
    /// 0: no table.
    header_table_size = whole(0, SMALL, |s, n| s.load.http2.header_table_size = n as u32)
        .option(HTTP2, "BYTES").rare().http2()
        .suite("4096", "HTTP/2: bytes of the table in which servers may keep headers of responses");
    /// Close a connection after N requests; 1: no keep-alive.
    requests_per_connection = whole(1, u64::MAX, |s, n| s.load.requests_per_connection = Some(n))
        .option(CONNECTIONS, "N")
        .suite("none: the server decides", "number of requests after which a connection is closed");
    /// Open the connections one by one over this time.
    ///
    /// Without this option, all connections are opened before the load starts.
    ramp_connections = time(MS, units::duration, |s, ns| s.load.ramp_connections_ns = Some(ns))
        .option(CONNECTIONS, "TIME").rare()
        .suite("all connections are opened before the load",
            "time over which connections are opened one by one, such as `\"2s\"`");
    /// Request time-out, from sending to the last byte [default: 10s].
    timeout = time(MS, units::duration, set_timeout)
        .option(CONNECTIONS, "TIME").suite("`\"10s\"`", "from sent to done");
    /// Time-out for the first byte of a response [default: --timeout].
    first_byte_timeout = time(MS, units::duration, |s, ns| s.load.first_byte_timeout_ns = Some(ns))
        .option(CONNECTIONS, "TIME").rare()
        .suite("none", "from sent to the first byte of the response");
    /// Connect time-out, TLS handshake included [default: 5s].
    connect_timeout = time(MS, units::duration, |s, ns| s.load.connect_timeout_ns = ns)
        .option(CONNECTIONS, "TIME").rare()
        .suite("`\"5s\"`", "time limit of an attempt to connect");
    /// Send a PROXY protocol header first on each connection.
    proxy_protocol = choice(&["v1", "v2"], |s, name| s.load.proxy_protocol = Some(variant(name)))
        .option(CONNECTIONS, "VERSION").rare();
    /// Fully check one in N responses [default: 100].
    ///
    /// A full check covers headers, SHA-256, text and JSON. With 1, each response is fully checked.
    /// With 0, only one response is fully checked, before the load.
    check_one_in = whole(0, u64::MAX, |s, n| s.load.check_one_in = n).option(CHECKS, "N").rare()
        .suite("100", "one in N responses is checked in full; 1: every response, 0: none");
    /// Wait after a failed connection before the next attempt.
    ///
    /// backoff: no wait after the first failure, then from 1 ms up to 100 ms. at-once: never a
    /// wait, for loads that count refused connections.
    reconnect = choice(&["backoff", "at-once"], |s, name| s.load.reconnect = variant(name))
        .option(CONNECTIONS, "WHEN").default("backoff").rare()
        .suite("`\"backoff\"`", "after failed connections the next attempt waits, from 1 ms to \
            100 ms; or `\"at-once\"`: no wait");
    /// I/O backend [default: io_uring if available, else epoll].
    driver = choice(&["uring", "epoll"], |s, name| s.driver = Some(variant(name)))
        .option(GENERATOR, "DRIVER").rare()
        .suite("io_uring if available, else epoll", "`\"uring\"` or `\"epoll\"`");
    /// Poll instead of sleeping, to avoid late wake-ups.
    ///
    /// auto: poll only near the deadlines of an open loop, and only if there is a second CPU.
    spin = choice(&["auto", "never", "always"], |s, name| s.load.spin = variant(name))
        .option(GENERATOR, "SPIN").default("auto").rare()
        .suite("`\"auto\"`", "the generator polls in open loops if it has separate CPUs, so that \
            requests leave on time; or `\"never\"`, `\"always\"`");
    priority = choice(&["normal", "realtime"], |s, name| s.load.priority = variant(name))
        .suite("`\"normal\"`", "priority of the generator's threads; or `\"realtime\"`: they run \
            before other programs on their CPUs, such as a back end");
    /// Length of the intervals of progress, --stream and the result; at least 10ms.
    interval = time(10 * MS, units::duration, |s, ns| s.load.interval_ns = ns)
        .option(OUTPUT, "TIME").default("1s").rare()
        .suite("a tenth of the duration, 100 ms to 1 s", "length of the recorded intervals");
    // The reference page does not list this key, because suites replay no traces.
    trace = Setting::new(Value::Refused(refuse_trace)).suite("", "");
};

/// Returns the variant with this name. The table has only names of variants.
fn variant<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let variant: Result<T, Error> = T::deserialize(name.into_deserializer());
    variant.expect("the table should have only valid names")
}

fn gaps(name: &str) -> Gaps {
    if name == "poisson" { Gaps::Exponential } else { Gaps::Even }
}

fn set_timeout(settings: &mut LoadSettings, ns: u64) {
    settings.load.timeout_ns = ns;
    settings.load.drain_ns = drain_ns(ns);
}

/// Reads the width of a search: a percentage, as a share from 0.001 to 1.
fn find_width(text: &str) -> Result<f64, String> {
    let percent =
        text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0);
    share.filter(|share| (0.001..=1.0).contains(share)).ok_or_else(|| {
        format!(
            "`find_width`: {text:?} is not a percentage from 0.1% to 100%\nhint: write a \
             percentage such as 5%"
        )
    })
}

fn refuse_trace(file: &str) -> String {
    format!("trace {file:?}: cannot be used in a suite\nhint: use `dyno load --trace`")
}

const fn time(
    min_ns: u64,
    parse: fn(&str) -> Result<u64, String>,
    set: fn(&mut LoadSettings, u64),
) -> Setting {
    Setting::new(Value::Time { min_ns, parse, set })
}

const fn whole(min: u64, max: u64, set: fn(&mut LoadSettings, u64)) -> Setting {
    Setting::new(Value::Whole { min, max, set })
}

const fn choice(names: &'static [&'static str], set: fn(&mut LoadSettings, &str)) -> Setting {
    Setting::new(Value::Choice { names, set })
}

const fn counts(max: u32, set: fn(&mut LoadSettings, Vec<u32>)) -> Setting {
    Setting::new(Value::Counts { max, set })
}

impl Setting {
    const fn new(value: Value) -> Setting {
        Setting {
            key: "",
            help: &[],
            value,
            is_http2: false,
            needs_open_loop: false,
            is_per_workload: false,
            suite_key: None,
            option: None,
        }
    }

    /// Adds the key of suites, with its default and its meaning for the reference page (Markdown).
    const fn suite(self, default: &'static str, meaning: &'static str) -> Setting {
        Setting { suite_key: Some(SuiteKey { default, meaning }), ..self }
    }

    /// Adds the option of `dyno load`, which the help lists in this group.
    const fn option(self, group: &'static str, value_name: &'static str) -> Setting {
        self.with(LoadOption { group, value_name, short: None, default: None, is_common: true })
    }

    const fn with(self, option: LoadOption) -> Setting {
        Setting { option: Some(option), ..self }
    }

    const fn load_option(&self) -> LoadOption {
        self.option.expect("the setting should be an option")
    }

    const fn short(self, letter: char) -> Setting {
        self.with(LoadOption { short: Some(letter), ..self.load_option() })
    }

    const fn default(self, text: &'static str) -> Setting {
        self.with(LoadOption { default: Some(text), ..self.load_option() })
    }

    /// Removes the option from `-h`.
    const fn rare(self) -> Setting {
        self.with(LoadOption { is_common: false, ..self.load_option() })
    }

    /// Restricts the setting to HTTP/2.
    const fn http2(self) -> Setting {
        Setting { is_http2: true, ..self }
    }

    /// Lets workloads of suites override the setting.
    const fn per_workload(self) -> Setting {
        Setting { is_per_workload: true, ..self }
    }

    /// Restricts the setting to open loops.
    const fn open_loop(self) -> Setting {
        Setting { needs_open_loop: true, ..self }
    }
}
