//! The resolved plan of a run. Every setting is explicit, so an archive can be understood without
//! the suite and its defaults.

mod load;
mod sharing;

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Party;
use crate::probe::Probe;
pub use crate::workload::{
    Body, Cookies, EXTRACTED_VALUE, Expect, Extraction, ExtractionSource, ImportChange, Page,
    Request, SUBJECT_VALUE_PREFIX, Sequence, Workload,
};
pub use load::{
    AcceptedCertificates, Arrival, Arrivals, ConnectionSettings, DriverKind, Gaps, Http2, Load,
    LoadModel, Priority, ProxyProtocol, Reconnect, Segment, Spin, Step, StillWarming, TlsSettings,
    UntilSteady,
};
pub use sharing::ArmSharing;

/// Everything that was decided before the first process started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub suite: Suite,
    /// Folders of the subjects' definitions. If two have a subject of the same name, the earlier
    /// folder takes precedence.
    pub subjects_folders: Vec<String>,
    /// Seed of the order within blocks and of all random arrivals.
    pub seed: u64,
    pub repeats: u32,
    /// Condition that ends the run early; `None`: all repeats are made.
    pub stop: Option<StopRule>,
    /// Maximum number of trials that are re-run because another process used the machine during the
    /// trial, or heat slowed the machine.
    pub again: u32,
    /// Order of the subjects within a block (one pass over all arms).
    pub order: Order,
    /// How the arms of a block share the CPUs.
    #[serde(flatten)]
    pub sharing: ArmSharing,
    /// Whether servers and generator swap their CPUs in every second block, so that comparisons do
    /// not depend on the CPUs. Servers and generator have the same number of CPUs.
    pub swaps_cpus: bool,
    /// Intended difference between the arms, controls excluded; `None`: no experiment.
    pub experiment: Option<Experiment>,
    pub subjects: Vec<Subject>,
    /// Compared arms, at least one per subject.
    pub arms: Vec<Arm>,
    /// Services that the subjects need, in the order of their starts. All back ends of a subject
    /// are started before it.
    pub backends: Vec<Backend>,
    pub workloads: Vec<Workload>,
    pub load: Load,
    /// Search for a rate at each start after each of its closed loops; `None`: no search.
    pub search: Option<SearchOptions>,
    /// Capacities with which the suite's shares were converted to rates; `None`: the suite has
    /// absolute rates, or none.
    pub measured_first: Option<MeasuredFirst>,
    /// In the order of the run.
    pub launches: Vec<Launch>,
    /// In the order of the run.
    pub trials: Vec<Trial>,
    /// Workloads that a participating subject does not serve. They have no trials.
    pub not_served: Vec<NotServed>,
    pub report: ReportOptions,
    pub cost: Option<Cost>,
    /// Whether the first start of each arm also measures the cost of its probes.
    pub probe_price: bool,
    /// Files that requests name, relative to the suite's folder, with the SHA-256 of each in
    /// hexadecimal digits.
    pub files: BTreeMap<String, String>,
    /// Changes that an import made to its requests.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub import_changes: Vec<ImportChange>,
}

impl Plan {
    /// Returns the load under an arm's conditions.
    #[must_use]
    pub fn load_of(&self, arm: usize) -> Load {
        self.arms[arm].conditions.load.apply_to(&self.load)
    }

    /// Returns the load of a trial: under its arm's conditions, with the requests per connection of
    /// its workload.
    #[must_use]
    pub fn load_of_trial(&self, trial: &Trial) -> Load {
        let load = self.load_of(trial.arm);
        let workload_limit = self.workloads[trial.workload].requests_per_connection;
        Load { requests_per_connection: workload_limit.or(load.requests_per_connection), ..load }
    }

    /// Returns the subject of an arm.
    #[must_use]
    pub fn subject_of(&self, arm: usize) -> &Subject {
        &self.subjects[self.arms[arm].subject]
    }

    /// Returns the CPUs of an arm in a launch.
    #[must_use]
    pub fn placement(&self, launch: usize, arm: usize) -> Placement {
        let placement = &self.arms[arm].conditions.placement;
        let is_second = self.launches[launch].block % 2 == 1;
        if self.swaps_cpus && is_second { placement.swap() } else { placement.clone() }
    }

