//! Completes the settings of a load without a suite: schedule, length, threads and polling.

use std::sync::Arc;

use dyno_engine::SpinPolicy;
use dyno_model::plan::Arrivals;
use dyno_workload::rates;
use sha2::{Digest as _, Sha256};

use super::LoadSettings;
use super::table::MIN_DURATION_NS;
use crate::defaults::polling;

/// The longest trace, nanoseconds: 30 days, as for every length of a load.
const LONGEST_TRACE_NS: f64 = 30.0 * 24.0 * 3600e9;

/// The shortest measured window of a trace, nanoseconds. In a shorter window, shares of time (such
/// as CPU use) would be meaningless.
const SHORTEST_TRACE_NS: u64 = 10_000_000;

/// Where the server of a load runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerPlace {
    /// On the generator's machine, of which it needs a part.
    ThisMachine,
    OtherMachine,
}

/// Recorded times at which requests start.
#[derive(Clone, Debug)]
pub struct Trace {
    pub arrivals: Arrivals,
    /// Nanoseconds since the first time.
    pub times: Arc<[u64]>,
}

impl Trace {
    /// Parses recorded times: a number of seconds on each line, from any origin and in any order.
    /// `#` begins a comment. `name`: name of the file.
    ///
    /// # Errors
    /// The file has no times, or an invalid one.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<Trace, String> {
        let text = String::from_utf8_lossy(bytes);
        let mut seconds = Vec::new();
        for (i, line) in text.lines().enumerate() {
            let number = line.split('#').next().unwrap_or_default().trim();
            if number.is_empty() {
                continue;
            }
            let time = number.parse::<f64>().ok().filter(|s| s.is_finite());
            seconds.push(time.ok_or_else(|| {
                let line = i + 1;
                format!(
                    "{name}:{line}: {number:?} is not a time in seconds\nhint: write it like 0.25"
                )
            })?);
        }
        seconds.sort_by(f64::total_cmp);
        let (Some(first), Some(last)) = (seconds.first(), seconds.last()) else {
            return Err(format!(
                "{name}: has no times\nhint: write a number of seconds on each line"
            ));
        };
        if (last - first) * 1e9 > LONGEST_TRACE_NS {
            return Err(format!(
                "{name}: the times span more than 30 days\nhint: write the times in seconds"
            ));
        }
        let times: Arc<[u64]> =
            seconds.iter().map(|s| ((s - first) * 1e9).round() as u64).collect();
        let (count, sha256) = (times.len() as u64, format!("{:x}", Sha256::digest(bytes)));
        Ok(Trace { arrivals: Arrivals::Trace { file: name.into(), count, sha256 }, times })
    }

    /// Returns the measured window, nanoseconds. The window ends just after the last time.
    fn window_ns(&self, warmup_ns: u64) -> Result<u64, String> {
        let last_ns = self.times.last().copied().unwrap_or(0);
        if last_ns < warmup_ns {
            return Err(
                "--trace: all times are within the warm-up\nhint: use a shorter --warmup, or a \
                 longer trace"
                    .into(),
            );
        }
        Ok((last_ns + 1 - warmup_ns).max(SHORTEST_TRACE_NS))
    }
}

impl LoadSettings {
    /// Completes the lengths of the load, and returns its schedule. `trace`: recorded times that
    /// replace the rate.
    ///
    /// # Errors
    /// The rate is invalid, or the trace ends within the warm-up.
    pub fn resolve_single(&mut self, trace: Option<&Trace>) -> Result<Arrivals, String> {
        let is_duration_given = self.has("duration");
        self.load.warmup_ns = self.warmup_length_ns();
        let rate = self.rates.first().map(ToString::to_string);
        let rate_length_ns = rate.as_deref().and_then(rates::length_ns);
        if let Some(length_ns) = rate_length_ns.filter(|_| !is_duration_given) {
            if length_ns < MIN_DURATION_NS {
                return Err("--rate: the sections must last at least 10ms together".into());
            }
            self.load.duration_ns = length_ns;
        }
        let arrivals = match (trace, self.rates.first()) {
            (Some(trace), _) => trace.arrivals.clone(),
            (None, Some(rate)) => self.schedule(rate).map_err(|m| format!("--rate: {m}"))?,
            (None, None) => Arrivals::Closed,
        };
        if !is_duration_given && self.load.requests.is_some() {
            // The last request ends the load.
            self.load.duration_ns = 0;
        } else if let Some(trace) = trace.filter(|_| !is_duration_given) {
            self.load.duration_ns = trace.window_ns(self.load.warmup_ns)?;
        }
        Ok(arrivals)
    }

    /// Returns the number of generator threads for a server that dyno did not start:
    ///
    /// - `threads`, if it is given;
    /// - otherwise half of the usable CPUs, if the server is on this machine and needs the other
    ///   half;
    /// - otherwise one per usable CPU. Named CPUs select this case, too.
    ///
    /// There is at most one thread per connection. `cpus`: CPUs of the threads; empty: any of
    /// `allowed`, the CPUs that dyno may use.
    #[must_use]
    pub fn threads_for(&self, server: ServerPlace, cpus: &[u32], allowed: &[u32]) -> u32 {
        let usable = usable_cpus(cpus, allowed);
        let threads = match (self.threads, server) {
            (Some(threads), _) => threads,
            (None, ServerPlace::ThisMachine) if cpus.is_empty() => usable / 2,
            (None, _) => usable,
        };
        threads.clamp(1, self.connections[0])
    }

