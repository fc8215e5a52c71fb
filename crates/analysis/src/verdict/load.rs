//! Derives the caveats of one load: reasons to distrust its numbers. Each function is one rule over
//! the load's record and the checks around it. The doc comment of a rule states the condition under
//! which its caveat applies.

use dyno_archive::interval::EarlyResponses;
use dyno_archive::outcome::Outcome;
use dyno_archive::plan::LoadModel;
use dyno_archive::start::FailureKind;
use dyno_archive::{LoadRecord, Phase, Protocol};
use serde_json::json;

use super::thresholds::{LITTLE_LEAST, LITTLE_TOLERANCE};
use super::{Context, connections, headroom, levels, pauses, refusals, thread_ends, window_length};
use crate::caveat::{Caveat, Code, Severity, info};
use crate::drops::{DropExplanation, MachineDrops, connect_timeouts};
use crate::faults::{is_loss, sort_by_severity};
use crate::load::offered::rate_text;
use crate::load::{InFlight, LoadResult};
use crate::number_format::{percent, plural, was};

/// Returns all caveats of a load, the most severe first.
pub(super) fn caveats(
    result: &LoadResult,
    record: &LoadRecord,
    context: &Context<'_>,
) -> Vec<Caveat> {
    let mut caveats: Vec<Caveat> = [
        unbalanced_counts(record),
        dropped_packets(result, record),
        server_failure(record),
        littles_law(result),
        window_length::requests_longer_than_window(result, record),
        headroom::generator_bound(result, context),
        headroom::too_many_threads(result, context),
        protocol_fallback(result),
        incorrect_responses(result),
        refusals::accepted_connections(result, context),
        no_correct_response(result, context),
        failed_checks(context),
        errors(result),
        in_flight_at_end(result),
        dropped_requests(result),
        missed_rate(result),
        warmup_backlog(result),
        warmup_failures(result),
        connections::missing_connections(result),
        unsolicited_responses(result),
        pauses::generator_pause(result, record),
        pauses::outage(result, record),
        pauses::server_stall(result, record),
        early_responses(result, record),
        stream_limit(result),
        queueing(result, context),
        late_wakeups(result),
        generator_cpu_wait(result, context),
        headroom::refused_priority(record, result),
        headroom::shared_cpus(result, context),
        headroom::generator_quota(result),
        bursts(result),
        ceiling(result),
        partial_checks(result),
        early_end(result, record),
        missing_tcp_counters(result),
        window_length::short_window(result, record),
        thread_ends::uneven_threads(result, record),
        unmonitored_server(context),
    ]
    .into_iter()
    .flatten()
    .collect();
    // For monitored servers, `verdict::trial` adds the caveats about levels. If other servers are
    // loaded too, levels may only show the effect of those servers.
    if context.server.is_none() && record.slices_ns.is_none() && record.concurrent_loads.is_none() {
        caveats.extend(levels::unobserved_caveats(result));
    }
    caveats.extend(missing_ports(result, &caveats));
    if let Some(refusals) = refusals::refusals(result, record, context) {
        caveats.retain(|caveat| !refusals::is_consequence(caveat));
        caveats.push(refusals);
    }
    sort_by_severity(&mut caveats);
    caveats
}

/// The user ended the load.
fn early_end(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    record.cut_short.then(|| {
        let message = match result.exchanges.cut_off {
            0 => "This load was ended early: its window is shorter than planned.".into(),
            n => format!(
                "This load was ended early. {} still in flight had waited no longer than the \
                 slowest correct response took. A wait of that length is not counted as a failure.",
                plural(n, "request")
            ),
        };
        info(Code::CutShort, message)
    })
}

