//! Suite files. docs/suites.md describes every key.
//!
//! Each part is read as it is written (`Raw…`), then checked and completed with defaults for the
//! planner: `workloads` has the requests, `load` their number and schedule.

mod asked;
pub(crate) mod duet;
pub(crate) mod experiment;
mod load;
pub mod profile;
pub(crate) mod stop;
mod subjects;
pub(crate) mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use dyno_analysis::capacity;
use dyno_archive::plan::{
    Capacity, Cost, Experiment, Isolation, Marker, Objective, Order, ReportOptions, Search, Stop,
    Suite, Workload,
};
use dyno_archive::probe::Probe;
use dyno_launch::environment::{Inherit, check_name};
use dyno_subject::definition::{is_backend, not_a_backend};
use dyno_subject::limits_keys::{CheckedLimits, RawLimits};
use dyno_subject::paths::Name;
use dyno_subject::placeholders::Place;
use dyno_workload::mistake::{Mistake, mistake};
use dyno_workload::text::FileError;
use dyno_workload::workloads::{CheckedWorkload, RawWorkload, check_workloads};
use dyno_workload::{own, units};
use serde::Deserialize;

use crate::files::Folder;
use crate::observe::RawObserve;
pub use asked::AcrossRevisions;
use asked::Asked;
use experiment::RawExperiment;
use load::RawLoad;
pub use load::SuiteLoad;
use stop::RawStop;
use subjects::RawSubject;
pub use subjects::SuiteSubject;
use turns::{Paced, RawOrder};

/// A suite, checked, with every default filled in. The existence of its subjects is not checked
/// yet.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteFile {
    pub suite: Suite,
    pub repeats: u32,
    /// Condition of an early end; `None`: all repeats are made.
    pub stop: Option<Stop>,
    /// Whether a trial is re-run if another process used the machine meanwhile, or heat slowed it.
    pub again: bool,
    /// `None`: drawn when the run is planned, and recorded.
    pub seed: Option<u64>,
    pub order: Order,
    /// Length of the time slices of subjects that are up at once and take turns under load,
    /// nanoseconds. `None`: one subject is up at a time.
    pub slice_ns: Option<u64>,
    /// Whether subjects are loaded at the same time.
    pub duet: bool,
    /// Whether the CPUs of servers and generator may change from block to block.
    pub varies_cpus: bool,
    /// The network of each start.
    pub isolation: Isolation,
    /// Limits of the subjects. CPUs that it does not name are chosen when the run is planned.
    pub limits: CheckedLimits,
    pub subjects: Vec<SuiteSubject>,
    /// Intended difference between the subjects other than controls; `None`: there is no
    /// experiment.
    pub experiment: Option<Experiment>,
    /// Services that subjects need and the suite has settings for.
    pub backends: Vec<SuiteBackend>,
    pub workloads: Vec<Workload>,
    pub load: SuiteLoad,
    /// Search for a rate at each start after each of its closed loops; `None`: no search.
    pub search: Option<Search>,
    /// Rates as shares of the capacity of the slowest subject, which this load measures first;
    /// empty: rates are absolute.
    pub shares: Vec<f64>,
    /// For each workload, the indices of its steps in the load.
    pub steps_of: Vec<Vec<usize>>,
    pub cost: Option<Cost>,
    /// SHA-256 of each file that its requests name, by its name.
    pub files: BTreeMap<String, String>,
    pub report: ReportOptions,
    /// Probes that are attached to servers besides those that always are.
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
    pub of: String,
    pub variant: Option<String>,
    pub env: BTreeMap<String, String>,
    pub inherit: Vec<Inherit>,
    /// Limits that override those of its definition.
    pub limits: CheckedLimits,
}

impl SuiteFile {
    /// Reads a suite file for a machine with this many CPUs. The values of these profiles take
    /// precedence, followed by those of profiles that apply to such a machine.
    pub fn read(path: &Path, profiles: &[String], cpus: usize) -> Result<SuiteFile, FileError> {
        let source = std::fs::read_to_string(path)
            .map_err(|error| FileError::whole(path, format!("cannot be read: {error}")))?;
        let suite =
            SuiteFile::parse(path, &source, &profile::meant(path, &source, profiles, cpus)?)?;
        // Mistakes of the other profiles are reported now, not at their first use.
        for name in profile::names(path, &source)? {
            SuiteFile::parse(path, &source, &[name])?;
        }
        Ok(suite)
    }

    /// Returns the same suite with several revisions of one subject instead of all subjects.
    ///
    /// # Errors
    /// The suite has settings that exclude this comparison.
    pub fn across(&self, revisions: &AcrossRevisions) -> Result<SuiteFile, FileError> {
        self.asked(Asked::Across(revisions))
    }