    /// Whether neither an arm's subject nor its back ends run on the generator's CPUs.
    #[must_use]
    pub fn has_separate_generator_cpus(&self, arm: usize) -> bool {
        let Arm { backends, conditions: Conditions { placement, .. }, .. } = &self.arms[arm];
        let is_free = |cpus: &[u32]| !cpus.iter().any(|cpu| placement.generator.contains(cpu));
        placement.is_disjoint()
            && backends.iter().all(|backend| is_free(&self.backends[*backend].cpus))
    }

    /// Whether a launch is the first start of an arm with probes. In this start, the subject is
    /// inspected, and the price of the probes is measured.
    #[must_use]
    pub fn is_first_start_with_probes(&self, launch: usize) -> bool {
        let is_observed = |arm: &Arm| !arm.conditions.observe.is_empty();
        self.launches[launch].block == 0 && self.arms_of(launch).any(is_observed)
    }

    /// Returns the groups of launches that run concurrently, in the order of the run. Launches of a
    /// block are a group if its arms take turns or are loaded at the same time. Any other launch is
    /// a separate group.
    #[must_use]
    pub fn concurrent_launches(&self) -> Vec<Vec<usize>> {
        let block = |launch: usize| self.launches[launch].block;
        let all: Vec<usize> = (0..self.launches.len()).collect();
        let has_duet_arms = |launch: usize| {
            self.launches[launch].arms.iter().all(|arm| self.sharing.duet().contains(arm))
        };
        let is_concurrent =
            |launch: usize| self.sharing.slice_ns().is_some() || has_duet_arms(launch);
        let groups =
            all.chunk_by(|a, b| block(*a) == block(*b) && is_concurrent(*a) && is_concurrent(*b));
        groups.map(<[usize]>::to_vec).collect()
    }

    /// Removes the arms that do not take part in the run from the duet (the arms that are loaded at
    /// the same time). If only one arm remains, it is loaded alone.
    pub fn remove_unavailable_from_duet(&mut self) {
        if let ArmSharing::Together { arms } = &self.sharing {
            let arms = arms.iter().copied().filter(|arm| self.takes_part(*arm)).collect();
            self.sharing = ArmSharing::from_duet(arms);
        }
    }

    /// Whether both arms are in the duet, or neither is. The cost of a request depends on
    /// concurrent loads on the same CPUs.
    #[must_use]
    pub fn are_loaded_alike(&self, a: usize, b: usize) -> bool {
        self.sharing.duet().contains(&a) == self.sharing.duet().contains(&b)
    }

    /// Returns the number of loads that run at the same time as a trial's load, which is included.
    /// They are the loads of the duet's arms with the same workload and step.
    #[must_use]
    pub fn loads_with(&self, trial: &Trial) -> u32 {
        let block = |launch: usize| self.launches[launch].block;
        let is_concurrent = |other: &&Trial| {
            (other.workload, other.step) == (trial.workload, trial.step)
                && block(other.launch) == block(trial.launch)
                && self.sharing.duet().contains(&other.arm)
        };
        if self.sharing.duet().contains(&trial.arm) {
            self.trials.iter().filter(is_concurrent).count() as u32
        } else {
            1
        }
    }

    /// Whether an arm takes part in the run: its subject is not skipped, and its build did not
    /// fail.
    #[must_use]
    pub fn takes_part(&self, arm: usize) -> bool {
        let subject = self.subject_of(arm);
        subject.skipped.is_none() && subject.build_failed.is_none()
    }

    /// Returns the arms of a launch.
    pub fn arms_of(&self, launch: usize) -> impl Iterator<Item = &Arm> {
        self.launches[launch].arms.iter().map(|arm| &self.arms[*arm])
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suite {
    pub name: String,
    pub description: String,
    /// The suite file as it was read.
    pub source: String,
    /// Names of the selected profiles. Values of a later profile override values of earlier ones.
    pub profiles: Vec<String>,
    /// Path of the suite file. Empty: the run was planned from the command line.
    pub path: String,
}

impl Suite {
    /// Whether the suite was read from a file. Only such a run can be resumed.
    #[must_use]
    pub fn is_from_file(&self) -> bool {
        !self.path.is_empty()
    }
}

/// The order of subjects within a block, or of workloads and steps within a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// Drawn anew for each block, and for each start, from the seed.
    #[default]
    Random,
    /// The order of the suite's lists.
    Fixed,
}

/// Resource limits of a part of a start. `None`: no limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// CPU quota in CPUs.
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub open_files: Option<u64>,
}