/// The counts of requests contradict each other.
fn unbalanced_counts(record: &LoadRecord) -> Option<Caveat> {
    let evidence = serde_json::to_value(record.books).expect("counts should serialize");
    (!record.books.balance()).then(|| {
        let message = "The counts of scheduled, started and ended requests do not add up. This is \
                       a bug in dyno. Do not use this result, and please report the bug.";
        Caveat::new(Code::Books, Severity::Invalid, message.into(), evidence)
    })
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
    let caveat = |severity, message| Caveat::new(Code::DroppedPackets, severity, message, evidence);
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

/// The recorded times and the count of requests in flight contradict each other.
fn littles_law(result: &LoadResult) -> Option<Caveat> {
    let InFlight { mean, by_littles_law, resolution } = result.in_flight;
    let by_littles_law = by_littles_law?;
    let difference = (by_littles_law - mean).abs();
    let bounds = [LITTLE_TOLERANCE * mean, resolution, LITTLE_LEAST];
    let is_large = bounds.into_iter().all(|bound| difference > bound);
    is_large.then(|| {
        let message = format!(
            "The mean number of requests in flight is {by_littles_law:.2} according to their \
             recorded times, but {mean:.2} according to their count. Some times are missing, or \
             some counts are incorrect. This is a bug in dyno. Do not use this step, and please \
             report the bug."
        );
        let evidence = json!({"in_flight": mean, "by_law": by_littles_law});
        Caveat::new(Code::LittlesLaw, Severity::Invalid, message, evidence)
    })
}

/// Responses had an unexpected status, header or body, or lacked a value of a sequence.
fn incorrect_responses(result: &LoadResult) -> Option<Caveat> {
    let count = |outcome| result.outcomes.get(outcome);
    let status = count(Outcome::UnexpectedStatus);
    let header = count(Outcome::UnexpectedHeader);
    let body = count(Outcome::UnexpectedBody);
    let extraction = count(Outcome::ExtractionFailed);
    (status + header + body + extraction > 0).then(|| {
        let mut message = format!(
            "Incorrect responses: {status} with an unexpected status, {body} with an unexpected \
             body"
        );
        if header > 0 {
            message.push_str(&format!(", {header} with unexpected headers"));
        }
        if extraction > 0 {
            message.push_str(&format!(", {extraction} without a value that later requests need"));
        }
        message.push_str(
            ". The server did not do the requested work. Check one response with curl, then fix \
             the server or the expectation.",
        );
        let evidence = json!({
            "unexpected_status": status, "unexpected_header": header, "unexpected_body": body,
            "extraction_failed": extraction,
        });
        Caveat::new(Code::IncorrectResponses, Severity::Invalid, message, evidence)
    })
}

fn no_correct_response(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    (result.outcomes.get(Outcome::Ok) == 0).then(|| {
        let message =
            refusals::other_failures(result, context).unwrap_or_else(|| describe_failures(result));
        Caveat::new(Code::NoCorrectResponse, Severity::Invalid, message, json!({}))
    })
}

/// Describes how the requests of a load without a correct response ended.
fn describe_failures(result: &LoadResult) -> String {
    match leading_failure(result) {
        Some((failure, count)) if failure == Outcome::ConnectRefused.name() => format!(
            "No request got a correct response: {} {} refused. No server listens on that port. \
             Start the server, or check the address and the port.",
            plural(count, "connection"),
            was(count)
        ),
        Some((failure, count)) => format!(
            "No request got a correct response. The most frequent failure was {failure} ({} per \
             second).",
            rate_text(count as f64 / result.duration_s)
        ),
        None => "No request got a response in the measured window.".into(),
    }
}

/// Returns the most frequent failure and its count.
fn leading_failure(result: &LoadResult) -> Option<(&'static str, u64)> {
    result.outcomes.not_ok().max_by_key(|(_, n)| *n).map(|(outcome, n)| (outcome.name(), n))
}

/// The server, a back end or the machine failed.
fn server_failure(record: &LoadRecord) -> Option<Caveat> {
    let failure = record.server_failure.as_ref()?;
    let (code, start) = if FailureKind::BackendFailed.is_prefix_of(failure) {
        (Code::BackendFailed, "The server")
    } else if FailureKind::Harness.is_prefix_of(failure) {
        (Code::MachineFailed, "The server")
    } else {
        (Code::SubjectFailed, "The server failed during this step:")
    };
    Some(Caveat::new(code, Severity::Invalid, format!("{start} {failure}."), json!({})))
}

fn failed_checks(context: &Context<'_>) -> Option<Caveat> {
    let failed: Vec<_> = context.checks.iter().filter(|c| !c.ok && !c.waived).collect();
    let first = failed.first()?;
    let message = format!(
        "{} of {} checks failed right before or during the load. The first failed check was {:?}: \
         {}",
        failed.len(),
        context.checks.len(),
        first.name,
        first.detail()
    );
    let names: Vec<&str> = failed.iter().map(|c| c.name.as_str()).collect();
    // An incorrect response shows incorrect work. A missing response may mean that the server is
    // overloaded.
    let severity =
        if failed.iter().any(|c| c.has_response) { Severity::Invalid } else { Severity::Warning };
    Some(Caveat::new(Code::ChecksFailed, severity, message, json!({"failed": names})))
}

/// Largest share of the window's requests without a response in a valid step. With more, the server
/// got less load than planned.
pub(crate) const MAX_LOST: f64 = 0.01;

/// Requests of the window got no response.
fn errors(result: &LoadResult) -> Option<Caveat> {
    let exchanges = result.exchanges;
    let lost = exchanges.lost_count();
    let share = lost as f64 / exchanges.due().max(1) as f64;
    let is_reported = exchanges.failed > 0 || share > MAX_LOST;
    is_reported.then(|| {
        let without_outcome =
            [(exchanges.unanswered(), "in flight at the end"), (exchanges.dropped, "dropped")];
        let without_outcome = without_outcome
            .into_iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, state)| format!("{n} {state}"));
        // Complete but incorrect responses have a separate caveat.
        let classes: Vec<String> = result
            .outcomes
            .not_ok()
            .filter(|(outcome, _)| !outcome.is_completed())
            .map(|(outcome, n)| format!("{n} {}", outcome.name()))
            .chain(without_outcome)
            .collect();
        let mut message = format!(
            "{} of the window's requests got no response ({}).",
            percent(share),
            classes.join(", ")
        );
        let severity = if share > MAX_LOST { Severity::Invalid } else { Severity::Warning };
        if let Some(tls) = result.tls.as_ref().filter(|tls| !tls.errors.is_empty()) {
            let kinds: Vec<String> =
                tls.errors.iter().map(|(name, n)| format!("{n} {name}")).collect();
            message.push_str(&format!(" TLS: {}.", kinds.join(", ")));
        }
        let evidence = json!({"failed": exchanges.failed, "lost": lost, "share": share});
        Caveat::new(Code::Errors, severity, message, evidence)
    })
}

