//! Prints the progress of a run on standard error: a live line on a terminal, plain lines
//! elsewhere.

use std::time::{Duration, Instant};

use dyno_analysis::cell::Shape;
use dyno_analysis::load::interval_result;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::warm_up;
use dyno_lab::run::RunEvent;
use dyno_model::plan::Plan;
use dyno_model::start::{WarmUp, WarmUpEnd, WarmUpSlice};
use dyno_model::{Interval, Phase};
use dyno_report::format::{count, micros, number, percent, plural, running_percentile_text};
use dyno_report::present::style::Style;
use dyno_report::redact::RedactedPlan;
use dyno_report::terminal::{escape_controls, escape_keeping_colours, escape_line};
use dyno_report::text;
use dyno_subject::build::Built;
use dyno_suite::plan::expected_ns;
use indicatif::{ProgressBar, ProgressStyle};

use crate::background::{Background, PATIENCE};
use crate::clock::clock;
use crate::terminal;

/// The progress of a run.
pub struct Progress {
    /// Draws in a separate thread, so that a stopped terminal does not stop the run.
    bar: Background<ProgressBar>,
    is_live: bool,
    style: Style,
    began: Instant,
    expected: Duration,
    /// Width of the longest text of [`describe_step`], in characters.
    step_width: usize,
    /// The plan's secrets, which plain lines must not contain. `None`: a terminal, or no plan yet.
    redacted: Option<RedactedPlan>,
}

