//! Formats the readings of `dyno watch` as lines, OpenMetrics text, a summary and an HTML page.

use std::fmt::Write as _;

use dyno_analysis::server::RoleUse;
use dyno_analysis::server::watch::{Syscalls, WatchRecord};

use crate::format::{bytes, count, number, or_dash, percent, seconds};
use crate::html::document::sections_page;
use crate::present::block::{Block, ReportSection};
use crate::present::exposition::Exposition;
use crate::present::style::Style;
use crate::present::table::{Column, ReportTable, text};

/// Maximum number of system calls in a line.
const CALLS_IN_LINE: usize = 3;

/// Rates of system calls are those of the whole time if calls were counted in at least this share.
const COMPLETE_SHARE: f64 = 0.95;

/// Formats a reading as a line for people.
#[must_use]
pub fn line(record: &WatchRecord) -> String {
    let cpu = or_dash(record.cpus, number);
    let split = match (record.cpus_user, record.cpus_sys) {
        (Some(user), Some(sys)) => format!(" (user {}, system {})", number(user), number(sys)),
        _ => String::new(),
    };
    let mut parts = vec![format!("{cpu} CPUs{split}")];
    parts.extend(
        record
            .throttled_share
            .filter(|s| *s > 0.0)
            .map(|s| format!("throttled in {} of the CPU quota's periods", percent(s))),
    );
    parts.push(or_dash(record.memory_held_bytes, |n| bytes(n as f64)));
    parts.push(format!("{} threads", count(record.threads as u64)));
    parts.extend(record.context_switches_per_s.map(|n| format!("{}/s switches", number(n))));
    parts.extend(record.syscalls.as_ref().map(|syscalls| {
        let calls = calls_text(record, CALLS_IN_LINE);
        format!("calls/s: {calls}{}", error_text(syscalls))
    }));
    format!("{:>7}  {}", seconds(record.end_s), parts.join("   "))
}

/// Returns the sign before the rate of all calls if it is a lower bound (counting slows the server)
/// or a rough estimate.
fn total_sign(syscalls: &Syscalls) -> &'static str {
    match (syscalls.is_lower_bound, syscalls.is_rough()) {
        (true, _) => "≥ ",
        (false, true) => "~ ",
        (false, false) => "",
    }
}

/// Returns the sign before the rates of single calls and of bytes. If calls are counted only in
/// some time slices, the rate of a rare call is too high when a slice happens to contain the call.
/// Rates are therefore lower bounds only if all calls were counted (standard error 0).
fn single_sign(syscalls: &Syscalls) -> &'static str {
    match (syscalls.per_s_standard_error == Some(0.0), syscalls.is_lower_bound) {
        (true, true) => "≥ ",
        (true, false) => "",
        (false, _) => "~ ",
    }
}

/// Describes the error of rough estimates. The text is empty for other rates.
fn error_text(syscalls: &Syscalls) -> String {
    if !syscalls.is_rough() {
        return String::new();
    }
    match syscalls.error_share() {
        Some(share) => format!(" (standard error {})", percent(share)),
        None => " (error unknown: too few slices)".into(),
    }
}

/// Describes the time in which calls were counted, if it is shorter than the watched time. In this
/// case, the rates are those of a part of the time.
fn counted_text(record: &WatchRecord, syscalls: &Syscalls) -> String {
    let watched_s = record.end_s - record.start_s;
    if syscalls.counted_s >= COMPLETE_SHARE * watched_s {
        return String::new();
    }
    format!(" (counted in {} of {})", seconds(syscalls.counted_s), seconds(watched_s))
}

/// Formats the most frequent system calls, at most `max` of them.
fn calls_text(record: &WatchRecord, max: usize) -> String {
    let sign = record.syscalls.as_ref().map_or("", single_sign);
    let named: Vec<String> = calls_by_rate(record)
        .into_iter()
        .take(max)
        .map(|(name, rate)| format!("{name} {sign}{}", number(rate)))
        .collect();
    if named.is_empty() { "none".into() } else { named.join(", ") }
}

