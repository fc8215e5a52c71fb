//! Follows a running load for the live view or progress lines, the stream and the metrics.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use dyno_analysis::load::percentile_value::quantile_of_due;
use dyno_analysis::load::{LoadConfig, Percentiles, interval_result};
use dyno_lab::load::{LoadSpec, LoadStopReason, Watch};
use dyno_launch::supervision::Interrupts;
use dyno_model::times::Recording;
use dyno_model::{Interval, Outcome, Outcomes, Phase, Times};
use dyno_report::format::{count, plural, running_percentile_text};
use dyno_report::present::style::Style;
use dyno_report::{terminal as filter, text};

use super::outputs::{IntervalStream, Metrics, missing_lines_warning, streams_to_stdout};
use crate::background::PATIENCE;
use crate::cli::LoadArgs;
use crate::line_writer::{LineWriter, WriterState};
use crate::live::model::{self, LiveModel, LivePoint};
use crate::live::view::Palette;
use crate::live::{self, Live};
use crate::terminal;

/// Seconds between plain progress lines if standard error is not a terminal.
const LINE_EVERY_S: f64 = 10.0;

/// Seconds between drawings of the live view. The view is also drawn after each interval.
const DRAW_EVERY_S: f64 = 0.25;

/// The outputs of a running load, and the state of its server.
pub struct LoadWatch {
    screen: Screen,
    stream: Option<IntervalStream>,
    metrics: Option<Metrics>,
    interrupts: Arc<Interrupts>,
    /// URL of the load.
    url: String,
    /// State of the server so far.
    server: Server,
}

enum Screen {
    Live(Box<LiveScreen>),
    Lines(Box<ProgressLines>),
}

/// The live view, and the totals that it displays.
struct LiveScreen {
    live: Live,
    totals: LiveTotals,
    /// The instant at which the load began, for the displayed time.
    began: Instant,
    /// Elapsed time at the last drawing, seconds.
    drawn_s: f64,
    /// Whether the screen could not be drawn, because its terminal is gone.
    is_lost: bool,
}

/// The numbers of the live view, summed over the intervals.
struct LiveTotals {
    model: LiveModel,
    /// Response times of the measured window.
    response: Recording,
    /// Outcomes of the requests of the current phase: the warm-up, or the measured window.
    outcomes: Outcomes,
}

/// Plain progress lines, written by a separate thread: standard error may be a stalled pipe.
struct ProgressLines {
    writer: LineWriter,
    sums: ProgressSums,
}

/// Sums over the intervals since the last progress line.
struct ProgressSums {
    print_interval_s: f64,
    /// End of the last line, seconds since the load began.
    printed_s: f64,
    /// Planned length with the warm-up. `None`: the load has no planned length.
    planned_s: Option<f64>,
    /// Sum of the intervals that no line shows yet. They have the same phase.
    unprinted: Option<Interval>,
}

impl LoadWatch {
    pub fn new(
        args: &LoadArgs,
        spec: &LoadSpec,
        config: &LoadConfig,
        stream: Option<IntervalStream>,
        interrupts: Arc<Interrupts>,
    ) -> anyhow::Result<LoadWatch> {
        let metrics = args.metrics.map(|addr| Metrics::serve(addr, config)).transpose()?;
        let planned_s = spec.load.set_duration_ns().map(|d| (d + spec.load.warmup_ns) as f64 / 1e9);
        let screen = match start_live_view(args) {
            Some(live) => {
                let mut live_screen = LiveScreen::new(live, spec, config, planned_s);
                if let Some(metrics) = &metrics {
                    let subtitle = &mut live_screen.totals.model.subtitle;
                    *subtitle = format!("{subtitle} · {}", metrics.page.url);
                }
                Screen::Live(Box::new(live_screen))
            }
            None => Screen::Lines(Box::new(ProgressLines::start(planned_s)?)),
        };
        Ok(LoadWatch {
            screen,
            stream,
            metrics,
            interrupts,
            url: config.url.clone(),
            server: Server::Unknown,
        })
    }

