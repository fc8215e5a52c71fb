//! Checks that the counts of a load agree with each other. A record counts requests in the totals,
//! in the intervals, in the distributions of times, and by request. If two of these counts differ,
//! the archive was damaged or edited.

use dyno_model::load::UnansweredAges;
use dyno_model::outcome::{Outcome, Outcomes};
use dyno_model::{Interval, LoadRecord, Phase, Times};

use super::FileCheck;

/// Checks the counts of a load whose intervals are in order.
pub(super) fn check_counts(load: &LoadRecord) -> FileCheck {
    check_coverage(load)?;
    load.intervals.iter().try_for_each(check_interval)?;
    check_outcomes(load)?;
    check_ages(load)?;
    check_starts(load)?;
    check_bytes(load)?;
    check_silences(load)?;
    check_requests(load)?;
    check_connections(load)?;
    check_pages(load)
}

/// Checks that two counts of the same thing are equal.
fn check_equal(name: &str, n: u64, other: &str, m: u64) -> FileCheck {
    if n == m { Ok(()) } else { Err(format!("there are {n} {name}, but {m} {other}")) }
}

/// Checks that a count is not above another.
fn check_not_above(name: &str, n: u64, other: &str, max: u64) -> FileCheck {
    if n <= max { Ok(()) } else { Err(format!("there are {n} {name}, but only {max} {other}")) }
}

/// Checks that the intervals of the warm-up reach from the beginning of the load to its window, and
/// that the window's intervals cover the window exactly. Only drains may overlap, because workers
/// end at different times.
fn check_coverage(load: &LoadRecord) -> FileCheck {
    let (opens, closes) = load.window_ns;
    // Some workers end before others, so a drain may come before an interval of the window. Drains
    // therefore count as part of the window here.
    let ordered = load.intervals.is_sorted_by_key(|i| i.phase.min(Phase::Measured));
    if !ordered {
        return Err(
            "an interval of the warm-up comes after an interval of the measured window".into()
        );
    }
    let mut reached = 0;
    for interval in load.intervals.iter().filter(|i| i.phase != Phase::Drain) {
        if interval.start_ns != reached {
            return Err(format!(
                "an interval begins at {} ns, but the interval before it ends at {reached} ns",
                interval.start_ns
            ));
        }
        reached = interval.end_ns;
    }
    let in_phase = |phase| load.intervals.iter().filter(move |i| i.phase == phase);
    let Some(first) = in_phase(Phase::Measured).next() else {
        // If a load ended before its window, or never began, its window has no length.
        return match opens == closes {
            true => Ok(()),
            false => {
                Err(format!("the measured window from {opens} to {closes} ns has no intervals"))
            }
        };
    };
    if (first.start_ns, reached) != (opens, closes) {
        return Err(format!(
            "the measured window is from {opens} to {closes} ns, but its intervals are from {} to \
             {reached} ns",
            first.start_ns
        ));
    }
    match in_phase(Phase::Drain).find(|i| i.start_ns < opens) {
        Some(drain) => Err(format!(
            "a drain (wait for responses after the window) begins at {} ns, before the measured \
             window",
            drain.start_ns
        )),
        None => Ok(()),
    }
}

