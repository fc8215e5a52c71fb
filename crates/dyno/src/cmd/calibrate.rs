//! `dyno calibrate`: controls that show what the generator itself can do and how late it is, on this machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use dyno_analysis::load::{Ceiling, Config, LoadResult, Percentiles};
use dyno_analysis::verdict::{self, Context};
use dyno_archive::plan::{Arrivals, DriverKind, Load, Spin, Step, Workload};
use dyno_archive::{Interval, Outcome, Sample};
use dyno_contract::ports;
use dyno_driver::{Endpoint, Stamps, best_driver};
use dyno_engine::{Http2, Protocol};
use dyno_launch::Own;
use dyno_launch::care::Interrupts;
use dyno_report::calibration as page;
use dyno_report::format::micros;
use dyno_runner::load::{self, Edge, Reason, Spec, Watch, polling};
use dyno_workload::traffic;
use dyno_workload::workloads::plaintext;

use crate::calibration::{Kept, Shape, machine};
use crate::cli::{CalibrateArgs, PlanFormat};
use crate::exit::Exit;
use crate::terminal::{self, Third};

const SECOND: u64 = 1_000_000_000;

pub fn run(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    let bench = Bench::new(args.duration.0)?;
    let result = page::Calibration {
        schema: page::SCHEMA,
        machine: machine(),
        shared_cpus: bench.shares_cpus(),
        ceilings: bench.ceilings()?,
        not_measured: not_measured(),
        pacing: bench.pacing()?,
        stamps: bench.stamps()?,
        refused: bench.refused()?,
    };
    let folder = super::cache_folder(args.cache.as_deref())?;
    let kept = keep(&result).write(&folder)?;
    let text = match args.format {
        PlanFormat::Text => page::text(&result, &where_kept(args, &kept), terminal::style()),
        PlanFormat::Json => serde_json::to_string_pretty(&result)? + "\n",
    };
    super::report::write_out(args.output.as_deref(), &text)?;
    Ok(Exit::Valid)
}

/// Where the ceilings are, and what makes later loads find them there.
fn where_kept(args: &CalibrateArgs, kept: &Path) -> String {
    let found = args.cache.is_none() || std::env::var_os("DYNO_CACHE").map(PathBuf::from) == args.cache;
    match &args.cache {
        Some(folder) if !found => {
            format!(
                "{}; set DYNO_CACHE={} for it to find them there",
                kept.display(),
                terminal::quoted(&folder.display().to_string())
            )
        }
        _ => kept.display().to_string(),
    }
}

fn not_measured() -> BTreeMap<String, String> {
    let no_tls = "the null responder speaks no TLS";
    [("h1 over TLS", no_tls), ("h2", no_tls)]
        .into_iter()
        .map(|(name, why)| (name.to_string(), why.to_string()))
        .collect()
}

fn keep(result: &page::Calibration) -> Kept {
    let measured = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let shape = |c: &page::CeilingRow| Shape {
        driver: c.driver,
        protocol: c.protocol,
        pipelined: c.pipeline * c.streams > 1,
        ceiling: Ceiling { throughput_rps: c.throughput_rps, measured: measured.clone() },
    };
    Kept { machine: result.machine.clone(), ceilings: result.ceilings.iter().map(shape).collect() }
}

/// The null responder on one CPU, and the generator on another.
struct Bench {
    addr: SocketAddr,
    /// Ended with the bench.
    _server: Own,
    generator_cpus: Vec<u32>,
    server_cpus: Vec<u32>,
    duration_ns: u64,
    interrupts: Arc<Interrupts>,
}

impl Bench {
    fn new(duration_ns: u64) -> anyhow::Result<Bench> {
        let cpus = dyno_launch::allowed_cpus();
        let (server_cpus, generator_cpus) = match cpus.as_slice() {
            [first, .., last] => (vec![*first], vec![*last]),
            few => (few.to_vec(), few.to_vec()),
        };
        let addr = free_port()?;
        let server = start_null(addr, &server_cpus)?;
        let interrupts = terminal::catch_interrupts("ending early; nothing is kept", Third::Ends)?;
        Ok(Bench { addr, _server: server, generator_cpus, server_cpus, duration_ns, interrupts })
    }

