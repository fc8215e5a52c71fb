//! Caveats about protocols and connections.

#[cfg(test)]
mod cases;

use std::collections::BTreeMap;

use dyno_model::load::Connections;
use dyno_model::plan::LoadModel;
use dyno_model::{LoadRecord, Party, Protocol};
use serde_json::json;

use super::ServerInputs;
use crate::caveat::{Caveat, Code, Severity, info};
use crate::drops::{DropExplanation, MachineDrops, connect_timeouts};
use crate::load::LoadResult;
use crate::number_format::{percent, plural, was};
use crate::server::ServerUse;
use crate::verdict::conditions::may_have_found_queue_full;
use crate::verdict::thresholds::MAX_LOST;
use crate::verdict::waits::SEVERAL_WRITES;

caveats! {
    /// HTTP/2 was requested, but the server chose HTTP/1.1 on some connections. The numbers are
    /// therefore not those of HTTP/2.
    FELL_BACK = "fell_back" in Connections {
        reason: "the server spoke HTTP/1.1",
        rules: [Load(|l| protocol_fallback(l.result))],
    }

    /// The server allows fewer streams on a connection than were requested, so fewer requests were
    /// in flight.
    STREAMS_NOT_GRANTED = "streams_not_granted" in Connections {
        rules: [Load(|l| stream_limit(l.result))],
    }

    /// The machine dropped packets or connections because a table of the kernel was full or a limit
    /// was reached. Connections time out, and the server is not the cause. The caveat is only a
    /// warning if the kernel evicted connections from its full table of tracked connections,
    /// because an eviction by itself drops nothing.
    DROPPED_PACKETS = "dropped_packets" in Connections {
        reason: "the machine dropped packets",
        properties: [OutsideCause, ExcusesLosses],
        rules: [Load(|l| dropped_packets(l.result, l.record))],
    }

    /// Fewer connections than requested were open at the end of the window.
    CONNECTIONS = "connections" in Connections {
        properties: [FollowsRefusals],
        rules: [Load(|l| missing_connections(l.result))],
    }

    /// The server closed idle connections when a request arrived, without a response, or ended
    /// HTTP/2 connections with an error. These requests were sent again on another connection, as
    /// browsers do, and have no failure. A crash at such a request looks the same. Above 1 % of the
    /// requests, the step is not valid.
    ASKED_AGAIN = "asked_again" in Connections {
        reason: "the server closed connections when requests arrived",
        properties: [MissingResponses, FailsObjective],
        rules: [
            Load(|l| repeated_requests(l.result)),
            Load(|l| repeated_http2_requests(l.result)),
        ],
    }

    /// The kernel did not give TCP counters for the connections.
    TCP_NOT_MEASURED = "tcp_not_measured" in Connections {
        rules: [Load(|l| missing_tcp_counters(l.result))],
    }

    /// Connections arrived while the server's queue of new connections was full.
    ACCEPT_QUEUE_FULL = "accept_queue_full" in Connections { rules: [Server(full_accept_queue)] }

    /// The server or the generator had to retransmit segments.
    RETRANSMISSIONS = "retransmissions" in Connections {
        rules: [Server(|s| retransmissions(s.server))],
    }

    /// The server writes a response in several parts, each of which becomes a separate segment.
    MANY_WRITES = "many_writes" in Connections {
        rules: [Trial(|t| many_writes(t.load, t.server?))],
    }
}

/// Requests were repeated because the server closed idle connections. A program that ends after it
/// has read such a request looks the same. A close crosses a request by chance only if both happen
/// within one round trip. Above [`MAX_LOST`] of the requests, chance is no explanation.
fn repeated_requests(result: &LoadResult) -> Option<Caveat> {
    let repeated = result.repeated_after_idle();
    // Connections are counted over the whole load.
    let share = repeated as f64 / result.all_requests().max(1) as f64;
    (repeated > 0).then(|| {
        let (severity, consequence) = match share > MAX_LOST {
            true => (
                Severity::Invalid,
                "Chance does not explain so many closes: the server crashes at such requests, or \
                 closes connections when their idle time is as long as the pause between two \
                 requests. Response times and CPU time include the repetitions. Check the \
                 server's log for crashes, raise its time-out for idle connections, or send \
                 requests more often.",
            ),
            false => (
                Severity::Info,
                "Browsers do the same, so this is no failure. A crash at such a request looks the \
                 same: check the server's log.",
            ),
        };
        let message = format!(
            "{} ({}) {} sent again on another connection, because the server closed a connection \
             that had been idle when the request arrived, without a response. {consequence}",
            plural(repeated, "request"),
            percent(share),
            was(repeated),
        );
        let evidence = json!({ "asked_again_idle": repeated, "share": share });
        Caveat::new(Code::ASKED_AGAIN, severity, message, evidence)
    })
}

