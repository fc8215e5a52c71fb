//! Tests of reading definitions.

use super::*;

use std::path::Path;

use dyno_contract::ready::Status;
use dyno_launch::guard::Guard;
use dyno_launch::process::Signal;
use dyno_launch::supervision::Interrupts;

use super::prerequisites::Prerequisites;

fn unmet_need(definition: &Definition) -> Option<String> {
    // The guard of a test is this test program, which ends immediately with the unknown argument.
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    Prerequisites::new(&supervision).unmet_need(definition)
}

fn write_subject(source: &str) -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("x");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("subject.toml"), source).unwrap();
    (root, folder)
}

const GOOD: &str = "name = \"x\"\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = \
                    [\"h1\"]\nchecks = [\"hello\"]\n[start]\ncommand = [\"x\", \
                    \"{port}\"]\n[variants.fast]\ntitle = \"X fast\"\nenv = { A = \"1\" }\n";

#[test]
fn read_fills_defaults_and_variants() {
    let (_root, folder) = write_subject(GOOD);
    let definition = Definition::read(&folder).unwrap();
    assert_eq!(
        (definition.stop.signal, definition.stop.deadline_ns),
        (Signal::Term, 5_000_000_000)
    );
    assert_eq!(unmet_need(&definition), None);
    let fast = definition.with_variant("fast").unwrap();
    assert_eq!((fast.title.as_str(), fast.start.env.len()), ("X fast", 1));
    assert!(definition.with_variant("slow").unwrap_err().contains("use one of fast"));
    assert!(definition.uses("port") && !definition.uses("tls_port"));
}

#[test]
fn variant_overrides_protocols_and_command() {
    let (_root, folder) = write_subject(&format!(
        "{GOOD}[variants.tls]\nprotocols = [\"h1-tls\", \"h2\"]\nready = {{ path = \"/r\" }}\n\
         command = [\"x\", \"{{tls_port}}\", \"{{cert}}\", \"{{key}}\"]\nfiles = []\n"
    ));
    let definition = Definition::read(&folder).unwrap();
    assert!(!definition.needs_certificate());
    let tls = definition.with_variant("tls").unwrap();
    assert_eq!(tls.protocols, [Protocol::H1Tls, Protocol::H2]);
    assert!(tls.needs_certificate());
    assert_eq!(tls.ready.by, ReadyBy::Answer { path: "/r".into(), status: Status::Success });
    assert_eq!(tls.ready.deadline_ns, definition.ready.deadline_ns);
}

#[test]
fn read_mistake_has_message() {
    let error = |source: &str| Definition::read(&write_subject(source).1).unwrap_err().to_string();
    assert!(
        error(&GOOD.replace("title = \"X\"", "titel = \"X\"")).contains("did you mean `title`?")
    );
    assert!(
        error(&GOOD.replace("\"x\"\ntitle", "\"y\"\ntitle")).contains("must be the folder's name")
    );
    assert!(error(&GOOD.replace("[\"hello\"]", "[\"hallo\"]")).contains("did you mean \"hello\"?"));
    assert!(error(&GOOD.replace("[\"h1\"]", "[\"h3\"]")).contains("unknown value `h3`"));
    assert!(error(&GOOD.replace("[\"h1\"]", "[\"auto\"]")).contains("can be used for loads only"));
    assert!(error(&GOOD.replace("[\"h1\"]", "[]")).contains("`protocols`: the list must have"));
    assert!(error(&GOOD.replace("[\"h1\"]", "[\"h1\", \"h2\"]")).contains("needs a TLS port"));
    let mute = "[variants.mute]\nprotocols = [\"h1-tls\"]\n";
    assert!(error(&format!("{GOOD}{mute}")).contains("variant \"mute\": protocol h1-tls"));
    let ready = "[ready]\ndeadline = \"5\"\n";
    assert!(error(&format!("{GOOD}{ready}")).contains("\"5\": not a duration"));
}

/// Reads a file with a mistake. Checks its position, its message, and the underlined text.
fn check_mistake(source: &str, position: &str, underlined: &str, expected: &str) {
    let text = Definition::read(&write_subject(source).1).unwrap_err().to_string();
    let lines: Vec<&str> = text.lines().collect();
    let number = position.split(':').next().unwrap();
    let line = source.lines().nth(number.parse::<usize>().unwrap() - 1).unwrap();
    assert!(
        lines[0].contains(&format!("subject.toml:{position}: ")) && lines[0].contains(expected),
        "{text}"
    );
    assert_eq!(lines[2], format!("{number} | {line}"), "{text}");
    let carets = lines[3].split_once("| ").unwrap().1;
    assert_eq!(&line[carets.find('^').unwrap()..carets.len()], underlined, "{text}");
}

