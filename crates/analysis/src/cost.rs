//! Computes the price of a billion requests, and the resources that they use.

use dyno_model::plan::Cost;
use schemars::JsonSchema;
use serde::Serialize;

/// Resources that a server holds while it runs, apart from the CPU time of its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct HeldResources {
    /// Paid CPUs.
    pub(crate) cpus: f64,
    /// `None`: unknown.
    pub(crate) memory_bytes: Option<f64>,
    /// Time of each start until the server is ready, seconds. `None`: unknown.
    pub(crate) startup_s: Option<f64>,
}

/// The price of 10⁹ requests, and its part for memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct CostResult {
    /// In the currency of `[cost]`.
    pub per_billion: f64,
    /// `per_billion` at both ends of the interval of the CPU time per request. With too few repeats
    /// for an interval, at the lowest and the highest repeat. `None`: one repeat only.
    pub between: Option<(f64, f64)>,
    /// Part of the price for memory.
    #[serde(rename = "of_memory")]
    pub memory_part: f64,
}

/// Resources for 10⁹ requests on a server that fully uses all its CPUs. If the server uses only the
/// share u of them, it is paid for 1 / u times as long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "Paid")]
pub struct PaidUse {
    /// Hours of one CPU.
    pub cpu_hours: f64,
    /// Hours of a GiB of memory, which is paid for as long as the CPUs. `None`: the memory is
    /// unknown, because no repeat of the step is valid or the memory was not measured.
    pub gib_hours: Option<f64>,
}

impl PaidUse {
    /// Computes the resources for 10⁹ requests with `cpu_us` microseconds of CPU time each.
    /// `lifetime_hours`: time between two starts of the server; `None`: unlimited.
    ///
    /// A server with c CPUs serves c / t requests per second if each request takes t CPU seconds.
    /// It serves none during its start-up, once per lifetime. Returns `None` if the start-up takes
    /// the whole lifetime, or if there is a lifetime and the start-up is unknown.
    pub(crate) fn from_cpu_time(
        cpu_us: f64,
        held: HeldResources,
        lifetime_hours: Option<f64>,
    ) -> Option<PaidUse> {
        let startup_share = match lifetime_hours {
            Some(hours) => held.startup_s? / 3600.0 / hours,
            None => 0.0,
        };
        let cpu_hours = cpu_us * 1e3 / 3600.0 / (1.0 - startup_share);
        let gib_hours = |bytes| cpu_hours * bytes / f64::from(1 << 30) / held.cpus;
        let gib_hours = held.memory_bytes.map(gib_hours);
        (startup_share < 1.0).then_some(PaidUse { cpu_hours, gib_hours })
    }

    /// Returns the price; `None`: memory has a price, and its amount is unknown.
    fn price(self, cost: Cost) -> Option<f64> {
        let memory = match cost.per_gib_hour {
            Some(price) => self.gib_hours? * price,
            None => 0.0,
        };
        Some((self.cpu_hours * cost.per_vcpu_hour + memory) / cost.utilisation.unwrap_or(1.0))
    }
}

/// Returns the price of 10⁹ requests with this CPU time each. `None`: the start-up takes the whole
/// lifetime, or memory has a price and its amount is unknown.
fn price_of_billion(cpu_us: f64, held: HeldResources, cost: Cost) -> Option<f64> {
    PaidUse::from_cpu_time(cpu_us, held, cost.lifetime_hours)?.price(cost)
}

/// Returns the price of only the CPU time of 10⁹ requests. `cpu_us`: CPU time of each request,
/// which already includes a share of the start-ups.
pub(crate) fn price_of_cpu_time(cpu_us: f64, cost: Cost) -> Option<f64> {
    let cost = Cost { per_gib_hour: None, lifetime_hours: None, ..cost };
    price_of_billion(cpu_us, HeldResources::default(), cost)
}

/// Returns the price with its interval. `cpu_us`: CPU time per request; `between`: the ends of its
/// interval. `None`: the start-up takes the whole lifetime, or memory has a price and its amount is
/// unknown.
pub(crate) fn result(
    cpu_us: f64,
    between: Option<(f64, f64)>,
    held: HeldResources,
    cost: Cost,
) -> Option<CostResult> {
    let price_at = |us| price_of_billion(us, held, cost);
    let without_memory = Cost { per_gib_hour: None, ..cost };
    let per_billion = price_at(cpu_us)?;
    Some(CostResult {
        per_billion,
        between: between.and_then(|(low, high)| price_at(low).zip(price_at(high))),
        memory_part: per_billion - price_of_billion(cpu_us, held, without_memory)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Cost =
        Cost { per_vcpu_hour: 0.036, per_gib_hour: None, utilisation: None, lifetime_hours: None };

    #[test]
    fn price_of_cpu_time_is_per_hour() {
        // 100 µs each are 100,000 CPU seconds, 27.8 hours.
        assert!((price_of_cpu_time(100.0, CPU).unwrap() - 1.0).abs() < 1e-12);
        let half = Cost { utilisation: Some(0.5), ..CPU };
        assert!((price_of_cpu_time(100.0, half).unwrap() - 2.0).abs() < 1e-12);
    }

    #[test]
    fn price_includes_memory_and_start_ups() {
        let gib = f64::from(1 << 30);
        let held = HeldResources { cpus: 2.0, memory_bytes: Some(gib), startup_s: Some(36.0) };
        // Half a GiB per CPU, at a tenth of the CPU's price.
        let memory = Cost { per_gib_hour: Some(0.0072), ..CPU };
        let priced = result(100.0, Some((90.0, 120.0)), held, memory).unwrap();
        assert!(
            (priced.per_billion - 1.1).abs() < 1e-12 && (priced.memory_part - 0.1).abs() < 1e-12
        );
        let (low, high) = priced.between.unwrap();
        assert!((low - 0.99).abs() < 1e-12 && (high - 1.32).abs() < 1e-12);
        // A tenth of every lifetime is start-up.
        let short = Cost { lifetime_hours: Some(0.1), ..CPU };
        assert!((price_of_billion(100.0, held, short).unwrap() - 1.0 / 0.9).abs() < 1e-12);
        for startup_s in [Some(360.0), None] {
            assert_eq!(result(100.0, None, HeldResources { startup_s, ..held }, short), None);
        }
        // Memory without a price need not be known.
        let unknown = HeldResources { memory_bytes: None, ..held };
        assert_eq!(PaidUse::from_cpu_time(100.0, unknown, None).unwrap().gib_hours, None);
        assert_eq!(result(100.0, None, unknown, memory), None);
        assert_eq!(result(100.0, None, unknown, CPU).unwrap().memory_part, 0.0);
    }
}
