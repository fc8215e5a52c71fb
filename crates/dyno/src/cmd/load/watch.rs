//! Follows a running load for the live view or progress lines, the stream and the metrics.

use std::sync::Arc;
use std::time::Instant;

use dyno_analysis::load::percentile_value::quantile_of_due;
use dyno_analysis::load::{LoadConfig, Percentiles, interval_result};
use dyno_archive::times::Recording;
use dyno_archive::{Interval, Outcome, Outcomes, Phase, Times};
use dyno_launch::supervision::Interrupts;
use dyno_report::format::{count, running_percentile_text};
use dyno_report::{terminal as filter, text};
use dyno_runner::load::{LoadSpec, LoadStopReason, Watch};

use super::outputs::{IntervalStream, Metrics};
use crate::cli::{LoadArgs, LoadFormat};
use crate::live::model::{self, LiveModel, LivePoint};
use crate::live::view::Palette;
use crate::live::{self, Live};
use crate::terminal;

/// Seconds between plain progress lines if standard error is not a terminal.
const LINE_EVERY_S: f64 = 10.0;

/// Seconds between drawings of the live view. It is also drawn after each interval.
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
    /// Write error of the stream. It is reported at the end, because the load continues.
    stream_error: Option<anyhow::Error>,
}

enum Screen {
    Live(Box<LiveScreen>),
    Lines(ProgressLines),
}

/// The live view, and the totals that it displays.
struct LiveScreen {
    live: Live,
    model: LiveModel,
    response: Recording,
    outcomes: Outcomes,
    began: Instant,
    drawn_s: f64,
    /// Whether the screen could not be drawn, because its terminal is gone.
    is_lost: bool,
}

/// Plain progress lines.
struct ProgressLines {
    print_interval_s: f64,
    printed_s: f64,
    planned_s: Option<f64>,
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
                    live_screen.model.subtitle =
                        format!("{} · {}", live_screen.model.subtitle, metrics.page.url);
                }
                Screen::Live(Box::new(live_screen))
            }
            None => Screen::Lines(ProgressLines::new(planned_s)),
        };
        Ok(LoadWatch {
            screen,
            stream,
            metrics,
            interrupts,
            url: config.url.clone(),
            server: Server::Unknown,
            stream_error: None,
        })
    }

    /// Restores the terminal, and completes the stream. A load that has begun without a result
    /// still gets the head of its stream. `Err`: the stream could not be written completely.
    pub fn end(mut self, has_begun: bool) -> anyhow::Result<()> {
        drop(self.screen);
        if let Some(stream) = self.stream.as_mut().filter(|_| has_begun)
            && let Err(error) = stream.begin()
        {
            self.stream_error.get_or_insert(error);
        }
        self.stream_error.map_or(Ok(()), Err)
    }
}

/// Starts the live view. `None`: the output is not a terminal, or the view is disabled.
fn start_live_view(args: &LoadArgs) -> Option<Live> {
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let streams_to_stdout = args.stream.as_deref() == Some(std::path::Path::new("-"));
    if args.no_tui || !is_terminal || streams_to_stdout || args.format != LoadFormat::Text {
        return None;
    }
    let palette = match terminal::progress_style() {
        text::Style::Plain => Palette::PLAIN,
        text::Style::Colour => Palette::COLOUR,
    };
    Live::start(palette).ok()
}

