//! Tests that suites resolve to the expected plans.

use dyno_config::text::Position;

use super::duration::START_NS;
use super::*;
use crate::limits::RERUN_SHARE;

#[test]
fn driver_for_kernel_stamps_is_epoll() {
    let (stamps, none) = ([Probe::KernelStamps].into(), BTreeSet::new());
    let (uring, epoll) = (DriverKind::Uring, DriverKind::Epoll);
    assert_eq!(driver(None, uring, &stamps).unwrap(), epoll);
    assert_eq!(driver(Some(epoll), uring, &stamps).unwrap(), epoll);
    assert!(driver(Some(uring), uring, &stamps).is_err());
    assert_eq!(driver(Some(uring), epoll, &none).unwrap(), uring);
    assert_eq!([uring, epoll].map(|best| driver(None, best, &none).unwrap()), [uring, epoll]);
}

#[test]
fn list_trials_shuffles_each_launch_separately() {
    let launches = order_launches(2, 20, Order::Random, 1);
    let served = vec![vec![Ok(()), Ok(())], vec![Err("no".to_string()), Ok(())]];
    let workload_steps = [vec![0, 1, 2], vec![1, 2, 3]];
    let arm = |subject| Arm {
        backends: Vec::new(),
        name: format!("{subject}"),
        level: None,
        subject,
        conditions: Conditions::default(),
    };
    let arms = [arm(0), arm(1)];
    let listed = |order, seed| list_trials(&launches, &arms, &served, &workload_steps, order, seed);
    let fixed = listed(Order::Fixed, 1);
    assert!(fixed.is_sorted_by_key(Trial::display_order));
    let random = listed(Order::Random, 1);
    let mut sorted: Vec<_> = random.iter().map(Trial::display_order).collect();
    sorted.sort_unstable();
    let all: Vec<_> = fixed.iter().map(Trial::display_order).collect();
    assert_eq!(sorted, all, "every trial is listed, grouped by launch");
    let seeds: std::collections::BTreeSet<u64> = random.iter().map(|t| t.seed).collect();
    assert_eq!(seeds.len(), random.len(), "each trial has its own seed");
    assert!(random.is_sorted_by_key(|t| t.launch));
    let orders: std::collections::BTreeSet<Vec<(usize, usize)>> = random
        .chunk_by(|a, b| a.launch == b.launch)
        .filter(|trials| trials.len() == 6)
        .map(|trials| trials.iter().map(|t| (t.workload, t.step)).collect())
        .collect();
    assert!(orders.len() > 15, "{} different orders in 20 starts", orders.len());
    assert_eq!(random, listed(Order::Random, 1));
    assert_ne!(random, listed(Order::Random, 2));
}

#[test]
fn overrides_replace_values_of_suite() {
    let subjects = [("a", "\"h1\""), ("b", "\"h1\"")];
    let suite = "subjects = [\"a\", \"b\"]\n[suite]\nrepeats = 2\nseed = 1\n";
    let overrides = Overrides {
        only: vec!["a".into()],
        repeats: Some(4),
        seed: Some(9),
        driver: Some(DriverKind::Epoll),
        ..Overrides::default()
    };
    let plan = resolve_with(&subjects, suite, &overrides).unwrap().plan;
    assert_eq!((plan.repeats, plan.seed, plan.load.driver), (4, 9, DriverKind::Epoll));
    assert_eq!((plan.subjects.len(), plan.launches.len()), (1, 4));
    let without_seed = plan_suite(&subjects, "subjects = [\"a\", \"b\"]\n");
    assert_eq!(
        without_seed.seed,
        RunMachine::with_two_cpus().seed,
        "the caller's seed is the default"
    );
    let unknown = Overrides { only: vec!["gin".into()], ..Overrides::default() };
    let error = resolve_with(&subjects, suite, &unknown).unwrap_err().to_string();
    assert!(error.contains("\"gin\": not in the suite\nhint: use one of a, b"), "{error}");
}

