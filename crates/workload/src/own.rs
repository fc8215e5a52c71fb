//! What requests have of the subject to which they are sent: `{request.NAME}` in a workload, a value for NAME with each subject.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::plan::{Body, Expect, Request, Workload};
use dyno_archive::secret::{is_perhaps_secret, is_secret};

use crate::template;

/// The values of a subject, by name.
pub type Values = BTreeMap<String, String>;

/// The workload as it is sent to a subject with these values. A name without a value stays as it is written.
#[must_use]
pub fn filled(workload: &Workload, values: &Values) -> Workload {
    let mut workload = workload.clone();
    for text in workload.requests.iter_mut().flat_map(texts_of) {
        let value = |name: &str| values.get(name).map(|value| value.as_bytes().to_vec());
        text.map(&|bytes| template::with_own(bytes, &value));
    }
    workload
}

/// The names for which the workload wants values.
#[must_use]
pub fn names(workload: &Workload) -> BTreeSet<String> {
    let mut workload = workload.clone();
    let found = std::cell::RefCell::new(BTreeSet::new());
    for text in workload.requests.iter_mut().flat_map(texts_of) {
        let note = |name: &str| {
            found.borrow_mut().insert(name.to_string());
            None
        };
        text.map(&|bytes| template::with_own(bytes, &note));
    }
    found.into_inner()
}

/// A value that stands where secrets stand, such as in a header `Authorization`, and whose own name does not say so: its name, and what says it
/// there. By their names alone secrets are kept out of reports.
#[must_use]
pub fn secret_by_place(workload: &Workload) -> Option<(String, String)> {
    let of = |place: &str, text: &str| {
        occurrences(text).find_map(|(before, name)| {
            let key = [place, key_before(before)].into_iter().find(|key| says_secret(key))?;
            (!says_secret(name)).then(|| (name.to_string(), key.to_string()))
        })
    };
    workload.requests.iter().find_map(|request| {
        let body = request.body.iter().map(|Body(bytes)| ("", String::from_utf8_lossy(bytes)));
        let headers = request.headers.iter().map(|(name, value)| (&**name, value.into()));
        let mut all = [("", (&request.path).into())].into_iter().chain(headers).chain(body);
        all.find_map(|(place, text)| of(place, &text))
    })
}

fn says_secret(name: &str) -> bool {
    is_secret(name) || is_perhaps_secret(name)
}

/// Each `{request.NAME}` of a text: what stands before it, and NAME.
fn occurrences(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("{request.").filter_map(|(at, begins)| {
        let name = &text[at + begins.len()..];
        Some((&text[..at], &name[..name.find('}')?]))
    })
}

/// The key to which a value belongs that comes next: `token` after `?token=`, `"token": "` and `token: Bearer `.
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
                // Names and values are whole characters, and so is what stands between them.
                *words =
                    String::from_utf8(change(words.as_bytes())).expect("strings in a string make a string");
            }
            Text::Bytes(Body(bytes)) => *bytes = change(bytes),
        }
    }
}

fn texts_of(request: &mut Request) -> Vec<Text<'_>> {
    let Request { name: _, weight: _, method: _, path, headers, body, expect } = request;
    let Expect {
        status: _,
        body: whole,
        headers: wanted,
        headers_match,
        body_sha256,
        body_contains,
        body_matches,
        json,
        json_match,
    } = expect;
    let mut all = vec![Text::Words(path)];
    all.extend(headers.iter_mut().map(|(_, value)| Text::Words(value)));
    all.extend(body.iter_mut().chain(whole).map(Text::Bytes));
    all.extend(wanted.iter_mut().filter_map(|(_, value)| value.as_mut()).map(Text::Words));
    all.extend(headers_match.iter_mut().chain(json_match).map(|(_, value)| Text::Words(value)));
    all.extend(body_sha256.iter_mut().chain(body_contains).chain(body_matches).map(Text::Words));
    all.extend(json.iter_mut().filter_map(|(_, value)| match value {
        serde_json::Value::String(text) => Some(Text::Words(text)),
        _ => None,
    }));
    all
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
        request.expect.json = vec![("/n".into(), "{request.size}".into())];
        workload
    }

    #[test]
    fn values_stand_wherever_a_request_says_their_names() {
        let workload = workload();
        assert_eq!(names(&workload), BTreeSet::from(["kind".to_string(), "size".to_string()]));
        let values = Values::from([("size".to_string(), "64".to_string()), ("kind".into(), "ä".into())]);
        let filled = filled(&workload, &values);
        let request = &filled.requests[0];
        assert_eq!(request.path, "/64/{seq}/{{request.not}}");
        assert_eq!(request.headers[0].1, "ä");
        assert_eq!(request.body, Some(Body(b"\xFF{fill:64}".to_vec())));
        assert_eq!(request.expect.json[0].1, "64");
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
        assert_eq!(of("/?a=1&api-key={request.k}", plain, "").as_deref(), Some("k in api-key"));
        assert_eq!(of("/", plain, "{\"password\": \"{request.p}\"}").as_deref(), Some("p in password"));
        assert_eq!(of("/", ("Authorization", "{request.token}"), ""), None, "its own name says so");
    }

    #[test]
    fn names_without_a_value_stay() {
        assert_eq!(filled(&workload(), &Values::new()), workload());
        assert!(names(&crate::workloads::plaintext()).is_empty());
    }
}
