//! Resolves a suite to a plan with a value for every setting, so that an archived plan describes
//! its run completely.

mod duration;
mod fixed_ports;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use dyno_config::mistake::{Mistake, mistake};
use dyno_config::text::{FileError, nearest};
use dyno_contract::listener;
use dyno_engine::rng::Rng;
use dyno_launch::environment::Inherit;
use dyno_model::plan::{
    Arm, Conditions, DriverKind, Launch, LoadChanges, NotServed, Order, Placement, Plan, Subject,
    Trial, Workload,
};
use dyno_model::probe::Probe;
use dyno_subject::definition::Definition;
use dyno_subject::definition::find::{DefinitionError, Folders};
use dyno_subject::definition::snapshot::Snapshot;
use dyno_subject::limits_keys::{self, CheckedLimits};
use dyno_subject::paths::Name;

use crate::availability::{UnmetNeed, check_cpuset};
use crate::backends::{self, Needs};
use crate::bodies;
use crate::file::{SuiteFile, SuiteSubject, duet, experiment, profile, stop, turns};
use crate::limits::{MAX_TRIALS, MIN_RERUNS};
use crate::machine::RunMachine;
use crate::observe::ProbeChoice;
use crate::orders::order_launches;

pub use duration::expected_ns;

/// Overrides of a suite by the command line.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    pub seed: Option<u64>,
    pub repeats: Option<u32>,
    /// Names of the subjects to run. Empty: all subjects of the suite.
    pub only: Vec<String>,
    pub driver: Option<DriverKind>,
    /// Probes to use instead of the suite's probes.
    pub observe: Option<ProbeChoice>,
}

/// A plan, with the definitions that its servers are built and started from.
#[derive(Clone, Debug)]
pub struct Planned {
    pub plan: Plan,
    /// One definition per subject, in the plan's order.
    pub definitions: Vec<Definition>,
    /// One definition per arm (a subject under one configuration), in the plan's order: the
    /// definition of the subject, with the environment of the arm added.
    pub arms: Vec<Definition>,
    /// One definition per back end, in the plan's order.
    pub backends: Vec<Definition>,
    pub snapshots: Snapshots,
}

/// The files of servers as they were when the run was planned.
#[derive(Clone, Debug, Default)]
pub struct Snapshots {
    /// One per subject, in the plan's order.
    pub subjects: Vec<Snapshot>,
    /// One per back end, in the plan's order.
    pub backends: Vec<Snapshot>,
}

impl Planned {
    /// Adds the environment of each arm to its definition, and records the files of all servers.
    ///
    /// # Errors
    /// An arm inherits a variable with an invalid name.
    pub fn new(
        plan: Plan,
        definitions: Vec<Definition>,
        backends: Vec<Definition>,
    ) -> Result<Planned, String> {
        let with_environment = |arm: &Arm| {
            let mut definition = definitions[arm.subject].clone();
            definition.start.env.extend(arm.conditions.env.clone());
            let inherit = arm.conditions.inherit.iter().map(|name| Inherit::parse(name));
            definition.start.inherit.extend(inherit.collect::<Result<Vec<_>, _>>()?);
            Ok(definition)
        };
        let arms = plan.arms.iter().map(with_environment).collect::<Result<_, String>>()?;
        let snapshots = Snapshots {
            subjects: definitions.iter().map(Snapshot::take).collect(),
            backends: backends.iter().map(Snapshot::take).collect(),
        };
        Ok(Planned { plan, definitions, arms, backends, snapshots })
    }

