//! The sections on cost and limits: what a request cost each server, and what limited each step.

use dyno_analysis::backend::{BackendSummary, BackendUse};
use dyno_analysis::cell::Shape;
use dyno_analysis::metric::{Metric, Unit};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use maud::{Markup, html};

use super::overview::resource;
use super::table::{Cell, table, text, value};
use super::{figure, note, picked_by, repeats_of, step_table, swatch, trial_table};
use crate::format::{bytes, micros, number, percent, quantity};
use crate::overview::label_in_words;

pub(super) fn cost(report: &Report) -> Markup {
    let cpu = step_table(
        report,
        &[
            ("#CPU per request", &|s| {
                with_behind(value(s.cpu_us_per_request.median, micros), s, |b| {
                    b.cpu_us_per_request.median.map(micros)
                })
            }),
            ("#Each repeat", &|s| repeats_of(&s.cpu_us_per_request, micros)),
            ("#Context switches per request", &|s| value(s.context_switches_per_request.median, number)),
        ],
    );
    let memory = step_table(
        report,
        &[
            ("#Memory", &|s| {
                with_behind(value(s.memory_bytes.median, bytes), s, |b| b.memory_bytes.median.map(bytes))
            }),
            ("#Each repeat", &|s| repeats_of(&s.memory_bytes, bytes)),
            ("#Memory·time per request", &|s| {
                value(s.memory_mb_s_per_request.median, |m| quantity(Unit::MegabyteSeconds, m))
            }),
        ],
    );
    let split_note = "At the reference step, each part the median of the valid repeats. The kernel's tick samples the split.";
    let memory_note = "Anonymous memory of the control group where there is one, resident memory otherwise; page cache is left out.";
    html! {
        (figure("cpu", "Server CPU per request", "", &cpu))
        (price(report))
        (figure("split", "User and system CPU per request", split_note, &cpu))
        (figure("memory", "Memory", memory_note, &memory))
        (backends(report))
    }
}

/// A cell of the subject with the same of each back end in smaller text below.
fn with_behind(cell: Cell, s: &Summary, show: impl Fn(&BackendSummary) -> Option<String>) -> Cell {
    let shown = s.backends.iter().filter_map(|behind| Some(format!("+ {} {}", behind.name, show(behind)?)));
    shown.fold(cell, Cell::with_small)
}

/// What back ends used in each trial. Empty if there are none.
fn backends(report: &Report) -> Markup {
    type BehindTrial<'a> = (&'a TrialResult, &'a BackendUse);
    let rows: Vec<BehindTrial<'_>> =
        report.trials.iter().flat_map(|t| t.backends.iter().map(move |b| (t, b))).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let shown = trial_table(
        report,
        &rows,
        |(t, _)| t,
        &[
            ("Back end", &|(_, b)| text(&b.name)),
            ("#CPU per request", &|(_, b)| value(b.server.cpu_us_per_request, micros)),
            ("#Part of the CPU of a request", &|(_, b)| value(b.cpu_share, percent)),
            ("#CPU, of what it may use", &|(_, b)| value(b.server.cpu_utilisation, percent)),
            ("#Context switches per request", &|(_, b)| value(b.server.per_request.context_switches, number)),
            ("#Memory", &|(_, b)| value(b.server.memory_held_bytes.map(|n| n as f64), bytes)),
        ],
    );
    html! {
        h3 { "Back ends" } "\n"
        (note("Services that the subject needs, started and watched with it. Per request: divided by the subject's answers. The part is of the CPU time of subject and back ends together."))
        (shown)
    }
}

/// The price of a billion requests' CPU time. Empty if the suite names no price of CPU time.
fn price(report: &Report) -> Markup {
    let Some(cost) = report.run.cost else { return Markup::default() };
    let row = |r: &OverviewRow| {
        let title = picked_by(report, text(&r.title), [r.reference_cell.workload]);
        vec![title, value(r.cpu_us_per_request, micros), value(r.cost_per_billion_requests, number)]
    };
    let rows: Vec<Vec<Cell>> = report.overview.iter().map(row).collect();
    html! {
        h3 { "Cost of a billion requests" } "\n"
        (table("sortable", &["Subject", "#CPU per request", "#Cost"], &rows))
        (note(&format!("At {} per vCPU and hour, every CPU fully used.", cost.per_vcpu_hour)))
    }
}

pub(super) fn why(report: &Report) -> Markup {
    let steps = |subject: &SubjectResult| -> Vec<&Summary> {
        report.summaries.iter().filter(|s| s.subject == subject.id).collect()
    };
    html! {
        div.cards {
            "\n"
            @for subject in &report.subjects {
                @let steps = steps(subject);
                @if !steps.is_empty() { (card(report, subject, &steps)) }
            }
        }
        "\n"
    }
}

