//! Tests that unintended differences between two sides are named.

use dyno_model::plan::{Experiment, ExperimentKind};

use super::*;

/// Loads without a suite may use connection settings that suites do not have.
#[test]
fn differing_connections_are_reported() {
    use dyno_model::plan::{AcceptedCertificates, ConnectionSettings, TlsSettings};
    let tls = TlsSettings {
        resumption: true,
        certificates: AcceptedCertificates::System,
        client_certificate: false,
    };
    let with_tls = |tls| ConnectionSettings { tls: Some(tls), ..ConnectionSettings::default() };
    let local = vec!["127.0.0.5".parse().unwrap()];
    let any = AcceptedCertificates::Any;
    for (other, name) in [
        (ConnectionSettings { unix_socket: true, ..with_tls(tls.clone()) }, "unix_socket"),
        (ConnectionSettings { sources: local, ..with_tls(tls.clone()) }, "sources"),
        (with_tls(TlsSettings { resumption: false, ..tls.clone() }), "tls.resumption"),
        (with_tls(TlsSettings { certificates: any, ..tls.clone() }), "tls.certificates"),
        (with_tls(TlsSettings { client_certificate: true, ..tls.clone() }), "tls.client"),
    ] {
        let mut before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
        before.header.plan.load.connection = with_tls(tls.clone());
        let mut after = before.clone();
        after.header.id = "s".into();
        after.header.plan.load.connection = other;
        let options = ComparisonOptions::default();
        let differences = compare_runs((&before, None), (&after, None), &options).differences;
        assert_eq!(differences.len(), 1, "{differences:?}");
        assert!(differences[0].name.starts_with(&format!("load.connection.{name}")), "{name}");
    }
}

