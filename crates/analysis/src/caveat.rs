//! Machine-readable reasons to distrust a number. [`GLOSSARY`] explains each code, in every report too.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

/// How much a caveat weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// The number stands, with this in mind.
    Warning,
    /// The number must not be used.
    Invalid,
}

/// A reason to distrust a number: what it means for the reader, the evidence, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Caveat {
    pub code: &'static str,
    pub severity: Severity,
    pub message: String,
    pub evidence: Value,
}

impl Caveat {
    pub(crate) fn new(code: &'static str, severity: Severity, message: String, evidence: Value) -> Caveat {
        Caveat { code, severity, message, evidence }
    }

    /// What a caveat of this code means, without numbers: for the glossary of a report.
    #[must_use]
    pub fn meaning(code: &str) -> &'static str {
        GLOSSARY.iter().find(|(c, _)| *c == code).map_or("", |(_, meaning)| meaning)
    }
}

/// Every code with its meaning.
pub const GLOSSARY: &[(&str, &str)] = &[
    (
        "fell_back",
        "HTTP/2 was asked for, and the server chose HTTP/1.1 on some connections: another protocol was measured.",
    ),
    (
        "streams_not_granted",
        "The server allows fewer streams on a connection than were asked for, so fewer requests were in flight.",
    ),
    (
        "books",
        "The counts of scheduled, started, ended and unanswered requests do not add up: a fault of dyno.",
    ),
    (
        "littles_law",
        "The number of requests in flight by the times that are kept of them and by their count differ by more than 5 %.",
    ),
    (
        "longer_than_window",
        "Half of the requests took longer than the measured window, so it shows little of them.",
    ),
    (
        "generator_busy",
        "A thread of the generator was busy, or waited for a CPU, for more than 85 % of the time, or the threads of one CPU used more than 85 % of it: it may have been the limit.",
    ),
    (
        "generator_crowded",
        "The generator's CPUs had no time left and it waited for them, so it may have been the limit.",
    ),
    (
        "generator_throttled",
        "The CPU quota of dyno's own control group held the generator back, so it may have been the limit.",
    ),
    ("generator_quota", "dyno's own control group has a CPU quota; it did not hold the generator back."),
    (
        "oversubscribed",
        "The generator has more threads than CPUs to run them on, so they wait for each other.",
    ),
    ("shared_generator", "Something else, perhaps the server, used the generator's CPUs too."),
    ("wrong_answers", "Some answers had the wrong status or the wrong body."),
    ("no_answers", "Not one request was answered as expected."),
    (
        "errors",
        "Some requests got no answer. In percentiles they rank above every right answer; with more than one in a hundred of those that were due the numbers must not be used.",
    ),
    (
        "unanswered",
        "Some requests were still unanswered at the end. In percentiles they rank above every right answer.",
    ),
    ("rate_not_reached", "Fewer requests were answered per second than were scheduled."),
    ("dropped", "Arrivals were dropped because too many were waiting already."),
    ("connections", "Fewer connections than asked for were open at the end of the window."),
    ("unsolicited", "The server sent bytes that answer no request."),
    ("queueing", "Most of the response time's tail is waiting before the sending, not service."),
    ("generator_late", "The generator woke late; response times include that."),
    ("generator_starved", "The generator had to wait for a CPU that something else used."),
    ("clumped", "Requests left less evenly than intended, which is another load for the server."),
    ("ceiling", "How the throughput compares with the most that the generator reached on this machine."),
    ("partly_checked", "Not every answer was checked in full; the number that was is given."),
    ("subject_failed", "The server failed during this step."),
    ("checks_failed", "Contract checks failed while the load ran."),
    (
        "still_warming",
        "The server got faster within the measured window, or its JIT compiler used more than 20 % of its CPU time.",
    ),
    ("warmup_limit", "The warm-up of this start reached its limit before the server was steady."),
    ("warmup_without_cpu", "When the server was warm was judged by its throughput alone."),
    ("shared_cpus", "Server and generator share CPUs, so each slows the other."),
    ("short_window", "The measured window is shorter than one second."),
    ("cut_short", "The user ended the load before its time."),
    ("tcp_not_measured", "The kernel did not give TCP counters for the connections."),
    ("server_not_observed", "The server's use of CPU and memory is not known here."),
    (
        "no_cgroup",
        "Without a control group the server's CPU time is summed over living threads, and memory is resident memory.",
    ),
    ("not_served", "A server does not speak the protocol of a workload, so it has no numbers for it."),
    ("limits_not_set", "A limit that the suite asks for could not be set here."),
    (
        "tick_accounting",
        "The kernel samples the split of CPU time into user and system with its tick; the sum is exact.",
    ),
    (
        "more_threads_than_cpus",
        "More threads of the server were busy than it has CPUs, so they waited for each other's time slices.",
    ),
    (
        "server_starved",
        "The server's threads had to wait for CPUs, while something else used some of this machine's.",
    ),
    ("steal", "The hypervisor gave the machine's CPUs to somebody else for part of the time."),
    ("not_measured", "Some counters of the server could not be read here; they are empty."),
    ("syscalls_not_measured", "System calls per request are not counted by this version of dyno."),
    (
        "few_repeats",
        "With fewer than five repeats there are no confidence intervals: ranges over the repeats are shown.",
    ),
    (
        "mixed",
        "The run was resumed although subjects, machine or dyno had changed: its parts are not one experiment.",
    ),
    ("resumed", "Some trials were served by a process started after an interruption of the run."),
    (
        "same_numbers",
        "Subjects of different kinds have nearly the same throughput: something they share may limit them.",
    ),
];

/// A share as a percentage with at most one decimal.
pub(crate) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent >= 10.0 || percent == 0.0 { format!("{percent:.0} %") } else { format!("{percent:.1} %") }
}

pub(crate) fn info(code: &'static str, message: impl Into<String>) -> Caveat {
    Caveat::new(code, Severity::Info, message.into(), json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_explained() {
        for (i, (code, meaning)) in GLOSSARY.iter().enumerate() {
            assert!(GLOSSARY[..i].iter().all(|(c, _)| c != code), "{code} twice");
            assert!(meaning.ends_with('.'), "{code}");
        }
        assert_eq!(Caveat::meaning("nonsense"), "");
        assert_eq!((percent(0.934), percent(0.0123)), ("93 %".into(), "1.2 %".into()));
    }
}