/// CPUs of the subject and of the generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Placement {
    pub subject: Vec<u32>,
    pub generator: Vec<u32>,
}

impl Placement {
    /// Returns the placement with the CPUs of subject and generator swapped.
    #[must_use]
    pub fn swap(&self) -> Placement {
        Placement { subject: self.generator.clone(), generator: self.subject.clone() }
    }

    /// Returns whether no CPU is shared.
    #[must_use]
    pub fn is_disjoint(&self) -> bool {
        !self.subject.iter().any(|cpu| self.generator.contains(cpu))
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subject {
    pub name: String,
    pub variant: Option<String>,
    /// Revision of its files; `None`: the files in the folder of its definition.
    pub revision: Option<Revision>,
    pub title: String,
    pub language: String,
    pub description: String,
    /// Hash of the subject's definition; `None`: dyno did not start the subject, or the archive is
    /// older.
    pub definition: Option<String>,
    pub version: Option<String>,
    pub build: Option<Build>,
    /// Whether the subject is a control: dyno's own responder, which shows the machine's limit.
    pub control: bool,
    /// Whether the subject is a control without a listener on its port: every connection should be
    /// refused.
    pub refuses: bool,
    /// Reason why the subject is not started on this machine.
    pub skipped: Option<String>,
    /// Reason why the build failed, although all requirements were met.
    pub build_failed: Option<String>,
}

impl Subject {
    /// Returns the unique id of a subject in a run: `name` or `name/variant`, followed by
    /// `@revision` if it has one.
    #[must_use]
    pub fn id(&self) -> String {
        server_id(&self.name, self.variant.as_deref(), self.revision.as_ref())
    }
}

/// Returns the unique id of a server: see [`Subject::id`].
#[must_use]
pub fn server_id(name: &str, variant: Option<&str>, revision: Option<&Revision>) -> String {
    let variant = variant.map(|variant| format!("/{variant}")).unwrap_or_default();
    let revision = revision.map(|revision| format!("@{}", revision.name)).unwrap_or_default();
    format!("{name}{variant}{revision}")
}

/// A state of a repository.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Revision {
    /// Name as the user wrote it, such as `main`.
    pub name: String,
    /// Hash of the commit; `None`: the files in the work tree.
    pub commit: Option<String>,
}

/// A subject under conditions, which is compared with other arms. Trials of one arm differ only in
/// workload, step and block.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Unique name of the arm. A subject's only arm has the subject's id.
    pub name: String,
    /// Level on the varied scale, such as a number of CPUs; `None`: no scale.
    pub level: Option<f64>,
    /// Index in the plan's subjects.
    pub subject: usize,
    /// Indices of the plan's back ends that run with the arm, in the order of their starts.
    pub backends: Vec<usize>,
    pub conditions: Conditions,
}

/// Throughput of a suite's slowest subject with a workload, from which rates are computed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capacity {
    pub workload: String,
    /// Correct responses per second in closed loops.
    pub rps: f64,
    /// Name of the arm.
    pub subject: String,
}

/// An earlier run. Its results determined the rates of this run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredFirst {
    /// The id of the earlier run.
    pub run: String,
    /// The rates, as shares of the capacities.
    pub shares: Vec<f64>,
    pub capacities: Vec<Capacity>,
    /// Subjects that failed in some repeats of the earlier run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<CapacityFailures>,
}

/// Failures of a subject in the run that measured capacities. The subject's capacity comes from the
/// other repeats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CapacityFailures {
    /// Name of the arm.
    pub subject: String,
    /// Number of repeats with a failure: of the start, or of a load.
    pub failed: usize,
    /// Planned repeats.
    pub repeats: u32,
}

/// Condition that ends a run: it is known which arms differ.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Stop")]
pub struct StopRule {
    /// Keys of the metrics by which arms are compared.
    pub metrics: Vec<String>,
    /// The largest difference that is treated as equal: 0.02 for 2 %. `None`: only a detected
    /// difference ends the run.
    pub same_within: Option<f64>,
}

/// An intended comparison of arms.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    pub kind: ExperimentKind,
    /// Name of the varied factor, in the user's words; `None`: the arms name it.
    pub factor: Option<String>,
    /// Names of the arms that the experiment made from a subject; empty: all arms except the arms
    /// of controls.
    pub arms: Vec<String>,
}

