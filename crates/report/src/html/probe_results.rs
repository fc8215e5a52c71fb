//! Probe results from inside a server, for its card: system calls by name, and its threads by role.

use dyno_analysis::machine::{MachineResult, OtherCpu};
use dyno_analysis::metric::Unit;
use dyno_analysis::probe_results::{CallSummary, InsideSummary, RoleSummary, RuntimeSummary};
use dyno_analysis::use_method::{UseCell, UseRow};
use maud::{Markup, html};

use super::more;
use super::table::{TableCell, TableRow, cell, table, text, value};
use crate::format::{css_percent, micros, number, percent, quantity};

/// System calls that are shown before one asks for all.
const SHOWN: usize = 8;

/// `reference`: the one to compare with, and its title.
pub(super) fn inside(here: &InsideSummary, reference: Option<(&str, &InsideSummary)>) -> Markup {
    html! { (calls(here, reference)) (roles(here)) (runtime(here)) }
}

/// The USE table of a step: utilisation, saturation and errors of every resource.
pub(super) fn use_table(rows: &[UseRow]) -> Markup {
    let shown = |of: &UseCell| {
        let known = of.value.map(|v| quantity(of.unit, v));
        match known {
            Some(known) => cell(html! { (known) small { " " (of.note) } }),
            None => cell(html! { "–" small { " " (of.note) } }),
        }
    };
    let rows: Vec<TableRow> = rows
        .iter()
        .map(|r| {
            vec![text(&r.resource), shown(&r.utilisation), shown(&r.saturation), shown(&r.errors)]
                .into()
        })
        .collect();
    more(
        "Utilisation, saturation and errors of every resource",
        &table("counters", &["Resource", "Utilisation", "Saturation", "Errors"], &rows),
    )
}

/// Activity of the machine in the same repeat besides serving and loading.
pub(super) fn machine(of: &MachineResult) -> Markup {
    let share = |value: Option<f64>, of: &str| value.map(|v| format!("{} {of}", percent(v)));
    let rate = |value: Option<f64>| value.map(|v| quantity(Unit::PerSecond, v));
    let bytes_per_s = |value: Option<f64>| value.map(|v| format!("{}/s", quantity(Unit::Bytes, v)));
    let other =
        |other: &OtherCpu| format!("{} ({}) {}", other.name, other.pid, percent(other.cpus));
    let others = of.others.as_ref().map(|all| match all.is_empty() {
        true => "none above 2 % of a CPU".into(),
        false => all.iter().map(other).collect::<Vec<String>>().join(", "),
    });
    let link = of.busiest_link.as_ref();
    let link = link.map(|link| format!("{} of {}", percent(link.utilisation), link.name));
    let dropped = of.drops.map(|drops| drops.explanation().map_or("none".into(), |all| all.causes));
    let waited = "of the time some thread waited";
    let facts = [
        ("running or runnable threads", of.runnable_mean.map(number)),
        ("context switches", rate(of.context_switches_per_s)),
        ("interrupts", rate(of.interrupts_per_s)),
        ("pressure on CPUs", share(of.pressure_cpu, waited)),
        ("pressure on memory", share(of.pressure_memory, waited)),
        ("pressure on disks", share(of.pressure_io, waited)),
        ("read from disks", bytes_per_s(of.disk_read_bytes_per_s)),
        ("written to disks", bytes_per_s(of.disk_written_bytes_per_s)),
        ("busiest disk", share(of.disk_utilisation, "of the time")),
        ("received by network devices except loopback", bytes_per_s(of.network_in_bytes_per_s)),
        ("sent by network devices except loopback", bytes_per_s(of.network_out_bytes_per_s)),
        ("fullest link", link),
        ("clock of the first CPU", of.frequency_mhz.map(|mhz| format!("{} MHz", number(mhz)))),
        ("hottest CPU throttled", share(of.throttled_for_heat, "of the time")),
        ("packets dropped by the machine", dropped),
        ("other processes, in CPUs", others),
    ];
    if facts.iter().all(|(_, value)| value.is_none()) {
        return Markup::default();
    }
    let row = |(name, value): &(&str, Option<String>)| -> TableRow {
        vec![text(name), text(value.as_deref().unwrap_or("– (unavailable here)"))].into()
    };
    let rows: Vec<TableRow> = facts.iter().map(row).collect();
    more("Activity of the machine", &table("counters", &["The machine", "During the step"], &rows))
}

