//! Arranges the sections on the method: all trials, the machine, limits, and the meaning of each
//! caveat.

use std::collections::BTreeMap;

use dyno_analysis::nuisance::{FactorShare, Nuisance};
use dyno_analysis::probe_cost::PriceResult;
use dyno_analysis::report::Report;
use dyno_analysis::stats::ALPHA;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::trial::TrialResult;
use dyno_analysis::window_levels::Pattern;
use dyno_analysis::{Code, Severity};
use dyno_model::plan::{Isolation, Load, LoadChanges, Placement};
use dyno_model::start::LimitReadBack;
use maud::{Markup, PreEscaped, html};

use super::{REQUESTS_PER_SECOND, count_cell, trial_table};
use crate::format::{bytes, common_text, count, micros, number, or_dash, percent, phases, plural};
use crate::methodology::{self, Section, anchor};
use crate::metrics;
use crate::overview::step_in_words;
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::sentence::Sentence;
use crate::present::table::{Column, ReportTable, Row, text, value};
use crate::probe_cost;
use crate::redact::{self, Withheld};
use crate::shell;

/// Returns the content of the section on single trials, and every metric.
pub(super) fn explorer(report: &Report) -> Block {
    let table = trial_table(report, &report.trials, |t| t, &TRIALS);
    let legend = "Warm-up is shaded. Drag the slider to zoom.";
    let trials = vec![
        Block::Page(trial_select(report)),
        Block::figure("explorer", "One trial over time", (legend, ""), table),
    ];
    Block::Group(vec![Block::OnPages(trials), metrics::every_metric(report)])
}

/// Renders the select of a trial, and the place for its caveats.
fn trial_select(report: &Report) -> Markup {
    html! {
        p {
            label {
                "Trial "
                select id="trial" {
                    @for (i, t) in report.trials.iter().enumerate() { (trial_option(report, i, t)) }
                }
            }
        }
        "\n"
        div id="trial-caveats" {}
        "\n"
    }
}

/// Renders a trial as an entry of the select.
fn trial_option(report: &Report, index: usize, t: &TrialResult) -> Markup {
    html! {
        option value=(index) {
            (t.subject_id) " · " (step_in_words(report, &t.workload, t.step.shape))
            " · repeat " (t.repeat)
            @if t.is_unexpectedly_invalid() { " (not valid)" }
        }
    }
}

const TRIALS: [Column<'_, TrialResult>; 11] = [
    REQUESTS_PER_SECOND,
    ("#Scheduled", &|t| count_cell(t.load.exchanges.scheduled)),
    ("#Completed", &|t| count_cell(t.load.exchanges.completed)),
    ("#No complete response", &|t| count_cell(t.load.exchanges.lost_count())),
    ("#Not ok", &|t| count_cell(t.load.failed_requests())),
    ("Valid", &|t| text(valid(t))),
    ("Throughput pattern", &|t| text(levels_text(t))),
    ("CPU per response pattern", &|t| text(costs_text(t))),
    ("#CPU while only other subjects were loaded, as a share of CPU under load", &|t| {
        value(t.turns.as_ref().and_then(|turns| turns.idle_share), percent)
    }),
    ("Limited by", &|t| text(&t.limiter.sentence)),
    ("Caveats", &|t| text(codes_text(t))),
];

/// Describes the levels of throughput within the window.
fn levels_text(t: &TrialResult) -> String {
    let Some(steadiness) = &t.steadiness else {
        return if t.duet.is_some() {
            "unknown (other loads ran at the same time)"
        } else {
            "unknown (too few intervals)"
        }
        .into();
    };
    let rates = steadiness.pieces.iter().map(|piece| number(piece.throughput_rps));
    let last_level_note = if steadiness.counts_from_s.is_some() {
        "; the result uses only the last level"
    } else {
        ""
    };
    format!("{}{last_level_note}", pattern_text(steadiness.pattern, rates))
}

/// Describes the change of the CPU time per response within the window.
fn costs_text(t: &TrialResult) -> String {
    let cost = t.steadiness.as_ref().and_then(|steadiness| steadiness.cost.as_ref());
    cost.map_or("–".into(), |cost| {
        pattern_text(cost.pattern, cost.pieces.iter().map(|piece| micros(piece.cpu_us_per_request)))
    })
}

