//! Converts imported requests to requests of a workload. Equal requests become one request with a
//! weight.

use std::collections::{BTreeSet, HashMap};

use dyno_config::quotation::plain;
use dyno_model::plan::{Body, Expect, Request};

use super::{ChangeKind, Changes, ImportedRequest};
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
    requests: Vec<RepeatedRequest>,
    indexes: HashMap<Identity, usize>,
}

/// A request, and the statuses that were recorded for it. `None`: no status was recorded.
#[derive(Debug)]
struct RepeatedRequest {
    request: Request,
    statuses: BTreeSet<Option<u16>>,
}

impl UniqueRequests {
    pub fn add(&mut self, request: Request) {
        let next = self.requests.len();
        let index = *self.indexes.entry(identity(&request)).or_insert(next);
        let status = request.expect.status;
        match self.requests.get_mut(index) {
            Some(first) => {
                first.request.weight += 1;
                first.statuses.insert(status);
            }
            None => {
                self.requests.push(RepeatedRequest { request, statuses: BTreeSet::from([status]) });
            }
        }
    }

    /// Returns the requests as a mix, and the differences between the mix and the import: the
    /// order, repeated requests, and different recorded statuses. A request with different recorded
    /// statuses expects no particular status.
    #[must_use]
    pub fn into_requests(self) -> (Vec<Request>, Changes) {
        let mut changes = Changes::default();
        let is_mix = self.requests.len() > 1;
        let requests =
            self.requests.into_iter().map(|RepeatedRequest { mut request, statuses }| {
                let (weight, name) = (request.weight, plain(&request.name));
                (1..weight).for_each(|_| changes.add(ChangeKind::Repeat, &name));
                if is_mix {
                    (0..weight).for_each(|_| changes.add(ChangeKind::Order, ""));
                }
                if statuses.len() > 1 {
                    request.expect.status = None;
                    let name = format!("{name} ({})", status_list(&statuses));
                    changes.add(ChangeKind::StatusDifference, &name);
                }
                request
            });
        let requests = requests.collect();
        (requests, changes)
    }
}

/// Returns statuses as text: `200, 404 and none`.
fn status_list(statuses: &BTreeSet<Option<u16>>) -> String {
    let recorded: Vec<String> = statuses.iter().flatten().map(u16::to_string).collect();
    let recorded = recorded.join(", ");
    if statuses.contains(&None) { format!("{recorded} and none") } else { recorded }
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
        let (requests, changes) = unique.into_requests();
        let summary: Vec<_> =
            requests.iter().map(|r| (r.name.as_str(), r.weight, r.expect.status)).collect();
        assert_eq!(summary, [("GET /a", 2, Some(200)), ("GET /b", 3, None)]);
        let lines = [
            "import: requests recorded with different statuses (dyno accepts any status from 200 \
             to 399; to check one status, use --expect-status) (1): GET /b (200, 404)",
            "import: repeated requests merged with an equal earlier request, whose weight was \
             increased (3): GET /a, GET /b",
            "import: requests sent in random order (by weight), not in the order of the import (5)",
        ];
        assert_eq!(changes.lines(), lines);
    }

    #[test]
    fn changes_list_missing_status_and_no_order_of_one_request() {
        let changes = |statuses: &[Option<u16>]| {
            let mut unique = UniqueRequests::default();
            for status in statuses {
                unique.add(imported("/a", *status).into_request("/a", Braces::Text));
            }
            let (requests, changes) = unique.into_requests();
            assert_eq!(requests.len(), 1);
            changes.list().into_iter().map(|c| (c.kind, c.names)).collect::<Vec<_>>()
        };
        assert_eq!(changes(&[Some(200)]), []);
        let repeat = ("repeat".to_string(), vec!["GET /a".to_string()]);
        assert_eq!(changes(&[Some(404), Some(404)]), std::slice::from_ref(&repeat));
        let status = ("status-difference".into(), vec!["GET /a (200 and none)".into()]);
        assert_eq!(changes(&[None, Some(200)]), [status, repeat]);
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
