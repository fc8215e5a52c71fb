//! Predicts whether a plan fills the kernel's connection tracking table, and lists the remedies.
//! When the table is full, the kernel drops packets, and servers seem to fail. dyno changes no
//! setting of the machine.

use dyno_driver::PeerAddress;
use dyno_model::plan::{Arrivals, Isolation, Load, Plan, Step};
use dyno_observer::tracking::{IpVersion, TrackingTable};

/// Time that a closed connection stays in the table, seconds, if the kernel does not report this
/// time. The value is the kernel's default (net/netfilter/nf_conntrack_proto_tcp.c).
const TIME_WAIT_S: u64 = 120;

/// Share of the free entries above which a plan is reported as filling the table. It is below 1,
/// because the estimate omits the connections of checks and of other programs.
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

/// Command that exempts IPv6 over loopback. The commands of iptables are for IPv4 alone.
pub const IPV6_REMEDY: (&str, &str) = (
    "ip6tables",
    "ip6tables -t raw -A OUTPUT -o lo -j CT --notrack && ip6tables -t raw -A PREROUTING -i lo -j \
     CT --notrack",
);

/// Returns the remedies as text, one per line. `version`: IP version of the load.
#[must_use]
pub fn remedies(version: IpVersion) -> String {
    let line = |(name, command): &(&str, &str)| format!("  {name}: {command}");
    let (exemptions, others) = REMEDIES.split_at(2);
    let for_ipv6: &[_] = if version == IpVersion::V6 { &[IPV6_REMEDY] } else { &[] };
    let lines: Vec<String> =
        [exemptions, for_ipv6, others].into_iter().flatten().map(line).collect();
    format!(
        "{}\n  Ports that a container engine publishes on 127.0.0.1 need tracking and stop working \
         without it.",
        lines.join("\n")
    )
}

/// The state of a connection tracking table that includes loopback.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoopbackTracking {
    /// IP version of the load.
    pub version: IpVersion,
    pub entries: u64,
    pub max_entries: u64,
    /// Time for which a closed connection stays in the table, seconds.
    pub closed_stay_s: u64,
}

impl LoopbackTracking {
    /// Returns the state of a table. `None`: loopback is not tracked, or the table's size is
    /// unknown.
    #[must_use]
    pub fn from_table(table: &TrackingTable) -> Option<LoopbackTracking> {
        table.has_loopback.filter(|is_tracked| *is_tracked)?;
        Some(LoopbackTracking {
            version: table.version,
            entries: table.entries?,
            max_entries: table.max_entries?,
            closed_stay_s: table.time_wait_s.unwrap_or(TIME_WAIT_S).max(1),
        })
    }

    #[must_use]
    pub const fn free_entries(&self) -> u64 {
        self.max_entries.saturating_sub(self.entries)
    }

    /// Returns whether the table is full, so that the kernel drops packets of new connections.
    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.free_entries() == 0
    }

    /// Returns the lowest constant rate of new connections that fills the table, per second. At
    /// this rate, as many connections are opened as leave the table.
    #[must_use]
    pub fn filling_rate_per_s(&self) -> f64 {
        self.free_entries() as f64 / self.closed_stay_s as f64
    }
}

/// Returns the IP version in which a load uses loopback. `None`: the load does not use loopback.
#[must_use]
pub fn loopback_version(server: &PeerAddress) -> Option<IpVersion> {
    let PeerAddress::Tcp(addr) = server else { return None };
    addr.ip().to_canonical().is_loopback().then(|| IpVersion::from_address(addr.ip()))
}

/// The connections of a plan, as far as they are known before the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Maximum number of connections in the table.
    pub peak: f64,
    /// Lowest rate at which a closed loop alone fills the table, requests per second. `None`: no
    /// closed loop replaces its connections.
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
    note_for_state(table, |tracked| note_text(tracked, &forecast(plan, tracked)))
}

/// Returns the note to show before a search for a rate. The plan has only the first load of the
/// search. `None`: loopback is not tracked.
#[must_use]
pub fn search_note(plan: &Plan, table: &TrackingTable) -> Option<String> {
    let trial = plan.trials.first()?;
    let load = plan.load_of_trial(trial);
    let per_page = plan.workloads[trial.workload].page_connections();
    let first = opened_connections(per_page, &load, &load.steps[trial.step]);
    note_for_state(table, |tracked| search_note_text(tracked, &first, load.requests_per_connection))
}

/// Returns the note for a table that is full or of unknown size. For other tables, returns the text
/// that `forecast` makes. `None`: loopback is not tracked.
fn note_for_state(
    table: &TrackingTable,
    forecast: impl FnOnce(&LoopbackTracking) -> String,
) -> Option<String> {
    let remedies = || remedies(table.version);
    match LoopbackTracking::from_table(table) {
        Some(tracked) if tracked.is_full() => Some(format!(
            "warning: {} The table is full, and packets of new connections are dropped.\nhint: \
             exempt loopback from tracking, or make the table larger:\n{}",
            state_text(&tracked),
            remedies()
        )),
        Some(tracked) => Some(forecast(&tracked)),
        None if table.has_loopback == Some(true) => Some(format!(
            "note: the kernel tracks connections over loopback (netfilter), and the size of its \
             table is unknown. When the table is full, packets of new connections are \
             dropped.\nhint: exempt loopback from tracking:\n{}",
            remedies()
        )),
        None => None,
    }
}

