//! Builds the table of the USE method for one trial: the utilisation, saturation and errors of
//! every resource (Gregg 2013). The table shows which resources were checked. A cell without a
//! value states the reason.

use dyno_model::sample::ThreadState;
use dyno_model::syscall::UNNAMED;

use crate::metric::Unit;
use crate::server::{CallRates, socket_rows};
use crate::trial::TrialResult;
use crate::use_row::{NO_COUNTER, UseRow, cell, row, unknown};

const NOT_OBSERVED: &str = "the server was not observed";
const NO_STATES: &str = "thread states were not observed (`--observe states`)";
const NO_GROUP: &str = "no cgroup counts this value";
const NO_PURPOSE: &str =
    "without an eBPF program, waits are not distinguished from other futex calls";
const NOT_IN_LEVEL: &str = "unknown for the part of the window that this result uses";
const MEAN_WAITING: &str = "threads waiting for a CPU (mean number)";

/// Returns the table of a trial.
#[must_use]
pub fn use_table(trial: &TrialResult) -> Vec<UseRow> {
    let mut rows = vec![cpu(trial), thread(trial), memory(trial), disk(trial)];
    rows.extend(sockets(trial));
    rows.push(locks(trial));
    rows.extend(backends(trial));
    rows.push(generator(trial));
    rows
}

fn cpu(t: &TrialResult) -> UseRow {
    let server = &t.server;
    row(
        "the server's CPUs",
        cell(server.cpu_utilisation, Unit::Share, "of its allowed CPU time", NOT_OBSERVED),
        cell(
            mean_waiting(server.run_delay_s, server.window_s),
            Unit::Count,
            MEAN_WAITING,
            NO_COUNTER,
        ),
        cell(
            server.throttling.map(|t| t.throttled_periods as f64),
            Unit::Count,
            "periods throttled by the quota",
            if server.throttled_s.is_some() {
                "no CPU quota throttles the server, and dyno cannot read errors of the hardware"
            } else {
                NO_GROUP
            },
        ),
    )
}

/// Returns the mean number of waiting threads: their waiting time per time of the window.
fn mean_waiting(waited_s: Option<f64>, window_s: f64) -> Option<f64> {
    waited_s.filter(|_| window_s > 0.0).map(|s| s / window_s)
}

fn thread(t: &TrialResult) -> UseRow {
    let no_counter = || unknown("this value does not exist for a single thread");
    row(
        "the server's busiest thread",
        cell(t.server.busiest_thread_utilisation, Unit::Share, "of one CPU", NOT_OBSERVED),
        no_counter(),
        no_counter(),
    )
}

fn memory(t: &TrialResult) -> UseRow {
    let server = &t.server;
    let peak = server.memory_peak_bytes.or(server.rss_bytes).map(|bytes| bytes as f64);
    row(
        "memory",
        cell(peak, Unit::Bytes, "at most", NOT_OBSERVED),
        cell(
            server.page_faults_major_per_s(),
            Unit::PerSecond,
            "page faults that read from a disk",
            NO_COUNTER,
        ),
        cell(
            server.oom_kills.map(|n| n as f64),
            Unit::Count,
            "processes killed for lack of memory",
            NO_GROUP,
        ),
    )
}

fn disk(t: &TrialResult) -> UseRow {
    let waited = t.server.serving.as_ref().map(|serving| serving.share(ThreadState::Disk));
    row(
        "disks",
        cell(
            t.machine.disk_utilisation,
            Unit::Share,
            "utilisation of the machine's busiest disk",
            NO_COUNTER,
        ),
        cell(
            waited,
            Unit::Share,
            "of the serving threads' time was spent waiting for a disk",
            NO_STATES,
        ),
        unknown("dyno cannot read errors of disks"),
    )
}

fn sockets(t: &TrialResult) -> Vec<UseRow> {
    let link = cell(
        t.machine.busiest_link.as_ref().map(|link| link.utilisation),
        Unit::Share,
        "of the capacity of the machine's busiest link",
        "no network device reports its capacity. Loopback and virtual devices have none.",
    );
    socket_rows(&t.server, link)
}

/// Whether futex calls were counted by purpose, such as `futex(wait)`. Perf events count them as
/// `futex`, or without a name.
fn knows_futex_waits(calls: &CallRates) -> bool {
    !["futex", UNNAMED].iter().any(|name| calls.by_name.contains_key(*name))
}