    /// Returns the same suite with rates that are shares of these capacities.
    ///
    /// # Errors
    /// The suite has mistakes that its closed loop does not have.
    pub fn at(&self, capacities: &[Capacity]) -> Result<SuiteFile, FileError> {
        self.asked(Asked::At(capacities))
    }

    fn asked(&self, asked: Asked<'_>) -> Result<SuiteFile, FileError> {
        let Suite { source, profiles, path, .. } = &self.suite;
        SuiteFile::parse_for(Path::new(path), source, profiles, asked)
    }

    /// Reads a text as [`SuiteFile::read`] reads a file.
    pub fn parse(path: &Path, source: &str, profiles: &[String]) -> Result<SuiteFile, FileError> {
        let suite = SuiteFile::parse_for(path, source, profiles, Asked::AsWritten)?;
        if !suite.shares.is_empty() {
            // Mistakes of the rates are reported now, not after the capacities are measured.
            suite.at(&[])?;
        }
        Ok(suite)
    }

    fn parse_for(
        path: &Path,
        source: &str,
        profiles: &[String],
        asked: Asked<'_>,
    ) -> Result<SuiteFile, FileError> {
        let document = profile::document(path, source, profiles)?;
        let raw: Raw = document.read()?;
        let mut suite = raw.check(path, asked).map_err(|mistake| document.locate(mistake))?;
        suite.suite.source = source.into();
        suite.suite.profiles = profiles.to_vec();
        Ok(suite)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    suite: RawSuite,
    #[serde(default)]
    limits: RawLimits,
    #[serde(default)]
    subjects: Vec<RawSubject>,
    #[serde(default)]
    workloads: Vec<RawWorkload>,
    #[serde(default)]
    load: RawLoad,
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
    placement: RawPlacement,
}

/// CPUs of servers and generator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawPlacement {
    /// On other CPUs in each block, where none are named.
    #[default]
    Varied,
    /// On the same CPUs in all blocks.
    Fixed,
}

/// Treatment of a trial during which another process used the machine, or heat slowed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Contaminated {
    /// It is re-run once, within the plan's limit of re-runs.
    #[default]
    Again,
    /// It counts, with a caveat.
    Counts,
}

/// A back end's table, which holds its limits as well as its name.
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
    fn check(self) -> Result<SuiteBackend, Mistake> {
        let (of, variant) = match self.r#use.split_once('/') {
            Some((of, variant)) => (of, Some(variant.to_string())),
            None => (self.r#use.as_str(), self.variant),
        };
        let Name(of) = Name::parse(of).map_err(|why| mistake("use", why))?;
        let key = if self.name.is_some() { "name" } else { "use" };
        let name = self.name.unwrap_or_else(|| of.clone());
        if !is_backend(&name) {
            return Err(mistake(key, not_a_backend(&name)));
        }
        for (variable, value) in &self.env {
            let checked = check_name(variable).and_then(|()| Place::Start.check(value));
            checked.map_err(|why| mistake("env", why).below(variable.clone()))?;
        }
        let limits = RawLimits {
            cpus: self.cpus,
            cpuset: self.cpuset,
            memory: self.memory,
            files: self.files,
        };
        Ok(SuiteBackend {
            name,
            of,
            variant,
            env: self.env,
            inherit: self.inherit,
            limits: limits.check()?,
        })
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default()
}

fn has_quota(of_all: &CheckedLimits, subjects: &[SuiteSubject]) -> bool {
    of_all.limits.cpus.is_some() || subjects.iter().any(|s| s.limits.limits.cpus.is_some())
}