/// Returns the sentences on the state of a table, with which each note begins.
fn state_text(tracked: &LoopbackTracking) -> String {
    let LoopbackTracking { entries, max_entries, closed_stay_s, .. } = tracked;
    format!(
        "the kernel tracks connections over loopback (netfilter). {entries} of {max_entries} \
         entries of its connection table are used. A closed connection stays in the table for \
         {closed_stay_s} s."
    )
}

/// Returns the text of the note for a search. `first`: the first load. Each further load opens as
/// many connections. With `requests_per_connection`, connections are also opened during a load, but
/// their number is unknown, because the rates of the search are unknown.
fn search_note_text(
    tracked: &LoopbackTracking,
    first: &OpenedConnections,
    requests_per_connection: Option<u64>,
) -> String {
    let closed_stay_s = tracked.closed_stay_s;
    // Number of loads whose connections are in the table at the same time: the loads that begin
    // within the time for which a closed connection stays, and one load that began before this time
    // and ended within it.
    let loads = (closed_stay_s as f64 / first.length_s.max(1.0)).ceil() + 1.0;
    let peak = first.connections * loads;
    let is_filled = peak >= tracked.free_entries() as f64 * NEARLY_FULL;
    let label = if is_filled { "warning" } else { "note" };
    let effect = match (is_filled, requests_per_connection) {
        (true, _) => format!(
            "The loads of this search open about {peak:.0} or more connections within \
             {closed_stay_s} s. These connections fill the table, and packets of new connections \
             will be dropped."
        ),
        (false, Some(per_connection)) => format!(
            "The table becomes full if the search tries {:.0} requests/s or more. The rates that \
             it will try are not known yet.",
            tracked.filling_rate_per_s() * per_connection.max(1) as f64
        ),
        (false, None) => {
            let state = state_text(tracked);
            return format!(
                "{label}: {state} The loads of this search open about {peak:.0} connections \
                 within {closed_stay_s} s. These connections fit in the table, so no action is \
                 needed."
            );
        }
    };
    format!(
        "{label}: {} {effect}\nhint: exempt loopback from tracking, or make the table larger:\n{}",
        state_text(tracked),
        remedies(tracked.version)
    )
}

/// Returns the text of the note for this state of the table and this forecast.
fn note_text(tracked: &LoopbackTracking, forecast: &Forecast) -> String {
    let (closed_stay_s, head) = (tracked.closed_stay_s, state_text(tracked));
    let is_filled = forecast.peak >= tracked.free_entries() as f64 * NEARLY_FULL;
    let effect = match is_filled {
        true => "These connections fill the table, and packets of new connections will be dropped.",
        false => "These connections fit in the table.",
    };
    let scheduled = format!(
        "This plan opens about {:.0} connections within {closed_stay_s} s. {effect}",
        forecast.peak
    );
    let closed = forecast.filling_rate_rps.map_or(String::new(), |rps| {
        format!(" The table becomes full if a closed loop reaches {rps:.0} requests/s or more.")
    });
    let is_harmless = !is_filled && forecast.filling_rate_rps.is_none();
    if is_harmless {
        return format!("note: {head} {scheduled} No action is needed.");
    }
    let label = if is_filled { "warning" } else { "note" };
    format!(
        "{label}: {head} {scheduled}{closed}\nhint: exempt loopback from tracking, or make the \
         table larger:\n{}",
        remedies(tracked.version)
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
        // Without a set number of requests, the number of connections that a closed loop replaces
        // is unknown before the load.
        if let (Arrivals::Closed, Some(per_connection), None) =
            (&step.arrivals, load.requests_per_connection, load.requests)
        {
            let seconds = opened.length_s.min(closed_stay_s).max(1.0);
            let rps = tracked.free_entries() as f64 / seconds * per_connection.max(1) as f64;
            let lowest = forecast.filling_rate_rps.unwrap_or(rps).min(rps);
            forecast.filling_rate_rps = Some(lowest);
        }
        openings.push(opened);
        forecast.peak = forecast.peak.max(recent_connections(&openings, closed_stay_s));
    }
    forecast
}

/// Returns the number of connections that loads opened within the last `period_s` seconds, up to
/// the end of the last load.
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

