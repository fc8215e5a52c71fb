//! Walking a plan: build, start, wait, prove, warm, load, watch, stop, record.

pub(crate) mod warm;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use dyno_archive::dir::OpenError;
use dyno_archive::plan::{Plan, Workload};
use dyno_archive::start::{
    Failure, FailureKind, LimitKind, LimitReadBack, WarmUp, WarmUpSlice, allowed_cpus,
};
use dyno_archive::trial::CheckResult;
use dyno_archive::{Interval, Protocol, RunDir, Sample, StartRecord, TrialRecord};
use dyno_observer::Sampler;
use dyno_observer::cgroup::Layout;
use dyno_workload::units::cpu_list_text;

use crate::build::{self, Built, Care};
use crate::certs::Certs;
use crate::checks::{self, Check};
use crate::client::{Caller, Keep};
use crate::door::Door;
use crate::environment::{Environment, Ours};
use crate::launch::folder;
use crate::launch::group::{self, Groups};
use crate::launch::guard::Guard;
use crate::launch::process::{self, Place, Process};
use crate::launch::ready;
use crate::launch::sys::{open_files_hard, set_affinity};
use crate::limits::ALIVE;
use crate::load::{self, Edge, Reason, Watch};
use crate::paths;
use crate::plan::Planned;
use crate::subject::{Definition, FileSpec, Placeholders};

/// What happens during a run, for whoever shows it.
#[derive(Debug)]
pub enum Event<'a> {
    Building {
        subject: usize,
    },
    Built {
        subject: usize,
    },
    Starting {
        launch: usize,
    },
    /// A slice of the warm-up of a start has ended.
    Warming {
        launch: usize,
        slice: &'a WarmUpSlice,
    },
    /// A start was warmed, or what could be done was done.
    Warmed {
        launch: usize,
        warmup: &'a WarmUp,
    },
    TrialStarted {
        trial: usize,
    },
    Interval {
        trial: usize,
        interval: &'a Interval,
    },
    TrialEnded {
        trial: usize,
        record: &'a TrialRecord,
    },
    /// A start ended before its plan was done, or has left something that dyno cannot remove.
    Failed {
        launch: usize,
        failure: &'a Failure,
    },
    LaunchEnded {
        launch: usize,
    },
}

/// How often the user has asked us to end. Set by a signal handler.
#[derive(Debug, Default)]
pub struct Interrupts(AtomicU32);

impl Interrupts {
    #[must_use]
    pub const fn new() -> Self {
        Interrupts(AtomicU32::new(0))
    }

    /// Counts one more. Safe in a signal handler.
    pub fn raise(&self) -> u32 {
        self.0.fetch_add(1, Ordering::AcqRel) + 1
    }

    #[must_use]
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Complete,
    /// The user ended it; what is finished is kept.
    Interrupted,
}

/// Builds every subject of a plan that can be built, and learns versions. A failed build is recorded in the plan.
///
/// # Errors
/// The user ended it.
pub fn prepare(
    planned: &mut Planned,
    cache: &Path,
    care: &Care<'_>,
    on: &mut dyn FnMut(Event<'_>),
) -> Result<Vec<Option<Built>>, Interrupted> {
    let Planned { plan, definitions } = planned;
    let mut all = Vec::new();
    for (i, (subject, definition)) in plan.subjects.iter_mut().zip(definitions).enumerate() {
        if subject.skipped.is_some() {
            all.push(None);
            continue;
        }
        on(Event::Building { subject: i });
        match build::build(definition, cache, care) {
            _ if care.interrupts.count() > 0 => return Err(Interrupted),
            Ok(built) => {
                subject.version = build::version(definition, &built.out, care);
                subject.build.clone_from(&built.build);
                subject.build_failed = None;
                all.push(Some(built));
            }
            Err(why) => {
                subject.build_failed = Some(why);
                all.push(None);
            }
        }
        on(Event::Built { subject: i });
    }
    Ok(all)
}

/// The user ended what was going on before there was anything to keep.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("ended before the first server was started; there is nothing to keep")]
pub struct Interrupted;

/// Everything a run needs while it walks its plan.
#[allow(missing_debug_implementations)] // It holds a closure.
pub struct Runner<'a> {
    pub plan: &'a Plan,
    pub definitions: &'a [Definition],
    /// Where each subject's artefacts are; `None`: it does not take part.
    pub built: &'a [Option<Built>],
    pub dir: &'a RunDir,
    pub guard: &'a Guard,
    pub interrupts: &'a Interrupts,
    pub on: &'a mut dyn FnMut(Event<'_>),
}