    fn shares_cpus(&self) -> bool {
        self.server_cpus == self.generator_cpus
    }

    /// The most that one thread reaches against the smallest right answer.
    fn ceilings(&self) -> anyhow::Result<Vec<page::CeilingRow>> {
        let mut rows = Vec::new();
        let shapes =
            [(Protocol::H1, 1, 1), (Protocol::H1, 16, 1), (Protocol::H2c, 1, 1), (Protocol::H2c, 1, 10)];
        let best = best_driver().0;
        let usable =
            DriverKind::ALL.into_iter().filter(|driver| *driver == DriverKind::Epoll || *driver == best);
        for (driver, (protocol, pipeline, streams)) in usable.flat_map(|d| shapes.map(|shape| (d, shape))) {
            self.say(&format!("ceiling, {} {} × {}", driver.name(), protocol.name(), pipeline * streams));
            let spec = self.spec(driver, 64, Arrivals::Closed, Spin::Never)?;
            let step = Step { pipeline, streams, ..spec.step.clone() };
            let result = self.load(&Spec { protocol, step, ..spec })?;
            rows.push(page::CeilingRow {
                driver,
                protocol,
                connections: 64,
                pipeline,
                streams,
                throughput_rps: result.throughput_rps,
                cpu_us_per_exchange: result.client.cpu_us_per_exchange,
                busiest_thread_utilisation: result.client.busiest_thread_utilisation,
            });
        }
        Ok(rows)
    }

    /// How late requests leave, with and without polling.
    fn pacing(&self) -> anyhow::Result<Vec<page::PacingRow>> {
        let mut rows = Vec::new();
        for rate in [1000.0, 20_000.0] {
            for spin in [Spin::Never, Spin::Auto, Spin::Always] {
                self.say(&format!("pacing, {rate} per second, spin {}", spin.name()));
                let arrivals = Arrivals::Constant { rate };
                let result = self.load(&self.spec(best_driver().0, 16, arrivals, spin)?)?;
                rows.push(page::PacingRow {
                    rate,
                    spin,
                    send_lag_us: result.send_lag_us.clone(),
                    wake_lag_us: result.client.wake_lag_us.clone(),
                    response_time_us: result.response_time_us.clone(),
                    achieved_cv: result.gaps.as_ref().and_then(|gaps| gaps.achieved_cv),
                    cpu_s_per_s: (result.client.cpu_user_s + result.client.cpu_sys_s) / result.duration_s,
                    spun_s_per_s: result.client.cpu_spun_s / result.duration_s,
                });
            }
        }
        Ok(rows)
    }

    /// Our stamps beside those of the kernel, which took the same bytes.
    fn stamps(&self) -> anyhow::Result<Vec<page::StampsRow>> {
        let mut rows = Vec::new();
        for rate in [1000.0, 20_000.0] {
            for spin in [Spin::Never, Spin::Auto] {
                self.say(&format!("kernel stamps, {rate} per second, spin {}", spin.name()));
                let mut spec = self.spec(DriverKind::Epoll, 16, Arrivals::Constant { rate }, spin)?;
                spec.endpoint.stamps = Stamps::Kernel;
                let result = self.load(&spec)?;
                let Some(kernel) = result.kernel_response_time_us.clone() else {
                    self.say("the kernel stamped nothing, so there is nothing to compare with; left out");
                    continue;
                };
                rows.push(page::StampsRow {
                    rate,
                    spin,
                    ours_us: result.response_time_us.clone(),
                    difference_p50_us: difference(&result.response_time_us, &kernel, |p| p.p50),
                    difference_p99_us: difference(&result.response_time_us, &kernel, |p| p.p99),
                    kernel_us: kernel,
                });
            }
        }
        Ok(rows)
    }