    /// Restores the terminal, and completes the stream and the progress lines. If the load has
    /// begun but had no interval, the stream still gets its first line. A stalled reader of the
    /// stream delays this function by at most [`PATIENCE`], and so does a stalled reader of
    /// standard error.
    ///
    /// # Errors
    /// The stream could not be written. Lines that a slow reader missed are only a warning.
    pub fn end(mut self, has_begun: bool) -> anyhow::Result<()> {
        let stream = self.stream.take();
        // The terminal is restored first, because the stream may take a while.
        let lines = match self.screen {
            Screen::Live(live_screen) => {
                drop(live_screen);
                None
            }
            Screen::Lines(lines) => Some(lines),
        };
        let stream_result = stream.map_or(Ok(0), |stream| stream.end(has_begun, PATIENCE));
        let warning = stream_result.as_ref().ok().and_then(|n| missing_lines_warning(*n));
        match lines {
            Some(lines) => lines.end(warning, PATIENCE),
            None => warning.iter().for_each(|warning| terminal::say(warning)),
        }
        stream_result.map(|_| ())
    }

    /// Prints a message without waiting for the reader of progress lines.
    fn say(&mut self, message: String) {
        match &mut self.screen {
            Screen::Live(_) => terminal::say(&message),
            Screen::Lines(lines) => lines.writer.line(message),
        }
    }
}

/// Starts the live view. `None`: the output is not a terminal, or the view is disabled.
fn start_live_view(args: &LoadArgs) -> Option<Live> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    if args.no_tui || !is_terminal || streams_to_stdout(args) || !args.format.is_text() {
        return None;
    }
    let palette = match terminal::progress_style() {
        Style::Plain => Palette::PLAIN,
        Style::Colour => Palette::COLOUR,
    };
    Live::start(palette).ok()
}

impl Watch for LoadWatch {
    fn interval(&mut self, interval: &Interval) {
        if let Some(stream) = &mut self.stream {
            stream.interval(interval);
        }
        if let Some(metrics) = &mut self.metrics {
            metrics.interval(interval);
        }
        match &mut self.screen {
            Screen::Live(live_screen) => live_screen.interval(interval),
            Screen::Lines(lines) => lines.interval(interval),
        }
        if self.server == Server::Unknown {
            self.server = Server::from_interval(interval);
        }
    }

    fn stop(&mut self) -> Option<LoadStopReason> {
        if let Screen::Live(live_screen) = &mut self.screen {
            live_screen.draw();
            if live_screen.is_closed() && self.interrupts.count() == 0 {
                // In raw mode the terminal sends no signal for Ctrl-C, so this interrupt is counted
                // here. After the terminal is restored, Ctrl-C sends a signal again.
                live::restore_terminal();
                terminal::say(super::preparation::ENDING_EARLY);
                self.interrupts.raise();
            }
        }
        if self.server == Server::Absent {
            self.server = Server::ReportedAbsent;
            live::restore_terminal();
            let url = filter::escape_line(&self.url);
            self.say(format!(
                "{url}: every connection was refused, ending early\nhint: start the server, or \
                 correct the address"
            ));
        }
        (self.interrupts.count() > 0 || self.server == Server::ReportedAbsent)
            .then_some(LoadStopReason::Stopped)
    }
}

/// State of the server after the first outcomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    Unknown,
    /// The server accepted a connection, or a connection failed for another reason than a refusal.
    /// The load continues, because failures are measured.
    Present,
    /// Every connection was refused: there is nothing to measure.
    Absent,
    /// The absence was reported to the user.
    ReportedAbsent,
}

impl Server {
    fn from_interval(interval: &Interval) -> Server {
        let mut outcomes = interval.outcomes.clone();
        outcomes.add(&interval.carried);
        let refused = outcomes.get(Outcome::ConnectRefused);
        match (interval.connections_open, outcomes.total()) {
            (0, 0) => Server::Unknown,
            (0, total) if total == refused => Server::Absent,
            _ => Server::Present,
        }
    }
}

/// Returns the number of requests of the interval's phase that failed.
fn failed_count(interval: &Interval) -> u64 {
    not_ok_count(&interval.outcomes)
}

