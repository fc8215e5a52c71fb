//! The specification of a load.

use std::sync::Arc;

use dyno_contract::limits::CHECK;
use dyno_contract::listener::Listener;
use dyno_contract::tls::{SessionResumption, TlsOptions, TrustedCertificates};
use dyno_driver::{Endpoint, PeerAddress};
use dyno_engine::{Policy, Protocol, SpinPolicy, Window, limits};
use dyno_model::plan::{
    self, AcceptedCertificates, Arrivals, ConnectionSettings, Step, TlsSettings,
};
use serde::{Deserialize, Serialize};

use super::load_requests::LoadRequests;
use super::sharing::Sharing;

/// The specification of one load: everything that a generator needs, as data.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LoadSpec {
    pub target: LoadTarget,
    pub requests: LoadRequests,
    /// Number of connections that load one page together. The step's `connections` are then the
    /// number of visitors. `None`: the traffic is not a page.
    pub page_connections: Option<u32>,
    /// The load as plans describe it. If it has more threads than connections, only one thread per
    /// connection is started.
    pub load: plan::Load,
    /// The step of this load.
    pub step: Step,
    /// Send instants of a recorded schedule, nanoseconds since the schedule began. Empty: the step
    /// replays no recorded schedule.
    #[serde(with = "shared_slice")]
    pub trace: Arc<[u64]>,
    pub sharing: Sharing,
    pub seed: u64,
    /// Polling of this load, decided from `load.spin` by `dyno-suite`.
    pub spin: SpinPolicy,
    /// CPUs of the worker threads; empty: any.
    pub cpus: Vec<u32>,
}

/// The server of a load, and the way of connecting to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadTarget {
    pub endpoint: Endpoint,
    pub protocol: Protocol,
    /// `None`: plain connections.
    pub tls: Option<TlsOptions>,
}

impl LoadTarget {
    /// Returns the settings of the connections, for the plan of the load.
    #[must_use]
    pub fn connection_settings(&self) -> ConnectionSettings {
        let tls_settings = |tls: &TlsOptions| TlsSettings {
            resumption: matches!(tls.resumption, SessionResumption::On),
            certificates: match tls.trust {
                TrustedCertificates::System => AcceptedCertificates::System,
                TrustedCertificates::File(_) => AcceptedCertificates::File,
                TrustedCertificates::Any => AcceptedCertificates::Any,
            },
            client_certificate: tls.identity.is_some(),
        };
        ConnectionSettings {
            unix_socket: matches!(self.endpoint.peer, PeerAddress::Unix(_)),
            sources: self.endpoint.sources.clone(),
            tls: self.tls.as_ref().map(tls_settings),
        }
    }
}

/// Serialises a shared slice like a list.
mod shared_slice {
    use std::sync::Arc;

    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[u64], to: S) -> Result<S::Ok, S::Error> {
        values.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Arc<[u64]>, D::Error> {
        Vec::deserialize(from).map(Arc::from)
    }
}

impl LoadSpec {
    /// Returns the total number of connections.
    #[must_use]
    pub fn connections(&self) -> u32 {
        self.step.connections.saturating_mul(self.page_connections.unwrap_or(1))
    }

    /// Returns the number of worker threads.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.load.threads.clamp(1, self.step.connections.max(1))
    }

    /// Returns the same load as a closed loop without ramp or polling and with a short drain, for
    /// cases in which the server must be busy and response times are not measured.
    #[must_use]
    pub fn to_busy_loop(self) -> LoadSpec {
        let drain_ns = self.load.timeout_ns.min(limits::DRAIN_NS);
        LoadSpec {
            step: Step { arrivals: Arrivals::Closed, ..self.step },
            sharing: Sharing::Alone,
            load: plan::Load { ramp_connections_ns: None, drain_ns, ..self.load },
            spin: SpinPolicy::Never,
            ..self
        }
    }

    /// Returns the policy of a worker. `share`: divides a number among the workers.
    pub(super) fn policy(&self, share: impl Fn(u64) -> u64) -> Policy {
        Policy {
            timeout_ns: self.load.timeout_ns,
            first_byte_timeout_ns: self.load.first_byte_timeout_ns,
            connect_timeout_ns: self.load.connect_timeout_ns,
            requests_per_connection: self.load.requests_per_connection,
            ramp_ns: self.load.ramp_connections_ns,
            backs_off: self.load.reconnect == plan::Reconnect::Backoff,
            max_waiting: self.load.max_waiting.map(share),
        }
    }

    /// Returns the phases of the load, with the time that other loads take.
    #[must_use]
    pub fn window(&self) -> Window {
        self.sharing.extend(Window {
            warmup_ns: self.load.warmup_ns,
            duration_ns: self.load.set_duration_ns(),
            interval_ns: self.load.interval_ns,
            drain_ns: self.load.drain_ns,
        })
    }

    /// Returns the polling of the workers. A polling worker would take CPU time from the other
    /// generators on the same CPUs.
    pub(super) const fn spin(&self) -> SpinPolicy {
        match self.sharing {
            Sharing::Together { .. } => SpinPolicy::Never,
            Sharing::Alone | Sharing::Turns { .. } => self.spin,
        }
    }
}