#[test]
fn max_reruns_are_share_of_trials_and_at_least_two() {
    let counts = [0, 20, 29, 30, 70].map(|trials| max_reruns(trials, RERUN_SHARE));
    assert_eq!(counts, [2, 2, 2, 3, 7]);
    assert_eq!((max_reruns(100, 0.29), max_reruns(100, 0.5)), (29, 50));
}

fn plan_suite(subjects: &[(&str, &str)], suite: &str) -> Plan {
    resolve_suite(subjects, suite).unwrap().plan
}

fn resolve_suite(subjects: &[(&str, &str)], suite: &str) -> Result<Planned, FileError> {
    resolve_with(subjects, suite, &Overrides::default())
}

fn resolve_with(
    subjects: &[(&str, &str)],
    suite: &str,
    overrides: &Overrides,
) -> Result<Planned, FileError> {
    let root = tempfile::tempdir().unwrap();
    for (name, protocols) in subjects {
        let folder = root.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let text = format!(
            "name = {name:?}\ntitle = {name:?}\nlanguage = \"C\"\nprotocols = [{protocols}]\n\
             [start]\ncommand = [\"x\", \"{{port}}\", \"{{tls_port}}\"]\n"
        );
        std::fs::write(folder.join("subject.toml"), text).unwrap();
    }
    let suite = SuiteFile::parse(Path::new("s.toml"), suite, &[]).unwrap();
    resolve(
        suite,
        &Folders(vec![root.path().into()]),
        overrides,
        &RunMachine::with_two_cpus(),
        &|_| None,
    )
}

/// Returns the error of a suite whose subjects a and b have the fixed port 8080 for both keys.
fn error_with_fixed_ports(suite: &str) -> Option<String> {
    error_with_start_keys("port = 8080\ntls_port = 8080\n", suite)
}

/// Returns the error of a suite whose subjects a and b have these keys in `[start]`.
fn error_with_start_keys(start: &str, suite: &str) -> Option<String> {
    let root = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let folder = root.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        let text = format!(
            "language = \"C\"\nprotocols = [\"h1\"]\n[start]\n\
             command = [\"x\", \"{{port}}\"]\n{start}"
        );
        std::fs::write(folder.join("subject.toml"), text).unwrap();
    }
    let suite = SuiteFile::parse(Path::new("s.toml"), suite, &[]).unwrap();
    let folders = Folders(vec![root.path().into()]);
    let result =
        resolve(suite, &folders, &Overrides::default(), &RunMachine::with_two_cpus(), &|_| None);
    result.err().map(|error| error.to_string())
}

#[test]
fn servers_that_run_together_need_different_ports() {
    let two = "subjects = [\"a\", \"b\"]\n[load]\nconnections = 4\n";
    assert_eq!(error_with_fixed_ports(two), None, "one after the other");
    for order in ["interleaved", "duet"] {
        let error = error_with_fixed_ports(&format!("{two}[suite]\norder = {order:?}\n")).unwrap();
        assert!(
            error.contains("run at the same time, and both have the fixed port 8080"),
            "{error}"
        );
        assert!(error.contains("hint: use `{port}`") && error.starts_with("s.toml:5"), "{error}");
    }
    let twin = "subjects = [\"a\"]\n[suite]\norder = \"interleaved\"\ntwin = \"a\"\n";
    let error = error_with_fixed_ports(twin).unwrap();
    assert!(error.contains("hint: use `{port}`"), "{error}");
    let backend = "subjects = [\"a\"]\n[[backends]]\nuse = \"b\"\n";
    let error = error_with_fixed_ports(backend).unwrap();
    assert!(error.contains("hint: give one of them another `port`"), "{error}");
}