impl Progress {
    /// Starts the thread that draws.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start() -> std::io::Result<Progress> {
        let is_live = std::io::IsTerminal::is_terminal(&std::io::stderr());
        let bar = if is_live { ProgressBar::new(1) } else { ProgressBar::hidden() };
        bar.set_style(
            ProgressStyle::with_template("{prefix:.dim} {bar:24} {msg}")
                .expect("the constant template should be valid"),
        );
        Ok(Progress {
            bar: Background::start("progress", bar)?,
            is_live,
            style: terminal::progress_style(),
            began: Instant::now(),
            expected: Duration::ZERO,
            step_width: 0,
            redacted: None,
        })
    }

    /// Withholds the secrets of a plan from all later lines. Called before the builds of each plan,
    /// which already print lines.
    ///
    /// # Errors
    /// The secrets of the plan cannot be collected.
    pub fn redact(&mut self, plan: &Plan) -> anyhow::Result<()> {
        if !self.is_live {
            self.redacted = Some(RedactedPlan::new(plan)?);
        }
        Ok(())
    }

    /// Starts the clock of the remaining time. Called after the builds, which may change the plan.
    ///
    /// # Errors
    /// As for [`Progress::redact`].
    pub fn begin(&mut self, plan: &Plan, trials_done: usize) -> anyhow::Result<()> {
        self.redact(plan)?;
        self.began = Instant::now();
        self.expected = Duration::from_nanos(expected_ns(plan));
        let widths = (0..plan.trials.len()).map(|trial| describe_step(plan, trial).chars().count());
        self.step_width = widths.max().unwrap_or(0);
        let trials = plan.trials.len() as u64;
        self.bar.apply(move |bar| {
            bar.set_length(trials);
            bar.set_position(trials_done as u64);
            bar.enable_steady_tick(Duration::from_millis(250));
        });
        Ok(())
    }

    /// Shows an event of a run. `result`: computes the result of a finished trial.
    pub fn event(
        &mut self,
        plan: &Plan,
        event: &RunEvent<'_>,
        result: impl FnOnce() -> Option<TrialResult>,
    ) {
        match event {
            RunEvent::Building { name } => self.set_message(&format!("building {name}")),
            RunEvent::Printed { name, line } => self.set_message(&format!("{name} · {line}")),
            RunEvent::Built { name, result } => self.print_build(name, *result),
            RunEvent::Starting { launch } => {
                let block = plan.launches[*launch].block + 1;
                let prefix = format!("{} · repeat {block}/{}", names(plan, *launch), plan.repeats);
                self.bar.apply(move |bar| bar.set_prefix(prefix));
                self.set_message("starting and checking");
            }
            RunEvent::Warming { slice, .. } => {
                self.set_message(&format!("warming up · {}", describe_slice(slice)));
            }
            RunEvent::Warmed { launch, warmup } => self.print_warm_up(plan, *launch, warmup),
            RunEvent::TrialStarted { trial } => {
                self.set_message(&format!("{} · starting", describe_step(plan, *trial)));
            }
            RunEvent::Interval { trial, interval } => self.interval(plan, *trial, interval),
            RunEvent::Profiling { trial } => {
                self.set_message(&format!("{} · sampling stacks", describe_step(plan, *trial)));
            }
            RunEvent::Searched { trial, tried } => {
                let verdict = if tried.kept { "met" } else { "missed" };
                let rate = number(tried.rate_rps);
                self.set_message(&format!(
                    "{} · searching the highest rate: {rate}/s {verdict} the objective",
                    describe_step(plan, *trial)
                ));
            }
            RunEvent::Contaminated { trial } => {
                let message = format!(
                    "{}: the machine or the generator was disturbed, so the step will be measured \
                     again",
                    describe_step(plan, *trial)
                );
                self.print_line(&escape_line(&message));
            }
            RunEvent::TrialEnded { trial, .. } => {
                self.bar.apply(|bar| bar.inc(1));
                if let Some(result) = result() {
                    let step = format!("{:>1$}", describe_step(plan, *trial), self.step_width);
                    self.print_line(&text::trial_line(&result, &step, self.style));
                }
            }
            RunEvent::Failed { launch, failure } => {
                let id = names(plan, *launch);
                let message = failure.message.lines().next().unwrap_or_default();
                self.print_line(&escape_line(&format!(
                    "{id:<22} {}: {message}",
                    failure.kind.name()
                )));
            }
            RunEvent::LaunchEnded { .. } => {}
        }
    }

    fn print_build(&self, name: &str, result: Result<&Built, &String>) {
        // A build from the cache prints no line.
        match result.map(|built| built.build.as_ref().filter(|build| !build.cached)) {
            Err(message) => {
                self.print_line(&escape_controls(&format!("{name:<22} build failed: {message}")));
            }
            Ok(Some(build)) => {
                self.print_line(&format!(
                    "{:<22} built in {}",
                    escape_line(name),
                    micros(build.wall_ns as f64 / 1e3)
                ));
            }
            Ok(None) => {}
        }
        // Waits until the line is printed, so that other messages come after it. The wait disturbs
        // no measurement, because no load runs during a build.
        self.bar.settle(PATIENCE);
    }

    fn print_warm_up(&self, plan: &Plan, launch: usize, warmup: &WarmUp) {
        let id = names(plan, launch);
        let took = micros(warmup.took_ns as f64 / 1e3);
        let last = warmup
            .slices
            .last()
            .map_or(String::new(), |slice| format!(": {}", describe_slice(slice)));
        match warmup.ended {
            WarmUpEnd::Steady => self.print_line(&format!(
                "{id:<22} steady after {took} of \
                                                           warm-up"
            )),
            WarmUpEnd::Limit => {
                self.print_line(&format!(
                    "{id:<22} not steady after {took}, the limit of the warm-up{last}"
                ));
            }
            WarmUpEnd::Unanswered => {
                self.print_line(&format!("{id:<22} no responses during the warm-up"));
            }
            WarmUpEnd::CutShort => {}
        }
    }

    fn interval(&self, plan: &Plan, trial: usize, interval: &Interval) {
        let phase = match interval.phase {
            Phase::Warmup => "warm-up",
            Phase::Measured => "measured",
            Phase::Drain => return,
        };
        // A load that ends at the edge of an interval has an empty last interval.
        if interval.end_ns <= interval.start_ns {
            return;
        }
        let seconds = (interval.end_ns - interval.start_ns) as f64 / 1e9;
        let ok = interval.correct_responses();
        let p99 = running_percentile_text(
            &interval_result(interval).response_time_us,
            &interval.times.response,
            0.99,
        );
        self.set_message(&format!(
            "{} · {phase} · {}/s · p99 {p99}",
            describe_step(plan, trial),
            count((ok as f64 / seconds) as u64)
        ));
    }

    /// Updates the live line.
    fn set_message(&self, message: &str) {
        let remaining = self.expected.saturating_sub(self.began.elapsed());
        let remaining = if remaining.is_zero() {
            String::new()
        } else {
            format!(" · {} left", clock(remaining))
        };
        let message = format!("{}{remaining}", escape_line(message));
        self.bar.apply(move |bar| bar.set_message(message));
    }

    /// Prints a line that stays on the terminal above the live line.
    fn print_line(&self, text: &str) {
        if self.is_live {
            let text = escape_keeping_colours(text).into_owned();
            self.bar.apply(move |bar| bar.println(text));
        } else {
            let redacted = self.redacted.as_ref().map(|redacted| redacted.text(text));
            let text = redacted.unwrap_or_else(|| text.into());
            self.bar.apply(move |_| terminal::say(&text));
        }
    }

    /// Removes the live line. If the terminal was stopped for so long that updates were dropped,
    /// prints their number.
    pub fn end(&mut self) {
        self.bar.apply(|bar| bar.finish_and_clear());
        let Some(end) = self.bar.end(PATIENCE) else { return };
        if end.value.is_some() && end.dropped > 0 {
            terminal::say(&format!(
                "{} of progress not printed: the output was stopped",
                plural(end.dropped, "update")
            ));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

/// Describes a slice of a warm-up: throughput, CPU per request, and the JIT compiler's share of the
/// CPU if it is at least 1 %.
fn describe_slice(slice: &WarmUpSlice) -> String {
    let point = warm_up::point(slice);
    let cpu = point
        .cpu_us_per_request
        .map_or(String::new(), |us| format!(" · {} CPU/request", micros(us)));
    let jit = point.jit_share.filter(|share| *share >= 0.01);
    let jit = jit.map_or(String::new(), |share| format!(" · JIT {}", percent(share)));
    format!("{}/s{cpu}{jit}", count(point.throughput_rps as u64))
}

/// Returns the names of the arms of a launch, safe for a terminal.
fn names(plan: &Plan, launch: usize) -> String {
    let arm_names: Vec<&str> = plan.arms_of(launch).map(|arm| arm.name.as_str()).collect();
    escape_line(&arm_names.join(", "))
}

/// Describes the workload and the step of a trial.
pub fn describe_step(plan: &Plan, trial: usize) -> String {
    let planned = &plan.trials[trial];
    let step = Shape::from_step(&plan.load.steps[planned.step]).in_words(number);
    match plan.workloads.as_slice() {
        [_] => step,
        workloads => format!("{} · {step}", workloads[planned.workload].name),
    }
}