impl Watch for LoadWatch {
    fn interval(&mut self, interval: &Interval) {
        if let Some(stream) = &mut self.stream
            && let Err(error) = stream.interval(interval)
        {
            self.stream_error = Some(error);
            self.stream = None;
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
                // In raw mode the terminal sends no signal for Ctrl-C. From here on it does.
                live::restore_terminal();
                terminal::say(super::beginning::ENDING_EARLY);
                self.interrupts.raise();
            }
        }
        if self.server == Server::Absent {
            self.server = Server::ReportedAbsent;
            live::restore_terminal();
            terminal::say(&format!(
                "{}: every connection was refused, ending early\nhint: start the server, or \
                 correct the address",
                filter::escape_line(&self.url)
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
    /// It accepted a connection, or a connection failed without being refused. The load continues,
    /// because failures are measured.
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

fn ok_and_failed(interval: &Interval) -> (u64, u64) {
    let ok = interval.correct_responses();
    (ok, interval.outcomes.total() + interval.carried.total() - ok)
}

fn seconds(interval: &Interval) -> f64 {
    (interval.end_ns - interval.start_ns) as f64 / 1e9
}

impl ProgressLines {
    fn new(planned_s: Option<f64>) -> ProgressLines {
        let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
        ProgressLines {
            print_interval_s: if is_terminal { 0.0 } else { LINE_EVERY_S },
            printed_s: 0.0,
            planned_s,
        }
    }

    fn interval(&mut self, interval: &Interval) {
        let (length_s, end_s) = (seconds(interval), interval.end_ns as f64 / 1e9);
        if interval.phase == Phase::Drain
            || length_s <= 0.0
            || end_s < self.printed_s + self.print_interval_s
        {
            return;
        }
        self.printed_s = end_s;
        let (ok, failed) = ok_and_failed(interval);
        let p99 = running_percentile_text(
            &interval_result(interval).response_time_us,
            &interval.times.response,
            0.99,
        );
        let phase = if interval.phase == Phase::Warmup { "warm-up" } else { "measured" };
        let left = self
            .planned_s
            .map_or(String::new(), |s| format!("   {:.0} s left", (s - end_s).max(0.0)));
        terminal::say(&format!(
            "{end_s:>6.0} s   {phase:<8}   {:>11} requests/s   p99 {p99:>9}   {} failed{left}",
            count((ok as f64 / length_s) as u64),
            count(failed)
        ));
    }
}

impl LiveScreen {
    fn new(live: Live, spec: &LoadSpec, config: &LoadConfig, planned_s: Option<f64>) -> LiveScreen {
        let model = LiveModel {
            title: filter::escape_line(&config.url),
            subtitle: filter::escape_line(&text::shape(config, None)),
            planned_s,
            connections_asked: u64::from(config.connections),
            offered_rps: spec.step.arrivals.rate(),
            ..LiveModel::default()
        };
        let (response, outcomes) = (Recording::new(), Outcomes::default());
        // This clock only displays the elapsed time. It measures nothing.
        LiveScreen {
            live,
            model,
            response,
            outcomes,
            began: Instant::now(),
            drawn_s: f64::NEG_INFINITY,
            is_lost: false,
        }
    }

    fn interval(&mut self, interval: &Interval) {
        if interval.phase == Phase::Drain {
            self.model.phase = model::LivePhase::Drain;
            return;
        }
        if interval.phase == Phase::Measured && self.model.phase != model::LivePhase::Measured {
            self.outcomes = Outcomes::default();
        }
        self.model.phase = match interval.phase {
            Phase::Warmup => model::LivePhase::Warmup,
            Phase::Measured | Phase::Drain => model::LivePhase::Measured,
        };
        self.outcomes.add(&interval.outcomes);
        self.outcomes.add(&interval.carried);
        if interval.phase == Phase::Measured {
            self.response.add(&interval.times.response);
            self.model.histogram = self.response.to_times().values().collect();
            let response_times = interval_result(interval).response_time_us;
            self.model.unanswered += response_times.unanswered;
            self.model.longest_wait_us =
                model::larger(self.model.longest_wait_us, response_times.longest_wait);
        }
        self.model.outcomes =
            self.outcomes.not_ok().map(|(outcome, n)| (outcome.name(), n)).collect();
        self.model.connections_open = interval.connections_open;
        self.model.threads = utilisations(interval);
        self.model.elapsed_s = interval.end_ns as f64 / 1e9;
        // The displayed time follows the load's clock.
        self.began = Instant::now() - std::time::Duration::from_nanos(interval.end_ns);
        self.model.push(point(interval));
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
        if self.model.phase != model::LivePhase::Connecting {
            self.model.elapsed_s = elapsed_s.min(self.model.planned_s.unwrap_or(f64::INFINITY));
        }
        self.is_lost |= self.live.show(&self.model).is_err();
    }
}

impl Drop for LiveScreen {
    fn drop(&mut self) {
        live::restore_terminal();
    }
}

fn utilisations(interval: &Interval) -> Vec<f64> {
    let length_ns = (interval.end_ns - interval.start_ns).max(1) as f64;
    let busy = |used: &dyno_archive::interval::WorkerUse| {
        (used.run_ns.saturating_sub(used.spun_ns) as f64 / length_ns).min(1.0)
    };
    interval.workers.values().map(busy).collect()
}

/// Returns a percentile (µs) of all due requests, or the longest known wait if it lies among the
/// unanswered.
fn percentile_us(response_times: &Percentiles, times: &Times, q: f64) -> Option<f64> {
    if response_times.is_unanswered(q) {
        response_times.longest_wait
    } else {
        quantile_of_due(response_times, times, q)
    }
}

fn point(interval: &Interval) -> LivePoint {
    let (ok, failed) = ok_and_failed(interval);
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
        failed,
        send_lag_p99_us: micros(&interval.times.send_lag, 0.99),
        loop_lag_p99_us: micros(&interval.loop_lag, 0.99),
        wake_lag_p99_us: micros(&interval.wake_lag, 0.99),
        dropped: interval.dropped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