fn calls(here: &InsideSummary, reference: Option<(&str, &InsideSummary)>) -> Markup {
    let all = here.pair_calls(reference.map(|(_, inside)| inside));
    let there = reference.map(|(title, _)| format!("#{title}"));
    let head: Vec<&str> = ["System calls", "#Here"]
        .into_iter()
        .chain(there.as_deref())
        .chain(["#Returned"])
        .collect();
    let row = |call: &dyno_analysis::probe_results::CallPair<'_>| -> TableRow {
        let mut cells = vec![text(call.name), often(call.here)];
        if reference.is_some() {
            cells.push(often(call.there));
        }
        cells.push(return_cell(call.here));
        cells.into()
    };
    let rows: Vec<TableRow> = all.iter().map(row).collect();
    let (first, rest) = rows.split_at(rows.len().min(SHOWN));
    html! {
        @if !first.is_empty() { (table("counters", &head, first)) }
        @if !rest.is_empty() { (more("Other system calls", &table("counters", &head, rest))) }
    }
}

fn often(call: Option<&CallSummary>) -> TableCell {
    value(call.and_then(|call| call.per_response.median), number)
}

/// The average return value of a call.
fn return_cell(call: Option<&CallSummary>) -> TableCell {
    value(call.and_then(|call| call.returned_mean.median), number)
}

fn roles(here: &InsideSummary) -> Markup {
    let row = |(name, role): &(&'static str, &RoleSummary)| -> TableRow {
        vec![
            text(name.replace('_', " ")),
            value(role.threads.median, number),
            value(role.cpu_us_per_request.median, micros),
            cell(states(role)),
        ]
        .into()
    };
    let rows: Vec<TableRow> = here.roles().iter().map(row).collect();
    html! {
        @if !rows.is_empty() {
            (table("counters", &["Threads", "#Alive", "#CPU", "Thread states"], &rows))
        }
    }
}

/// Metrics that the runtime reports of itself.
fn runtime(here: &InsideSummary) -> Markup {
    let row = |metric: &RuntimeSummary| -> TableRow {
        vec![
            text(metric.name.replace('_', " ")),
            value(metric.value.median, |v| quantity(metric.unit, v)),
            text(of_runtime(metric.unit)),
        ]
        .into()
    };
    let rows: Vec<TableRow> = here.runtime.iter().map(row).collect();
    html! {
        @if !rows.is_empty() { (table("counters", &["Runtime metric", "#Value", "Of"], &rows)) }
    }
}

/// The reference of a runtime's value.
const fn of_runtime(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "the time",
        Unit::PerSecond => "how often",
        _ => "the highest seen",
    }
}

/// A bar of the states in which threads were, and the same in words.
fn states(role: &RoleSummary) -> Markup {
    let shares = role.shares();
    let words: Vec<String> = shares
        .iter()
        .map(|(state, share)| format!("{} {}", in_words(state), percent(*share)))
        .collect();
    html! {
        @if shares.is_empty() { "–" } @else {
            span.states aria-hidden="true" {
                @for (state, share) in &shares {
                    i class=(state) style=(format!("--w:{}", css_percent(*share))) {}
                }
            }
            small { (words.join(", ")) }
        }
    }
}

/// A state's name for people.
fn in_words(state: &str) -> &str {
    match state {
        "runnable" => "waiting for a CPU",
        "lock" => "lock or idle",
        "other" => "other waits",
        other => other,
    }
}
