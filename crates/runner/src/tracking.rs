//! Predicts whether a plan fills the kernel's connection tracking table, and lists the remedies.
//! The kernel drops packets when the table is full. dyno changes no setting of the machine.

use dyno_archive::plan::{Arrivals, Isolation, Load, Plan, Step};
use dyno_observer::tracking::TrackingTable;

/// Time that a closed connection stays in the table where the kernel does not report it, seconds
/// (net/netfilter/nf_conntrack_proto_tcp.c).
const TIME_WAIT_S: u64 = 120;

/// Share of the free entries above which a plan counts as filling the table: the estimate omits the
/// connections of checks and of other programs.
const NEARLY_FULL: f64 = 0.9;

/// Commands that exempt loopback from tracking, and one that makes the table larger.
pub const REMEDIES: [(&str, &str); 3] = [
    (
        "nftables",
        "nft 'table inet loopback \
         { chain out { type filter hook output priority raw; oif lo notrack; }; chain in { type \
         filter hook prerouting priority raw; iif lo notrack; }; }'",
    ),
    (
        "iptables",
        "iptables -t raw -A OUTPUT -o lo -j CT --notrack && iptables -t raw -A PREROUTING -i lo -j \
         CT --notrack",
    ),
    ("larger table", "sysctl -w net.netfilter.nf_conntrack_max=1048576"),
];

/// Returns the remedies as text, one per line.
#[must_use]
pub fn remedies() -> String {
    let line = |(name, command): &(&str, &str)| format!("  {name}: {command}");
    let lines: Vec<String> = REMEDIES.iter().map(line).collect();
    format!(
        "{}\n  Ports that a container engine publishes on 127.0.0.1 need tracking and stop working \
         without it.",
        lines.join("\n")
    )
}

/// The state of a connection tracking table that includes loopback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopbackTracking {
    pub entries: u64,
    pub max_entries: u64,
    /// Time for which a closed connection keeps its entry, seconds.
    pub closed_stay_s: u64,
}

impl LoopbackTracking {
    /// Returns the state of a table. `None`: loopback is not tracked, or the table's size is
    /// unknown.
    #[must_use]
    pub fn from_table(table: &TrackingTable) -> Option<LoopbackTracking> {
        table.has_loopback.filter(|is_tracked| *is_tracked)?;
        Some(LoopbackTracking {
            entries: table.entries?,
            max_entries: table.max_entries?,
            closed_stay_s: table.time_wait_s.unwrap_or(TIME_WAIT_S).max(1),
        })
    }

    #[must_use]
    pub const fn free_entries(&self) -> u64 {
        self.max_entries.saturating_sub(self.entries)
    }

    /// Returns the rate of new connections that fills the table in the long run, per second.
    #[must_use]
    pub fn filling_rate_per_s(&self) -> f64 {
        self.free_entries() as f64 / self.closed_stay_s as f64
    }
}

/// The connections of a plan, as far as they are known before it runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Maximum number of connections in the table.
    pub peak: f64,
    /// Lowest rate at which a closed loop alone fills the table, requests per second. `None`: no
    /// closed loop opens connections for its requests.
    pub filling_rate_rps: Option<f64>,
}

/// The length of one load, and the number of connections that it opens.
struct OpenedConnections {
    length_s: f64,
    connections: f64,
}

/// Returns the note to show before a plan is run. `None`: loopback is not tracked, or not used by
/// any load.
#[must_use]
pub fn note(plan: &Plan, table: &TrackingTable) -> Option<String> {
    let is_over_loopback = |arm: usize| plan.arms[arm].conditions.isolation == Isolation::None;
    if !plan.trials.iter().any(|trial| is_over_loopback(trial.arm)) {
        return None;
    }
    if table.has_loopback == Some(true) && LoopbackTracking::from_table(table).is_none() {
        return Some(format!(
            "note: the kernel tracks connections over loopback (netfilter), and the size of its \
             table is unknown. When the table is full, packets of new connections are \
             dropped.\nhint: exempt loopback from tracking:\n{}",
            remedies()
        ));
    }
    let tracked = LoopbackTracking::from_table(table)?;
    let forecast = forecast(plan, &tracked);
    Some(note_text(&tracked, &forecast))
}

