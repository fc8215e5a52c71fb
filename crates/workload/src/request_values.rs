//! Values of requests that depend on the subject: `{request.NAME}` in a workload, and a value of
//! NAME for each subject.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::plan::{Body, Expect, OWN_VALUE, Request, Workload};
use dyno_archive::secret::{is_secret, may_be_secret};
use serde_json::Value;

use crate::template::{DoubledBraces, fill_request_values};

/// The values of a subject, by name.
pub type Values = BTreeMap<String, String>;

/// Returns the workload for a subject with these values. A name without a value is kept as written;
/// doubled braces are literal.
#[must_use]
pub fn fill_placeholders(workload: &Workload, values: &Values) -> Workload {
    let mut workload = workload.clone();
    let value = |name: &str| values.get(name).map(|value| value.as_bytes().to_vec());
    for request in &mut workload.requests {
        sent_texts(request).into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Stays, &value));
        });
        // Expectations have no other placeholders.
        let expected = expected_texts(&mut request.expect);
        expected.into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::IsItself, &value));
        });
    }
    workload
}

/// Returns the names for which the workload needs values.
#[must_use]
pub fn names(workload: &Workload) -> BTreeSet<String> {
    let mut workload = workload.clone();
    let found = std::cell::RefCell::new(BTreeSet::new());
    for request in &mut workload.requests {
        let note = |name: &str| {
            found.borrow_mut().insert(name.to_string());
            None
        };
        let sent = sent_texts(request);
        sent.into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Stays, &note));
        });
        let expected = expected_texts(&mut request.expect);
        expected.into_iter().for_each(|text| {
            text.map(&|bytes| fill_request_values(bytes, DoubledBraces::Stays, &note));
        });
    }
    found.into_inner()
}

/// Returns a value in the place of a secret, such as a header `Authorization`, whose own name does
/// not suggest one: its name, and the place. Reports detect secrets by these names only.
#[must_use]
pub fn secret_by_place(workload: &Workload) -> Option<(String, String)> {
    let of = |place: &str, text: &str| {
        occurrences(text).find_map(|(before, name)| {
            let key = [place, key_before(before)].into_iter().find(|key| is_secret(key))?;
            let says_so = may_be_secret(name);
            (!says_so).then(|| (name.to_string(), key.to_string()))
        })
    };
    workload.requests.iter().find_map(|request| {
        let body = request.body.iter().map(|Body(bytes)| ("", String::from_utf8_lossy(bytes)));
        let headers = request.headers.iter().map(|(name, value)| (&**name, value.into()));
        let mut all = [("", (&request.path).into())].into_iter().chain(headers).chain(body);
        all.find_map(|(place, text)| of(place, &text))
    })
}

/// Returns each `{request.NAME}` of a text: the text before it, and NAME.
fn occurrences(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices(OWN_VALUE).filter_map(|(at, begins)| {
        let name = &text[at + begins.len()..];
        // Doubled braces are literal.
        let before = Some(&text[..at]).filter(|before| !before.ends_with('{'))?;
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

/// A part of a request in which a value may stand.
enum Text<'a> {
    Words(&'a mut String),
    Bytes(&'a mut Body),
}

impl Text<'_> {
    fn map(self, change: &dyn Fn(&[u8]) -> Vec<u8>) {
        match self {
            Text::Words(words) => {
                // Names, values and the text between them are whole characters.
                *words = String::from_utf8(change(words.as_bytes()))
                    .expect("strings in a string make a string");
            }
            Text::Bytes(Body(bytes)) => *bytes = change(bytes),
        }
    }
}

/// Returns the texts of a request that may hold placeholders.
fn sent_texts(request: &mut Request) -> Vec<Text<'_>> {
    let Request { name: _, weight: _, method: _, path, headers, body, expect: _ } = request;
    let mut all = vec![Text::Words(path)];
    all.extend(headers.iter_mut().map(|(_, value)| Text::Words(value)));
    all.extend(body.iter_mut().map(Text::Bytes));
    all
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
    let mut all: Vec<Text<'_>> = body.iter_mut().map(Text::Bytes).collect();
    all.extend(headers.iter_mut().filter_map(|(_, value)| value.as_mut()).map(Text::Words));
    all.extend(headers_match.iter_mut().chain(json_match).map(|(_, value)| Text::Words(value)));
    all.extend(body_sha256.iter_mut().chain(body_contains).chain(body_matches).map(Text::Words));
    json.iter_mut().for_each(|(_, value)| strings_of(value, &mut all));
    all
}

fn strings_of<'a>(value: &'a mut Value, all: &mut Vec<Text<'a>>) {
    match value {
        Value::String(text) => all.push(Text::Words(text)),
        Value::Array(values) => values.iter_mut().for_each(|value| strings_of(value, all)),
        Value::Object(values) => values.iter_mut().for_each(|(_, value)| strings_of(value, all)),
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
    fn values_stand_wherever_a_request_says_their_names() {
        let workload = workload();
        assert_eq!(names(&workload), BTreeSet::from(["kind".to_string(), "size".to_string()]));
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
    fn secrets_are_known_by_their_place() {
        let of = |path: &str, header: (&str, &str), body: &str| {
            let mut workload = crate::workloads::plaintext();
            let request = &mut workload.requests[0];
            request.path = path.into();
            request.headers = vec![(header.0.into(), header.1.into())];
            request.body = Some(Body(body.into()));
            secret_by_place(&workload).map(|(name, place)| format!("{name} in {place}"))
        };
        let plain = ("X-Kind", "{request.kind}");
        assert_eq!(of("/{request.size}?n={request.n}", plain, "{\"a\": \"{request.a}\"}"), None);
        let basic = ("Authorization", "Basic {request.who}");
        assert_eq!(of("/", basic, "").as_deref(), Some("who in Authorization"));
        assert_eq!(
            of("/?author={request.a}&api-token={request.k}", plain, "").as_deref(),
            Some("k in api-token")
        );
        assert_eq!(
            of("/", plain, "{\"password\": \"{request.p}\"}").as_deref(),
            Some("p in password")
        );
        assert_eq!(of("/", ("Authorization", "{request.token}"), ""), None, "its own name says so");
    }

    #[test]
    fn names_without_a_value_stay() {
        let left = fill_placeholders(&workload(), &Values::new());
        assert_eq!(left.requests[0].path, workload().requests[0].path);
        assert_eq!(left.requests[0].expect.json, workload().requests[0].expect.json);
        assert!(names(&crate::workloads::plaintext()).is_empty());
    }
}