#[test]
fn mistake_has_line_and_column() {
    for (source, position, underlined, expected) in [
        (GOOD.replace("\"x\"\ntitle", "\"y\"\ntitle"), "1:8", "\"y\"", "must be the folder's name"),
        (GOOD.replace("[\"h1\"]", "[\"h1\", \"h3\"]"), "4:20", "\"h3\"", "unknown value `h3`"),
        (
            GOOD.replace("[\"h1\"]", "[\"h1\", \"auto\"]"),
            "4:20",
            "\"auto\"",
            "can be used for loads only",
        ),
        (GOOD.replace("[\"h1\"]", "[\"h1\", \"h2\"]"), "4:20", "\"h2\"", "needs a TLS port"),
        (GOOD.replace("[\"h1\"]", "[]"), "4:13", "[]", "`protocols`: the list must have"),
        (GOOD.replace("[\"hello\"]", "[\"hello\", \"hallo\"]"), "5:20", "\"hallo\"", "not found"),
        (
            GOOD.replace("[\"x\", \"{port}\"]", "[]"),
            "7:11",
            "[]",
            "`start.command`: must not be empty",
        ),
        (GOOD.replace("command = [", "commands = ["), "7:1", "commands", "unknown key `commands`"),
        (
            GOOD.replace("env = { A = \"1\" }", "env = { A = 1 }"),
            "10:13",
            "1",
            "invalid type: integer",
        ),
    ] {
        check_mistake(&source, position, underlined, expected);
    }
    let error =
        Definition::read(&write_subject(&GOOD.replace("language = \"C\"\n", "")).1).unwrap_err();
    let message = "the file has no `language`";
    assert_eq!((error.position, error.message.as_str()), (None, message));
}

#[test]
fn mistake_in_table_has_line_and_column() {
    // GOOD has ten lines without a mistake.
    let after = |rest: &str| format!("{GOOD}{rest}");
    let build = "[build]\ncommand = \"true\"\n";
    for (source, position, underlined, expected) in [
        (
            after("[variants.mute]\nprotocols = [\"h1-tls\"]\n"),
            "12:14",
            "\"h1-tls\"",
            "variant \"mute\": protocol h1-tls",
        ),
        (after("[variants.a]\nready = { deadline = \"5\" }\n"), "12:22", "\"5\"", "not a duration"),
        (
            after("[variants.a]\nready = { deadlin = \"5s\" }\n"),
            "12:11",
            "deadlin",
            "unknown key `deadlin`",
        ),
        (after("[ready]\npath = \"/\"\ndeadline = \"5\"\n"), "13:12", "\"5\"", "not a duration"),
        (after("[stop]\nsignal = \"HUP\"\n"), "12:10", "\"HUP\"", "unknown value `HUP`"),
        (
            after(&format!("{build}inputs = [\"a\", \"../y\"]\n")),
            "13:16",
            "\"../y\"",
            "leads out of the folder",
        ),
        (after(build), "11:1", "[build]", "`[build]` has no `inputs`"),
        (after(&format!("{build}inputs = \"a\"\n")), "13:10", "\"a\"", "invalid type: string"),
        (
            after("[[requires]]\nname = \"a\"\ntest = \"b\"\n"),
            "11:1",
            "[[requires]]",
            "`[[requires]]` has no `hint`",
        ),
        (
            after("[version]\ncommand = \"v\"\ndeadline = 3\n"),
            "13:12",
            "3",
            "invalid type: integer `3`",
        ),
    ] {
        check_mistake(&source, position, underlined, expected);
    }
}

