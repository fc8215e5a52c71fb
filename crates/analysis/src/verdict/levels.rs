//! Caveats about windows that hold several levels: a mean over them is a value that the server
//! never sustained.

use dyno_archive::Phase;
use dyno_archive::plan::{LoadModel, StillWarming};
use serde_json::{Value, json};

use super::warming::{has_one_rate, is_ramped};
use crate::caveat::{Caveat, Code, Severity};
use crate::load::LoadResult;
use crate::server::ServerUse;
use crate::window_levels::{self, Fit, IntervalValues, Pattern, Steadiness};

/// Codes that say of a step that its throughput was not on one level.
pub(crate) const THROUGHPUT_LEVELS: [Code; 3] = [Code::Slowdown, Code::Speedup, Code::Cyclic];

/// By how many times the noise around them levels differ at least.
const STANDS_OUT: f64 = 4.0;

/// Ratio of levels from which on they are no noise of the machine, and by how many times the noise
/// such levels differ at least.
const LARGE: f64 = 1.5;
const LARGE_STANDS_OUT: f64 = 2.0;

/// Least ratio of levels of the CPU time per request. Neighbours of the server on its machine
/// change it by a tenth and more.
const COST: f64 = 1.25;

/// The same of response times, and by how many times the noise they differ at least: at a high
/// utilisation queues grow and shrink for many intervals (checked with M/M/1 in the tests).
const RESPONSE: f64 = 2.0;
const RESPONSE_STANDS_OUT: f64 = 6.0;

/// Least share of a change, in logarithms, that the CPU time per request of the generator shows,
/// too, where the machine became faster or slower, and not the server.
const OF_MACHINE: f64 = 0.5;

/// Every caveat about levels. `so_far`: the step's other caveats.
pub(super) fn caveats(
    load: &LoadResult,
    server: &ServerUse,
    steadiness: &Steadiness,
    so_far: &[Caveat],
) -> Vec<Caveat> {
    let is_warming = so_far.iter().any(|caveat| caveat.code == Code::StillWarming);
    let step = Step { load, steadiness, is_warming };
    let throughput = step.throughput();
    let cost = if throughput.is_none() { step.cost(server) } else { None };
    throughput.into_iter().chain(cost).chain(step.response()).collect()
}

/// The same of a load whose server was not observed.
pub(super) fn unobserved_caveats(load: &LoadResult) -> Vec<Caveat> {
    let server = ServerUse::default();
    let found = window_levels::steadiness(&window_levels::intervals(load, &server));
    found.map_or_else(Vec::new, |steadiness| caveats(load, &server, &steadiness, &[]))
}

/// A stretch of time on one level.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    start_s: f64,
    end_s: f64,
    value: f64,
}

/// The levels of one quantity, in order of time; at least one.
struct Levels {
    all: Vec<Level>,
    unit: &'static str,
    /// Standard deviation of the intervals around them, in logarithms.
    noise: f64,
}

impl Levels {
    fn new(
        levels: impl Iterator<Item = (f64, f64, f64)>,
        unit: &'static str,
        noise: f64,
    ) -> Levels {
        let all = levels.map(|(start_s, end_s, value)| Level { start_s, end_s, value }).collect();
        Levels { all, unit, noise }
    }

    fn lowest(&self) -> Level {
        self.all.iter().copied().min_by(|a, b| a.value.total_cmp(&b.value)).expect("a level")
    }

    fn highest(&self) -> Level {
        self.all.iter().copied().max_by(|a, b| a.value.total_cmp(&b.value)).expect("a level")
    }

    fn last(&self) -> Level {
        self.all[self.all.len() - 1]
    }

    /// The highest as a multiple of the lowest.
    fn ratio(&self) -> f64 {
        self.highest().value / self.lowest().value
    }

    /// `to 2.00 times its lowest level`.
    fn rise(&self) -> String {
        match self.lowest().value {
            0.0 => "from no responses".into(),
            lowest => format!("to {:.2} times its lowest level", self.last().value / lowest),
        }
    }

    /// Whether they differ by more than the noise around them makes stretches differ.
    fn stand_out(&self) -> bool {
        let ratio = self.ratio();
        let times = if ratio >= LARGE { LARGE_STANDS_OUT } else { STANDS_OUT };
        self.all.len() > 1 && ratio.ln() >= times * self.noise
    }