#[test]
fn shared_tls_port_is_named_by_its_key() {
    let two = "subjects = [\"a\", \"b\"]\n[load]\nconnections = 4\n[suite]\norder = \"duet\"\n";
    let error = error_with_start_keys("tls_port = 8443\n", two).unwrap();
    assert!(error.contains("`tls_port`: a and b run at the same time"), "{error}");
    assert!(error.contains("hint: use `{tls_port}` in the command"), "{error}");
    let backend = "subjects = [\"a\"]\n[[backends]]\nuse = \"b\"\n";
    let error = error_with_start_keys("tls_port = 8443\n", backend).unwrap();
    let hint = "hint: give one of them another `tls_port`, or use `{tls_port}`";
    assert!(error.contains(hint), "{error}");
}

#[test]
fn duet_launches_its_subjects_together() {
    let suite = |subjects: &str| {
        format!(
            "subjects = [{subjects}]\n[suite]\norder = \"duet\"\nrepeats = \
             3\n[load]\nconnections = 4\n"
        )
    };
    let servers = [("a", "\"h1\""), ("b", "\"h1\""), ("c", "\"h1\"")];
    let plan = plan_suite(&servers, &suite("\"a\", \"b\", \"c\""));
    assert_eq!(*plan.sharing.duet(), [0, 1, 2].into());
    assert!(plan.swaps_cpus && plan.trials.iter().all(|trial| plan.loads_with(trial) == 3));
    let group_sizes: Vec<usize> = plan.concurrent_launches().iter().map(Vec::len).collect();
    assert_eq!(group_sizes, [3, 3, 3]);
    let cpus = |launch: usize| plan.placement(launch, plan.launches[launch].arms[0]).subject;
    assert_eq!((cpus(0), cpus(3), cpus(6)), (vec![0], vec![1], vec![0]));
    let alone = plan_suite(&servers, &suite("\"a\""));
    assert!(alone.sharing.duet().is_empty(), "a single subject has no partner");
    let named =
        plan_suite(&servers, &format!("{}[limits]\ncpuset = \"0\"\n", suite("\"a\", \"b\"")));
    assert!(!named.sharing.duet().is_empty() && !named.swaps_cpus);
}

/// Returns the arms that run at the same time in the first block, by name.
fn first_block_groups(plan: &Plan) -> Vec<Vec<&str>> {
    let name = |launch: &usize| &*plan.arms[plan.launches[*launch].arms[0]].name;
    let groups = plan.concurrent_launches();
    let first = groups.iter().filter(|group| plan.launches[group[0]].block == 0);
    first.map(|group| group.iter().map(name).collect()).collect()
}

