//! Removes secrets from reports, because reports are shared, and a suite may send a person's token.
//!
//! A value is secret if its name says so: the name of a header, query parameter, field or setting.
//! Settings with ambiguous names are withheld, too. The archive treats environment variables in the
//! same way. Passwords in URLs are secret. Logs, checks, comments and bodies are searched for such
//! names.
//!
//! Each secret is then erased everywhere else, whole and in parts. In foreign text, such as logs, a
//! secret is erased even if it is an ordinary word. In requests and dyno's own sentences a secret
//! is erased only if it cannot be an ordinary word. The archive keeps all secrets, because the run
//! could not be repeated without them.

mod arm_names;
mod bodies;
mod commands;
mod erase;
mod members;
mod name;
mod plan_texts;
mod report_texts;
mod scan;
mod suite;
mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use dyno_analysis::Report;
use dyno_analysis::compare::ComparisonResult;
use dyno_config::secret::{
    holds_secret, is_credential, is_distinctive, may_be_secret, without_escapes,
};
use dyno_model::plan::{Plan, Request};

use arm_names::{arm_names, compared_arm_names};
use plan_texts::{plan_arm_names, plan_texts, plan_workload_names};
use report_texts::{
    addresses, comparison_names, comparison_sentences, evidence_texts, foreign_texts, json_texts,
    own_texts, quoting_texts, text_counts, user_texts, workload_names,
};
use value::is_harmless;

/// Text that replaces a secret.
pub const MARK: &str = "(withheld)";

/// Number of distinct values that were withheld.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld(pub usize);

/// A report without secrets.
#[derive(Debug)]
pub struct RedactedReport<'a> {
    pub report: Cow<'a, Report>,
    pub withheld: Withheld,
}

/// Removes the secrets from a report.
#[must_use]
pub fn redact(report: &Report) -> RedactedReport<'_> {
    let mut secrets = Secrets::default();
    let mut redacted = report.clone();
    secrets.collect(&mut redacted);
    secrets.erase_from_report(&mut redacted);
    withhold_ids(report, &mut redacted);
    let report = if secrets.count == 0 { Cow::Borrowed(report) } else { Cow::Owned(redacted) };
    RedactedReport { report, withheld: Withheld(secrets.count) }
}

/// Withholds the ids of workloads with a withheld value. A value of few characters could be guessed
/// from the id and the other values.
fn withhold_ids(report: &Report, redacted: &mut Report) {
    let workloads = report.run.workloads.iter().zip(&redacted.run.workloads);
    for (id, (before, after)) in redacted.run.ids.workloads.iter_mut().zip(workloads) {
        if before != after {
            *id = None;
        }
    }
}

/// A plan without secrets, and its secrets, to erase them from texts about the plan.
pub struct RedactedPlan {
    secrets: Secrets,
    /// The plan, with its requests, settings and source withheld.
    plan: Plan,
    /// The same plan as JSON, with its secret fields withheld. [`RedactedPlan::into_json`] erases
    /// the other occurrences of these secrets.
    json: serde_json::Value,
}

impl fmt::Debug for RedactedPlan {
    /// Formats the number of secrets, without the plan and the secrets themselves.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedactedPlan").field("withheld", &self.withheld()).finish_non_exhaustive()
    }
}

impl RedactedPlan {
    /// Removes the secrets from a plan.
    ///
    /// # Errors
    /// The plan cannot be written as JSON.
    pub fn new(plan: &Plan) -> serde_json::Result<RedactedPlan> {
        let mut secrets = Secrets::default();
        let mut plan = plan.clone();
        let requests = plan.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
        requests.for_each(|request| secrets.request(request));
        for conditions in plan.arms.iter_mut().map(|arm| &mut arm.conditions) {
            let settings = conditions.env.iter_mut().chain(&mut conditions.request);
            settings.for_each(|(name, value)| *value = secrets.setting(name, value));
        }
        plan.suite.source = secrets.source(&plan.suite.source);
        plan_texts(&mut plan).for_each(|text| *text = secrets.log(text));
        plan_workload_names(&mut plan).for_each(|name| drop(secrets.log(name)));
        plan_arm_names(&mut plan).for_each(|name| drop(secrets.log(name)));
        secrets.erase_from_plan(&mut plan);
        let mut json = serde_json::to_value(&plan)?;
        for member in ["subjects", "arms", "backends"] {
            secrets.json_fields("", &mut json[member]);
        }
        Ok(RedactedPlan { secrets, plan, json })
    }

    /// Returns the plan to describe. Pass the description to [`RedactedPlan::text`], because other
    /// texts of the plan may still have secrets.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Erases the secrets of the plan from a text about it, and secrets that can be recognised from
    /// the text alone.
    #[must_use]
    pub fn text(&self, text: &str) -> String {
        self.secrets.erase(&self::text(text))
    }