/// How the arms of an experiment are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExperimentKind {
    /// Each arm adds a change to the arm before it.
    Ladder,
    /// The first arm has all parts, and each other arm lacks one part.
    Ablation,
    /// Two arms that differ in one change.
    Toggle,
    /// One factor at several levels.
    Dose,
    /// Every combination of the levels of several factors.
    Matrix,
}

impl ExperimentKind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            ExperimentKind::Ladder => "ladder",
            ExperimentKind::Ablation => "ablation",
            ExperimentKind::Toggle => "toggle",
            ExperimentKind::Dose => "dose",
            ExperimentKind::Matrix => "matrix",
        }
    }
}

/// The network of the parts of a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// The machine's network namespace, which is also the generator's.
    #[default]
    None,
    /// A separate network namespace, with a link to the generator whose packets have at most 1,500
    /// bytes.
    Netns,
}

/// Settings of an arm, apart from its subject.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    pub limits: Limits,
    pub placement: Placement,
    /// Environment that is added to the environment in the subject's definition.
    pub env: BTreeMap<String, String>,
    /// Names of variables that the subject inherits from dyno's environment, in addition to the
    /// names in its definition.
    pub inherit: Vec<String>,
    /// Values for the arm's requests, by name: `{request.NAME}` in a workload.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub request: BTreeMap<String, String>,
    pub load: LoadChanges,
    pub isolation: Isolation,
    /// Probes that are attached in addition to the standard observations.
    pub observe: BTreeSet<Probe>,
}

impl Conditions {
    /// Returns the conditions in JSON, without values that may hold secrets.
    #[must_use]
    pub fn without_values(&self) -> serde_json::Value {
        let mut all = serde_json::json!(self);
        let names = all.as_object_mut().expect("the conditions have a name");
        names.retain(|name, _| name != "env" && name != "request");
        all
    }

    /// Returns the values that may hold secrets, by the names under which they are varied:
    /// `env.NAME`, `request.NAME`.
    #[must_use]
    pub fn values(&self) -> BTreeMap<String, &str> {
        let env = self.env.iter().map(|(name, value)| (format!("env.{name}"), &**value));
        let request =
            self.request.iter().map(|(name, value)| (format!("request.{name}"), &**value));
        env.chain(request).collect()
    }
}

/// Settings of an arm that override the plan's load. `None`: the plan's setting applies.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadChanges {
    pub driver: Option<DriverKind>,
    pub spin: Option<Spin>,
    pub threads: Option<u32>,
    pub http2: Option<Http2>,
    /// Number of requests after which a connection is replaced.
    pub requests_per_connection: Option<u64>,
}

impl LoadChanges {
    /// Returns a load with these changes.
    #[must_use]
    pub fn apply_to(&self, load: &Load) -> Load {
        Load {
            driver: self.driver.unwrap_or(load.driver),
            spin: self.spin.unwrap_or(load.spin),
            threads: self.threads.unwrap_or(load.threads),
            http2: self.http2.unwrap_or(load.http2),
            requests_per_connection: self.requests_per_connection.or(load.requests_per_connection),
            ..load.clone()
        }
    }
}

/// A service that subjects need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Backend {
    /// Name that a subject's command uses for the ports of the back end: `{name.port}`.
    pub name: String,
    /// Name of the definition.
    #[serde(rename = "of")]
    pub definition_name: String,
    pub variant: Option<String>,
    pub title: String,
    /// Output of its version command; `None`: the back end has no such command, or was not built.
    pub version: Option<String>,
    /// `None`: the back end has no build, or was not built.
    pub build: Option<Build>,
    /// Reason why the build failed, in words. No subject that needs the back end takes part.
    pub build_failed: Option<String>,
    /// Hash of the definition; `None`: its folder could not be read.
    pub definition: Option<String>,
    pub limits: Limits,
    /// CPUs that it may use.
    pub cpus: Vec<u32>,
    /// Requirement that is not met on this machine, in words. No subject that needs the back end
    /// takes part.
    pub skipped: Option<String>,
}

