//! What a request cost each server, and what limited it.

use dyno_analysis::report::{Report, SubjectResult, TrialResult};
use dyno_analysis::summary::{OverviewRow, Summary};

use super::overview::resource;
use super::table::{Cell, escape, table, text, value};
use super::{figure, repeats_of, step_table, swatch};
use crate::format::{bytes, micros, number, percent, plural};

pub(super) fn cost(report: &Report) -> String {
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
    let memory_note = "Anonymous memory of the control group where there is one, resident memory otherwise; page cache is left out.";
    figure("cpu", "Server CPU per request", "", &cpu)
        + &price(report)
        + &figure(
            "split",
            "User and system CPU per request",
            "At the reference step, median of the repeats. The kernel's tick samples the split.",
            &cpu,
        )
        + &figure("memory", "Memory", memory_note, &memory)
}

/// What the CPU time of a billion requests costs, where the suite says what CPU time costs.
fn price(report: &Report) -> String {
    let Some(cost) = report.run.cost else { return String::new() };
    let rows: Vec<Vec<Cell>> = report
        .overview
        .iter()
        .map(|r| {
            vec![
                text(&r.title),
                value(r.cpu_us_per_request, micros),
                value(r.cost_per_billion_requests, number),
            ]
        })
        .collect();
    let note =
        format!("<p class=\"note\">At {} per vCPU and hour, every CPU fully used.</p>\n", cost.per_vcpu_hour);
    "<h3>Cost of a billion requests</h3>\n".to_string()
        + &table("sortable", &["Subject", "#CPU per request", "#Cost"], &rows)
        + &note
}

pub(super) fn why(report: &Report) -> String {
    let mut out = String::from("<div class=\"cards\">\n");
    for subject in &report.subjects {
        let steps: Vec<&Summary> = report.summaries.iter().filter(|s| s.subject == subject.id).collect();
        if !steps.is_empty() {
            out.push_str(&card(report, subject, &steps));
        }
    }
    out + "</div>\n"
}

fn card(report: &Report, subject: &SubjectResult, steps: &[&Summary]) -> String {
    let strip: String = steps
        .iter()
        .map(|s| {
            let resource_name = serde_json::to_value(s.limiter).ok();
            let class = resource_name.as_ref().and_then(|v| v.as_str()).unwrap_or("unknown").to_string();
            format!(
                "<li class=\"{class}\" title=\"{}\"><b>{}</b> {}</li>",
                escape(&s.limiter_sentence),
                escape(&step_label(report, s)),
                escape(&format!("{}{}", resource(s.limiter), s.limiter_confidence.mark(s.limiter)))
            )
        })
        .collect();
    let busiest = steps.iter().max_by(|a, b| {
        a.throughput_rps.median.unwrap_or(0.0).total_cmp(&b.throughput_rps.median.unwrap_or(0.0))
    });
    let why = busiest.map_or(String::new(), |s| {
        let sentence = format!(
            "{}: {}",
            step_in_words(report, &s.workload, [s.connections, s.streams, s.pipeline]),
            s.limiter_sentence
        );
        format!("<p>At {}</p>\n{}", escape(&sentence), counters(report, s))
    });
    format!(
        "<article class=\"card\"><h3>{}{}</h3>\n<ol class=\"strip\">{strip}</ol>\n{why}</article>\n",
        swatch(report, &subject.id),
        escape(&subject.title)
    )
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
fn counters(report: &Report, busiest: &Summary) -> String {
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
    let median = |trials: &[&TrialResult], pick: &dyn Fn(&TrialResult) -> Option<f64>| {
        dyno_analysis::stats::median(&trials.iter().filter_map(|t| pick(t)).collect::<Vec<_>>())
    };
    let answers = |t: &TrialResult| Some(t.load.throughput_rps * t.server.window_s).filter(|n| *n > 0.0);
    type Pick<'a> = &'a dyn Fn(&TrialResult) -> Option<f64>;
    let lines: [(&str, Pick<'_>, fn(f64) -> String); 8] = [
        ("user CPU", &|t| Some(t.server.cpu_user_s? * 1e6 / answers(t)?), micros),
        ("system CPU", &|t| Some(t.server.cpu_sys_s? * 1e6 / answers(t)?), micros),
        ("context switches", &|t| t.server.per_request.context_switches, number),
        ("waiting for a CPU", &|t| t.server.per_request.run_delay_us, micros),
        ("bytes received", &|t| Some(t.load.bytes.received as f64 / answers(t)?), bytes),
        ("segments received", &|t| t.load.tcp.data_segments_per_response, number),
        ("busiest thread", &|t| t.server.busiest_thread_utilisation, percent),
        ("threads", &|t| t.server.threads.map(|n| n as f64), |n| format!("{n:.0}")),
    ];
    let rows: Vec<Vec<Cell>> = lines
        .iter()
        .map(|(name, pick, show)| {
            let (a, b) = (median(&own, pick), median(&base, pick));
            vec![
                text(name),
                value(a, *show),
                value(b, *show),
                value(a.zip(b).map(|(a, b)| a / b).filter(|r| r.is_finite()), |r| format!("× {}", number(r))),
            ]
        })
        .collect();
    if baseline.is_none() {
        let own_only = rows.into_iter().map(|row| row.into_iter().take(2).collect()).collect::<Vec<_>>();
        return table("counters", &["Per response", "#Here"], &own_only);
    }
    let beside = baseline.map_or("#Reference".to_string(), |r| format!("#{}", escape(&r.title)));
    table("counters", &["Per response", "#Here", &beside, "#Ratio"], &rows)
}
