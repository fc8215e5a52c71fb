//! Arranges the section on cost: CPU time and memory per request, in each step and over the whole
//! life of a server.

use dyno_analysis::backend::BackendSummary;
use dyno_analysis::backend_use::BackendUse;
use dyno_analysis::cost::PaidUse;
use dyno_analysis::metric::{CPU, Metric, MetricId};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use dyno_model::plan::Cost;
use maud::{Markup, html};

use super::{
    CellNames, cell_table, count_cell, every_trial, metric_figure, metric_table, repeats_cell,
    subject_cell, trial_table,
};
use crate::format::{bytes, micros, number, or_dash, percent, quantity};
use crate::present::block::Block;
use crate::present::part_scope::PartScope;
use crate::present::table::{Column, ReportTable, TableCell, cell, text, value};

/// Returns the content of the section.
pub(super) fn cost(report: &Report) -> Block {
    let chart = |chart, caption: &'static str, metric: &Metric, note: &'static str, table| {
        metric_figure((report, metric.key), chart, caption, ("", note), table)
    };
    // `others`: columns after the metric's own.
    let steps = |name, caption: &'static str, id: MetricId, note, others: &[(&str, MetricId)]| {
        let table = metric_table(report, &format!("#{caption}"), id, others);
        chart(name, caption, id.metric(), note, table)
    };
    let switches = [("#Context switches per request", MetricId::ContextSwitches)];
    let outside =
        [("#Page cache", MetricId::PageCache), ("#Kernel memory", MetricId::KernelMemory)];
    let io = [
        ("#Writes per request", MetricId::Writes),
        ("#Events per epoll_wait", MetricId::EventsPerWait),
    ];
    let calls = || steps("system-calls", CALLS_TITLE, MetricId::SystemCalls, CALLS, &io);
    let are_calls_known =
        report.summaries.iter().any(|s| s.median_of(MetricId::SystemCalls).is_some());
    let split = split_table(report);
    Block::Group(vec![
        steps("cpu", "Server CPU per request", MetricId::Cpu, "", &switches),
        prices(report),
        chart("split", "User and system CPU per request", &CPU, SPLIT, split),
        steps("cpus", "CPUs used", MetricId::Cpus, CPUS, &[]),
        if are_calls_known { calls() } else { Block::empty() },
        steps("memory", "Memory", MetricId::Memory, MEMORY, &outside),
        steps("memory-time", "Memory × time per request", MetricId::MemoryTime, MEMORY_TIME, &[]),
        lifetimes(report),
        backends(report),
    ])
}

const SPLIT: &str = "User and system time are medians of the valid repeats of the reference step \
                     (the step nearest to 64 requests in flight). The kernel estimates the split \
                     between user and system time from samples at each timer tick.";
const CPUS: &str = "CPU time per second of the measured window: how many CPUs were busy with the \
                    server, on average.";
const CALLS_TITLE: &str = "System calls per request";

const CALLS: &str = "All system calls of the server per response. A server that handles several \
                     events per epoll_wait needs fewer calls per request under more load.";
const MEMORY: &str = "Anonymous and shared memory of the server (of its control group, if there is \
                      one). Page cache and the kernel's memory for the server are in separate \
                      columns.";
const MEMORY_TIME: &str = "The server's memory × the time between two responses: a request's share \
                           of memory that is billed by the second.";

/// Returns the table of user and system CPU time at the reference step of each row of the overview.
fn split_table(report: &Report) -> ReportTable {
    let metric_cell = |r: &OverviewRow, id: MetricId| {
        let median = report.summary(r.reference_cell).and_then(|s| s.median_of(id));
        value(median, |v| quantity(id.metric().unit, v))
    };
    let columns: [Column<'_, OverviewRow>; 4] = [
        ("Subject", &|r| subject_cell(report, &r.subject, &r.title)),
        ("Step", &|r| text(crate::overview::label(r.reference_at))),
        ("#User", &|r| metric_cell(r, MetricId::UserCpu)),
        ("#System", &|r| metric_cell(r, MetricId::SystemCpu)),
    ];
    ReportTable::scoped("sortable", &columns, &report.overview, |r| PartScope::row(report, r))
}

