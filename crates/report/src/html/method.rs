//! The sections on the method: all trials, the machine, limits, and what each caveat means.

use std::collections::BTreeMap;

use dyno_analysis::nuisance::{FactorShare, Nuisance};
use dyno_analysis::probe_cost::PriceResult;
use dyno_analysis::report::Report;
use dyno_analysis::stats::ALPHA;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::window_levels::Pattern;
use dyno_analysis::{Code, Severity};
use dyno_archive::plan::{Isolation, Load, LoadChanges, Placement};
use maud::{Markup, PreEscaped, html};

use super::limiters::step_in_words;
use super::part_scope::PartScope;
use super::table::{Column, TableRow, table, text, value};
use super::{count_cell, figure, more, note, trial_table};
use crate::format::{bytes, common_text, count, micros, number, or_dash, percent, phases};
use crate::methodology::{self, Section, anchor};
use crate::metrics::{self, Sheet};
use crate::probe_cost;
use crate::redact::{self, Withheld};
use crate::shell;

pub(super) fn explorer(report: &Report) -> Markup {
    let all = trial_table(report, &report.trials, |t| t, &TRIALS);
    html! {
        p {
            label {
                "Trial "
                select id="trial" {
                    @for (i, t) in report.trials.iter().enumerate() { (option(report, i, t)) }
                }
            }
        }
        "\n"
        div id="trial-caveats" {}
        "\n"
        (figure(
            "explorer",
            "One trial over time",
            "Warm-up is shaded. Drag the slider to zoom.",
            &all,
        ))
        (every_metric(report))
    }
}

/// Every metric of each subject at its reference step, folded.
fn every_metric(report: &Report) -> Markup {
    let sheets = metrics::sheets(report);
    let body = html! {
        (note(metrics::NOTE))
        @for sheet in &sheets { (metrics_of(report, sheet)) }
    };
    html! { @if !sheets.is_empty() { (more("Every metric of every subject", &body)) } }
}

/// A row per metric and a column per subject, which is shown and hidden as rows are elsewhere.
fn metrics_of(report: &Report, sheet: &Sheet) -> Markup {
    let of: Vec<PartScope> =
        sheet.cells.iter().map(|cell| PartScope::cell(report, *cell)).collect();
    let workload = of.first().and_then(|of| of.workloads.as_ref());
    html! {
        div.scroll data-workload=[workload] {
            table.facts {
                thead {
                    tr {
                        th scope="col" { (sheet.heading) }
                        @for (of, title) in of.iter().zip(&sheet.subjects) {
                            th.n scope="col" data-subject=[of.subject] { (title) }
                        }
                    }
                }
                tbody {
                    "\n"
                    @for row in &sheet.rows { (metric_row(&of, row)) }
                }
            }
        }
        "\n"
    }
}

fn metric_row(of: &[PartScope], row: &metrics::MetricRow) -> Markup {
    html! {
        tr {
            td { (row.title) }
            @for (of, shown) in of.iter().zip(&row.cells) {
                td.n data-subject=[of.subject] { (shown) }
            }
        }
        "\n"
    }
}

fn option(report: &Report, index: usize, t: &TrialResult) -> Markup {
    html! {
        option value=(index) {
            (t.subject_id) " · " (step_in_words(report, &t.workload, t.step.shape()))
            " · repeat " (t.repeat)
            @if t.is_unexpectedly_invalid() { " (not valid)" }
        }
    }
}

const TRIALS: [Column<'_, TrialResult>; 10] = [
    ("#Requests/s", &|t| value(Some(t.load.throughput_rps), number)),
    ("#Scheduled", &|t| count_cell(t.load.exchanges.scheduled)),
    ("#Completed", &|t| count_cell(t.load.exchanges.completed)),
    ("#Failed", &|t| count_cell(t.load.exchanges.failed)),
    ("Valid", &|t| text(valid(t))),
    ("Throughput pattern", &|t| text(levels(t))),
    ("CPU per response pattern", &|t| text(costs(t))),
    ("#CPU in others' turns, share of its own", &|t| {
        value(t.turns.as_ref().and_then(|turns| turns.idle_share), percent)
    }),
    ("Limited by", &|t| text(&t.limiter.sentence)),
    ("Caveats", &|t| text(codes(t))),
];

