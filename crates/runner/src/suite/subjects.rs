//! Checks the `[[subjects]]` of a suite. Each entry is a server under conditions, and becomes an
//! arm of the run.

use std::collections::BTreeMap;

use dyno_archive::plan::server_id;
use dyno_launch::environment::{Inherit, check_name};
use dyno_subject::limits_keys::{CheckedLimits, RawLimits};
use dyno_subject::paths::Name;
use dyno_subject::placeholders::PlaceholderScope;
use dyno_workload::mistake::{Mistake, mistake};
use serde::{Deserialize, Deserializer, de};

use super::experiment::Level;
use crate::revisions::RevisionFolders;

/// A subject's entry in the suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteSubject {
    /// Index of its entry in the suite, from 0.
    pub index: usize,
    pub name: String,
    pub variant: Option<String>,
    /// Revision whose definition is used. `None`: the present state of the files.
    pub revised: Option<RevisionFolders>,
    /// Name in reports; `None`: its name and variant.
    pub label: Option<String>,
    /// Its number on the scale of an experiment, if there is one.
    pub level: Option<f64>,
    /// Limits that override the limits of the suite.
    pub limits: CheckedLimits,
    /// Overrides `requests_per_connection` of the load.
    pub requests_per_connection: Option<u64>,
    pub env: BTreeMap<String, String>,
    /// Values for requests to it, by name.
    pub request: BTreeMap<String, String>,
    /// Variables of dyno's own environment that it inherits, besides the variables in its
    /// definition.
    pub inherit: Vec<Inherit>,
}

impl SuiteSubject {
    /// Returns the unique name of the server: `name`, `name/variant`, or `name@revision`.
    #[must_use]
    pub fn server(&self) -> String {
        let revision = self.revised.as_ref().map(|revised| &revised.revision);
        server_id(&self.name, self.variant.as_deref(), revision)
    }

    /// Returns the unique name of its arm.
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
    r#use: Name,
    variant: Option<String>,
    name: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    request: BTreeMap<String, Level>,
    #[serde(default)]
    inherit: Vec<Inherit>,
    cpus: Option<f64>,
    memory: Option<String>,
    files: Option<u64>,
    requests_per_connection: Option<u64>,
}

impl Table {
    fn check(self) -> Result<SuiteSubject, Mistake> {
        for (variable, value) in &self.env {
            let checked = check_name(variable).and_then(|()| PlaceholderScope::Start.check(value));
            checked.map_err(|message| mistake("env", message).with_child(variable.clone()))?;
        }
        if self.name.as_ref().is_some_and(|name| name.trim().is_empty()) {
            return Err(mistake(
                "name",
                "`name`: must not be blank, because reports use it\nhint: add letters, or leave \
                 `name` out",
            ));
        }
        let limits =
            RawLimits { cpus: self.cpus, cpuset: None, memory: self.memory, files: self.files };
        let Name(name) = self.r#use;
        Ok(SuiteSubject {
            index: 0,
            name,
            variant: self.variant,
            revised: None,
            label: self.name,
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
fn request_values(values: &BTreeMap<String, Level>) -> Result<BTreeMap<String, String>, Mistake> {
    let text = |(name, value): (&String, &Level)| {
        let locate = |m: Mistake| m.with_parent(name.clone()).with_parent("request");
        Ok((name.clone(), value.text(name).map_err(locate)?))
    };
    values.iter().map(text).collect()
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
    let Some(name) = subject_id else { return Ok(subjects) };
    let Some(subject) = subjects.iter().find(|subject| subject.id() == name) else {
        let ids: Vec<String> = subjects.iter().map(SuiteSubject::id).collect();
        let message = format!(
            "twin {name:?}: not one of the suite's subjects\nhint: use one of {}",
            ids.join(", ")
        );
        return Err(mistake("twin", message).with_parent("suite"));
    };
    let twin = SuiteSubject { label: Some(format!("{TWIN} of {name}")), ..subject.clone() };
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
                let r#use = Name::parse(name).map_err(de::Error::custom)?;
                Ok(RawSubject(Table {
                    r#use,
                    variant,
                    name: None,
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
