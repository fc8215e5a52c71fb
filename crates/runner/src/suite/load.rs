//! Checks `[load]` of a suite, and computes the steps of each workload.

use dyno_analysis::cell::Shape;
use dyno_analysis::window_levels;
use dyno_archive::plan::{
    self, Arrivals, DriverKind, Gaps, Http2, Load, LoadModel, Order, Priority, Reconnect,
    SearchOptions, Spin, Step, StillWarming, UntilSteady,
};
use dyno_workload::mistake::{Mistake, all_positive, mistake, positive};
use dyno_workload::sequence::NO_PIPELINED_STEPS;
use dyno_workload::units;
use dyno_workload::workloads::{
    CheckedWorkload, NO_REQUESTS, NO_STREAMS, OneOrMany, PAGE_STREAMS, Rate,
};
use serde::Deserialize;

use crate::limits::{MIN_WARMUP_LIMIT_NS, SEARCH_WIDTH, STEP_WARMUP_NS, WARMUP_LIMIT_NS};
use crate::load::{default_load, drain_ns};

/// The load of a suite. The number of threads depends on the machine if the suite names none.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteLoad {
    load: Load,
    threads: Option<u32>,
    /// Requested driver. `None`: the best that supports the load.
    pub driver: Option<DriverKind>,
}

impl SuiteLoad {
    /// Returns the load with this driver, and with the machine's number of threads if the suite
    /// names none.
    #[must_use]
    pub fn with_driver(self, threads: u32, driver: DriverKind) -> Load {
        Load { threads: self.threads.unwrap_or(threads), driver, ..self.load }
    }

    /// Returns the load with intervals of this length.
    pub(super) fn with_interval(self, interval_ns: u64) -> SuiteLoad {
        SuiteLoad { load: Load { interval_ns, ..self.load }, ..self }
    }

    /// Returns the load, whose threads and driver may still depend on the machine.
    #[must_use]
    pub const fn load(&self) -> &Load {
        &self.load
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawLoad {
    model: Option<LoadModel>,
    arrival: Option<Arrival>,
    order: Option<Order>,
    connections: Option<OneOrMany<u32>>,
    pub(super) in_flight: Option<OneOrMany<u32>>,
    pub(super) rate: Option<OneOrMany<Rate>>,
    streams: Option<OneOrMany<u32>>,
    pipeline: Option<OneOrMany<u32>>,
    window_bits: Option<u32>,
    connection_window_bits: Option<u32>,
    header_table_size: Option<u32>,
    /// Accuracy of a search for a rate, such as `5%`.
    find_width: Option<String>,
    requests_per_connection: Option<u64>,
    warmup: Option<String>,
    warmup_limit: Option<String>,
    duration: Option<String>,
    pub(super) interval: Option<String>,
    timeout: Option<String>,
    first_byte_timeout: Option<String>,
    connect_timeout: Option<String>,
    ramp_connections: Option<String>,
    reconnect: Option<Reconnect>,
    check_one_in: Option<u64>,
    spin: Option<Spin>,
    priority: Option<Priority>,
    trace: Option<String>,
    threads: Option<u32>,
    driver: Option<String>,
}

/// Value of `warmup` that warms each start up until it is steady.
const AUTO: &str = "auto";

/// Value of `warmup` that includes the warm-up in the measurement.
const MEASURED: &str = "measured";

/// Schedules of a suite; only `dyno load` replays traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Arrival {
    #[default]
    Constant,
    Poisson,
}

impl RawLoad {
    /// Removes the search of `rate = "find"` from the load, and returns it. Each search begins with
    /// a closed loop, which is the load without the search. `None`: no search.
    pub(super) fn take_search(
        &mut self,
        workloads: &[CheckedWorkload],
        has_objective: bool,
    ) -> Result<Option<SearchOptions>, Mistake> {
        let is_find = |rate: &Rate| matches!(rate, Rate::Text(text) if text.trim() == FIND);
        let rates = self.rate.clone().map(OneOrMany::into_values).unwrap_or_default();
        if !rates.iter().any(is_find) {
            if self.find_width.is_none() {
                return Ok(None);
            }
            return Err(mistake(
                "find_width",
                "`find_width`: has no effect without a search for a rate\nhint: set `rate = \
                 \"find\"`, or remove `find_width`",
            ));
        }
        if rates.len() > 1 {
            return Err(mistake(
                "rate",
                "`rate`: \"find\" cannot be combined with other rates\nhint: remove the other \
                 rates",
            ));
        }
        if !has_objective {
            return Err(mistake("rate", NO_OBJECTIVE));
        }
        if self.model == Some(LoadModel::Closed) {
            return Err(mistake(
                "model",
                "`model`: must be \"open\" with `rate = \"find\"`\nhint: remove `model`",
            ));
        }
        if let Some(page) =
            workloads.iter().find(|w| w.workload.page.is_some() && w.steps.rate.is_none())
        {
            let message = format!(
                "workload {:?}: is a page. Visitors load one page after the other (closed loop), \
                 so there is no rate to find\nhint: move the workload to a suite without `rate = \
                 \"find\"`",
                page.workload.name
            );
            return Err(mistake("rate", message));
        }
        let width = match self.find_width.take() {
            Some(text) => search_width(&text)?,
            None => SEARCH_WIDTH,
        };
        let arrival = match self.arrival.unwrap_or_default() {
            Arrival::Constant => plan::Arrival::Constant,
            Arrival::Poisson => plan::Arrival::Poisson,
        };
        if workloads.iter().all(|workload| workload.steps.rate.is_some()) && !workloads.is_empty() {
            return Err(mistake(
                "rate",
                "`rate = \"find\"`: has no effect, because each workload sets its own `rate`\
                 \nhint: remove `rate` here, or in at least one workload",
            ));
        }
        self.rate = None;
        Ok(Some(SearchOptions { width, arrival }))
    }

