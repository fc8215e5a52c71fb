//! Reads suite files, and checks them. docs/reference/suite-keys.md describes every key.
//!
//! Each part is deserialized as it is written (`Raw…`), then checked and completed with defaults
//! for the planner. `workloads` has the requests, `load` their number and schedule.

pub(crate) mod duet;
pub(crate) mod experiment;
mod load;
mod overrides;
pub mod profile;
mod reading;
mod revisions;
pub(crate) mod stop;
mod subjects;
pub(crate) mod turns;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use dyno_analysis::capacity;
use dyno_config::mistake::{Mistake, mistake};
use dyno_config::text::FileError;
use dyno_config::units;
use dyno_launch::environment::{Inherit, check_name};
use dyno_model::plan::{
    Capacity, Cost, Experiment, Isolation, Marker, Objective, Order, ReportOptions, SearchOptions,
    StopRule, Suite, Workload,
};
use dyno_model::probe::Probe;
use dyno_subject::definition::{backend_name_error, is_backend_name};
use dyno_subject::limits_keys::{CheckedLimits, RawLimits};
use dyno_subject::paths::Name;
use dyno_subject::placeholders::PlaceholderScope;
use dyno_workload::request_values;
use experiment::RawExperiment;
use serde::Deserialize;

use crate::files::Folder;
use crate::limits::{RERUN_SHARE, SUITE_BYTES};
use crate::observe::RawObserve;
use crate::settings::LoadSettings;
use overrides::{SuiteWorkload, WorkloadTable};
use reading::SuiteReading;
pub use revisions::AcrossRevisions;
use stop::RawStop;
use subjects::RawSubject;
pub use subjects::SuiteSubject;
use turns::{LoadTiming, RawOrder};

/// How the subjects of a suite share the CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubjectSharing {
    /// One subject runs at a time.
    Alone,
    /// Subjects run at the same time, and take turns under load.
    Turns {
        /// Length of a slice, nanoseconds.
        slice_ns: u64,
    },
    /// Subjects are loaded at the same time.
    Together,
}

impl SubjectSharing {
    /// Returns the length of a slice, nanoseconds; `None`: subjects take no turns.
    #[must_use]
    pub const fn slice_ns(self) -> Option<u64> {
        match self {
            SubjectSharing::Turns { slice_ns } => Some(slice_ns),
            SubjectSharing::Alone | SubjectSharing::Together => None,
        }
    }
}

/// A suite, checked, with every default filled in. The existence of its subjects is not checked
/// yet.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteFile {
    pub suite: Suite,
    pub repeats: u32,
    /// Condition of an early end; `None`: all repeats are made.
    pub stop: Option<StopRule>,
    /// Share of the trials that may be re-run, because another process used the machine during the
    /// trial or heat slowed it. `None`: no trial is re-run.
    pub rerun_share: Option<f64>,
    /// `None`: drawn when the run is planned, and recorded.
    pub seed: Option<u64>,
    pub order: Order,
    pub sharing: SubjectSharing,
    /// Whether the CPUs of servers and generator may change from block to block. A block is one
    /// pass over all subjects.
    pub varies_cpus: bool,
    /// The network of each start.
    pub isolation: Isolation,
    /// Limits of the subjects. If the suite names no CPUs, they are chosen when the run is planned.
    pub limits: CheckedLimits,
    pub subjects: Vec<SuiteSubject>,
    /// Intended difference between the subjects, except controls; `None`: no experiment.
    pub experiment: Option<Experiment>,
    /// The suite's settings for services that its subjects need.
    pub backends: Vec<SuiteBackend>,
    pub workloads: Vec<Workload>,
    pub load: LoadSettings,
    /// Search for a rate, which follows each closed loop of a start. `None`: no search.
    pub search: Option<SearchOptions>,
    /// Rates as shares of the capacity of the slowest subject. `load` is the closed loop that
    /// measures the capacity. Empty: rates are absolute.
    pub shares: Vec<f64>,
    /// For each workload, the indices of its steps in the load.
    pub workload_steps: Vec<Vec<usize>>,
    pub cost: Option<Cost>,
    /// SHA-256 of each file that the requests name, by file name.
    pub files: BTreeMap<String, String>,
    pub report: ReportOptions,
    /// Optional probes that are attached to servers.
    pub observe: BTreeSet<Probe>,
    /// Whether the first block measures the cost of the probes.
    pub probe_price: bool,
}

