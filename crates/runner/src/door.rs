//! How a subject is come to: what it speaks at which of its ports, and how a load has to speak there.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use dyno_archive::plan::{Arrivals, Step, Workload};
use dyno_driver::Kind;
use dyno_engine::{Http2, Policy, Protocol, Spin, Traffic, Window};
use serde::Deserialize;

use crate::limits::CHECK;
use crate::load;
use crate::tls::{SessionResumption, TlsOptions, Trust};

/// What a subject speaks, in the words of its `protocols`: a protocol, and whether over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Speech {
    H1,
    H1Tls,
    H2,
    H2c,
    H2cUpgrade,
}

impl Speech {
    pub const ALL: [Speech; 5] = [Speech::H1, Speech::H1Tls, Speech::H2, Speech::H2c, Speech::H2cUpgrade];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Speech::H1 => "h1",
            Speech::H1Tls => "h1-tls",
            Speech::H2 => "h2",
            Speech::H2c => "h2c",
            Speech::H2cUpgrade => "h2c-upgrade",
        }
    }

    /// What a workload speaks; `None`: nothing that a subject could say of itself.
    #[must_use]
    pub fn of(workload: &Workload) -> Option<Speech> {
        Speech::ALL
            .into_iter()
            .find(|s| s.protocol().name() == workload.protocol && s.is_tls() == workload.tls)
    }

    #[must_use]
    pub const fn protocol(self) -> Protocol {
        match self {
            Speech::H1 | Speech::H1Tls => Protocol::H1,
            Speech::H2 => Protocol::H2,
            Speech::H2c => Protocol::H2c,
            Speech::H2cUpgrade => Protocol::H2cUpgrade,
        }
    }

    #[must_use]
    pub const fn is_tls(self) -> bool {
        matches!(self, Speech::H1Tls | Speech::H2)
    }
}

impl fmt::Display for Speech {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `h1`, `h1 and h2`, `h1, h1-tls and h2`.
#[must_use]
pub fn list(speeches: &[Speech]) -> String {
    match speeches {
        [] => "nothing".into(),
        [one] => one.to_string(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(|s| s.name()).collect();
            format!("{} and {last}", rest.join(", "))
        }
    }
}

/// One way into a running subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    pub addr: SocketAddr,
    pub speech: Speech,
    /// Who vouches for the subject's certificate; needed over TLS only.
    pub authority: Option<PathBuf>,
}

impl Door {
    /// What requests call the server. Over TLS by name, so that clients send SNI as they do elsewhere, and servers find
    /// in the request the name that was in the handshake.
    #[must_use]
    pub fn host(&self) -> String {
        if self.speech.is_tls() { format!("localhost:{}", self.addr.port()) } else { self.addr.to_string() }
    }

    #[must_use]
    pub fn tls(&self) -> Option<TlsOptions> {
        self.speech.is_tls().then(|| TlsOptions {
            name: "localhost".into(),
            trust: self.authority.clone().map_or(Trust::System, Trust::File),
            identity: None,
            resumption: SessionResumption::On,
            alpn: TlsOptions::alpn(self.speech.protocol()),
        })
    }

    /// A load that comes in here: one request, patiently. What is to be otherwise, the caller changes.
    #[must_use]
    pub fn load(&self, traffic: Traffic, http2: Http2) -> load::Spec {
        load::Spec {
            endpoint: self.addr.into(),
            protocol: self.speech.protocol(),
            http2,
            page_connections: None,
            traffic: Arc::new(traffic),
            check_one_in: 1,
            step: Step { connections: 1, streams: 1, pipeline: 1, arrivals: Arrivals::Closed },
            trace: Arc::from([]),
            seed: 0,
            total: Some(1),
            policy: Policy {
                timeout_ns: CHECK.as_nanos() as u64,
                first_byte_timeout_ns: None,
                connect_timeout_ns: CHECK.as_nanos() as u64,
                requests_per_connection: None,
                ramp_ns: None,
            },
            tls: self.tls(),
            spin: Spin::Never,
            window: Window {
                warmup_ns: 0,
                duration_ns: None,
                interval_ns: 1_000_000_000,
                drain_ns: CHECK.as_nanos() as u64,
            },
            threads: 1,
            driver: Kind::best().0,
            cpus: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_subject_files() {
        #[derive(Deserialize)]
        struct File {
            protocols: Vec<Speech>,
        }
        let text = format!("protocols = {:?}", Speech::ALL.map(Speech::name));
        assert_eq!(toml::from_str::<File>(&text).unwrap().protocols, Speech::ALL);
        assert_eq!(list(&Speech::ALL), "h1, h1-tls, h2, h2c and h2c-upgrade");
        assert_eq!((list(&Speech::ALL[..1]).as_str(), list(&[]).as_str()), ("h1", "nothing"));
    }

    #[test]
    fn a_workload_is_one_speech_or_none() {
        let workload = |protocol: &str, tls| Workload {
            name: "w".into(),
            protocol: protocol.into(),
            tls,
            requests: Vec::new(),
            page: None,
        };
        assert_eq!(Speech::of(&workload("h1", true)), Some(Speech::H1Tls));
        assert_eq!(Speech::of(&workload("h2c-upgrade", false)), Some(Speech::H2cUpgrade));
        assert_eq!(Speech::of(&workload("h2", false)), None);
        assert_eq!(Speech::of(&workload("auto", true)), None);
    }
}