#[test]
fn read_reports_all_mistakes_at_once() {
    let source = "titel = \"X\"\nprotocols = [\"h1\"]\nchecks = [\"hallo\"]\n[[requires]]\nname = \
                  \"a\"\n[build]\ncommand = \"make {prot}\"\n[start]\ncommand = [\"x\", \
                  \"{prot}\"]\ncwd = \"/tmp\"\nport = 0\n[ready]\ntcp = true\ncommand = \
                  \"true\"\n[variants.v]\nchecks = [\"hello\"]\nwaive = [\"x\", \"json\", \"y\"]\n";
    let text = Definition::read(&write_subject(source).1).unwrap_err().to_string();
    let heads: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("subject.toml").map(|(_, rest)| rest))
        .collect();
    let expected = [
        ": the file has no `language`",
        ":1:1: unknown key `titel`",
        ":3:11: contract \"hallo\": not found",
        ":4:1: `[[requires]]` has no `test` and `hint`",
        ":6:1: `[build]` has no `inputs`",
        ":7:11: unknown placeholder {prot}",
        ":9:17: unknown placeholder {prot}",
        ":10:7: `cwd`: \"/tmp\" is not {work}",
        ":11:8: `port`: must be 1 to 65535",
        ":14:11: [ready]: must have only one of",
        ":17:10: check \"x\": not in the contracts",
        ":17:23: check \"y\": not in the contracts",
    ];
    assert_eq!(heads.len(), expected.len(), "{text}");
    for (head, expected) in heads.iter().zip(expected) {
        assert!(head.starts_with(expected), "{head}\nis not\n{expected}");
    }
}

#[test]
fn read_reports_mistakes_of_keys_and_whole() {
    let source = "language = \"C\"\nprotocols = [\"h1\"]\nbackends = [\"a.b\", \"c\", \
                  \"d.e\"]\n[version]\ncommand = 5\n[start]\ncommand = \
                  [\"x\"]\n[variants.auto]\nprotocols = [\"auto\"]\n[variants.tls]\nprotocols = \
                  [\"h1\", \"h2\"]\n[variants.none]\nprotocols = []\n[variants.\"a/b\"]\nenv = { \
                  \"A=\" = \"{prot}\" }\n[build]\ncommand = \"x\"\ninputs = [\"/etc\", \"a\", \
                  \"/usr\"]\n";
    let text = Definition::read(&write_subject(source).1).unwrap_err().to_string();
    for expected in [
        "toml:3:13: back end \"a.b\": its name",
        "toml:3:25: back end \"d.e\": its name",
        "toml:5:11: invalid type",
        "toml:9:14: variant \"auto\": protocol \"auto\"",
        "toml:11:20: variant \"tls\": protocol h2: needs a TLS port",
        "toml:13:13: variant \"none\": `protocols`: the list",
        "toml:14:1: variant \"a/b\": its name",
        "toml:15:16: \"A=\": the name of a variable must",
        "toml:15:16: unknown placeholder {prot}",
        "toml:18:11: path \"/etc\": is absolute",
        "toml:18:24: path \"/usr\": is absolute",
    ] {
        assert!(text.contains(expected), "{text}\nlacks\n{expected}");
    }
    assert_eq!(text.matches("subject.toml:").count(), 11, "{text}");
}

#[test]
fn contracts_with_common_check_fail() {
    let read =
        |checks: &str| Definition::read(&write_subject(&GOOD.replace("[\"hello\"]", checks)).1);
    let message = read("[\"hello\", \"techempower\"]").unwrap_err().to_string();
    assert!(
        message.contains("toml:5:20: ")
            && message.contains("\"techempower\": both have a check \"plaintext\" over"),
        "{message}"
    );
    let message = read("[\"hello\", \"hello\"]").unwrap_err().to_string();
    assert!(message.contains("both have a check \"plaintext\""), "{message}");
}

#[test]
fn backend_with_checks_fails() {
    let (_root, folder) = write_subject(GOOD);
    let text = "checks = [\"hello\"]\n[start]\ncommand = [\"x\", \"{port}\"]\n";
    std::fs::write(folder.join("backend.toml"), text).unwrap();
    let message = Definition::read_as(&folder, Role::Backend).unwrap_err().to_string();
    assert!(message.contains("backend.toml:1:10: `checks`: cannot be used"), "{message}");
}

