//! Derives caveats about measured windows with several levels of throughput, CPU time per request
//! or response time. The mean over such levels is a value that the server never sustained.
//!
//! The doc comment of each rule states the condition under which its caveat applies.

#[cfg(test)]
mod cases;

use dyno_model::Phase;
use dyno_model::plan::{LoadModel, StillWarming};
use serde_json::{Value, json};

use super::pauses::reported_stalls;
use super::warming::{has_constant_rate, is_ramped, unfinished_warm_up};
use super::{LoadInputs, TrialInputs};
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::server::ServerUse;
use crate::window_levels::{self, Fit, IntervalValues, Pattern, Steadiness};

caveats! {
    /// Throughput fell within the measured window.
    SLOWDOWN = "slowdown" in Levels {
        more: "levels-and-capacity.md#levels",
        properties: [AboutWaiting, ThroughputLevels],
        rules: [Load(throughput_of_load), Trial(|t| Step::from_trial(t)?.throughput())],
    }

    /// Throughput rose within the measured window.
    SPEEDUP = "speedup" in Levels {
        more: "levels-and-capacity.md#levels",
        properties: [AboutWaiting, ThroughputLevels],
        // The rule of `slowdown` finds it.
    }

    /// Throughput went up and down between levels within the measured window.
    CYCLIC = "cyclic" in Levels {
        more: "levels-and-capacity.md#levels",
        properties: [AboutWaiting, ThroughputLevels],
        // The rule of `slowdown` finds it.
    }

    /// CPU time per request changed its level within the measured window.
    COST_LEVELS = "cost_levels" in Levels {
        more: "levels-and-capacity.md#levels",
        rules: [Trial(|t| Step::from_trial(t)?.cost(t.server?))],
    }

    /// At an offered rate, response times changed their level within the measured window.
    RESPONSE_LEVELS = "response_levels" in Levels {
        more: "levels-and-capacity.md#levels",
        rules: [Load(response_of_load), Trial(|t| Step::from_trial(t)?.response())],
    }

    /// The server got faster within the measured window. Only its last level is used.
    LAST_LEVEL = "last_level" in Levels {
        more: "levels-and-capacity.md#the-last-level",
        // The rule of `slowdown` finds it.
    }
}

/// Minimum difference between levels, as a multiple of the noise around them, both in logarithms.
const NOISE_MULTIPLE: f64 = 4.0;

/// A change of the machine's speed cannot explain levels that differ by at least this ratio.
const LARGE_RATIO: f64 = 1.5;

/// The noise multiple for ratios of [`LARGE_RATIO`] or more.
const LARGE_NOISE_MULTIPLE: f64 = 2.0;

/// Minimum ratio of levels of the CPU time per request. Other programs on the server's machine may
/// change the CPU time per request by 10 % or more.
const COST_RATIO: f64 = 1.25;

/// Minimum ratio of levels of the response time.
const RESPONSE_RATIO: f64 = 2.0;

/// The noise multiple for response times. At a high utilisation queues grow and shrink for many
/// intervals (checked with M/M/1 in the tests).
const RESPONSE_NOISE_MULTIPLE: f64 = 6.0;

/// The machine changed, and not the server, if the generator's CPU time per request shows at least
/// this share of the change, in logarithms.
const MACHINE_SHARE: f64 = 0.5;

/// Throughput changed its level in a load whose server was not observed.
fn throughput_of_load(load: &LoadInputs<'_>) -> Option<Caveat> {
    let steadiness = unobserved_steadiness(load)?;
    Step::from_load(load, &steadiness).throughput()
}

/// Response times changed their level in a load whose server was not observed.
fn response_of_load(load: &LoadInputs<'_>) -> Option<Caveat> {
    let steadiness = unobserved_steadiness(load)?;
    Step::from_load(load, &steadiness).response()
}

/// Returns the levels of a load whose server was not observed. `None`: too few intervals, the
/// server was observed, or other servers were loaded too, so that levels may only show the effect
/// of those servers.
fn unobserved_steadiness(load: &LoadInputs<'_>) -> Option<Steadiness> {
    let LoadInputs { result, record, context } = *load;
    let is_alone = record.slices_ns.is_none() && record.concurrent_loads.is_none();
    (context.server.is_none() && is_alone)
        .then(|| window_levels::intervals(result, &ServerUse::default()))
        .and_then(|intervals| window_levels::steadiness(&intervals))
}

