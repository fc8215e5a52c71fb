//! Keeps secrets out of reports: reports are shared, and a suite may send somebody's token.
//!
//! A value is secret if the name of its header, query parameter, field or suite setting says so (of
//! a setting also one that may be secret by its name, as the archive's environment has it).
//! Passwords in URLs are secrets, too. Texts of any form are searched for such names: logs, checks,
//! comments, bodies. Each secret is then erased everywhere else, whole and in parts: from foreign
//! text (logs) even if it is an ordinary word, from requests and dyno's own sentences only if it
//! cannot be one. The archive keeps all secrets: without them the run could not be repeated.

mod bodies;
mod commands;
mod erase;
mod places;
mod scan;
mod suite;
mod value;

use std::borrow::Cow;
use std::collections::BTreeSet;

use dyno_analysis::Report;
use dyno_analysis::compare::ComparisonResult;
use dyno_archive::plan::{Plan, Request};
use dyno_archive::secret::{
    holds_secret, is_credential, is_secret, may_be_secret, without_escapes,
};

use places::{
    addresses_of, counts_of, foreign_texts_of, names_in_comparison, names_of, own_texts_of,
    quoting_texts_of, sentences_in_comparison, written_texts_of,
};

/// The text in place of a secret.
pub const MARK: &str = "(withheld)";

/// Shorter values are not erased elsewhere: they would match ordinary words.
const MIN_CHARS: usize = 6;

/// Shorter values are not erased from requests and dyno's own sentences, whose words and codes must
/// stay.
const MIN_TELLING_CHARS: usize = 8;

/// Number of different values that were withheld.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld(pub usize);

/// A report that may be shown to others.
#[derive(Debug)]
pub struct RedactedReport<'a> {
    pub report: Cow<'a, Report>,
    pub withheld: Withheld,
}

/// The report without secrets.
#[must_use]
pub fn redact(report: &Report) -> RedactedReport<'_> {
    let mut secrets = Secrets::default();
    let mut shared = report.clone();
    secrets.collect(&mut shared);
    secrets.erase_from_report(&mut shared);
    let report = if secrets.found == 0 { Cow::Borrowed(report) } else { Cow::Owned(shared) };
    RedactedReport { report, withheld: Withheld(secrets.found) }
}

/// A plan as JSON without secrets, and their number.
///
/// # Errors
/// It has no form in JSON.
pub fn plan(plan: &Plan) -> serde_json::Result<(serde_json::Value, Withheld)> {
    let mut secrets = Secrets::default();
    let mut shared = plan.clone();
    let requests = shared.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
    requests.for_each(|request| secrets.request(request));
    for conditions in shared.arms.iter_mut().map(|arm| &mut arm.conditions) {
        let settings = conditions.env.iter_mut().chain(&mut conditions.request);
        settings.for_each(|(name, value)| *value = secrets.setting(name, value));
    }
    shared.suite.source = secrets.source(&shared.suite.source);
    let mut json = serde_json::to_value(&shared)?;
    for member in ["subjects", "arms", "backends"] {
        secrets.json_fields("", &mut json[member]);
    }
    secrets.erase_from_json(&mut json);
    // A text of the user: values that could be ordinary words are erased there, too.
    let shown = secrets.erase_from_foreign(&shared.suite.source);
    json["suite"]["source"] = secrets.erase(&shown).into();
    Ok((json, Withheld(secrets.found)))
}

/// The comparison without the secrets of its runs, whose reports are given.
#[must_use]
pub fn comparison(compared: &ComparisonResult, reports: [&Report; 2]) -> ComparisonResult {
    let mut secrets = Secrets::default();
    reports.into_iter().for_each(|report| secrets.collect(&mut report.clone()));
    let mut shared = compared.clone();
    let renamed =
        secrets.rename_all(names_in_comparison(&mut shared).map(|name| name.clone()).collect());
    for name in names_in_comparison(&mut shared) {
        if let Some((_, shown)) = renamed.iter().find(|(old, _)| old == name) {
            name.clone_from(shown);
        }
    }
    for text in sentences_in_comparison(&mut shared) {
        let named =
            renamed.iter().fold(text.clone(), |text, (old, shown)| text.replace(old, shown));
        let searched = secrets.log(&named);
        *text = secrets.erase(&searched);
    }
    shared
}

/// A text without what says itself that it is a secret, for output that is kept but is no report:
/// progress in a log of CI, the result of a load.
#[must_use]
pub fn text(text: &str) -> String {
    Secrets::default().log(text)
}