    /// Returns an archived plan with the present definitions, to resume the run of the plan.
    ///
    /// # Errors
    /// A definition is missing or cannot be read, or the suite has changed.
    pub fn from_archived(plan: Plan) -> Result<Planned, FileError> {
        let folders = Folders(plan.subjects_folders.iter().map(PathBuf::from).collect());
        let suite = PathBuf::from(&plan.suite.path);
        let file_error = |message: String| FileError::without_position(&suite, message);
        let with_variant = |result: Result<Definition, DefinitionError>,
                            variant: &Option<String>| {
            let definition = result.map_err(|error| match error {
                DefinitionError::NotFound(message) => file_error(message),
                DefinitionError::Invalid(error) => *error,
            })?;
            match variant {
                Some(variant) => definition.with_variant(variant).map_err(file_error),
                None => Ok(definition),
            }
        };
        let subjects = plan.subjects.iter().map(|subject| {
            let Name(name) = Name::parse(&subject.name).map_err(file_error)?;
            with_variant(folders.subject(&name), &subject.variant)
        });
        let subjects = subjects.collect::<Result<_, _>>()?;
        // The suite's settings for back ends are in its source, and not in the plan.
        let entries = if plan.backends.is_empty() {
            Vec::new()
        } else {
            SuiteFile::parse(&suite, &plan.suite.source, &plan.suite.profiles)?.backends
        };
        let backends = plan.backends.iter().map(|backend| {
            let Name(name) = Name::parse(&backend.definition_name).map_err(file_error)?;
            let definition = with_variant(folders.backend(&name), &backend.variant)?;
            Ok(backends::with_entry(
                definition,
                entries.iter().find(|entry| entry.name == backend.name),
            ))
        });
        let backends = backends.collect::<Result<_, FileError>>()?;
        Planned::new(plan, subjects, backends).map_err(file_error)
    }
}

/// Checks that the bodies in flight at each step fit into memory.
fn check_bodies(plan: &Plan) -> Result<(), String> {
    plan.trials.iter().try_for_each(|trial| {
        let requests = &plan.workloads[trial.workload].requests;
        bodies::check(requests, plan.load.steps[trial.step].in_flight())
    })
}

/// Resolves a suite, without building or starting servers. `unmet_need` is called for every subject
/// that serves a workload, and for the back ends of these subjects.
pub fn resolve(
    suite: SuiteFile,
    folders: &Folders,
    overrides: &Overrides,
    machine: &RunMachine,
    unmet_need: &UnmetNeed<'_>,
) -> Result<Planned, FileError> {
    let ChosenSubjects { entries, definitions, arm_subjects, served, other_needs } =
        choose(&suite, folders, overrides)?;
    let path = PathBuf::from(&suite.suite.path);
    let file_error = |message: String| FileError::without_position(&path, message);
    let document = profile::suite_document(&suite.suite)?;
    let locate = |mistake: Mistake| document.locate(mistake);
    let mut subjects = plan_subjects((&entries, &arm_subjects), &definitions, &served, unmet_need);
    check_arms(&entries, &suite, overrides).map_err(locate)?;
    let seed = overrides.seed.or(suite.seed).unwrap_or(machine.seed);
    let repeats = overrides.repeats.unwrap_or(suite.repeats);
    let served_by_arm: Vec<_> = arm_subjects.iter().map(|subject| &served[*subject]).collect();
    check_size(repeats, &served_by_arm, &suite.workload_steps).map_err(file_error)?;
    check_feasibility(&suite, entries.len(), &machine.cpus).map_err(locate)?;
    let needs = arm_needs((&entries, &arm_subjects), &definitions);
    let suite_backends = backends::choose(&suite, folders, &needs, &other_needs)?;
    let placement = place_parts(suite.limits.cpuset.clone(), &suite_backends.cpus(), &machine.cpus);
    let backends = suite_backends.to_plan(&placement, &machine.cpus, unmet_need);
    backends::skip_subjects(&mut subjects, &arm_subjects, &suite_backends.by_arm, &backends);
    let (observe, driver) = probes_and_driver(&suite, overrides, machine.driver).map_err(locate)?;
    let arms =
        plan_arms(&suite, (&entries, &arm_subjects), &placement, &suite_backends.by_arm, &observe);
    experiment::check_varied(&suite, &entries, &|index| subjects[arm_subjects[index]].control)
        .map_err(locate)?;
    let sharing = duet::arm_sharing(&suite, &arms, &subjects);
    duet::check_members(&suite, sharing.duet(), (&arms, &subjects)).map_err(locate)?;
    let launches = plan_launches(arms.len(), sharing.duet(), suite.order, (repeats, seed));
    let swaps_cpus = swaps_cpus(&suite, &placement, &backends);
    let load = suite.load.with_driver(placement.generator.len() as u32, driver);
    let trials = list_trials(&launches, &arms, &served, &suite.workload_steps, load.order, seed);
    let plan = Plan {
        suite: suite.suite.clone(),
        subjects_folders: folders.0.iter().map(|folder| folder.display().to_string()).collect(),
        seed,
        repeats,
        stop: suite.stop,
        again: suite.rerun_share.map_or(0, |share| max_reruns(trials.len(), share)),
        order: suite.order,
        sharing,
        swaps_cpus,
        experiment: suite.experiment,
        trials,
        not_served: not_served(&subjects, &served),
        subjects,
        arms,
        backends,
        workloads: suite.workloads,
        load,
        search: suite.search,
        measured_first: None,
        launches,
        report: suite.report,
        cost: suite.cost,
        probe_price: suite.probe_price,
        files: suite.files,
        import_changes: Vec::new(),
    };
    check_bodies(&plan).map_err(file_error)?;
    fixed_ports::check(&plan, &definitions, &suite_backends.definitions).map_err(locate)?;
    Planned::new(plan, definitions, suite_backends.definitions).map_err(file_error)
}