/// A back end's entry in the suite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuiteBackend {
    /// Name by which subjects use its ports.
    pub name: String,
    /// Name of its definition.
    pub definition_name: String,
    pub variant: Option<String>,
    pub env: BTreeMap<String, String>,
    pub inherit: Vec<Inherit>,
    /// Limits that override the limits in its definition.
    pub limits: CheckedLimits,
}

/// Reads the text of a suite file, which may be a pipe.
fn read_source(path: &Path) -> Result<String, String> {
    let named = |error: std::io::Error| format!("cannot be read: {error}");
    let file = File::open(path).map_err(named)?;
    let mut bytes = Vec::new();
    file.take(SUITE_BYTES + 1).read_to_end(&mut bytes).map_err(named)?;
    if bytes.len() as u64 > SUITE_BYTES {
        return Err(format!(
            "has more than {SUITE_BYTES} bytes, the limit of a suite\nhint: check that this file \
             is a suite. Store long bodies in separate files (`body_file`)"
        ));
    }
    String::from_utf8(bytes).map_err(|_| "cannot be read: not UTF-8 text".into())
}

impl SuiteFile {
    /// Reads a suite file for a machine with this many CPUs. The values of the requested `profiles`
    /// override the values of profiles that apply to such a machine, which override the suite.
    pub fn read(path: &Path, profiles: &[String], cpus: usize) -> Result<SuiteFile, FileError> {
        let source =
            read_source(path).map_err(|problem| FileError::without_position(path, problem))?;
        let suite = SuiteFile::parse(
            path,
            &source,
            &profile::applied_profiles(path, &source, profiles, cpus)?,
        )?;
        // Mistakes of the other profiles are reported now, not at their first use.
        for name in profile::names(path, &source)? {
            SuiteFile::parse(path, &source, &[name])?;
        }
        Ok(suite)
    }

    /// Returns the same suite with several revisions of one subject instead of all subjects, and
    /// with enough repeats for a verdict.
    ///
    /// # Errors
    /// The suite has settings that cannot be combined with revisions.
    pub fn across(&self, across: &AcrossRevisions) -> Result<SuiteFile, FileError> {
        let suite = self.reread(SuiteReading::Across(across))?;
        Ok(SuiteFile { repeats: suite.repeats.max(revisions::MIN_REPEATS), ..suite })
    }

    /// Returns the suite of the run that measures the capacities, of which this suite's rates are
    /// shares. A capacity is the throughput of a server that runs alone, so no subjects are loaded
    /// at the same time.
    #[must_use]
    pub fn to_capacity_suite(&self) -> SuiteFile {
        let sharing = match self.sharing {
            SubjectSharing::Together => SubjectSharing::Alone,
            other => other,
        };
        let mut suite = SuiteFile { stop: None, sharing, ..self.clone() };
        suite.suite.name.push_str("-capacity");
        suite
    }

    /// Returns the same suite with rates that are shares of these capacities.
    ///
    /// # Errors
    /// The suite is invalid at these rates. It was valid as the closed loop that measured the
    /// capacities.
    pub fn with_capacities(&self, capacities: &[Capacity]) -> Result<SuiteFile, FileError> {
        self.reread(SuiteReading::At(capacities))
    }

    fn reread(&self, reading: SuiteReading<'_>) -> Result<SuiteFile, FileError> {
        let Suite { source, profiles, path, .. } = &self.suite;
        SuiteFile::parse_for(Path::new(path), source, profiles, reading)
    }

    /// Reads a text as [`SuiteFile::read`] reads a file.
    pub fn parse(path: &Path, source: &str, profiles: &[String]) -> Result<SuiteFile, FileError> {
        let suite = SuiteFile::parse_for(path, source, profiles, SuiteReading::AsWritten)?;
        if !suite.shares.is_empty() {
            // Mistakes of the rates are reported now, not after the capacities are measured.
            suite.with_capacities(&[])?;
        }
        Ok(suite)
    }

