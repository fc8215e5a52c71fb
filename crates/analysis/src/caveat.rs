//! Defines caveats: machine-readable reasons to distrust a number. [`Code`] lists them all. Each
//! has a meaning, which reports show, and an explanation, which `dyno explain` prints.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
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

/// What a caveat is about, by the name in every report. The codes are the items of the files in
/// `verdict/caveats/`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code(&'static CaveatDefinition);

/// Everything about a code apart from the rules that find it.
#[derive(PartialEq, Eq)]
pub(crate) struct CaveatDefinition {
    pub(crate) name: &'static str,
    pub(crate) group: CaveatGroup,
    pub(crate) meaning: &'static str,
    /// The observation, its consequence and the action, as Markdown.
    pub(crate) explanation: &'static str,
    /// A short reason why a step is not valid. `None`: the code never makes a step invalid.
    pub(crate) reason: Option<&'static str>,
    /// The section of the methodology with more, as `page.md#section`.
    pub(crate) more: Option<&'static str>,
    pub(crate) properties: &'static [CodeProperty],
}

/// What follows from a caveat, besides its severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeProperty {
    /// The server responded incorrectly, ended, or violated its contract.
    ServerFault,
    /// Too many requests got no response.
    MissingResponses,
    /// Attributes all failures of a server, including incorrect responses, to another program.
    OtherProgramFailed,
    /// Attributes missing responses to a cause outside of the server and the generator's capacity.
    OutsideCause,
    /// States that the capacity of the generator was exhausted.
    GeneratorLimit,
    /// May show that missing responses are not the server's fault.
    ExcusesLosses,
    /// A load with the caveat misses the objective of a search.
    FailsObjective,
    /// Something outside of the run disturbed the trial, so it is measured again.
    CausesRerun,
    /// A generator that waits for a CPU waits for the server or for itself.
    OwnCpuWait,
    /// Other programs that use the CPUs can cause the caveat.
    CausedByPrograms,
    /// The machine and not the server may have limited throughput.
    LowersThroughput,
    /// Follows from connections that a control refused, as intended.
    FollowsRefusals,
    /// About waiting for CPUs. It does not apply to servers that are loaded at the same time on the
    /// same CPUs, because their times are not compared.
    AboutWaiting,
    /// Throughput had several levels.
    ThroughputLevels,
    /// The message ends with a text that dyno did not write, after the first colon.
    QuotesOthers,
}

impl Code {
    pub(crate) const fn new(definition: &'static CaveatDefinition) -> Code {
        Code(definition)
    }

    #[must_use]
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns the name in words, such as `few repeats`.
    #[must_use]
    pub fn in_words(self) -> String {
        self.name().replace('_', " ")
    }

    /// Returns the meaning without numbers, for the glossary of a report.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        self.0.meaning
    }

    /// Returns the group under which the reference pages list the code.
    #[must_use]
    pub const fn group(self) -> CaveatGroup {
        self.0.group
    }

    /// Returns the observation, its consequence and the action, as Markdown.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        self.0.explanation
    }

    /// Returns a short reason why a step is not valid. `None`: the code never makes a step invalid.
    #[must_use]
    pub const fn reason(self) -> Option<&'static str> {
        self.0.reason
    }

    /// Returns the section of the methodology with more about the code, as `page.md#section`.
    /// `None`: the meaning says all.
    #[must_use]
    pub const fn more(self) -> Option<&'static str> {
        self.0.more
    }

    #[must_use]
    pub fn has(self, property: CodeProperty) -> bool {
        self.0.properties.contains(&property)
    }

    /// Whether the code states that the capacity of the generator was exhausted.
    pub(crate) fn is_generator_limit(self) -> bool {
        self.has(CodeProperty::GeneratorLimit)
    }
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
    pub const ALL: &'static [CaveatGroup] = &[
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
        Code::all().filter(move |code| code.group() == self)
    }
}

impl JsonSchema for Code {
    fn schema_name() -> Cow<'static, str> {
        "Code".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        names::schema(
            "What a caveat is about, by the name in every report.",
            Code::all().map(|code| (code.name(), code.meaning())),
        )
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
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

    #[test]
    fn each_code_has_name_meaning_and_reason() {
        for code in Code::all() {
            let same_name = Code::all().filter(|other| other.name() == code.name());
            assert_eq!(same_name.count(), 1, "{code} twice");
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