/// Requests of HTTP/2 were repeated because the server ended connections with an error. It stated
/// which requests it had not processed.
fn repeated_http2_requests(result: &LoadResult) -> Option<Caveat> {
    let http2 = result.http2.as_ref()?;
    let repeated = result.repeated_after_http2_errors();
    let errors: BTreeMap<_, _> = http2.error_goaways().collect();
    let ended: u64 = errors.values().copied().sum();
    let share = repeated as f64 / result.exchanges.due().max(1) as f64;
    (repeated > 0).then(|| {
        let severity = if share > MAX_LOST { Severity::Invalid } else { Severity::Info };
        let codes: Vec<String> = errors.iter().map(|(code, n)| format!("{code}: {n}")).collect();
        let message = format!(
            "{} ({}) {} sent again on another connection, because the server ended {} with an \
             error ({}). Response times and CPU time include the repetitions. Check the server's \
             log.",
            plural(repeated, "request"),
            percent(share),
            was(repeated),
            plural(ended, "connection"),
            codes.join(", ")
        );
        let evidence = json!({ "retried": repeated, "goaways": errors, "share": share });
        Caveat::new(Code::ASKED_AGAIN, severity, message, evidence)
    })
}

/// The load asks for HTTP/2, and the server used HTTP/1.1.
fn protocol_fallback(result: &LoadResult) -> Option<Caveat> {
    if result.config.protocol == Protocol::Auto {
        return missing_streams(result);
    }
    let n = result.http2.as_ref()?.fallen_back;
    (n > 0).then(|| {
        let cause = match result.config.protocol {
            Protocol::H2cUpgrade => "the server did not switch protocols on the upgrade request",
            _ => "the server chose another protocol by ALPN",
        };
        let message = format!(
            "{} used HTTP/1.1 instead of HTTP/2: {cause}. Turn on HTTP/2 in the server, or measure \
             HTTP/1.1 (`--protocol h1`, in a suite `protocol = \"h1\"`).",
            plural(n, "connection")
        );
        Caveat::new(Code::FELL_BACK, Severity::Invalid, message, json!({"connections": n}))
    })
}

/// With the protocol `auto` and several streams the server chose HTTP/1.1, for some connections or
/// for all of them.
fn missing_streams(result: &LoadResult) -> Option<Caveat> {
    let streams = result.config.streams;
    // Without a response the server chose no protocol.
    if streams <= 1 || result.exchanges.completed == 0 {
        return None;
    }
    let (choice, evidence) = match &result.http2 {
        None => {
            let choice = "The server chose HTTP/1.1, which has no streams. Each connection".into();
            (choice, json!({"streams": streams}))
        }
        Some(http2) if http2.fallen_back == 0 => return None,
        Some(http2) => {
            let choice = format!(
                "The server chose HTTP/1.1, which has no streams, for {}, and HTTP/2 for {}. Each \
                 connection over HTTP/1.1",
                plural(http2.fallen_back, "connection"),
                http2.connections
            );
            (choice, json!({"streams": streams, "connections": http2.fallen_back}))
        }
    };
    let message = format!(
        "{choice} had one request in flight instead of {streams}. Use more connections, or turn on \
         HTTP/2 in the server."
    );
    Some(Caveat::new(Code::FELL_BACK, Severity::Warning, message, evidence))
}

/// The server allows fewer streams per connection than the load asks for.
fn stream_limit(result: &LoadResult) -> Option<Caveat> {
    let streams = result.http2.as_ref()?.streams;
    let granted = streams.granted.filter(|granted| *granted < streams.asked)?;
    let message = format!(
        "The server allows {granted} streams at once on a connection, but the load asks for {}. \
         Fewer requests than planned were in flight. Use more connections, or raise the server's \
         limit (SETTINGS_MAX_CONCURRENT_STREAMS).",
        streams.asked
    );
    let evidence = json!({"asked": streams.asked, "granted": granted});
    Some(Caveat::new(Code::STREAMS_NOT_GRANTED, Severity::Warning, message, evidence))
}

/// Highest number of connections that stall per counted drop. The counters are lower bounds,
/// because each reading covers only a part of the load.
const DROP_FACTOR: u64 = 10;