fn check_interval(interval: &Interval) -> FileCheck {
    let at = |name: &str| format!("{name} in the interval that begins at {} ns", interval.start_ns);
    let ok = interval.outcomes.get(Outcome::Ok);
    let times = &interval.times;
    for (name, distribution) in [
        ("response times", &times.response),
        ("service times", &times.service),
        ("send lags", &times.send_lag),
    ] {
        check_equal(&at(name), distribution.count(), "correct responses", ok)?;
    }
    check_not_above(&at("first-byte times"), times.first_byte.count(), "correct responses", ok)?;
    check_not_above(
        &at("kernel timestamps"),
        interval.kernel_response.count(),
        "correct responses",
        ok,
    )?;
    // The first class, interim responses, is skipped because they do not complete an exchange.
    let statuses = interval.all_outcomes().into_iter().flat_map(|o| &o.statuses[1..]).sum();
    check_equal(&at("statuses"), statuses, "complete responses", interval.responses())?;
    let unstored = interval.unstored_bodies.unwrap_or_default();
    check_not_above(
        &at("responses that were to be checked in full"),
        interval.checked.saturating_add(unstored.unchecked),
        "complete responses",
        interval.responses(),
    )?;
    check_not_above(
        &at("responses without extracted values"),
        unstored.unextracted,
        "complete responses",
        interval.responses(),
    )?;
    let early = interval.answered_early.map_or(0, |early| early.responses);
    check_not_above(&at("early responses"), early, "complete responses", interval.responses())
}

/// Sums a count over the intervals of the window and its drain.
fn after_warmup(load: &LoadRecord, pick: impl Fn(&Interval) -> u64) -> u64 {
    load.intervals.iter().filter(|i| i.phase != Phase::Warmup).map(pick).sum()
}

fn check_outcomes(load: &LoadRecord) -> FileCheck {
    let completed = after_warmup(load, |i| i.outcomes.completed_count());
    let failed = after_warmup(load, |i| i.outcomes.total() - i.outcomes.completed_count());
    check_equal(
        "complete responses in the intervals",
        completed,
        "in the totals",
        load.books.completed,
    )?;
    check_equal("failures in the intervals", failed, "in the totals", load.books.failed)
}

/// Checks that every exchange without a correct response has an age, under the name of its outcome.
fn check_ages(load: &LoadRecord) -> FileCheck {
    let ages = &load.unanswered.ages;
    let count = |name: &str| ages.get(name).map_or(0, Times::count);
    for &outcome in Outcome::ALL.iter().filter(|outcome| **outcome != Outcome::Ok) {
        let counted = after_warmup(load, |i| i.outcomes.get(outcome));
        check_equal(
            &format!("waiting times of {:?} requests", outcome.name()),
            count(outcome.name()),
            "in the intervals",
            counted,
        )?;
    }
    let at_end = load.books.in_flight_at_end;
    check_equal(
        "waiting times of requests in flight at the end",
        count(UnansweredAges::AT_END),
        "in the totals",
        at_end,
    )?;
    let is_known = |name: &str| {
        name == UnansweredAges::AT_END || Outcome::from_name(name).is_some_and(|o| o != Outcome::Ok)
    };
    match ages.keys().find(|name| !is_known(name)) {
        Some(name) => {
            Err(format!("`ages` has the entry {name:?}, which is not the name of a failure"))
        }
        None => Ok(()),
    }
}

/// Checks the number of started requests over all phases. This number must not be below the number
/// of ended requests, nor below the number in the totals.
fn check_starts(load: &LoadRecord) -> FileCheck {
    let sum = |pick: fn(&Interval) -> u64| load.intervals.iter().map(pick).sum::<u64>();
    let started = sum(|i| i.started);
    let ended = sum(|i| i.outcomes.total() + i.carried.total());
    check_not_above(
        "requests that ended in the intervals",
        ended,
        "requests that started",
        started,
    )?;
    let books = &load.books;
    check_not_above("started requests in the totals", books.started, "in the intervals", started)?;
    check_not_above(
        "dropped requests in the totals",
        books.dropped,
        "in the intervals",
        sum(|i| i.dropped),
    )?;
    let unended = started - ended;
    check_not_above(
        "requests in flight at the end",
        books.in_flight_at_end,
        "requests that have not ended",
        unended,
    )
}

fn check_bytes(load: &LoadRecord) -> FileCheck {
    let sum = |pick: fn(&Interval) -> u64| load.intervals.iter().map(pick).sum::<u64>();
    let received = sum(|i| i.bytes_received);
    check_not_above("bytes of bodies", sum(|i| i.body_received), "bytes received", received)?;
    // The shortest head of HTTP/2 takes a frame's header and one byte; HTTP/1.1 takes more.
    let responses = sum(Interval::responses);
    check_not_above(
        "complete responses",
        responses,
        "responses fit into the bytes received",
        received / SHORTEST,
    )
}