/// Returns the connections that a load opens, including its warm-up. The number of connections that
/// a closed loop replaces is unknown before the load, so only its concurrent connections are
/// included. `per_page`: connections of a visitor, if the workload is a page. The step's
/// `connections` are then the number of visitors.
fn opened_connections(per_page: Option<u32>, load: &Load, step: &Step) -> OpenedConnections {
    let concurrent = f64::from(step.connections) * f64::from(per_page.unwrap_or(1));
    // A load with a number of requests has no length, so all its connections are included.
    let length_ns = load.warmup_ns.saturating_add(load.set_duration_ns().unwrap_or(0));
    let length_s = length_ns as f64 / 1e9;
    let requests = match load.requests {
        Some(requests) => Some(requests as f64),
        None => requests_within(&step.arrivals, length_s),
    };
    let connections = match (load.requests_per_connection, requests) {
        (Some(per_connection), Some(requests)) => {
            (requests / per_connection.max(1) as f64).max(concurrent)
        }
        _ => concurrent,
    };
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
            // After the last segment, the schedule continues at the segment's final rate.
            sum + last * remaining_s
        }
    })
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::DriverKind;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn tracked(entries: u64, max_entries: u64) -> LoopbackTracking {
        LoopbackTracking { version: IpVersion::V4, entries, max_entries, closed_stay_s: 120 }
    }

    fn load(requests_per_connection: Option<u64>) -> Load {
        let load = crate::defaults::default_load(DriverKind::Epoll);
        Load { warmup_ns: 0, duration_ns: 10 * S, requests_per_connection, ..load }
    }

    fn step(connections: u32, arrivals: Arrivals) -> Step {
        Step { connections, streams: 1, pipeline: 1, arrivals, pass: 1 }
    }

    #[test]
    fn only_tcp_on_this_machine_uses_loopback() {
        let version = |addr: &str| loopback_version(&PeerAddress::Tcp(addr.parse().unwrap()));
        assert_eq!(version("127.0.0.2:80"), Some(IpVersion::V4));
        assert_eq!(version("[::1]:80"), Some(IpVersion::V6));
        assert_eq!(version("[::ffff:127.0.0.1]:80"), Some(IpVersion::V4));
        assert_eq!(version("192.0.2.1:80"), None);
        assert_eq!(loopback_version(&PeerAddress::Unix("/run/server".into())), None);
    }

    #[test]
    fn requests_within_sums_every_kind_of_schedule() {
        use dyno_model::plan::{Gaps, Segment};
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
             plan opens about 64 connections within 120 s. These connections fit in the table. No \
             action is needed."
        );
        let warning = note_text(&tracked(10, 1000), &forecast(900.0, None));
        assert!(
            warning.starts_with("warning: ")
                && warning.contains("These connections fill the table"),
            "{warning}"
        );
        for (_, command) in REMEDIES {
            assert!(warning.contains(command), "{warning}");
        }
        let closed = note_text(&tracked(10, 1000), &forecast(64.0, Some(99.0)));
        assert!(closed.starts_with("note: "), "{closed}");
        assert!(closed.contains("if a closed loop reaches 99 requests/s or more."), "{closed}");
        assert!(closed.contains("\nhint: "), "{closed}");
    }

    #[test]
    fn full_table_has_no_forecast() {
        let table = |entries| TrackingTable {
            has_loopback: Some(true),
            entries: Some(entries),
            max_entries: Some(1000),
            ..TrackingTable::default()
        };
        let note = |entries| note_for_state(&table(entries), |_| "They fit".into());
        assert_eq!(note(999).unwrap(), "They fit");
        let full = note(1000).unwrap();
        assert!(full.starts_with("warning: "), "{full}");
        assert!(full.contains("1000 of 1000 entries") && full.contains("The table is full"));
        assert!(!full.contains("They fit"), "{full}");
        assert!(full.contains(REMEDIES[0].1) && full.contains("nf_conntrack_max"), "{full}");
        let untracked = TrackingTable { has_loopback: Some(false), ..table(1000) };
        assert_eq!(note_for_state(&untracked, |_| unreachable!()), None);
    }

    #[test]
    fn search_note_counts_connections_of_all_loads() {
        let first = OpenedConnections { length_s: 3.0, connections: 10.0 };
        let note = |entries, per| search_note_text(&tracked(entries, 1000), &first, per);
        let fits = note(0, None);
        assert!(fits.starts_with("note: ") && fits.contains("about 410 connections"), "{fits}");
        assert!(fits.ends_with("fit in the table, so no action is needed."), "{fits}");
        let fills = note(600, None);
        assert!(
            fills.starts_with("warning: ") && fills.contains("connections fill the table"),
            "{fills}"
        );
        let replaced = note(0, Some(12));
        assert!(replaced.contains("tries 100 requests/s or more"), "{replaced}");
        assert!(!replaced.contains("fit in the table"), "the rates are unknown: {replaced}");
    }

    #[test]
    fn remedies_of_ipv6_include_ip6tables_before_larger_table() {
        let lines = |version| {
            let text = remedies(version);
            let names = text.lines().take(4).map(|line| line.trim().split(':').next().unwrap());
            names.map(String::from).collect::<Vec<_>>()
        };
        assert_eq!(lines(IpVersion::V6), ["nftables", "iptables", "ip6tables", "larger table"]);
        assert_eq!(lines(IpVersion::V4)[..3], ["nftables", "iptables", "larger table"]);
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
