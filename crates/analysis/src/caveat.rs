//! Machine-readable reasons to distrust a number. [`Code`] lists them all, each with its meaning,
//! which reports show.

use std::fmt;

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

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal $(=> $reason:literal)?,)+) => {
        /// What a caveat is about, by the name that it has in every report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
        pub enum Code { $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+ }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            /// The name for people, such as `few repeats`.
            #[must_use]
            pub fn in_words(self) -> String {
                self.name().replace('_', " ")
            }

            /// The meaning, without numbers: for the glossary of a report.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc,)+).trim_ascii_start(),)+ }
            }

            /// Why a step is not valid, in a few words; `None` for codes that never refuse one.
            #[must_use]
            pub const fn reason(self) -> Option<&'static str> {
                match self { $(Code::$variant => codes!(@reason $($reason)?),)+ }
            }
        }
    };
    (@reason) => { None };
    (@reason $reason:literal) => { Some($reason) };
}

codes! {
    /// HTTP/2 was asked for, and the server chose HTTP/1.1 on some connections: another protocol
    /// was measured.
    FellBack = "fell_back" => "the server spoke HTTP/1.1",
    /// The server allows fewer streams on a connection than were asked for, so fewer requests were
    /// in flight.
    StreamsNotGranted = "streams_not_granted",
    /// The counts of scheduled, started, ended and unanswered requests do not add up: a fault of
    /// dyno.
    Books = "books" => "the books do not balance",
    /// The mean number of requests in flight, once from their times and once from their count,
    /// differs by more than 5 %.
    LittlesLaw = "littles_law" => "Little's law does not hold",
    /// Half of the requests took longer than the measured window, so it shows little of them.
    LongerThanWindow = "longer_than_window" => "half of the requests took longer than the window",
    /// A thread of the generator was busy, or waited for a CPU, for more than 85 % of the time, or
    /// the threads of one CPU used more than 85 % of it: it may have been the limit.
    GeneratorBusy = "generator_busy" => "the generator was the limit",
    /// The generator's CPUs had no time left and it waited for them, so it may have been the limit.
    GeneratorCrowded = "generator_crowded" => "the generator was the limit",
    /// The CPU quota of dyno's own control group held the generator back, so it may have been the
    /// limit.
    GeneratorThrottled = "generator_throttled" => "a CPU quota held the generator back",
    /// dyno's own control group has a CPU quota; it did not hold the generator back.
    GeneratorQuota = "generator_quota",
    /// The generator has more threads than CPUs to run them on, so they wait for each other.
    Oversubscribed = "oversubscribed" => "the generator was the limit",
    /// The generator was to run in real time, and the kernel did not let it.
    PriorityRefused = "priority_refused",
    /// Something else, perhaps the server, used the generator's CPUs too.
    SharedGenerator = "shared_generator",
    /// Some answers had the wrong status or the wrong body.
    WrongAnswers = "wrong_answers" => "answers were wrong",
    /// Not one request was answered as expected.
    NoAnswers = "no_answers" => "nothing was answered",
    /// Every connection was refused, as the control is there for on whose port nobody listens.
    Refusals = "refusals",
    /// The machine dropped packets or connections because a table or a limit of the kernel was
    /// full: connections time out whatever the server does. Or it evicted connections from its full
    /// table of tracked ones, which drops nothing by itself.
    DroppedPackets = "dropped_packets" => "the machine dropped packets",
    /// Some requests got no answer. In percentiles they rank above every right answer; with more
    /// than one in a hundred of those that were due the numbers must not be used.
    Errors = "errors" => "too many requests failed",
    /// Some requests were still unanswered at the end. In percentiles they rank above every right
    /// answer.
    Unanswered = "unanswered",
    /// Fewer requests were answered per second than were scheduled.
    RateNotReached = "rate_not_reached",
    /// More requests were answered per second than were scheduled, because of a backlog of the
    /// warm-up.
    WarmupBacklog = "warmup_backlog" => "requests of the warm-up were answered in the window",
    /// Arrivals were dropped because too many were waiting already.
    Dropped = "dropped",
    /// In a closed loop nothing was answered for a long part of the window although requests were
    /// in flight. Requests that would have been sent meanwhile are missing from the response times.
    Stalled = "stalled",
    /// Complete responses came before their request had been sent in full: the server did not wait
    /// for all of it.
    AnsweredEarly = "answered_early" => "the server answered before it had the whole requests",
    /// The generator did not run for part of the window: it was stopped, frozen or suspended, or
    /// its machine was.
    GeneratorStopped = "generator_stopped" => "the generator did not run all the time",
    /// Fewer connections than asked for were open at the end of the window.
    Connections = "connections",
    /// The server sent bytes that answer no request, so it is not known which requests its
    /// responses answer.
    Unsolicited = "unsolicited" => "the server sent responses to no request",
    /// Most of the response time's tail is waiting before the sending, not service.
    Queueing = "queueing",
    /// The generator woke late; response times include that.
    GeneratorLate = "generator_late",
    /// The generator had to wait for a CPU that something else used.
    GeneratorStarved = "generator_starved",
    /// Requests left less evenly than intended, which is another load for the server.
    Clumped = "clumped",
    /// How the throughput compares with the most that the generator reached on this machine.
    Ceiling = "ceiling",
    /// Only some of the answers were checked in full; the message says how many.
    PartlyChecked = "partly_checked",
    /// The server failed during this step.
    SubjectFailed = "subject_failed" => "the server failed",
    /// Contract checks failed while the load ran.
    ChecksFailed = "checks_failed" => "contract checks failed during the load",
    /// The server fails checks of its contract that its own file lets it fail.
    ChecksWaived = "checks_waived",
    /// The server got faster within the measured window, or its JIT compiler used more than 20 % of
    /// its CPU time.
    StillWarming = "still_warming" => "the server was still warming up",
    /// The warm-up of this start reached its limit before the server was steady.
    WarmupLimit = "warmup_limit",
    /// The server's CPU time could not be read, so its throughput alone decided when it was warm.
    WarmupWithoutCpu = "warmup_without_cpu",
    /// Server and generator share CPUs, so each slows the other.
    SharedCpus = "shared_cpus",
    /// The measured window is shorter than one second, or ends after fewer than 100 requests (`-n`)
    /// at an offered rate.
    ShortWindow = "short_window",
    /// The generator's threads finished their shares of a number of requests at different times.
    ThreadsEndedApart = "threads_ended_apart",
    /// The user ended the load before its time.
    CutShort = "cut_short",
    /// The kernel did not give TCP counters for the connections.
    TcpNotMeasured = "tcp_not_measured",
    /// The server's use of CPU and memory is not known here.
    ServerNotObserved = "server_not_observed",
    /// Without a control group the server's CPU time is summed over its threads and processes, and
    /// memory is their anonymous and shared memory.
    NoCgroup = "no_cgroup",
    /// Threads or processes of the server ended before their counters were read: counters that held
    /// their share are unknown.
    CountersUnread = "counters_unread",
    /// Processes of the server left its control group, whose counters and limits are not of them.
    LeftGroup = "left_group",
    /// A server does not speak the protocol of a workload, so it has no numbers for that workload.
    NotServed = "not_served",
    /// A limit that the suite asks for could not be set here.
    LimitsNotSet = "limits_not_set",
    /// The kernel samples the split of CPU time into user and system with its tick; the sum is
    /// exact.
    TickAccounting = "tick_accounting",
    /// More threads of the server were busy than it has CPUs, so they waited for each other's time
    /// slices.
    MoreThreadsThanCpus = "more_threads_than_cpus",
    /// The server's threads had to wait for CPUs, while something else used some of this machine's.
    ServerStarved = "server_starved",
    /// Servers were started so that profiles can name their functions, which may cost them
    /// something.
    StartedForProfiles = "started_for_profiles",
    /// Processes that have nothing to do with the run used this machine's CPUs.
    Contaminated = "contaminated",
    /// Trials were measured again, because something else used the machine, or heat slowed it,
    /// while they were measured first; both are kept.
    DoneAgain = "done_again",
    /// The machine did a fixed piece of work faster before some starts than before others.
    MachineChanged = "machine_changed",
    /// All blocks started the subjects in the same order: a drift of the machine is part of every
    /// difference between them.
    FixedOrder = "fixed_order",
    /// A subject's throughput rose or fell from repeat to repeat.
    Trend = "trend",
    /// Throughput fell within the measured window.
    Slowdown = "slowdown",
    /// Throughput rose within the measured window.
    Speedup = "speedup",
    /// Throughput went up and down between levels within the measured window.
    Cyclic = "cyclic",
    /// CPU time per request changed its level within the measured window.
    CostLevels = "cost_levels",
    /// At an offered rate, response times changed their level within the measured window.
    ResponseLevels = "response_levels",
    /// The server got faster within the measured window, and counts by its last level.
    LastLevel = "last_level",
    /// The server did not rest while others had their turn.
    BusyInOthersTurns = "busy_in_others_turns",
    /// Requests took so long that many reached from their server's turn into another's.
    LongerThanTurns = "longer_than_turns",
    /// Other servers were loaded at the same time on the same CPUs, or were to be: throughput and
    /// times hold the wait for each other.
    AtOnce = "at_once" => "it was not loaded beside those beside whom it usually is",
    /// The CPUs of a duet were idle at times, and its servers were switched between requests.
    IdleDuet = "idle_duet" => "the CPUs of its duet were idle at times",
    /// The server was loaded alone, and in other repeats of this step in turns with others.
    OutOfTurn = "out_of_turn" => "it was loaded alone, and in other repeats in turns",
    /// Connections found the server's queue of connections full.
    AcceptQueueFull = "accept_queue_full",
    /// Segments had to be sent again, by the server or by the generator.
    Retransmissions = "retransmissions",
    /// The server writes an answer in several parts, each of which becomes a segment of its own.
    ManyWrites = "many_writes",
    /// The hypervisor gave the machine's CPUs to somebody else for part of the time.
    Steal = "steal",
    /// A CPU of this machine was made slower because it was too hot, for part of the time.
    ThermalThrottling = "thermal_throttling",
    /// Some counters of the server could not be read here; they are empty.
    NotMeasured = "not_measured",
    /// System calls per request were not counted; the message says why.
    SyscallsNotMeasured = "syscalls_not_measured",
    /// What the server's runtime reports of itself is not known; the message says why.
    RuntimeNotMeasured = "runtime_not_measured",
    /// A probe that was asked for could not look here; what it would have told is empty.
    ProbeRefused = "probe_refused",
    /// With fewer than five repeats there are no confidence intervals: ranges over the repeats are
    /// shown.
    FewRepeats = "few_repeats",
    /// The run was resumed although subjects, machine or dyno had changed: its parts are not one
    /// experiment.
    Mixed = "mixed",
    /// Some trials were served by a process started after an interruption of the run.
    Resumed = "resumed",
    /// Some peaks are lower bounds: steps at which a server may have done more do not count, for
    /// reasons that are not its own.
    PeakLowerBound = "peak_lower_bound",
    /// Subjects of different kinds have nearly the same throughput: something they share may limit
    /// them.
    SameNumbers = "same_numbers",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A reason to distrust a number: what it means for the reader, the evidence, and what to do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Caveat {
    pub code: Code,
    pub severity: Severity,
    /// What is wrong and what to do about it, in sentences.
    pub message: String,
    /// Object with the numbers behind the message; its keys depend on the code.
    pub evidence: Value,
}

impl Caveat {
    pub(crate) fn new(code: Code, severity: Severity, message: String, evidence: Value) -> Caveat {
        Caveat { code, severity, message, evidence }
    }
}

pub(crate) fn info(code: Code, message: impl Into<String>) -> Caveat {
    Caveat::new(code, Severity::Info, message.into(), json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each has its paragraph, in the words that pages have.
    #[test]
    fn the_methodology_explains_every_code() {
        let methodology = include_str!("../../../docs/methodology.md");
        for code in Code::ALL {
            let line = format!("- `{code}`: {}", code.meaning());
            assert!(methodology.contains(&line), "docs/methodology.md, Caveats, lacks: {line}");
        }
    }

    #[test]
    fn codes_are_explained_and_refuse_in_words() {
        for (i, code) in Code::ALL.iter().enumerate() {
            assert!(Code::ALL[..i].iter().all(|other| other.name() != code.name()), "{code} twice");
            assert!(code.meaning().ends_with('.') && !code.meaning().contains("  "), "{code}");
            assert!(
                code.reason().is_none_or(|words| words.contains(' ') && !words.contains('_')),
                "{code}"
            );
            assert_eq!(serde_json::to_value(code).unwrap(), code.name());
            assert_eq!(
                (code.to_string(), format!("{code:<30}|").len()),
                (code.name().to_string(), 31)
            );
        }
    }
}
