//! Tests which subjects the commands choose, and how they treat subjects with mistakes.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command as Program;

use dyno_launch::supervision::{Interrupts, Supervision};
use dyno_subject::definition::prerequisites::Prerequisites;

use super::*;
use crate::cli::{Cli, Command};
use crate::exit::exit_status;
use crate::terminal::Printer;

/// A folder with subjects and back ends.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Writes the file of a subject or of a back end.
    fn write(&self, file: &str, toml: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, toml).unwrap();
    }

    /// Chooses subjects, as `dyno subjects` with these words does. `words` name folders of
    /// subjects below this one after `--subjects`.
    fn choose(&self, words: &[&str]) -> anyhow::Result<ChosenSubjects> {
        choose(&self.parse(words))
    }

    fn parse(&self, words: &[&str]) -> SubjectsArgs {
        let mut is_folder = false;
        let word = |word: &&str| {
            let path = is_folder.then(|| self.path().join(word).into_os_string());
            is_folder = *word == "--subjects";
            path.unwrap_or_else(|| OsString::from(word))
        };
        let words = ["dyno", "subjects"].iter().chain(words).map(word).collect::<Vec<_>>();
        let Command::Subjects(args) = Cli::read(&words).unwrap().command else { panic!() };
        args
    }
}

/// Returns a subject with these additional lines, which begin with keys of its start.
fn subject(language: &str, more: &str) -> String {
    format!(
        "language = {language:?}\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\", \"{{port}}\"]\n\
         {more}"
    )
}

fn ids(chosen: &ChosenSubjects) -> Vec<&str> {
    chosen.subjects.iter().map(|subject| subject.id.as_str()).collect()
}

