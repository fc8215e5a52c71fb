//! Conversion of imported requests to those of a workload: equal ones are counted as a weight.

use std::collections::HashMap;

use dyno_archive::plan::{Body, Expect, Request};

use super::ImportedRequest;
use crate::command_line::request;
use crate::template::{literal, literal_text};

/// How braces in an imported request are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Braces {
    /// Text of the tool that wrote it; nothing is taken for a placeholder.
    Text,
    Placeholders,
}

impl ImportedRequest {
    /// Returns the request for `path`, which is path and query of its URL. The recorded status is
    /// expected.
    #[must_use]
    pub fn request(self, path: &str, braces: Braces) -> Request {
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

/// The parts in which two requests must agree to count as the same.
type Identity = (String, String, Vec<(String, String)>, Option<Vec<u8>>);

fn identity(r: &Request) -> Identity {
    (
        r.method.clone(),
        r.path.clone(),
        r.headers.clone(),
        r.body.as_ref().map(|body| body.0.clone()),
    )
}

/// Requests in the order of their first occurrence. A repeated request adds to the weight of the
/// first.
#[derive(Debug, Default)]
pub struct UniqueRequests {
    requests: Vec<Request>,
    seen: HashMap<Identity, usize>,
}

impl UniqueRequests {
    pub fn add(&mut self, request: Request) {
        let next = self.requests.len();
        let known = *self.seen.entry(identity(&request)).or_insert(next);
        match self.requests.get_mut(known) {
            Some(known) => {
                known.weight += 1;
                // If the same request has two recorded statuses, neither is expected.
                known.expect.status =
                    known.expect.status.filter(|status| request.expect.status == Some(*status));
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
    fn equal_requests_add_weight_and_expect_the_common_status() {
        let mut alike = UniqueRequests::default();
        for (path, status) in [
            ("/a", Some(200)),
            ("/b", Some(200)),
            ("/a", Some(200)),
            ("/b", Some(404)),
            ("/b", Some(200)),
        ] {
            alike.add(imported(path, status).request(path, Braces::Text));
        }
        let requests = alike.into_requests();
        let seen: Vec<_> =
            requests.iter().map(|r| (r.name.as_str(), r.weight, r.expect.status)).collect();
        assert_eq!(seen, [("GET /a", 2, Some(200)), ("GET /b", 3, None)]);
    }

    #[test]
    fn braces_are_text_unless_the_user_wants_placeholders() {
        let mut one = imported("/{seq}", None);
        one.headers.push(("X".into(), "{uuid}".into()));
        one.body = Some(b"{seq}".to_vec());
        let text = one.clone().request("/{seq}", Braces::Text);
        assert_eq!((text.name.as_str(), text.path.as_str()), ("GET /{seq}", "/{{seq}}"));
        assert_eq!(text.headers, [("X".to_string(), "{{uuid}}".to_string())]);
        assert_eq!(text.body.unwrap().0, b"{{seq}}");
        let made = one.request("/{seq}", Braces::Placeholders);
        assert_eq!((made.path.as_str(), made.body.unwrap().0), ("/{seq}", b"{seq}".to_vec()));
    }
}