    /// Erases the secrets of the plan from a JSON value about it, as from a text.
    pub fn erase_from_json(&self, value: &mut serde_json::Value) {
        json_texts(value).into_iter().for_each(|text| *text = self.text(text));
        self.secrets.erase_from_json(value);
    }

    /// Returns the plan as JSON without secrets.
    #[must_use]
    pub fn into_json(self) -> serde_json::Value {
        let mut json = self.json;
        self.secrets.erase_from_json(&mut json);
        // The source is foreign text, so even values that could be ordinary words are erased.
        let source = self.secrets.erase_from_foreign(&self.plan.suite.source);
        json["suite"]["source"] = self.secrets.erase(&source).into();
        json
    }

    /// Returns the number of distinct secrets of the plan.
    #[must_use]
    pub fn withheld(&self) -> Withheld {
        Withheld(self.secrets.count)
    }
}

/// Removes the secrets of two runs from their comparison. `reports`: the reports of the runs.
#[must_use]
pub fn comparison(compared: &ComparisonResult, reports: [&Report; 2]) -> ComparisonResult {
    let mut secrets = Secrets::default();
    reports.into_iter().for_each(|report| secrets.collect(&mut report.clone()));
    let mut redacted = compared.clone();
    let mut renamed = secrets.rename_in(comparison_names(&mut redacted).collect());
    renamed.extend(secrets.rename_in(compared_arm_names(&mut redacted).collect()));
    for text in comparison_sentences(&mut redacted) {
        let text_with_new_names = renamed
            .iter()
            .fold(text.clone(), |text, (old_name, new_name)| text.replace(old_name, new_name));
        let searched = secrets.log(&text_with_new_names);
        *text = secrets.erase(&searched);
    }
    redacted
}

/// Removes the secrets that can be recognised from the text alone. Output outside of reports needs
/// this function, such as progress in a CI log or the result of a load.
#[must_use]
pub fn text(text: &str) -> String {
    Secrets::default().log(text)
}

impl Secrets {
    /// Collects and withholds every secret that is recognised by its name or its form.
    fn collect(&mut self, report: &mut Report) {
        let run = &mut report.run;
        // The command is searched first. There, all headers except standard ones
        // (`is_plain_header`) are withheld. The same values are then recognised in the headers of
        // requests.
        run.command = self.command(&run.command);
        let requests = run.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
        requests.for_each(|request| self.request(request));
        for config in report.trials.iter_mut().map(|trial| &mut trial.load.config) {
            config.url = self.text(&config.url);
            config.requests_mixed.iter_mut().for_each(|mixed| mixed.path = self.text(&mixed.path));
        }
        for subject in &mut report.subjects {
            let checks =
                subject.checks.iter_mut().flat_map(|c| c.asked.iter_mut().chain(&mut c.expected));
            checks.for_each(|text| *text = self.text(text));
            for (name, value) in &mut subject.conditions.request {
                value.iter_mut().for_each(|value| *value = self.setting(name, value));
            }
        }
        let source = &mut report.run.suite_source;
        *source = self.source(source);
        foreign_texts(report).for_each(|text| *text = self.log(text));
        workload_names(report).for_each(|name| drop(self.log(name)));
        arm_names(report).for_each(|name| drop(self.log(name)));
        for counts in text_counts(report) {
            counts.keys().for_each(|text| drop(self.log(text)));
        }
    }

    /// Withholds the secrets of a request and of its expected response.
    fn request(&mut self, request: &mut Request) {
        request.headers.iter_mut().for_each(|(name, value)| self.header(name, value));
        request.path = self.text(&request.path);
        let expect = &mut request.expect;
        for (name, value) in &mut expect.headers {
            value.iter_mut().for_each(|value| self.header(name, value));
        }
        expect.headers_match.iter_mut().for_each(|(name, pattern)| self.pattern(name, pattern));
        expect.json_match.iter_mut().for_each(|(pointer, pattern)| self.pattern(pointer, pattern));
        expect.json.iter_mut().for_each(|(pointer, value)| self.json_fields(pointer, value));
        let patterns = request.extract.iter_mut().filter_map(|e| e.matches.as_mut());
        for text in expect.body_contains.iter_mut().chain(&mut expect.body_matches).chain(patterns)
        {
            *text = self.fields(text);
        }
        for body in request.body.iter_mut().chain(&mut expect.body) {
            body.0 = self.bytes(&body.0);
        }
    }

    /// Erases the collected secrets from the names, texts and requests of a plan.
    fn erase_from_plan(&mut self, plan: &mut Plan) {
        plan_texts(plan).for_each(|text| *text = self.erase_from_foreign(text));
        self.rename_in(plan_workload_names(plan).collect());
        self.rename_in(plan_arm_names(plan).collect());
        let suite_name = self.log(&plan.suite.name);
        plan.suite.name = self.erase(&suite_name);
        let requests = plan.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
        requests.for_each(|request| self.erase_from_request(request));
    }

