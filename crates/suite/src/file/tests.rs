//! Tests that suite files are read with the expected values.

use dyno_model::plan::{Arrivals, Cookies, Gaps, Http2, Page, Sequence};

use super::*;

pub(super) fn parse(source: &str) -> Result<SuiteFile, String> {
    SuiteFile::parse(Path::new("suites/s.toml"), source, &[]).map_err(|e| e.to_string())
}

#[test]
fn reruns_need_contaminated_again() {
    let rerun_share = |keys: &str| {
        parse(&format!("subjects = [\"null\"]\n[suite]\n{keys}")).map(|suite| suite.rerun_share)
    };
    assert_eq!(rerun_share(""), Ok(Some(0.1)));
    assert_eq!(rerun_share("reruns = \"25%\""), Ok(Some(0.25)));
    assert_eq!(rerun_share("contaminated = \"counts\""), Ok(None));
    let error = rerun_share("contaminated = \"counts\"\nreruns = \"25%\"").unwrap_err();
    assert!(error.starts_with("suites/s.toml:4:10: `reruns`: has no effect"), "{error}");
    let error = rerun_share("reruns = \"100%\"").unwrap_err();
    assert!(error.contains("must be a share above 0 and below 100 %"), "{error}");
}

#[test]
fn suite_reads_files_of_its_folder_only() {
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
        ("path = \"/\"\nbody_file = \"../secret\"".into(), 5, "leads out of the folder"),
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
        ("subjects = [\"../x\"]", "must be the name of its folder"),
        ("[[subjects]]\nuse = \"/x\"", "must be the name of its folder"),
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
fn smallest_suite_is_list_of_subjects() {
    let suite = parse("subjects = [\"null\", \"node-http/cluster\"]").unwrap();
    assert_eq!(suite.suite.name, "s");
    assert_eq!(suite.subjects[1].variant.as_deref(), Some("cluster"));
    assert_eq!((suite.repeats, suite.load.load.steps.len()), (3, 1));
    assert_eq!(suite.workloads[0].requests[0].path, "/plaintext");
}

#[test]
fn warmup_default_is_until_steady() {
    let load = |keys: &str| {
        parse(&format!("subjects = [\"null\"]\n[load]\n{keys}")).map(|suite| suite.load)
    };
    let warm = |keys: &str| {
        load(keys).map(|load| (load.load.warmup_ns, load.load.until_steady.map(|u| u.limit_ns)))
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
            "s.toml:4:16: `warmup_limit`: needs `warmup = \"auto\"`",
        ),
        ("warmup_limit = \"500ms\"", "must be at least 1s"),
        ("warmup = \"steady\"", "or \"auto\" to warm up until"),
    ] {
        let error = load(keys).unwrap_err();
        assert!(error.contains(wanted), "{keys}: {error}");
    }
}

#[test]
fn steps_are_product_of_lists() {
    let suite = parse(
        "subjects = [\"null\"]\n[load]\nconnections = [1, 8]\npipeline = [1, 16]\nrate = [100, \
         \"5k\"]\narrival = \"poisson\"",
    )
    .unwrap();
    assert_eq!(suite.load.load.steps.len(), 8);
    assert_eq!(suite.load.load.steps[7].arrivals, Arrivals::Poisson { rate: 5000.0 });
}

#[test]
fn repeated_step_is_another_pass() {
    let suite = parse(
        "subjects = [\"null\"]\n[suite]\norder = \"random\"\n[load]\norder = \"fixed\"\n\
         warmup = \"measured\"\n\
         reconnect = \"at-once\"\nconnections = [1, 1, 2, 1]\n[[workloads]]\npath = \"/a\"\n\
         [[workloads]]\npath = \"/b\"\n",
    )
    .unwrap();
    let load = &suite.load.load;
    let steps: Vec<(u32, u32)> = load.steps.iter().map(|s| (s.connections, s.pass)).collect();
    assert_eq!(steps, [(1, 1), (1, 2), (2, 1), (1, 3)]);
    assert_eq!(suite.workload_steps, [vec![0, 1, 2, 3], vec![0, 1, 2, 3]]);
    assert_eq!((suite.order, load.order), (Order::Random, Order::Fixed));
    assert_eq!(load.still_warming, dyno_model::plan::StillWarming::Measured);
    assert_eq!(load.reconnect, dyno_model::plan::Reconnect::AtOnce);
    let default = parse("subjects = [\"null\"]\n[suite]\norder = \"fixed\"\n").unwrap();
    assert_eq!(
        default.load.load.order,
        Order::Fixed,
        "steps have the order of subjects by default"
    );
}

