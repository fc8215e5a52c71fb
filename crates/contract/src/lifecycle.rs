//! Promises about a server's life: how it starts, what it prints, what it asks its back ends, and
//! how it ends.
//!
//! This module defines the promises and their wording; the crate that starts servers checks them
//! ([`LifecyclePromise::look`]).

use std::fmt;
use std::time::Duration;

use dyno_workload::compile;
use dyno_workload::keys::Keys;
use dyno_workload::mistake::{Mistake, mistake};
use dyno_workload::units;
use regex::bytes::Regex;
use serde::{Deserialize, Deserializer, de};

use crate::limits::{LIFE, LIFE_MOST};

/// A promise about a server's life.
#[derive(Clone, Debug, PartialEq)]
pub struct LifecyclePromise {
    pub look: PromiseKind,
    /// Expected output. `{port}` in an expression stands for the server's port.
    pub prints: Vec<Sighting>,
    /// Expected requests to its back ends, by their names.
    pub asks: Vec<(String, Sighting)>,
    /// Time limit for its exit.
    pub within: Duration,
}

/// The kind of a promise, by its name in contracts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromiseKind {
    /// It responds correctly to the requests of the check.
    Serves,
    /// Started without the address of its back ends, it exits with an error.
    RefusesMissing,
    /// Started with an address without a listener, it exits with an error.
    RefusesUnreachable,
    /// It responds to the requests in flight when it gets the signal, and exits by itself.
    Stops,
}

/// An expression that a text must contain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
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
    #[must_use]
    pub const fn admits(self, n: usize) -> bool {
        match self {
            MatchCount::AtLeast(least) => n >= least,
            MatchCount::Exactly(wanted) => n == wanted,
            MatchCount::AtMost(most) => n <= most,
        }
    }

    /// Returns whether a further match could break the promise.
    #[must_use]
    pub const fn has_a_most(self) -> bool {
        matches!(self, MatchCount::Exactly(_) | MatchCount::AtMost(_))
    }

    /// Returns whether a further match could fulfil the promise.
    #[must_use]
    pub const fn wants_more_than(self, n: usize) -> bool {
        match self {
            MatchCount::AtLeast(wanted) | MatchCount::Exactly(wanted) => n < wanted,
            MatchCount::AtMost(_) => false,
        }
    }
}

impl fmt::Display for MatchCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: usize| if n == 1 { "once".into() } else { format!("{n} times") };
        match self {
            MatchCount::AtLeast(1) => Ok(()),
            MatchCount::AtLeast(n) => write!(f, " {} or more", plural(*n)),
            MatchCount::Exactly(n) => write!(f, " {}", plural(*n)),
            MatchCount::AtMost(n) => write!(f, " {} at most", plural(*n)),
        }
    }
}

impl Sighting {
    /// Counts the matches in texts. `port`: value of `{port}`.
    ///
    /// # Panics
    /// If the expression is invalid; it was checked when the contract was read.
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
    /// Reads the promise of a check's table; `None`: it has none, or it has a mistake.
    pub(crate) fn from_keys(keys: &mut Keys<'_>) -> Option<LifecyclePromise> {
        let look = keys.optional::<PromiseKind>("life");
        let prints = keys.parse("prints", checked_prints);
        let asks = keys.parse("asks", checked_asks);
        let within = keys.parse("within", |text: String| patience(&text));
        if !keys.has("life") {
            for key in ["prints", "asks", "within"].into_iter().filter(|key| keys.has(key)) {
                let message = format!(
                    "`{key}`: can be used in a lifecycle check only\nhint: add `life`, such as \
                     `life = \"serves\"`"
                );
                keys.add(mistake(key, message));
            }
            return None;
        }
        let (look, given) = (look?, |key: &str| keys.has(key));
        if look == PromiseKind::Serves && !given("prints") && !given("asks") {
            keys.add(mistake(
                "life",
                "`life = \"serves\"`: needs `prints` or `asks`\nhint: add the output, or the \
                 requests to back ends",
            ));
        }
        if look.is_refusal() && given("asks") {
            keys.add(mistake(
                "asks",
                "`asks`: cannot be used for a server that refuses to start\nhint: leave it out",
            ));
        }
        if look == PromiseKind::Stops && given("asks") {
            let message = "`asks`: needs `life = \"serves\"`\nhint: add a separate check";
            keys.add(mistake("asks", message));
        }
        if look == PromiseKind::Serves && given("within") {
            let message = "`within`: limits the time to a server's exit, and this check does not \
                           end the server\nhint: leave it out";
            keys.add(mistake("within", message));
        }
        Some(LifecyclePromise {
            look,
            prints: prints.unwrap_or_default(),
            asks: asks.unwrap_or_default(),
            within: within.unwrap_or(LIFE),
        })
    }
}