/// Returns the back ends that each arm needs. `arms`: the entries of the arms in the suite, and the
/// indices of their subjects.
fn arm_needs(arms: (&[SuiteSubject], &[usize]), definitions: &[Definition]) -> Vec<Needs> {
    let (entries, arm_subjects) = arms;
    let needs = |(entry, subject): (&SuiteSubject, &usize)| {
        Needs::from_definition(&definitions[*subject], entry)
    };
    entries.iter().zip(arm_subjects).map(needs).collect()
}

/// Returns the probes of the suite, as changed by the command line, and the driver of the load.
fn probes_and_driver(
    suite: &SuiteFile,
    overrides: &Overrides,
    best_driver: DriverKind,
) -> Result<(BTreeSet<Probe>, DriverKind), Mistake> {
    let observe = match &overrides.observe {
        Some(choice) => choice.choose(&suite.observe),
        None => suite.observe.clone(),
    };
    let driver = driver(overrides.driver.or(suite.load.driver), best_driver, &observe)?;
    Ok((observe, driver))
}

/// Returns the driver of the load: the requested one, or the best that supports the probes.
fn driver(
    requested: Option<DriverKind>,
    best: DriverKind,
    observe: &BTreeSet<Probe>,
) -> Result<DriverKind, Mistake> {
    let needs_stamps = observe.contains(&Probe::KernelStamps);
    let refusal = |driver: DriverKind| dyno_driver::stamps_refusal(driver).filter(|_| needs_stamps);
    let Some(driver) = requested else {
        return Ok(if refusal(best).is_some() { DriverKind::Epoll } else { best });
    };
    match refusal(driver) {
        Some(reason) => Err(mistake("driver", reason).with_parent("load")),
        None => Ok(driver),
    }
}

/// The subjects of a suite that take part in the run, with their definitions.
struct ChosenSubjects {
    /// One per arm.
    entries: Vec<SuiteSubject>,
    /// One per subject. A subject may have several arms.
    definitions: Vec<Definition>,
    /// Index of each arm's subject.
    arm_subjects: Vec<usize>,
    /// Whether a subject serves a workload, indexed by subject, then by workload. `Err`: the reason
    /// why not.
    served: Vec<Vec<Result<(), String>>>,
    /// Needs of the suite's subjects that do not take part, as far as their definitions can be
    /// read.
    other_needs: Vec<Needs>,
}