fn note_text(tracked: &LoopbackTracking, forecast: &Forecast) -> String {
    let LoopbackTracking { entries, max_entries, closed_stay_s } = tracked;
    let head = format!(
        "the kernel tracks connections over loopback (netfilter). {entries} of {max_entries} \
         entries of its connection table are used. A closed connection stays in the table for \
         {closed_stay_s} s."
    );
    let is_filled = forecast.peak >= tracked.free_entries() as f64 * NEARLY_FULL;
    let effect = match is_filled {
        true => "They fill the table, and packets of new connections will be dropped.",
        false => "They fit in the table.",
    };
    let scheduled = format!(
        "This plan opens about {:.0} connections within {closed_stay_s} s. {effect}",
        forecast.peak
    );
    let closed = forecast.filling_rate_rps.map_or(String::new(), |rps| {
        format!(" A closed loop fills the table at {rps:.0} requests/s or more.")
    });
    if !is_filled && forecast.filling_rate_rps.is_none() {
        return format!("note: {head} {scheduled} Nothing to do.");
    }
    let label = if is_filled { "warning" } else { "note" };
    format!(
        "{label}: {head} {scheduled}{closed}\nhint: exempt loopback from tracking, or make the \
         table larger:\n{}",
        remedies()
    )
}

/// Walks the trials in their order, and adds up the connections that are in the table at once.
#[must_use]
pub fn forecast(plan: &Plan, tracked: &LoopbackTracking) -> Forecast {
    let closed_stay_s = tracked.closed_stay_s as f64;
    let mut openings: Vec<OpenedConnections> = Vec::new();
    let mut forecast = Forecast { peak: 0.0, filling_rate_rps: None };
    for trial in &plan.trials {
        if plan.arms[trial.arm].conditions.isolation != Isolation::None {
            continue;
        }
        let load = plan.load_of_trial(trial);
        let step = &load.steps[trial.step];
        let opened =
            opened_connections(plan.workloads[trial.workload].page_connections(), &load, step);
        if let (Arrivals::Closed, Some(per_connection), None) =
            (&step.arrivals, load.requests_per_connection, load.requests)
        {
            let seconds = opened.length_s.min(closed_stay_s).max(1.0);
            let rps = tracked.free_entries() as f64 / seconds * per_connection.max(1) as f64;
            forecast.filling_rate_rps =
                Some(forecast.filling_rate_rps.map_or(rps, |filling_rate| filling_rate.min(rps)));
        }
        openings.push(opened);
        forecast.peak = forecast.peak.max(recent_connections(&openings, closed_stay_s));
    }
    forecast
}

/// Returns the connections that the last loads opened within this many seconds before their end.
fn recent_connections(openings: &[OpenedConnections], period_s: f64) -> f64 {
    let (mut remaining_s, mut sum) = (period_s, 0.0);
    for opening in openings.iter().rev() {
        let share =
            if opening.length_s > remaining_s { remaining_s / opening.length_s } else { 1.0 };
        sum += opening.connections * share;
        remaining_s -= opening.length_s;
        if remaining_s <= 0.0 {
            break;
        }
    }
    sum
}

/// Returns the connections that a load opens, including its warm-up. A closed loop that opens
/// connections for its requests opens one per response, or fewer. That number is unknown
/// beforehand, so only the concurrent connections count. `per_page`: connections of a visitor, if
/// the workload is a page. The connections of its step are visitors.
fn opened_connections(per_page: Option<u32>, load: &Load, step: &Step) -> OpenedConnections {
    let concurrent = f64::from(step.connections) * f64::from(per_page.unwrap_or(1));
    // A load with a number of requests has no length: all of it counts.
    let length_ns = load.warmup_ns.saturating_add(load.set_duration_ns().unwrap_or(0));
    let length_s = length_ns as f64 / 1e9;
    let requests = match load.requests {
        Some(requests) => Some(requests as f64),
        None => requests_within(&step.arrivals, length_s),
    };
    let replaced = load.requests_per_connection.zip(requests);
    let connections = replaced.map_or(concurrent, |(per_connection, requests)| {
        (requests / per_connection.max(1) as f64).max(concurrent)
    });
    OpenedConnections { length_s, connections }
}

