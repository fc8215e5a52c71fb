//! Names what limited a step. Each limiter has a file: its definition, and the rules that find it.
//! The rules are tried in a fixed order, and the first that applies decides. The doc comment of
//! each rule states the condition under which the rule applies.

mod accept_queue;
mod backend;
mod concurrency;
mod cpu_quota;
mod delayed_ack;
mod disk;
mod dropped_packets;
mod elsewhere;
mod failure;
mod gc;
mod generator;
mod idle;
mod jit;
mod link;
mod lock;
mod memory;
mod offered_rate;
mod open_files;
mod other_programs;
mod refusal;
mod server_cpu;
mod server_thread;
mod unknown;
mod workers;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Serialize;
use serde_json::Value;

use crate::backend_use::BackendUse;
use crate::load::LoadResult;
use crate::machine::MachineResult;
use crate::names;
use crate::server::ServerUse;

pub(super) use idle::{filling_interrupt_s, has_nearly_full_thread};
pub(super) use offered_rate::met_rate;

macro_rules! limiters {
    ($($variant:ident = $name:ident,)+) => {
        /// The resource that limited a step.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Resource { $($variant,)+ }

        impl Resource {
            pub const ALL: &'static [Resource] = &[$(Resource::$variant,)+];

            /// Returns the name in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Resource::$variant => stringify!($name),)+ }
            }

            /// Returns the meaning, the observation, its consequence, the action and the
            /// refutation, as Markdown.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Resource::$variant => {
                        include_str!(
                            concat!("../../../explain/limiters/", stringify!($name), ".md")
                        )
                    })+
                }
            }

            const fn definition(self) -> &'static LimiterDefinition {
                match self { $(Resource::$variant => &$name::DEFINITION,)+ }
            }
        }
    };
}

// Each limiter, in the order of the reference page, with the name of its file.
limiters! {
    Failure = failure,
    DroppedPackets = dropped_packets,
    Refusal = refusal,
    OtherPrograms = other_programs,
    Generator = generator,
    Jit = jit,
    CpuQuota = cpu_quota,
    ServerCpu = server_cpu,
    ServerThread = server_thread,
    OfferedRate = offered_rate,
    Concurrency = concurrency,
    Backend = backend,
    Gc = gc,
    DelayedAck = delayed_ack,
    AcceptQueue = accept_queue,
    OpenFiles = open_files,
    Link = link,
    Memory = memory,
    Disk = disk,
    Lock = lock,
    Workers = workers,
    Elsewhere = elsewhere,
    Unknown = unknown,
}

/// A rule of a limiter. `None`: the rule does not apply.
type LimiterRule = fn(&LimiterInputs<'_>) -> Option<Limiter>;

/// The first rules, in the order in which they are tried.
const RULES: &[LimiterRule] = &[
    dropped_packets::limiter,
    // Requests hang on connections that the server cannot accept, so this rule comes before the
    // rule for a server that does not respond.
    open_files::limiter,
    failure::limiter,
    refusal::limiter,
    other_programs::on_generator_cpus,
    generator::stopped,
    generator::limiter,
    // A server that keeps up with its load is limited neither by its quota nor by its runtime, so
    // this rule comes before the rules for both.
    offered_rate::limiter,
    jit::limiter,
    gc::limiter,
    cpu_quota::limiter,
    concurrency::polling,
    server_cpu::limiter,
    server_thread::limiter,
    delayed_ack::limiter,
    accept_queue::limiter,
    memory::limiter,
    backend::limiter,
    link::limiter,
];

/// The rules after [`RULES`]. They need an idle server.
const RULES_OF_IDLE_SERVERS: &[LimiterRule] = &[
    disk::limiter,
    lock::limiter,
    workers::limiter,
    concurrency::sleep,
    cpu_quota::throttled_bursts,
    elsewhere::limiter,
    concurrency::limiter,
];

/// Returns the limiter of a step, from the first rule that applies.
#[must_use]
pub fn limiter(
    load: &LoadResult,
    server: &ServerUse,
    backends: &[BackendUse],
    machine: &MachineResult,
) -> Limiter {
    let inputs = &LimiterInputs { load, server, backends, machine };
    let try_all = |rules: &[LimiterRule]| rules.iter().find_map(|rule| rule(inputs));
    try_all(RULES)
        .or_else(|| {
            let limiter = idle::weaken_by_interrupts(try_all(RULES_OF_IDLE_SERVERS)?, server);
            Some(backend::weaken_by_shared_cpus(limiter, server, backends))
        })
        .or_else(|| other_programs::on_server_cpus(inputs))
        .unwrap_or_else(|| idle::weaken_by_interrupts(unknown::limiter(inputs), server))
}

/// Inputs of the rules.
#[derive(Clone, Copy)]
struct LimiterInputs<'a> {
    load: &'a LoadResult,
    server: &'a ServerUse,
    backends: &'a [BackendUse],
    machine: &'a MachineResult,
}

/// What reports and curves know about a limiter.
struct LimiterDefinition {
    /// Words for the limiter of a server, such as `its CPU`.
    words: &'static str,
    /// The observation that would refute the limiter, as a sentence. Empty: the limiter is unknown.
    refutation: &'static str,
    /// Name of the queue, for the beginning of a sentence. `None`: the limiter is no queue.
    queue: Option<&'static str>,
    curve: CurveRule,
}