impl Secrets {
    /// Withholds every secret where it stands with what says that it is one.
    fn collect(&mut self, report: &mut Report) {
        let run = &mut report.run;
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
        let run = &mut report.run;
        run.command = self.command(&run.command);
        run.suite_source = self.source(&run.suite_source);
        foreign_texts_of(report).for_each(|text| *text = self.log(text));
        names_of(report).for_each(|name| drop(self.log(name)));
        for counts in counts_of(report) {
            counts.keys().for_each(|text| drop(self.log(text)));
        }
    }

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
        for text in expect.body_contains.iter_mut().chain(&mut expect.body_matches) {
            *text = self.fields(text);
        }
        for body in request.body.iter_mut().chain(&mut expect.body) {
            body.0 = self.bytes(&body.0);
        }
    }

    /// Erases from all of a report what was withheld in one place.
    fn erase_from_report(&mut self, report: &mut Report) {
        written_texts_of(report).for_each(|text| *text = self.erase_from_foreign(text));
        foreign_texts_of(report).for_each(|text| *text = self.erase_from_foreign(text));
        self.rename(report);
        // After the names, which differ in their secrets alone.
        own_texts_of(report).for_each(|text| *text = self.log(text));
        let quoting = quoting_texts_of(report);
        own_texts_of(report).for_each(|text| *text = self.erase_from_own(text, &quoting));
        addresses_of(report).for_each(|text| *text = self.erase(text));
        let subjects = report.subjects.iter_mut();
        for value in subjects.flat_map(|s| s.conditions.request.values_mut()).flatten() {
            *value = self.erase(value);
        }
        let requests = report.run.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
        requests.for_each(|request| self.erase_from_request(request));
        counts_of(report).for_each(|counts| *counts = self.erase_from_keys(counts));
    }
}

/// A report's note on withheld values; `None`: there are none.
#[must_use]
pub fn withheld_note(withheld: Withheld) -> Option<String> {
    let what = match withheld {
        Withheld(0) => return None,
        Withheld(1) => "One value that looks like a secret is".to_string(),
        Withheld(n) => format!("{n} values that look like secrets are"),
    };
    Some(format!(
        "{what} left out of this report and replaced by {MARK}. To run the suite again, put your \
         values there. The run's own folder (run.json) has them."
    ))
}

#[derive(Default)]
struct Secrets {
    found: usize,
    values: Vec<String>,
    /// Parts of values, which servers may log alone: of `Bearer TOKEN` and `name=value; …`.
    parts: Vec<String>,
    /// Values that may be secrets by their names.
    perhaps: BTreeSet<String>,
    /// Names of request values (`{request.NAME}`) that are a part of a withheld value.
    request_values: BTreeSet<String>,
}

impl Secrets {
    /// A value that is a secret, or may be one. One that may be is withheld where it stands, and
    /// elsewhere only if it cannot be an ordinary word.
    fn withhold_if(&mut self, is: bool, may_be: bool, value: &str) -> String {
        if is || may_be {
            self.note_placeholders(value);
        }
        match (is, may_be) {
            (true, _) => self.withhold(value),
            (false, true) if !value.is_empty() && value != MARK => {
                self.found +=
                    usize::from(!self.is_known(value) && self.perhaps.insert(value.into()));
                // A value that cannot be a word is safe to erase elsewhere.
                if is_telling(value) {
                    self.parts.push(value.into());
                }
                MARK.into()
            }
            _ => value.into(),
        }
    }

    /// A variable of an environment, or a value of requests, withheld if its name, its content or
    /// its use in a request says that it is a secret.
    fn setting(&mut self, name: &str, value: &str) -> String {
        let is = is_secret(name) || self.request_values.contains(name);
        match is || may_be_secret(name) || holds_secret(value) {
            true => self.withhold(value),
            false => self.fields(value),
        }
    }

    /// Remembers the request values that a withheld text has.
    fn note_placeholders(&mut self, withheld: &str) {
        let names = withheld.split("{request.").skip(1).filter_map(|rest| rest.split_once('}'));
        self.request_values.extend(names.map(|(name, _)| name.to_string()));
    }

    /// Whether a value was withheld before, alone or within another one.
    fn is_known(&self, value: &str) -> bool {
        let mut all = self.values.iter().chain(&self.parts);
        all.any(|known| known == value) || self.perhaps.contains(value)
    }

    fn withhold(&mut self, value: &str) -> String {
        if value.is_empty() || value == MARK {
            return value.into();
        }
        if !self.values.iter().any(|v| v == value) {
            self.found += usize::from(!self.is_known(value));
            self.values.push(value.into());
        }
        // The word of credentials is a secret however it looks: that of `Basic` may have no digit.
        let word = value
            .trim()
            .split_once(' ')
            .filter(|_| is_credential(value))
            .map(|(_, word)| word.trim());
        let is_part = |part: &&str| is_telling(part) || word == Some(*part);
        let parts = value.split([' ', ';', ',', '=', '"']).filter(is_part);
        self.parts.extend(parts.map(String::from));
        // Servers log what they decoded.
        let decoded = without_escapes(value);
        self.parts.extend(Some(decoded).filter(|decoded| decoded != value));
        MARK.into()
    }
}

/// Whether a value is unlikely to be an ordinary word: long, with letters and digits.
fn is_telling(value: &str) -> bool {
    let has = |is: fn(&char) -> bool| value.chars().any(|c| is(&c));
    value.chars().count() >= MIN_TELLING_CHARS
        && has(char::is_ascii_digit)
        && has(|c| c.is_alphabetic())
}

#[cfg(test)]
mod tests;