/// What all starts of a run share.
struct Ground {
    groups: Groups,
    /// `None`: no subject needs them.
    certs: Option<Certs>,
}

/// A subject that is up, with what a trial needs to know of it.
struct Subject {
    process: Process,
    /// One for each of its protocols.
    entrances: Vec<Entrance>,
    ready_path: String,
}

/// Where a workload is asked. `Err`: nowhere, in words.
fn entrance<'a>(entrances: &'a [Entrance], workload: &Workload) -> Result<&'a Entrance, String> {
    let protocol = workload.protocol;
    let at = entrances.iter().find(|e| e.door().protocol == protocol);
    at.ok_or_else(|| format!("it does not speak {protocol} any more; was its subject.toml changed?"))
}

/// A door with what to do at it.
struct Entrance {
    caller: Caller,
    checks: Vec<Check>,
}

impl Entrance {
    fn new(definition: &Definition, door: &Door) -> Result<Entrance, String> {
        Ok(Entrance { caller: Caller::new(door)?, checks: checks::contract(definition, door) })
    }

    fn door(&self) -> &Door {
        self.caller.door()
    }
}

/// The ports of one start.
#[derive(Clone, Copy)]
struct Ports {
    plain: u16,
    tls: u16,
}

impl Ports {
    fn find() -> Result<Ports, String> {
        let free = ready::free_ports(2, dyno_observer::monotonic_ns())?;
        Ok(Ports { plain: free[0], tls: free[1] })
    }

    /// Those that a subject is told of.
    fn used_by(self, definition: &Definition) -> Vec<u16> {
        let all = [("{port}", self.plain), ("{tls_port}", self.tls)];
        all.into_iter().filter(|(place, _)| definition.uses(place)).map(|(_, port)| port).collect()
    }

    fn door(self, protocol: Protocol, certs: Option<&Certs>) -> Door {
        let port = if protocol.is_tls() { self.tls } else { self.plain };
        Door {
            addr: SocketAddr::from(([127, 0, 0, 1], port)),
            protocol,
            authority: certs.filter(|_| protocol.is_tls()).map(Certs::authority),
        }
    }
}

