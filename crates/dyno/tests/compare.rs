//! Tests `dyno compare` with stored archives.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dyno_archive::RunDir;
use dyno_model::RunId;

fn stored_folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).join("run")
}

fn compare(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_dyno")).arg("compare").args(words).output().unwrap()
}

/// Runs `dyno compare`. Returns its status, standard output and standard error.
fn run_compare(words: &[&str]) -> (i32, String, String) {
    let output = compare(words);
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// Returns a copy of an archive with a changed header.
fn with_header(
    folder: &Path,
    name: &str,
    change: impl FnOnce(&mut dyno_model::run::RunHeader),
) -> String {
    let to = folder.join(name);
    let copied =
        Command::new("cp").arg("-r").arg(stored_folder("hello")).arg(&to).status().unwrap();
    assert!(copied.success());
    let mut header = RunDir::open(&to).unwrap().read().unwrap().header;
    header.id = name.into();
    let bits = name.bytes().fold(0, |bits, byte| bits << 8 | u64::from(byte));
    header.run_id = RunId::from_bits(0, bits);
    change(&mut header);
    std::fs::write(to.join("run.json"), serde_json::to_string(&header).unwrap()).unwrap();
    to.display().to_string()
}

#[test]
fn compare_two_subjects_of_one_run() {
    let run = stored_folder("hello").display().to_string();
    let (a, b) = (format!("{run}:slow"), format!("{run}:fast"));
    let (status, text, _) = run_compare(&[&a, &b]);
    assert_eq!(status, 0);
    assert!(text.contains("slow → fast"), "{text}");
    assert!(text.contains("too few repeats (3 and 3): a verdict needs 5 of each side"), "{text}");
    // An undecided gate is a failure in the exit status and in the file for CI, unless the user
    // allows it.
    let gated = [&*a, &b, "--fail-on", "p99>+1%", "--format", "junit"];
    let reason =
        "message=\"not compared: the value is unknown in some valid repeats (3 of A and 0 of B)";
    let (status, xml, error) = run_compare(&gated);
    assert_eq!(status, 3);
    assert!(xml.contains("failures=\"0\" errors=\"2\" skipped=\"0\""), "{xml}");
    assert!(xml.contains(&format!("<error {reason}")), "{xml}");
    assert!(
        error.contains("2 of 2 gates (conditions of --fail-on) are undecided")
            && error.contains("hint: "),
        "{error}"
    );
    let (status, xml, error) = run_compare(&[&gated[..], &["--undecided", "pass"]].concat());
    assert_eq!((status, &*error), (0, ""));
    assert!(xml.contains("failures=\"0\" errors=\"0\" skipped=\"2\""), "{xml}");
    assert!(xml.contains(&format!("<skipped {reason}")), "{xml}");
    let (_, json, _) = run_compare(&[&a, &b, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["schema"], &json["paired"]), (&"dyno.compare/1".into(), &true.into()));
    assert!(json["rows"][0]["ratio_of_medians"].as_f64().unwrap() > 1.0, "{json:#}");
}

#[test]
fn compare_invalid_selection_fails_with_hint() {
    let run = stored_folder("hello").display().to_string();
    let place = tempfile::tempdir().unwrap();
    let other = with_header(place.path(), "other", |header| {
        for arm in &mut header.plan.arms {
            arm.name.push_str(" of old");
        }
    });
    for (words, wanted) in [
        (vec![&*run, &*run], "hint: name two subjects of the run, such as"),
        (vec![&*run, "nowhere"], "nowhere"),
        (vec![&*run, &*other], "no subject was measured under the same name"),
        (vec![&*run, &*other, "--fail-on", "p99"], "not a gate"),
        (vec![&*run, &*other, "--same-within", "2"], "write it like `2%`"),
    ] {
        let (status, out, error) = run_compare(&words);
        assert_eq!((status, &*out), (2, ""), "{words:?}: {error}");
        assert!(error.contains(wanted), "{words:?}: {error}");
    }
    let (status, _, error) = run_compare(&[&format!("{run}:foo"), &format!("{run}:slow")]);
    assert_eq!(status, 2);
    assert!(error.contains("has no subject \"foo\"\nhint: choose one of fast, slow"), "{error}");
}

#[test]
fn compare_notes_ids_that_differ() {
    let place = tempfile::tempdir().unwrap();
    let version = |name: &str, definition: &str, cpu_model: &str| {
        with_header(place.path(), name, |header| {
            header.plan.subjects[0].definition = Some(definition.into());
            header.facts.cpu_model = Some(cpu_model.into());
        })
    };
    let before = version("before", "1", "one");
    let (status, text, error) = run_compare(&[&before, &version("after", "2", "one")]);
    assert_eq!(status, 0, "{error}");
    assert!(text.contains("fast: A and B measured different versions ("), "{text}");
    assert!(!text.contains("different machines"), "{text}");
    let other_machine = version("other", "1", "two");
    let (status, text, _) = run_compare(&[&before, &other_machine, "--anyway"]);
    assert_eq!(status, 0);
    assert!(text.contains("A and B were measured on different machines ("), "{text}");
    assert!(text.contains("CPU model differs") && !text.contains("different versions"), "{text}");
}

#[test]
fn compare_runs_with_different_settings_fails() {
    let place = tempfile::tempdir().unwrap();
    let before = with_header(place.path(), "before", |_| {});
    let after = with_header(place.path(), "after", |header| {
        header.facts.kernel = Some("9.9".into());
        header.plan.load.duration_ns += 1;
    });
    let (status, out, error) = run_compare(&[&before, &after]);
    assert_eq!((status, &*out), (2, ""), "{error}");
    assert!(error.contains("machine.kernel: ") && error.contains("and 9.9"), "{error}");
    assert!(error.contains("load.duration_ns: ") && error.contains("--anyway"), "{error}");
    let (status, text, _) = run_compare(&[&before, &after, "--anyway"]);
    assert_eq!(status, 0);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("Throughput")).collect();
    assert!(!rows.is_empty());
    assert!(
        rows.iter().all(|row| row.contains("though the sides also differ in machine.kernel")),
        "{text}"
    );
    // Runs with different versions of a server can be compared.
    let newer = with_header(place.path(), "newer", |header| {
        header.plan.subjects[0].version = Some("2.0".into());
        header.started = "2026-01-03T03:04:05Z".into();
    });
    let (status, text, error) = run_compare(&[&before, &newer]);
    assert_eq!(status, 0, "{error}");
    assert!(text.contains("were made at different times"), "{text}");
}

