//! Checks the `[[subjects]]` of a suite. Each entry names a server and the conditions under which
//! it is measured. The run has one or more arms (configurations to compare) per entry.

use std::collections::BTreeMap;

use dyno_config::mistake::{Mistake, mistake};
use dyno_launch::environment::{Inherit, check_name};
use dyno_model::plan::server_id;
use dyno_subject::limits_keys::{CheckedLimits, RawLimits};
use dyno_subject::paths::Name;
use dyno_subject::placeholders::PlaceholderScope;
use serde::{Deserialize, Deserializer, de};

use super::values::NumberOrText;
use crate::revision_folders::RevisionFolders;

/// A subject's entry in the suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteSubject {
    /// Index of the entry in the suite, from 0.
    pub index: usize,
    pub name: String,
    pub variant: Option<String>,
    /// Revision whose definition is used. `None`: the present state of the files.
    pub revised: Option<RevisionFolders>,
    /// Name in reports; `None`: its name and variant.
    pub label: Option<String>,
    /// The subject's value of the factor of a dose experiment, as a number. `None`: no such
    /// experiment.
    pub level: Option<f64>,
    /// Limits that override the limits of the suite.
    pub limits: CheckedLimits,
    /// Overrides `requests_per_connection` of the load.
    pub requests_per_connection: Option<u64>,
    pub env: BTreeMap<String, String>,
    /// Values for the placeholders in requests to the subject, by name.
    pub request: BTreeMap<String, String>,
    /// Variables of dyno's environment that the subject inherits, in addition to the variables in
    /// its definition.
    pub inherit: Vec<Inherit>,
}

impl SuiteSubject {
    /// Returns the unique name of the server: `name`, `name/variant`, or `name@revision`.
    #[must_use]
    pub fn server(&self) -> String {
        let revision = self.revised.as_ref().map(|revised| &revised.revision);
        server_id(&self.name, self.variant.as_deref(), revision)
    }

    /// Returns the names by which the command line selects the entry.
    #[must_use]
    pub fn names(&self) -> [String; 3] {
        [self.name.clone(), self.server(), self.id()]
    }

    /// Returns the unique name of the arm that the entry becomes.
    #[must_use]
    pub fn id(&self) -> String {
        self.label.clone().unwrap_or_else(|| self.server())
    }
}

/// A subject's entry: its name, or a table.
#[derive(Debug)]
pub(super) struct RawSubject(Table);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "use")]
    subject: Name,
    variant: Option<String>,
    /// Name in reports.
    #[serde(rename = "name")]
    label: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    request: BTreeMap<String, NumberOrText>,
    #[serde(default)]
    inherit: Vec<Inherit>,
    cpus: Option<f64>,
    memory: Option<String>,
    files: Option<u64>,
    requests_per_connection: Option<u64>,
}

impl Table {
    /// Checks the entry of a subject.
    fn check(self) -> Result<SuiteSubject, Mistake> {
        for (variable, value) in &self.env {
            let checked = check_name(variable).and_then(|()| PlaceholderScope::Start.check(value));
            checked.map_err(|message| mistake("env", message).with_child(variable.clone()))?;
        }
        if self.label.as_ref().is_some_and(|label| label.trim().is_empty()) {
            return Err(mistake(
                "name",
                "`name`: must not be blank, because reports use it\nhint: add letters, or remove \
                 `name`",
            ));
        }
        let limits =
            RawLimits { cpus: self.cpus, cpuset: None, memory: self.memory, files: self.files };
        let Name(name) = self.subject;
        Ok(SuiteSubject {
            index: 0,
            name,
            variant: self.variant,
            revised: None,
            label: self.label,
            level: None,
            limits: limits.check()?,
            requests_per_connection: check_requests(self.requests_per_connection)?,
            env: self.env,
            request: request_values(&self.request)?,
            inherit: self.inherit,
        })
    }
}

/// Returns the values that requests to a subject use, as text.
fn request_values(
    values: &BTreeMap<String, NumberOrText>,
) -> Result<BTreeMap<String, String>, Mistake> {
    let mut texts = BTreeMap::new();
    for (name, value) in values {
        let locate = |m: Mistake| m.with_parent(name.clone()).with_parent("request");
        texts.insert(name.clone(), value.text(name).map_err(locate)?);
    }
    Ok(texts)
}

/// Checks the number of requests after which a connection is replaced.
pub(super) fn check_requests(requests: Option<u64>) -> Result<Option<u64>, Mistake> {
    match requests {
        Some(0) => {
            Err(mistake("requests_per_connection", "`requests_per_connection`: must be at least 1"))
        }
        _ => Ok(requests),
    }
}

/// Checks the entries of a suite.
pub(super) fn check(raw: Vec<RawSubject>) -> Result<Vec<SuiteSubject>, Mistake> {
    let entry = |(i, RawSubject(table)): (usize, RawSubject)| {
        let checked =
            table.check().map_err(|mistake| mistake.with_parent(i).with_parent("subjects"))?;
        Ok(SuiteSubject { index: i, ..checked })
    };
    raw.into_iter().enumerate().map(entry).collect()
}

/// Name of the arm that repeats a subject.
pub(super) const TWIN: &str = "twin";

/// Adds a subject a second time under another name. Any difference between the two is noise.
pub(super) fn with_twin(
    mut subjects: Vec<SuiteSubject>,
    subject_id: Option<&str>,
) -> Result<Vec<SuiteSubject>, Mistake> {
    let Some(subject_id) = subject_id else { return Ok(subjects) };
    let Some(subject) = subjects.iter().find(|subject| subject.id() == subject_id) else {
        let ids: Vec<String> = subjects.iter().map(SuiteSubject::id).collect();
        let message = format!(
            "twin {subject_id:?}: not one of the suite's subjects\nhint: use one of {}",
            ids.join(", ")
        );
        return Err(mistake("twin", message).with_parent("suite"));
    };
    let twin = SuiteSubject { label: Some(format!("{TWIN} of {subject_id}")), ..subject.clone() };
    subjects.push(twin);
    Ok(subjects)
}

impl<'de> Deserialize<'de> for RawSubject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RawSubject;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a subject's name, or a table with `use`")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<RawSubject, E> {
                let (name, variant) = match name.split_once('/') {
                    Some((name, variant)) => (name, Some(variant.to_string())),
                    None => (name, None),
                };
                let subject = Name::parse(name).map_err(de::Error::custom)?;
                Ok(RawSubject(Table {
                    subject,
                    variant,
                    label: None,
                    env: BTreeMap::new(),
                    request: BTreeMap::new(),
                    inherit: Vec::new(),
                    cpus: None,
                    memory: None,
                    files: None,
                    requests_per_connection: None,
                }))
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<RawSubject, M::Error> {
                Table::deserialize(de::value::MapAccessDeserializer::new(map)).map(RawSubject)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}