/// Finds the subjects to run, and the workloads that each serves.
fn choose(
    suite: &SuiteFile,
    folders: &Folders,
    overrides: &Overrides,
) -> Result<ChosenSubjects, FileError> {
    let path = Path::new(&suite.suite.path);
    let document = profile::suite_document(&suite.suite)?;
    let mut entries = suite.subjects.clone();
    let mut excluded = Vec::new();
    if !overrides.only.is_empty() {
        check_only(&overrides.only, &entries)
            .map_err(|message| FileError::without_position(path, message))?;
        (entries, excluded) = entries
            .into_iter()
            .partition(|entry| entry.names().iter().any(|name| overrides.only.contains(name)));
    }
    let read_definition = |entry: &SuiteSubject| {
        let at = |key, message| document.locate(subject_mistake(entry, key, message));
        read_definition(entry, folders, &at)
    };
    let (mut servers, mut arm_subjects, mut definitions) = (Vec::new(), Vec::new(), Vec::new());
    for entry in &entries {
        let index = servers.iter().position(|server| *server == entry.server());
        arm_subjects.push(index.unwrap_or(servers.len()));
        if index.is_none() {
            servers.push(entry.server());
            definitions.push(read_definition(entry)?);
        }
    }
    let served = definitions
        .iter()
        .map(|definition| {
            suite.workloads.iter().map(|workload| check_serves(definition, workload)).collect()
        })
        .collect();
    let other_needs = excluded
        .iter()
        .filter_map(|entry| Some(Needs::from_definition(&read_definition(entry).ok()?, entry)))
        .collect();
    Ok(ChosenSubjects { entries, definitions, arm_subjects, served, other_needs })
}

/// Returns one arm per entry.
fn plan_arms(
    suite: &SuiteFile,
    (entries, arm_subjects): (&[SuiteSubject], &[usize]),
    placement: &Placement,
    backends_by_arm: &[Result<Vec<usize>, String>],
    observe: &BTreeSet<Probe>,
) -> Vec<Arm> {
    let arm = |(index, entry): (usize, &SuiteSubject)| {
        let mut arm = plan_arm((arm_subjects[index], entry), &suite.limits, placement);
        arm.backends = backends_by_arm[index].clone().unwrap_or_default();
        arm.conditions.observe.clone_from(observe);
        arm.conditions.isolation = suite.isolation;
        arm
    };
    entries.iter().enumerate().map(arm).collect()
}

/// Checks that the suite's turns, its early end and its CPUs are possible with this number of arms.
fn check_feasibility(suite: &SuiteFile, arms: usize, allowed: &[u32]) -> Result<(), Mistake> {
    turns::check_length(suite, arms)?;
    stop::check_subjects(suite.stop.as_ref(), arms)?;
    check_cpusets(suite, allowed)
}

/// Returns an arm: a subject under the suite's conditions, as overridden by its entry.
fn plan_arm(
    (subject, entry): (usize, &SuiteSubject),
    limits: &CheckedLimits,
    placement: &Placement,
) -> Arm {
    let conditions = Conditions {
        limits: limits_keys::override_limits(&entry.limits, limits).limits,
        placement: placement.clone(),
        env: entry.env.clone(),
        request: entry.request.clone(),
        inherit: entry.inherit.iter().map(|name| name.as_str().into()).collect(),
        load: LoadChanges {
            requests_per_connection: entry.requests_per_connection,
            ..LoadChanges::default()
        },
        ..Conditions::default()
    };
    Arm { name: entry.id(), level: entry.level, subject, backends: Vec::new(), conditions }
}

