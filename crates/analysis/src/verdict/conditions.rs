//! Conditions under which rules of limiters apply or are uncertain: short or throttled CPUs, and
//! CPUs that other programs used.

use super::headroom::GeneratorBound;
use super::thresholds::{MANY_THROTTLED, SERVER_FULL, SERVER_IDLE, STEAL, THROTTLED};
use crate::caveat::Code;
use crate::load::{LoadResult, Percentiles};
use crate::number_format::percent;
use crate::server::{ServerUse, Throttling};

/// Longest wait of all threads together for a CPU without a caveat, as a share of the allowed CPU
/// time.
pub(super) const MAX_WAITING: f64 = 0.1;

/// Minimum CPU time of other programs on the server's CPUs that can explain waits of the server for
/// a CPU, as a share of the server's allowed CPU time.
pub(super) const OTHERS_SHARE: f64 = 0.1;

/// Other programs may be the limit if they used at least this share of the CPU time that programs
/// other than dyno used on the generator's CPUs. The server may have used the rest.
pub(super) const MOSTLY_OTHERS: f64 = 0.5;

/// Largest share of the generator's CPUs that other programs use without being the limit.
pub(super) const MAX_OTHERS_SHARE: f64 = 0.1;

/// Whether server or generator may have been short of CPU time because other programs or virtual
/// machines took it: used and lost time together leave no headroom.
pub(super) fn may_lack_cpu(load: &LoadResult, server: &ServerUse) -> bool {
    /// Share of an unknown counter: nothing excludes that all CPU time was used or lost.
    const UNKNOWN: f64 = f64::INFINITY;
    let is_short = |used: f64, lost: f64| lost > 0.0 && used + lost >= SERVER_IDLE;
    // The hypervisor took this time from threads that were ready to run, but it is known only for
    // the whole machine. One side may have lost all of it, so each is checked with all of it.
    let is_stolen = server.steal_share.is_some_and(|share| share > STEAL);
    let stolen = |share: Option<f64>| if is_stolen { share.unwrap_or(UNKNOWN) } else { 0.0 };
    let allowed_s = server.cpu_allowed_s.unwrap_or(0.0);
    let lost_to_programs = cpu_s_lost_to_others(server).map_or(0.0, |lost_s| lost_s / allowed_s);
    let server_lost = lost_to_programs + stolen(server.stolen_share());
    if is_short(server.cpu_utilisation.unwrap_or(UNKNOWN), server_lost) {
        return true;
    }
    // This use already includes the generator's waits for CPUs that other programs used.
    let generator_used = load.client.headroom.need;
    is_short(generator_used, stolen(server.stolen_s.map(|stolen_s| stolen_s / server.window_s)))
}

/// Returns the seconds of CPU time that the server may have lost to other programs. If a counter is
/// unknown, this is the largest possible loss. `None`: other programs did not make the server wait,
/// or the server is not monitored.
fn cpu_s_lost_to_others(server: &ServerUse) -> Option<f64> {
    match (server.run_delay_s, server.others_on_its_cpus_s) {
        (Some(_), Some(_)) => starved_seconds(server),
        // Other programs may have caused all waits, unless the server fills its CPUs itself.
        (Some(waited_s), None) => (!delays_itself(server)?).then_some(waited_s),
        // The server may have lost all CPU time that other programs used on its CPUs.
        (None, Some(others_s)) => Some(others_s),
        // A monitored server without both counters may have lost any time.
        (None, None) => server.cpu_utilisation.map(|_| f64::INFINITY),
    }
}

/// Whether other programs or virtual machines took CPU time, so that requests took longer than on a
/// quiet machine.
pub(super) fn is_disturbed(load: &LoadResult, server: &ServerUse) -> bool {
    let is_starved = cpu_s_lost_to_others(server)
        .is_some_and(|lost_s| lost_s > MAX_WAITING * server.cpu_allowed_s.unwrap_or(0.0));
    is_starved || is_generator_starved(load) || may_lack_cpu(load, server)
}

pub(super) fn is_generator_starved(load: &LoadResult) -> bool {
    load.caveats.iter().any(|caveat| caveat.code == Code::GENERATOR_STARVED)
}

/// Whether the server used so much of a quota that throttled it that the quota is certainly the
/// limit. A quota also throttles short bursts of a server that uses little of it on average, for
/// example a garbage collection with many threads.
pub(super) fn is_quota_used(server: &ServerUse, throttling: Throttling) -> bool {
    throttling.share() >= MANY_THROTTLED
        || server.cpu_utilisation.is_some_and(|used| used >= SERVER_IDLE)
}