#[test]
fn profile_overrides_named_keys() {
    let source = "subjects = [\"a\", \"b\"]\n[suite]\nrepeats = 5\nname = \
                  \"s\"\n[load]\nconnections = [1, 64]\nduration = \
                  \"30s\"\n[profile.short]\nsuite.repeats = 1\nload = { duration = \"2s\" \
                  }\n[profile.one]\nsubjects = [\"a\"]\nload.duration = \"4s\"\n";
    let with = |profiles: &[&str]| {
        let profiles: Vec<String> = profiles.iter().map(|name| (*name).to_string()).collect();
        SuiteFile::parse(Path::new("s.toml"), source, &profiles).map_err(|error| error.to_string())
    };
    let values = |profiles: &[&str]| {
        let suite = with(profiles).unwrap();
        let load = &suite.load.load;
        (suite.subjects.len(), suite.repeats, load.duration_ns / 1_000_000_000, load.steps.len())
    };
    assert_eq!(values(&[]), (2, 5, 30, 2));
    assert_eq!(values(&["short"]), (2, 1, 2, 2));
    assert_eq!(
        values(&["short", "one"]),
        (1, 1, 4, 2),
        "the later profile overrides the earlier one"
    );
    assert_eq!(values(&["one", "short"]), (1, 1, 2, 2));
    assert_eq!(with(&["one"]).unwrap().suite.profiles, ["one"]);
    assert_eq!(
        with(&["shrot"]).unwrap_err(),
        "s.toml: profile \"shrot\": not in the suite\nhint: did you mean \"short\"?"
    );
    assert!(with(&["x"]).unwrap_err().ends_with("use one of one, short"));
    assert!(parse("subjects = [\"a\"]").is_ok());
}

#[test]
fn mistake_of_profile_is_reported_even_if_unused() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("s.toml");
    let read = |profile: &str, requested: &[String]| {
        std::fs::write(&file, format!("subjects = [\"a\"]\n[profile.short]\n{profile}\n")).unwrap();
        SuiteFile::read(&file, requested, 2).unwrap_err().to_string()
    };
    for (profile, message) in [
        ("load.duratoin = \"1s\"", "s.toml:3:6: unknown key `duratoin`"),
        ("load.duration = \"1\"", "s.toml:3:17: "),
        ("suite.repeats = 0", "s.toml:3:17: `repeats`: must be at least 1"),
        ("laod.duration = \"1s\"", "s.toml:3:1: unknown key `laod`"),
        ("profile.long.suite.repeats = 2", "s.toml:3:1: unknown key `profile`"),
        ("when.cpus = 4", "s.toml:3:6: unknown key `cpus`"),
        ("when = 4", "s.toml:3:8: "),
    ] {
        for requested in [&[][..], &["short".to_string()]] {
            let error = read(profile, requested);
            assert!(error.contains(message), "{profile}: {error}");
        }
    }
    std::fs::write(&file, "subjects = [\"a\"]\nprofile = 1\n").unwrap();
    let error = SuiteFile::read(&file, &[], 2).unwrap_err().to_string();
    assert!(error.contains("s.toml:2:11: `profile`: must be a table of tables"), "{error}");
}

