//! The section on cost: the CPU time and the memory that a request took, in each step and over
//! whole lives.

use dyno_analysis::backend::{BackendSummary, BackendUse};
use dyno_analysis::cost::PaidUse;
use dyno_analysis::metric::{self, CPU, Metric, Unit};
use dyno_analysis::overview::OverviewRow;
use dyno_analysis::report::Report;
use dyno_analysis::stats::Repeated;
use dyno_analysis::subject::SubjectResult;
use dyno_analysis::summary::Summary;
use dyno_analysis::trial::TrialResult;
use dyno_archive::plan::Cost;
use maud::{Markup, html};

use super::part_scope::PartScope;
use super::table::{Column, TableCell, cell, table_of, text, value};
use super::{count_cell, figure, noise, note, repeats_of, step_table, swatch, trial_table};
use crate::format::{bytes, micros, number, or_dash, percent, quantity};

pub(super) fn cost(report: &Report) -> Markup {
    html! {
        (figure("cpu", "Server CPU per request", noise(report, CPU.key).trim_start(), &cpu(report)))
        (price(report))
        (figure(
            "split",
            "User and system CPU per request",
            &format!("{SPLIT}{}", noise(report, CPU.key)),
            &split(report),
        ))
        (figure(
            "cpus",
            "CPUs used",
            &format!("{CPUS}{}", noise(report, "server_cpus")),
            &cpus(report),
        ))
        (figure(
            "memory",
            "Memory",
            &format!("{MEMORY}{}", noise(report, metric::MEMORY.key)),
            &memory(report),
        ))
        (figure(
            "memory-time",
            "Memory × time per request",
            &format!("{MEMORY_TIME}{}", noise(report, metric::MEMORY_TIME.key)),
            &memory_time(report),
        ))
        (lifetimes(report))
        (backends(report))
    }
}

const SPLIT: &str = "At the reference step. Each part is the median of the valid repeats. The \
                     kernel's tick samples the split.";
const CPUS: &str = "CPU time per second of the measured window: how many CPUs were busy with the \
                    server, on average.";
const MEMORY: &str = "Anonymous and shared memory, of the control group if there is one. Page \
                      cache and the kernel's memory for the server have columns of their own.";
const MEMORY_TIME: &str = "The server's memory × the time between two responses: a request's share \
                           of memory that is billed by the second.";

fn cpu(report: &Report) -> Markup {
    step_table(
        report,
        &[
            ("#CPU per request", &|s| {
                with_backends(value(s.cpu_us_per_request.median, micros), s, |b| {
                    b.cpu_us_per_request.median.map(micros)
                })
            }),
            ("#Each repeat", &|s| repeats_of(&s.cpu_us_per_request, micros)),
            ("#Context switches per request", &|s| {
                value(s.context_switches_per_request.median, number)
            }),
        ],
    )
}

/// A cell of the subject with the same of each back end in smaller text below.
fn with_backends(
    cell: TableCell,
    s: &Summary,
    show: impl Fn(&BackendSummary) -> Option<String>,
) -> TableCell {
    let shown =
        s.backends.iter().filter_map(|behind| Some(format!("+ {} {}", behind.name, show(behind)?)));
    shown.fold(cell, TableCell::with_small)
}

/// The parts of CPU time at the reference step of each row of the overview.
fn split(report: &Report) -> Markup {
    let part = |r: &OverviewRow, key: &str| {
        let over = report.summary(r.reference_cell).and_then(|s| s.metric(key));
        value(over.and_then(|m| m.over.median), |v| quantity(Metric::from_key(key).unit, v))
    };
    let columns: [Column<'_, OverviewRow>; 4] = [
        ("Subject", &|r| cell(html! { (swatch(report, &r.subject)) (r.title) })),
        ("Step", &|r| text(crate::overview::label(r.reference_at))),
        ("#User", &|r| part(r, "server_cpu_user_us_per_request")),
        ("#System", &|r| part(r, "server_cpu_sys_us_per_request")),
    ];
    table_of("sortable", &columns, &report.overview, |r| PartScope::row(report, r))
}

