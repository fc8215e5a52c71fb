//! Chooses the ceiling with which a load is compared. Ceilings come from a calibration on this
//! machine.

use dyno_model::limits::COUNT;
use dyno_model::plan::{DriverKind, LoadModel};
use dyno_model::trial::Ceiling;
use dyno_model::{LoadRecord, Protocol};
use serde::{Deserialize, Serialize};

use crate::load::LoadConfig;

/// The highest throughput of the generator for one kind of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindCeiling {
    pub driver: DriverKind,
    /// Older files lack this key. They are from before dyno supported HTTP/2.
    #[serde(default)]
    pub protocol: Protocol,
    /// Whether several requests were in flight on a connection: pipelined, or as streams.
    pub pipelined: bool,
    /// Requests in flight on each connection during the measurement. `None`: the file is older than
    /// this key.
    #[serde(default)]
    pub in_flight_each: Option<u32>,
    pub ceiling: Ceiling,
}

impl KindCeiling {
    /// Whether the ceiling is a plausible number. The file may come from any source.
    fn is_usable(&self) -> bool {
        let rps = self.ceiling.throughput_rps;
        rps > 0.0 && rps <= COUNT as f64
    }
}

/// Returns the ceiling with which a load is compared. `None`: no ceiling of its kind was measured,
/// or the load is not comparable. A comparable load is a closed loop of one thread without TLS,
/// whose connections all stayed open to the end.
#[must_use]
pub fn find_for_load<'a>(
    ceilings: &'a [KindCeiling],
    config: &LoadConfig,
    record: &LoadRecord,
) -> Option<&'a Ceiling> {
    // A thread without a connection is not started.
    let threads = config.threads.clamp(1, config.connections.max(1));
    let is_comparable = threads == 1
        && config.model == LoadModel::Closed
        && !config.protocol.is_tls()
        && config.page_connections.is_none()
        && config.requests_per_connection.is_none()
        && config.ramp_connections_s.is_none()
        && record.connections.opened <= u64::from(config.connections)
        && record.connections.closed_by_us + record.connections.closed_by_server == 0;
    if !is_comparable {
        return None;
    }
    // After an upgrade from HTTP/1.1, a connection is an ordinary HTTP/2 connection, so the ceiling
    // of `h2c` applies.
    let protocol = if config.protocol.is_h2() { Protocol::H2c } else { Protocol::H1 };
    let in_flight_each = config.pipeline * config.streams;
    let is_same_kind = |kind: &&KindCeiling| {
        kind.is_usable()
            && kind.in_flight_each.is_none_or(|measured| in_flight_each <= measured)
            && kind.driver == config.driver
            && kind.protocol == protocol
            && kind.pipelined == (in_flight_each > 1)
    };
    ceilings.iter().find(is_same_kind).map(|kind| &kind.ceiling)
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::Arrivals;

    use super::*;
    use crate::fixture;

    fn kind(protocol: Protocol, pipelined: bool) -> KindCeiling {
        let throughput_rps =
            f64::from(u8::from(protocol.is_h2())) * 2.0 + f64::from(u8::from(pipelined)) + 1.0;
        let ceiling = Ceiling { throughput_rps, measured: "2026-01-02".into() };
        KindCeiling {
            driver: DriverKind::Epoll,
            protocol,
            pipelined,
            in_flight_each: Some(16),
            ceiling,
        }
    }

    /// Returns the throughput of the ceiling for a load of 64 connections after a change.
    fn ceiling_throughput(change: impl FnOnce(&mut LoadConfig, &mut LoadRecord)) -> Option<f64> {
        let ceilings =
            [Protocol::H1, Protocol::H2c].map(|p| [kind(p, false), kind(p, true)]).concat();
        let (mut config, mut record) = (fixture::config(Arrivals::Closed), fixture::record(1));
        (config.driver, config.connections, config.threads) = (DriverKind::Epoll, 64, 1);
        change(&mut config, &mut record);
        find_for_load(&ceilings, &config, &record).map(|ceiling| ceiling.throughput_rps)
    }

    #[test]
    fn find_for_load_returns_ceiling_of_same_kind() {
        assert_eq!(ceiling_throughput(|_, _| {}), Some(1.0));
        assert_eq!(ceiling_throughput(|config, _| config.pipeline = 2), Some(2.0));
        assert_eq!(ceiling_throughput(|config, _| config.protocol = Protocol::H2c), Some(3.0));
        assert_eq!(
            ceiling_throughput(
                |config, _| (config.protocol, config.streams) = (Protocol::H2cUpgrade, 10)
            ),
            Some(4.0)
        );
        assert_eq!(
            ceiling_throughput(|config, _| config.driver = DriverKind::Uring),
            None,
            "none was measured"
        );
    }

    #[test]
    fn unusable_ceiling_is_ignored() {
        let (config, record) = (fixture::config(Arrivals::Closed), fixture::record(1));
        let throughput_for = |throughput_rps: f64| {
            let known = kind(Protocol::H1, false);
            let ceiling = Ceiling { throughput_rps, ..known.ceiling.clone() };
            let ceilings =
                [KindCeiling { driver: config.driver, in_flight_each: None, ceiling, ..known }];
            find_for_load(&ceilings, &config, &record).map(|ceiling| ceiling.throughput_rps)
        };
        assert_eq!(
            [1.0, 0.0, -5.0, 1e300, f64::NAN].map(throughput_for),
            [Some(1.0), None, None, None, None]
        );
    }

    #[test]
    fn ceiling_requires_closed_loop_on_open_connections() {
        assert_eq!(ceiling_throughput(|config, _| config.threads = 2), None);
        assert_eq!(
            ceiling_throughput(|config, record| {
                (config.threads, config.connections) = (2, 1);
                record.connections.opened = 1;
            }),
            Some(1.0),
            "the second thread has no connection"
        );
        let open = Arrivals::Constant { rate: 5.0 };
        assert_eq!(ceiling_throughput(|config, _| config.model = open.model()), None);
        assert_eq!(ceiling_throughput(|config, _| config.protocol = Protocol::H1Tls), None);
        assert_eq!(ceiling_throughput(|config, _| config.protocol = Protocol::H2), None);
        assert_eq!(ceiling_throughput(|config, _| config.page_connections = Some(6)), None);
        assert_eq!(ceiling_throughput(|config, _| config.requests_per_connection = Some(10)), None);
        assert_eq!(ceiling_throughput(|config, _| config.ramp_connections_s = Some(1.0)), None);
        assert_eq!(
            ceiling_throughput(|_, record| record.connections.opened = 65),
            None,
            "one was opened again"
        );
        assert_eq!(
            ceiling_throughput(|_, record| record.connections.closed_by_us = 1),
            None,
            "one was closed"
        );
        assert_eq!(
            ceiling_throughput(|_, record| record.connections.closed_by_server = 1),
            None,
            "one was closed"
        );
        assert_eq!(ceiling_throughput(|config, _| config.pipeline = 16), Some(2.0));
        assert_eq!(
            ceiling_throughput(|config, _| config.pipeline = 17),
            None,
            "no ceiling has that many in flight"
        );
    }
}
