//! Promises about a server's life: its start, its output, its requests to back ends, and its exit.
//!
//! This module reads and describes the promises. The crate that starts servers checks them.

use std::fmt;
use std::time::Duration;

use dyno_config::keys::Keys;
use dyno_config::mistake::{Mistake, mistake};
use dyno_config::units;
use dyno_workload::compile;
use regex::bytes::Regex;
use serde::{Deserialize, Deserializer, de};

use crate::limits::{EXIT, MAX_EXIT};

/// A promise about a server's life.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecyclePromise {
    /// The kind of the promise, which decides how it is checked.
    pub kind: PromiseKind,
    /// Expected output. `{port}` in an expression stands for the server's port.
    pub prints: Vec<ExpectedMatches>,
    /// Expected requests to its back ends: the name of the back end, and the expression.
    pub asks: Vec<(String, ExpectedMatches)>,
    /// Time limit for its exit.
    pub within: Duration,
}

/// The kind of a promise, by its name in contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromiseKind {
    /// The server responds correctly to the requests of the check.
    Serves,
    /// The server exits with an error if it is started without the addresses of its back ends.
    RefusesMissing,
    /// The server exits with an error if the addresses of its back ends have no listener.
    RefusesUnreachable,
    /// The server responds to the requests in flight at the signal, and exits by itself.
    Stops,
}

/// An expression that output or requests must match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedMatches {
    /// A regular expression.
    pub matches: String,
    pub times: MatchCount,
}

/// Expected number of matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchCount {
    AtLeast(usize),
    Exactly(usize),
    AtMost(usize),
}

impl MatchCount {
    /// Returns whether `n` matches fulfil the promise.
    #[must_use]
    pub const fn admits(self, n: usize) -> bool {
        match self {
            MatchCount::AtLeast(min) => n >= min,
            MatchCount::Exactly(expected) => n == expected,
            MatchCount::AtMost(max) => n <= max,
        }
    }

    /// Returns whether a further match could break the promise.
    #[must_use]
    pub const fn has_maximum(self) -> bool {
        matches!(self, MatchCount::Exactly(_) | MatchCount::AtMost(_))
    }

    /// Returns whether the promise needs more than `n` matches.
    #[must_use]
    pub const fn needs_more_than(self, n: usize) -> bool {
        match self {
            MatchCount::AtLeast(min) | MatchCount::Exactly(min) => n < min,
            MatchCount::AtMost(_) => false,
        }
    }
}

impl fmt::Display for MatchCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times_text = |n: usize| if n == 1 { "once".into() } else { format!("{n} times") };
        match self {
            MatchCount::AtLeast(1) => Ok(()),
            MatchCount::AtLeast(n) => write!(f, " {} or more", times_text(*n)),
            MatchCount::Exactly(n) => write!(f, " {}", times_text(*n)),
            MatchCount::AtMost(n) => write!(f, " {} at most", times_text(*n)),
        }
    }
}

impl ExpectedMatches {
    /// Counts the matches in texts. `port`: the value of `{port}` in the expression.
    ///
    /// # Panics
    /// The expression is invalid, which was checked when the contract was read.
    #[must_use]
    pub fn count<'t>(&self, texts: impl Iterator<Item = &'t [u8]>, port: u16) -> usize {
        let expression =
            self.expression(port).expect("the expression was checked when the contract was read");
        texts.map(|text| expression.find_iter(text).count()).sum()
    }

    fn expression(&self, port: u16) -> Result<Regex, String> {
        compile::expression(&self.matches.replace("{port}", &port.to_string()))
    }
}

