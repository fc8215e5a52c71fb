//! Replaces `{request.NAME}` in a workload by the value that each subject has for NAME.

use std::collections::{BTreeMap, BTreeSet};

use dyno_config::secret::{is_secret, may_be_secret};
use dyno_model::plan::{Body, Expect, Request, SUBJECT_VALUE_PREFIX, Workload};
use serde_json::Value;

use crate::template::{DoubledBraces, fill_request_values};

/// The values of a subject, by name.
pub type Values = BTreeMap<String, String>;

/// Returns the workload for a subject with these values. A placeholder without a value stays as
/// written. Doubled braces are literal.
#[must_use]
pub fn fill_placeholders(workload: &Workload, values: &Values) -> Workload {
    let mut workload = workload.clone();
    let value = |name: &str| values.get(name).map(|value| value.as_bytes().to_vec());
    for request in &mut workload.requests {
        sent_texts(request).into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Keep, &value));
        });
        // Expectations have no other placeholders, so no later step removes doubled braces.
        let expected = expected_texts(&mut request.expect);
        expected.into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Unescape, &value));
        });
    }
    workload
}

/// Returns the names for which the workload needs values.
#[must_use]
pub fn required_names(workload: &Workload) -> BTreeSet<String> {
    let mut workload = workload.clone();
    // No placeholder is replaced: `add_name` only collects the names.
    let names = std::cell::RefCell::new(BTreeSet::new());
    for request in &mut workload.requests {
        let add_name = |name: &str| {
            names.borrow_mut().insert(name.to_string());
            None
        };
        let sent = sent_texts(request);
        sent.into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Keep, &add_name));
        });
        let expected = expected_texts(&mut request.expect);
        expected.into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Keep, &add_name));
        });
    }
    names.into_inner()
}

/// Finds a value that is used as a secret, such as in a header `Authorization`, although its name
/// does not suggest a secret. Returns the name of the value, and the header or key. A report would
/// show this value, because reports mask a value only if its name suggests a secret.
#[must_use]
pub fn find_misnamed_secret(workload: &Workload) -> Option<(String, String)> {
    let find = |header: &str, text: &str| {
        occurrences(text).find_map(|(before, name)| {
            let key = [header, key_before(before)].into_iter().find(|key| is_secret(key))?;
            (!may_be_secret(name)).then(|| (name.to_string(), key.to_string()))
        })
    };
    workload.requests.iter().find_map(|request| {
        // Each text with the name of its header, which is empty for other parts.
        let body = request.body.iter().map(|Body(bytes)| ("", String::from_utf8_lossy(bytes)));
        let headers = request.headers.iter().map(|(name, value)| (&**name, value.into()));
        let mut texts = [("", (&request.path).into())].into_iter().chain(headers).chain(body);
        texts.find_map(|(header, text)| find(header, &text))
    })
}

/// Returns each `{request.NAME}` of a text: the text before it, and NAME.
fn occurrences(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(SUBJECT_VALUE_PREFIX).filter_map(|(start, prefix)| {
        let name = &text[start + prefix.len()..];
        // Doubled braces are literal.
        let before = Some(&text[..start]).filter(|before| !before.ends_with('{'))?;
        Some((before, &name[..name.find('}')?]))
    })
}

/// Returns the key of the value that follows a text: `token` after `?token=`, `"token": "` and
/// `token: Bearer `.
fn key_before(text: &str) -> &str {
    let value = text.rfind(['=', ':']).map_or("", |at| &text[..at]);
    let key = value.trim_end_matches(['"', '\'', ' ']);
    key.rsplit(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c)).next().unwrap_or_default()
}

/// A part of a request that may have placeholders.
enum Text<'a> {
    String(&'a mut String),
    Bytes(&'a mut Body),
}

impl Text<'_> {
    fn map(self, change: &dyn Fn(&[u8]) -> Vec<u8>) {
        match self {
            Text::String(string) => {
                // Names, values and the text between them are whole characters.
                *string = String::from_utf8(change(string.as_bytes()))
                    .expect("replaced strings should keep the text UTF-8");
            }
            Text::Bytes(Body(bytes)) => *bytes = change(bytes),
        }
    }
}

/// Returns the texts of a request that may have placeholders.
fn sent_texts(request: &mut Request) -> Vec<Text<'_>> {
    let Request { name: _, weight: _, method: _, path, headers, body, expect: _, extract: _ } =
        request;
    let mut texts = vec![Text::String(path)];
    texts.extend(headers.iter_mut().map(|(_, value)| Text::String(value)));
    texts.extend(body.iter_mut().map(Text::Bytes));
    texts
}

