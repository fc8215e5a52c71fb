//! Arranges the results of probes inside a server for its card: system calls by name, and threads
//! by role.

use dyno_analysis::machine::{MachineResult, OtherCpu};
use dyno_analysis::metric::Unit;
use dyno_analysis::probe_results::{
    CallPair, CallSummary, InsideSummary, RoleSummary, RuntimeSummary,
};
use dyno_analysis::use_row::{UseCell, UseRow};
use maud::html;

use crate::format::{css_percent, micros, number, or_dash, percent, quantity};
use crate::present::block::Block;
use crate::present::table::{Column, ReportTable, TableCell, cell, text, value};

/// Number of system calls outside of the folded block.
const UNFOLDED_CALLS: usize = 8;

/// Returns the tables of a server. `reference`: the server to compare with, and its title.
pub(super) fn inside(here: &InsideSummary, reference: Option<(&str, &InsideSummary)>) -> Block {
    Block::Group(vec![calls_tables(here, reference), roles_table(here), runtime_table(here)])
}

/// Returns the USE table of a step: utilisation, saturation and errors of every resource.
pub(super) fn use_table(rows: &[UseRow]) -> Block {
    let use_cell = |figure: &UseCell| {
        let known = or_dash(figure.value, |v| quantity(figure.unit, v));
        text(known).with_small(figure.note)
    };
    let columns: [Column<'_, UseRow>; 4] = [
        ("Resource", &|r| text(&r.resource)),
        ("Utilisation", &|r| use_cell(&r.utilisation)),
        ("Saturation", &|r| use_cell(&r.saturation)),
        ("Errors", &|r| use_cell(&r.errors)),
    ];
    let table = ReportTable::plain("counters", &columns, rows);
    let summary = "Utilisation, saturation and errors of every resource".into();
    Block::Folded(summary, vec![Block::Table(table)])
}

/// Returns the table of the activity of the machine in the same repeat, except serving and loading.
pub(super) fn machine(result: &MachineResult) -> Block {
    let share = |value: Option<f64>, unit: &str| value.map(|v| format!("{} {unit}", percent(v)));
    let rate = |value: Option<f64>| value.map(|v| quantity(Unit::PerSecond, v));
    let bytes_per_s = |value: Option<f64>| value.map(|v| format!("{}/s", quantity(Unit::Bytes, v)));
    let process_text = |process: &OtherCpu| {
        format!("{} ({}) {}", process.name, process.pid, percent(process.cpus))
    };
    let other_processes = result.others.as_ref().map(|all| match all.is_empty() {
        true => "none above 2 % of a CPU".into(),
        false => all.iter().map(process_text).collect::<Vec<String>>().join(", "),
    });
    let link = result.busiest_link.as_ref();
    let link = link.map(|link| format!("{} of {}", percent(link.utilisation), link.name));
    let dropped = result.drops.map(|drops| match drops.explanation() {
        Some(explained) => explained.causes,
        // The number of table entries is known, but the counters of dropped packets are unknown.
        None if drops.tracking.is_none() && drops.tracking_entries.is_some() => {
            "none counted (only root can read the counters of connection tracking)".into()
        }
        None => "none".into(),
    });
    let waiting_unit = "of the time, at least one thread waited";
    let facts = [
        ("running or runnable threads", result.runnable_mean.map(number)),
        ("context switches", rate(result.context_switches_per_s)),
        ("interrupts", rate(result.interrupts_per_s)),
        ("pressure on CPUs", share(result.pressure_cpu, waiting_unit)),
        ("pressure on memory", share(result.pressure_memory, waiting_unit)),
        ("pressure on disks", share(result.pressure_io, waiting_unit)),
        ("read from disks", bytes_per_s(result.disk_read_bytes_per_s)),
        ("written to disks", bytes_per_s(result.disk_written_bytes_per_s)),
        ("busiest disk", share(result.disk_utilisation, "of the time")),
        ("received by network devices except loopback", bytes_per_s(result.network_in_bytes_per_s)),
        ("sent by network devices except loopback", bytes_per_s(result.network_out_bytes_per_s)),
        ("fullest link", link),
        ("clock of the first CPU", result.frequency_mhz.map(|mhz| format!("{} MHz", number(mhz)))),
        ("hottest CPU throttled", share(result.throttled_for_heat, "of the time")),
        ("packets dropped by the machine", dropped),
        ("other processes, in CPUs", other_processes),
    ];
    if facts.iter().all(|(_, value)| value.is_none()) {
        return Block::empty();
    }
    let columns: [Column<'_, (&str, Option<String>)>; 2] = [
        ("The machine", &|(name, _)| text(*name)),
        ("During the step", &|(_, value)| text(value.as_deref().unwrap_or("– (unavailable here)"))),
    ];
    Block::folded_rows("Activity of the machine", ReportTable::plain("counters", &columns, &facts))
}