/// How the other steps of a server revise a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CurveRule {
    /// They do not revise it.
    Kept,
    /// The server had CPU time left. The other steps show whether requests queue.
    Idle,
    /// With low confidence, the limiter is refuted if requests do not queue.
    Guess,
    /// The limiter serves a fixed number of requests at a time, so growing throughput refutes it.
    FixedWidth,
    /// The limiter serves any number of requests at a time. Flat throughput shows the number.
    AnyWidth,
    /// Requests queue for it. Growing throughput refutes it, and flat throughput shows the number
    /// of requests that it serves at a time.
    Queue,
    /// A full CPU, which may also spin.
    Cpu,
}

impl Resource {
    /// Returns the meaning as a sentence.
    #[must_use]
    pub fn meaning(self) -> &'static str {
        self.explanation().lines().next().unwrap_or_default()
    }

    /// Returns words for the limiter of a server, such as `its CPU`.
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        self.definition().words
    }

    /// Returns the observation that would refute this limiter, as a sentence. Empty: the limiter is
    /// unknown.
    #[must_use]
    pub const fn refutation(self) -> &'static str {
        self.definition().refutation
    }

    /// Returns the name of a queue, for the beginning of a sentence. `None`: the limiter is no
    /// queue.
    pub(super) const fn queue_name(self) -> Option<&'static str> {
        self.definition().queue
    }

    pub(super) const fn curve_rule(self) -> CurveRule {
        self.definition().curve
    }
}

impl JsonSchema for Resource {
    fn schema_name() -> Cow<'static, str> {
        "Resource".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        names::schema(
            "The resource that limited a step.",
            Resource::ALL.iter().map(|resource| (resource.name(), resource.meaning())),
        )
    }
}

/// Confidence in a verdict, the highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    High,
    Medium,
    Low,
}

impl Confidence {
    /// Returns the lower of two confidences.
    #[must_use]
    pub(super) fn at_most(self, highest: Confidence) -> Confidence {
        // The enum lists the highest confidence first.
        self.max(highest)
    }

    /// Returns the text to follow a limiter's name. It is empty if the limiter is certain or
    /// unknown.
    #[must_use]
    pub const fn mark(self, resource: Resource) -> &'static str {
        match (self, resource) {
            (_, Resource::Unknown) | (Confidence::High, _) => "",
            (Confidence::Medium, _) => " (likely)",
            (Confidence::Low, _) => " (a guess)",
        }
    }

    /// Returns the claim that a resource is the limit, with the confidence as its first word.
    pub(super) fn qualify(self, resource: Resource, claim: &str) -> String {
        let adverb = match (self, resource) {
            (_, Resource::Unknown) | (Confidence::High, _) => return claim.into(),
            (Confidence::Medium, _) => "Probably",
            (Confidence::Low, _) => "Perhaps",
        };
        let mut letters = claim.chars();
        let first = letters.next().map(|letter| letter.to_ascii_lowercase());
        format!("{adverb} {}{}", first.map(String::from).unwrap_or_default(), letters.as_str())
    }
}

/// The verdict on what limited a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Limiter {
    pub resource: Resource,
    pub confidence: Confidence,
    /// The claim. If the confidence is not high, its first word is the confidence.
    pub sentence: String,
    /// The limit and the observations that show it, without the confidence.
    #[serde(skip)]
    claim: String,
    pub evidence: Value,
    /// The observation that would refute the limiter, as a sentence. Empty: the limiter is unknown.
    pub refutation: &'static str,
}

impl Limiter {
    /// Returns a limiter. Its claim begins with the name of the limit.
    #[must_use]
    pub fn new(
        resource: Resource,
        confidence: Confidence,
        claim: String,
        evidence: Value,
    ) -> Limiter {
        let sentence = confidence.qualify(resource, &claim);
        let refutation = resource.refutation();
        Limiter { resource, confidence, sentence, claim, evidence, refutation }
    }

    /// Returns the same limiter with at most this confidence. `doubt`: the reason, appended to the
    /// claim.
    pub(crate) fn weaken(&self, highest: Confidence, doubt: &str) -> Limiter {
        let confidence = self.confidence.at_most(highest);
        let claim = format!("{}{doubt}", self.claim);
        Limiter::new(self.resource, confidence, claim, self.evidence.clone())
    }

    /// The limit and the observations that show it, without the confidence.
    pub(super) fn claim(&self) -> &str {
        &self.claim
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn resource_name_equals_its_json() {
        for resource in Resource::ALL {
            assert_eq!(json!(resource), json!(resource.name()));
        }
    }

    #[test]
    fn each_known_resource_has_refutation() {
        for resource in Resource::ALL {
            assert_eq!(
                resource.refutation().is_empty(),
                *resource == Resource::Unknown,
                "{resource:?}"
            );
        }
    }

    #[test]
    fn mark_is_empty_for_certain_and_unknown_limiters() {
        let marks = |resource| {
            [Confidence::High, Confidence::Medium, Confidence::Low]
                .map(|confidence| confidence.mark(resource))
        };
        assert_eq!(marks(Resource::ServerCpu), ["", " (likely)", " (a guess)"]);
        assert_eq!(marks(Resource::Unknown), ["", "", ""]);
    }

    #[test]
    fn confidence_is_first_word_of_claim() {
        let claim = "A disk: it was full.";
        let in_words = |confidence: Confidence, resource| confidence.qualify(resource, claim);
        assert_eq!(in_words(Confidence::High, Resource::Disk), claim);
        assert_eq!(in_words(Confidence::Medium, Resource::Disk), "Probably a disk: it was full.");
        assert_eq!(in_words(Confidence::Low, Resource::Disk), "Perhaps a disk: it was full.");
        assert_eq!(in_words(Confidence::Low, Resource::Unknown), claim);
    }
}
