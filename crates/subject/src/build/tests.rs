//! Tests of builds with small shell commands.

use dyno_config::relative_path::RelativePath;

use super::*;

use dyno_launch::guard::Guard;
use dyno_launch::supervision::Interrupts;

fn subject(root: &Path, command: &str) -> Definition {
    let folder = root.join("x");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("in.txt"), "1").unwrap();
    let source = format!(
        "name = \"x\"\ntitle = \"X\"\nlanguage = \"C\"\nprotocols = [\"h1\"]\n[build]\ncommand \
         = '''{command}'''\ninputs = [\"in.txt\"]\n[start]\ncommand = [\"x\"]\n"
    );
    fs::write(folder.join("subject.toml"), source).unwrap();
    Definition::read(&folder).unwrap()
}

fn build(definition: &Definition, cache: &Path) -> Result<Built, String> {
    // The guard of a test is this test program, which ends immediately with the unknown argument.
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    super::build(
        definition,
        cache,
        &Supervision { guard: &guard, interrupts: &interrupts },
        &mut |_| {},
    )
}

#[test]
fn build_runs_once_per_content_of_inputs() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let definition = subject(root.path(), "cp in.txt {out}/result; date +%N >> {out}/stamp");
    let first = build(&definition, &cache).unwrap();
    assert_eq!(fs::read_to_string(first.out.join("result")).unwrap(), "1");
    let record = first.build.unwrap();
    assert!(!record.cached && record.wall_ns > 0 && record.artefact_bytes > 1);
    assert!(build(&definition, &cache).unwrap().build.unwrap().cached);
    fs::write(definition.folder.join("in.txt"), "2").unwrap();
    let changed = build(&definition, &cache).unwrap();
    assert!(!changed.build.unwrap().cached);
    assert_eq!(fs::read_to_string(changed.out.join("result")).unwrap(), "2");
}

#[test]
fn build_with_other_outside_file_has_other_hash() {
    let root = tempfile::tempdir().unwrap();
    let outside = root.path().join("outside");
    let definition = subject(root.path(), &format!("cat {} > {{out}}/result", outside.display()));
    let artefact = |text: &str, cache: &str| {
        fs::write(&outside, text).unwrap();
        build(&definition, &root.path().join(cache)).unwrap().build.unwrap()
    };
    let first = artefact("one", "a");
    assert_eq!(artefact("one", "b").artefact, first.artefact);
    let other = artefact("two", "c");
    assert_eq!((&other.inputs, other.artefact_bytes), (&first.inputs, first.artefact_bytes));
    assert_ne!(other.artefact, first.artefact);
    let cached = artefact("three", "c");
    assert!(cached.cached && cached.artefact == other.artefact, "{cached:?}");
}

#[test]
fn artefact_hash_has_kinds_bits_and_targets() {
    let root = tempfile::tempdir().unwrap();
    let variants = [
        "true",
        "touch a",
        "touch a && chmod +x a",
        "touch b",
        "mkdir a",
        "mkdir a && touch a/b",
        "ln -s b a",
        "ln -s c a",
        "mkfifo a",
        "printf 1 > a",
    ];
    let hash = |(i, command): (usize, &&str)| {
        let folder = root.path().join(i.to_string());
        fs::create_dir(&folder).unwrap();
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", command]).current_dir(&folder).status().unwrap().success());
        Artefact::read(&folder).unwrap().hash().unwrap()
    };
    let hashes: std::collections::BTreeSet<String> =
        variants.iter().enumerate().map(hash).collect();
    assert_eq!(hashes.len(), variants.len());
}

#[test]
fn changed_or_lost_artefact_is_built_again() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let command = "cp in.txt {out}/server; mkdir {out}/lib; ln -s a {out}/lib/b; echo 1 > \
                   {out}/data.db; chmod +x {out}/server";
    let definition = subject(root.path(), command);
    let mut first = build(&definition, &cache).unwrap();
    let out = first.out.clone();
    let damage = |command: &str| {
        let mut shell = std::process::Command::new("sh");
        assert!(shell.args(["-c", command]).current_dir(&out).status().unwrap().success());
    };
    let damages = [
        ("printf 2 > server", "server"),
        // The length and the modification time are those of the build.
        ("cp -p server t; printf 3 > server; touch -r t server; rm t", "server"),
        ("chmod -x server", "server"),
        ("rm server", "server"),
        ("rm server; mkdir server", "server"),
        ("ln -sfn c lib/b", "lib/b"),
        ("rm -r lib", "lib"),
        ("rm data.db", "data.db"),
        ("rm -r \"$PWD\"", ""),
    ];
    for (command, name) in damages {
        assert_eq!(first.check_artefacts(), Ok(vec![]), "{command}");
        damage(command);
        assert_eq!(first.check_artefacts(), Err(first.out.join(name)), "{command}");
        // As in another process: the artefacts are in use, so their folder is not removed.
        let error = build(&definition, &cache).unwrap_err();
        assert!(error.contains("another dyno process uses"), "{command}: {error}");
        let before = first.build.clone().unwrap();
        drop(first);
        first = build(&definition, &cache).unwrap();
        let record = first.build.as_ref().unwrap();
        assert_eq!((record.cached, &record.artefact), (false, &before.artefact), "{command}");
    }
}