/// Levels of throughput within the window.
fn levels(t: &TrialResult) -> String {
    let Some(steadiness) = &t.steadiness else {
        return if t.duet.is_some() {
            "unknown next to other loads"
        } else {
            "unknown (too few intervals)"
        }
        .into();
    };
    let rates = steadiness.pieces.iter().map(|piece| number(piece.throughput_rps));
    let counted = if steadiness.counts_from_s.is_some() { "; the last counts" } else { "" };
    format!("{}{counted}", in_words(steadiness.pattern, rates))
}

/// Change of the CPU time per response within the window.
fn costs(t: &TrialResult) -> String {
    let cost = t.steadiness.as_ref().and_then(|steadiness| steadiness.cost.as_ref());
    cost.map_or("–".into(), |cost| {
        in_words(cost.pattern, cost.pieces.iter().map(|piece| micros(piece.cpu_us_per_request)))
    })
}

fn in_words(pattern: Pattern, levels: impl Iterator<Item = String>) -> String {
    let name = match pattern {
        Pattern::Flat => return "flat".into(),
        Pattern::WarmUp => "warm-up",
        Pattern::Slowdown => "slowdown",
        Pattern::Cyclic => "cyclic",
        Pattern::None => "none (changed until the end)",
    };
    format!("{name}: {}", levels.collect::<Vec<_>>().join(", "))
}

pub(super) fn valid(t: &TrialResult) -> &'static str {
    match (t.valid, t.refused) {
        (true, _) => "yes",
        (false, true) => "refused, as expected",
        (false, false) => "no",
    }
}

fn codes(t: &TrialResult) -> String {
    let shown = t.caveats.iter().filter(|c| c.severity > Severity::Info);
    shown.map(|c| c.code.in_words()).collect::<Vec<String>>().join(" ")
}

pub(super) fn method(report: &Report, withheld: Withheld) -> Markup {
    let run = &report.run;
    let sysctls: Vec<TableRow> =
        run.facts.sysctls.iter().map(|(k, v)| vec![text(k), text(v)].into()).collect();
    html! {
        h3 { "Machine and plan" } "\n"
        (table("facts", &["What", "Value"], &machine(report)))
        (table("facts", &["Kernel setting", "Value"], &sysctls))
        h3 { "Order of blocks" } "\n"
        ol { @for block in &run.order { li { (block.join(" → ")) } } } "\n"
        (nuisance(report))
        (limits(report))
        h3 { "What could not be measured here" } "\n"
        ul {
            @for m in &run.facts.missing { li { b { (m.what) } ": " (m.why) ". " (m.hint) } }
        }
        "\n"
        (probe(report))
        h3 { "What each caveat means" } "\n"
        (glossary(report))
        h3 { "Run it again" } "\n"
        pre { (shell::rerun_command(&run.command, run.seed)) } "\n"
        @if let Some(said) = redact::withheld_note(withheld) { (note(&said)) }
        @if !run.suite_source.is_empty() {
            (more("The suite file", &html! { pre { (run.suite_source) } }))
        }
        p.downloads {} "\n"
    }
}

