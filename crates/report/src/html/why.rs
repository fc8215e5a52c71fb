//! What a request cost each server, and what limited it.

use dyno_analysis::report::Report;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::{OverviewRow, Summary};
use dyno_analysis::trial::TrialResult;
use maud::{Markup, html};

use super::overview::resource;
use super::table::{Cell, table, text, value};
use super::{figure, note, repeats_of, step_table, swatch};
use crate::format::{bytes, micros, number, percent, plural};

pub(super) fn cost(report: &Report) -> Markup {
    let cpu = step_table(
        report,
        &[
            ("#CPU per request", &|s| value(s.cpu_us_per_request.median, micros)),
            ("#Each repeat", &|s| repeats_of(&s.cpu_us_per_request, micros)),
            ("#Context switches per request", &|s| value(s.context_switches_per_request.median, number)),
        ],
    );
    let memory = step_table(
        report,
        &[
            ("#Memory", &|s| value(s.memory_bytes.median, bytes)),
            ("#Each repeat", &|s| repeats_of(&s.memory_bytes, bytes)),
            ("#Memory·time per request", &|s| {
                value(s.memory_mb_s_per_request.median, |m| format!("{} kB·s", number(m * 1e3)))
            }),
        ],
    );
    let split_note = "At the reference step, median of the repeats. The kernel's tick samples the split.";
    let memory_note = "Anonymous memory of the control group where there is one, resident memory otherwise; page cache is left out.";
    html! {
        (figure("cpu", "Server CPU per request", "", &cpu))
        (price(report))
        (figure("split", "User and system CPU per request", split_note, &cpu))
        (figure("memory", "Memory", memory_note, &memory))
    }
}

/// What the CPU time of a billion requests costs, where the suite says what CPU time costs.
fn price(report: &Report) -> Markup {
    let Some(cost) = report.run.cost else { return Markup::default() };
    let row = |r: &OverviewRow| {
        vec![text(&r.title), value(r.cpu_us_per_request, micros), value(r.cost_per_billion_requests, number)]
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
    let shape = |s: &Summary| [s.connections, s.streams, s.pipeline];
    html! {
        article.card {
            h3 { (swatch(report, &subject.id)) (subject.title) } "\n"
            ol.strip { @for s in steps { (limiter_of_step(report, s)) } } "\n"
            @if let Some(s) = busiest {
                p { "At " (step_in_words(report, &s.workload, shape(s))) ": " (s.limiter_sentence) } "\n"
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

/// `64`, or as much of `h2 64 × 10 × 4` (workload, connections, streams, pipeline) as differs from one.
fn step_label(report: &Report, s: &Summary) -> String {
    let workload = if report.run.workloads.len() > 1 { format!("{} ", s.workload) } else { String::new() };
    let times = |n: u32| if n > 1 { format!(" × {n}") } else { String::new() };
    format!("{workload}{}{}{}", s.connections, times(s.streams), times(s.pipeline))
}

/// `64 connections`, or `64 connections × 10 streams of h2`.
pub(super) fn step_in_words(
    report: &Report,
    workload: &str,
    [connections, streams, pipeline]: [u32; 3],
) -> String {
    let streams = if streams > 1 { format!(" × {streams} streams") } else { String::new() };
    let pipeline = if pipeline > 1 { format!(" × {pipeline} pipelined") } else { String::new() };
    let workload = if report.run.workloads.len() > 1 { format!(" of {workload}") } else { String::new() };
    format!("{}{streams}{pipeline}{workload}", plural(u64::from(connections), "connection"))
}

/// Counters per response at the busiest step, beside the reference's at the same step of the same workload.
fn counters(report: &Report, busiest: &Summary) -> Markup {
    let of = |id: &str| -> Vec<&TrialResult> {
        let is_of = |t: &&TrialResult| {
            t.subject_id == id && t.workload == busiest.workload && t.step.index == busiest.step
        };
        report.trials.iter().filter(is_of).collect()
    };
    let own = of(&busiest.subject);
    let is_baseline =
        |r: &&OverviewRow| r.baseline && r.workload == busiest.workload && r.subject != busiest.subject;
    let baseline = report.overview.iter().find(is_baseline);
    let base = baseline.map(|r| of(&r.subject)).unwrap_or_default();
    let rows = counter_rows(&own, &base);
    let Some(baseline) = baseline else {
        let own_only: Vec<Vec<Cell>> =
            rows.into_iter().map(|row| row.into_iter().take(2).collect()).collect();
        return table("counters", &["Per response", "#Here"], &own_only);
    };
    let beside = format!("#{}", baseline.title);
    table("counters", &["Per response", "#Here", &beside, "#Ratio"], &rows)
}

fn counter_rows(own: &[&TrialResult], base: &[&TrialResult]) -> Vec<Vec<Cell>> {
    type Pick<'a> = &'a dyn Fn(&TrialResult) -> Option<f64>;
    let median = |trials: &[&TrialResult], pick: Pick<'_>| {
        dyno_analysis::stats::median(&trials.iter().filter_map(|t| pick(t)).collect::<Vec<_>>())
    };
    // As many as came in the server's window, which is not quite the load's.
    let answers = |t: &TrialResult| {
        let rate = t.load.bytes.responses as f64 / t.load.duration_s;
        Some(rate * t.server.window_s).filter(|n| *n > 0.0)
    };
    let lines: [(&str, Pick<'_>, fn(f64) -> String); 8] = [
        ("user CPU", &|t| Some(t.server.cpu_user_s? * 1e6 / answers(t)?), micros),
        ("system CPU", &|t| Some(t.server.cpu_sys_s? * 1e6 / answers(t)?), micros),
        ("context switches", &|t| t.server.per_request.context_switches, number),
        ("waiting for a CPU", &|t| t.server.per_request.run_delay_us, micros),
        ("bytes received", &|t| t.load.bytes.per_response(t.load.bytes.received), bytes),
        ("segments received", &|t| t.load.tcp.data_segments_per_response, number),
        ("busiest thread", &|t| t.server.busiest_thread_utilisation, percent),
        ("threads", &|t| t.server.threads.map(|n| n as f64), |n| format!("{n:.0}")),
    ];
    let row = |(name, pick, show): &(&str, Pick<'_>, fn(f64) -> String)| {
        let (a, b) = (median(own, *pick), median(base, *pick));
        let ratio = a.zip(b).map(|(a, b)| a / b).filter(|r| r.is_finite());
        vec![text(name), value(a, show), value(b, show), value(ratio, |r| format!("× {}", number(r)))]
    };
    lines.iter().map(row).collect()
}