fn cpus(report: &Report) -> Markup {
    let none = Repeated::default();
    let over = |s: &Summary| s.metric("server_cpus").map_or(none.clone(), |m| m.over.clone());
    step_table(
        report,
        &[
            ("#CPUs used", &|s| value(over(s).median, number)),
            ("#Each repeat", &|s| repeats_of(&over(s), number)),
        ],
    )
}

fn memory(report: &Report) -> Markup {
    step_table(
        report,
        &[
            ("#Memory", &|s| {
                with_backends(value(s.memory_bytes.median, bytes), s, |b| {
                    b.memory_bytes.median.map(bytes)
                })
            }),
            ("#Each repeat", &|s| repeats_of(&s.memory_bytes, bytes)),
            ("#Page cache", &|s| value(s.memory_file_bytes.median, bytes)),
            ("#Kernel memory", &|s| value(s.memory_kernel_bytes.median, bytes)),
        ],
    )
}

fn memory_time(report: &Report) -> Markup {
    let show = |m: f64| quantity(Unit::MegabyteSeconds, m);
    step_table(
        report,
        &[
            ("#Memory × time per request", &|s| value(s.memory_mb_s_per_request.median, show)),
            ("#Each repeat", &|s| repeats_of(&s.memory_mb_s_per_request, show)),
        ],
    )
}

/// Resources that each start used over its whole life; a sentence where they are unknown.
fn lifetimes(report: &Report) -> Markup {
    let lived: Vec<&SubjectResult> =
        report.subjects.iter().filter(|s| !s.lifetimes.starts.is_empty()).collect();
    if lived.is_empty() {
        return note(
            "The cost of requests over a server's whole life, with start-up and warm-up, is \
             unknown here. Only control groups count the CPU time of processes and threads that \
             have ended. In the JSON, lifetimes are empty.",
        );
    }
    let named: [Column<'_, &SubjectResult>; 4] = [
        ("Subject", &|s| cell(html! { (swatch(report, &s.id)) (s.title) })),
        ("#Starts", &|s| count_cell(s.lifetimes.starts.len() as u64)),
        ("#CPU per request, whole life", &|s| value(s.lifetimes.cpu_us_per_request.median, micros)),
        ("#Each repeat", &|s| repeats_of(&s.lifetimes.cpu_us_per_request, micros)),
    ];
    let price: [Column<'_, &SubjectResult>; 1] = [("#CPU cost of a billion such requests", &|s| {
        value(s.lifetimes.cost_per_billion_requests, number)
    })];
    let columns = [&named[..], if report.run.cost.is_some() { &price } else { &[] }].concat();
    let shown = table_of("sortable", &columns, &lived, |s| PartScope::subject(report, &s.id));
    figure("lifetimes", "Requests over CPU time", LIFETIMES, &shown)
}

const LIFETIMES: &str = "Correct responses over CPU time, both counted from exec. One line per \
                         start, with a dot when it was ready, when it was warm, and after each \
                         trial. Steeper is cheaper. The line includes start-up, warm-up and \
                         compilation, which CPU time per request of a step leaves out. A start \
                         without a control group has no line, and no lifetime in the JSON: only \
                         control groups count the CPU time of ended processes.";

/// Resources that back ends used in each trial. Empty if there are none.
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
            ("#Share of a request's CPU", &|(_, b)| value(b.cpu_share, percent)),
            ("#Share of allowed CPU", &|(_, b)| value(b.server.cpu_utilisation, percent)),
            ("#Context switches per request", &|(_, b)| {
                value(b.server.per_request.context_switches, number)
            }),
            ("#Memory", &|(_, b)| value(b.server.memory_held_bytes.map(|n| n as f64), bytes)),
        ],
    );
    html! {
        h3 { "Back ends" } "\n"
        (note("Services that the subject needs, started and monitored with it. Per request: \
               divided by the subject's responses. The share is of the CPU time of subject and \
               back ends together."))
        (shown)
    }
}