impl LifecyclePromise {
    /// Reads the promise of a check's table; `None`: the table has no promise, or its kind has a
    /// mistake. `Some` may come with mistakes in `keys`.
    pub(crate) fn from_keys(keys: &mut Keys<'_>) -> Option<LifecyclePromise> {
        let kind = keys.optional::<PromiseKind>("life");
        let prints = keys.parse("prints", check_prints);
        let asks = keys.parse("asks", check_asks);
        let within = keys.parse("within", |text: String| parse_exit_limit(&text));
        if !keys.has("life") {
            for key in ["prints", "asks", "within"].into_iter().filter(|key| keys.has(key)) {
                let message = format!(
                    "`{key}`: needs `life` in the same check\nhint: add `life`, such as `life = \
                     \"serves\"`"
                );
                keys.add(mistake(key, message));
            }
            return None;
        }
        let kind = kind?;
        if kind == PromiseKind::Serves && !keys.has("prints") && !keys.has("asks") {
            keys.add(mistake(
                "life",
                "`life = \"serves\"`: needs `prints` or `asks`\nhint: add the expected output \
                 (`prints`), or the expected requests to back ends (`asks`)",
            ));
        }
        if kind.is_refusal() && keys.has("asks") {
            keys.add(mistake(
                "asks",
                "`asks`: cannot be used for a server that refuses to start\nhint: remove `asks`",
            ));
        }
        if kind == PromiseKind::Stops && keys.has("asks") {
            let message =
                "`asks`: needs `life = \"serves\"`\nhint: move `asks` to a separate check";
            keys.add(mistake("asks", message));
        }
        if kind == PromiseKind::Serves && keys.has("within") {
            let message = "`within`: limits the time until a server exits, but this check does not \
                           end the server\nhint: remove `within`";
            keys.add(mistake("within", message));
        }
        Some(LifecyclePromise {
            kind,
            prints: prints.unwrap_or_default(),
            asks: asks.unwrap_or_default(),
            within: within.unwrap_or(EXIT),
        })
    }

    /// Returns the text for the promise, which follows the text of the expected responses.
    pub(crate) fn promise_text(&self) -> String {
        let seconds = self.within.as_secs_f64();
        let exit = match self.kind {
            PromiseKind::Serves => None,
            PromiseKind::RefusesMissing | PromiseKind::RefusesUnreachable => {
                Some(format!("the server ends with an error within {seconds} s"))
            }
            PromiseKind::Stops => Some(format!("the server ends by itself within {seconds} s")),
        };
        let prints = self
            .prints
            .iter()
            .map(|s| format!("the server's output matches {}{}", s.matches, s.times));
        let asks = self.asks.iter().map(|(backend, s)| {
            format!("the server's requests to {backend} match {}{}", s.matches, s.times)
        });
        exit.into_iter().chain(prints).chain(asks).collect::<Vec<_>>().join(", ")
    }
}

impl PromiseKind {
    /// Returns whether the server is started under conditions in which it must exit with an error.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, PromiseKind::RefusesMissing | PromiseKind::RefusesUnreachable)
    }

    /// Returns the text for the action, which follows the text of the check's requests.
    pub(crate) const fn action_text(self) -> &'static str {
        match self {
            PromiseKind::Serves => "in a separate start",
            PromiseKind::RefusesMissing => "started without the address of its back ends",
            PromiseKind::RefusesUnreachable => {
                "started with back-end addresses that have no listener"
            }
            PromiseKind::Stops => "in flight when the server gets the stop signal",
        }
    }
}

fn parse_exit_limit(text: &str) -> Result<Duration, Mistake> {
    let ns = units::duration(text).map_err(|message| mistake("within", message))?;
    let limit = Duration::from_nanos(ns);
    if limit > MAX_EXIT {
        let max = MAX_EXIT.as_secs();
        return Err(mistake("within", format!("`within`: must be at most {max}s")));
    }
    Ok(limit)
}

/// An [`ExpectedMatches`] in a file: an expression, or a table.
#[derive(Debug)]
struct RawExpectedMatches {
    backend: Option<String>,
    expected: ExpectedMatches,
}