/// The machine dropped packets, which looks like a server that does not respond.
fn dropped_packets(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let drops = MachineDrops::from_load(record)?;
    let mut evidence = serde_json::to_value(drops).expect("counts should serialize");
    let connect_timeouts = connect_timeouts(record);
    if drops.is_tracking_suspected() {
        evidence["connect_timeouts"] = connect_timeouts.into();
    }
    let caveat =
        |severity, message| Caveat::new(Code::DROPPED_PACKETS, severity, message, evidence);
    if let Some(DropExplanation { causes, remedies }) = drops.explanation_with(connect_timeouts) {
        // The requests of a connection wait for a dropped packet together.
        let per_packet = u64::from(result.config.streams) * u64::from(result.config.pipeline);
        let stalled = drops.count().map(|n| n.saturating_mul(DROP_FACTOR * per_packet));
        // If all connections of an open loop may stall, other requests wait for one.
        let waiting = |stalled: u64| match result.config.model {
            LoadModel::Open if stalled >= result.max_in_flight() => {
                result.exchanges.without_outcome()
            }
            LoadModel::Open | LoadModel::Closed => 0,
        };
        let explained = stalled.map(|n| n.saturating_add(waiting(n)));
        let failed = result.failed_requests();
        let consequence = match explained.filter(|explained| failed > *explained) {
            Some(explained) => format!(
                "Connections may stall or time out. The drops explain at most {explained} of the \
                 {failed} requests without a correct response"
            ),
            None => "Connections may stall or time out, and the server is not the cause".into(),
        };
        let message = format!(
            "The machine dropped packets while this step ran: {causes}. {consequence}. {remedies}"
        );
        return Some(caveat(Severity::Invalid, message).with_explained_losses(explained));
    }
    let evicted = drops.tracking_evictions.filter(|n| *n > 0)?;
    let message = format!(
        "The kernel's table of tracked connections (conntrack) was full while this step ran. The \
         kernel removed {evicted} unanswered connections from it, and may drop the next \
         connections. Exempt loopback from connection tracking, or raise \
         `net.netfilter.nf_conntrack_max`: `dyno doctor` prints the commands."
    );
    Some(caveat(Severity::Warning, message))
}

/// Returns the caveat that fewer connections than requested were open at the end of the window.
/// `None`: no connection was missing, or the load explains the missing ones.
fn missing_connections(result: &LoadResult) -> Option<Caveat> {
    let Connections { asked, established, .. } = result.connections;
    (established < asked && !is_explained(result)).then(|| {
        let message = format!(
            "Only {established} of {asked} connections were open at the end of the window. At \
             times, fewer requests were in flight than planned. Check the errors, and \
             `connections.closed_by_server` in the JSON report."
        );
        let evidence = json!({"asked": asked, "established": established});
        Caveat::new(Code::CONNECTIONS, Severity::Warning, message, evidence)
    })
}

/// Whether all missing connections ended by design, so that no request was missing because of them.
fn is_explained(result: &LoadResult) -> bool {
    let Connections { asked, established, opened, .. } = result.connections;
    let has_failed = result.exchanges.failed > 0 || !result.connection_failures.is_empty();
    if has_failed || opened < asked {
        return false;
    }
    let config = &result.config;
    // These loads open a connection only when a request needs one. Connections that end shortly
    // before the load ends are therefore not replaced.
    let reopens_when_needed = config.model == LoadModel::Open
        || config.requests.is_some()
        || config.page_connections.is_some();
    if reopens_when_needed {
        return true;
    }
    // Some connections are always being replaced if each ends after a number of requests, or if the
    // server closes them. The server does so if at least twice as many connections were opened as
    // requested.
    let end_by_design = config.requests_per_connection.is_some() || opened >= 2 * asked;
    if !end_by_design {
        return false;
    }
    let missing = (asked - established) as f64;
    replaced_connections(result).is_none_or(|mean_opening| missing <= bound(mean_opening))
}

/// Returns the mean number of connections that were being opened: by Little's law, the connections
/// per second times the mean time to open one. `None`: the times to open are not recorded.
fn replaced_connections(result: &LoadResult) -> Option<f64> {
    let seconds = result.duration_s + result.config.warmup_s;
    let handshake_us = result.tls_handshake_us.mean.unwrap_or(0.0);
    let open_us = result.connect_us.mean? + handshake_us;
    Some(result.connect_us.count as f64 * open_us / 1e6 / seconds)
}

