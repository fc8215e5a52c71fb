//! Defines a limiter: the resource that can limit a step, the confidence in the verdict, and the
//! observation that would refute it. Reports, explanations and reference pages use the same names.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The resource that limited a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// The server failed.
    Failure,
    /// The machine, which dropped packets.
    DroppedPackets,
    /// No server listens, as intended for the control.
    Refusal,
    /// Programs outside of the run, which used the CPUs.
    OtherPrograms,
    /// The load generator.
    Generator,
    /// The server's CPU, much of which its JIT compiler used.
    Jit,
    /// The server's CPU quota.
    CpuQuota,
    ServerCpu,
    /// One thread of a server that may use several CPUs.
    ServerThread,
    /// The server kept up with an open loop: the offered rate is the limit.
    OfferedRate,
    /// Too few requests are in flight to keep server or generator busy: each waits for its round
    /// trip.
    Concurrency,
    /// A service that the server needs.
    Backend,
    /// The server's CPU, much of which its garbage collector used.
    Gc,
    /// Nagle's algorithm, which waits for acknowledgements that are delayed.
    DelayedAck,
    /// The queue of connections that the server has not accepted yet.
    AcceptQueue,
    /// A network device without capacity left.
    Link,
    /// Memory that has to be read from a disk again.
    Memory,
    Disk,
    /// A lock that the server's threads wait for.
    Lock,
    /// Threads that sleep while requests wait for them.
    Workers,
    /// The server is idle although many requests wait: for a lock, a disk, a database, or an
    /// internal limit.
    Elsewhere,
    Unknown,
}

macro_rules! resources {
    ($($variant:ident = $name:literal,)+) => {
        impl Resource {
            pub const ALL: [Resource; 22] = [$(Resource::$variant,)+];

            /// Returns the name in results.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Resource::$variant => $name,)+ }
            }

            /// Returns the meaning, the observation, its consequence, the action and the
            /// refutation, as Markdown.
            #[must_use]
            pub const fn explanation(self) -> &'static str {
                match self {
                    $(Resource::$variant => {
                        include_str!(concat!("../../explain/limiters/", $name, ".md"))
                    })+
                }
            }

            /// Returns the meaning as a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                self.explanation().lines().next().unwrap_or_default()
            }
        }
    };
}

resources! {
    Failure = "failure",
    DroppedPackets = "dropped_packets",
    Refusal = "refusal",
    OtherPrograms = "other_programs",
    Generator = "generator",
    Jit = "jit",
    CpuQuota = "cpu_quota",
    ServerCpu = "server_cpu",
    ServerThread = "server_thread",
    OfferedRate = "offered_rate",
    Concurrency = "concurrency",
    Backend = "backend",
    Gc = "gc",
    DelayedAck = "delayed_ack",
    AcceptQueue = "accept_queue",
    Link = "link",
    Memory = "memory",
    Disk = "disk",
    Lock = "lock",
    Workers = "workers",
    Elsewhere = "elsewhere",
    Unknown = "unknown",
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

impl Resource {
    /// Returns the observation that would refute this limiter, as a sentence. Empty: the limiter is
    /// unknown.
    #[must_use]
    pub const fn refutation(self) -> &'static str {
        match self {
            Resource::Failure => {
                "Refuted if the same load gets correct responses from the same server."
            }
            Resource::DroppedPackets => {
                "Refuted if the step gives the same errors while the machine drops no packets."
            }
            Resource::Refusal => "Refuted if a connection to the port succeeds.",
            Resource::OtherPrograms => {
                "Refuted if throughput stays the same while no other program runs."
            }
            Resource::Generator => {
                "Refuted if throughput stays the same with more CPUs or threads for the generator."
            }
            Resource::Jit => {
                "Refuted if throughput stays the same after a longer warm-up, when the compiler is \
                 idle."
            }
            Resource::CpuQuota => "Refuted if throughput stays the same with a larger quota.",
            Resource::ServerCpu => {
                "Refuted if throughput stays the same with more CPUs, or grows with more requests \
                 in flight."
            }
            Resource::ServerThread => {
                "Refuted if throughput grows while the CPU time of the busiest thread stays the \
                 same."
            }
            Resource::OfferedRate => {
                "Refuted if throughput stays the same at a higher offered rate."
            }
            Resource::Concurrency => {
                "Refuted if throughput does not grow with more requests in flight."
            }
            Resource::Backend => "Refuted if throughput stays the same with a faster back end.",
            Resource::Gc => {
                "Refuted if throughput stays the same with more memory, although the garbage \
                 collector then works less."
            }
            Resource::DelayedAck => "Refuted if response times stay at 40 ms with TCP_NODELAY set.",
            Resource::AcceptQueue => {
                "Refuted if throughput stays the same with a longer backlog, or with keep-alive \
                 connections."
            }
            Resource::Link => "Refuted if throughput stays the same over a faster link.",
            Resource::Memory => "Refuted if throughput stays the same with more memory.",
            Resource::Disk => {
                "Refuted if throughput stays the same with the files in memory (tmpfs)."
            }
            Resource::Lock => {
                "Refuted if throughput grows with more requests in flight, or if no thread holds \
                 the lock while others wait."
            }
            Resource::Workers => {
                "Refuted if throughput stays the same with more workers, or grows with more \
                 requests in flight."
            }
            Resource::Elsewhere => "Refuted if throughput grows with more requests in flight.",
            Resource::Unknown => "",
        }
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
                resource == Resource::Unknown,
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