#[test]
fn files_that_server_writes_cause_no_build() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let definition = subject(root.path(), "cp in.txt {out}/server; echo 1 > {out}/data.db");
    let first = build(&definition, &cache).unwrap();
    for name in ["data.db", "access.log", "cache.json"] {
        fs::write(first.out.join(name), "written by the server").unwrap();
    }
    fs::create_dir(first.out.join("sessions")).unwrap();
    // A copy of the cache has other stamps, and the same contents.
    fs::copy(first.out.join("server"), first.out.join("copy.tmp")).unwrap();
    fs::rename(first.out.join("copy.tmp"), first.out.join("server")).unwrap();
    assert_eq!(first.check_artefacts(), Ok(vec!["cache.json".into()]));
    assert!(build(&definition, &cache).unwrap().build.unwrap().cached);
}

/// Builds while an input changes during the first `changes` copies.
fn build_with_changing_input(
    definition: &Definition,
    cache: &Path,
    changes: usize,
) -> Result<Built, String> {
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let (mut reads, path) = (0, definition.folder.join("in.txt"));
    let mut read = |input: &FolderEntry| {
        let bytes = read_input(input);
        reads += 1;
        // Reads alternate between the key and the copy.
        if reads % 2 == 1 && reads / 2 < changes {
            fs::write(&path, format!("later {reads}")).unwrap();
        }
        bytes
    };
    let spec = definition.build.as_ref().unwrap();
    Recipe { definition, spec, supervision: &supervision, read: &mut read, on_line: &mut |_| {} }
        .build(cache)
}

#[test]
fn build_with_changing_input_has_key_of_copies() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let definition = subject(root.path(), "cp in.txt {out}/result");
    let built = build_with_changing_input(&definition, &cache, 2).unwrap();
    assert_eq!(fs::read_to_string(built.out.join("result")).unwrap(), "later 3");
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let key = input_key(&definition, definition.build.as_ref().unwrap(), &supervision).unwrap();
    let record = built.build.unwrap();
    assert_eq!((record.inputs, record.portable_inputs), (key.all, key.portable));
    fs::write(definition.folder.join("in.txt"), "1").unwrap();
    // The contents of the first copy have another key, so they are built now.
    let rebuilt = build_with_changing_input(&definition, &cache, 0).unwrap();
    assert_eq!(fs::read_to_string(rebuilt.out.join("result")).unwrap(), "1");

    let error = build_with_changing_input(&definition, &cache.join("other"), COPIES).unwrap_err();
    assert!(error.contains("changed while dyno copied them"), "{error}");
}

#[test]
fn build_waiting_for_lock_ends_at_interrupt() {
    let root = tempfile::tempdir().unwrap();
    let definition = subject(root.path(), "true");
    let cache = root.path().join("cache");
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let _lock = lock(&cache.join("x"), &supervision).unwrap();
    interrupts.raise();
    assert_eq!(
        super::build(&definition, &cache, &supervision, &mut |_| {}).unwrap_err(),
        INTERRUPTED
    );
}

#[test]
fn cache_folder_is_shared_by_builds_of_subject() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let command = "echo $KEPT; date +%N >> {cache}/stamps; cp {cache}/stamps {out}/";
    let mut definition = subject(root.path(), command);
    definition.build.as_mut().unwrap().env.insert("KEPT".into(), "kept at {cache}".into());
    let mut lines = Vec::new();
    for n in 1..=2 {
        fs::write(definition.folder.join("in.txt"), n.to_string()).unwrap();
        let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
        let supervision = Supervision { guard: &guard, interrupts: &interrupts };
        let built = super::build(&definition, &cache, &supervision, &mut |line| {
            lines.push(line.to_string());
        })
        .unwrap();
        assert_eq!(fs::read_to_string(built.out.join("stamps")).unwrap().lines().count(), n);
    }
    let line =
        format!("kept at {}", cache.join(format!("x/kept-{}", folder_key(&definition))).display());
    assert_eq!(lines, [line.clone(), line]);
}