/// Trial files that were removed are reported in every format.
#[test]
fn removed_trial_is_reported_in_every_format() {
    let place = tempfile::tempdir().unwrap();
    let run = with_header(place.path(), "removed", |_| {});
    let archive = RunDir::open(Path::new(&run)).unwrap().read().unwrap();
    let plan = &archive.header.plan;
    let arm = plan.arms.iter().position(|arm| arm.name == "fast").unwrap();
    let removed =
        archive.trials.iter().find(|trial| plan.trials[trial.trial].arm == arm).unwrap().trial;
    std::fs::remove_file(Path::new(&run).join(format!("trials/{removed:04}.json"))).unwrap();
    let (a, b) = (format!("{run}:slow"), format!("{run}:fast"));
    let message = "1 of 3 repeats of B are excluded (no record in the archive: 1)";
    for format in ["text", "md", "html", "junit", "json"] {
        for gates in [&[][..], &["--fail-on", "throughput<-90%"]] {
            let (status, out, _) =
                run_compare(&[&[&*a, &b, "--format", format][..], gates].concat());
            assert_eq!(status, if gates.is_empty() { 0 } else { 3 }, "{format}: {out}");
            assert!(out.contains(message), "{format}: {out}");
            assert!(out.contains("lacks 1 planned repeats"), "{format}: {out}");
        }
    }
    let (_, json, _) = run_compare(&[&a, &b, "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let cells = json["repeats"].as_array().unwrap();
    let has_lost = |cell: &&serde_json::Value| cell["b"]["counted"] != cell["b"]["planned"];
    let lost: Vec<&serde_json::Value> = cells.iter().filter(has_lost).collect();
    let [cell] = lost[..] else { panic!("{lost:?}") };
    assert_eq!((&cell["b"]["planned"], &cell["b"]["counted"]), (&3.into(), &2.into()));
    assert_eq!(cell["b"]["not_counted"][0]["cause"], "no_record");
}
