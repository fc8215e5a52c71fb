//! Defines caveats: machine-readable reasons to distrust a number. [`Code`] lists them all. Each
//! has a meaning, which reports show, and an explanation, which `dyno explain` prints.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::{Value, json};

use crate::names;

/// Severity of a caveat.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The number is valid. The caveat adds information.
    Info,
    /// The number is valid, but something may have affected it.
    Warning,
    /// The number must not be used.
    Invalid,
}

macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])+
        $variant:ident = $name:literal in $group:ident $(=> $reason:literal)?,
    )+) => {
        /// What a caveat is about, by the name in every report.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        pub enum Code { $($(#[doc = $doc])+ #[serde(rename = $name)] $variant,)+ }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$variant,)+];

            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Code::$variant => $name,)+ }
            }

            /// Returns the name in words, such as `few repeats`.
            #[must_use]
            pub fn in_words(self) -> String {
                self.name().replace('_', " ")
            }

            /// Returns the meaning without numbers, for the glossary of a report.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Code::$variant => concat!($($doc,)+).trim_ascii_start(),)+ }
            }

            /// Returns the group under which the reference pages list the code.
            #[must_use]
            pub const fn group(self) -> CaveatGroup {
                match self { $(Code::$variant => CaveatGroup::$group,)+ }
            }

            /// Whether the code states that the capacity of the generator was exhausted.
            pub(crate) const fn is_generator_limit(self) -> bool {
                matches!(
                    self,
                    Code::GeneratorBusy
                        | Code::GeneratorCrowded
                        | Code::GeneratorThrottled
                        | Code::Oversubscribed
                )
            }

            /// Returns the observation, its consequence and the action, as Markdown.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Code::$variant => {
                        include_str!(concat!("../explain/caveats/", $name, ".md"))
                    })+
                }
            }

            /// Returns a short reason why a step is not valid. `None`: the code never makes a step
            /// invalid.
            #[must_use]
            pub const fn reason(self) -> Option<&'static str> {
                match self { $(Code::$variant => codes!(@reason $($reason)?),)+ }
            }
        }
    };
    (@reason) => { None };
    (@reason $reason:literal) => { Some($reason) };
}

