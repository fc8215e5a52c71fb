//! Ceilings that a calibration found on this machine, and the choice of the one for a later load.

use dyno_archive::limits::COUNT;
use dyno_archive::plan::{DriverKind, LoadModel};
use dyno_archive::trial::Ceiling;
use dyno_archive::{LoadRecord, Protocol};
use serde::{Deserialize, Serialize};

use crate::load::LoadConfig;

/// The ceiling of one kind of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KindCeiling {
    pub driver: DriverKind,
    /// Files without this key are from before HTTP/2.
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
    /// Whether a load can be compared with this number. The file may come from any source.
    fn is_usable(&self) -> bool {
        let rps = self.ceiling.throughput_rps;
        rps > 0.0 && rps <= COUNT as f64
    }
}

/// Returns the ceiling to compare a load with. `None`: none of its kind was measured, or the load
/// is not a closed loop of one thread over plain connections that stayed open to the end.
#[must_use]
pub fn find_for_load<'a>(
    all: &'a [KindCeiling],
    asked: &LoadConfig,
    record: &LoadRecord,
) -> Option<&'a Ceiling> {
    // A thread without a connection is not started.
    let threads = asked.threads.clamp(1, asked.connections.max(1));
    let is_comparable = threads == 1
        && asked.model == LoadModel::Closed
        && !asked.protocol.is_tls()
        && asked.page_connections.is_none()
        && asked.requests_per_connection.is_none()
        && asked.ramp_connections_s.is_none()
        && record.connections.opened <= u64::from(asked.connections)
        && record.connections.closed_by_us + record.connections.closed_by_server == 0;
    // After the upgrade a connection is like any other of HTTP/2.
    let protocol = if asked.protocol.is_h2() { Protocol::H2c } else { Protocol::H1 };
    let each = asked.pipeline * asked.streams;
    let is_like = |kind: &&KindCeiling| {
        kind.is_usable()
            && kind.in_flight_each.is_none_or(|most| each <= most)
            && kind.driver == asked.driver
            && kind.protocol == protocol
            && kind.pipelined == (each > 1)
    };
    all.iter().filter(|_| is_comparable).find(is_like).map(|kind| &kind.ceiling)
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::Arrivals;

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

    /// Throughput of the ceiling that is found for a load of 64 connections after a change.
    fn ceiling_throughput(change: impl FnOnce(&mut LoadConfig, &mut LoadRecord)) -> Option<f64> {
        let all = [Protocol::H1, Protocol::H2c].map(|p| [kind(p, false), kind(p, true)]).concat();
        let (mut asked, mut record) = (fixture::config(Arrivals::Closed), fixture::record(1));
        (asked.driver, asked.connections, asked.threads) = (DriverKind::Epoll, 64, 1);
        change(&mut asked, &mut record);
        find_for_load(&all, &asked, &record).map(|ceiling| ceiling.throughput_rps)
    }

    #[test]
    fn load_has_the_ceiling_of_its_kind() {
        assert_eq!(ceiling_throughput(|_, _| {}), Some(1.0));
        assert_eq!(ceiling_throughput(|asked, _| asked.pipeline = 2), Some(2.0));
        assert_eq!(ceiling_throughput(|asked, _| asked.protocol = Protocol::H2c), Some(3.0));
        assert_eq!(
            ceiling_throughput(
                |asked, _| (asked.protocol, asked.streams) = (Protocol::H2cUpgrade, 10)
            ),
            Some(4.0)
        );
        assert_eq!(
            ceiling_throughput(|asked, _| asked.driver = DriverKind::Uring),
            None,
            "none was measured"
        );
    }

    #[test]
    fn ceiling_that_is_no_number_of_answers_is_none() {
        let (asked, record) = (fixture::config(Arrivals::Closed), fixture::record(1));
        let of = |throughput_rps: f64| {
            let known = kind(Protocol::H1, false);
            let ceiling = Ceiling { throughput_rps, ..known.ceiling.clone() };
            let all =
                [KindCeiling { driver: asked.driver, in_flight_each: None, ceiling, ..known }];
            find_for_load(&all, &asked, &record).map(|ceiling| ceiling.throughput_rps)
        };
        assert_eq!([1.0, 0.0, -5.0, 1e300, f64::NAN].map(of), [Some(1.0), None, None, None, None]);
    }

    #[test]
    fn only_closed_loops_over_kept_plain_connections_have_one() {
        assert_eq!(ceiling_throughput(|asked, _| asked.threads = 2), None);
        assert_eq!(
            ceiling_throughput(|asked, record| {
                (asked.threads, asked.connections) = (2, 1);
                record.connections.opened = 1;
            }),
            Some(1.0),
            "the second thread has no connection"
        );
        let open = Arrivals::Constant { rate: 5.0 };
        assert_eq!(ceiling_throughput(|asked, _| asked.model = open.model()), None);
        assert_eq!(ceiling_throughput(|asked, _| asked.protocol = Protocol::H1Tls), None);
        assert_eq!(ceiling_throughput(|asked, _| asked.protocol = Protocol::H2), None);
        assert_eq!(ceiling_throughput(|asked, _| asked.page_connections = Some(6)), None);
        assert_eq!(ceiling_throughput(|asked, _| asked.requests_per_connection = Some(10)), None);
        assert_eq!(ceiling_throughput(|asked, _| asked.ramp_connections_s = Some(1.0)), None);
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
        assert_eq!(ceiling_throughput(|asked, _| asked.pipeline = 16), Some(2.0));
        assert_eq!(
            ceiling_throughput(|asked, _| asked.pipeline = 17),
            None,
            "no ceiling has that many in flight"
        );
    }
}