/// Returns the number of requests of the warm-up that failed in an interval of the measured window.
fn late_warmup_failures(interval: &Interval) -> u64 {
    not_ok_count(&interval.carried)
}

fn not_ok_count(outcomes: &Outcomes) -> u64 {
    outcomes.not_ok().map(|(_, n)| n).sum()
}

fn seconds(interval: &Interval) -> f64 {
    (interval.end_ns - interval.start_ns) as f64 / 1e9
}

impl ProgressLines {
    fn start(planned_s: Option<f64>) -> anyhow::Result<ProgressLines> {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let writer = LineWriter::start(|line| {
            terminal::say(line);
            Ok(())
        });
        let print_interval_s = if is_terminal { 0.0 } else { LINE_EVERY_S };
        Ok(ProgressLines {
            writer: writer.context("progress lines: no thread can be started")?,
            sums: ProgressSums { print_interval_s, printed_s: 0.0, planned_s, unprinted: None },
        })
    }

    /// Prints the last message, and waits for all lines, but at most for `patience`.
    fn end(mut self, message: Option<String>, patience: Duration) {
        message.into_iter().for_each(|message| self.writer.line(message));
        let end = self.writer.end(patience);
        // A blocked writer means that a warning would block, too.
        if let WriterState::Finished = end.state
            && end.missing_lines > 0
        {
            let lines = plural(end.missing_lines, "progress line");
            terminal::say(&format!(
                "{lines} not printed, because the reader of standard error was too slow. The \
                 result of the load is complete."
            ));
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.sums.add(interval).into_iter().flatten().for_each(|line| self.writer.line(line));
    }
}

impl ProgressSums {
    /// Adds an interval. Returns the line of the rest of the previous phase, and the line of the
    /// present phase if it is due.
    fn add(&mut self, interval: &Interval) -> [Option<String>; 2] {
        if interval.phase == Phase::Drain {
            return [None, None];
        }
        let is_other_phase = |sum: &Interval| sum.phase != interval.phase;
        let mut previous = None;
        if self.unprinted.as_ref().is_some_and(is_other_phase) {
            previous = self.line();
            // An interval without length has no line.
            self.unprinted = None;
        }
        let sum = self.unprinted.get_or_insert_with(|| {
            Interval::new(interval.phase, interval.start_ns, interval.end_ns)
        });
        sum.end_ns = interval.end_ns;
        sum.outcomes.add(&interval.outcomes);
        sum.carried.add(&interval.carried);
        sum.dropped += interval.dropped;
        sum.longest_failure_ns = sum.longest_failure_ns.max(interval.longest_failure_ns);
        sum.times.response.add(&interval.times.response);
        let is_due = interval.end_ns as f64 / 1e9 >= self.printed_s + self.print_interval_s;
        [previous, if is_due { self.line() } else { None }]
    }

    /// Returns the line of the intervals so far. `None`: they have no length.
    fn line(&mut self) -> Option<String> {
        let sum = self.unprinted.take_if(|sum| seconds(sum) > 0.0)?;
        let end_s = sum.end_ns as f64 / 1e9;
        self.printed_s = end_s;
        let p99 = running_percentile_text(
            &interval_result(&sum).response_time_us,
            &sum.times.response,
            0.99,
        );
        let phase = if sum.phase == Phase::Warmup { "warm-up" } else { "measured" };
        let late = match late_warmup_failures(&sum) {
            0 => String::new(),
            n => format!(" + {} of the warm-up", count(n)),
        };
        let left = self
            .planned_s
            .map_or(String::new(), |s| format!("   {:.0} s left", (s - end_s).max(0.0)));
        Some(format!(
            "{end_s:>6.0} s   {phase:<8}   {:>11} requests/s   p99 {p99:>9}   {} \
             failed{late}{left}",
            count((sum.correct_responses() as f64 / seconds(&sum)) as u64),
            count(failed_count(&sum))
        ))
    }
}

impl LiveScreen {
    fn new(live: Live, spec: &LoadSpec, config: &LoadConfig, planned_s: Option<f64>) -> LiveScreen {
        let offered_rps = spec.step.arrivals.rate();
        let model = LiveModel { planned_s, offered_rps, ..initial_model(config) };
        // `Instant::now` is only for the displayed time. Nothing is measured with it.
        LiveScreen {
            live,
            totals: LiveTotals::new(model),
            began: Instant::now(),
            drawn_s: f64::NEG_INFINITY,
            is_lost: false,
        }
    }