/// Calls a function with a supervision, whose guard is this test program.
fn supervised<T>(work: impl FnOnce(&Supervision<'_>) -> T) -> T {
    let (guard, interrupts) = (Guard::start().unwrap(), Interrupts::new());
    work(&Supervision { guard: &guard, interrupts: &interrupts })
}

#[test]
fn mistake_in_subject_does_not_affect_others() {
    let folder = Folder::new();
    let bad = "languag = \"C\"\nprotocols = [\"h4\"]\n[start]\ncommand = [\"x\", \"{prot}\"]\n";
    folder.write("mine/bad/subject.toml", bad);
    let both = folder.choose(&["list", "null", "bad", "--subjects", "mine"]).unwrap();
    let [(name, error)] = both.mistakes.as_slice() else { panic!("{:?}", both.mistakes) };
    for part in ["unknown key `languag`", "unknown value `h4`", "did you mean {port}?"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
    assert_eq!((name.as_str(), both.print_mistakes()), ("bad", Exit::Usage));
    let table = supervised(|supervision| list::table(&both, &Prerequisites::new(supervision)));
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(row("null ").ends_with(" yes"), "{table}");
    assert!(row("bad ").contains("no: unknown key `languag`"), "{table}");
    for (name, exit) in [("null", Exit::Valid), ("bad", Exit::Usage)] {
        let chosen = folder.choose(&["check", name, "--subjects", "mine"]).unwrap();
        assert_eq!(chosen.print_mistakes(), exit, "{name}");
    }
}

#[test]
fn subjects_are_found_in_several_folders_and_built_in() {
    let folder = Folder::new();
    folder.write("mine/one/subject.toml", &subject("Rust", ""));
    folder.write("yours/two/subject.toml", &subject("Rust", ""));
    // The first of two subjects with the same name is used.
    folder.write("yours/one/subject.toml", &subject("C", ""));
    let both = ["--subjects", "mine", "--subjects", "yours"];
    // The position of the option makes no difference.
    for words in [[&["list"], &both[..]].concat(), [&both[..], &["list"]].concat()] {
        let listed = folder.choose(&words).unwrap();
        let language = |name| {
            let found = listed.subjects.iter().find(|subject| subject.id == name);
            found.map(|subject| subject.definition.language.as_str())
        };
        assert_eq!(["one", "two"].map(language), [Some("Rust"); 2]);
        assert!(language("null").is_some());
    }
    let chosen = |more: &[&str]| folder.choose(&[&both[..], &["build"], more].concat());
    assert_eq!(ids(&chosen(&["--all"]).unwrap()), ["one", "two"]);
    assert_eq!(ids(&chosen(&["--all", "--except", "two"]).unwrap()), ["one"]);
    let error = chosen(&["--all", "--except", "twoo"]).err().unwrap();
    assert_eq!(error.to_string(), "subject \"twoo\": not found\nhint: did you mean \"two\"?");
}

/// Builds subjects with these names. Returns the exit status, and the printed rows.
fn build(folder: &Folder, words: &[&str]) -> (Option<Exit>, Vec<String>) {
    let words = [&["build", "--subjects", "mine"], words].concat();
    let (chosen, mut rows) = (folder.choose(&words).unwrap(), Vec::new());
    let cache = folder.path().join("cache");
    let exit = supervised(|supervision| {
        build::build_all(&chosen, &cache, supervision, &mut |id, result| {
            rows.push(format!("{id}: {result}"));
        })
    });
    (exit, rows)
}

#[test]
fn failed_build_reports_exit_and_output() {
    let folder = Folder::new();
    let command = "[build]\ncommand = \"echo far away; exit 7\"\ninputs = []\n";
    folder.write("mine/broken/subject.toml", &subject("C", command));
    let (exit, rows) = build(&folder, &["broken"]);
    assert_eq!((exit, rows.len()), (Some(Exit::Failed), 1));
    assert!(rows[0].starts_with("broken: build failed: "), "{rows:?}");
    assert!(rows[0].contains("exit status: 7") && rows[0].contains("far away"), "{rows:?}");
}

#[test]
fn skipped_subject_fails_only_if_named() {
    let folder = Folder::new();
    let variant = "[variants.more]\ntitle = \"More\"\n[[variants.more.requires]]\nname = \"moon\"\n\
                   test = \"false\"\nhint = \"Get it.\"\n";
    folder.write("mine/tool/subject.toml", &subject("C", variant));
    let (exit, rows) = build(&folder, &["tool"]);
    let expected = ["tool: needs no build", "tool/more: skipped: moon is missing. Get it."];
    assert_eq!((exit, rows), (Some(Exit::Failed), expected.map(String::from).into()));
    for words in [&["tool", "--except", "tool/more"][..], &[]] {
        assert_eq!(build(&folder, words).0, Some(Exit::Valid), "{words:?}");
    }
}

/// Returns the row and the exit status of `dyno subjects check` for a subject that does not start.
fn check(folder: &Folder, words: &[&str]) -> (String, Exit) {
    let chosen = folder.choose(&[&["check", "--subjects", "mine"], words].concat()).unwrap();
    let [subject] = chosen.subjects.as_slice() else { panic!("one subject") };
    let cache = folder.path().join("cache");
    fs::create_dir_all(&cache).unwrap();
    // A printer that has failed prints nothing.
    let mut printer = Printer::default();
    printer.print(|| Err(anyhow::anyhow!("no output")));
    let outcome = supervised(|supervision| {
        let prerequisites = Prerequisites::new(supervision);
        check::check(&chosen, subject, &cache, &prerequisites, supervision, &mut printer)
    });
    let outcome = outcome.unwrap();
    (outcome.row(&subject.definition), outcome.exit(&chosen))
}

/// Without names, only subjects whose needs are not met may be left out.
#[test]
fn check_of_subject_with_unusable_back_end_fails() {
    let folder = Folder::new();
    let backends = subject("C", "").replace("[start]", "backends = [\"db\"]\n[start]");
    folder.write("mine/behind/subject.toml", &backends);
    for (backend, row, exit) in [
        (
            "[build]\ncommand = \"echo no such type; exit 1\"\ninputs = []\n[start]\n\
             command = [\"x\", \"{port}\"]\n",
            "back end db: ",
            Exit::Failed,
        ),
        ("[start]\ncommand = [\"x\", \"{db.port}\", \"{port}\"]\n", "in a circle", Exit::Usage),
    ] {
        folder.write("backends/db/backend.toml", backend);
        for names in [&["behind"][..], &[]] {
            let (printed, status) = check(&folder, names);
            assert!(printed.contains(row) && status == exit, "{printed}");
        }
    }
}

/// Imports a server of TechEmpower from a folder. Returns the remaining work.
fn import(folder: &Folder, words: &[&str]) -> anyhow::Result<String> {
    let server = folder.path().join("quick");
    let import = ["import", "techempower", server.to_str().unwrap()];
    let args = folder.parse(&[&import, words].concat());
    let Some(SubjectsCommand::Import(args)) = &args.command else { panic!() };
    import::draft(args)
}

#[test]
fn import_runs_nothing_and_lists_steps() {
    let folder = Folder::new();
    let config = r#"{"framework": "quick", "tests": [{"default": {"plaintext_url": "/plaintext",
        "json_url": "/json", "port": "8080", "language": "C", "display_name": "Quick"}}]}"#;
    folder.write("quick/benchmark_config.json", config);
    let pwned = folder.path().join("pwned");
    let docker = format!(
        "FROM gcc\nRUN gcc -wrapper sh,-c,'touch {pwned}' x.c\nRUN MAKEFLAGS=--eval='$(shell touch \
         {pwned})' \\\n    make\nCMD touch {pwned}\n",
        pwned = pwned.display()
    );
    folder.write("quick/quick.dockerfile", &docker);
    folder.write("quick/x.c", "int main(void) { return 0; }\n");
    let steps = import(&folder, &[]).unwrap();
    for line in docker.lines() {
        assert!(steps.contains(line), "{line}: {steps}");
    }
    let error = import(&folder, &[]).unwrap_err();
    assert_eq!(exit_status(&error), Exit::Usage);
    assert!(error.to_string().ends_with("hint: replace the file with --force"), "{error}");
    import(&folder, &["--force"]).unwrap();
    // The draft cannot be built or started.
    let chosen = folder.choose(&["check", "quick", "--subjects", "."]).unwrap();
    let missing = "the command that starts the server is missing";
    supervised(|supervision| {
        let reason = Prerequisites::new(supervision).unmet_need(&chosen.subjects[0].definition);
        assert!(reason.as_ref().is_some_and(|reason| reason.contains(missing)), "{reason:?}");
    });
    assert!(!pwned.exists());
}

