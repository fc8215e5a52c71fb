//! Erases what was withheld in one place from all others.

use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::Report;
use dyno_archive::plan::{Body, Request};
use serde_json::Value;

use super::bodies::change_texts;
use super::places::{names_of, own_texts_of};
use super::{MARK, MIN_CHARS, Secrets, is_telling};

impl Secrets {
    /// The text with a mark for each secret that cannot be an ordinary word: for requests and
    /// dyno's own texts.
    pub(super) fn erase(&self, text: &str) -> String {
        self.erase_all(text, is_telling)
    }

    /// The text with a mark for each secret, even if it is an ordinary word: for foreign texts.
    pub(super) fn erase_from_foreign(&self, text: &str) -> String {
        self.erase_all(text, |value| value.chars().count() >= MIN_CHARS)
    }

    /// Erases secrets from all names, in fields and in dyno's texts. No two names become one,
    /// because rows are found by name.
    pub(super) fn rename(&self, report: &mut Report) {
        let renamed = self.rename_all(names_of(report).map(|name| name.clone()).collect());
        for name in names_of(report) {
            if let Some((_, shown)) = renamed.iter().find(|(old, _)| old == name) {
                name.clone_from(shown);
            }
        }
        for (old, shown) in &renamed {
            own_texts_of(report).for_each(|text| *text = text.replace(old, shown));
        }
    }

    /// Names that hold a secret, each with the name shown instead. The longest come first, because
    /// a name may begin with another.
    pub(super) fn rename_all(&self, names: BTreeSet<String>) -> Vec<(String, String)> {
        let (kept, holding): (BTreeSet<_>, BTreeSet<_>) =
            names.into_iter().partition(|name| self.erase_from_name(name) == *name);
        let mut taken = kept;
        let mut renamed: Vec<_> = holding
            .into_iter()
            .map(|old| {
                let shown = free_name(self.erase_from_name(&old), &taken);
                taken.insert(shown.clone());
                (old, shown)
            })
            .collect();
        renamed.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        renamed
    }

    /// A name without secrets. It may end with the query of a URL, whose secrets are counted
    /// already: hence the fresh `Secrets`.
    fn erase_from_name(&self, name: &str) -> String {
        let mut fresh = Secrets::default();
        let shown = fresh.without_password(name);
        self.erase(&fresh.log(&shown))
    }

    pub(super) fn erase_from_request(&self, request: &mut Request) {
        let expect = &mut request.expect;
        let headers = request.headers.iter_mut().map(|(_, value)| value);
        let expected = expect.headers.iter_mut().filter_map(|(_, value)| value.as_mut());
        let pointers = expect.json.iter_mut().map(|(pointer, _)| pointer);
        let patterns = expect.headers_match.iter_mut().chain(&mut expect.json_match);
        let patterns = patterns.flat_map(|(name, pattern)| [name, pattern]);
        let texts = headers.chain(expected).chain(pointers).chain(patterns);
        let texts = texts.chain(&mut expect.body_contains).chain(&mut expect.body_matches);
        texts.chain([&mut request.path]).for_each(|text| *text = self.erase(text));
        expect.json.iter_mut().for_each(|(_, value)| self.erase_from_json(value));
        request.body.iter_mut().chain(&mut expect.body).for_each(|body| self.erase_from_body(body));
    }

    fn erase_from_body(&self, body: &mut Body) {
        body.0 = change_texts(&body.0, |text| self.erase(text));
    }

    pub(super) fn erase_from_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.erase(text),
            Value::Array(all) => all.iter_mut().for_each(|value| self.erase_from_json(value)),
            Value::Object(all) => {
                all.values_mut().for_each(|value| self.erase_from_json(value));
                *all =
                    std::mem::take(all).into_iter().map(|(key, v)| (self.erase(&key), v)).collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Counts by text, without secrets. Counts whose texts become equal are added.
    pub(super) fn erase_from_keys(&self, counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut shown = BTreeMap::new();
        for (text, count) in counts {
            let sum: &mut u64 =
                shown.entry(self.erase_from_foreign(&Secrets::default().log(text))).or_default();
            *sum = sum.saturating_add(*count);
        }
        shown
    }

    /// A text of dyno without secrets. If it begins with a text of `quoting`, that part is foreign
    /// after its first colon.
    pub(super) fn erase_from_own(&self, text: &str, quoting: &BTreeSet<String>) -> String {
        // In reverse order the longest of texts that begin alike comes first.
        let quotation = quoting.iter().rev().find(|quotation| text.starts_with(quotation.as_str()));
        let Some((own, foreign)) = quotation.and_then(|quotation| quotation.split_once(": "))
        else {
            return self.erase(text);
        };
        let after = &text[own.len() + 2 + foreign.len()..];
        self.erase(&format!("{own}: {}{after}", self.erase_from_foreign(foreign)))
    }

    fn erase_all(&self, text: &str, is_sought: impl Fn(&str) -> bool) -> String {
        let all = self.values.iter().chain(&self.parts).map(String::as_str);
        let mut sought: Vec<&str> = all.filter(|value| is_sought(value)).collect();
        sought.sort_by_key(|value| std::cmp::Reverse(value.len()));
        sought.into_iter().fold(text.to_string(), |text, value| without_word(&text, value))
    }
}

/// The name if it is free, else the first free one of `NAME 2`, `NAME 3`, ….
fn free_name(name: String, taken: &BTreeSet<String>) -> String {
    let numbered = (2_u64..).map(|n| format!("{name} {n}"));
    [name.clone()].into_iter().chain(numbered).find(|n| !taken.contains(n)).unwrap_or(name)
}

/// The text with [`MARK`] in place of a value. A value that may be an ordinary word is kept within
/// a longer word. Any other is replaced there too, because the colour code or escape before it may
/// end with a letter or digit.
fn without_word(text: &str, value: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let is_telling = is_telling(value);
    let is_within = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    while let Some(at) = rest.find(value) {
        let (before, after) = (&rest[..at], &rest[at + value.len()..]);
        let last = before.chars().next_back().or_else(|| shown.chars().next_back());
        let is_part = !is_telling && (is_within(last) || is_within(after.chars().next()));
        shown.extend([before, if is_part { value } else { MARK }]);
        rest = after;
    }
    shown + rest
}
