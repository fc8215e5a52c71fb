//! How it was done: all trials, the environment, limits, words.

use dyno_analysis::Severity;
use dyno_analysis::report::{Report, TrialResult};

use super::figure;
use super::table::{Cell, escape, table, text, value};
use super::why::step_in_words;
use crate::format::{bytes, count, number, or_dash, percent, phases};

pub(super) fn explorer(report: &Report) -> String {
    let options: String = report
        .trials
        .iter()
        .enumerate()
        .map(|(i, t)| {
            let mark = if t.valid { "" } else { " (not valid)" };
            let shape = [t.step.connections, t.step.streams, t.step.pipeline];
            format!(
                "<option value=\"{i}\">{} · {} · repeat {}{mark}</option>",
                escape(&t.subject_id),
                escape(&step_in_words(report, &t.workload, shape)),
                t.repeat
            )
        })
        .collect();
    let rows: Vec<Vec<Cell>> = report.trials.iter().map(trial_row).collect();
    let all = table(
        "sortable",
        &[
            "Subject",
            "#Connections",
            "#Repeat",
            "#Requests/s",
            "#Scheduled",
            "#Completed",
            "#Failed",
            "Valid",
            "Limited by",
            "Caveats",
        ],
        &rows,
    );
    format!(
        "<p><label>Trial <select id=\"trial\">{options}</select></label></p>\n<div id=\"trial-caveats\"></div>\n{}",
        figure("explorer", "One trial over time", "Warm-up is shaded. Drag the slider to zoom.", &all)
    )
}

fn trial_row(t: &TrialResult) -> Vec<Cell> {
    let codes: Vec<&str> = t.caveats.iter().filter(|c| c.severity > Severity::Info).map(|c| c.code).collect();
    let e = &t.load.exchanges;
    let n = |x: u64| value(Some(x as f64), |n| count(n as u64));
    vec![
        text(&t.subject_id),
        n(u64::from(t.step.connections)),
        n(u64::from(t.repeat)),
        value(Some(t.load.throughput_rps), number),
        n(e.scheduled),
        n(e.completed),
        n(e.failed),
        text(if t.valid { "yes" } else { "no" }),
        text(&t.limiter.sentence),
        text(codes.join(" ").replace('_', " ")),
    ]
}

pub(super) fn method(report: &Report) -> String {
    let run = &report.run;
    let facts = &run.facts;
    let known = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known here".into());
    let cpus = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let rows: Vec<(&str, String)> = vec![
        ("CPU", format!("{} × {}", facts.cpus, known(&facts.cpu_model))),
        ("Memory", or_dash(facts.memory_bytes, |b| bytes(b as f64))),
        ("Kernel", known(&facts.kernel)),
        ("System", known(&facts.os)),
        ("Virtualisation", known(&facts.virtualisation)),
        ("Governor", known(&facts.governor)),
        ("Clock source", known(&facts.clock_source)),
        ("Control groups", facts.cgroup.clone()),
        ("Open files", or_dash(facts.open_files_limit, count)),
        ("dyno", format!("{} {}", facts.dyno_version, facts.dyno_commit.clone().unwrap_or_default())),
        (
            "Placement",
            format!(
                "subjects on CPU {}, generator on CPU {}",
                cpus(&run.placement.subject),
                cpus(&run.placement.generator)
            ),
        ),
        ("Generator", format!("{} thread(s) over {}", run.load.threads, run.load.driver)),
        ("Each trial", phases(&run.load)),
        ("Seed", run.seed.to_string()),
    ];
    let machine = table(
        "facts",
        &["What", "Value"],
        &rows.into_iter().map(|(k, v)| vec![text(k), text(v)]).collect::<Vec<_>>(),
    );
    let sysctls: Vec<Vec<Cell>> = facts.sysctls.iter().map(|(k, v)| vec![text(k), text(v)]).collect();
    let blocks: String = run.order.iter().map(|b| format!("<li>{}</li>", escape(&b.join(" → ")))).collect();
    let missing: String = facts
        .missing
        .iter()
        .map(|m| format!("<li><b>{}</b>: {}. {}</li>", escape(&m.what), escape(&m.why), escape(&m.mend)))
        .collect();
    format!(
        "<h3>Machine and plan</h3>\n{machine}{}<h3>Order of blocks</h3>\n<ol>{blocks}</ol>\n{}<h3>What could not be measured here</h3>\n<ul>{missing}</ul>\n{}<h3>What each caveat means</h3>\n{}<h3>Run it again</h3>\n<pre>{}</pre>\n<details><summary>The suite file</summary><pre>{}</pre></details>\n<p class=\"downloads\"></p>\n",
        table("facts", &["Kernel setting", "Value"], &sysctls),
        limits(report),
        probe(report),
        glossary(),
        escape(&run.command.join(" ")),
        escape(&run.suite_source)
    )
}

fn limits(report: &Report) -> String {
    let rows: Vec<Vec<Cell>> = report
        .subjects
        .iter()
        .flat_map(|s| {
            s.limits.iter().map(|l| {
                vec![
                    text(&s.title),
                    text(&l.name),
                    text(&l.asked),
                    text(
                        l.read_back
                            .clone()
                            .unwrap_or_else(|| format!("not set: {}", l.reason.clone().unwrap_or_default())),
                    ),
                ]
            })
        })
        .collect();
    let rows = table("facts", &["Subject", "Limit", "Asked", "Read back from the kernel"], &rows);
    format!("<h3>Limits</h3>\n{rows}")
}

/// What looking cost.
fn probe(report: &Report) -> String {
    let costs: Vec<f64> =
        report.trials.iter().filter_map(|t| Some(t.server.probe_s? / t.server.window_s)).collect();
    match dyno_analysis::stats::median(&costs) {
        Some(share) => format!(
            "<p>Reading the counters took {} of the measured time (median over the trials), on the generator's CPU.</p>\n",
            percent(share)
        ),
        None => String::new(),
    }
}

fn glossary() -> String {
    let items: String = dyno_analysis::caveat::GLOSSARY
        .iter()
        .map(|(code, meaning)| {
            format!("<dt id=\"caveat-{code}\">{}</dt><dd>{}</dd>", code.replace('_', " "), escape(meaning))
        })
        .collect();
    format!("<dl class=\"glossary\">{items}</dl>\n")
}