fn card(report: &Report, subject: &SubjectResult, steps: &[&Summary]) -> Markup {
    let busiest = steps.iter().max_by(|a, b| {
        a.throughput_rps.median.unwrap_or(0.0).total_cmp(&b.throughput_rps.median.unwrap_or(0.0))
    });
    html! {
        article.card {
            h3 { (swatch(report, &subject.id)) (subject.title) } "\n"
            ol.strip { @for s in steps { (limiter_of_step(report, s)) } } "\n"
            @if let Some(s) = busiest {
                p { "At " (step_in_words(report, &s.workload, s.shape())) ": " (s.limiter_sentence) } "\n"
                (counters(report, s))
            }
        }
        "\n"
    }
}

fn limiter_of_step(report: &Report, s: &Summary) -> Markup {
    html! {
        li class=(s.limiter.name()) title=(s.limiter_sentence) {
            b { (step_label(report, s)) } " " (resource(s.limiter)) (s.limiter_confidence.mark(s.limiter))
        }
    }
}

/// `64` (connections), or `h2 64 × 10 at 1,000/s (2)`: a single workload, factors of 1, a missing rate and a first pass are
/// left out.
fn step_label(report: &Report, s: &Summary) -> String {
    let workload = if report.run.workloads.len() > 1 { format!("{} ", s.workload) } else { String::new() };
    let Shape { connections, streams, pipeline, rate, pass } = s.shape();
    let times = |n: u32| if n > 1 { format!(" × {n}") } else { String::new() };
    let rate = rate.map_or(String::new(), |rate| format!(" at {}/s", number(rate)));
    let pass = if pass > 1 { format!(" ({pass})") } else { String::new() };
    format!("{workload}{connections}{}{}{rate}{pass}", times(streams), times(pipeline))
}

/// `64 connections`, or `64 connections × 10 streams at 1,000/s of h2`.
pub(super) fn step_in_words(report: &Report, workload: &str, at: Shape) -> String {
    let workload = if report.run.workloads.len() > 1 { format!(" of {workload}") } else { String::new() };
    format!("{}{workload}", label_in_words(at))
}

/// Counters at the busiest step, beside those of the reference arm at the same step of the same workload.
fn counters(report: &Report, busiest: &Summary) -> Markup {
    let is_baseline = |r: &&OverviewRow| {
        r.baseline
            && r.reference_cell.workload == busiest.cell.workload
            && r.reference_cell.arm != busiest.cell.arm
    };
    let Some(baseline) = report.overview.iter().find(is_baseline) else {
        let rows: Vec<Vec<Cell>> = COUNTERS.iter().map(|counter| counter.cells(&[Some(busiest)])).collect();
        return table("counters", &["Per response", "#Here"], &rows);
    };
    let base = report.summary(busiest.cell.of_arm(baseline.reference_cell.arm));
    let comparison = report.comparison(busiest.cell).filter(|c| c.baseline == baseline.subject);
    let row = |counter: &Counter| {
        let ratio = comparison.and_then(|c| c.metrics.get(counter.key)?.median);
        let mut cells = counter.cells(&[Some(busiest), base]);
        cells.push(value(ratio, |r| format!("× {}", number(r))));
        cells
    };
    let rows: Vec<Vec<Cell>> = COUNTERS.iter().map(row).collect();
    table("counters", &["Per response", "#Here", &format!("#{}", baseline.title), "#Ratio of pairs"], &rows)
}

/// A metric under a name that is short enough for a card.
struct Counter {
    name: &'static str,
    key: &'static str,
}

const COUNTERS: [Counter; 8] = [
    Counter { name: "user CPU", key: "server_cpu_user_us_per_request" },
    Counter { name: "system CPU", key: "server_cpu_sys_us_per_request" },
    Counter { name: "context switches", key: "server_context_switches_per_request" },
    Counter { name: "waiting for a CPU", key: "server_run_delay_us_per_request" },
    Counter { name: "bytes received", key: "bytes_in_per_response" },
    Counter { name: "segments received", key: "segments_per_response" },
    Counter { name: "busiest thread", key: "server_busiest_thread" },
    Counter { name: "threads", key: "server_threads" },
];

impl Counter {
    /// Its name, and its median in each summary.
    fn cells(&self, of: &[Option<&Summary>]) -> Vec<Cell> {
        let unit = Metric::named(self.key).unit;
        let known = |step: Option<&Summary>| step?.metric(self.key)?.over.median;
        let medians = of.iter().map(|step| value(known(*step), |v| quantity(unit, v)));
        [text(self.name)].into_iter().chain(medians).collect()
    }
}