    /// Parses a suite with these profiles and changes.
    fn parse_for(
        path: &Path,
        source: &str,
        profiles: &[String],
        reading: SuiteReading<'_>,
    ) -> Result<SuiteFile, FileError> {
        let document = profile::document(path, source, profiles)?;
        let raw: RawSuiteFile = document.read()?;
        let mut suite = raw.check(path, reading).map_err(|mistake| document.locate(mistake))?;
        suite.suite.source = source.into();
        suite.suite.profiles = profiles.to_vec();
        Ok(suite)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuiteFile {
    #[serde(default)]
    suite: RawSuite,
    #[serde(default)]
    limits: RawLimits,
    #[serde(default)]
    subjects: Vec<RawSubject>,
    #[serde(default)]
    workloads: Vec<WorkloadTable>,
    #[serde(default)]
    load: LoadSettings,
    cost: Option<RawCost>,
    #[serde(default)]
    report: RawReport,
    #[serde(default)]
    observe: RawObserve,
    #[serde(default)]
    backends: Vec<RawBackend>,
    experiment: Option<RawExperiment>,
    stop: Option<RawStop>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawSuite {
    name: Option<String>,
    description: String,
    repeats: Option<u32>,
    seed: Option<u64>,
    order: Option<RawOrder>,
    slice: Option<String>,
    isolation: Isolation,
    twin: Option<String>,
    contaminated: Contaminated,
    reruns: Option<String>,
    placement: RawPlacement,
}

/// CPUs of servers and generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawPlacement {
    /// On other CPUs in each block (one pass over all subjects), if the suite names no CPUs.
    #[default]
    Varied,
    /// On the same CPUs in all blocks.
    Fixed,
}

/// Treatment of a trial during which another process used the machine, or heat slowed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Contaminated {
    /// The trial is re-run once, within the plan's limit of re-runs.
    #[default]
    Again,
    /// The trial is used, with a caveat.
    Counts,
}

/// Returns the share of trials that may be re-run; `None`: no trial is re-run.
fn check_reruns(reruns: Option<&str>, contaminated: Contaminated) -> Result<Option<f64>, Mistake> {
    let locate = |message: String| mistake("reruns", message).with_parent("suite");
    let share = reruns.map(units::share).transpose().map_err(locate)?;
    match (contaminated, share) {
        (Contaminated::Again, share) => Ok(Some(share.unwrap_or(RERUN_SHARE))),
        (Contaminated::Counts, None) => Ok(None),
        (Contaminated::Counts, Some(_)) => Err(locate(
            "`reruns`: has no effect with `contaminated = \"counts\"`\nhint: remove one of the two \
             keys"
                .into(),
        )),
    }
}

/// A back end's table, with its name and its limits.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawBackend {
    r#use: String,
    name: Option<String>,
    variant: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    inherit: Vec<Inherit>,
    cpus: Option<f64>,
    cpuset: Option<String>,
    memory: Option<String>,
    files: Option<u64>,
}

impl RawBackend {
    /// Checks the entry of a back end.
    fn check(self) -> Result<SuiteBackend, Mistake> {
        let (definition_name, variant) = match self.r#use.split_once('/') {
            Some((definition_name, variant)) => (definition_name, Some(variant.to_string())),
            None => (self.r#use.as_str(), self.variant),
        };
        let Name(definition_name) =
            Name::parse(definition_name).map_err(|message| mistake("use", message))?;
        let key = if self.name.is_some() { "name" } else { "use" };
        let name = self.name.unwrap_or_else(|| definition_name.clone());
        if !is_backend_name(&name) {
            return Err(mistake(key, backend_name_error(&name)));
        }
        for (variable, value) in &self.env {
            let checked = check_name(variable).and_then(|()| PlaceholderScope::Start.check(value));
            checked.map_err(|message| mistake("env", message).with_child(variable.clone()))?;
        }
        let limits = RawLimits {
            cpus: self.cpus,
            cpuset: self.cpuset,
            memory: self.memory,
            files: self.files,
        };
        Ok(SuiteBackend {
            name,
            definition_name,
            variant,
            env: self.env,
            inherit: self.inherit,
            limits: limits.check()?,
        })
    }
}

/// Returns the name of a file without its extension.
fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns whether any subject has a CPU quota.
fn has_quota(limits: &CheckedLimits, subjects: &[SuiteSubject]) -> bool {
    limits.limits.cpus.is_some() || subjects.iter().any(|s| s.limits.limits.cpus.is_some())
}

