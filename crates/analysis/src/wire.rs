//! Summarizes the network traffic between a subject and the generator, protocol by protocol.

use dyno_model::Protocol;
use dyno_model::protocol;
use schemars::JsonSchema;
use serde::Serialize;

use crate::metric::{MetricId, Ratios};
use crate::stats::Repeated;
use crate::trial::TrialResult;

/// Metrics that are shown for every protocol.
pub const COMMON_METRICS: [MetricId; 4] =
    [MetricId::Segments, MetricId::BytesReceived, MetricId::BytesSent, MetricId::Retransmits];

/// Further metrics that are shown only for HTTP/2.
pub const HTTP2_METRICS: [MetricId; 8] = [
    MetricId::Frames,
    MetricId::FramesPerSegment,
    MetricId::Http2Segments,
    MetricId::ResponsesPerReceive,
    MetricId::HeaderBytesSavedIn,
    MetricId::HeaderBytesSavedOut,
    MetricId::WindowStalls,
    MetricId::RequestsRetried,
];

/// Traffic of one arm with one protocol. Invalid trials are included, because the bytes that a
/// server sends do not depend on the quality of the load.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WireResult {
    /// Name of the arm.
    pub subject: String,
    #[serde(flatten, with = "protocol::keys")]
    #[schemars(with = "protocol::keys::ProtocolKeys")]
    pub protocol: Protocol,
    /// Number of the arm's trials with this protocol.
    pub trials: usize,
    /// Metrics by key, each with one value per trial in which it is known.
    pub metrics: Ratios,
}

/// Returns one result per arm and protocol, in the order of their first trials.
#[must_use]
pub fn wire(trials: &[TrialResult]) -> Vec<WireResult> {
    let mut groups: Vec<((usize, Protocol), Vec<&TrialResult>)> = Vec::new();
    for trial in trials {
        let key = (trial.cell.arm, trial.load.config.protocol);
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, group)) => group.push(trial),
            None => groups.push((key, vec![trial])),
        }
    }
    groups.into_iter().map(|((_, protocol), group)| wire_result(protocol, &group)).collect()
}

/// Summarizes the traffic of one arm with one protocol.
fn wire_result(protocol: Protocol, trials: &[&TrialResult]) -> WireResult {
    let summarize = |id: MetricId| {
        let values = trials.iter().filter_map(|t| (id.metric().pick)(t));
        (id, Repeated::new(values.collect()))
    };
    WireResult {
        subject: trials[0].subject_id.clone(),
        protocol,
        trials: trials.len(),
        metrics: COMMON_METRICS
            .into_iter()
            .chain(HTTP2_METRICS)
            .map(summarize)
            .filter(|(_, q)| !q.values.is_empty())
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::five_block_report;

    #[test]
    fn wire_has_one_result_per_arm_and_protocol() {
        let mut trials = five_block_report().trials;
        let last = trials.last_mut().expect("there are some");
        last.load.config.protocol = Protocol::H2c;
        let last_subject = last.subject_id.clone();
        let results = wire(&trials);
        let rows: Vec<_> =
            results.iter().map(|r| (r.subject.as_str(), r.protocol, r.trials)).collect();
        let expected: Vec<_> = ["slow", "fast", "null"]
            .into_iter()
            .map(|id| (id, Protocol::H1, if id == last_subject { 19 } else { 20 }))
            .chain([(last_subject.as_str(), Protocol::H2c, 1)])
            .collect();
        assert_eq!(rows, expected);
        // Invalid trials are included.
        assert_eq!(results[1].metrics[&MetricId::BytesReceived].values.len(), 20);
    }
}