/// Returns the tables of system calls: the most frequent calls, and the others folded. A `#` at the
/// start of a column title marks a column of numbers.
fn calls_tables(here: &InsideSummary, reference: Option<(&str, &InsideSummary)>) -> Block {
    let pairs = here.pair_calls(reference.map(|(_, inside)| inside));
    let reference_head = reference.map(|(title, _)| format!("#{title}"));
    let reference_column: Option<Column<'_, CallPair<'_>>> = reference_head
        .as_deref()
        .map(|head| -> Column<'_, CallPair<'_>> { (head, &|call| frequency_cell(call.there)) });
    let own_columns: [Column<'_, CallPair<'_>>; 2] = [
        ("System calls", &|call| text(call.name)),
        ("#This subject", &|call| frequency_cell(call.here)),
    ];
    let last_column: Column<'_, CallPair<'_>> =
        ("#Mean return value", &|call| return_cell(call.here));
    let columns: Vec<Column<'_, CallPair<'_>>> =
        own_columns.into_iter().chain(reference_column).chain([last_column]).collect();
    let (unfolded, others) = pairs.split_at(pairs.len().min(UNFOLDED_CALLS));
    let table = |pairs| ReportTable::plain("counters", &columns, pairs);
    let others = Block::folded_rows("Other system calls", table(others));
    Block::Group(vec![Block::rows(table(unfolded)), others])
}

/// Returns the cell of the number of calls per response.
fn frequency_cell(call: Option<&CallSummary>) -> TableCell {
    value(call.and_then(|call| call.per_response.median), number)
}

/// Returns the cell of the average return value of a call.
fn return_cell(call: Option<&CallSummary>) -> TableCell {
    value(call.and_then(|call| call.returned_mean.median), number)
}

/// Returns the table of threads by role.
fn roles_table(here: &InsideSummary) -> Block {
    let columns: [Column<'_, (&'static str, &RoleSummary)>; 4] = [
        ("Threads", &|(name, _)| text(name.replace('_', " "))),
        ("#Alive", &|(_, role)| value(role.threads.median, number)),
        ("#CPU", &|(_, role)| value(role.cpu_us_per_request.median, micros)),
        ("Thread states", &|(_, role)| states_cell(role)),
    ];
    Block::rows(ReportTable::plain("counters", &columns, &here.roles()))
}

/// Returns the table of metrics that the runtime of the server reports.
fn runtime_table(here: &InsideSummary) -> Block {
    let columns: [Column<'_, RuntimeSummary>; 3] = [
        ("Runtime metric", &|metric| text(metric.name.replace('_', " "))),
        ("#Value", &|metric| value(metric.value.median, |v| quantity(metric.unit, v))),
        ("Meaning", &|metric| text(runtime_meaning(metric.unit))),
    ];
    Block::rows(ReportTable::plain("counters", &columns, &here.runtime))
}

/// Explains the value of a runtime metric.
const fn runtime_meaning(unit: Unit) -> &'static str {
    match unit {
        Unit::Share => "share of the time",
        Unit::PerSecond => "mean rate",
        _ => "maximum",
    }
}

/// Returns the cell of the states of threads: a bar, with the shares in words.
fn states_cell(role: &RoleSummary) -> TableCell {
    let shares = role.shares();
    let words: Vec<String> = shares
        .iter()
        .map(|(state, share)| format!("{} {}", state_name(state), percent(*share)))
        .collect();
    if words.is_empty() {
        return text("–");
    }
    let words = words.join(", ");
    let page = html! {
        span.states aria-hidden="true" {
            @for (state, share) in &shares {
                i class=(state) style=(format!("--w:{}", css_percent(*share))) {}
            }
        }
        small { (words) }
    };
    cell(words, page)
}

/// Returns the name of a thread state for people.
fn state_name(state: &str) -> &str {
    match state {
        "runnable" => "waiting for a CPU",
        "lock" => "lock or idle",
        "other" => "other waits",
        other => other,
    }
}
