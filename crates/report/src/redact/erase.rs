//! Erases collected secrets from all places where they occur again.

use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::Report;
use dyno_config::secret::{MIN_ERASED_CHARS, is_distinctive};
use dyno_model::plan::{Body, Extraction, ExtractionSource, Request};
use serde_json::Value;

use super::arm_names::arm_names;
use super::bodies::change_texts;
use super::report_texts::{evidence_texts, own_texts, workload_names};
use super::{MARK, Secrets};

impl Secrets {
    /// Replaces each secret that cannot be an ordinary word. Use it for requests and dyno's own
    /// texts.
    pub(super) fn erase(&self, text: &str) -> String {
        self.erase_all(text, is_distinctive)
    }

    /// Replaces each secret, even an ordinary word. Use it for foreign texts.
    pub(super) fn erase_from_foreign(&self, text: &str) -> String {
        self.erase_all(text, |value| value.chars().count() >= MIN_ERASED_CHARS)
    }

    /// Erases secrets from all names, in fields and in dyno's texts. Distinct names stay distinct,
    /// because rows are found by name.
    pub(super) fn rename(&self, report: &mut Report) {
        let workloads = self.rename_in(workload_names(report).collect());
        let arms = self.rename_in(arm_names(report).collect());
        for (old_name, new_name) in workloads.iter().chain(&arms) {
            own_texts(report).for_each(|text| *text = text.replace(old_name, new_name));
            evidence_texts(report).for_each(|text| *text = text.replace(old_name, new_name));
        }
    }

    /// Erases secrets from names, and returns the replaced names as [`Secrets::rename_all`] does.
    pub(super) fn rename_in(&self, names: Vec<&mut String>) -> Vec<(String, String)> {
        let renamed = self.rename_all(names.iter().map(|name| (**name).clone()).collect());
        for name in names {
            if let Some((_, new_name)) = renamed.iter().find(|(old_name, _)| old_name == name) {
                name.clone_from(new_name);
            }
        }
        renamed
    }

    /// Returns the names with a secret, each with its new name. The longest come first, because a
    /// name may begin with another.
    pub(super) fn rename_all(&self, names: BTreeSet<String>) -> Vec<(String, String)> {
        let (unchanged, names_with_secrets): (BTreeSet<_>, BTreeSet<_>) =
            names.into_iter().partition(|name| self.erase_from_name(name) == *name);
        let mut used = unchanged;
        let mut renamed: Vec<_> = names_with_secrets
            .into_iter()
            .map(|old_name| {
                let new_name = unused_name(self.erase_from_name(&old_name), &used);
                used.insert(new_name.clone());
                (old_name, new_name)
            })
            .collect();
        renamed.sort_by_key(|(old_name, _)| std::cmp::Reverse(old_name.len()));
        renamed
    }

    /// Erases secrets from a name, which may end with the query of a URL. New `Secrets` search the
    /// name, so that its secrets are not counted twice.
    fn erase_from_name(&self, name: &str) -> String {
        let mut uncounted = Secrets::default();
        let name_without_query_secrets = uncounted.without_password(name);
        self.erase(&uncounted.log(&name_without_query_secrets))
    }

    /// Erases secrets from a request and its expected response.
    pub(super) fn erase_from_request(&self, request: &mut Request) {
        let expect = &mut request.expect;
        let headers = request.headers.iter_mut().map(|(_, value)| value);
        let expected = expect.headers.iter_mut().filter_map(|(_, value)| value.as_mut());
        let pointers = expect.json.iter_mut().map(|(pointer, _)| pointer);
        let patterns = expect.headers_match.iter_mut().chain(&mut expect.json_match);
        let patterns = patterns.flat_map(|(name, pattern)| [name, pattern]);
        let extracted = request.extract.iter_mut().flat_map(extraction_texts);
        let texts = headers.chain(expected).chain(pointers).chain(patterns).chain(extracted);
        let texts = texts.chain(&mut expect.body_contains).chain(&mut expect.body_matches);
        texts.chain([&mut request.path]).for_each(|text| *text = self.erase(text));
        expect.json.iter_mut().for_each(|(_, value)| self.erase_from_json(value));
        request.body.iter_mut().chain(&mut expect.body).for_each(|body| self.erase_from_body(body));
    }