/// A stretch of time on one level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    start_s: f64,
    end_s: f64,
    value: f64,
}

/// The levels of one quantity, in order of time. There is at least one.
struct Levels {
    levels: Vec<Level>,
    unit: &'static str,
    /// Standard deviation of the intervals around their levels, in logarithms.
    noise: f64,
}

impl Levels {
    fn new(levels: impl Iterator<Item = Level>, unit: &'static str, noise: f64) -> Levels {
        Levels { levels: levels.collect(), unit, noise }
    }

    /// Returns these levels with their pattern. `None`: there are no levels.
    fn with_pattern(self) -> Option<(Levels, Pattern)> {
        let values: Vec<(f64, f64)> =
            self.levels.iter().map(|level| (level.value, level.end_s - level.start_s)).collect();
        (!values.is_empty()).then(|| (self, window_levels::pattern(&values)))
    }

    fn lowest(&self) -> Level {
        let lowest = self.levels.iter().copied().min_by(|a, b| a.value.total_cmp(&b.value));
        lowest.expect("there should be at least one level")
    }

    fn highest(&self) -> Level {
        let highest = self.levels.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value));
        highest.expect("there should be at least one level")
    }

    fn last(&self) -> Level {
        self.levels[self.levels.len() - 1]
    }

    /// The highest level as a multiple of the lowest.
    fn ratio(&self) -> f64 {
        self.highest().value / self.lowest().value
    }

    /// Describes the rise as `to 2.00 times its lowest level`.
    fn rise_text(&self) -> String {
        match self.lowest().value {
            0.0 => "from no responses".into(),
            lowest => format!("to {:.2} times its lowest level", self.last().value / lowest),
        }
    }

    /// Whether the levels differ by more than the noise around them can explain.
    fn exceed_noise(&self) -> bool {
        let ratio = self.ratio();
        let multiple = if ratio >= LARGE_RATIO { LARGE_NOISE_MULTIPLE } else { NOISE_MULTIPLE };
        self.levels.len() > 1 && ratio.ln() >= multiple * self.noise
    }

    /// Describes the levels as `400 requests/s until 2.4 s after the load began, then 1900
    /// requests/s`.
    fn timeline(&self) -> String {
        /// Number of levels before the last one that are listed.
        const LISTED: usize = 5;
        let unit = self.unit;
        let earlier = &self.levels[..(self.levels.len() - 1).min(LISTED)];
        let until = |(index, level): (usize, &Level)| {
            let since = if index == 0 { " after the load began" } else { "" };
            format!("{} {unit} until {:.1} s{since}", number(level.value), level.end_s)
        };
        let mut parts: Vec<String> = earlier.iter().enumerate().map(until).collect();
        let omitted = self.levels.len() - 1 - earlier.len();
        if omitted > 0 {
            parts.push(format!("{omitted} more levels"));
        }
        format!("{}, then {} {unit}", parts.join(", "), number(self.last().value))
    }

    /// Describes the first and the last level as `1000 to 500 µs`.
    fn change_text(&self) -> String {
        format!("{} to {} {}", number(self.levels[0].value), number(self.last().value), self.unit)
    }
}

/// Formats a number with about three digits.
fn number(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Inputs for the caveats about a step's levels.
struct Step<'a> {
    load: &'a LoadResult,
    steadiness: &'a Steadiness,
    /// Whether the step already has the caveat that the server was still warming up.
    is_warming: bool,
    /// Starts and ends of the stalls that another caveat reports, in seconds since the load began.
    stalls: Vec<(f64, f64)>,
}

/// A level is a stall if stalls cover at least this share of it.
const STALLED_SHARE: f64 = 0.5;