fn machine(report: &Report) -> Vec<TableRow> {
    let run = &report.run;
    let facts = &run.facts;
    let known = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known here".into());
    let rows = [
        ("CPU", format!("{} × {}", facts.cpus, known(&facts.cpu_model))),
        ("Memory", or_dash(facts.memory_bytes, |b| bytes(b as f64))),
        ("Kernel", known(&facts.kernel)),
        ("System", known(&facts.os)),
        ("Virtualisation", known(&facts.virtualisation)),
        ("Governor", known(&facts.governor)),
        ("Clock source", known(&facts.clock_source)),
        ("Control groups", facts.cgroup.name().into()),
        ("Open files", or_dash(facts.open_files_limit, count)),
        (
            "dyno",
            format!("{} {}", facts.dyno_version, facts.dyno_commit.clone().unwrap_or_default()),
        ),
        (
            "Placement",
            in_each(report, |s| placement(&s.conditions.placement)) + swap_text(run.swaps_cpus),
        ),
        ("Network", in_each(report, |s| network(s.conditions.isolation).into())),
        ("Generator", in_each(report, |s| generator(&s.conditions.load, &run.load))),
        ("Each trial", phases(&run.load)),
        (
            "Profiles of the suite",
            if run.profiles.is_empty() { "none".into() } else { run.profiles.join(", ") },
        ),
        ("Seed", run.seed.to_string()),
    ];
    let own = [("Requests' own", in_each(report, |s| own_values(&s.conditions.request)))];
    let has_own = report.subjects.iter().any(|s| !s.conditions.request.is_empty());
    let own = own.into_iter().filter(|_| has_own);
    rows.into_iter().chain(own).map(|(what, seen)| vec![text(what), text(seen)].into()).collect()
}

/// Values of a subject in requests, by name.
fn own_values(values: &BTreeMap<String, Option<String>>) -> String {
    let one = |(name, value): (&String, &Option<String>)| {
        format!("{name} {}", value.as_deref().unwrap_or("(withheld)"))
    };
    if values.is_empty() {
        "nothing".into()
    } else {
        values.iter().map(one).collect::<Vec<_>>().join(", ")
    }
}

/// One text if all arms agree, else one per arm.
fn in_each(report: &Report, say: impl Fn(&SubjectResult) -> String) -> String {
    let all: Vec<String> = report.subjects.iter().map(say).collect();
    let each = || {
        let each = report.subjects.iter().zip(&all).map(|(s, said)| format!("{}: {said}", s.id));
        if all.is_empty() { "–".into() } else { each.collect::<Vec<_>>().join("; ") }
    };
    common_text(&all).map_or_else(each, str::to_string)
}

fn placement(placement: &Placement) -> String {
    let cpus = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let generator = cpus(&placement.generator);
    match placement.subject.as_slice() {
        [] => format!("generator on CPU {generator}, the server where it was"),
        own => format!("subjects on CPU {}, generator on CPU {generator}", cpus(own)),
    }
}

/// Variance between starts of one subject, by factor.
fn nuisance(report: &Report) -> Markup {
    let row = |of: &Nuisance, share: &FactorShare| -> TableRow {
        let shown = if share.p < ALPHA { "shown" } else { "not shown" };
        vec![text(of.title), text(share.factor), text(percent(share.share)), text(shown)].into()
    };
    let all: Vec<TableRow> = report
        .nuisance
        .iter()
        .flat_map(|of| of.factors.iter().map(move |share| row(of, share)))
        .collect();
    if all.is_empty() {
        return Markup::default();
    }
    let spreads =
        report.nuisance.iter().map(|of| format!("{} by {}", of.title, percent(of.spread)));
    html! {
        h3 { "Differences between starts" } "\n"
        (note(&format!(
            "Starts of one subject vary: {}. The table has the share of that variance that each \
             nuisance factor explains alone. Pairs of one block have most of it in common.",
            spreads.collect::<Vec<_>>().join(", ")
        )))
        (table("", &["Metric", "With", "#Share of the variance", "Significant"], &all))
    }
}

/// Whether those are the CPUs of the first block alone.
const fn swap_text(swaps_cpus: bool) -> &'static str {
    if swaps_cpus { "; they swap places from block to block" } else { "" }
}

fn network(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::None => "this machine's loopback",
        Isolation::Netns => {
            "each start in its own network, with a link of 1,500 bytes to the generator in another"
        }
    }
}