    /// Returns whether this many threads poll. With `auto` they poll if a usable CPU stays free
    /// for a server on this machine. `cpus`: CPUs of the threads; empty: any of `allowed`.
    #[must_use]
    pub fn polling(
        &self,
        arrivals: &Arrivals,
        threads: u32,
        cpus: &[u32],
        allowed: &[u32],
    ) -> SpinPolicy {
        let leaves_free_cpu = match cpus.is_empty() {
            true => allowed.len() > threads as usize,
            false => allowed.iter().any(|cpu| !cpus.contains(cpu)),
        };
        polling(self.load.spin, arrivals, leaves_free_cpu)
    }
}

/// Returns the number of CPUs on which generator threads may run. `cpus`: their CPUs; empty: any of
/// `allowed`.
#[must_use]
pub const fn usable_cpus(cpus: &[u32], allowed: &[u32]) -> u32 {
    let cpus = if cpus.is_empty() { allowed.len() } else { cpus.len() };
    cpus as u32
}

#[cfg(test)]
mod tests {
    use super::super::Setting;
    use super::*;

    #[test]
    fn short_trace_has_minimum_window() {
        let window_ns = |last: &str, warmup_ns| {
            Trace::parse("t", format!("0\n{last}\n").as_bytes()).unwrap().window_ns(warmup_ns)
        };
        assert_eq!(window_ns("0", 0).unwrap(), 10_000_000, "one time");
        assert_eq!(window_ns("0.49", 0).unwrap(), 490_000_001);
        assert_eq!(window_ns("0.49", 100_000_000).unwrap(), 390_000_001);
        assert_eq!(window_ns("0.49", 490_000_000).unwrap(), 10_000_000);
        let error = window_ns("0.49", 500_000_000).unwrap_err();
        assert!(error.contains("within the warm-up") && error.contains("hint:"), "{error}");
    }

    #[test]
    fn trace_times_start_at_zero() {
        let trace = Trace::parse("t", b"# times\n100.5\n100.25 # early\n\n101\n").unwrap();
        assert_eq!(*trace.times, [0, 250_000_000, 750_000_000]);
        assert!(matches!(trace.arrivals, Arrivals::Trace { count: 3, .. }));
        let error = |text: &[u8]| Trace::parse("t", text).unwrap_err();
        assert!(error(b"1\nx\n").contains("t:2: \"x\" is not a time"));
        assert!(error(b"#\n").contains("no times"));
    }

    #[test]
    fn threads_depend_on_cpus_server_and_connections() {
        let allowed = [0, 1, 2, 3, 4, 5];
        let threads = |words: &[(&str, &str)], server, cpus: &[u32]| {
            let mut settings = LoadSettings::default();
            for (key, text) in words {
                settings.set(Setting::with_key(key), text).unwrap();
            }
            settings.threads_for(server, cpus, &allowed)
        };
        let (here, elsewhere) = (ServerPlace::ThisMachine, ServerPlace::OtherMachine);
        assert_eq!([threads(&[], here, &[]), threads(&[], elsewhere, &[])], [3, 6]);
        assert_eq!(threads(&[], here, &[4, 5]), 2, "named CPUs are separate from the server's");
        assert_eq!(threads(&[("threads", "9")], here, &[]), 9);
        assert_eq!(threads(&[("threads", "9"), ("connections", "2")], here, &[]), 2);
    }

    #[test]
    fn threads_poll_if_server_has_free_cpu() {
        let (open, allowed) = (Arrivals::Constant { rate: 5.0 }, [0, 1]);
        let polling = |arrivals: &Arrivals, threads, cpus: &[u32]| {
            LoadSettings::default().polling(arrivals, threads, cpus, &allowed)
        };
        assert_eq!(polling(&open, 1, &[]), SpinPolicy::Near);
        assert_eq!(polling(&open, 2, &[]), SpinPolicy::Never);
        assert_eq!(polling(&open, 2, &[1]), SpinPolicy::Near);
        assert_eq!(polling(&open, 1, &[0, 1]), SpinPolicy::Never);
        assert_eq!(polling(&Arrivals::Closed, 1, &[]), SpinPolicy::Never);
    }

    #[test]
    fn length_depends_on_rate_requests_and_trace() {
        const S: u64 = 1_000_000_000;
        let trace = Trace::parse("t", b"0\n7\n").unwrap();
        for (words, trace, duration_ns) in [
            (&[][..], None, 10 * S),
            (&[("duration", "3s"), ("requests", "5")], None, 3 * S),
            (&[("requests", "5")], None, 0),
            (&[("rate", "1k@2s,2k@4s")], None, 6 * S),
            (&[("rate", "1k@2s,2k@4s"), ("duration", "3s")], None, 3 * S),
            (&[("rate", "1k..2k")], None, 10 * S),
            (&[("warmup", "1s")], Some(&trace), 6 * S + 1),
        ] {
            let mut settings = LoadSettings::default();
            for (key, text) in words {
                settings.set(Setting::with_key(key), text).unwrap();
            }
            settings.resolve_single(trace).unwrap();
            assert_eq!(settings.load.duration_ns, duration_ns, "{words:?}");
        }
    }
}