    /// A port at which nobody listens: every request must be counted as refused, none be lost.
    fn refused(&self) -> anyhow::Result<page::Refused> {
        self.say("a closed port");
        let addr = free_port()?;
        let mut spec = self.spec(best_driver().0, 4, Arrivals::Closed, Spin::Never)?;
        spec.endpoint = Endpoint::from(addr);
        spec.load.requests = Some(100);
        (spec.load.warmup_ns, spec.load.duration_ns) = (0, 0);
        let result = self.load(&spec)?;
        Ok(page::Refused {
            asked: 100,
            counted: result.outcomes.of(Outcome::ConnectRefused),
            failed: result.exchanges.failed,
        })
    }

    fn say(&self, what: &str) {
        terminal::say(&format!("calibrate: {what} ({})", micros(self.duration_ns as f64 / 1e3)));
    }

    fn spec(
        &self,
        driver: DriverKind,
        connections: u32,
        arrivals: Arrivals,
        spin: Spin,
    ) -> anyhow::Result<Spec> {
        // Where generator and server share a CPU, polling is measured all the same.
        let spin = polling(spin, &arrivals, true);
        // Compiled for both protocols: which of them is spoken, the caller says.
        let workload = Workload { protocol: Protocol::H2c, ..plaintext() };
        let traffic = traffic::compile(&workload, &self.addr.to_string(), &Http2::default(), &|_| {
            Err("no files".into())
        });
        let step = Step { connections, streams: 1, pipeline: 1, arrivals };
        Ok(Spec {
            endpoint: self.addr.into(),
            protocol: Protocol::H1,
            tls: None,
            traffic: Arc::new(traffic.map_err(|message| anyhow::anyhow!(message))?),
            page_connections: None,
            load: Load {
                warmup_ns: SECOND / 2,
                duration_ns: self.duration_ns,
                timeout_ns: 5 * SECOND,
                drain_ns: load::drain_ns(5 * SECOND),
                check_one_in: 1,
                driver,
                steps: vec![step.clone()],
                ..load::usual()
            },
            step,
            trace: Arc::from([]),
            seed: 1,
            spin,
            cpus: self.generator_cpus.clone(),
        })
    }

    fn load(&self, spec: &Spec) -> anyhow::Result<LoadResult> {
        let record = dyno_runner::load::run(spec, &mut Quiet(&self.interrupts))
            .map_err(|message| anyhow::anyhow!(message))?;
        anyhow::ensure!(self.interrupts.count() == 0, "interrupted; nothing was kept");
        let asked = Config::new(&plaintext(), &spec.load, &spec.step, spec.seed);
        Ok(verdict::load(&record, asked, &Context::default()))
    }
}

fn difference(
    ours: &Percentiles,
    kernel: &Percentiles,
    pick: fn(&Percentiles) -> Option<f64>,
) -> Option<f64> {
    Some(pick(ours)? - pick(kernel)?)
}

/// A port that was free a moment ago, and that no connection of ours takes meanwhile.
fn free_port() -> anyhow::Result<SocketAddr> {
    let ports =
        ports::free_ports(1, dyno_observer::monotonic_ns()).map_err(|words| anyhow::anyhow!(words))?;
    Ok(SocketAddr::from(([127, 0, 0, 1], ports[0])))
}

fn start_null(addr: SocketAddr, cpus: &[u32]) -> anyhow::Result<Own> {
    let arguments = ["serve-null", "--while-stdin", "--port", &addr.port().to_string()];
    let server = Own::start(&arguments, cpus).context("the null responder cannot be started")?;
    for _ in 0..200 {
        if ports::connect_to_another(addr, Duration::from_secs(1)).is_ok() {
            return Ok(server);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    anyhow::bail!("the null responder does not listen at {addr}")
}

/// Watches for nothing but Ctrl-C.
struct Quiet<'a>(&'a Interrupts);

impl Watch for Quiet<'_> {
    fn sample(&mut self, _: Edge) -> Option<Sample> {
        None
    }

    fn interval(&mut self, _: &Interval) {}

    fn stop(&mut self) -> Option<Reason> {
        (self.0.count() > 0).then_some(Reason::Asked)
    }
}