// Each code, by group. Reports and reference pages list the codes in this order.
codes! {
    /// Some responses had an unexpected status, header or body.
    IncorrectResponses = "wrong_answers" in Responses => "responses were incorrect",
    /// No request got a correct response.
    NoCorrectResponse = "no_answers" in Responses => "no request got a correct response",
    /// Every connection was refused, as expected of a control with `refuses = true`.
    Refusals = "refusals" in Responses,
    /// Some requests got no response. In percentiles they rank above every correct response. If
    /// more than 1 % of the window's requests got no response, the numbers must not be used.
    Errors = "errors" in Responses => "too many requests failed",
    /// Some requests had no response at the end. In percentiles they rank above every correct
    /// response.
    Unanswered = "unanswered" in Responses,
    /// In a closed loop no response arrived for a long part of the window although requests were in
    /// flight. Requests that would have been sent during that time are missing from the response
    /// times.
    Stalled = "stalled" in Responses,
    /// No response arrived for a tenth of the window or more, and requests failed during that time:
    /// the server was down or hung, or all requests in flight hung. The number of failed requests
    /// hides the outage, because few requests are sent to such a server.
    Outage = "outage" in Responses => "the server was down for a part of the window",
    /// Some responses were complete before their request had been sent in full. The server did not
    /// wait for the whole request.
    AnsweredEarly = "answered_early" in Responses
        => "the server responded before requests were sent in full",
    /// The server sent bytes that belong to no request, so it is unknown to which requests its
    /// responses belong.
    Unsolicited = "unsolicited" in Responses => "the server sent bytes that belong to no request",
    /// Only some of the responses were checked in full. The message has their number.
    PartlyChecked = "partly_checked" in Responses,
    /// The server failed during this step.
    SubjectFailed = "subject_failed" in Responses => "the server failed",
    /// A service that the server needs failed during the step.
    BackendFailed = "backend_failed" in Responses => "a back end failed",
    /// Contract checks failed while the load ran.
    ChecksFailed = "checks_failed" in Responses => "checks of the server's responses failed during \
                                                    the load",
    /// The server's contract was not checked after the load.
    Unchecked = "unchecked" in Responses
        => "the server's responses were not checked again after the load",
    /// The server fails checks of its contract that its `subject.toml` allows to fail.
    ChecksWaived = "checks_waived" in Responses,
    /// The counts of scheduled, started, ended and unanswered requests do not add up: a fault of
    /// dyno.
    Books = "books" in Load => "the counts of requests do not add up",
    /// The mean number of requests in flight, computed from their times, differs by more than 5 %
    /// from the mean number computed from their counts: a fault of dyno.
    LittlesLaw = "littles_law" in Load
        => "counts and times of the requests contradict each other",
    /// Half of the requests took longer than the measured window, so the window shows only part of
    /// them.
    LongerThanWindow = "longer_than_window" in Load
        => "half of the requests took longer than the window",
    /// Fewer requests per second got a response than were scheduled.
    RateNotReached = "rate_not_reached" in Load,
    /// More requests per second got a response than were scheduled, because of a backlog of the
    /// warm-up.
    WarmupBacklog = "warmup_backlog" in Load
        => "responses to requests of the warm-up arrived in the window",
    /// Requests of the warm-up had no correct response.
    WarmupFailures = "warmup_failures" in Load,
    /// Requests were dropped because too many were already waiting for a connection.
    Dropped = "dropped" in Load,
    /// Slow responses mostly waited in the generator before their request was sent.
    Queueing = "queueing" in Load,
    /// The generator sent requests in bursts instead of with the planned gaps, which is a different
    /// load for the server.
    Clumped = "clumped" in Load,
    /// The measured window is shorter than one second, ends after fewer than 100 requests (`-n`) at
    /// an offered rate, or has few long requests.
    ShortWindow = "short_window" in Load,
    /// The requests (`-n`) were divided among the generator's threads, and some threads finished
    /// earlier than others.
    ThreadsEndedApart = "threads_ended_apart" in Load,
    /// The user ended the load early.
    CutShort = "cut_short" in Load,
    /// The generator may have been the limit. For more than 85 % of the time, one of its threads
    /// was busy or waited for a CPU, or its threads together used a CPU.
    GeneratorBusy = "generator_busy" in Generator => "the generator was the limit",
    /// The generator's CPUs were full and the generator waited for them, so it may have been the
    /// limit.
    GeneratorCrowded = "generator_crowded" in Generator => "the generator was the limit",
    /// The CPU quota of dyno's own control group throttled the generator, so it may have been the
    /// limit.
    GeneratorThrottled = "generator_throttled" in Generator
        => "a CPU quota throttled the generator",
    /// No local port was left to connect from, so requests got no response. The server is not the
    /// cause.
    NoLocalPort = "no_local_port" in Generator => "no local port was left",
    /// The control group of dyno has a CPU quota. The quota hardly throttled the generator here,
    /// but a larger load may reach it.
    GeneratorQuota = "generator_quota" in Generator,
    /// The generator has more threads than CPUs to run them on, so they wait for each other.
    Oversubscribed = "oversubscribed" in Generator => "the generator was the limit",
    /// The load asks for real-time priority of the generator, but the kernel refused it.
    PriorityRefused = "priority_refused" in Generator,
    /// Another program, perhaps the server, also used the generator's CPUs.
    SharedGenerator = "shared_generator" in Generator,
    /// The generator did not run for part of the window: dyno or its machine was stopped, frozen or
    /// suspended.
    GeneratorStopped = "generator_stopped" in Generator => "the generator did not run for a part \
                                                            of the window",
    /// The generator woke late; response times include the delay.
    GeneratorLate = "generator_late" in Generator,
    /// The generator had to wait for a CPU that another program used.
    GeneratorStarved = "generator_starved" in Generator,
    /// The message compares the throughput with the highest throughput that the generator reached
    /// on this machine.
    Ceiling = "ceiling" in Generator,
    /// HTTP/2 was requested, but the server chose HTTP/1.1 on some connections. The numbers are
    /// therefore not those of HTTP/2.
    FellBack = "fell_back" in Connections => "the server spoke HTTP/1.1",
    /// The server allows fewer streams on a connection than were requested, so fewer requests were
    /// in flight.
    StreamsNotGranted = "streams_not_granted" in Connections,
    /// The machine dropped packets or connections because a table of the kernel was full or a limit
    /// was reached. Connections time out, and the server is not the cause. The caveat is only a
    /// warning if the kernel evicted connections from its full table of tracked connections,
    /// because an eviction by itself drops nothing.
    DroppedPackets = "dropped_packets" in Connections => "the machine dropped packets",
    /// Fewer connections than requested were open at the end of the window.
    Connections = "connections" in Connections,
    /// The kernel did not give TCP counters for the connections.
    TcpNotMeasured = "tcp_not_measured" in Connections,
    /// Connections arrived while the server's queue of new connections was full.
    AcceptQueueFull = "accept_queue_full" in Connections,
    /// The server or the generator had to retransmit segments.
    Retransmissions = "retransmissions" in Connections,
    /// The server writes a response in several parts, each of which becomes a separate segment.
    ManyWrites = "many_writes" in Connections,
    /// The server got faster within the measured window, or its JIT compiler used more than 20 % of
    /// its CPU time.
    StillWarming = "still_warming" in Levels => "the server was still warming up",
    /// The warm-up of this start reached its limit before the server was steady.
    WarmupLimit = "warmup_limit" in Levels,
    /// The server's CPU time could not be read, so its throughput alone decided when it was warm.
    WarmupWithoutCpu = "warmup_without_cpu" in Levels,
    /// Throughput fell within the measured window.
    Slowdown = "slowdown" in Levels,
    /// Throughput rose within the measured window.
    Speedup = "speedup" in Levels,
    /// Throughput went up and down between levels within the measured window.
    Cyclic = "cyclic" in Levels,
    /// CPU time per request changed its level within the measured window.
    CostLevels = "cost_levels" in Levels,
    /// At an offered rate, response times changed their level within the measured window.
    ResponseLevels = "response_levels" in Levels,
    /// The server got faster within the measured window. Only its last level is used.
    LastLevel = "last_level" in Levels,
    /// The server's use of CPU and memory could not be measured here.
    ServerNotObserved = "server_not_observed" in Server,
    /// Without a control group the server's CPU time is summed over its threads and processes, and
    /// memory is their anonymous and shared memory.
    NoCgroup = "no_cgroup" in Server,
    /// Threads or processes of the server ended before their counters were read, so the server's
    /// totals of these counters are unknown.
    CountersUnread = "counters_unread" in Server,
    /// Processes of the server left its control group, so the group's counters and limits do not
    /// cover them.
    LeftGroup = "left_group" in Server,
    /// A limit that the suite asks for could not be set here.
    LimitsNotSet = "limits_not_set" in Server,
    /// The kernel estimates the split of CPU time into user and system time from samples at its
    /// timer ticks. The sum is exact.
    TickAccounting = "tick_accounting" in Server,
    /// More threads of the server were busy than it has CPUs, so they waited for each other's time
    /// slices.
    MoreThreadsThanCpus = "more_threads_than_cpus" in Server,
    /// The server's threads had to wait for CPUs while other programs used them.
    ServerStarved = "server_starved" in Server,
    /// Servers were started with options that let profiles name their functions. These options may
    /// cost CPU time.
    StartedForProfiles = "started_for_profiles" in Server,
    /// Some counters of the server could not be read here; they are empty.
    NotMeasured = "not_measured" in Server,
    /// System calls per request were not counted; the message gives the reason.
    SyscallsNotMeasured = "syscalls_not_measured" in Server,
    /// The metrics of the server's runtime are not known; the message gives the reason.
    RuntimeNotMeasured = "runtime_not_measured" in Server,
    /// A requested probe could not run here; its values are empty.
    ProbeRefused = "probe_refused" in Server,
    /// Server and generator share CPUs, so each slows the other.
    SharedCpus = "shared_cpus" in Machine,
    /// Processes outside of the run used this machine's CPUs.
    Contaminated = "contaminated" in Machine,
    /// The machine failed during the step and stopped processes of the server, for example because
    /// it ran out of memory.
    MachineFailed = "machine_failed" in Machine => "the machine failed",
    /// Trials were re-run because during the first measurement another program used the machine,
    /// heat slowed it, or the generator did not run. Both measurements are kept.
    DoneAgain = "done_again" in Machine,
    /// The speed of the machine changed: a fixed piece of work took longer before some starts than
    /// before others.
    MachineChanged = "machine_changed" in Machine,
    /// The hypervisor gave the machine's CPUs to other virtual machines for part of the time.
    Steal = "steal" in Machine,
    /// A CPU of this machine was slowed for part of the time because it was too hot.
    ThermalThrottling = "thermal_throttling" in Machine,
    /// A server does not speak the protocol of a workload, so it has no numbers for that workload.
    NotServed = "not_served" in Comparisons,
    /// Every block (one pass over all subjects) started the subjects in the same order, so a drift
    /// of the machine biases every difference between them.
    FixedOrder = "fixed_order" in Comparisons,
    /// A subject's throughput rose or fell from repeat to repeat.
    Trend = "trend" in Comparisons,
    /// Servers were loaded in turns, and this server kept using CPU time during the turns of other
    /// servers.
    BusyInOthersTurns = "busy_in_others_turns" in Comparisons,
    /// Servers were loaded in turns. Requests took so long that many began in their own server's
    /// turn and ended in another server's turn.
    LongerThanTurns = "longer_than_turns" in Comparisons,
    /// Other servers were loaded, or were planned to be loaded, at the same time on the same CPUs.
    /// Throughput and times include the waits of the servers for each other.
    ConcurrentLoads = "at_once" in Comparisons
        => "the servers that were loaded at the same time were not those of most repeats",
    /// Servers were loaded at the same time on the same CPUs. These CPUs were idle at times, and
    /// this server made many context switches.
    IdleDuet = "idle_duet" in Comparisons
        => "the CPUs that the server shared with other servers were idle at times",
    /// The server was loaded alone here, but in turns with other servers in other repeats of this
    /// step.
    OutOfTurn = "out_of_turn" in Comparisons
        => "the server was loaded alone, while other repeats alternated between servers",
    /// With fewer than five repeats there are no confidence intervals. Ranges over the repeats are
    /// shown instead.
    FewRepeats = "few_repeats" in Comparisons,
    /// The run was resumed although subjects, machine or dyno had changed, so its parts are not one
    /// experiment.
    Mixed = "mixed" in Comparisons,
    /// Some trials were served by a process started after an interruption of the run.
    Resumed = "resumed" in Comparisons,
    /// Files appeared in a server's folder during the run, or the folder of its build's results has
    /// files that the build did not make. The server's starts may have read them.
    NewFiles = "new_files" in Comparisons,
    /// Some peaks are lower bounds: the server may have reached more at steps that are not valid
    /// for reasons outside of the server.
    PeakLowerBound = "peak_lower_bound" in Comparisons,
    /// Subjects of different kinds have nearly the same throughput: a shared resource may limit
    /// them.
    SameNumbers = "same_numbers" in Comparisons,
}