/// Returns the table of the resources that each start used over its whole life, or a sentence if
/// they are unknown.
fn lifetimes(report: &Report) -> Block {
    let subjects: Vec<&SubjectResult> =
        report.subjects.iter().filter(|s| !s.lifetimes.starts.is_empty()).collect();
    if subjects.is_empty() {
        return Block::note(
            "The cost of requests over a server's whole life, with start-up and warm-up, is \
             unknown in this run. The cost is known only for starts in control groups, because \
             only control groups count the CPU time of ended processes and threads, and only if no \
             process left its group. The cost is unknown for starts that measure the cost of \
             probes (`price`), because the responses to these loads are not recorded. In the JSON, \
             lifetimes are empty.",
        );
    }
    let subject_columns: [Column<'_, &SubjectResult>; 4] = [
        ("Subject", &|s| subject_cell(report, &s.id, &s.title)),
        ("#Starts", &|s| count_cell(s.lifetimes.starts.len() as u64)),
        ("#CPU per request, whole life", &|s| value(s.lifetimes.cpu_us_per_request.median, micros)),
        ("#Each repeat", &|s| repeats_cell(&s.lifetimes.cpu_us_per_request, micros)),
    ];
    let price_column: [Column<'_, &SubjectResult>; 1] =
        [("#CPU cost of a billion requests, whole life", &|s| {
            value(s.lifetimes.cost_per_billion_requests, number)
        })];
    let columns =
        [&subject_columns[..], if report.run.cost.is_some() { &price_column } else { &[] }]
            .concat();
    let table =
        ReportTable::scoped("sortable", &columns, &subjects, |s| PartScope::subject(report, &s.id));
    let cost_note = if report.run.cost.is_some() { LIFETIME_COST } else { "" };
    let note = format!("{LIFETIMES}{cost_note}");
    Block::figure("lifetimes", "Requests over CPU time", (LIFETIMES_LEGEND, &note), table)
}

const LIFETIME_COST: &str = "\nThe CPU cost of a billion requests is their CPU hours multiplied by \
                             the price per vCPU-hour, and divided by the CPU utilisation.";

const LIFETIMES_LEGEND: &str = "Correct responses over CPU time. Each line is one start of a \
                                server. Its dots show when the server was ready, when it was warm, \
                                and when each trial ended. A steeper line means cheaper \
                                requests.\nA start without a control group has no line. A line \
                                ends at the first profile or search, because their responses are \
                                not counted.";

const LIFETIMES: &str = "Responses and CPU time count from the start of the process (exec), with \
                         start-up, warm-up and compilation. The CPU time per request of a step \
                         excludes these three phases. A start without a control group has no \
                         lifetime in the JSON, because only control groups count the CPU time of \
                         ended processes.";

/// Returns the tables of the resources that back ends used, by step and by trial. Empty without
/// back ends.
fn backends(report: &Report) -> Block {
    let rows: Vec<StepBackend<'_>> =
        report.summaries.iter().flat_map(|s| s.backends.iter().map(move |b| (s, b))).collect();
    let columns: [Column<'_, StepBackend<'_>>; 5] = [
        ("Back end", &|(_, b)| text(&b.name)),
        ("#CPU per request", &|(_, b)| value(b.cpu_us_per_request.median, micros)),
        ("#Share of a request's CPU", &|(_, b)| value(b.cpu_share.median, percent)),
        ("#Share of allowed CPU", &|(_, b)| value(b.cpu_utilisation.median, percent)),
        ("#Memory", &|(_, b)| value(b.memory_bytes.median, bytes)),
    ];
    let table = cell_table(report, &rows, |(s, _)| CellNames::from_step(s), &columns);
    if rows.is_empty() {
        return Block::empty();
    }
    Block::Group(vec![
        Block::part("Back ends", BACKENDS, table, ""),
        every_trial(backends_of_trials(report)),
    ])
}

type StepBackend<'a> = (&'a Summary, &'a BackendSummary);

/// Returns the table of the resources that back ends used in each trial.
fn backends_of_trials(report: &Report) -> ReportTable {
    type TrialBackend<'a> = (&'a TrialResult, &'a BackendUse);
    let rows: Vec<TrialBackend<'_>> =
        report.trials.iter().flat_map(|t| t.backends.iter().map(move |b| (t, b))).collect();
    trial_table(
        report,
        &rows,
        |(t, _)| t,
        &[
            ("Back end", &|(_, b)| text(&b.name)),
            ("#CPU per request", &|(_, b)| value(b.server.cpu_us_per_request, micros)),
            ("#Share of a request's CPU", &|(_, b)| value(b.cpu_share, percent)),
            ("#Share of allowed CPU", &|(_, b)| value(b.server.cpu_utilisation, percent)),
            ("#Context switches per request", &|(_, b)| {
                value(b.server.per_request.context_switches, number)
            }),
            ("#Memory", &|(_, b)| value(b.server.memory_held_bytes.map(|n| n as f64), bytes)),
        ],
    )
}

const BACKENDS: &str = "Back ends are services that a subject needs. They are started and \
                        monitored with the subject. A value \"per request\" is the back end's \
                        total divided by the number of responses of the subject. \"Share of a \
                        request's CPU\" is the back end's share of the CPU time of subject and \
                        back ends together.";

/// Returns the table of the cost of a billion requests, at prices that the reader may change. Empty
/// if the resources of a request are unknown.
fn prices(report: &Report) -> Block {
    if report.overview.iter().all(|row| row.paid.is_none()) {
        return Block::empty();
    }
    let cost = report.run.cost;
    let columns: [Column<'_, OverviewRow>; 7] = [
        ("Subject", &|r| text(&r.title)),
        ("#CPU per request", &|r| value(r.figures.get(MetricId::Cpu), micros)),
        ("#CPU hours", &|r| value(r.paid.map(|paid| paid.cpu_hours), number)),
        ("#GiB hours", &|r| value(r.paid.and_then(|paid| paid.gib_hours), number)),
        ("#Cost", &|r| price_cell(r.paid, r.cost_per_billion_requests)),
        ("#Cost range", &|r| cost_range_cell(r)),
        ("#Cost of memory", &|r| {
            price_cell(r.paid.map(memory_share), r.cost.map(|cost| cost.memory_part))
        }),
    ];
    let table =
        ReportTable::scoped("sortable", &columns, &report.overview, |r| PartScope::row(report, r));
    let prices = Block::note(&cost.map_or_else(|| NO_PRICE.into(), prices_text));
    let prices = Block::Marked("at-prices", vec![prices]);
    Block::Group(vec![
        Block::Heading("Cost of a billion requests".into()),
        Block::Page(prices_form(cost)),
        Block::Table(table),
        Block::note(HOURS),
        if cost.is_some() { prices } else { Block::OnPages(vec![prices]) },
    ])
}

const HOURS: &str = "CPU hours and GiB hours are the hours that a billion requests take if the \
                     CPUs of the server are fully used. The cost is the hours multiplied by the \
                     prices, and divided by the CPU utilisation.";

const NO_PRICE: &str = "The suite sets no prices (table [cost]). To see costs, enter prices above.";

/// Returns the cell of a cost, with the hours from which the viewer computes the cost again when
/// prices change.
fn price_cell(paid: Option<PaidUse>, cost: Option<f64>) -> TableCell {
    let Some(PaidUse { cpu_hours, gib_hours }) = paid else { return value(cost, number) };
    let text = or_dash(cost, number);
    let page = html! { span data-cpu-hours=(cpu_hours) data-gib-hours=[gib_hours] { (text) } };
    cell(text, page).sorted_by(cost)
}

/// Returns the part of the paid use that is memory.
fn memory_share(paid: PaidUse) -> PaidUse {
    PaidUse { cpu_hours: 0.0, ..paid }
}

/// Returns the cell of the cost at both ends of the interval, or range, of the CPU time per
/// request.
fn cost_range_cell(row: &OverviewRow) -> TableCell {
    let (low, high) = row.paid_between.unzip();
    if low.is_none() {
        return text("–");
    }
    let ends = row.cost.and_then(|cost| cost.between).unzip();
    let (low, high) = (price_cell(low, ends.0), price_cell(high, ends.1));
    let text =
        if ends.0.is_some() { format!("{}–{}", low.text, high.text) } else { "–".into() };
    cell(text, html! { (low.content()) "–" (high.content()) })
}

/// Returns the form for prices, which the viewer makes visible.
fn prices_form(cost: Option<Cost>) -> Markup {
    let input = |name: &str, label: &str, value: Option<f64>, max: Option<u32>| {
        html! {
            label {
                (label) " "
                input type="number" name=(name) min="0" max=[max] step="any" value=[value];
            }
            " "
        }
    };
    html! {
        form id="prices" hidden {
            (input("cpu", "Price per vCPU-hour", cost.map(|cost| cost.per_vcpu_hour), None))
            (input("gib", "Price per GiB-hour", cost.and_then(|cost| cost.per_gib_hour), None))
            (input(
                "utilisation",
                "CPU utilisation (0–1)",
                cost.and_then(|cost| cost.utilisation),
                Some(1),
            ))
        }
        "\n"
    }
}

/// States the prices and their assumptions.
fn prices_text(cost: Cost) -> String {
    let utilisation = cost
        .utilisation
        .map_or_else(|| "fully".into(), |share| format!("for {} of the time", percent(share)));
    let memory = cost
        .per_gib_hour
        .map_or_else(|| "memory is free".into(), |price| format!("{price} per GiB-hour of memory"));
    let restarts = cost.lifetime_hours.map_or_else(
        || "never restarted".into(),
        |hours| {
            format!(
                "restarted every {} hours and serves no requests during start-up",
                number(hours)
            )
        },
    );
    format!(
        "Prices: {} per vCPU-hour, {memory}. Assumptions: every CPU of the server is used \
         {utilisation}, and the server is {restarts}. The cost range goes from the cost at the \
         lower end to the cost at the upper end of the interval (or range) of the CPU time per \
         request.",
        cost.per_vcpu_hour
    )
}
