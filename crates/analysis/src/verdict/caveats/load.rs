//! Caveats about the load and its window.

#[cfg(test)]
mod cases;
mod thread_ends;
mod window_length;

use dyno_model::LoadRecord;
use dyno_model::plan::LoadModel;
use dyno_model::run::Run;
use dyno_model::start::PartStart;
use serde_json::json;

pub(in crate::verdict) use window_length::is_about_edges;

use super::generator::{generator_cpu_wait, late_wakeups};
use super::pauses;
use crate::caveat::{Caveat, Code, Severity, info};
use crate::load::offered::rate_text;
use crate::load::{InFlight, LoadResult};
use crate::number_format::{plural, was};
use crate::verdict::Context;
use crate::verdict::thresholds::{LITTLE_LEAST, LITTLE_TOLERANCE};

caveats! {
    /// The counts of scheduled, started, ended and unanswered requests do not add up: a fault of
    /// dyno.
    BOOKS = "books" in Load {
        reason: "the counts of requests do not add up",
        more: "validity.md#when-a-step-is-not-valid",
        rules: [Load(|l| unbalanced_counts(l.record))],
    }

    /// The mean number of requests in flight, computed from their times, differs by more than 5 %
    /// from the mean number computed from their counts: a fault of dyno.
    LITTLES_LAW = "littles_law" in Load {
        reason: "counts and times of the requests contradict each other",
        more: "validity.md#when-a-step-is-not-valid",
        rules: [Load(|l| littles_law(l.result))],
    }

    /// Half of the requests took longer than the measured window, so the window shows only part of
    /// them.
    LONGER_THAN_WINDOW = "longer_than_window" in Load {
        reason: "half of the requests took longer than the window",
        properties: [FollowsRefusals],
        rules: [Load(|l| window_length::requests_longer_than_window(l.result, l.record))],
    }

    /// Fewer requests per second got a response than were scheduled.
    RATE_NOT_REACHED = "rate_not_reached" in Load {
        more: "validity.md#offered-rates-that-were-missed",
        properties: [FollowsRefusals],
        rules: [Load(|l| missed_rate(l.result, l.record))],
    }

    /// More requests per second got a response than were scheduled, because of a backlog of the
    /// warm-up.
    WARMUP_BACKLOG = "warmup_backlog" in Load {
        reason: "responses to requests of the warm-up arrived in the window",
        more: "validity.md#when-a-step-is-not-valid",
        rules: [Load(|l| warmup_backlog(l.result))],
    }

    /// Requests of the warm-up had no correct response.
    WARMUP_FAILURES = "warmup_failures" in Load {
        properties: [FollowsRefusals],
        rules: [
            Load(|l| warmup_failures(l.result)),
            Trial(|t| failures_of_start(t.context.part, t.context.workload)),
        ],
    }

    /// Requests were dropped because too many were already waiting for a connection.
    DROPPED = "dropped" in Load {
        properties: [FollowsRefusals],
        rules: [Load(|l| dropped_requests(l.result))],
    }

    /// Slow responses mostly waited in the generator before their request was sent.
    QUEUEING = "queueing" in Load {
        properties: [FollowsRefusals, AboutWaiting],
        rules: [Load(|l| queueing(l.result, l.context))],
    }

    /// The generator sent requests in bursts instead of with the planned gaps, which is a different
    /// load for the server.
    CLUMPED = "clumped" in Load {
        properties: [FollowsRefusals, AboutWaiting],
        rules: [Load(|l| bursts(l.result))],
    }

    /// The measured window is shorter than one second, ends after fewer than 100 requests (`-n`) at
    /// an offered rate, or has few long requests.
    SHORT_WINDOW = "short_window" in Load {
        rules: [Load(|l| window_length::short_window(l.result, l.record))],
    }

    /// The requests (`-n`) were divided among the generator's threads, and some threads finished
    /// earlier than others.
    THREADS_ENDED_APART = "threads_ended_apart" in Load {
        properties: [FollowsRefusals],
        rules: [Load(|l| thread_ends::uneven_threads(l.result, l.record))],
    }

    /// The user ended the load early.
    CUT_SHORT = "cut_short" in Load {
        rules: [Load(|l| early_end(l.result, l.record)), Run(|r| early_end_of_run(r.run))],
    }
}