#[test]
fn removed_caches_include_failed_build_of_own_folder() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    for ending in ["", "; exit 1"] {
        let definition = subject(root.path(), &format!("cp {{dir}}/in.txt {{out}}/{ending}"));
        let built = build(&definition, &cache);
        assert_eq!(built.is_ok(), ending.is_empty(), "{built:?}");
        remove_caches(&definition, &cache);
        let left = fs::read_dir(cache.join("x")).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.collect::<Vec<_>>(), ["lock"]);
    }
}

#[test]
fn subjects_without_build_have_separate_folders() {
    let root = tempfile::tempdir().unwrap();
    let definition = Definition { build: None, ..subject(root.path(), "true") };
    let other = Definition { name: "y".into(), ..definition.clone() };
    let [first, second] = [&definition, &other].map(|d| build(d, root.path()).unwrap().out);
    assert!(first.is_dir() && second.is_dir() && first != second);
}

#[test]
fn input_key_includes_empty_folder() {
    let root = tempfile::tempdir().unwrap();
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let mut definition = subject(root.path(), "true");
    definition.build.as_mut().unwrap().inputs = vec![RelativePath::parse(".").unwrap()];
    let key = || input_key(&definition, definition.build.as_ref().unwrap(), &supervision).unwrap();
    let without = key();
    fs::create_dir(definition.folder.join("empty")).unwrap();
    assert_ne!(key(), without);
}

#[test]
fn input_key_includes_folder_of_dir_placeholder() {
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let key = |root: &Path, command: &str| {
        let definition = subject(root, command);
        input_key(&definition, definition.build.as_ref().unwrap(), &supervision).unwrap()
    };
    let command = "cp {dir}/server {out}/";
    assert_eq!(key(root.path(), "true"), key(other.path(), "true"));
    let before = key(root.path(), command);
    let elsewhere = key(other.path(), command);
    assert_ne!(before.all, elsewhere.all);
    assert_eq!(before.portable, elsewhere.portable);
    fs::write(subject(root.path(), command).folder.join("server"), "new").unwrap();
    let changed = key(root.path(), command);
    assert!(before.all != changed.all && before.portable != changed.portable);
}

#[test]
fn version_command_has_env_of_build() {
    let root = tempfile::tempdir().unwrap();
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let mut definition = subject(root.path(), "true");
    definition.build.as_mut().unwrap().env.insert("TOOLCHAIN".into(), "2".into());
    definition.version = Some(crate::definition::CommandSpec {
        command: "echo v${TOOLCHAIN:-none}".into(),
        deadline: dyno_config::units::Nanoseconds(60_000_000_000),
    });
    assert_eq!(version(&definition, root.path(), &supervision).as_deref(), Some("v2"));
}

#[test]
fn input_key_includes_environment_and_modes() {
    use std::os::unix::fs::PermissionsExt as _;
    let root = tempfile::tempdir().unwrap();
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let mut definition = subject(root.path(), "true");
    let key = |definition: &Definition| {
        input_key(definition, definition.build.as_ref().unwrap(), &supervision).unwrap()
    };
    let plain = key(&definition);
    assert_eq!(plain, key(&definition));
    let input = definition.folder.join("in.txt");
    fs::set_permissions(&input, fs::Permissions::from_mode(0o755)).unwrap();
    let executable = key(&definition);
    definition.build.as_mut().unwrap().env.insert("CFLAGS".into(), "-O1".into());
    let flags = key(&definition);
    for pick in [|key: &InputKey| key.all.clone(), |key: &InputKey| key.portable.clone()] {
        let keys = [pick(&plain), pick(&executable), pick(&flags)];
        assert!(keys[0] != keys[1] && keys[1] != keys[2] && keys[0] != keys[2], "{keys:?}");
    }
}

#[test]
fn portable_key_excludes_possible_secrets() {
    let root = tempfile::tempdir().unwrap();
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    let supervision = Supervision { guard: &guard, interrupts: &interrupts };
    let mut definition = subject(root.path(), "true");
    let mut key = |name: &str, value: &str| {
        definition.build.as_mut().unwrap().env = [(name.into(), value.into())].into();
        input_key(&definition, definition.build.as_ref().unwrap(), &supervision).unwrap()
    };
    for (name, is_portable) in [("REGISTRY_AUTH", false), ("DB_PASSWORD", false), ("LEVEL", true)] {
        let (one, two) = (key(name, "1"), key(name, "2"));
        assert_ne!(one.all, two.all, "{name}");
        assert_eq!(one.portable != two.portable, is_portable, "{name}");
    }
}