    /// Changes a load without a rate into the closed loop that measures a capacity.
    pub(super) fn make_closed(&mut self) {
        self.model = None;
        self.arrival = None;
    }

    /// Returns the checked load, and for each workload the indices of its steps in the load. The
    /// position of a mistake is a path from the root of the suite, because the mistake may be in
    /// `[load]` or in a workload.
    pub(super) fn check(
        self,
        workloads: &[CheckedWorkload],
        order: Order,
    ) -> Result<(SuiteLoad, Vec<Vec<usize>>), Mistake> {
        let (steps, workload_steps) = self.steps(workloads)?;
        Ok((self.options(workloads, steps, order).map_err(locate_in_load)?, workload_steps))
    }

    /// Returns the checked load. `order`: order of the subjects, which is the default order of
    /// steps.
    fn options(
        self,
        workloads: &[CheckedWorkload],
        steps: Vec<Step>,
        order: Order,
    ) -> Result<SuiteLoad, Mistake> {
        const S: u64 = 1_000_000_000;
        let driver = self.driver()?;
        self.check_protocol_keys(workloads)?;
        let duration_ns = self.duration_ns()?;
        // Levels of the throughput within the window are found only with enough intervals.
        let default_interval_ns =
            duration_ns.div_ceil(window_levels::MIN_INTERVALS as u64).clamp(S / 10, S);
        let defaults = default_load();
        let timeout_ns = time("timeout", &self.timeout, defaults.timeout_ns)?;
        let options = Load {
            warmup_ns: self.warmup_ns()?,
            until_steady: self.until_steady()?,
            still_warming: if self.is_measured() {
                StillWarming::Measured
            } else {
                StillWarming::Refused
            },
            order: self.order.unwrap_or(order),
            duration_ns,
            interval_ns: time("interval", &self.interval, default_interval_ns)?,
            timeout_ns,
            drain_ns: drain_ns(timeout_ns),
            connect_timeout_ns: time(
                "connect_timeout",
                &self.connect_timeout,
                defaults.connect_timeout_ns,
            )?,
            first_byte_timeout_ns: optional("first_byte_timeout", &self.first_byte_timeout)?,
            requests_per_connection: self.requests_per_connection,
            ramp_connections_ns: optional("ramp_connections", &self.ramp_connections)?,
            reconnect: self.reconnect.unwrap_or(defaults.reconnect),
            check_one_in: self.check_one_in.unwrap_or(defaults.check_one_in),
            spin: self.spin.unwrap_or(defaults.spin),
            priority: self.priority.unwrap_or(defaults.priority),
            http2: self.http2()?,
            steps,
            ..defaults
        };
        let threads = self.threads.map(|t| positive("threads", t)).transpose()?;
        for (key, ns) in [
            ("duration", options.duration_ns),
            ("interval", options.interval_ns),
            ("timeout", options.timeout_ns),
            ("connect_timeout", options.connect_timeout_ns),
            ("first_byte_timeout", options.first_byte_timeout_ns.unwrap_or(u64::MAX)),
        ] {
            if ns < 10_000_000 {
                return Err(mistake(key, format!("`{key}`: must be at least 10ms")));
            }
        }
        if options.priority == Priority::Realtime && options.spin == Spin::Always {
            let message = "`spin`: cannot be used with `priority = \"realtime\"`, because a load \
                           generator that polls with this priority would block all other programs \
                           on its CPUs\nhint: remove `spin`";
            return Err(mistake("spin", message));
        }
        if options.requests_per_connection == Some(0) {
            return Err(mistake("requests_per_connection", NO_REQUESTS));
        }
        Ok(SuiteLoad { load: options, threads, driver })
    }