/// The counts of requests contradict each other.
fn unbalanced_counts(record: &LoadRecord) -> Option<Caveat> {
    let evidence = serde_json::to_value(record.books).expect("counts should serialize");
    (!record.books.balance()).then(|| {
        let message = "The counts of scheduled, started and ended requests do not add up. This is \
                       a bug in dyno. Do not use this result, and please report the bug.";
        Caveat::new(Code::BOOKS, Severity::Invalid, message.into(), evidence)
    })
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
        Caveat::new(Code::LITTLES_LAW, Severity::Invalid, message, evidence)
    })
}

/// Fewer requests ended than were scheduled: a backlog grew. Failed requests are no backlog, and
/// have separate caveats.
fn missed_rate(result: &LoadResult, record: &LoadRecord) -> Option<Caveat> {
    let pace = result.pace()?;
    (!pace.has_kept_up()).then(|| {
        let pause = pauses::generator_pause(result, record);
        let cause = match pause.filter(|pause| pause.explains_losses(pace.missing())) {
            Some(_) => "The generator did not run for a part of the window. Repeat the step.",
            None => {
                "The response times therefore show an overloaded server or too few connections. \
                 Offer a lower rate, or use more connections."
            }
        };
        let message = format!(
            "{} of {} offered requests per second got a response{}{}. {cause}",
            rate_text(pace.responses_rps()),
            rate_text(pace.offered_rps()),
            pace.failed_text(),
            pace.stretch_text()
        );
        Caveat::new(Code::RATE_NOT_REACHED, Severity::Warning, message, pace.evidence())
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
    Some(Caveat::new(Code::WARMUP_BACKLOG, Severity::Invalid, message, pace.evidence()))
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
        Caveat::new(Code::WARMUP_FAILURES, Severity::Warning, message, json!({"failed": failed}))
    })
}

/// Requests of a workload failed in the warm-up before the first step. Without the warm-up, these
/// requests would have failed in the first step. Any step of the start could have been the first,
/// so all steps with this workload have the caveat.
fn failures_of_start(part: Option<&PartStart>, workload: usize) -> Option<Caveat> {
    let failed = part?.warmup.as_ref()?.failed_requests(workload);
    (failed > 0).then(|| {
        let message = format!(
            "In the warm-up before the first step, {} got no correct response. The results do not \
             include the warm-up. Use `warmup = \"0s\"` in the suite to measure these requests \
             too.",
            plural(failed, "request")
        );
        let evidence = json!({"failed_in_start": failed});
        Caveat::new(Code::WARMUP_FAILURES, Severity::Warning, message, evidence)
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
        Caveat::new(Code::DROPPED, Severity::Warning, message, json!({"dropped": n}))
    })
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
        Caveat::new(Code::QUEUEING, Severity::Info, message, evidence)
    })
}

/// Requests were sent in bursts instead of with the planned gaps, so the server's queue is longer
/// than planned.
fn bursts(result: &LoadResult) -> Option<Caveat> {
    /// Largest excess of the achieved coefficient of variation without a caveat.
    const MAX_EXCESS: f64 = 0.25;
    // Without the dropped requests, the gaps between the others are longer and less even.
    if result.exchanges.dropped > 0 {
        return None;
    }
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
        Caveat::new(Code::CLUMPED, Severity::Warning, message, evidence)
    })
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
        info(Code::CUT_SHORT, message)
    })
}

/// The user ended a single load early. A resumed run of a suite measures such a trial again, unless
/// it shows a fault of its server.
fn early_end_of_run(run: &Run) -> Option<Caveat> {
    if run.header.plan.suite.is_from_file() {
        return None;
    }
    let trial = run.trials.iter().find(|trial| trial.load.cut_short)?;
    let (opens_ns, closes_ns) = trial.load.window_ns;
    let seconds = |ns: u64| format!("{:.1} s", ns as f64 / 1e9);
    let planned = run.header.plan.load.set_duration_ns();
    let window_ns = closes_ns.saturating_sub(opens_ns);
    if planned.is_some_and(|ns| window_ns >= ns) {
        let message = format!(
            "The user ended this load after its window, while dyno waited for {} responses.",
            trial.load.books.in_flight_at_end
        );
        return Some(info(Code::CUT_SHORT, message));
    }
    let planned_text =
        planned.map_or(String::new(), |ns| format!(" of the planned {}", seconds(ns)));
    let message = format!(
        "The user ended this load early. The measured window covers only {}{planned_text}.",
        seconds(window_ns)
    );
    Some(info(Code::CUT_SHORT, message))
}
