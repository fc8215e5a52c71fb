//! Converts imported requests to requests of a workload. Equal requests become one with a weight.

use std::collections::HashMap;

use dyno_archive::plan::{Body, Expect, Request};

use super::ImportedRequest;
use crate::command_line::request;
use crate::template::{literal, literal_text};

/// The meaning of braces in an imported request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Braces {
    /// Literal text, never a placeholder.
    Text,
    Placeholders,
}

impl ImportedRequest {
    /// Returns the request of a workload. `path`: path and query of its URL. The recorded status is
    /// expected.
    #[must_use]
    pub fn into_request(self, path: &str, braces: Braces) -> Request {
        let expect = Expect { status: self.status, ..Expect::default() };
        let name = format!("{} {path}", self.method);
        if braces == Braces::Placeholders {
            return Request {
                expect,
                ..request(&self.method, path, self.headers, self.body.map(Body))
            };
        }
        let headers =
            self.headers.into_iter().map(|(name, value)| (name, literal_text(&value))).collect();
        let body = self.body.map(|body| Body(literal(&body)));
        Request { name, expect, ..request(&self.method, &literal_text(path), headers, body) }
    }
}

/// The parts that are equal in equal requests: method, path, headers and body.
type Identity = (String, String, Vec<(String, String)>, Option<Vec<u8>>);

fn identity(request: &Request) -> Identity {
    (
        request.method.clone(),
        request.path.clone(),
        request.headers.clone(),
        request.body.as_ref().map(|body| body.0.clone()),
    )
}

/// Requests in the order of their first occurrence. A repeated request adds to the weight of the
/// first.
#[derive(Debug, Default)]
pub struct UniqueRequests {
    requests: Vec<Request>,
    indexes: HashMap<Identity, usize>,
}

impl UniqueRequests {
    pub fn add(&mut self, request: Request) {
        let next = self.requests.len();
        let index = *self.indexes.entry(identity(&request)).or_insert(next);
        match self.requests.get_mut(index) {
            Some(first) => {
                first.weight += 1;
                // If the same request has two recorded statuses, neither is expected.
                first.expect.status =
                    first.expect.status.filter(|status| request.expect.status == Some(*status));
            }
            None => self.requests.push(request),
        }
    }

    #[must_use]
    pub fn into_requests(self) -> Vec<Request> {
        self.requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn imported(path: &str, status: Option<u16>) -> ImportedRequest {
        ImportedRequest {
            status,
            ..ImportedRequest::new("line 1".into(), "GET", &format!("http://h{path}"))
        }
    }

    #[test]
    fn equal_requests_add_weight_and_keep_common_status() {
        let mut unique = UniqueRequests::default();
        for (path, status) in [
            ("/a", Some(200)),
            ("/b", Some(200)),
            ("/a", Some(200)),
            ("/b", Some(404)),
            ("/b", Some(200)),
        ] {
            unique.add(imported(path, status).into_request(path, Braces::Text));
        }
        let requests = unique.into_requests();
        let summary: Vec<_> =
            requests.iter().map(|r| (r.name.as_str(), r.weight, r.expect.status)).collect();
        assert_eq!(summary, [("GET /a", 2, Some(200)), ("GET /b", 3, None)]);
    }

    #[test]
    fn braces_are_literal_unless_placeholders_requested() {
        let mut original = imported("/{seq}", None);
        original.headers.push(("X".into(), "{uuid}".into()));
        original.body = Some(b"{seq}".to_vec());
        let text = original.clone().into_request("/{seq}", Braces::Text);
        assert_eq!((text.name.as_str(), text.path.as_str()), ("GET /{seq}", "/{{seq}}"));
        assert_eq!(text.headers, [("X".to_string(), "{{uuid}}".to_string())]);
        assert_eq!(text.body.unwrap().0, b"{{seq}}");
        let template = original.into_request("/{seq}", Braces::Placeholders);
        assert_eq!(
            (template.path.as_str(), template.body.unwrap().0),
            ("/{seq}", b"{seq}".to_vec())
        );
    }
}