/// No local port was left to connect from. `others`: the load's other caveats. If missing responses
/// make the step invalid, and missing ports explain them, this caveat makes it invalid too.
fn missing_ports(result: &LoadResult, others: &[Caveat]) -> Option<Caveat> {
    let n = result.outcomes.get(Outcome::AddressExhausted);
    (n > 0).then(|| {
        let is_main_failure = 2 * n > result.exchanges.failed;
        let would_be_valid_with_ports = result.error_share_with_ports() <= MAX_LOST;
        let is_invalid_by_loss =
            others.iter().any(|c| c.severity == Severity::Invalid && is_loss(c.code));
        let is_explained = is_main_failure && would_be_valid_with_ports && is_invalid_by_loss;
        let severity = if is_explained { Severity::Invalid } else { Severity::Warning };
        let message = format!(
            "No local port was left to connect from for {} (EADDRNOTAVAIL). The server is not the \
             cause. Keep connections alive, connect from more addresses (`--source \
             127.0.0.2,127.0.0.3`), or widen net.ipv4.ip_local_port_range.",
            plural(n, "request")
        );
        Caveat::new(Code::NoLocalPort, severity, message, json!({"requests": n}))
    })
}

/// Requests had no response at the end, although they had time for one. If the user ended the load
/// early, the requests that were cut off are not included.
fn in_flight_at_end(result: &LoadResult) -> Option<Caveat> {
    let n = result.exchanges.unanswered();
    (n > 0).then(|| {
        let message = format!(
            "{} had no response at the end of the load. Percentiles count a request without a \
             response as slower than every correct response. To see how these requests end, use a \
             lower load or a higher `--timeout`.",
            plural(n, "request")
        );
        Caveat::new(Code::Unanswered, Severity::Warning, message, json!({"in_flight_at_end": n}))
    })
}