impl<'de> Deserialize<'de> for RawExpectedMatches {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Table {
            backend: Option<String>,
            matches: String,
            times: Option<usize>,
            at_least: Option<usize>,
            at_most: Option<usize>,
        }
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = RawExpectedMatches;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a regular expression, or a table with `matches`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawExpectedMatches, E> {
                let expected =
                    ExpectedMatches { matches: text.into(), times: MatchCount::AtLeast(1) };
                Ok(RawExpectedMatches { backend: None, expected })
            }

            fn visit_map<M: de::MapAccess<'de>>(
                self,
                map: M,
            ) -> Result<RawExpectedMatches, M::Error> {
                let table = Table::deserialize(de::value::MapAccessDeserializer::new(map))?;
                let times = match (table.times, table.at_least, table.at_most) {
                    (None, None, None) => MatchCount::AtLeast(1),
                    (Some(n), None, None) => MatchCount::Exactly(n),
                    (None, Some(n), None) => MatchCount::AtLeast(n),
                    (None, None, Some(n)) => MatchCount::AtMost(n),
                    _ => {
                        return Err(de::Error::custom(
                            "must have only one of `times`, `at_least` and `at_most`",
                        ));
                    }
                };
                let expected = ExpectedMatches { matches: table.matches, times };
                Ok(RawExpectedMatches { backend: table.backend, expected })
            }
        }
        from.deserialize_any(Visitor)
    }
}

/// Checks that a list has entries, and that all its expressions are valid.
fn check_entries(
    key: &'static str,
    entries: Vec<RawExpectedMatches>,
) -> Result<Vec<RawExpectedMatches>, Mistake> {
    if entries.is_empty() {
        return Err(mistake(
            key,
            format!(
                "`{key}`: the list must have at least one entry\nhint: add an entry, or remove \
                 `{key}`"
            ),
        ));
    }
    for (i, raw) in entries.iter().enumerate() {
        if let Err(message) = raw.expected.expression(1) {
            return Err(mistake(key, message).with_child(i).with_child("matches"));
        }
    }
    Ok(entries)
}

fn check_prints(entries: Vec<RawExpectedMatches>) -> Result<Vec<ExpectedMatches>, Mistake> {
    let entries = check_entries("prints", entries)?;
    if let Some(i) = entries.iter().position(|raw| raw.backend.is_some()) {
        let message = "`backend`: can be used only in `asks`, because `prints` checks the server's \
                       own output";
        return Err(mistake("prints", message).with_child(i).with_child("backend"));
    }
    Ok(entries.into_iter().map(|raw| raw.expected).collect())
}

/// Checks `asks`: each entry must name a back end.
fn check_asks(entries: Vec<RawExpectedMatches>) -> Result<Vec<(String, ExpectedMatches)>, Mistake> {
    let entries = check_entries("asks", entries)?;
    let named = entries.into_iter().enumerate().map(|(i, raw)| match raw.backend {
        Some(backend) => Ok((backend, raw.expected)),
        None => {
            Err(mistake("asks", "`asks`: each entry needs `backend`, the name of the back end")
                .with_child(i))
        }
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn count_of_matches_decides_promise() {
        let expected =
            ExpectedMatches { matches: r"\b{port}\b|GET /a".into(), times: MatchCount::Exactly(2) };
        let texts: [&[u8]; 3] = [b"listening on 8080", b"GET /a GET /b", b"on 80801"];
        assert_eq!(expected.count(texts.into_iter(), 8080), 2);
        let decisions =
            |times: MatchCount| [0, 1, 2, 3].map(|n| (times.admits(n), times.needs_more_than(n)));
        assert_eq!(
            decisions(MatchCount::AtLeast(2)),
            [(false, true), (false, true), (true, false), (true, false)]
        );
        assert_eq!(
            decisions(MatchCount::Exactly(2)),
            [(false, true), (false, true), (true, false), (false, false)]
        );
        assert_eq!(
            decisions(MatchCount::AtMost(1)),
            [(true, false), (true, false), (false, false), (false, false)]
        );
    }
}