/// Formats the throttled periods as the second half of a sentence about the server.
pub(super) fn throttling_clause(throttling: Throttling) -> String {
    format!(
        "throttled in {} of {} periods ({})",
        throttling.throttled_periods,
        throttling.periods,
        percent(throttling.share())
    )
}

/// Returns the share of the generator's CPUs that other programs used. `None`: it is unknown, or
/// most of that CPU time was used by the server or by dyno itself.
fn others_share(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    let headroom = &load.client.headroom;
    let (others, cpus) = (headroom.others?, headroom.cpus.as_ref()?.len());
    // If server and generator share CPUs, `others` may be the server. The CPU time of programs
    // outside of the run shows whether it is.
    let taken_s = others * cpus as f64 * server.window_s;
    (server.others_cpu_s? >= MOSTLY_OTHERS * taken_s).then_some(others)
}

/// Returns the share of the generator's CPUs that other programs used, if the generator waited for
/// these CPUs. Without the other programs the generator may have had headroom.
pub(super) fn contended_share(load: &LoadResult, server: &ServerUse) -> Option<f64> {
    others_share(load, server).filter(|others| has_waited(load) && *others > MAX_OTHERS_SHARE)
}

/// Whether the generator waited for CPUs that other programs may have used. If it is unknown how
/// much CPU time the server or dyno used there, other programs may be the cause.
pub(crate) fn may_have_contended(load: &LoadResult, server: &ServerUse) -> bool {
    let is_unknown = server.others_cpu_s.is_none()
        && has_waited(load)
        && load.client.headroom.others.is_some_and(|others| others > MAX_OTHERS_SHARE);
    is_unknown || contended_share(load, server).is_some()
}

/// Whether the generator may have been the limit because it waited for its CPUs.
fn has_waited(load: &LoadResult) -> bool {
    matches!(
        GeneratorBound::from_result(load),
        Some(GeneratorBound::Crowded { .. } | GeneratorBound::Waiting { .. })
    )
}

/// Returns the seconds for which the server's threads waited for CPUs that other programs used.
/// `None`: the wait is short or unknown, or other programs did not cause it. The server causes its
/// own waits if it fills its CPUs, if its quota throttles it, or if it is alone on its CPUs.
pub(super) fn starved_seconds(server: &ServerUse) -> Option<f64> {
    let (waited_s, allowed_s) = (server.run_delay_s?, server.cpu_allowed_s?);
    if delays_itself(server)? {
        return None;
    }
    let has_others =
        server.others_on_its_cpus_s.is_some_and(|used_s| used_s >= OTHERS_SHARE * allowed_s);
    (has_others && waited_s > MAX_WAITING * allowed_s).then_some(waited_s)
}

/// Whether the server fills its CPUs, or its quota throttles it. In both cases its threads wait for
/// CPUs even if no other program runs. `None`: its CPU time is unknown.
pub(super) fn delays_itself(server: &ServerUse) -> Option<bool> {
    let is_full = server.cpu_utilisation? >= SERVER_FULL;
    Some(is_full || server.throttling.is_some_and(|t| t.share() > THROTTLED))
}

/// Whether a connection of the load may have found a queue of the listener full. The kernel counts
/// full queues for all listeners of a network namespace, also for those of other programs. A full
/// queue delayed this load if one of these times is long:
///
/// - If the kernel dropped the SYN, connecting took a second or more (`TCP_TIMEOUT_INIT`).
/// - If it dropped the last segment of the handshake, the first request was sent again after 200 ms
///   or more (`TCP_RTO_MIN`, include/net/tcp.h).
pub(super) fn may_have_found_queue_full(load: &LoadResult) -> bool {
    const FIRST_SYN_TIMEOUT_US: f64 = 1e6;
    const MIN_RETRANSMISSION_US: f64 = 2e5;
    let is_below = |times: &Percentiles, us: f64| times.max.is_some_and(|max| max < us);
    let are_all_quick = is_below(&load.connect_us, FIRST_SYN_TIMEOUT_US)
        && is_below(&load.response_time_us, MIN_RETRANSMISSION_US);
    // Requests without a correct response are not in these times.
    let has_losses = load.exchanges.unanswered() > 0 || load.outcomes.not_ok().next().is_some();
    !are_all_quick || has_losses
}