fn dropped_requests(result: &LoadResult) -> Option<Caveat> {
    let n = result.exchanges.dropped;
    (n > 0).then(|| {
        let message = format!(
            "{} {} dropped, because too many requests already waited for a connection. Offer a \
             lower rate, or use more connections.",
            plural(n, "request"),
            was(n)
        );
        Caveat::new(Code::Dropped, Severity::Warning, message, json!({"dropped": n}))
    })
}

/// Fewer requests ended than were scheduled: a backlog grew. Failed requests are no backlog, and
/// have separate caveats.
fn missed_rate(result: &LoadResult) -> Option<Caveat> {
    let pace = result.pace()?;
    (!pace.has_kept_up()).then(|| {
        let message = format!(
            "{} of {} offered requests per second got a response{}{}. The response times therefore \
             show an overloaded server or too few connections. Offer a lower rate, or use more \
             connections.",
            rate_text(pace.responses_rps()),
            rate_text(pace.offered_rps()),
            pace.failed_text(),
            pace.stretch_text()
        );
        Caveat::new(Code::RateNotReached, Severity::Warning, message, pace.evidence())
    })
}

/// Requests of the warm-up got their responses in the window, so throughput is above the offered
/// rate.
fn warmup_backlog(result: &LoadResult) -> Option<Caveat> {
    let pace = result.surplus()?;
    let message = format!(
        "{} requests per second got a response, but only {} were offered: when the window opened, \
         requests of the warm-up were still in flight. Throughput is therefore above the offered \
         rate. Percentiles do not include the warm-up's requests. Use a longer warm-up \
         (`--warmup`, or `warmup` in a suite).",
        rate_text(pace.responses_rps()),
        rate_text(pace.offered_rps())
    );
    Some(Caveat::new(Code::WarmupBacklog, Severity::Invalid, message, pace.evidence()))
}

/// Requests of the warm-up failed. This includes requests with a response in the window.
fn warmup_failures(result: &LoadResult) -> Option<Caveat> {
    let failed = result.exchanges.warmup_failed;
    (failed > 0).then(|| {
        let message = format!(
            "{} of the warm-up got no correct response. The numbers of this step do not include \
             the warm-up. Use `--warmup 0` (`warmup = \"0s\"` in a suite) to measure these \
             requests too.",
            plural(failed, "request")
        );
        Caveat::new(Code::WarmupFailures, Severity::Warning, message, json!({"failed": failed}))
    })
}

fn unsolicited_responses(result: &LoadResult) -> Option<Caveat> {
    let n = result.connections.unsolicited;
    (n > 0).then(|| {
        let after = result.connections.unsolicited_after;
        let earlier = after.map_or_else(|| "earlier".into(), |after| format!("{after} earlier"));
        let message = format!(
            "On {}, the server sent bytes that belong to no request. dyno closed these \
             connections. It is unknown to which requests the {earlier} responses on these \
             connections belong. Check whether a response to HEAD has a body, whether the \
             Content-Length header is correct, and whether a response is sent twice.",
            plural(n, "connection")
        );
        let evidence = json!({"connections": n, "responses_before": after});
        Caveat::new(Code::Unsolicited, Severity::Invalid, message, evidence)
    })
}