#[test]
fn import_reads_files_of_its_folder_only() {
    let folder = Folder::new();
    let config = r#"{"framework": "quick", "tests": [{"default": {"json_url": "/json", "port": 1},
        "below": {"dockerfile": "sub/d"}}]}"#;
    folder.write("quick/benchmark_config.json", config);
    folder.write("elsewhere/d", "RUN secret\n");
    let quick = folder.path().join("quick");
    std::os::unix::fs::symlink("../elsewhere", quick.join("sub")).unwrap();
    let docker = quick.join("quick.dockerfile");
    let shell = |command: &str| {
        let _ = fs::remove_file(&docker);
        let status = Program::new("sh").args(["-c", command]).current_dir(&quick).status();
        assert!(status.unwrap().success(), "{command}");
    };
    for (command, test, text) in [
        ("ln -s /etc/passwd quick.dockerfile", "default", "quick.dockerfile: is a link"),
        ("mkfifo quick.dockerfile", "default", "is not a regular file"),
        ("truncate -s 1T quick.dockerfile", "default", "more than the limit of 1048576"),
        ("true", "below", "its path contains a link"),
    ] {
        shell(command);
        let error = import(&folder, &["--force", "--test", test]).unwrap_err();
        assert_eq!(exit_status(&error), Exit::Usage);
        assert!(error.to_string().contains(text), "{error}");
    }
    assert!(!quick.join("subject.toml").exists());
}