    fn interval(&mut self, interval: &Interval) {
        self.totals.add(interval);
        if interval.phase == Phase::Drain {
            return;
        }
        // The displayed time follows the load's clock.
        self.began = Instant::now() - Duration::from_nanos(interval.end_ns);
        // The next `draw` shows this interval at once.
        self.drawn_s = f64::NEG_INFINITY;
    }

    /// Whether the user ended the view, or the terminal is gone.
    fn is_closed(&mut self) -> bool {
        self.is_lost || self.live.input() != live::Input::Nothing
    }

    fn draw(&mut self) {
        let elapsed_s = self.began.elapsed().as_secs_f64();
        if elapsed_s - self.drawn_s < DRAW_EVERY_S {
            return;
        }
        self.drawn_s = elapsed_s;
        let model = &mut self.totals.model;
        model.phase = phase_at(model.phase, elapsed_s, model.planned_s);
        if model.phase != model::LivePhase::Connecting {
            model.elapsed_s = elapsed_s.min(model.planned_s.unwrap_or(f64::INFINITY));
        }
        self.is_lost |= self.live.show(model).is_err();
    }
}

impl LiveTotals {
    fn new(model: LiveModel) -> LiveTotals {
        LiveTotals { model, response: Recording::new(), outcomes: Outcomes::default() }
    }

    fn add(&mut self, interval: &Interval) {
        if interval.phase == Phase::Drain {
            self.model.phase = model::LivePhase::Drain;
            return;
        }
        if opens_window(self.model.phase, interval.phase) {
            self.outcomes = Outcomes::default();
        }
        self.model.phase = match interval.phase {
            Phase::Warmup => model::LivePhase::Warmup,
            Phase::Measured | Phase::Drain => model::LivePhase::Measured,
        };
        self.outcomes.add(&interval.outcomes);
        if interval.phase == Phase::Measured {
            self.response.add(&interval.times.response);
            self.model.histogram = self.response.to_times().values().collect();
            let response_times = interval_result(interval).response_time_us;
            self.model.unanswered += response_times.unanswered;
            self.model.longest_wait_us =
                model::larger(self.model.longest_wait_us, response_times.longest_wait);
            self.model.late_warmup_failures += late_warmup_failures(interval);
        }
        self.model.outcomes =
            self.outcomes.not_ok().map(|(outcome, n)| (outcome.name(), n)).collect();
        self.model.connections_open = interval.connections_open;
        self.model.threads = utilisations(interval);
        self.model.elapsed_s = interval.end_ns as f64 / 1e9;
        self.model.push(point(interval));
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        live::restore_terminal();
    }
}

/// Returns the model of a load that has not begun.
fn initial_model(config: &LoadConfig) -> LiveModel {
    LiveModel {
        title: filter::escape_line(&config.url),
        subtitle: filter::escape_line(&text::shape(config, None)),
        connections_requested: config.total_connections(),
        ..LiveModel::default()
    }
}

/// Whether an interval of this phase is the first of the measured window. The outcomes of the
/// warm-up are then no longer shown.
fn opens_window(shown: model::LivePhase, phase: Phase) -> bool {
    let is_before = matches!(shown, model::LivePhase::Connecting | model::LivePhase::Warmup);
    phase == Phase::Measured && is_before
}

/// Returns the phase to show. After the planned end, the load waits for the last responses (drain).
fn phase_at(shown: model::LivePhase, elapsed_s: f64, planned_s: Option<f64>) -> model::LivePhase {
    let is_over = planned_s.is_some_and(|planned_s| elapsed_s >= planned_s);
    match shown {
        model::LivePhase::Measured if is_over => model::LivePhase::Drain,
        _ => shown,
    }
}

/// Returns the busy share (0 to 1) of each generator thread, without the time of polling.
fn utilisations(interval: &Interval) -> Vec<f64> {
    let length_ns = (interval.end_ns - interval.start_ns).max(1) as f64;
    let busy = |used: &dyno_model::interval::WorkerUse| {
        (used.run_ns.saturating_sub(used.spun_ns) as f64 / length_ns).min(1.0)
    };
    interval.workers.values().map(busy).collect()
}

/// Returns a percentile (µs) of all requests that the window includes. If the percentile lies among
/// requests without a correct response, returns the longest known wait of these requests.
fn percentile_us(response_times: &Percentiles, times: &Times, q: f64) -> Option<f64> {
    if response_times.is_unanswered(q) {
        response_times.longest_wait
    } else {
        quantile_of_due(response_times, times, q)
    }
}

/// Returns the point of an interval in the charts.
fn point(interval: &Interval) -> LivePoint {
    let ok = interval.correct_responses();
    let micros = |times: &Times, q: f64| times.quantile(q).map(|ns| ns as f64 / 1e3);
    let response = &interval.times.response;
    let response_times = interval_result(interval).response_time_us;
    let percentile = |q: f64| percentile_us(&response_times, response, q);
    LivePoint {
        end_s: interval.end_ns as f64 / 1e9,
        warmup: interval.phase == Phase::Warmup,
        rps: if seconds(interval) > 0.0 { ok as f64 / seconds(interval) } else { 0.0 },
        p50_us: percentile(0.5),
        p90_us: percentile(0.9),
        p99_us: percentile(0.99),
        max_us: percentile(1.0),
        are_lower_bounds: [0.5, 0.9, 0.99, 1.0].map(|q| response_times.is_unanswered(q)),
        failed: failed_count(interval),
        send_lag_p99_us: micros(&interval.times.send_lag, 0.99),
        loop_lag_p99_us: micros(&interval.loop_lag, 0.99),
        wake_lag_p99_us: micros(&interval.wake_lag, 0.99),
        dropped: interval.dropped,
    }
}

#[cfg(test)]
mod tests {
    use dyno_model::Protocol;
    use dyno_model::plan::{Arrivals, DriverKind, Page, Request, Step, Workload};
    use dyno_suite::defaults::default_load;