/// Makes loads take turns, in slices of this length. A single load is unchanged.
pub fn take_turns(specs: &mut [LoadSpec], slice_ns: u64) {
    let (loads, seed) = (specs.len() as u32, specs.first().map_or(0, |first| first.seed));
    if loads < 2 {
        return;
    }
    for (index, spec) in (0..).zip(specs) {
        spec.sharing = Sharing::Turns { slice_ns, loads, index, seed };
    }
}

/// Makes loads run at the same time on the same CPUs. If the other servers of a duet have failed, a
/// single load is left. The record of this load has the number 1, so that reports do not compare
/// the load with loads that ran at the same time.
pub fn share_cpus(specs: &mut [LoadSpec]) {
    let loads = specs.len() as u32;
    specs.iter_mut().for_each(|spec| spec.sharing = Sharing::Together { loads });
}

/// Returns a load of one request with long time-outs, sent to a listener. Other loads are derived
/// from it. `defaults`: the settings that a single request leaves open.
#[must_use]
pub fn single_request(
    listener: &Listener,
    requests: LoadRequests,
    defaults: plan::Load,
) -> LoadSpec {
    let patience_ns = CHECK.as_nanos() as u64;
    LoadSpec {
        target: LoadTarget {
            endpoint: listener.addr.into(),
            protocol: listener.protocol,
            tls: listener.tls(),
        },
        page_connections: None,
        load: plan::Load {
            warmup_ns: 0,
            duration_ns: 0,
            requests: Some(1),
            timeout_ns: patience_ns,
            connect_timeout_ns: patience_ns,
            drain_ns: patience_ns,
            check_one_in: 1,
            http2: requests.http2(),
            ..defaults
        },
        step: Step { connections: 1, streams: 1, pipeline: 1, arrivals: Arrivals::Closed, pass: 1 },
        requests,
        trace: Arc::from([]),
        sharing: Sharing::Alone,
        seed: 0,
        spin: SpinPolicy::Never,
        cpus: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_settings_describe_socket_and_tls() {
        let plain = LoadTarget {
            endpoint: std::net::SocketAddr::from(([127, 0, 0, 1], 80)).into(),
            protocol: Protocol::H1,
            tls: None,
        };
        assert_eq!(plain.connection_settings(), ConnectionSettings::default());
        let options = TlsOptions {
            name: "h".into(),
            trust: TrustedCertificates::File("ca.pem".into()),
            identity: Some(("cert.pem".into(), "key.pem".into())),
            resumption: SessionResumption::Off,
            alpn: TlsOptions::alpn(Protocol::H2),
        };
        let endpoint = Endpoint {
            peer: PeerAddress::Unix("/run/server".into()),
            sources: vec![[127, 0, 0, 2].into()],
            ..plain.endpoint
        };
        let target = LoadTarget { endpoint, protocol: Protocol::H2, tls: Some(options) };
        let settings = target.connection_settings();
        assert!(settings.unix_socket);
        assert_eq!(settings.sources, target.endpoint.sources);
        let tls = TlsSettings {
            resumption: false,
            certificates: AcceptedCertificates::File,
            client_certificate: true,
        };
        assert_eq!(settings.tls, Some(tls));
    }
}