#[test]
fn build_writes_to_copies_of_inputs() {
    let root = tempfile::tempdir().unwrap();
    let mut definition =
        subject(root.path(), "cp tool sub/b {out}/; echo 2 > in.txt; chmod +x in.txt");
    let folder = definition.folder.clone();
    fs::create_dir(folder.join("sub")).unwrap();
    fs::write(folder.join("sub/a"), "3").unwrap();
    fs::write(folder.join("tool"), "4").unwrap();
    std::os::unix::fs::symlink("a", folder.join("sub/b")).unwrap();
    let inputs =
        ["in.txt", "sub/../tool", "./sub", "sub/b"].map(|i| RelativePath::parse(i).unwrap());
    definition.build.as_mut().unwrap().inputs = inputs.into();
    let built = build(&definition, &root.path().join("cache")).unwrap();
    assert_eq!(fs::read_to_string(built.out.join("b")).unwrap(), "3");
    assert_eq!(fs::read_to_string(built.out.join("tool")).unwrap(), "4");
    assert_eq!(fs::read_to_string(folder.join("in.txt")).unwrap(), "1");
    // A link that leads out of the subject's folder is refused, by name.
    fs::write(root.path().join("mine"), "5").unwrap();
    std::os::unix::fs::symlink("../../mine", folder.join("sub/c")).unwrap();
    let error = build(&definition, &root.path().join("cache")).unwrap_err();
    assert!(error.contains("sub/c: is a link that leads out"), "{error}");
}

#[test]
fn build_environment_is_minimal_and_recorded() {
    let root = tempfile::tempdir().unwrap();
    let definition = subject(root.path(), "env > {out}/env");
    let built = build(&definition, &root.path().join("cache")).unwrap();
    let output = fs::read_to_string(built.out.join("env")).unwrap();
    // Cargo sets this variable for this test, and builds must not inherit it.
    assert!(std::env::var_os("CARGO_MANIFEST_DIR").is_some());
    assert!(!output.contains("CARGO_MANIFEST_DIR="), "{output}");
    assert!(output.contains("PATH=") && output.contains("LANG=C.UTF-8"), "{output}");
    let recorded = built.build.unwrap().environment;
    assert_eq!(recorded["LANG"], "C.UTF-8");
    let names: Vec<&str> = output.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
    // Variables that shells and dyno itself add.
    let added = ["PWD", "OLDPWD", "SHLVL", "_", "DYNO_START"];
    let unknown: Vec<_> =
        names.iter().filter(|n| !added.contains(n) && !recorded.contains_key(**n)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn build_at_deadline_fails_and_is_killed() {
    let root = tempfile::tempdir().unwrap();
    let mut definition = subject(root.path(), "echo so far; setsid sleep 97531; true");
    definition.build.as_mut().unwrap().deadline = dyno_config::units::Nanoseconds(200_000_000);
    let error = build(&definition, &root.path().join("cache")).unwrap_err();
    assert!(error.contains("had not ended after 200 ms") && error.contains("so far"), "{error}");
    let command_line = |pid| fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let is_left = |pid| command_line(pid).starts_with(b"sleep\x0097531");
    assert!(!dyno_observer::proc::all_pids().into_iter().any(is_left));
}

#[test]
fn failed_build_error_has_output_and_is_not_cached() {
    let root = tempfile::tempdir().unwrap();
    let cache = root.path().join("cache");
    let definition = subject(root.path(), "echo no such luck; exit 3");
    for _ in 0..2 {
        let error = build(&definition, &cache).unwrap_err();
        assert!(error.contains("no such luck") && error.contains("exit status: 3"), "{error}");
    }
}

/// A full disk or a kill must not lose the receipt, and with it the build.
#[test]
fn receipt_is_replaced_as_whole_file() {
    let root = tempfile::tempdir().unwrap();
    let folder = BuildFolder(root.path().to_path_buf());
    let receipt = |wall_ns| Receipt {
        wall_ns,
        cpu_ns: 1,
        artefact: Artefact::default(),
        environment: BTreeMap::new(),
    };
    folder.write_receipt(&receipt(1)).unwrap();
    let old = fs::File::open(folder.receipt()).unwrap();
    folder.write_receipt(&receipt(2)).unwrap();
    assert_eq!(read_receipt(&folder.receipt()).unwrap().wall_ns, 2);
    assert!(io::read_to_string(old).unwrap().contains("\"wall_ns\":1"), "not overwritten");
}
