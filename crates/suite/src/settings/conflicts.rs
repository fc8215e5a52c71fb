//! Conflicts between settings: combinations that contradict each other, or in which a setting has
//! no effect. Suites and `dyno load` refuse them with the same errors.

use std::time::Duration;

use dyno_model::Protocol;
use dyno_model::plan::{Load, Priority, Request, Spin, Step};

use super::{LoadSettings, Setting};

/// How users write settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notation {
    /// As options of `dyno load`, such as `--check-one-in`.
    Options,
    /// As keys of `[load]`, such as `check_one_in`.
    Keys,
}

impl Notation {
    fn name(self, key: &str) -> String {
        match self {
            Notation::Options => Setting::with_key(key).flag(),
            Notation::Keys => format!("`{key}`"),
        }
    }
}

/// A setting that conflicts with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    pub key: &'static str,
    /// The error, with a hint.
    pub message: String,
}

impl Conflict {
    fn new(key: &'static str, message: impl Into<String>) -> Conflict {
        Conflict { key, message: message.into() }
    }
}

impl LoadSettings {
    /// Returns the first conflict of the settings, regardless of the protocol. `None`: no conflict.
    /// `is_open`: whether a load is open for another reason than a rate among these settings.
    #[must_use]
    pub fn conflict(&self, notation: Notation, is_open: bool) -> Option<Conflict> {
        self.length_conflict()
            .or_else(|| self.open_loop_conflict(notation, is_open))
            .or_else(|| self.timeout_conflict(notation))
            .or_else(|| self.priority_conflict())
    }

    /// Returns the first conflict of the settings with the protocols of the workloads.
    #[must_use]
    pub fn protocol_conflict(
        &self,
        notation: Notation,
        protocols: &[Protocol],
    ) -> Option<Conflict> {
        let is_above_one = |values: &[u32]| values.iter().any(|n| *n > 1);
        let name = |key| notation.name(key);
        if is_above_one(&self.pipeline) && protocols.contains(&Protocol::Auto) {
            let message = "--pipeline: https:// may select HTTP/2, which has no pipelining\nhint: \
                           add --protocol h1, or use --streams (-m) instead";
            return Some(Conflict::new("pipeline", message));
        }
        if is_above_one(&self.pipeline) && protocols.iter().all(|protocol| protocol.is_h2()) {
            let message = format!(
                "{}: needs HTTP/1.1, but {} HTTP/2\nhint: use {} instead",
                name("pipeline"),
                users(notation),
                name("streams")
            );
            return Some(Conflict::new("pipeline", message));
        }
        if !protocols.iter().all(|protocol| protocol.is_h1()) {
            return None;
        }
        let choose = match notation {
            Notation::Options => "choose another --protocol",
            Notation::Keys => "set `protocol` of a workload to \"h2\" or \"h2c\"",
        };
        let needs_http2 = |key: &'static str, remedy: &str| {
            let (name, users) = (name(key), users(notation));
            let message =
                format!("{name}: needs HTTP/2, but {users} HTTP/1.1\nhint: {choose}, or {remedy}");
            Conflict::new(key, message)
        };
        if is_above_one(&self.streams) {
            return Some(needs_http2("streams", &format!("use {} instead", name("pipeline"))));
        }
        let key = self.given().find(|setting| setting.is_http2)?.key;
        Some(needs_http2(key, &format!("remove {}", name(key))))
    }

    /// Returns the conflict of `check_one_in` with requests whose expectations are checked in every
    /// response. `None`: no conflict.
    #[must_use]
    pub fn expectation_conflict<'r>(
        &self,
        notation: Notation,
        requests: impl IntoIterator<Item = &'r Request>,
    ) -> Option<Conflict> {
        if !self.has("check_one_in") || requests.into_iter().any(Request::is_sampled) {
            return None;
        }
        let name = notation.name("check_one_in");
        let example = match notation {
            Notation::Options => "--expect-json",
            Notation::Keys => "`json` in `expect`",
        };
        let message = format!(
            "{name}: applies to an expected header, SHA-256, text, JSON or encoded body, but none \
             is expected\nhint: add an expectation, such as {example}, or remove {name}"
        );
        Some(Conflict::new("check_one_in", message))
    }

    /// Suites have no number of requests, so only options can conflict.
    fn length_conflict(&self) -> Option<Conflict> {
        (self.has("requests") && self.warmup_length_ns() > 0).then(|| {
            Conflict::new(
                "requests",
                "-n: cannot be used with a warm-up (-w), because -n counts requests from the \
                 start\nhint: remove -w, or use -d instead of -n",
            )
        })
    }

    fn open_loop_conflict(&self, notation: Notation, is_open: bool) -> Option<Conflict> {
        let is_closed = self.rates.is_empty() && !is_open;
        let key = self.given().find(|setting| is_closed && setting.needs_open_loop)?.key;
        let name = notation.name(key);
        let remedy = match notation {
            Notation::Options => "add --rate or --find, such as --rate 5k",
            Notation::Keys => "add `rate`, such as 5000",
        };
        let message =
            format!("{name}: has no effect in a closed loop\nhint: {remedy}, or remove {name}");
        Some(Conflict::new(key, message))
    }

    /// A first-byte time-out has an effect only if it is shorter than the request time-out.
    fn timeout_conflict(&self, notation: Notation) -> Option<Conflict> {
        let load = &self.load;
        load.first_byte_timeout_ns.is_some_and(|ns| ns >= load.timeout_ns).then(|| {
            let (first_byte, whole) =
                (notation.name("first_byte_timeout"), notation.name("timeout"));
            let limit = Duration::from_nanos(load.timeout_ns);
            let message = format!(
                "{first_byte}: must be shorter than {whole} ({limit:?})\nhint: use a shorter \
                 {first_byte}, or remove it"
            );
            Conflict::new("first_byte_timeout", message)
        })
    }

    /// Only suites set the priority.
    fn priority_conflict(&self) -> Option<Conflict> {
        let is_realtime = self.load.priority == Priority::Realtime;
        (is_realtime && self.load.spin == Spin::Always).then(|| {
            let message = "`spin`: cannot be used with `priority = \"realtime\"`, because a load \
                           generator that polls with this priority would block all other programs \
                           on its CPUs\nhint: remove `spin`";
            Conflict::new("spin", message)
        })
    }
}

const fn users(notation: Notation) -> &'static str {
    match notation {
        Notation::Options => "this load uses",
        Notation::Keys => "all workloads use",
    }
}

/// Returns the key of a setting that pages cannot have, because visitors load pages one after the
/// other over persistent connections. `None`: all settings fit. `steps`: the steps of the pages.
pub fn key_not_for_pages(load: &Load, steps: &[&Step]) -> Option<&'static str> {
    let keys = [
        ("rate", steps.iter().any(|step| !step.arrivals.is_closed())),
        ("pipeline", steps.iter().any(|step| step.pipeline > 1)),
        ("requests_per_connection", load.requests_per_connection.is_some()),
        ("ramp_connections", load.ramp_connections_ns.is_some()),
    ];
    keys.into_iter().find(|(_, is_set)| *is_set).map(|(key, _)| key)
}

/// Returns the error of a setting that pages cannot have. `name`: the setting, as users write it.
#[must_use]
pub fn error_of_pages(name: &str) -> String {
    format!(
        "{name}: cannot be used with pages. Each visitor loads one page after the other (closed \
         loop) over persistent connections\nhint: remove {name}"
    )
}