    fn driver(&self) -> Result<Option<DriverKind>, Mistake> {
        let find_driver = |name: &String| {
            let unknown = || format!("driver {name:?}: unknown\nhint: use \"uring\" or \"epoll\"");
            DriverKind::from_name(name).ok_or_else(|| mistake("driver", unknown()))
        };
        self.driver.as_ref().map(find_driver).transpose()
    }

    /// Returns whether starts are warmed until they are steady, which is the default.
    fn is_auto(&self) -> bool {
        self.warmup.as_deref().is_none_or(|text| text == AUTO)
    }

    /// Returns whether the warm-up itself is measured.
    fn is_measured(&self) -> bool {
        self.warmup.as_deref() == Some(MEASURED)
    }

    /// Returns the length of each step's warm-up, nanoseconds.
    fn warmup_ns(&self) -> Result<u64, Mistake> {
        let explain = |m| {
            let alternatives = format!(
                "or {AUTO:?} to warm up until the server is in a steady state, or {MEASURED:?} to \
                 measure the warm-up itself"
            );
            mistake("warmup", format!("{m}, {alternatives}"))
        };
        let ramp_ns = optional("ramp_connections", &self.ramp_connections)?.unwrap_or(0);
        // The time during which connections are opened is never measured, unless the suite sets
        // the length of the warm-up.
        match self.warmup.as_deref() {
            None | Some(AUTO) => Ok(STEP_WARMUP_NS + ramp_ns),
            Some(MEASURED) => Ok(ramp_ns),
            Some(text) => units::span(text).map_err(explain),
        }
    }

    /// Returns the limit of the warm-up; `None`: starts are not warmed until they are steady.
    fn until_steady(&self) -> Result<Option<UntilSteady>, Mistake> {
        if !self.is_auto() {
            return match self.warmup_limit {
                None => Ok(None),
                Some(_) => Err(mistake(
                    "warmup_limit",
                    "`warmup_limit`: needs `warmup = \"auto\"`\nhint: remove `warmup_limit`",
                )),
            };
        }
        let limit_ns = time("warmup_limit", &self.warmup_limit, WARMUP_LIMIT_NS)?;
        if limit_ns < MIN_WARMUP_LIMIT_NS {
            return Err(mistake(
                "warmup_limit",
                "`warmup_limit`: must be at least 1s, to detect the steady state",
            ));
        }
        Ok(Some(UntilSteady { limit_ns }))
    }

    fn duration_ns(&self) -> Result<u64, Mistake> {
        const DEFAULT: &str = "10s";
        units::span(self.duration.as_deref().unwrap_or(DEFAULT)).map_err(|m| mistake("duration", m))
    }

    /// Refuses keys of one protocol if all workloads use the other.
    fn check_protocol_keys(&self, workloads: &[CheckedWorkload]) -> Result<(), Mistake> {
        let exceeds_one = |values: &Option<OneOrMany<u32>>| {
            values.clone().is_some_and(|values| values.into_values().iter().any(|n| *n > 1))
        };
        let is_h2 = |workload: &CheckedWorkload| workload.workload.protocol.is_h2();
        if !workloads.iter().any(is_h2) {
            let h2_keys = [
                ("window_bits", self.window_bits.is_some()),
                ("connection_window_bits", self.connection_window_bits.is_some()),
                ("header_table_size", self.header_table_size.is_some()),
            ];
            if exceeds_one(&self.streams) {
                return Err(mistake("streams", NO_STREAMS));
            }
            if let Some((key, _)) = h2_keys.into_iter().find(|(_, is_set)| *is_set) {
                let message = format!(
                    "`{key}`: needs HTTP/2, but no workload uses HTTP/2\nhint: remove `{key}`"
                );
                return Err(mistake(key, message));
            }
        }
        if workloads.iter().all(is_h2) && exceeds_one(&self.pipeline) {
            return Err(mistake(
                "pipeline",
                "`pipeline`: needs HTTP/1.1, but all workloads use HTTP/2\nhint: use `streams` \
                 instead",
            ));
        }
        Ok(())
    }