/// Formats a pattern and its levels: `warm-up: 900, 1,000`.
fn pattern_text(pattern: Pattern, levels: impl Iterator<Item = String>) -> String {
    let name = match pattern {
        Pattern::Flat => return "flat".into(),
        Pattern::WarmUp => "warm-up",
        Pattern::Slowdown => "slowdown",
        Pattern::Cyclic => "cyclic",
        Pattern::LateRise => "none (changed until the end)",
    };
    format!("{name}: {}", levels.collect::<Vec<_>>().join(", "))
}

/// States whether a trial is valid.
pub(super) fn valid(t: &TrialResult) -> &'static str {
    match (t.valid, t.refused) {
        (true, _) => "yes",
        (false, true) => "refused, as expected",
        (false, false) => "no",
    }
}

/// Lists the caveats of a trial, without notes.
fn codes_text(t: &TrialResult) -> String {
    let caveats = t.caveats.iter().filter(|c| c.severity > Severity::Info);
    caveats.map(|c| c.code.in_words()).collect::<Vec<String>>().join(" ")
}

/// Returns the content of the section on machine, plan, limits and caveats.
pub(super) fn method(report: &Report, withheld: Withheld) -> Block {
    let run = &report.run;
    let part = first_part_text(report);
    let heading = |title: &str| Block::Heading(title.into());
    let missing = run.facts.missing.iter().map(|missing| {
        Sentence::about(&*missing.measurement)
            .then(format!(": {}. {}", missing.reason, missing.hint))
    });
    let mut blocks = vec![
        heading(&format!("Machine{part} and plan")),
        Block::Table(ReportTable::new("facts", &["Property", "Value"], machine_rows(report))),
        sysctls(report),
        Block::OnPages(vec![heading("Order of blocks"), Block::Page(order(&run.order))]),
        nuisance(report),
        limits(report),
    ];
    if !run.facts.missing.is_empty() {
        blocks.push(heading(&format!("What could not be measured on this machine{part}")));
        blocks.push(Block::List(missing.collect()));
    }
    blocks.extend([
        observation_cost(report),
        glossary(report),
        heading("Run the suite again"),
        Block::Code("sh", shell::rerun_command(&run.command, run.seed)),
    ]);
    blocks.extend(redact::withheld_note(withheld).map(|text| Block::note(&text)));
    if !run.suite_source.is_empty() {
        let source = vec![Block::Code("toml", run.suite_source.clone())];
        blocks.push(Block::OnPages(vec![Block::Folded("The suite file".into(), source)]));
    }
    blocks.push(Block::Page(html! { p.downloads {} "\n" }));
    Block::Group(blocks)
}

/// Returns ` (first part of the run)` if the run was resumed in other conditions: the facts on the
/// machine are those of its first part.
pub(crate) fn first_part_text(report: &Report) -> &'static str {
    let is_mixed = report.caveats.iter().any(|caveat| caveat.code == Code::MIXED);
    if is_mixed { " (first part of the run)" } else { "" }
}

/// Renders the order in which each block starts its servers.
fn order(blocks: &[Vec<String>]) -> Markup {
    html! { ol { @for block in blocks { li { (block.join(" → ")) } } } "\n" }
}

/// Returns the table of the kernel's settings. Empty if none is known.
fn sysctls(report: &Report) -> Block {
    let sysctls = &report.run.facts.sysctls;
    if sysctls.is_empty() {
        return Block::empty();
    }
    let rows = sysctls.iter().map(|(name, setting)| vec![text(name), text(setting)].into());
    Block::Table(ReportTable::new("facts", &["Kernel setting", "Value"], rows.collect()))
}

/// Returns the rows on the machine and the plan.
fn machine_rows(report: &Report) -> Vec<Row> {
    let run = &report.run;
    let facts = &run.facts;
    let known_text = |t: &Option<String>| t.clone().unwrap_or_else(|| "not known here".into());
    let rows = [
        ("CPU", format!("{} × {}", facts.cpus, known_text(&facts.cpu_model))),
        ("Memory", or_dash(facts.memory_bytes, |b| bytes(b as f64))),
        ("Kernel", known_text(&facts.kernel)),
        ("System", known_text(&facts.os)),
        ("Virtualisation", known_text(&facts.virtualisation)),
        ("Governor", known_text(&facts.governor)),
        ("Clock source", known_text(&facts.clock_source)),
        ("Control groups", facts.cgroup.name().into()),
        ("Open files", or_dash(facts.open_files_limit, count)),
        (
            "dyno",
            facts.dyno_commit.iter().fold(facts.dyno_version.clone(), |v, commit| v + " " + commit),
        ),
        (
            "Placement",
            per_arm(report, |s| placement_text(&s.conditions.placement))
                + swap_text(run.swaps_cpus),
        ),
        ("Network", per_arm(report, |s| network_text(s.conditions.isolation).into())),
        ("Generator", per_arm(report, |s| generator_text(&s.conditions.load, &run.load))),
        ("Each trial", phases(&run.load)),
        (
            "Profiles of the suite",
            if run.profiles.is_empty() { "none".into() } else { run.profiles.join(", ") },
        ),
        ("Seed", run.seed.to_string()),
    ];
    let has_request_values = report.subjects.iter().any(|s| !s.conditions.request.is_empty());
    let request_row = has_request_values.then(|| {
        ("Values for requests", per_arm(report, |s| request_values(&s.conditions.request)))
    });
    rows.into_iter()
        .chain(request_row)
        .map(|(name, value)| vec![text(name), text(value)].into())
        .collect()
}

