//! How a subject is come to: what it speaks at which of its ports, and how a load has to speak there.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use dyno_archive::plan::{Arrivals, Plan, Step};
use dyno_driver::best_driver;
use dyno_engine::{Http2, Policy, Protocol, Spin, Traffic, Window, limits};
use dyno_workload::traffic;

use crate::files::Folder;
use crate::limits::CHECK;
use crate::load;
use crate::tls::{SessionResumption, TlsOptions, Trust};

/// `h1`, `h1 and h2`, `h1, h1-tls and h2`.
#[must_use]
pub fn list(protocols: &[Protocol]) -> String {
    match protocols {
        [] => "nothing".into(),
        [one] => one.to_string(),
        [rest @ .., last] => {
            let rest: Vec<&str> = rest.iter().map(|p| p.name()).collect();
            format!("{} and {last}", rest.join(", "))
        }
    }
}

/// One way into a running subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Door {
    pub addr: SocketAddr,
    pub protocol: Protocol,
    /// Who vouches for the subject's certificate; needed over TLS only.
    pub authority: Option<PathBuf>,
}

impl Door {
    /// What requests call the server. Over TLS by name, so that clients send SNI as they do elsewhere, and servers find
    /// in the request the name that was in the handshake.
    #[must_use]
    pub fn host(&self) -> String {
        if self.protocol.is_tls() { format!("localhost:{}", self.addr.port()) } else { self.addr.to_string() }
    }

    #[must_use]
    pub fn tls(&self) -> Option<TlsOptions> {
        self.protocol.is_tls().then(|| TlsOptions {
            name: "localhost".into(),
            trust: self.authority.clone().map_or(Trust::System, Trust::File),
            identity: None,
            resumption: SessionResumption::On,
            alpn: TlsOptions::alpn(self.protocol),
        })
    }

    /// The load of a trial.
    ///
    /// # Errors
    /// A file that a request names cannot be read, or what it says cannot be sent; as a sentence.
    pub fn trial(&self, plan: &Plan, trial: usize) -> Result<load::Spec, String> {
        let load = &plan.load;
        let planned = plan.trials[trial];
        let (step, workload) = (load.steps[planned.step].clone(), &plan.workloads[planned.workload]);
        let files = Folder::of_suite(Path::new(&plan.suite.path));
        let traffic = traffic::compile(workload, &self.host(), &load.http2, &|file| files.read(file))?;
        Ok(load::Spec {
            page_connections: workload.page_connections(),
            check_one_in: load.check_one_in,
            // Each trial draws its own arrivals, and the same again when the run is done again.
            seed: plan.seed ^ (trial as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            total: None,
            policy: Policy {
                timeout_ns: load.timeout_ns,
                first_byte_timeout_ns: load.first_byte_timeout_ns,
                connect_timeout_ns: load.connect_timeout_ns,
                requests_per_connection: load.requests_per_connection,
                ramp_ns: load.ramp_connections_ns,
            },
            spin: load::polling(load.spin, &step.arrivals, plan.placement.is_disjoint()),
            window: Window {
                warmup_ns: load.warmup_ns,
                duration_ns: Some(load.duration_ns),
                interval_ns: load.interval_ns,
                drain_ns: limits::DRAIN_NS.min(load.timeout_ns),
            },
            threads: load.threads,
            driver: load.driver,
            cpus: plan.placement.generator.clone(),
            step,
            ..self.load(traffic, load.http2)
        })
    }

    /// A load that comes in here: one request, patiently. What is to be otherwise, the caller changes.
    #[must_use]
    pub fn load(&self, traffic: Traffic, http2: Http2) -> load::Spec {
        load::Spec {
            endpoint: self.addr.into(),
            protocol: self.protocol,
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
            driver: best_driver().0,
            cpus: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_sentences() {
        assert_eq!(list(&Protocol::OF_SERVERS), "h1, h1-tls, h2, h2c and h2c-upgrade");
        assert_eq!((list(&Protocol::OF_SERVERS[..1]).as_str(), list(&[]).as_str()), ("h1", "nothing"));
    }
}