    use super::*;
    use crate::live::model::LivePhase;

    #[test]
    fn pages_request_connections_of_all_visitors() {
        let step =
            Step { connections: 5, streams: 1, pipeline: 1, arrivals: Arrivals::Closed, pass: 1 };
        for (page, expected) in [(None, 5), (Some(Page { connections: 6 }), 30)] {
            let workload = Workload {
                name: "w".into(),
                protocol: Protocol::H1,
                requests: vec![Request::default()],
                page,
                requests_per_connection: None,
                sequence: None,
            };
            let config = LoadConfig::new(&workload, &default_load(DriverKind::Epoll), &step, 1);
            assert_eq!(initial_model(&config).connections_requested, expected);
        }
    }

    /// Returns the interval of a second with a correct response per millisecond.
    fn second(phase: Phase, start_s: u64) -> Interval {
        const S: u64 = 1_000_000_000;
        let mut interval = Interval::new(phase, start_s * S, (start_s + 1) * S);
        let mut response = Recording::new();
        for _ in 0..1000 {
            interval.outcomes.count(Outcome::Ok);
            response.record(1_000_000);
        }
        interval.times.response = response.seal();
        interval
    }

    fn lines(print_interval_s: f64, intervals: &[Interval]) -> Vec<String> {
        let mut sums = ProgressSums {
            print_interval_s,
            printed_s: 0.0,
            planned_s: Some(60.0),
            unprinted: None,
        };
        intervals.iter().flat_map(|interval| sums.add(interval)).flatten().collect()
    }

    #[test]
    fn progress_line_includes_all_seconds_since_last_line() {
        let mut intervals: Vec<Interval> = (0..20).map(|s| second(Phase::Measured, s)).collect();
        (0..30).for_each(|_| intervals[4].outcomes.count(Outcome::Timeout));
        let two = lines(10.0, &intervals);
        assert_eq!(two.len(), 2, "{two:?}");
        assert!(two[0].contains("1,000 requests/s") && two[0].contains("   30 failed   50 s left"));
        assert!(two[1].contains("   0 failed   40 s left"), "{two:?}");
        // 0.3 % of the requests have no response.
        assert!(two[0].contains("p99   1.00 ms"), "{two:?}");
        assert_eq!(lines(0.0, &intervals).len(), 20);
    }

