//! Reads the expectations of a request in a file.

use std::collections::BTreeMap;

use dyno_model::plan::{Body, Expect};
use serde::Deserialize;

use dyno_config::mistake::{Mistake, mistake};

/// Expectations of a file, with unchecked values.
#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawExpect {
    status: Option<u16>,
    body: Option<String>,
    headers: BTreeMap<String, RawHeader>,
    body_sha256: Option<String>,
    body_contains: Option<String>,
    body_matches: Option<String>,
    json: BTreeMap<String, serde_json::Value>,
    json_matches: BTreeMap<String, String>,
}

/// An expected header: `true` for any value, the exact value, or an expression that must match.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(
    untagged,
    expecting = "an expected header must be `true` (present), its value as a text, or `{ matches \
                 = \"…\" }`"
)]
enum RawHeader {
    Present(bool),
    Value(String),
    Matches { matches: String },
}

impl RawExpect {
    /// # Errors
    /// A value cannot be expected.
    pub fn check(self) -> Result<Expect, Mistake> {
        if let Some(status) = self.status.filter(|status| !(200..=599).contains(status)) {
            return Err(mistake("status", format!("status {status}: must be 200 to 599")));
        }
        let mut expect = Expect {
            status: self.status,
            body: self.body.map(|text| Body(text.into_bytes())),
            body_sha256: self.body_sha256,
            body_contains: self.body_contains,
            body_matches: self.body_matches,
            json: self.json.into_iter().collect(),
            json_match: self.json_matches.into_iter().collect(),
            ..Expect::default()
        };
        for (name, expected) in self.headers {
            match expected {
                RawHeader::Present(true) => expect.headers.push((name, None)),
                RawHeader::Value(value) => expect.headers.push((name, Some(value))),
                RawHeader::Matches { matches } => expect.headers_match.push((name, matches)),
                RawHeader::Present(false) => {
                    return Err(mistake(
                        name,
                        "an expected header must be `true` (present), its value, or `{ matches = \
                         \"…\" }`\nhint: remove a header that is not required",
                    )
                    .with_parent("headers"));
                }
            }
        }
        Ok(expect)
    }
}