/// Returns the number of requests of a schedule within a time. `None`: a closed loop has no
/// schedule.
fn requests_within(arrivals: &Arrivals, seconds: f64) -> Option<f64> {
    Some(match arrivals {
        Arrivals::Closed => return None,
        Arrivals::Constant { rate } | Arrivals::Poisson { rate } => rate * seconds,
        Arrivals::Trace { count, .. } => *count as f64,
        Arrivals::Shaped { segments, .. } => {
            let (mut remaining_s, mut sum, mut last) = (seconds, 0.0, 0.0);
            for segment in segments {
                let length_s = (segment.duration_ns as f64 / 1e9).min(remaining_s);
                sum += (segment.from_rate + segment.to_rate) / 2.0 * length_s;
                remaining_s -= length_s;
                last = segment.to_rate;
            }
            // After the last segment, its rate continues.
            sum + last * remaining_s
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn tracked(entries: u64, max_entries: u64) -> LoopbackTracking {
        LoopbackTracking { entries, max_entries, closed_stay_s: 120 }
    }

    fn load(requests_per_connection: Option<u64>) -> Load {
        let load = crate::load::default_load();
        Load { warmup_ns: 0, duration_ns: 10 * S, requests_per_connection, ..load }
    }

    fn step(connections: u32, arrivals: Arrivals) -> Step {
        Step { connections, streams: 1, pipeline: 1, arrivals, pass: 1 }
    }

    #[test]
    fn requests_within_sums_every_kind_of_schedule() {
        use dyno_archive::plan::{Gaps, Segment};
        let within = |arrivals: &Arrivals| requests_within(arrivals, 10.0);
        assert_eq!(within(&Arrivals::Closed), None);
        assert_eq!(within(&Arrivals::Constant { rate: 7.0 }), Some(70.0));
        assert_eq!(within(&Arrivals::Poisson { rate: 7.0 }), Some(70.0));
        let trace = Arrivals::Trace { file: "a".into(), count: 3, sha256: "b".into() };
        assert_eq!(within(&trace), Some(3.0));
        let segment = Segment { from_rate: 0.0, to_rate: 10.0, duration_ns: 4 * S };
        let shaped = Arrivals::Shaped { segments: vec![segment], gaps: Gaps::Even };
        assert_eq!(within(&shaped), Some(20.0 + 60.0), "the last rate continues");
        assert_eq!(requests_within(&shaped, 0.0), Some(0.0));
    }

    #[test]
    fn opened_connections_depend_on_requests_per_connection() {
        let connections =
            |load: &Load, step: &Step| opened_connections(None, load, step).connections;
        let closed = step(64, Arrivals::Closed);
        let open = step(64, Arrivals::Constant { rate: 1000.0 });
        assert_eq!(connections(&load(None), &open), 64.0);
        assert_eq!(connections(&load(Some(1)), &open), 10_000.0);
        assert_eq!(connections(&load(Some(4)), &open), 2_500.0);
        assert_eq!(
            connections(&load(Some(1000)), &open),
            64.0,
            "never fewer than the concurrent connections"
        );
        assert_eq!(connections(&load(Some(1)), &closed), 64.0);
        let counted = Load { requests: Some(500), ..load(Some(1)) };
        assert_eq!(connections(&counted, &closed), 500.0);
        assert_eq!(opened_connections(Some(6), &load(None), &closed).connections, 384.0);
    }

    #[test]
    fn recent_connections_sums_loads_within_time() {
        let opening = |length_s, connections| OpenedConnections { length_s, connections };
        let openings = [opening(100.0, 1000.0), opening(50.0, 10.0), opening(50.0, 10.0)];
        assert_eq!(recent_connections(&openings, 120.0), 10.0 + 10.0 + 200.0);
        assert_eq!(recent_connections(&openings, 25.0), 5.0);
        assert_eq!(recent_connections(&openings, 1e6), 1020.0);
        assert_eq!(recent_connections(&[], 120.0), 0.0);
    }

    #[test]
    fn note_warns_of_plan_that_fills_table() {
        let forecast = |peak, filling_rate_rps| Forecast { peak, filling_rate_rps };
        let note = note_text(&tracked(10, 1000), &forecast(64.0, None));
        assert_eq!(
            note,
            "note: the kernel tracks connections over loopback (netfilter). 10 of 1000 entries of \
             its connection table are used. A closed connection stays in the table for 120 s. This \
             plan opens about 64 connections within 120 s. They fit in the table. Nothing to do."
        );
        let warning = note_text(&tracked(10, 1000), &forecast(900.0, None));
        assert!(
            warning.starts_with("warning: ") && warning.contains("They fill the table"),
            "{warning}"
        );
        for (_, command) in REMEDIES {
            assert!(warning.contains(command), "{warning}");
        }
        let closed = note_text(&tracked(10, 1000), &forecast(64.0, Some(99.0)));
        assert!(closed.starts_with("note: "), "{closed}");
        assert!(
            closed.contains("A closed loop fills the table at 99 requests/s or more."),
            "{closed}"
        );
        assert!(closed.contains("\nhint: "), "{closed}");
    }

    #[test]
    fn table_without_loopback_is_not_tracked() {
        let table =
            TrackingTable { entries: Some(3), max_entries: Some(9), ..TrackingTable::default() };
        assert_eq!(LoopbackTracking::from_table(&table), None);
        let no = TrackingTable { has_loopback: Some(false), ..table };
        assert_eq!(LoopbackTracking::from_table(&no), None);
        let yes = TrackingTable { has_loopback: Some(true), ..table };
        assert_eq!(LoopbackTracking::from_table(&yes), Some(tracked(3, 9)));
        assert_eq!(tracked(3, 9).filling_rate_per_s(), 0.05);
        assert_eq!(LoopbackTracking::from_table(&TrackingTable { max_entries: None, ..yes }), None);
    }
}