/// Checks that arms have different names, and that the baseline is one of them. The baseline may be
/// missing if only some arms are run.
fn check_arms(
    entries: &[SuiteSubject],
    suite: &SuiteFile,
    overrides: &Overrides,
) -> Result<(), Mistake> {
    for (i, entry) in entries.iter().enumerate() {
        if entries[..i].iter().any(|other| other.id() == entry.id()) {
            let message = format!(
                "subject {:?}: listed twice\nhint: remove one entry, or give one of them a \
                 `variant` or a `name`",
                entry.id()
            );
            return Err(mistake("subjects", message).with_child(entry.index).with_child("use"));
        }
    }
    match suite.report.baseline.as_ref().filter(|_| overrides.only.is_empty()) {
        Some(baseline) if !entries.iter().any(|entry| entry.id() == *baseline) => {
            let ids: Vec<String> = entries.iter().map(SuiteSubject::id).collect();
            let message = format!(
                "baseline {baseline:?}: not one of the suite's subjects\nhint: use one of {}",
                ids.join(", ")
            );
            Err(mistake("baseline", message).with_parent("report"))
        }
        _ => Ok(()),
    }
}

/// Checks that dyno may use the CPUs that the suite names. Otherwise costs per CPU would be
/// computed with too many CPUs.
fn check_cpusets(suite: &SuiteFile, allowed: &[u32]) -> Result<(), Mistake> {
    if let Some(cpuset) = &suite.limits.cpuset {
        check_cpuset(cpuset, allowed).map_err(|m| m.with_parent("limits"))?;
    }
    for (i, backend) in suite.backends.iter().enumerate() {
        if let Some(cpuset) = &backend.limits.cpuset {
            check_cpuset(cpuset, allowed).map_err(|m| m.with_parent(i).with_parent("backends"))?;
        }
    }
    Ok(())
}

/// Checks that all names of `--only` are in the suite.
fn check_only(only: &[String], entries: &[SuiteSubject]) -> Result<(), String> {
    let mut names: Vec<String> = entries.iter().flat_map(SuiteSubject::names).collect();
    let mut listed = BTreeSet::new();
    names.retain(|name| listed.insert(name.clone()));
    match only.iter().find(|name| !names.contains(name)) {
        None => Ok(()),
        Some(name) => Err(match nearest(name, names.iter().map(String::as_str)) {
            Some(near) => {
                format!("subject {name:?}: not in the suite\nhint: did you mean {near:?}?")
            }
            None => {
                format!("subject {name:?}: not in the suite\nhint: use one of {}", names.join(", "))
            }
        }),
    }
}

/// Returns a mistake in a key of a subject's entry in the suite. If the entry is only a name, the
/// whole entry is underlined.
fn subject_mistake(entry: &SuiteSubject, key: &'static str, message: String) -> Mistake {
    mistake("subjects", message).with_child(entry.index).with_child(key)
}