impl PromiseKind {
    /// Returns whether it is started so that it must not come up.
    #[must_use]
    pub const fn is_refusal(self) -> bool {
        matches!(self, PromiseKind::RefusesMissing | PromiseKind::RefusesUnreachable)
    }

    /// Returns the words for the action, which follow the requests of the check if it has some.
    pub(crate) const fn action_text(self) -> &'static str {
        match self {
            PromiseKind::Serves => "in a separate start",
            PromiseKind::RefusesMissing => "started without the address of its back ends",
            PromiseKind::RefusesUnreachable => "started with an address without a listener",
            PromiseKind::Stops => "in flight when the server gets the signal to end",
        }
    }
}

impl LifecyclePromise {
    /// Returns the words for the promise, which follow the responses of the check if it has some.
    pub(crate) fn promise_text(&self) -> String {
        let seconds = self.within.as_secs_f64();
        let first = match self.look {
            PromiseKind::Serves => None,
            PromiseKind::RefusesMissing | PromiseKind::RefusesUnreachable => {
                Some(format!("the server ends with an error within {seconds} s"))
            }
            PromiseKind::Stops => Some(format!("the server ends by itself within {seconds} s")),
        };
        let prints =
            self.prints.iter().map(|s| format!("the server prints {}{}", s.matches, s.times));
        let asks = self
            .asks
            .iter()
            .map(|(backend, s)| format!("the server sends {backend} {}{}", s.matches, s.times));
        first.into_iter().chain(prints).chain(asks).collect::<Vec<_>>().join(", ")
    }
}

fn patience(text: &str) -> Result<Duration, Mistake> {
    let ns = units::duration(text).map_err(|message| mistake("within", message))?;
    let patience = Duration::from_nanos(ns);
    if patience > LIFE_MOST {
        let most = LIFE_MOST.as_secs();
        return Err(mistake("within", format!("`within`: must be at most {most}s")));
    }
    Ok(patience)
}

/// A sighting in a file: an expression, or a table.
#[derive(Debug)]
struct RawSighting {
    backend: Option<String>,
    sighting: Sighting,
}

impl<'de> Deserialize<'de> for RawSighting {
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
            type Value = RawSighting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a regular expression, or a table with `matches`")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<RawSighting, E> {
                let sighting = Sighting { matches: text.into(), times: MatchCount::AtLeast(1) };
                Ok(RawSighting { backend: None, sighting })
            }

            fn visit_map<M: de::MapAccess<'de>>(self, map: M) -> Result<RawSighting, M::Error> {
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
                let sighting = Sighting { matches: table.matches, times };
                Ok(RawSighting { backend: table.backend, sighting })
            }
        }
        from.deserialize_any(Visitor)
    }
}

fn check_sightings(key: &'static str, all: Vec<RawSighting>) -> Result<Vec<RawSighting>, Mistake> {
    if all.is_empty() {
        return Err(mistake(
            key,
            format!("`{key}`: the list must have at least one entry\nhint: or leave `{key}` out"),
        ));
    }
    for (i, raw) in all.iter().enumerate() {
        if let Err(message) = raw.sighting.expression(1) {
            return Err(mistake(key, message).with_child(i).with_child("matches"));
        }
    }
    Ok(all)
}

fn checked_prints(all: Vec<RawSighting>) -> Result<Vec<Sighting>, Mistake> {
    let all = check_sightings("prints", all)?;
    if let Some(i) = all.iter().position(|raw| raw.backend.is_some()) {
        let message = "`backend`: can be used in `asks` only, because output goes to no back end";
        return Err(mistake("prints", message).with_child(i).with_child("backend"));
    }
    Ok(all.into_iter().map(|raw| raw.sighting).collect())
}

fn checked_asks(all: Vec<RawSighting>) -> Result<Vec<(String, Sighting)>, Mistake> {
    let all = check_sightings("asks", all)?;
    let named = all.into_iter().enumerate().map(|(i, raw)| match raw.backend {
        Some(backend) => Ok((backend, raw.sighting)),
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
    fn what_is_found_is_counted_and_judged() {
        let sighting =
            Sighting { matches: r"\b{port}\b|GET /a".into(), times: MatchCount::Exactly(2) };
        let texts: [&[u8]; 3] = [b"listening on 8080", b"GET /a GET /b", b"on 80801"];
        assert_eq!(sighting.count(texts.into_iter(), 8080), 2);
        let judged =
            |times: MatchCount| [0, 1, 2, 3].map(|n| (times.admits(n), times.wants_more_than(n)));
        assert_eq!(
            judged(MatchCount::AtLeast(2)),
            [(false, true), (false, true), (true, false), (true, false)]
        );
        assert_eq!(
            judged(MatchCount::Exactly(2)),
            [(false, true), (false, true), (true, false), (false, false)]
        );
        assert_eq!(
            judged(MatchCount::AtMost(1)),
            [(true, false), (true, false), (false, false), (false, false)]
        );
    }
}
