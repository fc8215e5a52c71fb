//! The command line of `dyno watch`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use dyno_report::{Format, TEXT_OR_JSON};

use super::report::format_in;
use super::values::{Ns, duration, load_length, whole_number};

#[derive(Debug, Args)]
#[command(after_help = super::examples::WATCH)]
pub struct WatchArgs {
    #[command(flatten)]
    pub target: WatchTarget,
    /// Time between two samples.
    #[arg(short, long, value_name = "TIME", default_value = "1s", value_parser = interval)]
    pub interval: Ns,
    /// End after this time [default: at Ctrl-C, or when the server ends].
    #[arg(short, long, value_name = "TIME", value_parser = watch_length)]
    pub duration: Option<Ns>,
    /// Use no eBPF programs: system calls and the reasons of waits stay unknown.
    #[arg(long)]
    pub outside: bool,
    /// A text line per sample and a summary, or a JSON line per sample (`dyno.watch/1`).
    #[arg(long, value_parser = format_in(TEXT_OR_JSON), default_value = "text")]
    pub format: &'static Format<()>,
    /// Serve the last sample at http://ADDR/metrics as OpenMetrics.
    #[arg(long, value_name = "ADDR")]
    pub metrics: Option<SocketAddr>,
    /// Write a page of all samples at the end.
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// The server to watch, given by one of these options.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct WatchTarget {
    /// A process and its child processes.
    #[arg(long, value_name = "N", value_parser = whole_number(1, u32::MAX))]
    pub pid: Option<u32>,
    /// The processes that listen on this port, and their child processes.
    #[arg(long, value_name = "N", value_parser = whole_number(1, u16::MAX))]
    pub port: Option<u16>,
    /// The control group of this folder, and the groups below it.
    #[arg(long, value_name = "FOLDER")]
    pub cgroup: Option<PathBuf>,
}

/// Parses the time between samples, up to an hour.
fn interval(text: &str) -> Result<Ns, String> {
    duration(text).and_then(at_least_one_sample)
}

/// Parses the length of the observation, up to 30 days as for loads.
fn watch_length(text: &str) -> Result<Ns, String> {
    load_length(text).and_then(at_least_one_sample)
}

/// Refuses a time below 100 ms. Taking a sample needs a millisecond or more.
fn at_least_one_sample(time: Ns) -> Result<Ns, String> {
    const MIN_NS: u64 = 100_000_000;
    if time.0 < MIN_NS {
        return Err("must be at least 100ms, because taking a sample also takes time".into());
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_interval_is_in_seconds() {
        assert_eq!(interval("1").unwrap().0, 1_000_000_000);
        assert_eq!(interval("0.5").unwrap().0, 500_000_000);
        assert!(interval("5ms").unwrap_err().contains("must be at least 100ms"));
        assert!(interval("0").is_err() && interval("-1").is_err() && interval("x").is_err());
    }

    #[test]
    fn length_is_limited_like_that_of_loads() {
        let hour_ns = 3600 * 1_000_000_000;
        assert_eq!(watch_length("48h").unwrap().0, 48 * hour_ns);
        assert_eq!(watch_length("720h").unwrap().0, 720 * hour_ns);
        assert!(watch_length("721h").is_err() && watch_length("99ms").is_err());
        assert!(interval("2h").is_err());
    }
}