    /// Returns the HTTP/2 settings of the client.
    fn http2(&self) -> Result<Http2, Mistake> {
        let default = Http2::default();
        let bits =
            |key: &'static str, value: Option<u32>, default: u8| match value.map(u8::try_from) {
                None => Ok(default),
                Some(Ok(bits @ 10..=30)) => Ok(bits),
                Some(_) => Err(mistake(
                    key,
                    format!(
                        "`{key}`: must be 10 to 30. The value N sets an HTTP/2 window of 2^N − 1 \
                         bytes"
                    ),
                )),
            };
        Ok(Http2 {
            window_bits: bits("window_bits", self.window_bits, default.window_bits)?,
            connection_window_bits: bits(
                "connection_window_bits",
                self.connection_window_bits,
                default.connection_window_bits,
            )?,
            header_table_size: self.header_table_size.unwrap_or(default.header_table_size),
        })
    }

    /// Returns the schedules of the load, which apply to workloads without their own rates.
    fn arrivals(&self, workloads: &[CheckedWorkload]) -> Result<Vec<Arrivals>, Mistake> {
        if let Some(file) = &self.trace {
            return Err(mistake(
                "trace",
                format!("trace {file:?}: cannot be used in a suite\nhint: use `dyno load --trace`"),
            ));
        }
        let rates =
            self.rates(&self.rate.clone().map(OneOrMany::into_values).unwrap_or_default())?;
        let model = self.model.unwrap_or(if rates.is_empty() {
            LoadModel::Closed
        } else {
            LoadModel::Open
        });
        match (model, rates.is_empty()) {
            (LoadModel::Closed, true) => Ok(vec![Arrivals::Closed]),
            (LoadModel::Closed, false) => Err(mistake(
                "rate",
                "`rate`: cannot be used in a closed loop\nhint: remove `rate`, or set `model = \
                 \"open\"`",
            )),
            // Each workload has its own rates, so none uses the load's.
            (LoadModel::Open, true) if workloads.iter().all(|w| w.steps.rate.is_some()) => {
                Ok(Vec::new())
            }
            (LoadModel::Open, true) => Err(mistake(
                "model",
                "`model`: an open loop needs a rate\nhint: add `rate`, such as 5000 or [1000, \
                 \"5k\"]",
            )),
            (LoadModel::Open, false) => Ok(rates),
        }
    }

    fn rates(&self, rates: &[Rate]) -> Result<Vec<Arrivals>, Mistake> {
        let (warmup_ns, duration_ns) = (self.warmup_ns()?, self.duration_ns()?);
        let gaps = self.arrival.unwrap_or_default();
        let checked = rates.iter().enumerate().map(|(i, rate)| {
            check_rate(rate, gaps, warmup_ns, duration_ns).map_err(|m| m.with_child(i))
        });
        checked.collect()
    }

    /// Returns the different steps of all workloads, and for each workload the indices of its
    /// steps.
    fn steps(
        &self,
        workloads: &[CheckedWorkload],
    ) -> Result<(Vec<Step>, Vec<Vec<usize>>), Mistake> {
        let arrivals = self.arrivals(workloads).map_err(locate_in_load)?;
        let width = self.width().map_err(locate_in_load)?;
        let mut steps: Vec<Step> = Vec::new();
        let mut workload_steps = Vec::new();
        for (i, workload) in workloads.iter().enumerate() {
            let locate = |m: Mistake| m.with_parent(i).with_parent("workloads");
            let (arrivals, width) =
                self.workload_schedules(workload, &arrivals, &width).map_err(locate)?;
            let mut indices: Vec<usize> = Vec::new();
            for step in self.workload_steps(workload, &arrivals, &width).map_err(locate_in_load)? {
                // A step that a workload repeats is a further pass of the same step. Reports
                // shorten long schedules, so a step that looks the same in reports is also a
                // further pass.
                let looks_like_earlier_step = |step: &Step, indices: &[usize]| {
                    indices.iter().any(|i| Shape::from_step(&steps[*i]) == Shape::from_step(step))
                };
                let mut step = step;
                while looks_like_earlier_step(&step, &indices) {
                    step.pass += 1;
                }
                let index = steps.iter().position(|other| *other == step).unwrap_or(steps.len());
                if index == steps.len() {
                    steps.push(step);
                }
                indices.push(index);
            }
            workload_steps.push(indices);
        }
        Ok((steps, workload_steps))
    }