    /// Erases the collected secrets from the whole report.
    fn erase_from_report(&mut self, report: &mut Report) {
        user_texts(report).for_each(|text| *text = self.erase_from_foreign(text));
        foreign_texts(report).for_each(|text| *text = self.erase_from_foreign(text));
        self.rename(report);
        // Names are replaced first, because some differ only in their secrets.
        own_texts(report).for_each(|text| *text = self.log(text));
        let quoting = quoting_texts(report);
        own_texts(report).for_each(|text| *text = self.erase_from_own(text, &quoting));
        evidence_texts(report).for_each(|text| *text = self.erase(text));
        addresses(report).for_each(|text| *text = self.erase(text));
        let subjects = report.subjects.iter_mut();
        for value in subjects.flat_map(|s| s.conditions.request.values_mut()).flatten() {
            *value = self.erase(value);
        }
        let requests = report.run.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
        requests.for_each(|request| self.erase_from_request(request));
        text_counts(report).for_each(|counts| *counts = self.erase_from_keys(counts));
    }
}

/// Returns the note of a report on withheld values. `None`: no value was withheld.
#[must_use]
pub fn withheld_note(withheld: Withheld) -> Option<String> {
    let subject = match withheld {
        Withheld(0) => return None,
        Withheld(1) => "One value that looks like a secret is".to_string(),
        Withheld(n) => format!("{n} values that look like secrets are"),
    };
    Some(format!(
        "{subject} removed from this report and replaced by {MARK}. To run the suite again, enter \
         your values instead. The file run.json in the run's folder has the original values."
    ))
}

/// The secrets of a report, collected to erase them everywhere.
#[derive(Default)]
struct Secrets {
    /// Number of distinct secrets.
    count: usize,
    values: Vec<String>,
    /// Parts of values that servers may log without the rest, such as TOKEN of `Bearer TOKEN`.
    parts: Vec<String>,
    /// Values whose names may be, but need not be, names of secrets.
    ambiguous: BTreeSet<String>,
    /// Names of request values (`{request.NAME}`) that occur in a withheld value.
    request_values: BTreeSet<String>,
}

impl Secrets {
    /// Withholds a value that is or may be a secret, and returns the text in its place. An
    /// ambiguous value is erased elsewhere only if it cannot be an ordinary word.
    fn withhold_if(&mut self, is_secret: bool, may_be_secret: bool, value: &str) -> String {
        if is_secret || may_be_secret {
            self.note_placeholders(value);
        }
        match (is_secret, may_be_secret) {
            (true, _) => self.withhold(value),
            (false, true) if !value.is_empty() && value != MARK => {
                self.count +=
                    usize::from(!self.is_known(value) && self.ambiguous.insert(value.into()));
                // A value that cannot be a word is safe to erase elsewhere.
                if is_distinctive(value) {
                    self.parts.push(value.into());
                }
                MARK.into()
            }
            _ => value.into(),
        }
    }

    /// Withholds an environment variable or a request value if its name, its content or its use in
    /// a request shows that it is a secret.
    fn setting(&mut self, name: &str, value: &str) -> String {
        let is_named = may_be_secret(name) && !is_harmless(name, value);
        match is_named || self.request_values.contains(name) || holds_secret(value) {
            true => self.withhold(value),
            false => self.fields(value),
        }
    }

    /// Records the names of request values in a withheld text.
    fn note_placeholders(&mut self, withheld: &str) {
        let names =
            withheld.split("{request.").skip(1).filter_map(|remainder| remainder.split_once('}'));
        self.request_values.extend(names.map(|(name, _)| name.to_string()));
    }

    /// Whether a value was withheld before, by itself or as a part of another value.
    fn is_known(&self, value: &str) -> bool {
        let mut known_values = self.values.iter().chain(&self.parts);
        known_values.any(|known| known == value) || self.ambiguous.contains(value)
    }

    /// Records a secret and its parts, and returns [`MARK`]. An empty value is not a secret.
    fn withhold(&mut self, value: &str) -> String {
        if value.is_empty() || value == MARK {
            return value.into();
        }
        if !self.values.iter().any(|v| v == value) {
            self.count += usize::from(!self.is_known(value));
            self.values.push(value.into());
        }
        // The word after a scheme, such as `Basic`, is a secret even if it looks like a word.
        let after_scheme = match value.trim().split_once(' ') {
            Some((_, word)) if is_credential(value) => Some(word.trim()),
            _ => None,
        };
        let is_part = |part: &&str| is_distinctive(part) || after_scheme == Some(*part);
        let parts = value.split([' ', ';', ',', '=', '"']).filter(is_part);
        self.parts.extend(parts.map(String::from));
        // Servers may log the decoded value.
        let decoded = without_escapes(value);
        self.parts.extend(Some(decoded).filter(|decoded| decoded != value));
        MARK.into()
    }
}

#[cfg(test)]
mod tests;