#[test]
fn differing_connection_tracking_is_reported() {
    let run_with = |loopback_tracked| {
        let mut run = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
        run.header.facts.loopback_tracked = loopback_tracked;
        run
    };
    let differences = |a, b| {
        let (a, b) = (run_with(a), run_with(b));
        let comparison = compare_runs((&a, None), (&b, None), &ComparisonOptions::default());
        let shown = |d: &RunDifference| format!("{} {:?} {:?}", d.name, d.a, d.b);
        comparison.differences.iter().map(shown).collect::<Vec<String>>()
    };
    let named = [r#"machine.loopback_tracked Some("false") Some("true")"#];
    assert_eq!(differences(Some(false), Some(true)), named);
    let named = [r#"machine.loopback_tracked Some("null") Some("true")"#];
    assert_eq!(differences(None, Some(true)), named, "it may be the cause of what differs");
    assert!(differences(Some(true), Some(true)).is_empty());
    assert!(differences(None, Some(false)).is_empty(), "one side does not know it");
}

#[test]
fn unrecorded_online_cpus_are_no_difference() {
    let run_with = |online_cpus| {
        let mut run = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
        run.header.facts.online_cpus = online_cpus;
        run
    };
    let count = |a, b| {
        let (a, b) = (run_with(a), run_with(b));
        let comparison = compare_runs((&a, None), (&b, None), &ComparisonOptions::default());
        comparison.differences.len()
    };
    assert_eq!((count(Some(8), Some(4)), count(Some(8), Some(8))), (1, 0));
    assert_eq!((count(None, Some(8)), count(Some(8), None)), (0, 0), "one side does not know it");
}

#[test]
fn differing_accounting_of_interrupts_is_reported() {
    let run_with = |irq_time_accounting| {
        let mut run = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
        run.header.facts.irq_time_accounting = irq_time_accounting;
        run
    };
    let count = |a, b| {
        let (a, b) = (run_with(a), run_with(b));
        let comparison = compare_runs((&a, None), (&b, None), &ComparisonOptions::default());
        comparison.differences.len()
    };
    assert_eq!((count(Some(false), Some(true)), count(Some(true), Some(true))), (1, 0));
    assert_eq!(
        (count(None, Some(true)), count(Some(true), None)),
        (0, 0),
        "one side does not know it"
    );
}

#[test]
fn undeclared_difference_is_in_every_sentence() {
    let before = run_with_servers("r", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let mut after = run_with_servers("s", &[("x", &[200, 202, 201, 203, 200]), NULL]);
    let plan = &mut after.header.plan;
    plan.load.duration_ns += 1;
    plan.subjects[0].version = Some("2".into());
    plan.arms[0].conditions.env.insert("TOKEN".into(), "hunter2".into());
    plan.arms[0].conditions.limits.cpus = Some(0.5);
    plan.workloads[0].requests[0].path = "/other?key=hunter2".into();
    plan.backends =
        vec![Backend { name: "db".into(), version: Some("16".into()), ..Backend::default() }];
    plan.arms[0].backends = vec![0];
    after.header.facts.kernel = Some("6.2".into());
    after.header.facts.memory_bytes = Some(1_000_000);
    let mut known = before.clone();
    known.header.facts.memory_bytes = Some(1_009_000);
    let comparison = compare_runs((&known, None), (&after, None), &ComparisonOptions::default());
    let names: Vec<&str> = comparison.differences.iter().map(|d| &*d.name).collect();
    let wanted = [
        "machine.kernel",
        "load.duration_ns",
        "workload w.requests",
        "x: env.TOKEN",
        "x.backends.db",
        "x.limits.cpus",
    ];
    assert_eq!(names, wanted);
    assert_eq!(
        (comparison.differences[0].a.as_deref(), comparison.differences[0].b.as_deref()),
        (Some("null"), Some("6.2"))
    );
    assert!(!format!("{comparison:?}").contains("hunter2"));
    assert!(
        comparison
            .rows
            .iter()
            .all(|row| row.sentence.contains(", though the sides also differ in machine.kernel, "))
    );
    let gated = ComparisonOptions {
        gates: Gate::parse("throughput<-2%").unwrap(),
        ..ComparisonOptions::default()
    };
    let gates = compare_runs((&known, None), (&after, None), &gated).gates;
    assert!(!gates.is_empty());
    assert!(
        gates
            .iter()
            .all(|gate| gate.sentence.matches("though the sides also differ in").count() == 1),
        "{gates:?}"
    );
    // A changed subject is the purpose of a comparison, and not a difference of conditions.
    let mut other = before.clone();
    other.header.id = "t".into();
    other.header.plan.subjects[0].version = Some("2".into());
    assert_eq!(
        compare_runs((&before, None), (&other, None), &ComparisonOptions::default()).differences,
        []
    );
}

#[test]
fn differing_parts_of_run_are_reported() {
    let before = run_with_servers(
        "r",
        &[("x", &[200, 202, 201, 203, 200]), ("y", &[200, 202, 201, 203, 200]), NULL],
    );
    let mut after = before.clone();
    after.header.id = "s".into();
    let differences = vec![dyno_model::ResumptionDifference {
        name: "kernel".into(),
        before: "6.1".into(),
        now: "6.8".into(),
    }];
    after.header.resumptions = vec![fixture::resumption(&after, 2, differences)];
    after.starts.push(StartRecord { start: 2, ..StartRecord::default() });
    let comparison = compare_runs((&before, None), (&after, None), &ComparisonOptions::default());
    let names: Vec<&str> = comparison.differences.iter().map(|d| &*d.name).collect();
    assert_eq!(names, ["parts of B: kernel"]);
    let comparison =
        compare_runs((&after, Some(0)), (&after, Some(1)), &ComparisonOptions::default());
    assert_eq!(comparison.differences[0].name, "parts of the run: kernel");
    // The run was resumed after its last start, so nothing was measured in other conditions.
    after.header.resumptions[0].from_start = 3;
    let comparison = compare_runs((&before, None), (&after, None), &ComparisonOptions::default());
    assert!(comparison.differences.is_empty(), "{:?}", comparison.differences);
}

/// Subjects of one run may have different limits or loads. Only an experiment intends that.
#[test]
fn differing_conditions_of_one_run_are_reported() {
    let levels: &[u64] = &[200, 202, 201, 203, 200];
    let mut run = run_with_servers("r", &[("x", levels), ("y", levels), NULL]);
    let conditions = &mut run.header.plan.arms[1].conditions;
    conditions.load.requests_per_connection = Some(1);
    conditions.limits.memory_bytes = Some(1 << 30);
    conditions.request.insert("token".into(), "t".into());
    let names = |run: &Run| -> Vec<String> {
        let options = ComparisonOptions::default();
        let comparison = compare_runs((run, Some(0)), (run, Some(1)), &options);
        comparison.differences.into_iter().map(|difference| difference.name).collect()
    };
    assert_eq!(
        names(&run),
        [
            "x and y: request.token",
            "x and y.limits.memory_bytes",
            "x and y.load.requests_per_connection"
        ]
    );
    run.header.plan.experiment = Some(Experiment {
        kind: ExperimentKind::Toggle,
        factor: None,
        arms: vec!["x".into(), "y".into()],
    });
    assert_eq!(names(&run), [""; 0]);
}