/// Responses were complete before the server can have read the whole request.
fn early_responses(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let mut early = EarlyResponses::default();
    let after_warmup = record.intervals.iter().filter(|i| i.phase != Phase::Warmup);
    after_warmup
        .filter_map(|i| i.answered_early.as_ref())
        .for_each(|responses| early.add(responses));
    let completed = result.exchanges.completed;
    (early.responses > 0).then(|| {
        let unsent = early.unsent_bytes as f64 / early.responses as f64;
        let message = format!(
            "{} of {completed} responses were complete before dyno had sent their request in full. \
             On average, {unsent:.0} bytes of the request were not sent yet. The throughput is \
             therefore not a rate of complete uploads. Check that the server reads the body before \
             it responds, or send a smaller body.",
            early.responses
        );
        // A server may refuse a request (status 400 or above) after reading only its head. Older
        // archives do not count the early refusals, so all refusals are assumed to be early.
        let all_refusals: u64 = result.outcomes.statuses[3..].iter().sum();
        let refused = early.refusals.unwrap_or(all_refusals);
        let share = early.responses.saturating_sub(refused) as f64 / completed.max(1) as f64;
        let severity = if share > MAX_LOST { Severity::Invalid } else { Severity::Warning };
        let evidence = json!({
            "responses": early.responses, "unsent_bytes": early.unsent_bytes,
            "refusals": early.refusals, "completed": completed,
        });
        Caveat::new(Code::AnsweredEarly, severity, message, evidence)
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
        Caveat::new(Code::FellBack, Severity::Invalid, message, json!({"connections": n}))
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
    Some(Caveat::new(Code::FellBack, Severity::Warning, message, evidence))
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
    Some(Caveat::new(Code::StreamsNotGranted, Severity::Warning, message, evidence))
}

/// Requests waited in the generator before they were sent: for a connection, or for a CPU.
fn queueing(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let (response, service) = (result.response_time_us.p99?, result.service_time_us.p99?);
    (result.config.model == LoadModel::Open && response > 2.0 * service).then(|| {
        let (in_flight, max_in_flight) = (result.in_flight.mean, result.max_in_flight());
        let is_half_full = in_flight >= 0.5 * max_in_flight as f64;
        // If all possible requests are in flight, further ones wait for a connection even if the
        // generator is on time.
        let is_full = in_flight >= max_in_flight as f64;
        let is_late = !is_full
            && (late_wakeups(result).is_some() || generator_cpu_wait(result, context).is_some());
        let advice = if is_late {
            format!(
                "The generator was late: on average, {in_flight:.1} of {max_in_flight} possible \
                 requests were in flight. Give the generator a separate CPU ({}), or use a quieter \
                 machine.",
                context.cpus_setting()
            )
        } else if is_half_full {
            "Use more connections to find the server's own limit.".into()
        } else {
            format!(
                "On average, {in_flight:.1} of {max_in_flight} possible requests were in flight. \
                 The maximum was reached only briefly, when the server stalled or requests came in \
                 bursts."
            )
        };
        let message = format!(
            "Slow requests mostly waited in the generator before they were sent. The p99 response \
             time is {response:.0} µs if measured from the intended start, but {service:.0} µs if \
             measured from sending. {advice}"
        );
        let evidence = json!({
            "response_p99_us": response, "service_p99_us": service, "in_flight": in_flight,
            "max_in_flight": max_in_flight,
        });
        Caveat::new(Code::Queueing, Severity::Info, message, evidence)
    })
}

fn late_wakeups(result: &LoadResult) -> Option<Caveat> {
    let median_us = result.response_time_us.p50?;
    // With few requests the higher percentiles are unknown. The highest known one is used.
    let lag = &result.client.wake_lag_us;
    let percentiles = [("p99", lag.p99), ("p90", lag.p90), ("p50", lag.p50)];
    let (name, lag_us) = percentiles.into_iter().find_map(|(name, lag)| Some((name, lag?)))?;
    (lag_us > 0.1 * median_us && lag_us > 100.0).then(|| {
        let message = format!(
            "The {name} of the generator's wake lag (the delay of its wake-ups) is {lag_us:.0} µs, \
             compared with a median response time of {median_us:.0} µs. The measured times include \
             this delay. Use a quieter machine."
        );
        let evidence = json!({(format!("wake_lag_{name}_us")): lag_us});
        Caveat::new(Code::GeneratorLate, Severity::Warning, message, evidence)
    })
}

/// The generator waited for a CPU that other programs used. A generator that waits looks idle, and
/// its timestamps are late.
fn generator_cpu_wait(result: &LoadResult, context: &Context<'_>) -> Option<Caveat> {
    let share = cpu_wait_share(result)?;
    (share > headroom::MAX_WAITING).then(|| {
        let message = format!(
            "For {} of the time the generator waited for a CPU that another program used{}. \
             Throughput is a lower bound, and response times include the wait. Give the generator \
             a separate CPU ({}), or use a quieter machine.",
            percent(share),
            result.client.headroom.processes_text(),
            context.cpus_setting()
        );
        let evidence = json!({"run_delay_share": share});
        Caveat::new(Code::GeneratorStarved, Severity::Warning, message, evidence)
    })
}

/// Returns the mean share of the window for which a generator thread waited for a CPU. `None`:
/// unknown.
fn cpu_wait_share(result: &LoadResult) -> Option<f64> {
    Some(result.client.run_delay_s? / result.duration_s / result.client.threads.max(1) as f64)
}

/// Requests were sent in bursts instead of with the planned gaps, so the server's queue is longer
/// than planned.
fn bursts(result: &LoadResult) -> Option<Caveat> {
    /// Largest excess of the achieved coefficient of variation without a caveat.
    const MAX_EXCESS: f64 = 0.25;
    let gaps = result.gaps.as_ref()?;
    let (intended, achieved) = (gaps.intended_cv?, gaps.achieved_cv?);
    (achieved > intended + MAX_EXCESS).then(|| {
        let requests = match result.client.threads {
            ..=1 => "requests".to_string(),
            threads => format!("requests of the same generator thread ({threads} threads)"),
        };
        let message = format!(
            "Requests were sent in bursts: the gaps between {requests} have a coefficient of \
             variation (standard deviation ÷ mean) of {achieved:.2} instead of {intended:.2}. \
             Possible causes are too few connections, a slow server or a late generator. Check the \
             send lag. Use more connections or a quieter machine."
        );
        let evidence = json!({"intended_cv": intended, "achieved_cv": achieved});
        Caveat::new(Code::Clumped, Severity::Warning, message, evidence)
    })
}

/// Compares throughput with the highest throughput of the generator.
fn ceiling(result: &LoadResult) -> Option<Caveat> {
    let ceiling = result.ceiling.as_ref().filter(|_| result.config.model == LoadModel::Closed)?;
    if result.throughput_rps == 0.0 || ceiling.throughput_rps <= 0.0 {
        return None;
    }
    Some(Caveat::new(
        Code::Ceiling,
        Severity::Info,
        format!(
            "The throughput is {} of the highest rate that the generator reached on this machine: \
             {:.0} requests per second (measured by `dyno calibrate`).",
            percent(result.throughput_rps / ceiling.throughput_rps),
            ceiling.throughput_rps
        ),
        json!({"ceiling_rps": ceiling.throughput_rps}),
    ))
}

fn partial_checks(result: &LoadResult) -> Option<Caveat> {
    let one_in = result.config.check_one_in.filter(|n| *n != 1)?;
    let completed = result.exchanges.completed;
    let checked = result.checked;
    let message = if one_in == 0 {
        "Expectations that need the whole response (such as headers or JSON) were checked only \
         before the load, and not during it."
            .into()
    } else {
        // In a mix, the number of responses with these expectations is unknown.
        let others = if result.config.requests_mixed.is_empty() {
            ""
        } else {
            " A response is checked in full only if its request has an expectation that needs the \
             whole response (such as headers or JSON)."
        };
        format!(
            "{checked} of {completed} responses were checked in full.{others} The status of all \
             responses was checked. If an exact body is expected, the body was also checked in all \
             responses without a content encoding. Use `--check-one-in 1` to check all responses \
             in full."
        )
    };
    let evidence = json!({"checked": checked, "completed": completed});
    Some(Caveat::new(Code::PartlyChecked, Severity::Info, message, evidence))
}

fn missing_tcp_counters(result: &LoadResult) -> Option<Caveat> {
    result.tcp.segments_in.is_none().then(|| {
        info(
            Code::TcpNotMeasured,
            "TCP segments are unknown: no connection was open, or the kernel does not count them.",
        )
    })
}

/// The server was not monitored, so its CPU use is unknown.
fn unmonitored_server(context: &Context<'_>) -> Option<Caveat> {
    let message = "The server's CPU use is unknown. Let dyno start the server (`dyno run`) to see \
                   what limited it.";
    context.server.is_none().then(|| info(Code::ServerNotObserved, message))
}