impl<'a> Step<'a> {
    /// Returns the step of a load whose server was not observed.
    fn from_load(load: &LoadInputs<'a>, steadiness: &'a Steadiness) -> Step<'a> {
        let stalls = reported_stalls(load.result, load.record);
        Step { load: load.result, steadiness, is_warming: false, stalls }
    }

    /// Returns the step of a trial. `None`: the server was not monitored, or there are too few
    /// intervals.
    fn from_trial(trial: &TrialInputs<'a>) -> Option<Step<'a>> {
        trial.server?;
        let is_warming = unfinished_warm_up(trial).is_some();
        let steadiness = trial.context.steadiness?;
        let stalls = reported_stalls(trial.load, trial.context.record);
        Some(Step { load: trial.load, steadiness, is_warming, stalls })
    }

    /// Returns the levels of throughput without stalls, and their pattern. `None`: all levels are
    /// stalls.
    fn throughput_levels(&self) -> Option<(Levels, Pattern)> {
        let pieces = self.steadiness.pieces.iter().map(|p| Level {
            start_s: p.start_s,
            end_s: p.end_s,
            value: p.throughput_rps,
        });
        let levels = pieces.filter(|level| !self.is_stalled(*level));
        Levels::new(levels, "requests/s", self.steadiness.noise).with_pattern()
    }

    fn is_stalled(&self, level: Level) -> bool {
        let overlap_s = |(start_s, end_s): &(f64, f64)| {
            (end_s.min(level.end_s) - start_s.max(level.start_s)).max(0.0)
        };
        let stalled_s: f64 = self.stalls.iter().map(overlap_s).sum();
        stalled_s >= STALLED_SHARE * (level.end_s - level.start_s)
    }

    /// Throughput changed its level. If the offered rate changes, throughput follows the rate and
    /// has no caveat. A stall has its own caveat, and is no level.
    fn throughput(&self) -> Option<Caveat> {
        let (load, steadiness) = (self.load, self.steadiness);
        if load.config.model == LoadModel::Open && !has_constant_rate(load) {
            return None;
        }
        let (levels, pattern) = self.throughput_levels()?;
        let rises = matches!(pattern, Pattern::WarmUp | Pattern::LateRise);
        if rises && steadiness.counts_from_s.is_some() {
            return last_level(steadiness, self.evidence());
        }
        // Another caveat reports warming up. Connections that are still being opened raise
        // throughput.
        let is_expected_rise = rises && (self.is_warming || is_ramped(load));
        let is_reported =
            levels.exceed_noise() && !self.is_machine_change(levels.lowest(), levels.highest());
        if !is_reported || is_expected_rise {
            return None;
        }
        let mean = format!(
            "The mean ({} requests/s) is a mix of these levels.",
            number(load.throughput_rps)
        );
        let (timeline, cost) = (levels.timeline(), self.cost_change_text());
        let (code, message) = match pattern {
            Pattern::Slowdown => (
                Code::SLOWDOWN,
                format!(
                    "Throughput fell within the measured window to {:.2} times its highest level: \
                     {timeline}. {mean}{cost} Look for other changes at that time in the HTML \
                     report (Explorer), and repeat the step.",
                    levels.last().value / levels.highest().value
                ),
            ),
            Pattern::Cyclic => (
                Code::CYCLIC,
                format!(
                    "Throughput went up and down within the measured window: {timeline}. {mean} \
                     The mean therefore depends on where the window begins.{cost} Measure several \
                     of these cycles with a longer `duration` (or `-d`)."
                ),
            ),
            Pattern::WarmUp | Pattern::LateRise => (
                Code::SPEEDUP,
                format!(
                    "Throughput rose within the measured window {}: {timeline}. {mean}{cost} Warm \
                     the server up for longer (`warmup` under `[load]`, or `--warmup`).",
                    levels.rise_text()
                ),
            ),
            Pattern::Flat => return None,
        };
        Some(Caveat::new(code, self.severity(rises), message, self.evidence()))
    }

    /// Returns the severity of a change. If the load measures warming up on purpose, an improvement
    /// is the expected result.
    fn severity(&self, is_improvement: bool) -> Severity {
        let is_intended =
            is_improvement && self.load.config.still_warming == StillWarming::Measured;
        if is_intended { Severity::Info } else { Severity::Warning }
    }

    /// Returns the pieces of throughput and cost as evidence.
    fn evidence(&self) -> Value {
        let Steadiness { pieces, last_to_first, cost, .. } = self.steadiness;
        let cost = cost.as_ref().map(|cost| &cost.pieces);
        json!({"pieces": pieces, "last_to_first": last_to_first, "cost_pieces": cost})
    }

    /// Returns the levels of the CPU time per request without stalls, and their pattern. `None`:
    /// unknown.
    fn costs(&self) -> Option<(Levels, Pattern)> {
        let cost = self.steadiness.cost.as_ref()?;
        let pieces = cost.pieces.iter().map(|p| Level {
            start_s: p.start_s,
            end_s: p.end_s,
            value: p.cpu_us_per_request,
        });
        let levels = pieces.filter(|level| !self.is_stalled(*level));
        let (levels, pattern) = Levels::new(levels, "µs", cost.noise).with_pattern()?;
        let has_stalls = levels.levels.len() < cost.pieces.len();
        Some((levels, if has_stalls { pattern } else { cost.pattern }))
    }

    /// Describes the CPU time per request where throughput changed its level.
    fn cost_change_text(&self) -> String {
        let costs =
            self.costs().filter(|(costs, _)| costs.ratio() >= COST_RATIO && costs.exceed_noise());
        costs.map_or_else(String::new, |(costs, _)| {
            format!(" CPU time per request went from {} at the same time.", costs.change_text())
        })
    }

    /// CPU time per request changed its level while throughput did not. There is no caveat if the
    /// rate or the number of connections changes, because the CPU time depends on both.
    fn cost(&self, server: &ServerUse) -> Option<Caveat> {
        if self.throughput().is_some() {
            return None;
        }
        let load = self.load;
        let changes_rate = load.config.model == LoadModel::Open && !has_constant_rate(load);
        if is_ramped(load) || changes_rate {
            return None;
        }
        // If only the last level of throughput is used, costs of the whole window do not apply.
        if self.steadiness.counts_from_s.is_some() {
            return None;
        }
        let (costs, pattern) = self.costs()?;
        let is_reported = costs.ratio() >= COST_RATIO && costs.exceed_noise();
        if !is_reported || self.is_machine_change(costs.highest(), costs.lowest()) {
            return None;
        }
        let last_to = |level: Level| costs.last().value / level.value;
        let falls = matches!(pattern, Pattern::WarmUp | Pattern::LateRise);
        let (change, action) = match pattern {
            Pattern::Slowdown => (
                format!(
                    "rose within the measured window to {:.2} times its lowest level",
                    last_to(costs.lowest())
                ),
                "A longer window (`duration`) shows whether the CPU time rises further.",
            ),
            Pattern::WarmUp | Pattern::LateRise if self.is_warming => return None,
            Pattern::WarmUp | Pattern::LateRise => (
                format!(
                    "fell within the measured window to {:.2} times its highest level",
                    last_to(costs.highest())
                ),
                "Warm the server up for longer (`warmup` under `[load]`, or `--warmup`).",
            ),
            Pattern::Cyclic => (
                "went up and down within the measured window".into(),
                "Measure several of these cycles with a longer `duration`.",
            ),
            Pattern::Flat => return None,
        };
        let mean = server.cpu_us_per_request.map_or_else(String::new, |us| {
            format!(" The mean ({} µs) is a mix of these levels.", number(us))
        });
        let message =
            format!("CPU time per request {change}: {}.{mean} {action}", costs.timeline());
        let evidence = json!({"pieces": self.steadiness.cost.as_ref().map(|cost| &cost.pieces)});
        Some(Caveat::new(Code::COST_LEVELS, self.severity(falls), message, evidence))
    }

    /// Response times at an offered rate changed their level once. In a closed loop throughput
    /// shows the same change, because the loop sends fewer requests if responses take longer.
    fn response(&self) -> Option<Caveat> {
        let load = self.load;
        if load.config.model == LoadModel::Closed || !has_constant_rate(load) || is_ramped(load) {
            return None;
        }
        let intervals = window_levels::intervals(load, &ServerUse::default());
        let medians: Option<Vec<f64>> =
            intervals.iter().map(|values: &IntervalValues| values.response_us).collect();
        let Fit { pieces, noise } = window_levels::fit(&intervals, &medians?)?;
        let pieces = pieces.into_iter().map(|(start_s, end_s, median_us)| Level {
            start_s,
            end_s,
            value: median_us / 1e3,
        });
        let levels = Levels::new(pieces, "ms", noise);
        let ratio = levels.ratio();
        let is_reported = levels.levels.len() == 2
            && ratio >= RESPONSE_RATIO
            && ratio.ln() >= RESPONSE_NOISE_MULTIPLE * noise;
        is_reported.then(|| {
            let message = format!(
                "The median response time changed within the measured window: it was {}. \
                 Percentiles of the whole window mix both levels. Warm the server up for longer \
                 (`warmup`), or find the cause of the change.",
                levels.timeline()
            );
            let level = |level: &Level| {
                json!({
                    "start_s": level.start_s, "end_s": level.end_s, "p50_us": level.value * 1e3,
                })
            };
            let evidence = json!({"pieces": levels.levels.iter().map(level).collect::<Vec<_>>()});
            Caveat::new(Code::RESPONSE_LEVELS, Severity::Warning, message, evidence)
        })
    }

    /// Whether the machine changed its speed, and not the server: the change is small, and the
    /// generator used more CPU time per request during the slow level than during the fast one.
    fn is_machine_change(&self, slow: Level, fast: Level) -> bool {
        let ratio = (slow.value / fast.value).max(fast.value / slow.value);
        let (Some(slow_us), Some(fast_us)) = (self.generator_us(slow), self.generator_us(fast))
        else {
            return false;
        };
        ratio < LARGE_RATIO && slow_us / fast_us >= ratio.powf(MACHINE_SHARE)
    }

    /// Returns the CPU time of the generator's busiest thread per response during a level,
    /// microseconds. `None`: unknown.
    fn generator_us(&self, level: Level) -> Option<f64> {
        /// Tolerance for times that were converted from nanoseconds to seconds.
        const ROUNDING_S: f64 = 1e-6;
        let is_within = |start_s: f64| {
            start_s >= level.start_s - ROUNDING_S && start_s < level.end_s - ROUNDING_S
        };
        let measured = self.load.intervals.iter().filter(|i| i.phase == Phase::Measured);
        let (mut busy_s, mut responses) = (0.0, 0);
        for interval in measured.filter(|interval| is_within(interval.start_s)) {
            busy_s += interval.busiest_thread_utilisation? * (interval.end_s - interval.start_s);
            responses += interval.completed;
        }
        (responses > 0).then(|| busy_s / responses as f64 * 1e6)
    }
}