/// Lists the values that a subject sets for its requests, by name.
fn request_values(values: &BTreeMap<String, Option<String>>) -> String {
    let text = |(name, value): (&String, &Option<String>)| {
        format!("{name} {}", value.as_deref().unwrap_or("(withheld)"))
    };
    if values.is_empty() {
        "nothing".into()
    } else {
        values.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// Returns one text if all arms agree, or else a text per arm.
fn per_arm(report: &Report, describe: impl Fn(&SubjectResult) -> String) -> String {
    let texts: Vec<String> = report.subjects.iter().map(describe).collect();
    if texts.is_empty() {
        return "–".into();
    }
    if let Some(common) = common_text(&texts) {
        return common.to_string();
    }
    let named = report.subjects.iter().zip(&texts).map(|(s, text)| format!("{}: {text}", s.id));
    named.collect::<Vec<_>>().join("; ")
}

/// States the CPUs of subjects and generator.
fn placement_text(placement: &Placement) -> String {
    let cpus = |list: &[u32]| list.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let generator = cpus(&placement.generator);
    match placement.subject.as_slice() {
        [] => format!("generator on CPU {generator}, CPUs of the server not set by dyno"),
        subject_cpus => {
            format!("subjects on CPU {}, generator on CPU {generator}", cpus(subject_cpus))
        }
    }
}

/// Returns the table of the variance between starts of one subject, by nuisance factor.
fn nuisance(report: &Report) -> Block {
    let columns: [Column<'_, (&Nuisance, &FactorShare)>; 4] = [
        ("Metric", &|(nuisance, _)| text(nuisance.title)),
        ("Factor", &|(_, share)| text(share.factor)),
        ("#Share of the variance", &|(_, share)| text(percent(share.share))),
        ("Significant", &|(_, share)| text(if share.p < ALPHA { "yes" } else { "no" })),
    ];
    let rows: Vec<(&Nuisance, &FactorShare)> = report
        .nuisance
        .iter()
        .flat_map(|nuisance| nuisance.factors.iter().map(move |share| (nuisance, share)))
        .collect();
    let spreads = report
        .nuisance
        .iter()
        .map(|nuisance| format!("{} by {}", nuisance.title, percent(nuisance.spread)));
    let note = format!(
        "Results of one subject vary from start to start: {}. The table shows the share of this \
         variance that each nuisance factor (such as the time of the start) explains alone. \
         Repeats of the same block (one pass over all subjects) share most of these factors.",
        spreads.collect::<Vec<_>>().join(", ")
    );
    let table = ReportTable::plain("", &columns, &rows);
    Block::part("Differences between starts", &note, table, "")
}

/// States whether the CPUs change from block to block.
const fn swap_text(swaps_cpus: bool) -> &'static str {
    if swaps_cpus {
        "; in every other block (one pass over all subjects), subjects and generator exchange \
         their CPUs"
    } else {
        ""
    }
}

/// Describes the network between generator and server.
fn network_text(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::None => "this machine's loopback",
        Isolation::Netns => {
            "each start in its own network namespace, linked to the generator's namespace (MTU \
             1,500 bytes)"
        }
    }
}

/// States the threads and the I/O driver of the generator.
fn generator_text(changes: &LoadChanges, run_load: &Load) -> String {
    let load = changes.apply_to(run_load);
    format!("{} over {}", plural(u64::from(load.threads), "thread"), load.driver.name())
}