/// Bytes of the shortest complete response: a HEADERS frame with one indexed field.
const SHORTEST: u64 = 10;

/// Checks that silences, the periods without a complete response, are in order and do not overlap.
fn check_silences(load: &LoadRecord) -> FileCheck {
    let silences = load.silences.as_deref().unwrap_or_default();
    let is_ordered = silences.iter().all(|s| s.start_ns < s.end_ns)
        && silences.is_sorted_by(|a, b| a.end_ns <= b.start_ns);
    if is_ordered {
        Ok(())
    } else {
        Err("the silences (periods without a complete response) overlap, have no length, or are \
             not in order of time"
            .into())
    }
}

/// Checks that the counts of a mix's requests add up to the counts of the whole load.
fn check_requests(load: &LoadRecord) -> FileCheck {
    let mixed = || load.intervals.iter().filter(|i| !i.by_request.is_empty());
    for interval in mixed() {
        let at = |name: &str| {
            format!(
                "{name}, summed over the requests of the mix, in the interval that begins at {} ns",
                interval.start_ns
            )
        };
        let mut sum = Outcomes::default();
        for share in &interval.by_request {
            sum.add(&share.outcomes);
            let ok = share.outcomes.get(Outcome::Ok);
            check_equal(&at("response times"), share.response.count(), "correct responses", ok)?;
            check_equal(&at("service times"), share.service.count(), "correct responses", ok)?;
        }
        for &outcome in Outcome::ALL {
            let name = at(&format!("outcomes {:?}", outcome.name()));
            check_equal(
                &name,
                sum.get(outcome),
                "in the whole interval",
                interval.outcomes.get(outcome),
            )?;
        }
        let carried = interval.by_request.iter().map(|share| share.carried_ok).sum();
        check_not_above(
            &at("carried-in responses"),
            carried,
            "in the whole interval",
            interval.carried.get(Outcome::Ok),
        )?;
    }
    if mixed().next().is_none() {
        return Ok(());
    }
    let never = mixed().flat_map(|i| &i.by_request).map(|share| share.never_ended).sum();
    let in_flight = load.books.in_flight_at_end;
    // A dropped request of a sequence belongs to no step.
    if never == in_flight {
        return Ok(());
    }
    let books = load.books.dropped + in_flight;
    check_equal(
        "requests that never ended, summed over the entries of the mix",
        never,
        "in the totals",
        books,
    )
}

fn check_connections(load: &LoadRecord) -> FileCheck {
    let count =
        |pick: fn(&Interval) -> &Times| load.intervals.iter().map(|i| pick(i).count()).sum::<u64>();
    let connections = &load.connections;
    let opened = connections.opened;
    let handshakes =
        load.tls.as_ref().map_or(0, |tls| tls.handshakes_full + tls.handshakes_resumed);
    // A load that ended before all connections were tried has no intervals, and so no times.
    if !load.intervals.is_empty() {
        check_equal("connect times", count(|i| &i.connect), "connections opened", opened)?;
        let name = "TLS handshake times";
        check_equal(name, count(|i| &i.tls_handshake), "TLS handshakes", handshakes)?;
    }
    check_not_above(
        "requests sent again after an idle connection closed",
        connections.asked_again_idle,
        "requests sent again",
        connections.asked_again,
    )?;
    check_not_above(
        "connections open at the end",
        connections.established,
        "connections opened",
        opened,
    )
}

fn check_pages(load: &LoadRecord) -> FileCheck {
    let completed: u64 = load.intervals.iter().map(|i| i.pages_completed).sum();
    let timed: u64 = load.intervals.iter().map(|i| i.page.count()).sum();
    check_not_above("page times", timed, "complete pages", completed)
}