/// Returns the system calls with their rates, the most frequent call first.
fn calls_by_rate(record: &WatchRecord) -> Vec<(&str, f64)> {
    let calls = record.syscalls.iter().flat_map(|calls| &calls.by_name_per_s);
    let mut calls: Vec<(&str, f64)> = calls.map(|(name, rate)| (name.as_str(), *rate)).collect();
    calls.sort_by(|(_, rate_a), (_, rate_b)| rate_b.total_cmp(rate_a));
    calls
}

/// Formats the totals over the whole time for a terminal.
#[must_use]
pub fn summary(title: &str, record: &WatchRecord, style: Style) -> String {
    let mut out = format!("\n  {}\n\n", style.bold(&crate::terminal::escape_line(title)));
    for (name, value) in facts(record) {
        let _ = writeln!(out, "  {name:<18} {value}");
    }
    for (role, used) in &record.by_thread_role {
        let states = states_text(used.states_s.as_ref());
        let _ = writeln!(
            out,
            "  {:<18} {} alive, {} of CPU time{states}",
            role.replace('_', " "),
            used.threads,
            seconds(used.cpu_s)
        );
    }
    out
}

/// Returns the known values with their labels.
fn facts(record: &WatchRecord) -> Vec<(&'static str, String)> {
    let mut facts = vec![
        ("watched", seconds(record.end_s)),
        ("CPUs", or_dash(record.cpus, number)),
        (
            "user, system",
            format!("{}, {}", or_dash(record.cpus_user, number), or_dash(record.cpus_sys, number)),
        ),
        ("busiest thread", or_dash(record.busiest_thread_utilisation, percent)),
        (
            "wait for a CPU",
            or_dash(record.run_delay_s_per_s, |s| format!("{} per second", seconds(s))),
        ),
        (
            "throttled",
            or_dash(record.throttled_share, |s| {
                format!("in {} of the CPU quota's periods", percent(s))
            }),
        ),
        ("memory", or_dash(record.memory_held_bytes, |n| bytes(n as f64))),
        ("page cache", or_dash(record.memory_file_bytes, |n| bytes(n as f64))),
        ("switches/s", or_dash(record.context_switches_per_s, number)),
        ("page faults/s", or_dash(record.page_faults_per_s, number)),
        ("wake-ups/s", or_dash(record.wakeups_per_s, number)),
        ("CPU steal", or_dash(record.steal_share, percent)),
    ];
    if let Some(syscalls) = &record.syscalls {
        let counted = counted_text(record, syscalls);
        facts.push((
            "system calls/s",
            format!(
                "{}{}{}{counted}: {}",
                total_sign(syscalls),
                number(syscalls.per_s),
                error_text(syscalls),
                calls_text(record, 8)
            ),
        ));
        let sign = single_sign(syscalls);
        let transfers = format!(
            "{} read, {} written{counted}",
            or_dash(syscalls.bytes_read_per_s, |n| format!("{sign}{}", bytes(n))),
            or_dash(syscalls.bytes_written_per_s, |n| format!("{sign}{}", bytes(n)))
        );
        facts.push(("bytes/s", transfers));
    }
    facts.extend(network_facts(record));
    facts
}

/// Returns the connections of the server and the network counters of the machine, with their
/// labels.
fn network_facts(record: &WatchRecord) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(sockets) = &record.sockets {
        let queues: Vec<String> = sockets
            .listeners
            .iter()
            .map(|l| format!("port {}: {} of {} queued", l.port, l.queued, l.backlog))
            .collect();
        facts.push((
            "connections",
            format!("{} ({})", count(sockets.connections), queues.join(", ")),
        ));
        facts.push((
            "TCP_NODELAY",
            or_dash(sockets.nodelay, |share| format!("on {} of the connections", percent(share))),
        ));
    }
    if let Some(network) = &record.network {
        facts.push(("queue overflows", or_dash(network.listen_overflows, count)));
        facts.push((
            "retransmitted",
            or_dash(network.segments_retransmitted, |n| format!("{} segments", count(n))),
        ));
    }
    facts
}