impl Runner<'_> {
    /// Runs every trial of the plan that the archive does not hold yet.
    pub fn walk(&mut self) -> Result<Ended, RunError> {
        let run = self.dir.read()?;
        let done: BTreeSet<usize> = run.trials.iter().map(|t| t.trial).collect();
        let tried: BTreeSet<usize> = run.starts.iter().map(|s| s.launch).collect();
        // A launch that failed of itself is a result; one that the user or a fault of ours ended is not.
        let settled: BTreeSet<usize> = run
            .starts
            .iter()
            .filter(|s| s.failure.as_ref().is_some_and(|f| f.kind.is_the_subjects()))
            .map(|s| s.launch)
            .collect();
        let mut next_start = run.starts.iter().map(|s| s.start + 1).max().unwrap_or(0);
        set_affinity(&self.plan.placement.generator).map_err(RunError::Machine)?;
        let ground = Ground { groups: Groups::prepare(Layout::read(), self.guard), certs: self.certs()? };
        ground.groups.sweep();
        for launch in 0..self.plan.launches.len() {
            let pending: Vec<usize> = (0..self.plan.trials.len())
                .filter(|t| self.plan.trials[*t].launch == launch && !done.contains(t))
                .collect();
            if self.interrupts.count() > 0 {
                return Ok(Ended::Interrupted);
            }
            let takes_part = self.built[self.plan.launches[launch].subject].is_some();
            if pending.is_empty() || settled.contains(&launch) || !takes_part {
                continue;
            }
            let mut record = empty_start(next_start, launch, tried.contains(&launch));
            next_start += 1;
            (self.on)(Event::Starting { launch });
            self.launch(&mut record, &pending, &ground)?;
            (self.on)(Event::LaunchEnded { launch });
            if self.interrupts.count() > 0 {
                return Ok(Ended::Interrupted);
            }
        }
        Ok(Ended::Complete)
    }

    /// Certificates for those that take part and need one.
    fn certs(&self) -> Result<Option<Certs>, RunError> {
        let wanted = self
            .definitions
            .iter()
            .zip(self.built)
            .any(|(d, built)| built.is_some() && d.needs_certificate());
        wanted.then(|| Certs::make(self.guard)).transpose().map_err(RunError::Machine)
    }

    /// One start of one subject, from spawn to stop. Whatever the subject does is recorded.
    fn launch(
        &mut self,
        record: &mut StartRecord,
        pending: &[usize],
        ground: &Ground,
    ) -> Result<(), RunError> {
        let definition = &self.definitions[self.plan.launches[record.launch].subject];
        match self.start(record, ground) {
            Ok(mut subject) => {
                if let Err(failure) = self.use_subject(record, &mut subject, pending)? {
                    record.log_tail = Some(subject.process.log_tail()).filter(|t| !t.is_empty());
                    record.failure = Some(failure);
                }
                // The second Ctrl-C waits for nobody.
                let hurry = || self.interrupts.count() > 1;
                record.stop =
                    subject.process.stop(definition.stop.signal, definition.stop.deadline_ns, hurry);
            }
            Err(failure) => record.failure = Some(failure),
        }
        let left = ground.groups.left_of(record.start);
        let left = left.map(|message| Failure { kind: FailureKind::Harness, message });
        for failure in record.failure.iter().chain(&left) {
            (self.on)(Event::Failed { launch: record.launch, failure });
        }
        record.failure = record.failure.take().or(left);
        self.dir.write_start(record)?;
        Ok(())
    }

    fn start(&self, record: &mut StartRecord, ground: &Ground) -> Result<Subject, Failure> {
        let definition = &self.definitions[self.plan.launches[record.launch].subject];
        let harness = |message: String| Failure { kind: FailureKind::Harness, message };
        let ports = Ports::find().map_err(harness)?;
        let certs = ground.certs.as_ref();
        let doors = definition.protocols.iter().map(|&protocol| ports.door(protocol, certs));
        let entrances: Vec<Entrance> =
            doors.map(|door| Entrance::new(definition, &door)).collect::<Result<_, _>>().map_err(harness)?;
        let place =
            Place::make(record.start, &ground.groups, self.guard).map_err(|e| harness(e.to_string()))?;
        let cpus = &self.plan.placement.subject;
        record.limits = group::limit(&place.group, &self.plan.limits, cpus, ground.groups.unusable());
        let spec = self.spec(record, ports, certs, place).map_err(harness)?;
        let mut process = Process::start(spec).map_err(|error| Failure {
            kind: FailureKind::NotStarted,
            message: format!("`{}`: {error}", definition.start.command.join(" ")),
        })?;
        record.pid = Some(process.pid());
        record.limits.push(self.open_files_read_back(&process));
        if process.sampler.group.is_empty() {
            // Without a group the affinity of the process has to do.
            record.limits.push(LimitReadBack {
                kind: LimitKind::CpusByAffinity,
                asked: cpu_list_text(&self.plan.placement.subject),
                read_back: process.allowed_cpus(),
                reason: None,
            });
        }
        let ready = &definition.ready;
        let right = ready::RightAnswer {
            to: &first_to_ask(&entrances).caller,
            path: &ready.path,
            body: checks::body_of(definition, &ready.path),
        };
        let is_asked_to_end = || self.interrupts.count() > 0;
        let patience = ready::Patience { deadline_ns: ready.deadline_ns, is_asked_to_end: &is_asked_to_end };
        match ready::wait(&mut process, right, &ports.used_by(definition), patience) {
            Ok(startup) => record.startup = Some(startup),
            Err(failure) => {
                record.log_tail = Some(process.log_tail()).filter(|t| !t.is_empty());
                return Err(memory_first(&process, failure));
            }
        }
        Ok(Subject { process, entrances, ready_path: ready.path.clone() })
    }

    fn spec(
        &self,
        record: &mut StartRecord,
        ports: Ports,
        certs: Option<&Certs>,
        place: Place,
    ) -> Result<process::Spec, String> {
        let index = self.plan.launches[record.launch].subject;
        let definition = &self.definitions[index];
        let out = &self.built[index].as_ref().expect("only subjects that take part are started").out;
        let cpus = allowed_cpus(&record.limits, &self.plan.placement, &self.plan.limits);
        let mut places = places(cpus, definition, out, ports, &place.work);
        places.0.extend(certs.into_iter().flat_map(certificate_places));
        for file in &definition.start.files {
            render(file, &definition.folder, &places, &place.work)?;
        }
        let mut environment = Environment::of_server(&Ours::read(), &definition.start.inherit, &place.work);
        definition.start.env.iter().for_each(|(name, value)| environment.set(name, places.fill(value)));
        record.environment = environment.recorded();
        Ok(process::Spec {
            command: definition.start.command.iter().map(|word| places.fill(word)).collect(),
            environment,
            place,
            cpus: self.plan.placement.subject.clone(),
            open_files: self.open_files(),
        })
    }

    /// What the suite asks for, or as many as this machine allows: the same for every subject.
    fn open_files(&self) -> u64 {
        let most = open_files_hard();
        self.plan.limits.open_files.map_or(most, |n| n.min(most))
    }

    fn open_files_read_back(&self, process: &Process) -> LimitReadBack {
        let most = open_files_hard();
        let asked = self.plan.limits.open_files;
        let short = asked.is_some_and(|n| n > most);
        LimitReadBack {
            kind: LimitKind::OpenFiles,
            asked: asked.map_or_else(|| "as many as this machine allows".into(), |n| n.to_string()),
            read_back: process.open_files().filter(|_| !short),
            reason: short.then(|| format!("this user may have {most} at most")),
        }
    }

    /// Checks, warm-up, trials, checks. The inner error is the subject's, the outer one ours.
    fn use_subject(
        &mut self,
        record: &mut StartRecord,
        subject: &mut Subject,
        pending: &[usize],
    ) -> Result<Result<(), Failure>, RunError> {
        record.checks_before = run_checks(subject);
        // From here on a crash of ours loses no fact about this start.
        self.dir.write_start(record)?;
        if let Some(failure) = wrong_answers(subject, &record.checks_before) {
            return Ok(Err(failure));
        }
        let warmed = self.warm_up(record, subject, pending);
        if let Some(warmup) = &record.warmup {
            (self.on)(Event::Warmed { launch: record.launch, warmup });
        }
        self.dir.write_start(record)?;
        if let Err(failure) = warmed {
            return Ok(Err(failure));
        }
        for &trial in pending {
            if self.interrupts.count() > 0 {
                return Ok(Err(interrupted()));
            }
            (self.on)(Event::TrialStarted { trial });
            let measured = self.trial(trial, subject);
            let mut trial_record = match measured {
                Ok(trial_record) => trial_record,
                Err(message) => return Ok(Err(Failure { kind: FailureKind::Harness, message })),
            };
            if trial_record.cut_short {
                return Ok(Err(interrupted()));
            }
            trial_record.trial = trial;
            trial_record.start = record.start;
            let failure = after_trial(subject, &mut trial_record);
            self.dir.write_trial(&trial_record)?;
            (self.on)(Event::TrialEnded { trial, record: &trial_record });
            if let Some(failure) = failure {
                return Ok(Err(failure));
            }
        }
        record.checks_after = run_checks(subject);
        Ok(wrong_answers(subject, &record.checks_after).map_or(Ok(()), Err))
    }

    fn trial(&mut self, trial: usize, subject: &mut Subject) -> Result<TrialRecord, String> {
        let workload = &self.plan.workloads[self.plan.trials[trial].workload];
        let entrance = entrance(&subject.entrances, workload)?;
        let spec = entrance.door().trial(self.plan, trial)?;
        // What is only sampled under load is tried in full before it. An answer that is not as expected is a failed
        // check of this trial, which the load then goes on to count.
        let tried = load::preflight(&spec).err().map(|mismatch| CheckResult {
            name: "expectations".into(),
            ok: false,
            answered: mismatch.answered,
            detail: mismatch.words,
        });
        let (to_prober, stop_prober) = mpsc::channel::<()>();
        let (checks, pause) = (&entrance.checks, Duration::from_nanos(self.plan.load.interval_ns));
        thread::scope(|scope| {
            let prober = scope.spawn(move || probe(checks, trial, pause, &stop_prober));
            let mut watcher = Watcher {
                peak_is_of_window: false,
                trial,
                process: &mut subject.process,
                interrupts: self.interrupts,
                on: self.on,
            };
            let record = load::run(&spec, &mut watcher);
            drop(to_prober);
            let probed = prober.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let checks = tried.into_iter().chain(probed).collect();
            record.map(|record| TrialRecord { checks, ..record })
        })
    }
}