/// Returns the table of limits, with the values that the kernel reports.
fn limits(report: &Report) -> Block {
    let unset_text =
        |limit: &LimitReadBack| format!("not set: {}", limit.reason.as_deref().unwrap_or_default());
    let columns: [Column<'_, (&SubjectResult, &LimitReadBack)>; 4] = [
        ("Subject", &|(subject, _)| text(&subject.title)),
        ("Limit", &|(_, limit)| text(limit.kind.name())),
        ("Requested", &|(_, limit)| text(&limit.asked)),
        ("Read back from the kernel", &|(_, limit)| {
            text(limit.read_back.clone().unwrap_or_else(|| unset_text(limit)))
        }),
    ];
    let rows: Vec<(&SubjectResult, &LimitReadBack)> =
        report.subjects.iter().flat_map(|s| s.limits.iter().map(move |l| (s, l))).collect();
    let table =
        ReportTable::scoped("facts", &columns, &rows, |(s, _)| PartScope::subject(report, &s.id));
    Block::part("Limits", "", table, "")
}

/// Returns the share of the measured time that reading counters took, and the cost of the probes.
fn observation_cost(report: &Report) -> Block {
    let share = report.run.observing_share.map(|share| {
        Block::paragraph(&format!(
            "Reading the counters took {} of the measured time (median over the trials), on the \
             generator's CPU.",
            percent(share)
        ))
    });
    let prices = probe_prices(report);
    if share.is_none() && prices.is_none() {
        return Block::empty();
    }
    let heading = Block::Heading("Cost of observing".into());
    Block::Group([Some(heading), share, prices].into_iter().flatten().collect())
}

/// Returns the table of the cost of the probes for each subject. `None`: no subject has a probe.
fn probe_prices(report: &Report) -> Option<Block> {
    let prices: Vec<(&SubjectResult, &PriceResult)> =
        report.subjects.iter().filter_map(|s| Some((s, s.probe_price.as_ref()?))).collect();
    if prices.is_empty() {
        let has_probes = report.subjects.iter().any(|s| !s.conditions.observe.is_empty());
        return has_probes.then(|| Block::note(NO_PRICES));
    }
    let columns: [Column<'_, (&SubjectResult, &PriceResult)>; 4] = [
        ("Subject", &|(s, _)| text(&s.title)),
        ("Probes", &|(_, price)| text(probe_cost::names(price))),
        ("#Change of requests/s", &|(_, price)| text(probe_cost::throughput_text(price))),
        ("#Change of CPU per request", &|(_, price)| {
            text(probe_cost::change_text(&price.cpu_per_request))
        }),
    ];
    let table =
        ReportTable::scoped("facts", &columns, &prices, |(s, _)| PartScope::subject(report, &s.id));
    Some(Block::Group(vec![Block::note(PRICES), Block::Table(table)]))
}

const NO_PRICES: &str = "The cost of the probes for the subjects was not measured in this run. Set \
                         `price = true` under `[observe]` of the suite to measure this cost in the \
                         first block (one pass over all subjects). `dyno calibrate --probes` \
                         measures the cost for dyno's own minimal server.";

const PRICES: &str = "Cost of the probes: the median change between neighbouring time slices with \
                      and without probes, in the first start of each subject. The 95 % interval of \
                      the median is in parentheses, or the range if there are fewer than five \
                      pairs.";

/// Returns the meanings of all caveats, with the sections on the caveats of this report.
fn glossary(report: &Report) -> Block {
    let trial_caveats = report.trials.iter().flat_map(|t| t.caveats.iter().chain(&t.load.caveats));
    let codes: Vec<Code> =
        report.caveats.iter().chain(trial_caveats).map(|caveat| caveat.code).collect();
    let section_of = |code: Code| {
        if codes.contains(&code) { methodology::caveat_section(code) } else { None }
    };
    let mut sections: Vec<Section> = Vec::new();
    for section in Code::all().filter_map(section_of) {
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    let meanings = html! {
        dl.glossary {
            @for code in Code::all() {
                dt id={ "caveat-" (code) } { (code.in_words()) }
                dd {
                    (Sentence::new(code.meaning()))
                    @if let Some(section) = section_of(code) {
                        " " a href={ "#" (anchor(&section.name())) } { "More: " (section.title) }
                    }
                }
            }
        }
        "\n"
    };
    let folded = sections.iter().map(|section| {
        let text = PreEscaped(section.html(&sections));
        let text = html! { div id=(anchor(&section.name())) { (text) } };
        Block::Folded(section.title.into(), vec![Block::Page(text)])
    });
    let heading = Block::Heading("What each caveat means".into());
    Block::OnPages([heading, Block::Page(meanings)].into_iter().chain(folded).collect())
}