/// The price of a billion requests, at prices that the reader may change. Empty if the cost of a
/// request is unknown.
fn price(report: &Report) -> Markup {
    if report.overview.iter().all(|row| row.paid.is_none()) {
        return Markup::default();
    }
    let cost = report.run.cost;
    let columns: [Column<'_, OverviewRow>; 7] = [
        ("Subject", &|r| text(&r.title)),
        ("#CPU per request", &|r| value(r.cpu_us_per_request, micros)),
        ("#CPU hours", &|r| value(r.paid.map(|paid| paid.cpu_hours), number)),
        ("#GiB hours", &|r| value(r.paid.map(|paid| paid.gib_hours), number)),
        ("#Cost", &|r| price_of(r.paid, r.cost_per_billion_requests)),
        ("#Between", &|r| cell(cost_range_cell(r))),
        ("#Of that, memory", &|r| {
            price_of(r.paid.map(of_memory), r.cost.map(|cost| cost.of_memory))
        }),
    ];
    html! {
        h3 { "Cost of a billion requests" } "\n"
        (prices(cost))
        (table_of("sortable", &columns, &report.overview, |r| PartScope::row(report, r)))
        div id="at-prices" { (note(&cost.map_or_else(|| NO_PRICE.into(), at_prices))) }
    }
}

const NO_PRICE: &str = "Hours of a CPU and of a GiB of memory that a billion requests take, with \
                        all CPUs of the server in use. The suite has no prices ([cost]): set them \
                        above.";

/// A cost, with the hours of which the viewer makes another when prices change.
fn price_cell(paid: Option<PaidUse>, cost: Option<f64>) -> Markup {
    let shown = or_dash(cost, number);
    match paid {
        None => html! { (shown) },
        Some(PaidUse { cpu_hours, gib_hours }) => {
            html! { span data-cpu-hours=(cpu_hours) data-gib-hours=(gib_hours) { (shown) } }
        }
    }
}

fn price_of(paid: Option<PaidUse>, cost: Option<f64>) -> TableCell {
    cell(price_cell(paid, cost)).sorted_by(cost)
}

/// The part of it that is for memory.
fn of_memory(paid: PaidUse) -> PaidUse {
    PaidUse { cpu_hours: 0.0, ..paid }
}

fn cost_range_cell(row: &OverviewRow) -> Markup {
    let (low, high) = row.paid_between.unzip();
    if low.is_none() {
        return html! { "–" };
    }
    let ends = row.cost.and_then(|cost| cost.between).unzip();
    html! { (price_cell(low, ends.0)) "–" (price_cell(high, ends.1)) }
}

/// The form in which the reader sets prices; the viewer shows it.
fn prices(cost: Option<Cost>) -> Markup {
    let input = |name: &str, label: &str, value: Option<f64>, most: Option<u32>| {
        html! {
            label {
                (label) " "
                input type="number" name=(name) min="0" max=[most] step="any" value=[value];
            }
            " "
        }
    };
    html! {
        form id="prices" hidden {
            (input("cpu", "Price of a vCPU, an hour", cost.map(|cost| cost.per_vcpu_hour), None))
            (input("gib", "of a GiB, an hour", cost.and_then(|cost| cost.per_gib_hour), None))
            (input(
                "utilisation",
                "used share of the CPUs",
                cost.and_then(|cost| cost.utilisation),
                Some(1),
            ))
        }
        "\n"
    }
}

/// The prices, and what they are of.
fn at_prices(cost: Cost) -> String {
    let utilisation =
        cost.utilisation.map_or_else(|| "fully".into(), |share| format!("for {}", percent(share)));
    let memory = cost.per_gib_hour.map_or_else(
        || "memory free of charge".into(),
        |price| format!("{price} per GiB and hour of its memory"),
    );
    let lives = cost.lifetime_hours.map_or_else(
        || "never restarted".into(),
        |hours| {
            format!(
                "restarted every {} hours, with no requests served during start-up",
                number(hours)
            )
        },
    );
    format!(
        "Prices: {} per vCPU and hour, every CPU of the server used {utilisation}, {memory}, \
         {lives}. Between: the cost at both ends of the interval, or range, of the CPU time per \
         request.",
        cost.per_vcpu_hour
    )
}