/// Checks the contract while the load runs: one check per interval, in turn, on a connection of its own. Each trial
/// begins elsewhere in the contract, so that short ones together go through all of it.
fn probe(checks: &[Check], trial: usize, pause: Duration, stop: &mpsc::Receiver<()>) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for check in checks.iter().cycle().skip(trial * 2 % checks.len().max(1)) {
        match stop.recv_timeout(pause) {
            Err(mpsc::RecvTimeoutError::Timeout) => results.push(check.run()),
            _ => break,
        }
    }
    results
}

struct Watcher<'a> {
    trial: usize,
    /// The kernel began a new peak of memory when the window opened.
    peak_is_of_window: bool,
    process: &'a mut Process,
    interrupts: &'a Interrupts,
    on: &'a mut dyn FnMut(Event<'_>),
}

impl Watch for Watcher<'_> {
    fn sample(&mut self, edge: Edge) -> Option<Sample> {
        let sampler: &Sampler = &self.process.sampler;
        if edge == Edge::Opens {
            self.peak_is_of_window = sampler.group.reset_peak();
        }
        let mut sample = sampler.sample();
        if let Some(cgroup) = sample.cgroup.as_mut().filter(|_| !self.peak_is_of_window) {
            cgroup.memory_peak_bytes = None;
        }
        Some(sample)
    }

    fn interval(&mut self, interval: &Interval) {
        (self.on)(Event::Interval { trial: self.trial, interval });
    }

    fn stop(&mut self) -> Option<Reason> {
        if self.interrupts.count() > 0 {
            return Some(Reason::Asked);
        }
        self.process
            .ended()
            .map(|status| Reason::ServerFailed(format!("its process ended with {status} under load")))
    }
}