fn locks(t: &TrialResult) -> UseRow {
    let serving = t.server.serving.as_ref();
    let calls = t.server.calls.as_ref();
    let waits = calls
        .filter(|calls| knows_futex_waits(calls))
        .map(|calls| calls.by_name.get("futex(wait)").map_or(0.0, |call| call.per_response));
    let why_not = calls.map_or("system calls were not counted", |_| NO_PURPOSE);
    row(
        "locks",
        cell(
            serving.map(|serving| serving.share(ThreadState::Lock)),
            Unit::Share,
            "of the serving threads' time was spent waiting for other threads, or for work",
            NO_STATES,
        ),
        cell(waits, Unit::Count, "waits for another thread per response", why_not),
        unknown("locks have no errors"),
    )
}

fn backends(t: &TrialResult) -> Vec<UseRow> {
    let backend_row = |backend: &crate::backend_use::BackendUse| {
        let server = &backend.server;
        row(
            &format!("back end {}", backend.name),
            cell(server.cpu_utilisation, Unit::Share, "of its allowed CPU time", NOT_OBSERVED),
            cell(
                mean_waiting(server.run_delay_s, server.window_s),
                Unit::Count,
                MEAN_WAITING,
                NO_COUNTER,
            ),
            cell(
                server.oom_kills.map(|n| n as f64),
                Unit::Count,
                "processes killed for lack of memory",
                NO_GROUP,
            ),
        )
    };
    t.backends.iter().map(backend_row).collect()
}

/// Whether only the last level of throughput is used. If so, the generator's use covers a longer
/// window than the throughput.
fn uses_last_level_only(t: &TrialResult) -> bool {
    t.steadiness.as_ref().is_some_and(|steadiness| steadiness.counts_from_s.is_some())
}

fn generator(t: &TrialResult) -> UseRow {
    let client = &t.load.client;
    row(
        "the generator",
        cell(Some(client.headroom.need), Unit::Share, "of one CPU was needed", ""),
        cell(
            client
                .run_delay_s
                .filter(|_| t.load.duration_s > 0.0 && !uses_last_level_only(t))
                .map(|s| s / t.load.duration_s),
            Unit::Count,
            MEAN_WAITING,
            if uses_last_level_only(t) { NOT_IN_LEVEL } else { NO_COUNTER },
        ),
        cell(
            Some(t.load.exchanges.dropped as f64),
            Unit::Count,
            "requests dropped, because too many waited for a connection",
            "",
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;
    use crate::server::Call;

    #[test]
    fn use_table_cells_have_values_or_reasons() {
        let trial = five_block_report().trials.remove(0);
        let rows = use_table(&trial);
        for row in &rows {
            for cell in [&row.utilisation, &row.saturation, &row.errors] {
                assert!(!cell.note.is_empty(), "{row:?}");
            }
        }
        let names: Vec<&str> = rows.iter().map(|row| row.resource.as_str()).collect();
        assert_eq!(names.first().zip(names.last()), Some((&"the server's CPUs", &"the generator")));
    }

    #[test]
    fn lock_waits_require_purposes_of_futex_calls() {
        let mut trial = five_block_report().trials.remove(0);
        let mut waits_with = |names: &[&str]| {
            let call = Call { count: 500, per_response: 0.5, ..Call::default() };
            let by_name = names.iter().map(|name| ((*name).to_string(), call)).collect();
            trial.server.calls = Some(CallRates { by_name, ..CallRates::default() });
            let cell = locks(&trial).saturation;
            (cell.value, cell.note == NO_PURPOSE)
        };
        assert_eq!(waits_with(&["read", "futex(wait)"]), (Some(0.5), false));
        assert_eq!(waits_with(&["read"]), (Some(0.0), false));
        assert_eq!(waits_with(&["read", "futex"]), (None, true));
        assert_eq!(waits_with(&["read", "other"]), (None, true));
    }

    #[test]
    fn unobserved_use_cells_have_reasons() {
        let mut trial = five_block_report().trials.remove(0);
        trial.server.serving = None;
        trial.server.network = None;
        let rows = use_table(&trial);
        let row_of = |name: &str| rows.iter().find(|row| row.resource == name).unwrap();
        assert_eq!(row_of("locks").utilisation.note, NO_STATES);
        assert_eq!(
            (row_of("network and accept queue").errors.value, row_of("disks").saturation.value),
            (None, None)
        );
    }
}