fn generator(changes: &LoadChanges, of_run: &Load) -> String {
    let load = changes.applied_to(of_run);
    format!("{} thread(s) over {}", load.threads, load.driver.name())
}

fn limits(report: &Report) -> Markup {
    let all = report.subjects.iter().flat_map(|s| s.limits.iter().map(move |l| (s, l)));
    let rows: Vec<TableRow> = all
        .map(|(s, l)| {
            let not_set = || format!("not set: {}", l.reason.clone().unwrap_or_default());
            let read_back = l.read_back.clone().unwrap_or_else(not_set);
            let cells = vec![text(&s.title), text(l.kind.name()), text(&l.asked), text(read_back)];
            TableRow::new(PartScope::subject(report, &s.id), cells)
        })
        .collect();
    html! {
        h3 { "Limits" } "\n"
        (table("facts", &["Subject", "Limit", "Asked", "Read back from the kernel"], &rows))
    }
}

/// The share of the measured time that observing took.
fn probe(report: &Report) -> Markup {
    html! {
        @if let Some(share) = report.run.observing_share {
            p {
                "Reading the counters took " (percent(share))
                " of the measured time (median over the trials), on the generator's CPU."
            }
            "\n"
        }
        (prices(report))
    }
}

/// The cost of the probes for each subject.
fn prices(report: &Report) -> Markup {
    let priced: Vec<(&SubjectResult, &PriceResult)> =
        report.subjects.iter().filter_map(|s| Some((s, s.probe_price.as_ref()?))).collect();
    if priced.is_empty() {
        let looked = report.subjects.iter().any(|s| !s.conditions.observe.is_empty());
        return html! {
            @if looked {
                (note("The cost of the probes for the subjects was not measured in this run. With \
                       `price = true` under `[observe]`, the first block of a suite measures it. \
                       `dyno calibrate --probes` measures it on this machine."))
            }
        };
    }
    let rows: Vec<TableRow> = priced
        .iter()
        .map(|(subject, price)| {
            let cells = vec![
                text(&subject.title),
                text(probe_cost::names(price)),
                text(
                    price
                        .failure
                        .clone()
                        .unwrap_or_else(|| probe_cost::change_text(&price.throughput)),
                ),
                text(probe_cost::change_text(&price.cpu_per_request)),
            ];
            TableRow::new(PartScope::subject(report, &subject.id), cells)
        })
        .collect();
    let head = ["Subject", "Probes", "#Requests/s with them", "#CPU per request with them"];
    html! {
        (note("Cost of the probes: medians of neighbouring slices with and without them, in the \
               first start, with 95 % intervals."))
        (table("facts", &head, &rows))
    }
}

/// The meaning of each caveat, at length for those that the report has.
fn glossary(report: &Report) -> Markup {
    let of_trials = report.trials.iter().flat_map(|t| t.caveats.iter().chain(&t.load.caveats));
    let all: Vec<Code> = report.caveats.iter().chain(of_trials).map(|caveat| caveat.code).collect();
    let of_code = |code: &Code| methodology::caveat_section(*code).filter(|_| all.contains(code));
    let mut shown: Vec<Section> = Vec::new();
    for section in Code::ALL.iter().filter_map(of_code) {
        if !shown.contains(&section) {
            shown.push(section);
        }
    }
    html! {
        dl.glossary {
            @for code in Code::ALL {
                dt id={ "caveat-" (code) } { (code.in_words()) }
                dd {
                    (code.meaning())
                    @if let Some(section) = of_code(code) {
                        " " a href={ "#" (anchor(&section.name())) } { "More: " (section.title) }
                    }
                }
            }
        }
        "\n"
        @for section in &shown {
            (more(
                section.title,
                &html! {
                    div id=(anchor(&section.name())) { (PreEscaped(section.html(&shown))) }
                },
            ))
        }
    }
}