#[test]
fn suite_above_limit_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    // A sparse file of this length takes no space.
    file.as_file().set_len(1 << 40).unwrap();
    let error = SuiteFile::read(file.path(), &[], 2).unwrap_err().to_string();
    assert!(
        error.contains("has more than 16777216 bytes") && error.contains("\nhint: "),
        "{error}"
    );
    std::fs::write(file.path(), b"\xff").unwrap();
    let error = SuiteFile::read(file.path(), &[], 2).unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
}

#[test]
fn profile_with_condition_applies_on_small_machines() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("s.toml");
    let source = "subjects = [\"a\"]\n[limits]\ncpus = 1.5\n[profile.small]\nwhen = { cpus_below = \
                  8 }\nlimits.cpus = 0.3\n[profile.few]\nwhen = { cpus_below = 2 }\nlimits.cpus = \
                  0.1\n[profile.own]\nlimits.cpus = 0.2\n";
    std::fs::write(&file, source).unwrap();
    let read = |requested: &[&str], cpus: usize| {
        let requested: Vec<String> = requested.iter().map(|name| (*name).to_string()).collect();
        let suite = SuiteFile::read(&file, &requested, cpus).unwrap();
        (suite.limits.limits.cpus.unwrap(), suite.suite.profiles.join(" "))
    };
    assert_eq!(read(&[], 8), (1.5, String::new()));
    assert_eq!(read(&[], 7), (0.3, "small".into()));
    assert_eq!(read(&[], 1), (0.1, "small few".into()));
    assert_eq!(
        read(&["own"], 4),
        (0.2, "small own".into()),
        "a requested profile overrides automatic ones"
    );
    assert_eq!(read(&["small"], 1), (0.3, "few small".into()));
    assert_eq!(read(&["none"], 1), (1.5, String::new()));
    assert_eq!(read(&["none", "own"], 1), (0.2, "own".into()));
    assert_eq!(
        read(&["own", "small", "own"], 8),
        (0.2, "small own".into()),
        "each profile is applied once"
    );
    let none = "subjects = [\"a\"]\n[profile.none]\nlimits.cpus = 0.3\n";
    let message = profile::names(&file, none).unwrap_err().to_string();
    assert!(
        message.contains(":2:") && message.contains("give the profile another name"),
        "{message}"
    );
    let alike = source.replace("cpus_below = 2", "cpus_below = 8");
    let message = profile::names(&file, &alike).unwrap_err().to_string();
    assert!(
        message.contains("profile \"small\": applies to the same machines as \"few\""),
        "{message}"
    );
}

#[test]
fn workload_overrides_requests_per_connection() {
    let suite = parse(
        "subjects = [\"null\"]\n[load]\nrequests_per_connection = 10\n[[workloads]]\n\
         name = \"a\"\npath = \"/\"\n\
         requests_per_connection = 1\n[[workloads]]\nname = \"b\"\npath = \"/\"\n",
    )
    .unwrap();
    let values: Vec<Option<u64>> =
        suite.workloads.iter().map(|w| w.requests_per_connection).collect();
    assert_eq!((values, suite.load.load.requests_per_connection), (vec![Some(1), None], Some(10)));
    let parse_error = |extra: &str| {
        parse(&format!("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\n{extra}")).unwrap_err()
    };
    assert!(
        parse_error("requests_per_connection = 0")
            .contains("s.toml:4:27: a connection must serve at least 1 request")
    );
    let page = parse_error("requests_per_connection = 2\npage = { resources = [\"/a\"] }");
    assert!(
        page.contains("s.toml:4:27: ") && page.contains("connections of a page stay open"),
        "{page}"
    );
}