#[test]
fn minimal_definition_gets_defaults() {
    let (_root, folder) = write_subject(
        "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\"]\nport = 8080\ncwd \
         = \"{out}/a\"\n",
    );
    let definition = Definition::read(&folder).unwrap();
    assert_eq!((definition.name.as_str(), definition.title.as_str()), ("x", "x"));
    assert_eq!((definition.start.port, definition.start.cwd.as_str()), (Some(8080), "{out}/a"));
    assert_eq!(definition.ready.by, ReadyBy::Answer { path: "/".into(), status: Status::Any });
    std::fs::write(
        folder.join("backend.toml"),
        "[start]\ncommand = [\"x\", \"{db.port}\"]\n[seed]\ncommand = \"y {port}\"\n",
    )
    .unwrap();
    let backend = Definition::read_as(&folder, Role::Backend).unwrap();
    assert_eq!((backend.ready.by.clone(), backend.protocols.len()), (ReadyBy::Listening, 0));
    assert!(backend.needs().contains("db") && backend.uses("port"));
    assert!(
        is_backend_name("db-1_a")
            && !is_backend_name("1")
            && !is_backend_name("a.b")
            && !is_backend_name("")
            && !is_backend_name("a}")
    );
}

#[test]
fn backend_without_port_needs_ready_command() {
    let (_root, folder) = write_subject(GOOD);
    let read = |text: &str| {
        std::fs::write(folder.join("backend.toml"), text).unwrap();
        Definition::read_as(&folder, Role::Backend).map_err(|error| error.to_string())
    };
    let message = read("[start]\ncommand = [\"x\"]\n").unwrap_err();
    assert!(message.contains("use {port} or `port` in [start]"), "{message}");
    read("[start]\ncommand = [\"x\"]\nport = 5432\n").unwrap();
    read("[start]\ncommand = [\"x\"]\n[ready]\ncommand = \"true\"\n").unwrap();
}

#[test]
fn refusing_subject_with_checks_fails() {
    let read = |rest: &str| {
        let text = format!("language = \"C\"\nprotocols = [\"h1\"]\nrefuses = true\n{rest}");
        Definition::read(&write_subject(&text).1).map_err(|error| error.to_string())
    };
    let start = "[start]\ncommand = [\"x\"]\n";
    assert!(read(&format!("{start}[ready]\ncommand = \"true\"\n")).unwrap().refuses);
    let message = read(start).unwrap_err();
    assert!(message.contains("add a `command` to [ready]"), "{message}");
    let message = read(&format!("checks = [\"hello\"]\n{start}")).unwrap_err();
    assert!(
        message.contains("remove `checks`") && message.contains("add a `command` to [ready]"),
        "{message}"
    );
}

#[test]
fn waive_accepts_names_of_checks_only() {
    let waive = |names: &str| GOOD.replace("[start]", &format!("waive = {names}\n[start]"));
    assert_eq!(
        Definition::read(&write_subject(&waive("[\"HEAD has no body\"]")).1).unwrap().waive,
        ["HEAD has no body"]
    );
    let error = Definition::read(&write_subject(&waive("[\"HEAD has a body\"]")).1)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains(":6:10: ") && error.contains("did you mean \"HEAD has no body\"?"),
        "{error}"
    );
}

#[test]
fn mistake_in_contract_has_position_in_its_file() {
    let (_root, folder) = write_subject(&GOOD.replace("\"hello\"", "\"own\""));
    std::fs::create_dir(folder.join("contracts")).unwrap();
    std::fs::write(folder.join("contracts/own.toml"), "[[checks]]\nname = \"a\"\npaht = \"/\"\n")
        .unwrap();
    let error = Definition::read(&folder).unwrap_err();
    assert!(error.path.ends_with("contracts/own.toml"), "{error}");
    assert!(error.to_string().contains("own.toml:3:1: unknown key `paht`\n"), "{error}");
}

#[test]
fn unmet_need_has_name_and_hint() {
    let (_root, folder) = write_subject(&format!(
        "{GOOD}[[requires]]\nname = \"unobtainium\"\ntest = \"false\"\nhint = \"Dig deeper.\"\n"
    ));
    assert_eq!(
        unmet_need(&Definition::read(&folder).unwrap()).unwrap(),
        "unobtainium is missing. Dig deeper."
    );
}

#[test]
fn hanging_test_is_unmet_need() {
    let (_root, folder) = write_subject(&format!(
        "{GOOD}[[requires]]\nname = \"tool\"\ntest = \"setsid sleep 1000\"\nhint = \"Fix \
         it.\"\ndeadline = \"100ms\"\n"
    ));
    assert_eq!(
        unmet_need(&Definition::read(&folder).unwrap()).unwrap(),
        "tool may be missing. The test `setsid sleep 1000` had not ended after 100 ms. Fix it."
    );
}