/// Reads the definition of a subject. `at` makes an error that points at a key of the subject's
/// entry in the suite.
fn read_definition(
    entry: &SuiteSubject,
    folders: &Folders,
    at: &dyn Fn(&'static str, String) -> FileError,
) -> Result<Definition, FileError> {
    let found = match &entry.revised {
        Some(revised) => revised.subject(&entry.name),
        None => folders.subject(&entry.name),
    };
    let definition = found.map_err(|error| match error {
        DefinitionError::NotFound(message) => at("use", message),
        DefinitionError::Invalid(error) => *error,
    })?;
    match &entry.variant {
        Some(variant) => definition.with_variant(variant).map_err(|m| at("variant", m)),
        None => Ok(definition),
    }
}

/// Returns the subjects, each with the settings of its first arm's entry.
fn plan_subjects(
    (entries, arm_subjects): (&[SuiteSubject], &[usize]),
    definitions: &[Definition],
    served: &[Vec<Result<(), String>>],
    unmet_need: &UnmetNeed<'_>,
) -> Vec<Subject> {
    let subject = |subject: usize| {
        let arm = arm_subjects
            .iter()
            .position(|other| *other == subject)
            .expect("a subject should have an arm");
        plan_subject(&entries[arm], &definitions[subject], &served[subject], unmet_need)
    };
    (0..definitions.len()).map(subject).collect()
}

/// Returns a subject for the plan, with the reason if it does not take part.
fn plan_subject(
    entry: &SuiteSubject,
    definition: &Definition,
    served: &[Result<(), String>],
    unmet_need: &UnmetNeed<'_>,
) -> Subject {
    Subject {
        name: entry.name.clone(),
        variant: entry.variant.clone(),
        revision: entry.revised.as_ref().map(|revised| revised.revision.clone()),
        title: definition.title.clone(),
        language: definition.language.clone(),
        description: definition.description.clone(),
        definition: definition.fingerprint().ok(),
        version: None,
        build: None,
        control: definition.is_control(),
        refuses: definition.refuses,
        skipped: no_workload_reason(served).or_else(|| unmet_need(definition)),
        build_failed: None,
    }
}

/// Checks that a subject supports a workload's protocol. `Err`: the reason, as a clause in which
/// "it" is the subject.
fn check_serves(definition: &Definition, workload: &Workload) -> Result<(), String> {
    let protocol = workload.protocol;
    if definition.protocols.contains(&protocol) {
        return Ok(());
    }
    Err(format!("it speaks {}, not {protocol}", listener::join_protocols(&definition.protocols)))
}

/// Returns why a subject serves no workload and is not started. `None`: the subject serves at least
/// one workload.
fn no_workload_reason(served: &[Result<(), String>]) -> Option<String> {
    if served.iter().any(Result::is_ok) {
        return None;
    }
    let reasons: Vec<&String> = served.iter().filter_map(|s| s.as_ref().err()).collect();
    let first = reasons.first()?;
    let suffix = if reasons.iter().any(|reason| reason != first) {
        ", and the other workloads use other protocols that it does not speak"
    } else {
        ""
    };
    Some(format!("{first}{suffix}"))
}

/// Returns the workloads that a participating subject does not serve.
fn not_served(subjects: &[Subject], served: &[Vec<Result<(), String>>]) -> Vec<NotServed> {
    let mut list = Vec::new();
    for (subject, workloads) in
        served.iter().enumerate().filter(|(s, _)| subjects[*s].skipped.is_none())
    {
        for (workload, served) in workloads.iter().enumerate() {
            if let Err(reason) = served {
                list.push(NotServed { subject, workload, reason: reason.clone() });
            }
        }
    }
    list
}

/// Checks that a plan does not list more trials than [`MAX_TRIALS`].
fn check_size(
    repeats: u32,
    served: &[&Vec<Result<(), String>>],
    workload_steps: &[Vec<usize>],
) -> Result<(), String> {
    let count_steps = |workloads: &&Vec<Result<(), String>>| -> usize {
        workloads
            .iter()
            .zip(workload_steps)
            .filter(|(s, _)| s.is_ok())
            .map(|(_, steps)| steps.len())
            .sum()
    };
    let trials: usize = served.iter().map(count_steps).sum();
    // The limit also applies to starts: one per arm and block. There may be more starts than
    // trials, because an arm that serves no workload has no trials.
    let per_block = trials.max(served.len()) as u64;
    let total = per_block.saturating_mul(u64::from(repeats));
    if total <= MAX_TRIALS {
        return Ok(());
    }
    Err(format!(
        "plan: {repeats} repeats of {per_block} trials make {total} trials, more than the limit of \
         {MAX_TRIALS}\nhint: use {} `repeats`, or fewer steps, workloads or subjects",
        match MAX_TRIALS / per_block {
            0 => "fewer".into(),
            max => format!("{max} or fewer"),
        }
    ))
}

/// Returns the number of trials of a plan that may be re-run: this share, and at least two.
fn max_reruns(trials: usize, share: f64) -> u32 {
    // The addend is for products such as 100 × 0.29, which is slightly below 29.
    ((trials as f64 * share + 1e-6) as u32).max(MIN_RERUNS)
}

/// Returns the launches in the suite's order. Arms of a duet run at the same time, so their
/// launches are adjacent. They are first in every second block (pass over all arms) and last in the
/// other blocks, because the order of each second block is the reverse of the order before.
fn plan_launches(
    arms: usize,
    duet: &BTreeSet<usize>,
    order: Order,
    (repeats, seed): (u32, u64),
) -> Vec<Launch> {
    let mut launches = order_launches(arms, repeats, order, seed);
    let is_duet = |launch: &Launch| launch.arms.iter().all(|arm| duet.contains(arm));
    launches.sort_by_key(|launch| {
        let are_duets_last = launch.block.is_multiple_of(2);
        let is_in_second_part = is_duet(launch) == are_duets_last;
        (launch.block, is_in_second_part)
    });
    launches
}

/// Lists the trials of each launch in a separate random order. If a server becomes faster or slower
/// with age, this change then does not always affect the same workload and step.
fn list_trials(
    launches: &[Launch],
    arms: &[Arm],
    served: &[Vec<Result<(), String>>],
    workload_steps: &[Vec<usize>],
    order: Order,
    seed: u64,
) -> Vec<Trial> {
    // The order of arms is drawn from `seed`. Another seed makes the order of trials independent of
    // the order of arms.
    let mut rng = Rng::new(!seed);
    let mut trials = Vec::new();
    for (launch, planned) in launches.iter().enumerate() {
        let mut launch_trials = Vec::new();
        for &arm in &planned.arms {
            let served = &served[arms[arm].subject];
            let workloads =
                workload_steps.iter().enumerate().filter(|(workload, _)| served[*workload].is_ok());
            for (workload, steps) in workloads {
                for &step in steps {
                    launch_trials.push(Trial { launch, arm, workload, step, seed: 0 });
                }
            }
        }
        if order == Order::Random {
            rng.shuffle(&mut launch_trials);
        }
        trials.extend(launch_trials);
    }
    for (number, trial) in trials.iter_mut().enumerate() {
        trial.seed = Trial::seed_of(seed, number);
    }
    trials
}

/// Returns whether the subjects of a plan would take the same turns with loads of another duration.
#[must_use]
pub fn keeps_turns(plan: &Plan, duration_ns: u64) -> bool {
    turns::has_same_turns(plan, duration_ns)
}

/// Returns the CPUs of subject and generator. If there are at least two CPUs, the generator gets
/// the last quarter of them (at least one CPU), and the subject gets the other CPUs.
/// `backend_cpus`: CPUs of back ends, which subject and generator use only if there are too few
/// other CPUs.
fn place_parts(cpuset: Option<Vec<u32>>, backend_cpus: &[u32], allowed: &[u32]) -> Placement {
    let exclude = |cpus: &[u32], excluded: &[u32]| -> Vec<u32> {
        cpus.iter().copied().filter(|cpu| !excluded.contains(cpu)).collect()
    };
    let free = exclude(allowed, backend_cpus);
    if let Some(subject) = cpuset {
        let choices = [exclude(&free, &subject), exclude(allowed, &subject), allowed.to_vec()];
        let generator = choices.into_iter().find(|cpus| !cpus.is_empty()).unwrap_or_default();
        return Placement { subject, generator };
    }
    let cpus = if free.len() < 2 { allowed } else { &free };
    if cpus.len() < 2 {
        return Placement { subject: cpus.to_vec(), generator: cpus.to_vec() };
    }
    let (subject, generator) = cpus.split_at(cpus.len() - (cpus.len() / 4).max(1));
    Placement { subject: subject.to_vec(), generator: generator.to_vec() }
}

/// Returns whether servers and generator exchange CPUs from block to block. The conditions are:
/// - The suite names no CPUs.
/// - Servers and generator have separate CPUs.
/// - Servers and generator have the same number of CPUs. With different numbers, the exchange would
///   also change which cores are adjacent.
/// - There are no back ends.
fn swaps_cpus(
    suite: &SuiteFile,
    placement: &Placement,
    backends: &[dyno_model::plan::Backend],
) -> bool {
    suite.varies_cpus
        && suite.limits.cpuset.is_none()
        && placement.is_disjoint()
        && placement.subject.len() == placement.generator.len()
        && backends.is_empty()
}

#[cfg(test)]
mod tests;
