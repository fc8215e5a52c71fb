//! The hello contract as questions, for what every protocol can be asked.

use dyno_archive::Protocol;
use dyno_archive::plan::{Body, Expect, Request};

use crate::check::Question;

pub(crate) const PLAINTEXT: &[u8] = b"Hello, World!";
pub(crate) const JSON: &[u8] = br#"{"message":"Hello, World!"}"#;

/// Whether the Content-Type of an answer is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Media {
    Checked,
    Any,
}

/// The questions to a listener of this protocol.
pub(crate) fn questions(protocol: Protocol, media: Media) -> Vec<Question> {
    let question = |name: &str, method: &str, path: &str, status, body: Option<&[u8]>| Question {
        name: name.into(),
        request: Request {
            name: name.into(),
            weight: 1,
            method: method.into(),
            path: path.into(),
            expect: Expect {
                status: Some(status),
                body: body.map(|bytes| Body(bytes.to_vec())),
                ..Expect::default()
            },
            ..Request::default()
        },
        media: None,
        times: 1,
        streams: 1,
    };
    let typed = |question: Question, media_type: &str| Question {
        media: (media == Media::Checked).then(|| media_type.into()),
        ..question
    };
    let mut json = question("json", "GET", "/json", 200, None);
    let message = serde_json::from_slice(JSON).expect("a constant");
    json.request.expect.json = vec![(String::new(), message)];
    let plaintext = || question("plaintext", "GET", "/plaintext", 200, Some(PLAINTEXT));
    let many = if protocol.is_h2() {
        Question { name: "many streams at once".into(), times: 100, streams: 10, ..plaintext() }
    } else {
        Question { name: "keep-alive".into(), times: 5, ..plaintext() }
    };
    vec![
        typed(plaintext(), "text/plain"),
        typed(json, "application/json"),
        question("unknown path is 404", "GET", "/no-such-path-here", 404, None),
        // Twice: a body that came after all would be in the way of the next answer.
        Question { times: 2, ..question("HEAD has no body", "HEAD", "/plaintext", 200, Some(b"")) },
        many,
    ]
}