    /// `400 requests/s until 2.4 s after the load began, then 1900 requests/s`.
    fn timeline(&self) -> String {
        /// More levels are too many to read.
        const MOST: usize = 5;
        let unit = self.unit;
        let earlier = &self.all[..(self.all.len() - 1).min(MOST)];
        let until = |(place, level): (usize, &Level)| {
            let since = if place == 0 { " after the load began" } else { "" };
            format!("{} {unit} until {:.1} s{since}", number(level.value), level.end_s)
        };
        let mut said: Vec<String> = earlier.iter().enumerate().map(until).collect();
        let left = self.all.len() - 1 - earlier.len();
        if left > 0 {
            said.push(format!("{left} more levels"));
        }
        format!("{}, then {} {unit}", said.join(", "), number(self.last().value))
    }

    /// The first and the last, in words.
    fn ends(&self) -> String {
        format!("{} to {} {}", number(self.all[0].value), number(self.last().value), self.unit)
    }
}

/// A number with about three digits.
fn number(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Inputs of the judgement of a step's levels.
struct Step<'a> {
    load: &'a LoadResult,
    steadiness: &'a Steadiness,
    /// A caveat says already that the server was still warming up.
    is_warming: bool,
}

impl Step<'_> {
    /// Throughput that changed its level. At a rate that changes it follows the rate.
    fn throughput(&self) -> Option<Caveat> {
        let (load, of) = (self.load, self.steadiness);
        if load.config.model == LoadModel::Open && !has_one_rate(load) {
            return None;
        }
        let rises = matches!(of.pattern, Pattern::WarmUp | Pattern::None);
        if rises && of.counts_from_s.is_some() {
            return last_level(of, self.evidence());
        }
        // More connections serve more.
        let is_expected = self.is_warming || is_ramped(load);
        let pieces = of.pieces.iter().map(|p| (p.start_s, p.end_s, p.throughput_rps));
        let levels = Levels::new(pieces, "requests/s", of.noise);
        let is_reported =
            levels.stand_out() && !self.is_machines(levels.lowest(), levels.highest());
        if !is_reported || rises && is_expected {
            return None;
        }
        let mean = format!(
            "The mean ({} requests/s) describes none of these levels.",
            number(load.throughput_rps)
        );
        let (timeline, cost) = (levels.timeline(), self.cost_meanwhile());
        let (code, message) = match of.pattern {
            Pattern::Slowdown => (
                Code::Slowdown,
                format!(
                    "Throughput fell within the measured window to {:.2} times its highest level: \
                     {timeline}. {mean}{cost} Look for other changes at that time in the explorer, \
                     and repeat the step.",
                    levels.last().value / levels.highest().value
                ),
            ),
            Pattern::Cyclic => (
                Code::Cyclic,
                format!(
                    "Throughput went up and down within the measured window: {timeline}. {mean} \
                     The mean depends on where the window begins.{cost} Measure several periods (a \
                     longer `duration`, or `-d`)."
                ),
            ),
            Pattern::WarmUp | Pattern::None => (
                Code::Speedup,
                format!(
                    "Throughput rose within the measured window {}: {timeline}. {mean}{cost} Warm \
                     the server up for longer (`warmup` under `[load]`, or `--warmup`).",
                    levels.rise()
                ),
            ),
            Pattern::Flat => return None,
        };
        Some(Caveat::new(code, self.severity(rises), message, self.evidence()))
    }

    /// Where warming is what is measured, rising throughput and falling cost are the result.
    fn severity(&self, is_better: bool) -> Severity {
        let is_asked = is_better && self.load.config.still_warming == StillWarming::Measured;
        if is_asked { Severity::Info } else { Severity::Warning }
    }

    fn evidence(&self) -> Value {
        let Steadiness { pieces, last_to_first, cost, .. } = self.steadiness;
        let cost = cost.as_ref().map(|cost| &cost.pieces);
        json!({"pieces": pieces, "last_to_first": last_to_first, "cost_pieces": cost})
    }

    fn costs(&self) -> Option<Levels> {
        let cost = self.steadiness.cost.as_ref()?;
        let pieces = cost.pieces.iter().map(|p| (p.start_s, p.end_s, p.cpu_us_per_request));
        Some(Levels::new(pieces, "µs", cost.noise))
    }

    /// Describes the CPU time per request where throughput changed its level.
    fn cost_meanwhile(&self) -> String {
        let costs = self.costs().filter(|costs| costs.ratio() >= COST && costs.stand_out());
        costs.map_or_else(String::new, |costs| {
            format!(" CPU time per request went from {} meanwhile.", costs.ends())
        })
    }

    /// CPU time per request that changed its level while throughput did not. On any server it
    /// depends on the rate and on the number of connections.
    fn cost(&self, server: &ServerUse) -> Option<Caveat> {
        let load = self.load;
        if is_ramped(load) || load.config.model == LoadModel::Open && !has_one_rate(load) {
            return None;
        }
        // Then the last level counts, and the whole window's costs hold what came before it.
        if self.steadiness.counts_from_s.is_some() {
            return None;
        }
        let pattern = self.steadiness.cost.as_ref()?.pattern;
        let costs = self.costs()?;
        let is_reported = costs.ratio() >= COST && costs.stand_out();
        if !is_reported || self.is_machines(costs.highest(), costs.lowest()) {
            return None;
        }
        let (times, last) = (|from: Level| costs.last().value / from.value, "CPU time per request");
        let falls = matches!(pattern, Pattern::WarmUp | Pattern::None);
        let (did, action) = match pattern {
            Pattern::Slowdown => (
                format!(
                    "rose within the measured window to {:.2} times its lowest level",
                    times(costs.lowest())
                ),
                "A longer window (`duration`) shows whether it rises further.",
            ),
            Pattern::WarmUp | Pattern::None if self.is_warming => return None,
            Pattern::WarmUp | Pattern::None => (
                format!(
                    "fell within the measured window to {:.2} times its highest level",
                    times(costs.highest())
                ),
                "Warm the server up for longer (`warmup` under `[load]`).",
            ),
            Pattern::Cyclic => (
                "went up and down within the measured window".into(),
                "Measure several periods (a longer `duration`).",
            ),
            Pattern::Flat => return None,
        };
        let mean = server.cpu_us_per_request.map_or_else(String::new, |us| {
            format!(" The mean ({} µs) describes none of these levels.", number(us))
        });
        let message = format!("{last} {did}: {}.{mean} {action}", costs.timeline());
        let evidence = json!({"pieces": self.steadiness.cost.as_ref().map(|cost| &cost.pieces)});
        Some(Caveat::new(Code::CostLevels, self.severity(falls), message, evidence))
    }

    /// Response times of an offered rate that changed their level once. A closed loop sends less
    /// where they are longer, so that its throughput shows it.
    fn response(&self) -> Option<Caveat> {
        let load = self.load;
        if load.config.model == LoadModel::Closed || !has_one_rate(load) || is_ramped(load) {
            return None;
        }
        let seen = window_levels::intervals(load, &ServerUse::default());
        let medians: Option<Vec<f64>> =
            seen.iter().map(|one: &IntervalValues| one.response_us).collect();
        let Fit { pieces, noise } = window_levels::fit(&seen, &medians?)?;
        let levels =
            Levels::new(pieces.into_iter().map(|(from, to, us)| (from, to, us / 1e3)), "ms", noise);
        let ratio = levels.ratio();
        let is_reported =
            levels.all.len() == 2 && ratio >= RESPONSE && ratio.ln() >= RESPONSE_STANDS_OUT * noise;
        is_reported.then(|| {
            let message = format!(
                "Response times changed their level within the measured window: the median was {}. \
                 Percentiles of the whole window mix both levels. Warm the server up for longer \
                 (`warmup`), or find the cause of the change.",
                levels.timeline()
            );
            let level = |level: &Level| {
                json!({
                    "start_s": level.start_s, "end_s": level.end_s, "p50_us": level.value * 1e3,
                })
            };
            let evidence = json!({"pieces": levels.all.iter().map(level).collect::<Vec<_>>()});
            Caveat::new(Code::ResponseLevels, Severity::Warning, message, evidence)
        })
    }

    /// Whether the requests of the generator cost more, too, where the server was slower: then the
    /// machine became slower or faster, by less than any server of its own would be noticed for.
    fn is_machines(&self, slow: Level, fast: Level) -> bool {
        let ratio = (slow.value / fast.value).max(fast.value / slow.value);
        let generators = self.generator_us(slow).zip(self.generator_us(fast));
        ratio < LARGE
            && generators.is_some_and(|(slow, fast)| slow / fast >= ratio.powf(OF_MACHINE))
    }

    /// CPU time of the busiest thread of the generator per response, in a stretch of the window;
    /// `None`: unknown.
    fn generator_us(&self, level: Level) -> Option<f64> {
        /// Starts and ends are nanoseconds as seconds.
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

/// A server that got faster within the window and counts by its last level.
fn last_level(steadiness: &Steadiness, evidence: Value) -> Option<Caveat> {
    let from_s = steadiness.counts_from_s?;
    let last = steadiness.pieces.last()?;
    let message = format!(
        "The server became {:.2} times as fast within the measured window and stayed so. Only the \
         last {:.1} s count, from {from_s:.1} s after the load began. The generator's resource \
         use, TCP segments, HTTP/2 frames and peak memory cover the whole window.",
        steadiness.last_to_first,
        last.end_s - from_s,
    );
    Some(Caveat::new(Code::LastLevel, Severity::Info, message, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;
    use crate::load::IntervalResult;
    use crate::stats::draws::Normal;

    fn values(rates: &[f64], length_s: f64) -> Vec<IntervalValues> {
        let one = |(k, rps): (usize, &f64)| IntervalValues {
            start_s: k as f64 * length_s,
            end_s: (k + 1) as f64 * length_s,
            throughput_rps: *rps,
            cpu_us_per_request: Some(1e6 / rps),
            response_us: None,
        };
        rates.iter().enumerate().map(one).collect()
    }

    fn load() -> LoadResult {
        fixture::result(&fixture::record(1000), None)
    }

    /// The share of windows without any change that have a caveat.
    fn false_alarms(intervals: usize, mut rates: impl FnMut(usize) -> Vec<f64>) -> f64 {
        const WINDOWS: usize = 400;
        let load = load();
        let is_reported = |_: &usize| {
            let found = window_levels::steadiness(&values(&rates(intervals), 0.1)).expect("enough");
            !caveats(&load, &ServerUse::default(), &found, &[]).is_empty()
        };
        (0..WINDOWS).filter(is_reported).count() as f64 / WINDOWS as f64
    }

    #[test]
    fn windows_on_one_level_have_rarely_a_caveat() {
        let mut draw = Normal(40);
        for intervals in [10, 30, 100] {
            for noise in [0.003, 0.02, 0.1, 0.3] {
                let share = false_alarms(intervals, |n| draw.values(n, 1000.0, noise));
                assert!(share <= 0.05, "{noise} of {intervals}: {share}");
            }
            // Neighbouring intervals alike, as those of a machine with other programs are.
            let share = false_alarms(intervals, |n| {
                let mut last = 0.0;
                let next = |_| {
                    last = 0.5 * last + 0.05 * draw.draw();
                    1000.0 * f64::exp(last)
                };
                (0..n).map(next).collect()
            });
            assert!(share <= 0.05, "alike, {intervals}: {share}");
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
                && let Some(own) = times.get_mut((free * 10.0) as usize)
            {
                own.push(free - clock);
            }
        }
        times.iter().map(|own| crate::stats::median(own).map(|s| s * 1e6)).collect()
    }

    fn open_loop(medians: &[Option<f64>]) -> LoadResult {
        let mut load = load();
        (load.config.model, load.config.rate) = (LoadModel::Open, Some(400.0));
        let one = load.intervals[0].clone();
        let interval = |(k, p50): (usize, &Option<f64>)| {
            let mut own = IntervalResult {
                phase: Phase::Measured,
                start_s: 0.1 * k as f64,
                end_s: 0.1 * (k + 1) as f64,
                throughput_rps: 400.0,
                ..one.clone()
            };
            own.response_time_us.p50 = *p50;
            own
        };
        load.intervals = medians.iter().enumerate().map(interval).collect();
        load
    }

    #[test]
    fn queues_that_grow_and_shrink_have_rarely_a_caveat() {
        const WINDOWS: usize = 100;
        let mut draw = Normal(41);
        for (rate, utilisation) in [(400.0, 0.3), (400.0, 0.8), (400.0, 0.95), (4000.0, 0.95)] {
            let is_reported = |_: &usize| {
                let load = open_loop(&medians(rate, utilisation, 30, &mut draw));
                unobserved_caveats(&load).iter().any(|caveat| caveat.code == Code::ResponseLevels)
            };
            let share = (0..WINDOWS).filter(is_reported).count() as f64 / WINDOWS as f64;
            assert!(share <= 0.05, "{rate}/s, {utilisation}: {share}");
        }
    }

    #[test]
    fn jump_is_reported_in_spite_of_noise() {
        let (load, mut draw) = (load(), Normal(42));
        for (first, last, code) in [(400.0, 1900.0, Code::Speedup), (1900.0, 400.0, Code::Slowdown)]
        {
            for noise in [0.0, 0.05, 0.15] {
                let is_reported = |_: &usize| {
                    let rates =
                        [draw.values(12, first, noise), draw.values(18, last, noise)].concat();
                    let found = window_levels::steadiness(&values(&rates, 0.1)).expect("enough");
                    let all = caveats(&load, &ServerUse::default(), &found, &[]);
                    matches!(&all[..], [one] if one.code == code)
                };
                let reported = (0..100).filter(is_reported).count();
                assert!(reported >= 95, "{first} to {last}, {noise}: {reported}");
            }
        }
    }
}
