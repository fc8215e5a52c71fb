//! Computes how much probes slow a server down, from pairs of time slices with and without probes.

use std::collections::BTreeSet;

use dyno_model::probe::{PriceSlice, Probe, ProbePrice};
use schemars::JsonSchema;
use serde::Serialize;

use crate::stats::Repeated;

/// Cost of probes to a server. Ratios are with probes ÷ without probes, of two neighbouring slices.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PriceResult {
    pub probes: BTreeSet<Probe>,
    /// Ratio of complete responses per second.
    pub throughput: Repeated,
    /// Ratio of the server's CPU time per complete response.
    pub cpu_per_request: Repeated,
    /// Reason why the cost is unknown; `None`: known.
    pub failure: Option<String>,
}

impl PriceResult {
    /// Computes the ratios of all pairs of slices.
    #[must_use]
    pub fn new(price: &ProbePrice) -> PriceResult {
        let pairs: Vec<(&PriceSlice, &PriceSlice)> =
            price.slices.chunks_exact(2).filter_map(pair).collect();
        let ratios = |pick: fn(&PriceSlice) -> Option<f64>| {
            let ratio = |(with, without): &(&PriceSlice, &PriceSlice)| {
                let divisor = pick(without).filter(|n| *n > 0.0)?;
                Some(pick(with)? / divisor)
            };
            Repeated::new(pairs.iter().filter_map(ratio).collect())
        };
        PriceResult {
            probes: price.probes.clone(),
            throughput: ratios(|slice| {
                (slice.length_ns > 0).then(|| slice.responses as f64 / slice.length_ns as f64)
            }),
            cpu_per_request: ratios(|slice| {
                (slice.responses > 0).then_some(slice.cpu_ns? as f64 / slice.responses as f64)
            }),
            failure: price.failure.clone(),
        }
    }
}

/// Returns the slice with probes and the slice without probes; `None`: one of them is missing.
fn pair(neighbours: &[PriceSlice]) -> Option<(&PriceSlice, &PriceSlice)> {
    let with = neighbours.iter().find(|slice| slice.attached)?;
    Some((with, neighbours.iter().find(|slice| !slice.attached)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(attached: bool, responses: u64, cpu_ns: Option<u64>) -> PriceSlice {
        PriceSlice { attached, length_ns: 1_000_000_000, responses, cpu_ns }
    }

    #[test]
    fn price_is_by_pairs_in_any_order() {
        let slices = vec![
            slice(false, 1000, Some(1_000_000)),
            slice(true, 980, Some(1_000_000)),
            slice(true, 490, Some(510_000)),
            slice(false, 500, Some(500_000)),
        ];
        let price = PriceResult::new(&ProbePrice { slices, ..ProbePrice::default() });
        assert_eq!(price.throughput.values, [0.98, 0.98]);
        let cpu: Vec<i64> =
            price.cpu_per_request.values.iter().map(|r| (r * 1e4).round() as i64).collect();
        assert_eq!(cpu, [10_204, 10_408]);
    }

    #[test]
    fn unknown_slices_have_no_price() {
        let slices = vec![slice(false, 0, None), slice(true, 10, None), slice(true, 1, None)];
        let price = PriceResult::new(&ProbePrice { slices, ..ProbePrice::default() });
        assert_eq!((price.throughput.values.len(), price.cpu_per_request.values.len()), (0, 0));
    }
}