/// Returns the texts of an expectation.
fn expected_texts(expect: &mut Expect) -> Vec<Text<'_>> {
    let Expect {
        status: _,
        body,
        headers,
        headers_match,
        body_sha256,
        body_contains,
        body_matches,
        json,
        json_match,
    } = expect;
    let mut texts: Vec<Text<'_>> = body.iter_mut().map(Text::Bytes).collect();
    texts.extend(headers.iter_mut().filter_map(|(_, value)| value.as_mut()).map(Text::String));
    texts.extend(headers_match.iter_mut().chain(json_match).map(|(_, value)| Text::String(value)));
    texts.extend(body_sha256.iter_mut().chain(body_contains).chain(body_matches).map(Text::String));
    json.iter_mut().for_each(|(_, value)| add_strings(value, &mut texts));
    texts
}

/// Adds all strings of a JSON value to the texts.
fn add_strings<'a>(value: &'a mut Value, texts: &mut Vec<Text<'a>>) {
    match value {
        Value::String(text) => texts.push(Text::String(text)),
        Value::Array(values) => values.iter_mut().for_each(|value| add_strings(value, texts)),
        Value::Object(values) => values.iter_mut().for_each(|(_, value)| add_strings(value, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload() -> Workload {
        let mut workload = crate::workloads::plaintext();
        let request = &mut workload.requests[0];
        request.path = "/{request.size}/{seq}/{{request.not}}".into();
        request.headers = vec![("X-Kind".into(), "{request.kind}".into())];
        request.body = Some(Body(b"\xFF{fill:{request.size}}".to_vec()));
        request.expect.body = None;
        request.expect.json = vec![("/n".into(), serde_json::json!([{"a": "{request.size}"}]))];
        request.expect.body_contains = Some("{{request.not}}".into());
        workload
    }

    #[test]
    fn fill_placeholders_replaces_names_in_all_texts() {
        let workload = workload();
        assert_eq!(
            required_names(&workload),
            BTreeSet::from(["kind".to_string(), "size".to_string()])
        );
        let values =
            Values::from([("size".to_string(), "64".to_string()), ("kind".into(), "ä".into())]);
        let filled = fill_placeholders(&workload, &values);
        let request = &filled.requests[0];
        assert_eq!(request.path, "/64/{seq}/{{request.not}}");
        assert_eq!(request.headers[0].1, "ä");
        assert_eq!(request.body, Some(Body(b"\xFF{fill:64}".to_vec())));
        assert_eq!(request.expect.json[0].1, serde_json::json!([{"a": "64"}]));
        assert_eq!(request.expect.body_contains.as_deref(), Some("{request.not}"));
    }

    #[test]
    fn find_misnamed_secret_detects_header_and_key() {
        let find = |path: &str, header: (&str, &str), body: &str| {
            let mut workload = crate::workloads::plaintext();
            let request = &mut workload.requests[0];
            request.path = path.into();
            request.headers = vec![(header.0.into(), header.1.into())];
            request.body = Some(Body(body.into()));
            find_misnamed_secret(&workload).map(|(name, key)| format!("{name} in {key}"))
        };
        let plain = ("X-Kind", "{request.kind}");
        assert_eq!(find("/{request.size}?n={request.n}", plain, "{\"a\": \"{request.a}\"}"), None);
        let basic = ("Authorization", "Basic {request.who}");
        assert_eq!(find("/", basic, "").as_deref(), Some("who in Authorization"));
        assert_eq!(
            find("/?author={request.a}&api-token={request.k}", plain, "").as_deref(),
            Some("k in api-token")
        );
        assert_eq!(
            find("/", plain, "{\"password\": \"{request.p}\"}").as_deref(),
            Some("p in password")
        );
        assert_eq!(
            find("/", ("Authorization", "{request.token}"), ""),
            None,
            "the name suggests a secret"
        );
    }

    #[test]
    fn placeholder_without_value_stays() {
        let filled = fill_placeholders(&workload(), &Values::new());
        assert_eq!(filled.requests[0].path, workload().requests[0].path);
        assert_eq!(filled.requests[0].expect.json, workload().requests[0].expect.json);
        assert!(required_names(&crate::workloads::plaintext()).is_empty());
    }
}