    /// Erases secrets from the texts in a body.
    fn erase_from_body(&self, body: &mut Body) {
        body.0 = change_texts(&body.0, |text| self.erase(text));
    }

    /// Erases secrets from the texts and keys of a JSON value.
    pub(super) fn erase_from_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.erase(text),
            Value::Array(items) => items.iter_mut().for_each(|value| self.erase_from_json(value)),
            Value::Object(members) => {
                members.values_mut().for_each(|value| self.erase_from_json(value));
                *members = std::mem::take(members)
                    .into_iter()
                    .map(|(key, v)| (self.erase(&key), v))
                    .collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Erases secrets from the keys of counts. Counts whose keys become equal are added.
    pub(super) fn erase_from_keys(&self, counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut redacted = BTreeMap::new();
        for (text, count) in counts {
            let sum: &mut u64 =
                redacted.entry(self.erase_from_foreign(&Secrets::default().log(text))).or_default();
            *sum = sum.saturating_add(*count);
        }
        redacted
    }

    /// Erases secrets from a text by dyno. `quoting`: beginnings of such texts in which dyno quotes
    /// a foreign text after the first colon. Only the quoted part is erased as foreign.
    pub(super) fn erase_from_own(&self, text: &str, quoting: &BTreeSet<String>) -> String {
        // In reverse order, the longest of several texts with the same beginning comes first.
        let quotation = quoting.iter().rev().find(|quotation| text.starts_with(quotation.as_str()));
        let Some((subject_text, foreign)) =
            quotation.and_then(|quotation| quotation.split_once(": "))
        else {
            return self.erase(text);
        };
        let after = &text[subject_text.len() + 2 + foreign.len()..];
        self.erase(&format!("{subject_text}: {}{after}", self.erase_from_foreign(foreign)))
    }

    /// Replaces the values and parts for which `is_selected` is true, the longest first.
    fn erase_all(&self, text: &str, is_selected: impl Fn(&str) -> bool) -> String {
        let values = self.values.iter().chain(&self.parts).map(String::as_str);
        let mut selected: Vec<&str> = values.filter(|value| is_selected(value)).collect();
        selected.sort_by_key(|value| std::cmp::Reverse(value.len()));
        selected.into_iter().fold(text.to_string(), |text, value| replace_value(&text, value))
    }
}

/// Returns the texts of an extraction that may contain secrets: its JSON pointer and expression.
fn extraction_texts(extraction: &mut Extraction) -> impl Iterator<Item = &mut String> {
    let pointer = match &mut extraction.source {
        ExtractionSource::Json(pointer) => Some(pointer),
        ExtractionSource::Body | ExtractionSource::Header(_) => None,
    };
    pointer.into_iter().chain(&mut extraction.matches)
}

/// Returns the name if it is unused, else the first unused one of `NAME 2`, `NAME 3`, ….
fn unused_name(name: String, used: &BTreeSet<String>) -> String {
    let numbered = (2_u64..).map(|n| format!("{name} {n}"));
    [name.clone()].into_iter().chain(numbered).find(|n| !used.contains(n)).unwrap_or(name)
}

/// Replaces a value by [`MARK`]. A value that may be an ordinary word is kept within a longer word.
/// Any other value is replaced within a longer word, too, because a colour code or escape before
/// the value may end with a letter or digit.
fn replace_value(text: &str, value: &str) -> String {
    let mut redacted = String::with_capacity(text.len());
    let mut remainder = text;
    let is_distinctive = is_distinctive(value);
    let is_word_char = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    while let Some(index) = remainder.find(value) {
        let (before, after) = (&remainder[..index], &remainder[index + value.len()..]);
        let last = before.chars().next_back().or_else(|| redacted.chars().next_back());
        let is_part_of_word =
            !is_distinctive && (is_word_char(last) || is_word_char(after.chars().next()));
        redacted.extend([before, if is_part_of_word { value } else { MARK }]);
        remainder = after;
    }
    redacted + remainder
}