    #[test]
    fn progress_line_has_one_phase() {
        let mut intervals = vec![second(Phase::Warmup, 0), second(Phase::Warmup, 1)];
        intervals[0].outcomes.count(Outcome::ConnectReset);
        intervals.extend((2..13).map(|s| second(Phase::Measured, s)));
        intervals[5].outcomes.count(Outcome::Timeout);
        intervals[6].carried.count(Outcome::Timeout);
        intervals[7].carried.count(Outcome::Ok);
        let two = lines(10.0, &intervals);
        assert_eq!(two.len(), 2, "{two:?}");
        assert!(
            two[0].contains("warm-up") && two[0].contains("   1 failed   58 s left"),
            "{two:?}"
        );
        let failed = "   1 failed + 1 of the warm-up   48 s left";
        assert!(two[1].contains("measured") && two[1].contains(failed), "{two:?}");
    }

    /// In an open loop, requests of the warm-up may fail after the window opened.
    #[test]
    fn live_view_separates_failures_of_warm_up() {
        let mut totals = LiveTotals::new(LiveModel::default());
        let mut warmup = second(Phase::Warmup, 0);
        warmup.outcomes.count(Outcome::Timeout);
        let mut measured = second(Phase::Measured, 1);
        (0..5).for_each(|_| measured.carried.count(Outcome::Timeout));
        measured.outcomes.count(Outcome::ConnectRefused);
        totals.add(&warmup);
        assert_eq!(totals.model.outcomes, [("timeout", 1)]);
        totals.add(&measured);
        assert_eq!(totals.model.outcomes, [("connect_refused", 1)]);
        assert_eq!(totals.model.late_warmup_failures, 5);
        let failed: Vec<u64> = totals.model.points.iter().map(|point| point.failed).collect();
        assert_eq!(failed, [1, 1]);
    }

    #[test]
    fn window_opens_once_after_warm_up() {
        let opening = [LivePhase::Connecting, LivePhase::Warmup];
        for shown in
            [LivePhase::Connecting, LivePhase::Warmup, LivePhase::Measured, LivePhase::Drain]
        {
            assert_eq!(opens_window(shown, Phase::Measured), opening.contains(&shown), "{shown:?}");
            assert!(!opens_window(shown, Phase::Warmup) && !opens_window(shown, Phase::Drain));
        }
    }

    #[test]
    fn load_waits_for_responses_after_planned_end() {
        for (shown, elapsed_s, planned_s, expected) in [
            // The window opens with its first interval, which may come late.
            (LivePhase::Warmup, 20.0, Some(10.0), LivePhase::Warmup),
            (LivePhase::Measured, 9.9, Some(10.0), LivePhase::Measured),
            (LivePhase::Measured, 10.0, Some(10.0), LivePhase::Drain),
            // The length of a number of requests is unknown.
            (LivePhase::Measured, 10.0, None, LivePhase::Measured),
        ] {
            assert_eq!(phase_at(shown, elapsed_s, planned_s), expected, "{elapsed_s} s");
        }
    }

    #[test]
    fn server_is_absent_if_all_connections_were_refused() {
        let mut interval = Interval::new(Phase::Measured, 0, 1_000_000_000);
        assert_eq!(Server::from_interval(&interval), Server::Unknown);
        interval.outcomes.count(Outcome::ConnectRefused);
        assert_eq!(Server::from_interval(&interval), Server::Absent);
        interval.outcomes.count(Outcome::ConnectTimeout);
        assert_eq!(Server::from_interval(&interval), Server::Present);
        let mut interval = Interval::new(Phase::Measured, 0, 1_000_000_000);
        interval.outcomes.count(Outcome::ConnectRefused);
        interval.connections_open = 1;
        assert_eq!(Server::from_interval(&interval), Server::Present);
    }
}