    /// Returns the schedules and width of a workload, which override the load's.
    fn workload_schedules(
        &self,
        workload: &CheckedWorkload,
        arrivals: &[Arrivals],
        width: &Width,
    ) -> Result<(Vec<Arrivals>, Width), Mistake> {
        let steps = &workload.steps;
        if steps.rate.is_some() && self.model == Some(LoadModel::Closed) {
            return Err(mistake(
                "rate",
                "`rate`: cannot be used in a closed loop, but [load] has `model = \
                 \"closed\"`\nhint: remove one of the two keys",
            ));
        }
        let arrivals = match &steps.rate {
            Some(rates) => self.rates(rates)?,
            None => arrivals.to_vec(),
        };
        if steps.connections.is_some() && self.in_flight.is_some() {
            let message = "`connections`: cannot be combined with `in_flight` of [load], which \
                           determines the number of connections\nhint: remove one of the two keys";
            return Err(mistake("connections", message));
        }
        let width = match &steps.connections {
            Some(connections) => Width::Connections(connections.clone()),
            None => width.clone(),
        };
        Ok((arrivals, width))
    }

    /// Returns the width of the load: `connections` or `in_flight`, 64 connections by default.
    fn width(&self) -> Result<Width, Mistake> {
        let (key, width) = match (&self.connections, &self.in_flight) {
            (Some(_), Some(_)) => {
                return Err(mistake(
                    "in_flight",
                    "`in_flight`: cannot be combined with `connections`\nhint: remove one of the \
                     two keys",
                ));
            }
            (None, Some(in_flight)) => {
                ("in_flight", Width::InFlight(in_flight.clone().into_values()))
            }
            (Some(connections), None) => {
                ("connections", Width::Connections(connections.clone().into_values()))
            }
            (None, None) => ("connections", Width::Connections(vec![64])),
        };
        let (Width::Connections(values) | Width::InFlight(values)) = &width;
        all_positive(key, values)?;
        Ok(width)
    }

    /// Returns the steps of one workload: all combinations of its values. Connections have streams
    /// with HTTP/2, and a pipeline with HTTP/1.1.
    fn workload_steps(
        &self,
        workload: &CheckedWorkload,
        arrivals: &[Arrivals],
        width: &Width,
    ) -> Result<Vec<Step>, Mistake> {
        let values_or_one = |values: &Option<OneOrMany<u32>>| {
            values.clone().map_or_else(|| vec![1], OneOrMany::into_values)
        };
        let (mut pipelines, mut streams) = (vec![1], vec![1]);
        if workload.workload.protocol.is_h2() {
            streams = match &workload.steps.streams {
                Some(of_workload) => of_workload.clone(),
                None if workload.workload.page.is_some() && self.streams.is_none() => {
                    vec![PAGE_STREAMS]
                }
                None => values_or_one(&self.streams),
            };
        } else {
            pipelines = match &workload.steps.pipeline {
                Some(of_workload) => of_workload.clone(),
                None => values_or_one(&self.pipeline),
            };
        }
        if workload.workload.sequence.is_some() && pipelines.iter().any(|n| *n != 1) {
            return Err(mistake("pipeline", NO_PIPELINED_STEPS));
        }
        all_positive("pipeline", &pipelines)?;
        all_positive("streams", &streams)?;
        let mut steps = Vec::new();
        for arrivals in arrivals {
            for &pipeline in &pipelines {
                for &streams in &streams {
                    for connections in
                        width.connections(&workload.workload.name, streams * pipeline)?
                    {
                        let arrivals = arrivals.clone();
                        steps.push(Step { connections, streams, pipeline, arrivals, pass: 1 });
                    }
                }
            }
        }
        Ok(steps)
    }
}