#[test]
fn workload_overrides_settings_of_steps() {
    let load = "connections = 64\nrate = 100\npipeline = 2\n";
    let workloads = "[[workloads]]\npath = \"/a\"\nconnections = [1, 8]\nrate = \"2k\"\n\
                     [[workloads]]\npath = \"/b\"\npipeline = 1\n\
                     [[workloads]]\npath = \"/c\"\nprotocol = \"h2c\"\nstreams = 10\n";
    let suite = |load: &str, workloads: &str| {
        parse(&format!("subjects = [\"null\"]\n[load]\n{load}{workloads}"))
    };
    let parsed = suite(load, workloads).unwrap();
    let steps: Vec<_> = parsed.load.load.steps.iter().collect();
    let shapes: Vec<_> = steps
        .iter()
        .map(|s| (s.connections, s.streams, s.pipeline, s.arrivals.rate().unwrap()))
        .collect();
    let rates = [(1, 1, 2, 2000.0), (8, 1, 2, 2000.0), (64, 1, 1, 100.0), (64, 10, 1, 100.0)];
    assert_eq!(shapes, rates);
    assert_eq!(parsed.workload_steps, [vec![0, 1], vec![2], vec![3]]);
    // The values of the load are checked even if all workloads override them.
    let all = "[[workloads]]\npath = \"/a\"\nconnections = 1\nrate = 5\n";
    for (load, expected) in [
        ("connections = 0\n", "s.toml:3:15: `connections`: must be at least 1"),
        ("rate = \"1k..\"\n", "s.toml:3:8: \"1k..\": not a rate"),
    ] {
        let error = suite(load, all).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    // The default applies to the other keys.
    suite("", all).unwrap();
}

#[test]
fn workload_key_with_typing_error_has_suggestion() {
    let error =
        |line: &str| parse(&format!("subjects = [\"null\"]\n[[workloads]]\n{line}\n")).unwrap_err();
    for (line, near) in [("strems = 1", "streams"), ("pth = \"/\"", "path")] {
        assert!(error(line).ends_with(&format!("hint: did you mean `{near}`?")), "{}", error(line));
    }
    assert!(
        parse("subjects = [\"null\"]\nworkloads = [3]")
            .unwrap_err()
            .contains("s.toml:2:14: invalid type: integer `3`, expected a table")
    );
}

#[test]
fn workload_with_steps_is_sequence() {
    let sequence = |extra: &str, load: &str| {
        parse(&format!(
            "subjects = [\"null\"]\n[[workloads]]\n{extra}\n[[workloads.steps]]\npath = \
             \"/login\"\nextract = {{ t = {{ json = \"/t\", matches = \"^(.*)$\" }} }}\n\
             [[workloads.steps]]\npath = \"/a?t={{extract.t}}\"\n{load}"
        ))
    };
    let suite = sequence("cookies = true", "[load]\nrate = 100").unwrap();
    let workload = &suite.workloads[0];
    assert_eq!((workload.name.as_str(), workload.requests.len()), ("sequence", 2));
    assert_eq!(workload.sequence, Some(Sequence { cookies: Cookies::Kept }));
    let extraction = &workload.requests[0].extract[0];
    assert_eq!((extraction.name.as_str(), extraction.matches.as_deref()), ("t", Some("^(.*)$")));
    assert_eq!(sequence("", "").unwrap().workloads[0].sequence.unwrap().cookies, Cookies::Ignored);
    sequence("protocol = \"h2c\"", "[load]\nstreams = 10").unwrap();
    for (extra, load, expected) in [
        ("", "[load]\npipeline = [1, 4]", "`pipeline`: cannot be combined with `steps`"),
        ("", "[suite]\norder = \"interleaved\"", "a workload is a sequence"),
    ] {
        let error = sequence(extra, load).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn workload_with_resources_is_page() {
    let page = |extra: &str| {
        parse(&format!(
            "subjects = [\"null\"]\n[[workloads]]\nprotocol = \"h2c\"\npath = \"/a\"\n\
             page = {{ resources = [\"/b.css\", \"/c*3\"] }}\n{extra}"
        ))
    };
    let suite = page("").unwrap();
    let workload = &suite.workloads[0];
    let paths: Vec<&str> = workload.requests.iter().map(|r| r.path.as_str()).collect();
    assert_eq!(paths, ["/a", "/b.css", "/c", "/c", "/c"]);
    assert_eq!(workload.page, Some(Page { connections: 6 }));
    assert_eq!(workload.requests[4].name, "/c #3");
    assert!(page("[load]\nrate = 10").unwrap_err().contains("remove `rate`"));
    page("[[workloads]]\nname = \"w\"\npath = \"/w\"\nrate = 100").unwrap();
    for workload in [
        "page = { resources = [] }",
        "page = { resources = [\"/a*0\"] }",
        "page = { resources = [\"a\"] }",
    ] {
        assert!(
            parse(&format!("subjects = [\"null\"]\n[[workloads]]\n{workload}")).is_err(),
            "{workload}"
        );
    }
}

#[test]
fn workload_with_requests_is_weighted_mix() {
    let suite = parse(
        "subjects = [\"null\"]\n[[workloads]]\nrequests = [\n{ path = \"/a\", weight = 80, expect \
         = { headers = { etag = true, server = \"x\" } } },\n{ name = \"post\", method = \"POST\", \
         path = \"/b/{seq}\", body = '{\"n\":{seq}}', weight = 20, expect = { json = { \"/ok\" = \
         true } } },\n]",
    )
    .unwrap();
    let workload = &suite.workloads[0];
    assert_eq!((workload.name.as_str(), workload.requests.len()), ("mix", 2));
    assert_eq!(workload.requests[0].expect.headers.len(), 2);
    assert_eq!((workload.requests[1].name.as_str(), workload.requests[1].weight), ("post", 20));
    assert!(workload.requests[1].expect.has_sampled_part());
}

#[test]
fn workload_steps_depend_on_protocol() {
    let suite = parse(
        "subjects = [\"null\"]\n[load]\nin_flight = [100, 1000]\nstreams = 10\n\
         window_bits = 16\n\
         [[workloads]]\nname = \"a\"\npath = \"/\"\n\
         [[workloads]]\nname = \"b\"\npath = \"/\"\ntls = true\n\
         [[workloads]]\nname = \"c\"\npath = \"/\"\nprotocol = \"h2\"\n\
         [[workloads]]\nname = \"d\"\npath = \"/\"\nprotocol = \"h2c\"\nstreams = [10, 50]\n",
    )
    .unwrap();
    let shapes: Vec<_> = suite.load.load.steps.iter().map(|s| (s.connections, s.streams)).collect();
    assert_eq!(shapes, [(100, 1), (1000, 1), (10, 10), (100, 10), (2, 50), (20, 50)]);
    assert_eq!(suite.workload_steps, [vec![0, 1], vec![0, 1], vec![2, 3], vec![2, 3, 4, 5]]);
    let tls: Vec<_> = suite.workloads.iter().map(|w| w.protocol.is_tls()).collect();
    assert_eq!(tls, [false, true, true, false]);
    assert_eq!(suite.load.load.http2, Http2 { window_bits: 16, ..Http2::default() });
}

#[test]
fn pipeline_applies_to_http1_only() {
    let suite = parse(
        "subjects = [\"null\"]\n[load]\nconnections = 8\npipeline = [1, 16]\nstreams = 4\n\
         [[workloads]]\nname = \"a\"\npath = \"/\"\n\
         [[workloads]]\nname = \"b\"\npath = \"/\"\nprotocol = \"h2c-upgrade\"\n",
    )
    .unwrap();
    let shapes: Vec<_> =
        suite.load.load.steps.iter().map(|s| (s.connections, s.streams, s.pipeline)).collect();
    assert_eq!(shapes, [(8, 1, 1), (8, 1, 16), (8, 4, 1)]);
    assert_eq!(suite.workload_steps, [vec![0, 1], vec![2]]);
}

#[test]
fn rate_range_changes_within_step() {
    let suite = parse("subjects = [\"null\"]\n[load]\nrate = \"100..300\"").unwrap();
    let Arrivals::Shaped { segments, gaps: Gaps::Even } = &suite.load.load.steps[0].arrivals else {
        panic!("{:?}", suite.load.load.steps[0].arrivals)
    };
    let ends: Vec<_> = segments.iter().map(|s| (s.from_rate, s.to_rate, s.duration_ns)).collect();
    assert_eq!(ends, [(100.0, 100.0, suite.load.load.warmup_ns), (100.0, 300.0, 10_000_000_000)]);
}

/// Suites with a mistake, and a part of its message.
const MISTAKES: &[(&str, &str)] = &[
    ("[suite]\nname = \"x\"", "must name at least one subject"),
    ("subject = [\"null\"]", "did you mean `subjects`?"),
    ("subjects = [\"null\"]\n[load]\nduration = \"10\"", "s.toml:3:12: \"10\": not a duration"),
    ("subjects = [\"null\"]\n[load]\nconections = 1", "did you mean `connections`?"),
    ("subjects = [\"null\"]\n[load]\nmodel = \"open\"", "an open loop needs a rate"),
    (
        "subjects = [\"null\"]\n[load]\nmodel = \"closed\"\nrate = 5",
        "cannot be used in a closed loop",
    ),
    ("subjects = [\"null\"]\n[load]\nconnections = 0", "at least 1"),
    ("subjects = [\"null\"]\n[limits]\nmemory = \"lots\"", "s.toml:3:10: \"lots\": not a size"),
    ("subjects = [\"null\"]\n[limits]\ncpuset = \"x\"", "not a list of CPUs"),
    ("subjects = [\"null\"]\n[[workloads]]\npath = \"x\"", "must begin with a slash"),
    ("subjects = [\"null\"]\n[[workloads]]\npath = \"/a b\"", "percent-encode"),
    ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h9\"", "unknown"),
    (
        "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h2\"\ntls = false",
        "set `protocol` to \"h2c\"",
    ),
    (
        "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"h2c\"\ntls = true",
        "over TLS set `protocol` to \"h2\"",
    ),
    ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nprotocol = \"auto\"", "unknown"),
    ("subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nstreams = 2", "needs HTTP/2"),
    ("subjects = [\"null\"]\n[load]\nstreams = [1, 2]", "needs HTTP/2"),
    ("subjects = [\"null\"]\n[load]\nwindow_bits = 16", "but all workloads use HTTP/1.1"),
    (
        "subjects = [\"null\"]\n[load]\nwindow_bits = 31\n[[workloads]]\npath = \
         \"/\"\nprotocol = \"h2\"",
        "s.toml:3:15: `window_bits`: must be 10 to 30",
    ),
    (
        "subjects = [\"null\"]\n[load]\npipeline = 2\n[[workloads]]\npath = \
         \"/\"\nprotocol = \"h2\"",
        "use `streams` instead",
    ),
    ("subjects = [\"null\"]\n[load]\nconnections = 1\nin_flight = 1", "cannot be combined"),
    ("subjects = [\"null\"]\n[load]\nin_flight = []", "at least one entry"),
    ("subjects = [\"null\"]\n[load]\nin_flight = 100\npipeline = 16", "use a multiple of 16"),
    ("subjects = [\"null\"]\n[load]\ndriver = \"kqueue\"", "use one of uring, epoll"),
    ("subjects = [\"null\"]\n[[backends]]\nuse = \"1\"", "must begin with a letter"),
    (
        "subjects = [\"null\"]\n[[workloads]]\nexpect = { status = 201 }\nrequests = \
         [{ path = \"/\" }]",
        "either a `path` or a mix",
    ),
    (
        "subjects = [\"null\"]\n[[workloads]]\npath = \"/\"\nrequests = []",
        "either a `path` or a mix",
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
fn mistake_has_line_and_hint() {
    for &(source, wanted) in MISTAKES {
        let error = parse(source).unwrap_err();
        assert!(error.contains(wanted), "{source}\n→ {error}");
    }
}

proptest::proptest! {
    #[test]
    fn parse_never_panics(source in "[a-z=\\[\\]\"0-9\n .#]{0,200}") {
        let _ = parse(&source);
    }
}