#[test]
fn duet_excludes_controls_unless_required() {
    let resolve_with = |subjects: &str, extra: &str| {
        let suite = format!(
            "{subjects}\n[suite]\norder = \"duet\"\nrepeats = 2\nseed = 3\n[load]\nconnections \
             = 4\n{extra}"
        );
        plan_suite(&[("a", "\"h1\""), ("b", "\"h1\"")], &suite)
    };
    let mixed = resolve_with("subjects = [\"a\", \"null\", \"b\"]", "");
    assert_eq!(*mixed.sharing.duet(), [0, 2].into());
    assert_eq!(first_block_groups(&mixed).iter().map(Vec::len).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(first_block_groups(&mixed)[0], ["null"]);
    let baseline = |name: &str| {
        let report = format!("[report]\nbaseline = \"{name}\"\n");
        let suite = format!(
            "subjects = [\"a\", \"null\", \"b\"]\n[suite]\norder = \
             \"duet\"\n[load]\nconnections = 4\n{report}"
        );
        resolve_suite(&[("a", "\"h1\""), ("b", "\"h1\"")], &suite)
    };
    assert!(baseline("b").is_ok());
    let alone = baseline("null").unwrap_err();
    assert!(
        alone.message.contains("\"null\": cannot be compared with the other subjects")
            && alone.hint.as_deref() == Some("use one of a, b"),
        "{alone}"
    );
    let twin = "[experiment]\nkind = \"toggle\"\nvary = { files = [64, 128] }\n";
    let twins = format!(
        "subjects = [\"null\", \"a\"]\n[suite]\ntwin = \"null, files 64\"\norder = \
         \"duet\"\n{twin}"
    );
    let twins = plan_suite(&[("a", "\"h1\"")], &twins);
    assert_eq!(twins.sharing.duet().len(), 4, "a twin of a control is a control: {:?}", twins.arms);
    let pair = resolve_with("subjects = [\"a\", \"null\"]", "");
    assert_eq!(*pair.sharing.duet(), [0, 1].into(), "the control is the only partner");
    let varied = "[experiment]\nkind = \"toggle\"\nvary = { files = [64, 128] }\n";
    let dose = resolve_with("subjects = [\"null\", \"a\", \"b\"]", varied);
    let all: BTreeSet<usize> = (0..dose.arms.len()).collect();
    assert_eq!(
        (dose.sharing.duet().clone(), first_block_groups(&dose).len()),
        (all, 1),
        "the experiment varies the control"
    );
}

#[test]
fn varied_value_unused_by_workload_is_refused() {
    let resolve_with = |arms: &str, extra: &str| {
        let suite = format!(
            "{arms}\n[[workloads]]\npath = \"/{{request.size}}\"\n{extra}[load]\nconnections = \
             4\n"
        );
        resolve_suite(&[("a", "\"h1\"")], &suite)
    };
    let without_size = "[[workloads]]\npath = \"/plain\"\n";
    let dose = "subjects = [\"a\"]\n[experiment]\nkind = \"dose\"\nvary = \
                { \"request.size\" = [64, 128] }";
    let error = resolve_with(dose, without_size).unwrap_err();
    assert!(
        error.message.starts_with("workload \"plain\": does not use") && error.position.is_some(),
        "{error}"
    );
    assert!(resolve_with(dose, "").is_ok());
    let listed = |sizes: [u32; 3]| {
        let [a, b, null] = sizes;
        format!(
            "[[subjects]]\nuse = \"a\"\nrequest = {{ size = {a} }}\n[[subjects]]\nuse = \"a\"\n\
             name = \"b\"\nrequest = {{ size = {b} }}\n\
             [[subjects]]\nuse = \"null\"\nrequest = {{ size = {null} }}\n[experiment]\n\
             kind = \"ladder\""
        )
    };
    assert!(resolve_with(&listed([64, 128, 64]), without_size).is_err());
    assert!(
        resolve_with(&listed([64, 64, 128]), without_size).is_ok(),
        "the control is not an arm of the experiment"
    );
}

#[test]
fn duet_rate_shares_count_members_only() {
    let shares = |subjects: &str, max: u32| {
        let suite = format!(
            "subjects = [{subjects}]\n[suite]\norder = \"duet\"\n[load]\nconnections = 8\nrate \
             = [\"25%\", \"{max}%\"]\n"
        );
        resolve_suite(&[("a", "\"h1\""), ("b", "\"h1\"")], &suite)
    };
    let error = shares("\"a\", \"b\"", 50).unwrap_err();
    assert!(
        error.hint.as_deref() == Some("use less than 50%") && error.position.is_some(),
        "{error}"
    );
    assert!(shares("\"a\", \"b\", \"null\"", 45).is_ok(), "the control is loaded alone");
}

#[test]
fn missing_subject_is_located_in_suite() {
    for (source, line, column, words) in [
        ("subjects = [\"here\", \"hree\"]", 1, 21, "did you mean \"here\"?"),
        (
            "[[subjects]]\nuse = \"here\"\n[[subjects]]\nuse = \"hree\"",
            4,
            7,
            "subject \"hree\": not found",
        ),
        ("subjects = [\"here\", \"here/fast\"]", 1, 21, "no variant \"fast\""),
        ("subjects = [{ use = \"here\", variant = \"fast\" }]", 1, 39, "no variant \"fast\""),
        ("subjects = [\"here\", \"here\"]", 1, 21, "listed twice"),
        ("subjects = [\"here\"]\n[report]\nbaseline = \"there\"", 3, 12, "baseline \"there\""),
    ] {
        let error = resolve_suite(&[("here", "\"h1\"")], source).unwrap_err();
        assert_eq!(error.position, Some(Position { line, column }), "{source}: {error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn oversized_plan_is_refused() {
    let none = vec![Err("no".to_string())];
    let [some, all] = [vec![Ok(()), Err("no".to_string())], vec![Ok(()), Ok(())]];
    let served = [&some, &all];
    let workload_steps = [vec![0, 1], vec![2]];
    assert_eq!(check_size(20_000, &served, &workload_steps), Ok(()));
    let error = check_size(4_000_000_000, &served, &workload_steps).unwrap_err();
    assert!(
        error.contains("make 20000000000 trials") && error.contains("20000 or fewer `repeats`"),
        "{error}"
    );
    // Starts are included even without trials.
    assert!(check_size(200_000, &[&none], &[vec![0]]).is_err());
}

#[test]
fn subject_gets_workloads_of_its_protocols() {
    let plan = plan_suite(
        &[("a", "\"h1\""), ("b", "\"h1\", \"h2c\""), ("c", "\"h2\"")],
        "subjects = [\"a\", \"b\", \"c\"]\n[suite]\nrepeats = 1\norder = \"fixed\"\n[load]\n\
         in_flight = [20, 40]\n\
         streams = 10\n[[workloads]]\nname = \"one\"\npath = \"/\"\n\
         [[workloads]]\nname = \"two\"\nprotocol = \"h2c\"\npath = \"/\"\n",
    );
    let trials: Vec<_> = plan.trials.iter().map(|t| (t.launch, t.workload, t.step)).collect();
    assert_eq!(trials, [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1), (1, 1, 2), (1, 1, 3)]);
    let not_served: Vec<_> =
        plan.not_served.iter().map(|n| (n.subject, n.workload, n.reason.as_str())).collect();
    assert_eq!(not_served, [(0, 1, "it speaks h1, not h2c")]);
    assert_eq!(
        plan.subjects[2].skipped.as_deref(),
        Some(
            "it speaks h2, not h1, and the other workloads use other protocols that it does not \
             speak"
        )
    );
    // The skipped subject takes no time.
    let trials_ns = 7 * (plan.load.warmup_ns + plan.load.duration_ns);
    assert!(expected_ns(&plan) < 3 * START_NS + trials_ns);
    // A start is warmed for at least a second, for any number of workloads.
    let cold = Plan {
        load: dyno_model::plan::Load { until_steady: None, ..plan.load.clone() },
        ..plan.clone()
    };
    let warm_ns = expected_ns(&plan) - expected_ns(&cold);
    assert!((2_000_000_000..2_500_000_000).contains(&warm_ns), "{warm_ns}");
}

#[test]
fn place_parts_separates_subject_and_generator() {
    let two = place_parts(None, &[], &[0, 1]);
    assert_eq!((two.subject.as_slice(), two.generator.as_slice()), (&[0][..], &[1][..]));
    assert!(two.is_disjoint());
    let eight = place_parts(None, &[], &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(eight.generator, [6, 7]);
    assert!(!place_parts(None, &[], &[3]).is_disjoint());
    assert_eq!(place_parts(Some(vec![0, 1]), &[], &[0, 1, 2]).generator, [2]);
    // Back ends have their CPUs exclusively if others are left.
    let three = place_parts(None, &[2], &[0, 1, 2]);
    assert_eq!((three.subject, three.generator), (vec![0], vec![1]));
    assert_eq!(place_parts(Some(vec![0]), &[1], &[0, 1, 2]).generator, [2]);
    assert_eq!(place_parts(Some(vec![0]), &[1], &[0, 1]).generator, [1]);
    assert_eq!(place_parts(None, &[1], &[0, 1]).subject, [0]);
    assert!(!place_parts(Some(vec![0, 1]), &[], &[0, 1]).is_disjoint());
}