#[test]
fn invalid_path_or_text_fails_with_position() {
    let build = |inputs: &str| format!("{GOOD}[build]\ncommand = \"true\"\ninputs = [{inputs}]\n");
    let file = |file: &str| {
        GOOD.replace("\"{port}\"]\n", &format!("\"{{port}}\"]\nfiles = [{{ {file} }}]\n"))
    };
    for (source, line, expected) in [
        (build("\"a\", \"/etc/passwd\""), 13, "\"/etc/passwd\": is absolute"),
        (build("\"../y\""), 13, "\"../y\": leads out of the folder"),
        (build("\"a/../../y\""), 13, "leads out of the folder"),
        (file("template = \"/etc/shadow\", to = \"a\""), 8, "is absolute"),
        (file("template = \"../y\", to = \"a\""), 8, "leads out of the folder"),
        (file("template = \"y\", to = \"/etc/cron.d/y\""), 8, "is absolute"),
        (file("template = \"y\", to = \"{work}/../y\""), 8, "leads out of the folder"),
        (file("template = \"y\", to = \"{dir}/y\""), 8, "not a file in the working folder"),
        (file("template = \"y\", to = \"{work}\""), 8, "not a file in the working folder"),
        (file("template = \"y\", to = \"{work}/subject.log\""), 8, "this name is reserved"),
        (file("template = \"y\", to = \"./subject.log/a\""), 8, "this name is reserved"),
        (file("template = \"y\", to = \"dyno-runtime.cjs\""), 8, "this name is reserved"),
        (
            file("template = \"y\", to = \"a\" }, { template = \"y\", to = \"{work}/a/b\""),
            8,
            "or one contains the other",
        ),
        (file("template = \"y\", to = \"a\\u0000\""), 8, "NUL"),
        (GOOD.replace("\"{port}\"]\n", "\"{port}\", \"a\\u0000\"]\n"), 7, "has a NUL"),
        (format!("{GOOD}[start.env]\nX = \"a\\u0000b\"\n"), 12, "has a NUL"),
        (
            format!(
                "{GOOD}[stop]\n[[requires]]\nname = \"x\"\nhint = \"h\"\ntest = \"a\\u0000\"\n"
            ),
            15,
            "NUL",
        ),
        (
            format!("{GOOD}[variants.w]\nfiles = [{{ template = \"../y\", to = \"a\" }}]\n"),
            12,
            "leads out of the folder",
        ),
        (GOOD.replace("name = \"x\"", "name = \"../x\""), 1, "must be the name of its folder"),
    ] {
        let error = Definition::read(&write_subject(&source).1).unwrap_err().to_string();
        assert!(error.contains(expected), "{source}\n→ {error}");
        assert!(error.contains(&format!("subject.toml:{line}:")) && error.contains('^'), "{error}");
    }
    let good = file("template = \"y\", to = \"{work}/conf/{port}.conf\"");
    let definition = Definition::read(&write_subject(&good).1).unwrap();
    let target = definition.start.files[0]
        .to
        .fill(&Placeholders(vec![("port".into(), "80".into())]))
        .unwrap();
    assert_eq!(target.path(), Path::new("conf/80.conf"));
}

#[test]
fn fingerprint_changes_only_with_start() {
    let (_root, folder) = write_subject(GOOD);
    let fingerprint = || Definition::read(&folder).unwrap().fingerprint().unwrap();
    let first = fingerprint();
    let change = |source: &str| std::fs::write(folder.join("subject.toml"), source).unwrap();
    change(&format!("# a comment\n{GOOD}[variants.slow]\n"));
    std::fs::write(folder.join("notes"), "1").unwrap();
    assert_eq!(fingerprint(), first);
    change(&GOOD.replace("\"{port}\"", "\"{port}\", \"--fast\""));
    assert_ne!(fingerprint(), first);
    change(&GOOD.replace("\"{port}\"", "\"{dir}/notes\""));
    let second = fingerprint();
    std::fs::write(folder.join("notes"), "2").unwrap();
    assert_ne!(fingerprint(), second);
}

#[test]
fn template_that_is_pipe_is_not_read() {
    let (_root, folder) =
        write_subject(&GOOD.replace(
            "\"{port}\"]\n",
            "\"{port}\"]\nfiles = [{ template = \"pipe\", to = \"a\" }]\n",
        ));
    crate::pipe::make_pipe(folder.join("pipe"));
    let definition = Definition::read(&folder).unwrap();
    assert!(!definition.uses("cpus"));
    assert!(definition.fingerprint().unwrap_err().to_string().contains("is not a regular file"));
}