fn empty_start(start: usize, launch: usize, resumed: bool) -> StartRecord {
    StartRecord {
        start,
        launch,
        resumed,
        pid: None,
        startup: None,
        warmup: None,
        checks_before: Vec::new(),
        checks_after: Vec::new(),
        limits: Vec::new(),
        environment: BTreeMap::new(),
        stop: None,
        failure: None,
        log_tail: None,
    }
}

fn interrupted() -> Failure {
    Failure { kind: FailureKind::Interrupted, message: "the user ended the run".into() }
}

/// Where a subject is first asked whether it is ready: over what takes the least, so that the time is its own.
fn first_to_ask(entrances: &[Entrance]) -> &Entrance {
    const ORDER: [Protocol; 5] =
        [Protocol::H1, Protocol::H2cUpgrade, Protocol::H2c, Protocol::H1Tls, Protocol::H2];
    let rank = |e: &&Entrance| ORDER.iter().position(|protocol| *protocol == e.door().protocol);
    entrances.iter().min_by_key(rank).expect("a definition has protocols")
}

/// Runs the contract's checks at every door. A subject that does not answer at all is not asked nine times.
fn run_checks(subject: &Subject) -> Vec<CheckResult> {
    let mut results = Vec::new();
    for entrance in &subject.entrances {
        for check in &entrance.checks {
            let result = check.run();
            let failed = !result.ok;
            results.push(result);
            if failed && probe_alive(subject).is_err() {
                return results;
            }
        }
    }
    results
}

/// One request at every door that every living subject answers.
fn probe_alive(subject: &Subject) -> std::io::Result<()> {
    let ask = |e: &Entrance| e.caller.ask(&subject.ready_path, ALIVE, Keep::Beginning);
    subject.entrances.iter().try_for_each(|entrance| ask(entrance).map(drop))
}

/// The end of a process shows a moment after its sockets have closed.
fn ended_by_now(process: &mut Process) -> Option<std::process::ExitStatus> {
    for _ in 0..100 {
        if let Some(status) = process.ended() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(2));
    }
    None
}