/// Checks the entries of back ends, whose names must differ.
fn check_backends(raw: Vec<RawBackend>) -> Result<Vec<SuiteBackend>, Mistake> {
    let mut backends: Vec<SuiteBackend> = Vec::new();
    for (i, raw) in raw.into_iter().enumerate() {
        let backend = raw.check().map_err(|m| m.with_parent(i).with_parent("backends"))?;
        if backends.iter().any(|other| other.name == backend.name) {
            let message = format!(
                "two back ends have the name {:?}\nhint: give one of them another `name`",
                backend.name
            );
            return Err(mistake("name", message).with_parent(i).with_parent("backends"));
        }
        backends.push(backend);
    }
    Ok(backends)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawReport {
    baseline: Option<String>,
    markers: Vec<Marker>,
    objective: Option<String>,
}

const NO_SUBJECTS: &str = "`subjects`: must name at least one subject\nhint: add one, such as \
                           `subjects = [\"null\"]`. `dyno subjects list` prints all subjects";

impl RawSuiteFile {
    /// Checks all parts of a suite, and fills in defaults.
    fn check(mut self, path: &Path, reading: SuiteReading<'_>) -> Result<SuiteFile, Mistake> {
        if self.subjects.is_empty() {
            return Err(mistake("subjects", NO_SUBJECTS));
        }
        let twin = self.suite.twin.as_deref();
        let (subjects, experiment) =
            reading.arms(subjects::check(self.subjects)?, self.experiment, twin)?;
        let backends = check_backends(self.backends)?;
        let limits = self.limits.check().map_err(|m| m.with_parent("limits"))?;
        let files = Folder::from_suite(path);
        let subject_values: Vec<_> =
            subjects.iter().map(|subject| (subject.id(), &subject.request)).collect();
        let mut workloads =
            overrides::check(self.workloads, &subject_values, &|name| files.read(name))?;
        check_request_values(&subjects, experiment.as_ref(), &workloads)?;
        self.load.refuse_conflicts(&workloads).map_err(load::locate_in_load)?;
        let has_objective = self.report.objective.is_some();
        let search = reading.search(
            self.load.take_search(&workloads, has_objective).map_err(load::locate_in_load)?,
        )?;
        let shares = reading.rates(&mut self.load, &mut workloads)?;
        check_requests_per_connection(&subjects, &workloads)?;
        let timing = LoadTiming {
            order: self.suite.order,
            slice: self.suite.slice.as_deref(),
            load: self.load,
            is_experiment: experiment.is_some(),
            has_quota: has_quota(&limits, &subjects),
            subjects: subjects.len(),
        };
        let (load, workload_steps, sharing) = timing.check(&workloads)?;
        let is_duet = sharing == SubjectSharing::Together;
        duet::check(is_duet, &load.load, has_objective)?;
        let stop = self.stop.map(|stop| stop.check(is_duet)).transpose()?;
        let repeats = stop::repeats(self.suite.repeats, stop.is_some())?;
        Ok(SuiteFile {
            suite: suite_header(self.suite.name, self.suite.description, path),
            repeats,
            stop,
            rerun_share: check_reruns(self.suite.reruns.as_deref(), self.suite.contaminated)?,
            seed: self.suite.seed,
            order: self.suite.order.unwrap_or_default().start_order(),
            sharing,
            varies_cpus: self.suite.placement == RawPlacement::Varied,
            isolation: self.suite.isolation,
            limits,
            subjects,
            experiment,
            backends,
            workloads: workloads.into_iter().map(|checked| checked.workload).collect(),
            load,
            search,
            shares,
            workload_steps,
            cost: self.cost.map(check_cost).transpose()?,
            files: files.file_hashes(),
            report: self.report.check(reading)?,
            observe: self.observe.probes(),
            probe_price: self.observe.price,
        })
    }
}

/// Returns a suite's name, description and path. The reader of the file adds its source and
/// profiles.
fn suite_header(name: Option<String>, description: String, path: &Path) -> Suite {
    Suite {
        name: name.unwrap_or_else(|| stem(path)),
        description,
        source: String::new(),
        profiles: Vec::new(),
        path: path.display().to_string(),
    }
}

impl RawReport {
    fn check(self, reading: SuiteReading<'_>) -> Result<ReportOptions, Mistake> {
        let objective = self.objective.as_deref().map(check_objective).transpose()?;
        Ok(ReportOptions {
            baseline: reading.baseline(self.baseline),
            markers: self.markers,
            objective,
        })
    }
}

fn check_objective(text: &str) -> Result<Objective, Mistake> {
    capacity::parse_objective(text, &units::duration)
        .map_err(|message| mistake("objective", message).with_parent("report"))
}

/// Prices of a suite.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCost {
    per_vcpu_hour: f64,
    per_gib_hour: Option<f64>,
    utilisation: Option<f64>,
    lifetime_hours: Option<f64>,
}