/// Group of caveats that the reference pages list together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaveatGroup {
    Responses,
    Load,
    Generator,
    Connections,
    Levels,
    Server,
    Machine,
    Comparisons,
}

impl CaveatGroup {
    pub const ALL: [CaveatGroup; 8] = [
        CaveatGroup::Responses,
        CaveatGroup::Load,
        CaveatGroup::Generator,
        CaveatGroup::Connections,
        CaveatGroup::Levels,
        CaveatGroup::Server,
        CaveatGroup::Machine,
        CaveatGroup::Comparisons,
    ];

    /// Returns the heading of the group.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            CaveatGroup::Responses => "Responses and failures",
            CaveatGroup::Load => "The load and its window",
            CaveatGroup::Generator => "The generator",
            CaveatGroup::Connections => "Protocols and connections",
            CaveatGroup::Levels => "Warm-up and levels",
            CaveatGroup::Server => "The server's counters and limits",
            CaveatGroup::Machine => "The machine",
            CaveatGroup::Comparisons => "Repeats and comparisons",
        }
    }

    /// Returns the codes of the group.
    pub fn codes(self) -> impl Iterator<Item = Code> {
        Code::ALL.iter().copied().filter(move |code| code.group() == self)
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        names::schema(
            "What a caveat is about, by the name in every report.",
            Code::ALL.iter().map(|code| (code.name(), code.meaning())),
        )
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A reason to distrust a number: its meaning for the reader, the evidence, and the action.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Caveat {
    pub code: Code,
    pub severity: Severity,
    /// The problem and its remedy, in sentences.
    pub message: String,
    /// Object with the numbers behind the message; its keys depend on the code.
    pub evidence: Value,
}

impl Caveat {
    pub(crate) fn new(code: Code, severity: Severity, message: String, evidence: Value) -> Caveat {
        Caveat { code, severity, message, evidence }
    }

    /// Adds the largest number of missing responses that the caveat explains. `None`: any number.
    pub(crate) fn with_explained_losses(mut self, requests: Option<u64>) -> Caveat {
        self.evidence[EXPLAINED_REQUESTS] = requests.into();
        self
    }

    /// Returns the largest number of missing responses that the caveat explains. `None`: any
    /// number.
    pub(crate) fn explained_losses(&self) -> Option<u64> {
        self.evidence[EXPLAINED_REQUESTS].as_u64()
    }

    /// Whether the caveat explains this number of missing responses.
    pub(crate) fn explains_losses(&self, requests: u64) -> bool {
        self.explained_losses().is_none_or(|explained| requests <= explained)
    }
}

/// Key in the evidence of caveats that explain a limited number of missing responses.
const EXPLAINED_REQUESTS: &str = "explained_requests";

/// Returns a caveat of severity `info` without evidence.
pub(crate) fn info(code: Code, message: impl Into<String>) -> Caveat {
    Caveat::new(code, Severity::Info, message.into(), json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/methodology/caveats.md repeats the meaning of each code word for word.
    #[test]
    fn methodology_explains_every_code() {
        let lines = include_str!("../../../docs/methodology/caveats.md").lines();
        let methodology = lines.map(str::trim).collect::<Vec<_>>().join(" ");
        for code in Code::ALL {
            let line = format!("- `{code}`: {}", code.meaning());
            assert!(methodology.contains(&line), "docs/methodology/caveats.md lacks: {line}");
        }
    }

    #[test]
    fn each_code_has_name_meaning_and_reason() {
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