/// What failed checks mean: wrong answers, or no server any more.
fn wrong_answers(subject: &mut Subject, results: &[CheckResult]) -> Option<Failure> {
    let failed = results.iter().find(|r| !r.ok)?;
    let message = format!("check {:?}: {}", failed.name, failed.detail);
    let deaf = probe_alive(subject).err();
    let failure = match ended_by_now(&mut subject.process) {
        Some(status) => Failure {
            kind: FailureKind::Crashed,
            message: format!("its process ended with {status} during the checks; {message}"),
        },
        None if deaf.is_some() => Failure {
            kind: FailureKind::Deaf,
            message: format!("alive, but it stopped answering during the checks; {message}"),
        },
        None => Failure { kind: FailureKind::WrongAnswers, message },
    };
    Some(memory_first(&subject.process, failure))
}

/// Says so if it was the memory limit that ended the subject: everything else follows from it.
fn memory_first(process: &Process, failure: Failure) -> Failure {
    match process.oom_kills() {
        0 => failure,
        n => Failure {
            kind: FailureKind::OutOfMemory,
            message: format!("the memory limit killed {n} of its processes; {}", failure.message),
        },
    }
}

/// Whether the subject still serves after a trial; if not, the trial says so too.
fn after_trial(subject: &mut Subject, record: &mut TrialRecord) -> Option<Failure> {
    let failure = if let Some(words) = record.subject_failure.clone() {
        Failure { kind: FailureKind::Crashed, message: words }
    } else {
        let probe = probe_alive(subject);
        if probe.is_ok() && subject.process.oom_kills() > 0 {
            // A master that starts its killed workers again answers, but not as it was asked to.
            Err("some of its processes were killed and started again".to_string())
        } else {
            probe.map_err(|e| e.to_string())
        }
        .err()
        .map(|error| match ended_by_now(&mut subject.process) {
            Some(status) => Failure {
                kind: FailureKind::Crashed,
                message: format!("its process ended with {status} after the step"),
            },
            None => Failure {
                kind: FailureKind::Deaf,
                message: format!("alive, but it did not answer one request after the step: {error}"),
            },
        })?
    };
    let failure = memory_first(&subject.process, failure);
    record.subject_failure = Some(format!("{}: {}", failure.kind.name(), failure.message));
    Some(failure)
}

/// What a start of this subject would get of the environment now, as far as it is the same for all its starts.
#[must_use]
pub fn environment_of(definition: &Definition) -> BTreeMap<String, String> {
    let start = &definition.start;
    let mut environment = Environment::of_server(&Ours::read(), &start.inherit, Path::new("")).recorded();
    // Its own variables belong to its definition, and each start has a folder of its own for temporary files.
    environment.retain(|name, _| name != "TMPDIR" && !start.env.contains_key(name));
    environment
}

/// Writes a file of a start from its template into the working folder.
fn render(file: &FileSpec, folder: &Path, places: &Placeholders, work: &Path) -> Result<(), String> {
    let from = |e: io::Error| format!("{}: {e}", file.template);
    let template = paths::read(&file.template, folder).map_err(from)?;
    let template = String::from_utf8(template).map_err(|_| format!("{}: it is no text", file.template))?;
    let name = file.to.fill(places)?;
    let to = work.join(name.path());
    let parents = to.parent().map_or(Ok(()), fs::create_dir_all);
    parents.and_then(|()| folder::write_new(&to, &places.fill(&template))).map_err(|e| format!("{name}: {e}"))
}

/// `cpus`: how many the subject may use at a time; it is told whole ones.
fn places(cpus: f64, definition: &Definition, out: &Path, ports: Ports, work: &Path) -> Placeholders {
    let mut places = build::placeholders(definition, out);
    places.0.extend([
        ("port", ports.plain.to_string()),
        ("tls_port", ports.tls.to_string()),
        ("cpus", (cpus.ceil() as u64).max(1).to_string()),
        ("work", work.display().to_string()),
    ]);
    places
}

fn certificate_places(certs: &Certs) -> [(&'static str, String); 2] {
    [("cert", certs.chain().display().to_string()), ("key", certs.key().display().to_string())]
}

/// What makes a whole run impossible.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Archive(#[from] OpenError),
    #[error("this machine refuses what a run needs: {0}")]
    Machine(std::io::Error),
}