/// Checks the prices of a suite.
fn check_cost(raw: RawCost) -> Result<Cost, Mistake> {
    let RawCost { per_vcpu_hour, per_gib_hour, utilisation, lifetime_hours } = raw;
    let is_price = |price: f64| price.is_finite() && price >= 0.0;
    let refuse = |key, message: &str| Err(mistake(key, message).with_parent("cost"));
    if !is_price(per_vcpu_hour) {
        return refuse("per_vcpu_hour", "a price must be 0 or more");
    }
    if per_gib_hour.is_some_and(|price| !is_price(price)) {
        return refuse("per_gib_hour", "a price must be 0 or more");
    }
    if utilisation.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        return refuse("utilisation", "`utilisation`: must be a number above 0 and at most 1");
    }
    if lifetime_hours.is_some_and(|hours| !(hours.is_finite() && hours > 0.0)) {
        return refuse("lifetime_hours", "`lifetime_hours`: must be above 0");
    }
    Ok(Cost { per_vcpu_hour, per_gib_hour, utilisation, lifetime_hours })
}

/// Checks that no workload overrides the requests per connection of a subject's entry.
fn check_requests_per_connection(
    subjects: &[SuiteSubject],
    workloads: &[SuiteWorkload],
) -> Result<(), Mistake> {
    let workload =
        workloads.iter().find(|checked| checked.workload.requests_per_connection.is_some());
    let subject = subjects.iter().find(|subject| subject.requests_per_connection.is_some());
    match workload.zip(subject) {
        None => Ok(()),
        Some((workload, subject)) => Err(mistake(
            "requests_per_connection",
            format!(
                "workload {:?}: `requests_per_connection` would override the value that subject {} \
                 sets\nhint: set `requests_per_connection` either in the workload or in the \
                 subject",
                workload.workload.name,
                subject.id()
            ),
        )),
    }
}

/// Checks that every request value of a subject is used, because an unused value has no effect.
/// Also checks that values in places for secrets have names that suggest secrets.
fn check_request_values(
    subjects: &[SuiteSubject],
    experiment: Option<&Experiment>,
    workloads: &[SuiteWorkload],
) -> Result<(), Mistake> {
    let used_names: BTreeSet<String> = workloads
        .iter()
        .flat_map(|checked| request_values::required_names(&checked.workload))
        .collect();
    let values =
        subjects.iter().flat_map(|subject| subject.request.keys().map(move |name| (subject, name)));
    if let Some((subject, name)) = values.into_iter().find(|(_, name)| !used_names.contains(*name))
    {
        let message = format!(
            "{{request.{name}}}: has a value for {}, but no request uses this placeholder\nhint: \
             write {{request.{name}}} in a path, a header or a body",
            subject.id()
        );
        let is_varied =
            experiment.is_some_and(|experiment| experiment.arms.contains(&subject.id()));
        return Err(match is_varied {
            true => mistake("experiment", message)
                .with_child("vary")
                .with_child(format!("request.{name}")),
            false => mistake("subjects", message)
                .with_child(subject.index)
                .with_child("request")
                .with_child(name.clone()),
        });
    }
    for (i, checked) in workloads.iter().enumerate() {
        if let Some((name, place)) = request_values::find_misnamed_secret(&checked.workload) {
            let message = format!(
                "{{request.{name}}}: is used in {place:?}, so its value is secret, but reports \
                 hide a value only if the name of its placeholder suggests a secret\nhint: rename \
                 the placeholder to {{request.{name}_token}}"
            );
            return Err(mistake("workloads", message).with_child(i));
        }
    }
    Ok(())
}

/// Returns the first folder of this name at or above a path, for suites and subjects.
#[must_use]
pub fn find_upwards(from: &Path, name: &str) -> Option<PathBuf> {
    let from = std::fs::canonicalize(from).ok()?;
    from.ancestors().map(|a| a.join(name)).find(|p| p.is_dir())
}

#[cfg(test)]
mod mistakes;

#[cfg(test)]
mod tests;