/// Width of each step: its number of connections, or of requests in flight.
#[derive(Clone)]
enum Width {
    Connections(Vec<u32>),
    /// Requests in flight at a time, over all connections.
    InFlight(Vec<u32>),
}

impl Width {
    /// Returns the numbers of connections for a workload with this number of requests in flight per
    /// connection.
    fn connections(&self, workload: &str, per_connection: u32) -> Result<Vec<u32>, Mistake> {
        let totals = match self {
            Width::Connections(connections) => return Ok(connections.clone()),
            Width::InFlight(totals) => totals,
        };
        let connections = totals.iter().enumerate().map(|(i, &in_flight)| {
            if in_flight % per_connection == 0 {
                return Ok(in_flight / per_connection);
            }
            Err(mistake(
                "in_flight",
                format!(
                    "`in_flight`: {in_flight} is not a multiple of {per_connection}, the number of \
                     requests in flight per connection of workload {workload:?}\nhint: use a \
                     multiple of {per_connection}"
                ),
            )
            .with_child(i))
        });
        connections.collect()
    }
}

/// Adds the table `[load]` to the position of a mistake.
pub(super) fn locate_in_load(mistake: Mistake) -> Mistake {
    mistake.with_parent("load")
}

fn time(key: &'static str, text: &Option<String>, default_ns: u64) -> Result<u64, Mistake> {
    optional(key, text).map(|ns| ns.unwrap_or(default_ns))
}

fn optional(key: &'static str, text: &Option<String>) -> Result<Option<u64>, Mistake> {
    text.as_deref().map(units::duration).transpose().map_err(|m| mistake(key, m))
}

/// Value of `rate` that searches for the highest rate that meets the objective.
const FIND: &str = "find";

const NO_OBJECTIVE: &str = "`rate = \"find\"`: needs an objective\nhint: add one to [report], such \
                            as `objective = \"p99<5ms,errors<0.1%\"`";

/// Parses `find_width`, a percentage, to a share from 0.001 to 1.
fn search_width(text: &str) -> Result<f64, Mistake> {
    let percent =
        text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = percent.map(|percent| percent / 100.0);
    share.filter(|share| (0.001..=1.0).contains(share)).ok_or_else(|| {
        mistake(
            "find_width",
            format!(
                "`find_width`: {text:?} is not a percentage from 0.1% to 100%\nhint: write a \
                 percentage such as 5%"
            ),
        )
    })
}

/// Parses a rate to the schedule of an open loop.
fn check_rate(
    rate: &Rate,
    arrival: Arrival,
    warmup_ns: u64,
    duration_ns: u64,
) -> Result<Arrivals, Mistake> {
    let text = match rate {
        Rate::Number(n) => n.to_string(),
        Rate::Text(text) => text.clone(),
    };
    let gaps = match arrival {
        Arrival::Constant => Gaps::Even,
        Arrival::Poisson => Gaps::Exponential,
    };
    units::rate(&text, warmup_ns, duration_ns)
        .map(|profile| profile.arrivals(gaps))
        .map_err(|m| mistake("rate", m))
}

/// Refuses keys that have no meaning for a workload that is a page, because visitors load pages one
/// after the other over persistent connections. `steps`: indices of the workload's steps.
pub(super) fn check_pages(load: &Load, steps: &[usize]) -> Result<(), Mistake> {
    let refuse = |key, name| {
        Err(mistake(
            key,
            format!(
                "`{name}`: cannot be used with pages. Each visitor loads one page after the other \
                 (closed loop) over persistent connections\nhint: remove `{name}`"
            ),
        ))
    };
    let mut page_steps = steps.iter().map(|step| &load.steps[*step]);
    if page_steps.clone().any(|step| !step.arrivals.is_closed()) {
        return refuse("rate", "rate");
    }
    if page_steps.any(|step| step.pipeline > 1) {
        return refuse("pipeline", "pipeline");
    }
    if load.requests_per_connection.is_some() {
        return refuse("requests_per_connection", "requests_per_connection");
    }
    if load.ramp_connections_ns.is_some() {
        return refuse("ramp_connections", "ramp_connections");
    }
    Ok(())
}