/// The server became faster within the window, and only the last level is used.
fn last_level(steadiness: &Steadiness, evidence: Value) -> Option<Caveat> {
    let from_s = steadiness.counts_from_s?;
    let last = steadiness.pieces.last()?;
    let message = format!(
        "The server became {:.2} times as fast within the measured window and stayed that fast. \
         Only the last {:.1} s of the window are used, from {from_s:.1} s after the load began. \
         Only the generator's resource use, TCP segments, HTTP/2 frames and peak memory cover the \
         whole window.",
        steadiness.last_to_first,
        last.end_s - from_s,
    );
    Some(Caveat::new(Code::LAST_LEVEL, Severity::Info, message, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::load::IntervalResult;
    use crate::stats::draws::Normal;

    fn values(rates: &[f64], length_s: f64) -> Vec<IntervalValues> {
        let interval = |(k, rps): (usize, &f64)| IntervalValues {
            start_s: k as f64 * length_s,
            end_s: (k + 1) as f64 * length_s,
            throughput_rps: *rps,
            cpu_us_per_request: Some(1e6 / rps),
            response_us: None,
        };
        rates.iter().enumerate().map(interval).collect()
    }

    fn load() -> LoadResult {
        fixture::result(&fixture::record(1000), None)
    }

    fn step_caveats(load: &LoadResult, steadiness: &Steadiness) -> Vec<Caveat> {
        let step = Step { load, steadiness, is_warming: false, stalls: Vec::new() };
        let caveats = [step.throughput(), step.cost(&ServerUse::default()), step.response()];
        caveats.into_iter().flatten().collect()
    }

    /// Share of windows without any change that get a caveat.
    fn false_alarms(intervals: usize, mut rates: impl FnMut(usize) -> Vec<f64>) -> f64 {
        const WINDOWS: usize = 400;
        let load = load();
        let is_reported = |_: &usize| {
            let steadiness =
                window_levels::steadiness(&values(&rates(intervals), 0.1)).expect("enough");
            !step_caveats(&load, &steadiness).is_empty()
        };
        (0..WINDOWS).filter(is_reported).count() as f64 / WINDOWS as f64
    }

    #[test]
    fn single_level_windows_rarely_get_caveats() {
        let mut draw = Normal(40);
        for intervals in [10, 30, 100] {
            for noise in [0.003, 0.02, 0.1, 0.3] {
                let share = false_alarms(intervals, |n| draw.values(n, 1000.0, noise));
                assert!(share <= 0.05, "{noise} of {intervals}: {share}");
            }
            // Neighbouring intervals are alike, as on a machine with other programs.
            let share = false_alarms(intervals, |n| {
                let mut last = 0.0;
                let next = |_| {
                    last = 0.5 * last + 0.05 * draw.draw();
                    1000.0 * f64::exp(last)
                };
                (0..n).map(next).collect()
            });
            assert!(share <= 0.05, "correlated, {intervals}: {share}");
        }
    }

    /// Medians of the response times of M/M/1 by Lindley's recursion (1952), by interval of 0.1 s.
    fn medians(
        rate: f64,
        utilisation: f64,
        intervals: usize,
        draw: &mut Normal,
    ) -> Vec<Option<f64>> {
        let mut exponential = |mean: f64| -mean * draw.uniform().max(1e-300).ln();
        let (mut clock, mut free) = (-1.0f64, -1.0f64);
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); intervals];
        while clock < 0.1 * intervals as f64 {
            clock += exponential(1.0 / rate);
            free = free.max(clock) + exponential(utilisation / rate);
            if free >= 0.0
                && let Some(interval) = times.get_mut((free * 10.0) as usize)
            {
                interval.push(free - clock);
            }
        }
        times.iter().map(|times| crate::stats::median(times).map(|s| s * 1e6)).collect()
    }

    fn open_loop(medians: &[Option<f64>]) -> LoadResult {
        let mut load = load();
        (load.config.model, load.config.rate) = (LoadModel::Open, Some(400.0));
        let template = load.intervals[0].clone();
        let interval = |(k, p50): (usize, &Option<f64>)| {
            let mut interval = IntervalResult {
                phase: Phase::Measured,
                start_s: 0.1 * k as f64,
                end_s: 0.1 * (k + 1) as f64,
                throughput_rps: 400.0,
                ..template.clone()
            };
            interval.response_time_us.p50 = *p50;
            interval
        };
        load.intervals = medians.iter().enumerate().map(interval).collect();
        load
    }

    #[test]
    fn random_queues_rarely_get_level_caveats() {
        const WINDOWS: usize = 100;
        let mut draw = Normal(41);
        for (rate, utilisation) in [(400.0, 0.3), (400.0, 0.8), (400.0, 0.95), (4000.0, 0.95)] {
            let is_reported = |_: &usize| {
                let load = open_loop(&medians(rate, utilisation, 30, &mut draw));
                let intervals = window_levels::intervals(&load, &ServerUse::default());
                let steadiness = window_levels::steadiness(&intervals).expect("enough");
                let caveats = step_caveats(&load, &steadiness);
                caveats.iter().any(|caveat| caveat.code == Code::RESPONSE_LEVELS)
            };
            let share = (0..WINDOWS).filter(is_reported).count() as f64 / WINDOWS as f64;
            assert!(share <= 0.05, "{rate}/s, {utilisation}: {share}");
        }
    }

    #[test]
    fn jump_in_noise_is_reported() {
        let (load, mut draw) = (load(), Normal(42));
        for (first, last, code) in [(400.0, 1900.0, Code::SPEEDUP), (1900.0, 400.0, Code::SLOWDOWN)]
        {
            for noise in [0.0, 0.05, 0.15] {
                let is_reported = |_: &usize| {
                    let rates =
                        [draw.values(12, first, noise), draw.values(18, last, noise)].concat();
                    let steadiness =
                        window_levels::steadiness(&values(&rates, 0.1)).expect("enough");
                    let caveats = step_caveats(&load, &steadiness);
                    matches!(&caveats[..], [caveat] if caveat.code == code)
                };
                let reported = (0..100).filter(is_reported).count();
                assert!(reported >= 95, "{first} to {last}, {noise}: {reported}");
            }
        }
    }
}
