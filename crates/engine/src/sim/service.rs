//! Service times of simulated servers.

use crate::rng::Rng;

/// Service time of one request.
#[derive(Clone, Copy, Debug)]
pub enum ServiceTime {
    Fixed {
        ns: u64,
    },
    Exponential {
        mean_ns: f64,
    },
    /// Falls linearly from `cold_ns` to `warm_ns` over a number of requests.
    Warming {
        cold_ns: u64,
        warm_ns: u64,
        /// Number of requests after which the server is warm, above 0.
        requests: u64,
        /// Number of these requests that were served before the simulation.
        served: u64,
    },
}

impl ServiceTime {
    /// Returns the service time of the next request, nanoseconds. `requests`: number of requests in
    /// the simulation, including this one.
    pub(super) fn draw(self, rng: &mut Rng, requests: u64) -> u64 {
        match self {
            ServiceTime::Fixed { ns } => ns,
            ServiceTime::Exponential { mean_ns } => rng.exponential(mean_ns) as u64,
            ServiceTime::Warming { cold_ns, warm_ns, requests: all, served } => {
                let remaining = all.saturating_sub(served + requests);
                warm_ns + (cold_ns - warm_ns) * remaining / all
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warming_server_becomes_faster_until_it_is_warm() {
        let draw = |served, requests| {
            let service =
                ServiceTime::Warming { cold_ns: 1100, warm_ns: 100, requests: 10, served };
            service.draw(&mut Rng::new(1), requests)
        };
        assert_eq!([draw(0, 1), draw(0, 5), draw(0, 10), draw(0, 99)], [1000, 600, 100, 100]);
        assert_eq!(draw(4, 1), draw(0, 5));
    }
}