fn check_backends(raw: Vec<RawBackend>) -> Result<Vec<SuiteBackend>, Mistake> {
    let mut all: Vec<SuiteBackend> = Vec::new();
    for (i, raw) in raw.into_iter().enumerate() {
        let backend = raw.check().map_err(|m| m.within(i).within("backends"))?;
        if all.iter().any(|known| known.name == backend.name) {
            let message =
                format!("two back ends are called {:?}; give one another `name`", backend.name);
            return Err(mistake("name", message).within(i).within("backends"));
        }
        all.push(backend);
    }
    Ok(all)
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawReport {
    baseline: Option<String>,
    markers: Vec<Marker>,
    objective: Option<String>,
}

const NO_SUBJECTS: &str = "there are no subjects; name at least one, for instance `subjects = \
                           [\"null\"]` (`dyno subjects list` shows which there are)";

impl Raw {
    fn check(mut self, path: &Path, asked: Asked<'_>) -> Result<SuiteFile, Mistake> {
        if self.subjects.is_empty() {
            return Err(mistake("subjects", NO_SUBJECTS));
        }
        let twin = self.suite.twin.as_deref();
        let (subjects, experiment) =
            asked.arms(subjects::check(self.subjects)?, self.experiment, twin)?;
        let backends = check_backends(self.backends)?;
        let limits = self.limits.check().map_err(|m| m.within("limits"))?;
        let files = Folder::of_suite(path);
        let sent: Vec<_> =
            subjects.iter().map(|subject| (subject.id(), &subject.request)).collect();
        let mut shaped = check_workloads(self.workloads, &sent, &|name| files.read(name))?;
        check_values(&subjects, experiment.as_ref(), &shaped)?;
        let has_objective = self.report.objective.is_some();
        let search =
            asked.search(self.load.take_search(&shaped, has_objective).map_err(load::of_load)?)?;
        let shares = asked.rates(&mut self.load, &mut shaped)?;
        check_lengths(&subjects, &shaped)?;
        let paced = Paced {
            order: self.suite.order,
            slice: self.suite.slice.as_deref(),
            load: self.load,
            is_experiment: experiment.is_some(),
            has_quota: has_quota(&limits, &subjects),
            subjects: subjects.len(),
        };
        let (load, steps_of, slice_ns) = paced.check(&shaped)?;
        let duet = self.suite.order == Some(RawOrder::Duet);
        duet::check(duet, load.decided(), has_objective)?;
        let stop = self.stop.map(|stop| stop.check(duet)).transpose()?;
        let repeats = stop::repeats(self.suite.repeats, stop.is_some())?;
        Ok(SuiteFile {
            suite: unread_suite(self.suite.name, self.suite.description, path),
            repeats,
            stop,
            again: self.suite.contaminated == Contaminated::Again,
            seed: self.suite.seed,
            order: self.suite.order.unwrap_or_default().of_starts(),
            slice_ns,
            duet,
            varies_cpus: self.suite.placement == RawPlacement::Varied,
            isolation: self.suite.isolation,
            limits,
            subjects,
            experiment,
            backends,
            workloads: shaped.into_iter().map(|shaped| shaped.workload).collect(),
            load,
            search,
            shares,
            steps_of,
            cost: self.cost.map(check_cost).transpose()?,
            files: files.seen(),
            report: self.report.check(asked)?,
            observe: self.observe.probes(),
            probe_price: self.observe.price,
        })
    }
}

/// Returns a suite's name, description and path. The reader of the file adds its source and
/// profiles.
fn unread_suite(name: Option<String>, description: String, path: &Path) -> Suite {
    Suite {
        name: name.unwrap_or_else(|| stem(path)),
        description,
        source: String::new(),
        profiles: Vec::new(),
        path: path.display().to_string(),
    }
}

impl RawReport {
    fn check(self, asked: Asked<'_>) -> Result<ReportOptions, Mistake> {
        let objective = self.objective.as_deref().map(check_objective).transpose()?;
        Ok(ReportOptions {
            baseline: asked.baseline(self.baseline),
            markers: self.markers,
            objective,
        })
    }
}

fn check_objective(text: &str) -> Result<Objective, Mistake> {
    capacity::objective(text, &units::duration)
        .map_err(|why| mistake("objective", why).within("report"))
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

fn check_cost(raw: RawCost) -> Result<Cost, Mistake> {
    let RawCost { per_vcpu_hour, per_gib_hour, utilisation, lifetime_hours } = raw;
    let is_price = |price: f64| price.is_finite() && price >= 0.0;
    let wrong = |key, message: &str| Err(mistake(key, message).within("cost"));
    if !is_price(per_vcpu_hour) {
        return wrong("per_vcpu_hour", "a price is 0 or more");
    }
    if per_gib_hour.is_some_and(|price| !is_price(price)) {
        return wrong("per_gib_hour", "a price is 0 or more");
    }
    if utilisation.is_some_and(|share| !(share > 0.0 && share <= 1.0)) {
        return wrong(
            "utilisation",
            "how much of its CPUs a server may use on average is a share: above 0, up to 1",
        );
    }
    if lifetime_hours.is_some_and(|hours| !(hours.is_finite() && hours > 0.0)) {
        return wrong("lifetime_hours", "a server lives for more than 0 hours");
    }
    Ok(Cost { per_vcpu_hour, per_gib_hour, utilisation, lifetime_hours })
}

/// Checks that no workload overrides the requests per connection of a subject's entry.
fn check_lengths(subjects: &[SuiteSubject], workloads: &[CheckedWorkload]) -> Result<(), Mistake> {
    let own = workloads.iter().find(|shaped| shaped.workload.requests_per_connection.is_some());
    let given = subjects.iter().find(|subject| subject.requests_per_connection.is_some());
    match own.zip(given) {
        None => Ok(()),
        Some((workload, subject)) => Err(mistake(
            "requests_per_connection",
            format!(
                "workload {:?} has its own requests per connection, which override those of {}; \
                 set them in one place",
                workload.workload.name,
                subject.id()
            ),
        )),
    }
}

/// Checks that every request value of a subject is used: otherwise nothing would be varied. Checks
/// that values in the place of secrets have names that suggest secrets.
fn check_values(
    subjects: &[SuiteSubject],
    experiment: Option<&Experiment>,
    workloads: &[CheckedWorkload],
) -> Result<(), Mistake> {
    let said: BTreeSet<String> =
        workloads.iter().flat_map(|shaped| own::names(&shaped.workload)).collect();
    let values =
        subjects.iter().flat_map(|subject| subject.request.keys().map(move |name| (subject, name)));
    if let Some((subject, name)) = values.into_iter().find(|(_, name)| !said.contains(*name)) {
        let message = format!(
            "no request uses {{request.{name}}}, so that its value for {} has no effect; use it in \
             a path, a header or a body",
            subject.id()
        );
        let is_made = experiment.is_some_and(|experiment| experiment.arms.contains(&subject.id()));
        return Err(match is_made {
            true => mistake("experiment", message).below("vary").below(format!("request.{name}")),
            false => mistake("subjects", message)
                .below(subject.place)
                .below("request")
                .below(name.clone()),
        });
    }
    match workloads
        .iter()
        .enumerate()
        .find_map(|(i, shaped)| Some((i, own::secret_by_place(&shaped.workload)?)))
    {
        None => Ok(()),
        Some((i, (name, place))) => {
            let message = format!(
                "{{request.{name}}} stands in {place:?}, whose values are secret, and reports \
                 withhold what its own name says to be so; call it {{request.{name}_token}}"
            );
            Err(mistake("workloads", message).below(i))
        }
    }
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
mod tests {
    use dyno_archive::plan::{Arrivals, Gaps, Http2, Page};

    use super::*;

    pub(super) fn parse(source: &str) -> Result<SuiteFile, String> {
        SuiteFile::parse(Path::new("suites/s.toml"), source, &[]).map_err(|e| e.to_string())
    }

    #[test]
    fn files_are_read_from_the_folder_of_the_suite_only() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("suites");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(root.path().join("secret"), "a\nb\n").unwrap();
        std::fs::write(folder.join("body"), "hi").unwrap();
        std::fs::write(folder.join("u.csv"), "id\n7\n").unwrap();
        std::os::unix::fs::symlink("../secret", folder.join("link")).unwrap();
        let parse = |workload: &str| {
            let source = format!("subjects = [\"null\"]\n[[workloads]]\nname = \"x\"\n{workload}");
            SuiteFile::parse(&folder.join("s.toml"), &source, &[]).map_err(|e| e.to_string())
        };
        let suite = parse("path = \"/{csv:u.csv:id}\"\nbody_file = \"body\"").unwrap();
        assert_eq!(suite.workloads[0].requests[0].body.as_ref().unwrap().0, b"hi");
        let secret = root.path().join("secret").display().to_string();
        for (workload, line, words) in [
            (format!("path = \"/\"\nbody_file = {secret:?}"), 5, "is absolute"),
            ("path = \"/\"\nbody_file = \"../secret\"".into(), 5, "leaves its folder"),
            ("path = \"/\"\nbody_file = \"link\"".into(), 5, "leads out"),
            (
                "path = \"/\"\nheaders = { X = \"{csv:../secret:1}\" }".into(),
                5,
                "leads out of the folder",
            ),
            (format!("requests = [\n{{ path = \"/{{csv:{secret}:1}}\" }}]"), 5, "an absolute path"),
            ("path = \"/{csv:link:1}\"".into(), 4, "leads out"),
            (
                "path = \"/\"\nrequests = [{ path = \"/\", body_file = \"/x\" }]".into(),
                5,
                "is absolute",
            ),
        ] {
            let error = parse(&workload).unwrap_err();
            assert!(
                error.contains(words) && error.contains(&format!("s.toml:{line}:")),
                "{workload}\n→ {error}"
            );
        }
        for (subjects, words) in [
            ("subjects = [\"../x\"]", "not the name of a subject"),
            ("[[subjects]]\nuse = \"/x\"", "not the name of a subject"),
            (
                "[[subjects]]\nuse = \"x\"\ninherit = [\"A=B\"]",
                "not the name of an environment variable",
            ),
        ] {
            let error = super::tests::parse(subjects).unwrap_err();
            assert!(error.contains(words) && error.contains("s.toml:"), "{error}");
        }
    }

    #[test]
    fn the_smallest_suite_is_a_list_of_subjects() {
        let suite = parse("subjects = [\"null\", \"node-http/cluster\"]").unwrap();
        assert_eq!(suite.suite.name, "s");
        assert_eq!(suite.subjects[1].variant.as_deref(), Some("cluster"));
        assert_eq!((suite.repeats, suite.load.decided().steps.len()), (3, 1));
        assert_eq!(suite.workloads[0].requests[0].path, "/plaintext");
    }

    #[test]
    fn starts_are_warmed_until_steady_unless_a_length_is_given() {
        let load = |keys: &str| {
            parse(&format!("subjects = [\"null\"]\n[load]\n{keys}")).map(|suite| suite.load)
        };
        let warm = |keys: &str| {
            load(keys).map(|load| {
                (load.decided().warmup_ns, load.decided().until_steady.map(|u| u.limit_ns))
            })
        };
        const MS: u64 = 1_000_000;
        for (keys, wanted) in [
            ("", (200 * MS, Some(60_000 * MS))),
            ("warmup = \"auto\"", (200 * MS, Some(60_000 * MS))),
            ("warmup_limit = \"5s\"", (200 * MS, Some(5000 * MS))),
            ("ramp_connections = \"2s\"", (2200 * MS, Some(60_000 * MS))),
            ("warmup = \"500ms\"", (500 * MS, None)),
            ("warmup = \"0\"", (0, None)),
            ("warmup = \"measured\"", (0, None)),
            ("warmup = \"measured\"\nramp_connections = \"2s\"", (2000 * MS, None)),
        ] {
            assert_eq!(warm(keys).unwrap(), wanted, "{keys}");
        }
        for (keys, wanted) in [
            (
                "warmup = \"1s\"\nwarmup_limit = \"5s\"",
                "s.toml:4:16: `warmup_limit` belongs to `warmup = \"auto\"`",
            ),
            ("warmup_limit = \"500ms\"", "leaves nothing to judge"),
            ("warmup = \"steady\"", "or \"auto\", which warms each start"),
        ] {
            let error = load(keys).unwrap_err();
            assert!(error.contains(wanted), "{keys}: {error}");
        }
    }

    #[test]
    fn steps_are_the_product_of_lists() {
        let suite = parse(
            "subjects = [\"null\"]\n[load]\nconnections = [1, 8]\npipeline = [1, 16]\nrate = [100, \
             \"5k\"]\narrival = \"poisson\"",
        )
        .unwrap();
        assert_eq!(suite.load.decided().steps.len(), 8);
        assert_eq!(suite.load.decided().steps[7].arrivals, Arrivals::Poisson { rate: 5000.0 });
    }

    #[test]
    fn a_step_that_is_asked_for_again_is_a_pass_of_its_own() {
        let suite = parse(
            "subjects = [\"null\"]\n[suite]\norder = \"random\"\n[load]\norder = \"fixed\"\n\
             warmup = \"measured\"\n\
             reconnect = \"at-once\"\nconnections = [1, 1, 2, 1]\n[[workloads]]\npath = \"/a\"\n\
             [[workloads]]\npath = \"/b\"\n",
        )
        .unwrap();
        let load = suite.load.decided();
        let steps: Vec<(u32, u32)> = load.steps.iter().map(|s| (s.connections, s.pass)).collect();
        assert_eq!(steps, [(1, 1), (1, 2), (2, 1), (1, 3)]);
        assert_eq!(suite.steps_of, [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
        assert_eq!((suite.order, load.order), (Order::Random, Order::Fixed));
        assert_eq!(load.still_warming, dyno_archive::plan::StillWarming::Measured);
        assert_eq!(load.reconnect, dyno_archive::plan::Reconnect::AtOnce);
        let usual = parse("subjects = [\"null\"]\n[suite]\norder = \"fixed\"\n").unwrap();
        assert_eq!(
            usual.load.decided().order,
            Order::Fixed,
            "steps have the order of subjects by default"
        );
    }

    #[test]
    fn a_profile_takes_the_place_of_what_it_names() {
        let source = "subjects = [\"a\", \"b\"]\n[suite]\nrepeats = 5\nname = \"s\"\n[load]\n\
             connections = [1, 64]\n\
             duration = \"30s\"\n[profile.short]\nsuite.repeats = 1\nload = { duration = \"2s\" }\n\
             [profile.one]\nsubjects = [\"a\"]\nload.duration = \"4s\"\n";
        let with = |profiles: &[&str]| {
            let profiles: Vec<String> = profiles.iter().map(|name| (*name).to_string()).collect();
            SuiteFile::parse(Path::new("s.toml"), source, &profiles)
                .map_err(|error| error.to_string())
        };
        let seen = |profiles: &[&str]| {
            let suite = with(profiles).unwrap();
            let load = suite.load.decided();
            (
                suite.subjects.len(),
                suite.repeats,
                load.duration_ns / 1_000_000_000,
                load.steps.len(),
            )
        };
        assert_eq!(seen(&[]), (2, 5, 30, 2));
        assert_eq!(seen(&["short"]), (2, 1, 2, 2));
        assert_eq!(seen(&["short", "one"]), (1, 1, 4, 2), "the later one is above the earlier");
        assert_eq!(seen(&["one", "short"]), (1, 1, 2, 2));
        assert_eq!(with(&["one"]).unwrap().suite.profiles, ["one"]);
        assert_eq!(
            with(&["shrot"]).unwrap_err(),
            "s.toml: the suite has no profile \"shrot\"; did you mean \"short\"?"
        );
        assert!(with(&["x"]).unwrap_err().ends_with("it has one, short"));
        assert!(parse("subjects = [\"a\"]").is_ok());
    }

    #[test]
    fn mistake_of_a_profile_is_reported_even_if_unused() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("s.toml");
        let read = |profile: &str, asked: &[String]| {
            std::fs::write(&file, format!("subjects = [\"a\"]\n[profile.short]\n{profile}\n"))
                .unwrap();
            SuiteFile::read(&file, asked, 2).unwrap_err().to_string()
        };
        for (profile, message) in [
            (
                "load.duratoin = \"1s\"",
                "s.toml:3:6: unknown key `duratoin`; did you mean `duration`?",
            ),
            ("load.duration = \"1\"", "s.toml:3:17: "),
            ("suite.repeats = 0", "s.toml:3:17: `repeats` must be at least 1"),
            ("laod.duration = \"1s\"", "s.toml:3:1: unknown key `laod`; did you mean `load`?"),
            ("profile.long.suite.repeats = 2", "s.toml:3:1: unknown key `profile`"),
            ("when.cpus = 4", "s.toml:3:6: unknown key `cpus`; did you mean `cpus_below`?"),
            ("when = 4", "s.toml:3:8: "),
        ] {
            for asked in [&[][..], &["short".to_string()]] {
                let error = read(profile, asked);
                assert!(error.contains(message), "{profile}: {error}");
            }
        }
        std::fs::write(&file, "subjects = [\"a\"]\nprofile = 1\n").unwrap();
        let error = SuiteFile::read(&file, &[], 2).unwrap_err().to_string();
        assert!(
            error.contains(
                "s.toml:2:11: `profile` is a table of tables; write each as [profile.NAME]"
            ),
            "{error}"
        );
    }

    #[test]
    fn a_profile_may_be_for_small_machines() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("s.toml");
        let source = "subjects = [\"a\"]\n[limits]\ncpus = 1.5\n[profile.small]\n\
             when = { cpus_below = 8 }\nlimits.cpus = 0.3\n\
             [profile.few]\nwhen = { cpus_below = 2 }\nlimits.cpus = 0.1\n[profile.own]\n\
             limits.cpus = 0.2\n";
        std::fs::write(&file, source).unwrap();
        let read = |asked: &[&str], cpus: usize| {
            let asked: Vec<String> = asked.iter().map(|name| (*name).to_string()).collect();
            let suite = SuiteFile::read(&file, &asked, cpus).unwrap();
            (suite.limits.limits.cpus.unwrap(), suite.suite.profiles.join(" "))
        };
        assert_eq!(read(&[], 8), (1.5, String::new()));
        assert_eq!(read(&[], 7), (0.3, "small".into()));
        assert_eq!(read(&[], 1), (0.1, "small few".into()));
        assert_eq!(read(&["own"], 4), (0.2, "small own".into()), "what is asked for is above");
        assert_eq!(read(&["small"], 1), (0.3, "few small".into()));
        assert_eq!(read(&["none"], 1), (1.5, String::new()));
        assert_eq!(read(&["none", "own"], 1), (0.2, "own".into()));
        assert_eq!(read(&["own", "small", "own"], 8), (0.2, "small own".into()), "each once");
        let none = "subjects = [\"a\"]\n[profile.none]\nlimits.cpus = 0.3\n";
        let message = profile::names(&file, none).unwrap_err().to_string();
        assert!(message.contains(":2:") && message.contains("give it another name"), "{message}");
        let alike = source.replace("cpus_below = 2", "cpus_below = 8");
        let message = profile::names(&file, &alike).unwrap_err().to_string();
        assert!(
            message.contains("profile \"small\" holds on the same machines as \"few\""),
            "{message}"
        );
    }

    #[test]
    fn a_workload_may_have_its_own_keep_alive() {
        let suite = parse(
            "subjects = [\"null\"]\n[load]\nrequests_per_connection = 10\n[[workloads]]\n\
             name = \"a\"\npath = \"/\"\n\
             requests_per_connection = 1\n[[workloads]]\nname = \"b\"\npath = \"/\"\n",
        )
        .unwrap();
        let own: Vec<Option<u64>> =
            suite.workloads.iter().map(|w| w.requests_per_connection).collect();
        assert_eq!(
            (own, suite.load.decided().requests_per_connection),
            (vec![Some(1), None], Some(10))
        );
        let wrong = |more: &str| {
            parse(&format!("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\n{more}"))
                .unwrap_err()
        };
        assert!(
            wrong("requests_per_connection = 0")
                .contains("s.toml:4:27: a connection serves at least 1 request")
        );
        let of_page = wrong("requests_per_connection = 2\npage = { resources = [\"/a\"] }");
        assert!(
            of_page.contains("s.toml:4:27: ") && of_page.contains("that are kept"),
            "{of_page}"
        );
    }

    #[test]
    fn a_workload_may_be_a_page() {
        let page = |more: &str| {
            parse(&format!(
                "subjects = [\"null\"]\n[[workloads]]\nprotocol = \"h2c\"\npath = \"/a\"\n\
                 page = {{ resources = [\"/b.css\", \"/c*3\"] }}\n{more}"
            ))
        };
        let suite = page("").unwrap();
        let workload = &suite.workloads[0];
        let paths: Vec<&str> = workload.requests.iter().map(|r| r.path.as_str()).collect();
        assert_eq!(paths, ["/a", "/b.css", "/c", "/c", "/c"]);
        assert_eq!(workload.page, Some(Page { connections: 6 }));
        assert_eq!(workload.requests[4].name, "/c #3");
        assert!(page("[load]\nrate = 10").unwrap_err().contains("leave out `rate`"));
        page("[[workloads]]\nname = \"w\"\npath = \"/w\"\nrate = 100").unwrap();
        for wrong in [
            "page = { resources = [] }",
            "page = { resources = [\"/a*0\"] }",
            "page = { resources = [\"a\"] }",
        ] {
            assert!(
                parse(&format!("subjects = [\"null\"]\n[[workloads]]\n{wrong}")).is_err(),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_workload_may_be_a_weighted_mix() {
        let suite = parse(
            "subjects = [\"null\"]\n[[workloads]]\nrequests = [\n\
             { path = \"/a\", weight = 80, \
               expect = { headers = { etag = true, server = \"x\" } } },\n\
             { name = \"post\", method = \"POST\", path = \"/b/{seq}\", body = '{\"n\":{seq}}', \
               weight = 20, expect = { json = { \"/ok\" = true } } },\n]",
        )
        .unwrap();
        let workload = &suite.workloads[0];
        assert_eq!((workload.name.as_str(), workload.requests.len()), ("mix", 2));
        assert_eq!(workload.requests[0].expect.headers.len(), 2);
        assert_eq!((workload.requests[1].name.as_str(), workload.requests[1].weight), ("post", 20));
        assert!(workload.requests[1].expect.is_deep());
    }

    #[test]
    fn each_protocol_has_steps_of_its_own() {
        let suite = parse(
            "subjects = [\"null\"]\n[load]\nin_flight = [100, 1000]\nstreams = 10\n\
             window_bits = 16\n\
             [[workloads]]\nname = \"a\"\npath = \"/\"\n\
             [[workloads]]\nname = \"b\"\npath = \"/\"\ntls = true\n\
             [[workloads]]\nname = \"c\"\npath = \"/\"\nprotocol = \"h2\"\n\
             [[workloads]]\nname = \"d\"\npath = \"/\"\nprotocol = \"h2c\"\nstreams = [10, 50]\n",
        )
        .unwrap();
        let shapes: Vec<_> =
            suite.load.decided().steps.iter().map(|s| (s.connections, s.streams)).collect();
        assert_eq!(shapes, [(100, 1), (1000, 1), (10, 10), (100, 10), (2, 50), (20, 50)]);
        assert_eq!(suite.steps_of, [vec![0, 1], vec![0, 1], vec![2, 3], vec![2, 3, 4, 5]]);
        let tls: Vec<_> = suite.workloads.iter().map(|w| w.protocol.is_tls()).collect();
        assert_eq!(tls, [false, true, true, false]);
        assert_eq!(suite.load.decided().http2, Http2 { window_bits: 16, ..Http2::default() });
    }

    #[test]
    fn a_pipeline_is_of_http1_alone() {
        let suite = parse(
            "subjects = [\"null\"]\n[load]\nconnections = 8\npipeline = [1, 16]\nstreams = 4\n\
             [[workloads]]\nname = \"a\"\npath = \"/\"\n\
             [[workloads]]\nname = \"b\"\npath = \"/\"\nprotocol = \"h2c-upgrade\"\n",
        )
        .unwrap();
        let shapes: Vec<_> = suite
            .load
            .decided()
            .steps
            .iter()
            .map(|s| (s.connections, s.streams, s.pipeline))
            .collect();
        assert_eq!(shapes, [(8, 1, 1), (8, 1, 16), (8, 4, 1)]);
        assert_eq!(suite.steps_of, [vec![0, 1], vec![2]]);
    }

    #[test]
    fn a_rate_may_change_within_a_step() {
        let suite = parse("subjects = [\"null\"]\n[load]\nrate = \"100..300\"").unwrap();
        let Arrivals::Shaped { segments, gaps: Gaps::Even } =
            &suite.load.decided().steps[0].arrivals
        else {
            panic!("{:?}", suite.load.decided().steps[0].arrivals)
        };
        let ends: Vec<_> =
            segments.iter().map(|s| (s.from_rate, s.to_rate, s.duration_ns)).collect();
        assert_eq!(
            ends,
            [(100.0, 100.0, suite.load.decided().warmup_ns), (100.0, 300.0, 10_000_000_000)]
        );
    }

    /// Suites with a mistake, and a part of its message.
    const MISTAKES: &[(&str, &str)] = &[
        ("[suite]\nname = \"x\"", "there are no subjects"),
        ("subject = [\"null\"]", "did you mean `subjects`?"),
        (
            "subjects = [\"null\"]\n[load]\nduration = \"10\"",
            "s.toml:3:12: \"10\" is not a duration",
        ),
        ("subjects = [\"null\"]\n[load]\nconections = 1", "did you mean `connections`?"),
        ("subjects = [\"null\"]\n[load]\nmodel = \"open\"", "an open loop needs a `rate`"),
        (
            "subjects = [\"null\"]\n[load]\nmodel = \"closed\"\nrate = 5",
            "a closed loop has no `rate`",
        ),
        ("subjects = [\"null\"]\n[load]\nconnections = 0", "at least 1"),
        (
            "subjects = [\"null\"]\n[limits]\nmemory = \"lots\"",
            "s.toml:3:10: \"lots\" is not a size",
        ),
        ("subjects = [\"null\"]\n[limits]\ncpuset = \"x\"", "not a list of CPUs"),
        ("subjects = [\"null\"]\n[[workloads]]\npath = \"x\"", "must begin with a slash"),
        ("subjects = [\"null\"]\n[[workloads]]\npath = \"/a b\"", "percent-encode"),
        (
            "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h9\"",
            "cannot be loaded",
        ),
        (
            "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h2\"\ntls = false",
            "set `protocol` to \"h2c\"",
        ),
        (
            "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h2c\"\ntls = true",
            "over TLS set `protocol` to \"h2\"",
        ),
        (
            "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"auto\"",
            "cannot be loaded",
        ),
        ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nstreams = 2", "belong to HTTP/2"),
        ("subjects = [\"null\"]\n[load]\nstreams = [1, 2]", "belong to HTTP/2"),
        ("subjects = [\"null\"]\n[load]\nwindow_bits = 16", "no workload speaks it"),
        (
            "subjects = [\"null\"]\n[load]\nwindow_bits = 31\n[[workloads]]\npath = \
             \"/\"\nprotocol = \"h2\"",
            "s.toml:3:15: `window_bits` is 10 to 30",
        ),
        (
            "subjects = [\"null\"]\n[load]\npipeline = 2\n[[workloads]]\npath = \
             \"/\"\nprotocol = \"h2\"",
            "which has `streams`",
        ),
        ("subjects = [\"null\"]\n[load]\nconnections = 1\nin_flight = 1", "not both"),
        ("subjects = [\"null\"]\n[load]\nin_flight = []", "at least one entry"),
        (
            "subjects = [\"null\"]\n[load]\nin_flight = 100\npipeline = 16",
            "ask for a multiple of 16",
        ),
        ("subjects = [\"null\"]\n[load]\ndriver = \"kqueue\"", "\"uring\" and \"epoll\""),
        ("subjects = [\"null\"]\n[[backends]]\nuse = \"1\"", "is not the name of a back end"),
        (
            "subjects = [\"null\"]\n[[workloads]]\nexpect = { status = 201 }\nrequests = \
             [{ path = \"/\" }]",
            "either a `path` with its keys",
        ),
        (
            "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nrequests = []",
            "either a `path` with its keys",
        ),
        (
            "subjects = [\"null\"]\n[[workloads]]\nrequests = [{ path = \"/{rand:9}\" }]",
            "{rand:1..100}",
        ),
        (
            "subjects = [\"null\"]\n[[workloads]]\nrequests = [{ path = \"/\", wieght = 2 }]",
            "did you mean `weight`?",
        ),
        ("subjects = [\"null\"]\n[load]\nrate = \"1k..\"", "1k..5k"),
        ("[[subjects]]\nuse = \"null\"\nvariants = \"x\"", "did you mean `variant`?"),
    ];

    #[test]
    fn mistakes_name_their_line_and_the_way_out() {
        for &(source, wanted) in MISTAKES {
            let error = parse(source).unwrap_err();
            assert!(error.contains(wanted), "{source}\n→ {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_reader_panic(source in "[a-z=\\[\\]\"0-9\n .#]{0,200}") {
            let _ = parse(&source);
        }
    }
}