/// Formats the times of threads by state. Empty if they are unknown.
fn states_text(states_s: Option<&std::collections::BTreeMap<&'static str, f64>>) -> String {
    let text = |(state, s): (&&str, &f64)| (*s > 0.0).then(|| format!("{state} {}", seconds(*s)));
    let texts: Vec<String> = states_s.into_iter().flatten().filter_map(text).collect();
    if texts.is_empty() { String::new() } else { format!(": {}", texts.join(", ")) }
}

/// Formats the last reading as OpenMetrics text (version 1.0.0). Unknown values are omitted.
#[must_use]
pub fn openmetrics(record: &WatchRecord) -> String {
    let mut out = Exposition::default();
    let connections = record.sockets.as_ref().map(|s| s.connections as f64);
    let memory = record.memory_held_bytes.map(|n| n as f64);
    for (name, help, value) in [
        ("cpus", "CPUs used in the last interval.", record.cpus),
        (
            "busiest_thread_utilisation",
            "Share of one CPU that the busiest thread used.",
            record.busiest_thread_utilisation,
        ),
        (
            "run_delay_ratio",
            "Seconds per second that threads waited for a CPU.",
            record.run_delay_s_per_s,
        ),
        (
            "throttled_ratio",
            "Share of the CPU quota's periods in which the server was throttled.",
            record.throttled_share,
        ),
        ("memory_held_bytes", "Anonymous and shared memory.", memory),
        ("processes", "Processes.", Some(f64::from(record.processes))),
        ("threads", "Threads.", Some(record.threads as f64)),
        (
            "context_switches_per_second",
            "Context switches per second.",
            record.context_switches_per_s,
        ),
        ("page_faults_per_second", "Page faults per second.", record.page_faults_per_s),
        ("connections", "Established TCP connections to the server's listeners.", connections),
        (
            "steal_ratio",
            "Share of the machine's CPU time that the hypervisor took.",
            record.steal_share,
        ),
    ] {
        write_gauge(&mut out, name, help, value);
    }
    write_labelled(&mut out, record);
    out.into_text() + "# EOF\n"
}

/// Appends a gauge with one sample. An unknown value is omitted.
fn write_gauge(out: &mut Exposition, name: &str, help: &str, value: Option<f64>) {
    if value.is_some() {
        out.gauge(&format!("dyno_watch_{name}"), help, &[], value);
    }
}

/// Appends the metrics on system calls, and the CPU time by thread role.
fn write_labelled(out: &mut Exposition, record: &WatchRecord) {
    if let Some(syscalls) = &record.syscalls {
        let name = "dyno_watch_syscalls_per_second";
        let help = "System calls by name, estimated from the time in which calls were counted.";
        out.metric(name, ("gauge", ""), help);
        for (call, rate) in &syscalls.by_name_per_s {
            out.sample(name, &[("name", call)], rate);
        }
        for (name, help, value) in [
            (
                "syscalls_counted_seconds",
                "Seconds of the last interval in which system calls were counted or estimated.",
                Some(syscalls.counted_s),
            ),
            (
                "syscalls_lower_bound",
                "1: the rate of all system calls is a lower bound, because counting slows the \
                 server.",
                Some(f64::from(u8::from(syscalls.is_lower_bound))),
            ),
            (
                "syscalls_standard_error",
                "Standard error of the rate of all system calls. The rate is an estimate, because \
                 calls are counted only in some time slices.",
                syscalls.per_s_standard_error,
            ),
        ] {
            write_gauge(out, name, help, value);
        }
    }
    let name = "dyno_watch_role_cpu_seconds";
    out.metric(name, ("gauge", ""), "CPU time of threads by role in the last interval.");
    for (role, used) in &record.by_thread_role {
        out.sample(name, &[("role", role)], used.cpu_s);
    }
}

/// Renders a page with the totals and every reading.
#[must_use]
pub fn page(title: &str, record: &WatchRecord, readings: &[WatchRecord]) -> String {
    let section = |id, title: &str, content| ReportSection { id, title: title.into(), content };
    let sections = [
        section("totals", "Totals", Block::Table(facts_table(&facts(record)))),
        section("roles", "Threads by role", Block::Table(roles_table(record))),
        section("calls", "System calls", calls(record)),
        section("readings", "All readings", Block::Table(readings_table(readings))),
    ];
    sections_page("dyno watch", title, &[], &sections)
}