/// Cost of building a subject. `wall_ns` and `cpu_ns` belong to the build that made the artefact,
/// even if the artefact was cached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    pub wall_ns: u64,
    pub cpu_ns: Option<u64>,
    pub artefact_bytes: u64,
    /// SHA-256 of the artefact's paths, executable bits and contents. `None`: a file of it could
    /// not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artefact: Option<String>,
    pub cached: bool,
    /// Hash of all inputs of the build.
    pub inputs: String,
    /// Hash of the inputs that are the same on all machines, without values that may be secret. The
    /// path of the definition's folder, and variables that locate tools and caches, are no part of
    /// it.
    pub portable_inputs: String,
    /// Environment of the build, without secrets.
    pub environment: BTreeMap<String, String>,
}

/// A fresh start of one or more arms, which run concurrently. Its workloads and steps run one after
/// the other, in the order of the trials.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Indices in the plan's arms; at least one.
    pub arms: Vec<usize>,
    /// Number of its repeat, from 0: trials of one block are compared in pairs.
    pub block: u32,
}

impl Launch {
    /// Returns a launch of a single arm.
    #[must_use]
    pub fn with_arm(arm: usize, block: u32) -> Launch {
        Launch { arms: vec![arm], block }
    }

    /// Returns the party of an arm; `None`: the launch does not start the arm.
    #[must_use]
    pub fn party_of(&self, arm: usize) -> Option<Party> {
        self.arms.iter().position(|launched_arm| *launched_arm == arm).map(Party::Subject)
    }
}

/// One planned trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    pub launch: usize,
    /// Index in the plan's arms. The launch starts this arm.
    pub arm: usize,
    pub workload: usize,
    pub step: usize,
    /// Seed of the random arrivals, and of the random values in requests.
    pub seed: u64,
}

impl Trial {
    /// Returns the seed of a trial, from the plan's seed and the trial's index. A re-run has the
    /// same seeds.
    #[must_use]
    pub const fn seed_of(plan: u64, trial: usize) -> u64 {
        plan ^ (trial as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Returns a sort key for display. It puts the trials of every start in the order of the plan's
    /// workloads and steps. The run has a random order.
    #[must_use]
    pub fn display_order(&self) -> (usize, usize, usize, usize) {
        (self.launch, self.arm, self.workload, self.step)
    }
}

/// A workload that a subject does not serve. `reason` is the second half of a sentence about the
/// subject.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotServed {
    pub subject: usize,
    pub workload: usize,
    pub reason: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReportOptions {
    /// Name of the arm with which other arms are compared.
    pub baseline: Option<String>,
    pub markers: Vec<Marker>,
    /// Objective of servers at the rates of open loops; `None`: no objective.
    pub objective: Option<Objective>,
}

/// A search for the highest rate that meets the objective of [`ReportOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Search")]
pub struct SearchOptions {
    /// Precision of the result: the distance from the highest rate that met the objective to the
    /// lowest rate that missed it, as a share. 0.05 is 5 %.
    pub width: f64,
    /// Arrivals of the requests in the loads of the search.
    pub arrival: Arrival,
}

impl SearchOptions {
    /// Returns the schedule of a load of the search.
    #[must_use]
    pub const fn arrivals(&self, rate: f64) -> Arrivals {
        match self.arrival {
            Arrival::Poisson => Arrivals::Poisson { rate },
            Arrival::Constant | Arrival::Trace => Arrivals::Constant { rate },
        }
    }
}

/// Conditions that a load must meet, all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Objective {
    /// The text as the user wrote it.
    pub text: String,
    pub conditions: Vec<Condition>,
}

/// One condition of an objective.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// A percentile of the response time below a bound.
    Quantile {
        name: String,
        /// 0 to 1.
        q: f64,
        below_us: f64,
    },
    /// The mean of correct responses below a bound.
    Mean { below_us: f64 },
    /// Requests of the window without a correct response, below this share of all requests of the
    /// window.
    Errors { below: f64 },
}

/// A vertical line on the charts, set by the user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Marker {
    pub connections: f64,
    pub label: String,
}

/// Prices of a running server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cost {
    /// Price of a CPU for an hour, whether it is used or idle.
    pub per_vcpu_hour: f64,
    /// Price of 2³⁰ bytes of memory for an hour; `None`: memory is free.
    pub per_gib_hour: Option<f64>,
    /// Share of its CPUs that a server may use on average: above 0, up to 1. `None`: all its CPUs.
    pub utilisation: Option<f64>,
    /// Hours after which a server is restarted; `None`: the server is never restarted.
    pub lifetime_hours: Option<f64>,
}

#[cfg(test)]
mod tests;