/// Returns the largest number of connections that may be missing by chance at one instant. It is
/// three standard deviations of a Poisson distribution above its mean. `mean_opening`: mean number
/// of connections that were being opened.
fn bound(mean_opening: f64) -> f64 {
    // Before it is opened, a connection also waits for the generator. This wait is assumed to be as
    // long as the opening.
    let mean_missing = 2.0 * mean_opening;
    mean_missing + 3.0 * mean_missing.sqrt() + 1.0
}

fn missing_tcp_counters(result: &LoadResult) -> Option<Caveat> {
    result.tcp.segments_in.is_none().then(|| {
        info(
            Code::TCP_NOT_MEASURED,
            "TCP segments are unknown: no TCP connection was open, or the kernel does not count \
             them.",
        )
    })
}

/// The accept queue was full. The kernel then drops the handshake, and the client retries it a
/// second later.
fn full_accept_queue(inputs: &ServerInputs<'_>) -> Option<Caveat> {
    if inputs.party == Party::SUBJECT && !may_have_found_queue_full(inputs.load) {
        return None;
    }
    let network = inputs.server.network?;
    let overflows = match network.listen_overflows.filter(|n| *n > 0) {
        Some(overflows) => overflows,
        None => return full_syn_queue(network.syn_queue_drops?),
    };
    let message = format!(
        "{} found the accept queue full in the server's network namespace, and {} retried a second \
         later. Connect times include that second. Let the server listen with a longer backlog.",
        plural(overflows, "connection"),
        was(overflows)
    );
    let evidence = json!({"listen_overflows": overflows});
    Some(Caveat::new(Code::ACCEPT_QUEUE_FULL, Severity::Warning, message, evidence))
}

/// The queue of half-open connections was full. Without SYN cookies it is as long as the listener's
/// backlog.
fn full_syn_queue(drops: u64) -> Option<Caveat> {
    (drops > 0).then(|| {
        let message = format!(
            "{} found a full queue of half-open connections in the server's network namespace, \
             and {} dropped. Connect times include a second or more of waiting. Let the server \
             listen with a longer backlog, or set `net.ipv4.tcp_syncookies=1`.",
            plural(drops, "connection"),
            was(drops)
        );
        let evidence = json!({"syn_queue_drops": drops});
        Caveat::new(Code::ACCEPT_QUEUE_FULL, Severity::Warning, message, evidence)
    })
}

/// Minimum share of retransmitted segments that is reported. Each may cost 200 ms.
const RETRANSMITTED: f64 = 0.001;

/// Many segments were retransmitted.
fn retransmissions(server: &ServerUse) -> Option<Caveat> {
    let network = server.network?;
    let (retransmitted, out) =
        (network.segments_retransmitted?, network.segments_out.filter(|n| *n > 0)?);
    let share = retransmitted as f64 / out as f64;
    (share >= RETRANSMITTED).then(|| {
        let timeouts = network
            .retransmit_timeouts
            .map_or(String::new(), |n| format!(", {n} of them after a time-out"));
        let verb = was(retransmitted);
        let message = format!(
            "In the server's network namespace, {retransmitted} of {out} TCP segments {verb} \
             retransmitted{timeouts}. Some segments may belong to other programs. If segments of \
             this load were lost, the highest response times include a wait of 200 ms or more per \
             time-out. Check whether this step also has the caveat `accept_queue_full` or \
             `dropped_packets`."
        );
        let evidence = json!({
            "retransmitted": retransmitted,
            "segments_out": out,
            "timeouts": network.retransmit_timeouts,
        });
        Caveat::new(Code::RETRANSMISSIONS, Severity::Warning, message, evidence)
    })
}

/// The server writes responses in parts, and each part leaves as a separate segment.
fn many_writes(load: &LoadResult, server: &ServerUse) -> Option<Caveat> {
    let writes = server.calls.as_ref()?.writes?.per_response;
    let segments = load.tcp.data_segments_per_response?;
    (writes >= SEVERAL_WRITES && segments >= SEVERAL_WRITES).then(|| {
        let message = format!(
            "The server makes {writes:.2} writes per response, and each write leaves as a separate \
             segment ({segments:.2} segments per response). One write per response would cost \
             server and generator less CPU time."
        );
        let evidence = json!({"writes_per_response": writes, "segments_per_response": segments});
        Caveat::new(Code::MANY_WRITES, Severity::Info, message, evidence)
    })
}
