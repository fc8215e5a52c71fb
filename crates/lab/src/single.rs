//! Records a single load without a suite (`dyno load --save`) as a run of one trial, so that it can
//! be read like any other run.

use std::collections::BTreeMap;

use dyno_analysis::load::is_done;
use dyno_archive::RunDir;
use dyno_archive::dir::ArchiveError;
use dyno_model::plan::{
    Arm, ArmSharing, Conditions, Launch, Load, Order, Placement, Plan, ReportOptions, Subject,
    Suite, Trial, Workload,
};
use dyno_model::start::{Failure, FailureKind};
use dyno_model::trial::Ceiling;
use dyno_model::{LoadRecord, StartRecord, TrialRecord};
use dyno_suite::target::Url;

use crate::load::LoadSpec;

/// The loaded server, which dyno did not start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadedServer {
    /// Host and port.
    pub name: String,
    /// Its address for display, without secrets.
    pub title: String,
}

impl LoadedServer {
    /// Returns the server that a URL names. Its title omits the query, which may contain secrets.
    #[must_use]
    pub fn from_url(url: &Url, workload: &Workload) -> LoadedServer {
        let text = url_text(url, workload);
        let title = text.split('?').next().unwrap_or_default().into();
        LoadedServer { name: url.authority(), title }
    }
}

/// Returns the URL of a load: of its one request, or of the document of a page. The URL of other
/// loads has no path, because their requests have several.
#[must_use]
pub fn url_text(url: &Url, workload: &Workload) -> String {
    let path = match workload.requests.as_slice() {
        [request] => request.path.as_str(),
        [document, ..] if workload.page.is_some() => document.path.as_str(),
        _ => "",
    };
    format!("{}://{}{path}", url.scheme.name(), url.authority())
}

/// Returns the plan of one load, which is like the plan of a suite with one subject, workload and
/// step. `files`: SHA-256 of each file that the workload's requests name.
#[must_use]
pub fn plan(
    server: &LoadedServer,
    workload: &Workload,
    spec: &LoadSpec,
    files: BTreeMap<String, String>,
) -> Plan {
    let generator =
        if spec.cpus.is_empty() { dyno_launch::allowed_cpus() } else { spec.cpus.clone() };
    // The CPUs of the server are unknown.
    let placement = Placement { subject: Vec::new(), generator };
    let conditions = Conditions { placement, ..Conditions::default() };
    Plan {
        subjects: vec![Subject {
            name: server.name.clone(),
            title: server.title.clone(),
            ..Subject::default()
        }],
        arms: vec![Arm {
            name: server.name.clone(),
            level: None,
            subject: 0,
            backends: Vec::new(),
            conditions,
        }],
        workloads: vec![workload.clone()],
        launches: vec![Launch::with_arm(0, 0)],
        trials: vec![Trial { launch: 0, arm: 0, workload: 0, step: 0, seed: spec.seed }],
        files,
        ..empty_plan("load", &server.title, spec.load.clone(), spec.seed)
    }
}

/// Returns the plan of a run without a suite, to which subjects, workloads and trials are added.
/// `name`: name of the run.
pub(crate) fn empty_plan(name: &str, description: &str, load: Load, seed: u64) -> Plan {
    Plan {
        suite: Suite {
            name: name.into(),
            description: description.into(),
            source: String::new(),
            profiles: Vec::new(),
            path: String::new(),
        },
        subjects_folders: Vec::new(),
        seed,
        repeats: 1,
        stop: None,
        again: 0,
        order: Order::Fixed,
        sharing: ArmSharing::Alone,
        swaps_cpus: false,
        experiment: None,
        subjects: Vec::new(),
        arms: Vec::new(),
        backends: Vec::new(),
        workloads: Vec::new(),
        load,
        search: None,
        measured_first: None,
        launches: Vec::new(),
        trials: Vec::new(),
        not_served: Vec::new(),
        report: ReportOptions::default(),
        cost: None,
        probe_price: false,
        files: BTreeMap::new(),
        import_changes: Vec::new(),
    }
}

/// How a load ended.
#[derive(Clone, Debug, PartialEq)]
pub enum LoadEnd<'a> {
    /// The load ran to its end, or until the server failed.
    Done(&'a LoadRecord),
    /// The user interrupted the load. The numbers measured so far are valid.
    Interrupted(&'a LoadRecord),
    /// The load could not begin.
    NotBegun(String),
}

impl<'a> LoadEnd<'a> {
    /// Returns how a load ended. A load that had sent all its requests when the user interrupted it
    /// is complete.
    #[must_use]
    pub fn from_record(
        record: &'a LoadRecord,
        planned: &Load,
        was_interrupted: bool,
    ) -> LoadEnd<'a> {
        if was_interrupted && !is_done(record, planned) {
            LoadEnd::Interrupted(record)
        } else {
            LoadEnd::Done(record)
        }
    }
}

/// Writes a load's record into the archive of its plan. `ceiling`: the generator's highest
/// throughput in the last calibration, which reports compare with the load.
///
/// # Errors
/// The archive cannot be written.
pub fn write(
    dir: &RunDir,
    end: &LoadEnd<'_>,
    ceiling: Option<Ceiling>,
) -> Result<(), ArchiveError> {
    let (load, failure) = match end {
        LoadEnd::Done(load) => (Some(*load), None),
        LoadEnd::Interrupted(load) => (Some(*load), Some(interrupted_failure())),
        LoadEnd::NotBegun(message) => {
            (None, Some(Failure { kind: FailureKind::Harness, message: message.clone() }))
        }
    };
    // dyno did not start the server, so the start is as long as the load.
    let began_ns = load.map(|load| load.began_ns);
    let ended_ns = load.map(|load| load.began_ns + load.window_ns.1);
    dir.write_start(&StartRecord { failure, began_ns, ended_ns, ..StartRecord::default() })?;
    let Some(load) = load else { return Ok(()) };
    dir.write_trial(&TrialRecord {
        trial: 0,
        start: 0,
        load: load.clone(),
        checks: Vec::new(),
        ceiling,
    })
}

fn interrupted_failure() -> Failure {
    Failure { kind: FailureKind::Interrupted, message: "the user ended the load".into() }
}

#[cfg(test)]
mod tests {
    use dyno_model::plan::{Page, Request};
    use dyno_workload::workloads::plaintext;

    use super::*;

    #[test]
    fn server_title_omits_query() {
        let url = Url::parse("https://example.test:8443/items?token=s3cret&page=2#x").unwrap();
        let request = |path: &str| Request { path: path.into(), ..Request::default() };
        let workload = |paths: &[&str], page| Workload {
            requests: paths.iter().map(|path| request(path)).collect(),
            page,
            ..plaintext()
        };
        let title = |workload: &Workload| LoadedServer::from_url(&url, workload).title;
        let one = workload(&[&url.target], None);
        assert_eq!(title(&one), "https://example.test:8443/items");
        assert_eq!(url_text(&url, &one), "https://example.test:8443/items?token=s3cret&page=2");
        // A mix has no path in its title.
        let paths = ["/a", "/b?token=s3cret"];
        assert_eq!(title(&workload(&paths, None)), "https://example.test:8443");
        let page = Some(Page { connections: 6 });
        assert_eq!(title(&workload(&paths, page)), "https://example.test:8443/a");
        assert_eq!(LoadedServer::from_url(&url, &plaintext()).name, "example.test:8443");
    }
}