/// Returns the table of labels and values.
fn facts_table(facts: &[(&'static str, String)]) -> ReportTable {
    let columns: [Column<'_, (&str, String)>; 2] =
        [("Quantity", &|(name, _)| text(*name)), ("Value", &|(_, value)| text(value))];
    ReportTable::plain("", &columns, facts)
}

/// Returns the table of threads by role.
fn roles_table(record: &WatchRecord) -> ReportTable {
    type Role<'a> = (&'a str, &'a RoleUse);
    let columns: [Column<'_, Role<'_>>; 5] = [
        ("Role", &|(role, _)| text(role.replace('_', " "))),
        ("#Alive", &|(_, used)| text(used.threads.to_string())),
        ("#CPU time", &|(_, used)| text(seconds(used.cpu_s))),
        ("#Wake-ups", &|(_, used)| text(or_dash(used.wakeups, count))),
        ("Thread states", &|(_, used)| {
            text(states_text(used.states_s.as_ref()).trim_start_matches(": "))
        }),
    ];
    let rows: Vec<Role<'_>> =
        record.by_thread_role.iter().map(|(role, used)| (&**role, used)).collect();
    ReportTable::plain("", &columns, &rows)
}

/// Returns the total and the table of system calls.
fn calls(record: &WatchRecord) -> Block {
    let Some(syscalls) = &record.syscalls else {
        return Block::paragraph("System calls: not known.");
    };
    let total = format!(
        "Total: {}{} per second{}{}.",
        total_sign(syscalls),
        number(syscalls.per_s),
        error_text(syscalls),
        counted_text(record, syscalls)
    );
    let sign = single_sign(syscalls);
    let columns: [Column<'_, (&str, f64)>; 2] = [
        ("Name", &|(name, _)| text(*name)),
        ("#Per second", &|(_, rate)| text(format!("{sign}{}", number(*rate)))),
    ];
    let table = ReportTable::plain("", &columns, &calls_by_rate(record));
    Block::Group(vec![Block::paragraph(&total), Block::Table(table)])
}

/// Returns the table of all readings.
fn readings_table(readings: &[WatchRecord]) -> ReportTable {
    let columns: [Column<'_, WatchRecord>; 9] = [
        ("#Until", &|r| text(seconds(r.end_s))),
        ("#CPUs", &|r| text(or_dash(r.cpus, number))),
        ("#User", &|r| text(or_dash(r.cpus_user, number))),
        ("#System", &|r| text(or_dash(r.cpus_sys, number))),
        ("#Memory", &|r| text(or_dash(r.memory_held_bytes, |n| bytes(n as f64)))),
        ("#Threads", &|r| text(r.threads.to_string())),
        ("#Switches/s", &|r| text(or_dash(r.context_switches_per_s, number))),
        ("#System calls/s", &|r| {
            let total = |calls| format!("{}{}", total_sign(calls), number(calls.per_s));
            text(or_dash(r.syscalls.as_ref(), total))
        }),
        ("#Connections", &|r| text(or_dash(r.sockets.as_ref(), |s| count(s.connections)))),
    ];
    ReportTable::plain("", &columns, readings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch_record() -> WatchRecord {
        let rates = [("read", 90.0), ("futex_wait", 5.0), ("writev", 100.0), ("close", 1.0)];
        WatchRecord {
            end_s: 2.0,
            cpus: Some(0.5),
            memory_held_bytes: Some(3_000_000),
            threads: 4,
            syscalls: Some(Syscalls {
                counted_s: 2.0,
                per_s: 196.0,
                per_s_standard_error: Some(0.0),
                by_name_per_s: rates.map(|(name, rate)| (name.to_string(), rate)).into(),
                ..Syscalls::default()
            }),
            ..WatchRecord::default()
        }
    }

    #[test]
    fn line_omits_unknown_values() {
        let line = line(&watch_record());
        assert_eq!(
            line,
            " 2.00 s  0.500 CPUs   3.00 MB   4 threads   calls/s: writev 100, read 90.0, \
             futex_wait 5.00"
        );
        let empty = super::line(&WatchRecord::default());
        assert_eq!(empty, "   0 ns  – CPUs   –   0 threads");
    }

    #[test]
    fn rough_rates_are_marked_with_their_error() {
        let line_with = |error: Option<f64>, is_lower_bound| {
            let mut record = watch_record();
            let syscalls = record.syscalls.as_mut().unwrap();
            (syscalls.per_s_standard_error, syscalls.is_lower_bound) = (error, is_lower_bound);
            line(&record)
        };
        let rough = line_with(Some(98.0), false);
        assert!(rough.contains("calls/s: writev ~ 100, "), "{rough}");
        assert!(rough.ends_with("futex_wait ~ 5.00 (standard error 50.0 %)"), "{rough}");
        assert!(line_with(None, false).ends_with("(error unknown: too few slices)"));
        assert!(line_with(Some(0.0), true).contains("calls/s: writev ≥ 100, read ≥ 90.0"));
    }

    /// Calls between slices are estimated, so a rare call in a slice has a rate that is too high.
    #[test]
    fn single_calls_of_slices_are_no_lower_bounds() {
        let mut record = watch_record();
        let syscalls = record.syscalls.as_mut().unwrap();
        (syscalls.per_s_standard_error, syscalls.is_lower_bound) = (Some(1.0), true);
        syscalls.bytes_read_per_s = Some(7e6);
        let summary = summary("x", &record, Style::Plain);
        assert!(summary.contains("≥ 196: writev ~ 100, read ~ 90.0"), "{summary}");
        assert!(summary.contains("~ 7.00 MB read, – written"), "{summary}");
        let page = page("x", &record, &[]);
        assert!(page.contains("Total: ≥ 196") && page.contains("~ 90.0"), "{page}");
    }

    #[test]
    fn rates_of_a_part_of_the_time_name_it() {
        let with_times = |end_s, counted_s| {
            let mut record = WatchRecord { end_s, ..watch_record() };
            record.syscalls.as_mut().unwrap().counted_s = counted_s;
            (summary("x", &record, Style::Plain), page("x", &record, &[]))
        };
        let (summary, page) = with_times(3600.0, 5.0);
        for text in [
            "196 (counted in 5.00 s of 3,600 s): writev 100",
            "– read, – written (counted in 5.00 s of 3,600 s)",
        ] {
            assert!(summary.contains(text) && page.contains(text), "{summary} {page}");
        }
        let total = "Total: 196 per second (counted in 5.00 s of 3,600 s).";
        assert!(page.contains(total), "{page}");
        let (summary, page) = with_times(100.0, 95.0);
        assert!(!summary.contains("counted in") && !page.contains("counted in"), "{summary}");
    }

    #[test]
    fn openmetrics_omits_unknown_values_and_ends_with_eof() {
        let text = openmetrics(&watch_record());
        assert!(
            text.contains("\ndyno_watch_cpus 0.5\n") && !text.contains("dyno_watch_steal_ratio"),
            "{text}"
        );
        assert!(text.contains("dyno_watch_syscalls_per_second{name=\"writev\"} 100\n"), "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn openmetrics_has_quality_of_call_rates() {
        let mut record = watch_record();
        let text = openmetrics(&record);
        assert!(text.contains("\ndyno_watch_syscalls_counted_seconds 2\n"), "{text}");
        assert!(text.contains("\ndyno_watch_syscalls_lower_bound 0\n"), "{text}");
        assert!(text.contains("System calls by name, estimated from"), "{text}");
        record.syscalls.as_mut().unwrap().is_lower_bound = true;
        assert!(openmetrics(&record).contains("\ndyno_watch_syscalls_lower_bound 1\n"));
    }

    #[test]
    fn hostile_title_is_escaped() {
        assert!(page("<script>", &watch_record(), &[watch_record()]).contains("&lt;script&gt;"));
        assert!(summary("a\u{1b}[31m", &watch_record(), Style::Plain).contains("writev 100"));
        assert!(!summary("a\u{1b}[31m", &watch_record(), Style::Plain).contains('\u{1b}'));
    }
}
