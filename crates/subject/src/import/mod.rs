//! From a server of TechEmpower's FrameworkBenchmarks to a definition: what its `benchmark_config.json` and its Dockerfile say,
//! and what is left to do by hand.

mod dockerfile;
mod run;
mod tools;
mod words;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

use dyno_workload::inside::Inside;

use dockerfile::{Command, Dockerfile, ROOT};

/// A definition that was made, and what is left to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The text of `subject.toml`.
    pub toml: String,
    /// Sentences on what a person must look at.
    pub left: Vec<String>,
}

/// What is read of a server's folder.
pub trait Folder {
    /// The text of a file; `None`: it is not there.
    fn read(&self, name: &str) -> Option<String>;
    /// Names of files that hold this text.
    fn naming(&self, text: &str) -> Vec<String>;
}

#[derive(Debug, Deserialize)]
struct Config {
    framework: String,
    tests: Vec<BTreeMap<String, Test>>,
}

/// One way to run a server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Test {
    dockerfile: Option<String>,
    docker_cmd: Option<String>,
    port: Option<u16>,
    database: Option<String>,
    language: Option<String>,
    display_name: Option<String>,
    approach: Option<String>,
    classification: Option<String>,
    webserver: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, serde_json::Value>,
}

/// The host under which TechEmpower's servers find their database.
const DATABASE_HOST: &str = "tfb-database";

/// Makes a definition of the server in `folder`. `name`: the name of that folder. `test`: which of its ways to run it; `None`:
/// its default.
///
/// # Errors
/// A sentence: it is no such folder, or has no such test.
pub fn techempower(name: &str, folder: &dyn Folder, test: Option<&str>) -> Result<Imported, String> {
    const CONFIG: &str = "benchmark_config.json";
    let text = folder.read(CONFIG).ok_or_else(|| {
        format!("there is no {CONFIG}; name the folder of one server of FrameworkBenchmarks, such as frameworks/Go/fasthttp")
    })?;
    let config: Config = serde_json::from_str(&text).map_err(|error| format!("{CONFIG}: {error}"))?;
    let mut tests: BTreeMap<String, Test> = config.tests.into_iter().flatten().collect();
    let wanted = test.unwrap_or("default");
    let Some(test) = tests.remove(wanted) else {
        let known: Vec<&str> = tests.keys().map(String::as_str).collect();
        return Err(format!("{CONFIG} has no test {wanted:?}; there are {}", known.join(", ")));
    };
    let usual =
        if wanted == "default" { config.framework.clone() } else { format!("{}-{wanted}", config.framework) };
    let file = test.dockerfile.clone().unwrap_or_else(|| format!("{}.dockerfile", usual.to_lowercase()));
    let file =
        Inside::parse(&file).map_err(|why| format!("{CONFIG} names its Dockerfile: {why}"))?.to_string();
    let docker = folder.read(&file).ok_or_else(|| format!("there is no {file}, by which it is built"))?;
    let mut writer = Writer { name, folder, test, file: dockerfile::parse(&docker), left: Vec::new() };
    let toml = writer.write();
    let others: Vec<&str> = tests.keys().map(String::as_str).collect();
    if !others.is_empty() {
        writer.left.push(format!("It can be run in other ways, too (--test): {}.", others.join(", ")));
    }
    Ok(Imported { toml, left: writer.left })
}

struct Writer<'a> {
    name: &'a str,
    folder: &'a dyn Folder,
    test: Test,
    file: Dockerfile,
    left: Vec<String>,
}

impl Writer<'_> {
    fn write(&mut self) -> String {
        let mut toml = self.head();
        toml.push_str(&self.requires());
        toml.push_str(&self.build());
        toml.push_str(&self.start());
        toml.push_str(&self.ready_and_endpoints());
        self.look_for_the_database();
        for instruction in self.file.left.clone() {
            self.left
                .push(format!("The Dockerfile's `{instruction}` is not done: see whether it is needed."));
        }
        if !self.file.scripts.is_empty() {
            let names: Vec<&str> = self.file.scripts.iter().map(String::as_str).collect();
            self.left.push(format!(
                "Its build runs {}, which came with it, on this machine: read first what that does.",
                names.join(", ")
            ));
        }
        if !self.file.packages.is_empty() {
            let names: Vec<&str> = self.file.packages.iter().map(String::as_str).collect();
            self.left.push(format!(
                "Its image installs Debian packages; what it needs of them must be on this machine: {}.",
                names.join(", ")
            ));
        }
        toml
    }

    fn head(&self) -> String {
        let test = &self.test;
        let title = test.display_name.as_deref().unwrap_or(self.name);
        let said = [&test.approach, &test.classification]
            .map(|part| part.as_deref().unwrap_or_default().to_lowercase());
        let web = test.webserver.as_deref().filter(|web| !web.eq_ignore_ascii_case("none"));
        let web = web.map(|web| format!(", on {web}")).unwrap_or_default();
        let description = format!(
            "{title}{web}, as TechEmpower's FrameworkBenchmarks have it ({}).",
            said.join(" ").trim()
        );
        let checks = if self.is_of_contract() { "checks = [\"techempower\"]\n" } else { "" };
        let backends = if self.has_database() { "backends = [\"postgres\"]\n" } else { "" };
        format!(
            "# Made by `dyno subjects import techempower`.\nname = {}\ntitle = {}\nlanguage = {}\ndescription = {}\nprotocols = [\"h1\"]\n{checks}{backends}",
            string(self.name),
            string(title),
            string(test.language.as_deref().unwrap_or("unknown")),
            string(&description)
        )
    }

    /// Whether it serves what the contract `techempower` asks for, where that asks for it.
    fn is_of_contract(&self) -> bool {
        let serves = |key: &str, path: &str| self.test.others.get(key).is_some_and(|own| own == path);
        serves("plaintext_url", "/plaintext") && serves("json_url", "/json")
    }

    /// Whether it asks a database for anything.
    fn has_database(&self) -> bool {
        let asks = ["db_url", "query_url", "update_url", "fortune_url"];
        asks.iter().any(|url| self.test.others.contains_key(*url))
            && self.test.database.as_deref().is_some_and(|name| name.eq_ignore_ascii_case("postgres"))
    }

    /// The tools that must be here, and the version of the one that says most.
    fn requires(&mut self) -> String {
        let tools: Vec<&Tool> = TOOLS.iter().filter(|tool| self.needs(tool.name)).collect();
        let mut all = String::new();
        for Tool { name, test, hint, debian, .. } in &tools {
            let _ = write!(
                all,
                "\n[[requires]]\nname = {name:?}\ntest = {test:?}\nhint = {hint:?}\ndebian = {debian:?}\n"
            );
        }
        if let Some(tool) = tools.first() {
            let _ = write!(all, "\n[version]\ncommand = {:?}\n", tool.version);
        }
        let tagged: Vec<&str> =
            self.file.images.iter().map(String::as_str).filter(|image| image.contains(':')).collect();
        if !tagged.is_empty() {
            self.left.push(format!(
                "Its images are {}: here it gets what this machine has in their place, perhaps of other versions.",
                tagged.join(", ")
            ));
        }
        all
    }

    /// Whether the images, or the commands, are of this tool.
    fn needs(&self, tool: &str) -> bool {
        let of_image = |words: &[&str]| {
            self.file.images.iter().any(|image| words.iter().any(|word| image.contains(word)))
        };
        let runs =
            |word: &str| self.file.steps.iter().any(|step| step.split([' ', '(']).any(|part| part == word));
        match tool {
            "cargo" => of_image(&["rust"]) || runs("cargo"),
            "go" => of_image(&["golang"]) || runs("go"),
            "javac" => of_image(&["jdk", "temurin", "maven", "gradle"]) || runs("mvn"),
            "mvn" => of_image(&["maven"]) || runs("mvn"),
            "python3" => self.is_python(),
            "node" => of_image(&["node"]) || runs("npm"),
            "cc" => of_image(&["gcc"]),
            _ => runs(tool),
        }
    }

    fn is_python(&self) -> bool {
        self.file.images.iter().any(|image| dockerfile::is_of_python(image))
    }

    /// The commands of the build. Python's packages go into an environment of their own.
    fn build(&mut self) -> String {
        let mut steps = vec!["set -e".to_string(), format!("mkdir -p {ROOT}")];
        if self.is_python() {
            steps.push("python3 -m venv {out}/venv".into());
            steps.push("export PATH={out}/venv/bin:$PATH VIRTUAL_ENV={out}/venv".into());
        }
        steps.extend(self.file.steps.iter().filter(|step| *step != "true").cloned());
        if self.needs("cargo") {
            steps.insert(2, "export CARGO_TARGET_DIR={cache}/target".into());
            steps.iter_mut().for_each(|step| *step = with_kept_target(step));
        }
        format!("\n[build]\ncommand = {}\ninputs = [\".\"]\n", lines(&steps))
    }

    fn start(&mut self) -> String {
        let port = self.test.port.unwrap_or(8080);
        let command = match (&self.test.docker_cmd, self.file.command.clone()) {
            (Some(words), _) => Some(self.file.shell(words)),
            (None, command) => command,
        };
        let words: Vec<String> = match command {
            Some(Command::Words(words)) => words.iter().map(|word| self.with_database(word)).collect(),
            Some(Command::Shell(text)) => {
                let exec = if words::is_one_program(&text) { "exec " } else { "" };
                vec!["sh".into(), "-c".into(), format!("{exec}{}", self.with_database(&text))]
            }
            None => {
                self.left.push("The Dockerfile has no CMD: say how it is started.".into());
                vec!["false".into()]
            }
        };
        let told = with_port(&words, port);
        let is_told = told != words;
        let command: Vec<String> = told.iter().map(|word| string(word)).collect();
        let command = command.join(", ");
        let mut toml = format!("\n[start]\ncommand = [{command}]\ncwd = {}\n", string(&self.file.cwd));
        if !is_told {
            let _ = writeln!(toml, "port = {port}");
            self.left.push(format!("It listens on port {port} of its own accord: one start at a time, and nobody else may listen there."));
        }
        let mut env: Vec<(String, String)> =
            self.file.env.iter().map(|(name, value)| (name.clone(), self.with_database(value))).collect();
        if self.is_python() {
            env.push(("PATH".into(), "{out}/venv/bin:/usr/local/bin:/usr/bin:/bin".into()));
        }
        if !env.is_empty() {
            toml.push_str("\n[start.env]\n");
            env.iter().for_each(|(name, value)| {
                let _ = writeln!(toml, "{} = {}", key(name), string(value));
            });
        }
        toml
    }

    /// A text in which the database is dyno's own.
    fn with_database(&self, text: &str) -> String {
        if !self.has_database() {
            return text.into();
        }
        let with_port = text.replace(&format!("{DATABASE_HOST}:5432"), "{postgres.host}:{postgres.port}");
        // A URL without a port means PostgreSQL's own.
        with_port
            .replace(&format!("{DATABASE_HOST}/"), "{postgres.host}:{postgres.port}/")
            .replace(DATABASE_HOST, "{postgres.host}")
    }

    fn ready_and_endpoints(&mut self) -> String {
        let url = |name: &str| self.test.others.get(name).and_then(serde_json::Value::as_str);
        let first = || self.test.others.iter().find(|(key, _)| key.ends_with("_url"))?.1.as_str();
        let ready = url("plaintext_url").or_else(|| url("json_url")).or_else(first).unwrap_or("/");
        let mut toml = format!("\n[ready]\npath = {}\ndeadline = \"60s\"\n\n[endpoints]\n", string(ready));
        let endpoints = self
            .test
            .others
            .iter()
            .filter_map(|(key, value)| Some((key.strip_suffix("_url")?, value.as_str()?)));
        for (name, path) in endpoints {
            let _ = writeln!(toml, "{} = {}", key(name), string(path));
        }
        if !self.is_of_contract() {
            self.left.push(
                "Nothing of it is checked: the contract `techempower` asks for /plaintext and /json, and it does not serve both. Write a contract of its own (docs/contracts.md)."
                    .into(),
            );
        }
        toml
    }

    fn look_for_the_database(&mut self) {
        if !self.has_database() {
            return;
        }
        self.left.push(
            "It needs PostgreSQL behind it: dyno looks for the folder `backends/postgres` beside each folder of subjects. Copy that of dyno's \
             sources there, or name their subjects as well: --subjects DYNO/subjects."
                .into(),
        );
        let files = self.folder.naming(DATABASE_HOST);
        let sources: Vec<&str> = files
            .iter()
            .map(String::as_str)
            .filter(|file| !file.ends_with("dockerfile") && !file.ends_with(".toml"))
            .collect();
        if sources.is_empty() {
            return;
        }
        self.left.push(format!(
            "It looks for its database at {DATABASE_HOST:?} in {}: edit that, for instance to read a variable that `[start] env` sets to \"{{postgres.host}}:{{postgres.port}}\", or take the database parts out.",
            sources.join(", ")
        ));
    }
}

/// A key as TOML has it.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) { name.into() } else { string(name) }
}

/// A string as TOML has it: what JSON writes in quotes is the same there, but for the one character that JSON leaves as it is.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Lines of a string, each as a line of its own; as they are, where TOML takes them so.
fn lines(all: &[String]) -> String {
    let is_plain = |line: &String| !line.contains("'''") && !line.contains(|c: char| c.is_control());
    if all.iter().all(is_plain) {
        return format!("'''\n{}\n'''", all.join("\n"));
    }
    let lines: Vec<String> = all.iter().map(|line| string(line)).collect();
    let inner: Vec<&str> = lines.iter().map(|line| &line[1..line.len() - 1]).collect();
    format!("\"\"\"\n{}\n\"\"\"", inner.join("\n"))
}

/// A command that takes what cargo has built from where it is kept.
fn with_kept_target(step: &str) -> String {
    let kept = |word: &str| match (word.find(ROOT), word.find("/target/")) {
        (Some(root), Some(target)) if root < target => {
            format!("{}{{cache}}{}", &word[..root], &word[target..])
        }
        _ => word.to_string(),
    };
    step.split(' ').map(kept).collect::<Vec<_>>().join(" ")
}

/// Words in which the port stands for itself become ones that are told it.
fn with_port(words: &[String], port: u16) -> Vec<String> {
    let number = port.to_string();
    let is_alone = |text: &str, at: usize| {
        // Within braces it would be a name.
        let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit() || "{}$".contains(c));
        !digit(text[..at].chars().next_back()) && !digit(text[at + number.len()..].chars().next())
    };
    let told = |word: &String| match word.find(&number) {
        Some(at) if is_alone(word, at) => format!("{}{{port}}{}", &word[..at], &word[at + number.len()..]),
        _ => word.clone(),
    };
    words.iter().map(told).collect()
}

/// A tool that images bring and machines have.
struct Tool {
    name: &'static str,
    /// The command that succeeds if it is there.
    test: &'static str,
    /// The command that prints its version.
    version: &'static str,
    hint: &'static str,
    debian: &'static str,
}

/// Those that say most about a server first: of the first the report tells the version.
const TOOLS: [Tool; 9] = [
    Tool {
        name: "cargo",
        test: "cargo --version",
        version: "rustc --version",
        hint: "Install Rust, for instance by rustup (rustup.rs).",
        debian: "cargo",
    },
    Tool {
        name: "go",
        test: "go version",
        version: "go version",
        hint: "Install Go, from go.dev/dl or with `apt-get install golang-go`.",
        debian: "golang-go",
    },
    Tool {
        name: "javac",
        test: "javac -version",
        version: "java --version",
        hint: "Install a JDK, for instance `apt-get install openjdk-17-jdk-headless`.",
        debian: "openjdk-17-jdk-headless",
    },
    Tool {
        name: "mvn",
        test: "mvn --version",
        version: "mvn --version",
        hint: "Install Maven, for instance `apt-get install maven`.",
        debian: "maven",
    },
    Tool {
        name: "python3",
        test: "python3 -c 'import venv, ensurepip'",
        version: "python3 --version",
        hint: "Install Python 3 with venv, for instance `apt-get install python3-venv`.",
        debian: "python3-venv",
    },
    Tool {
        name: "node",
        test: "npm --version",
        version: "node --version",
        hint: "Install Node.js and npm, for instance `apt-get install npm`.",
        debian: "npm",
    },
    Tool {
        name: "cc",
        test: "cc --version",
        version: "cc --version",
        hint: "Install a C compiler, for instance `apt-get install gcc libc6-dev`.",
        debian: "gcc",
    },
    Tool {
        name: "make",
        test: "make --version",
        version: "make --version",
        hint: "Install make, for instance `apt-get install make`.",
        debian: "make",
    },
    Tool {
        name: "git",
        test: "git --version",
        version: "git --version",
        hint: "Install git, for instance `apt-get install git`.",
        debian: "git",
    },
];

#[cfg(test)]
mod harms;

#[cfg(test)]
mod tests {
    use super::*;

    struct Files<'a>(BTreeMap<&'a str, &'a str>);

    impl Folder for Files<'_> {
        fn read(&self, name: &str) -> Option<String> {
            self.0.get(name).map(|text| (*text).to_string())
        }

        fn naming(&self, text: &str) -> Vec<String> {
            self.0.iter().filter(|(_, own)| own.contains(text)).map(|(name, _)| (*name).to_string()).collect()
        }
    }

    pub(super) fn imported(
        files: &[(&str, &str)],
        test: Option<&str>,
    ) -> Result<(toml::Table, Vec<String>), String> {
        let made = techempower("quick", &Files(files.iter().copied().collect()), test)?;
        // What is made must be read again by those who read it.
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("subjects/quick");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("subject.toml"), &made.toml).unwrap();
        crate::definition::Definition::read(&folder).unwrap_or_else(|error| panic!("{error}\n{}", made.toml));
        Ok((made.toml.parse().unwrap(), made.left))
    }

    pub(super) const CONFIG: &str = r#"{"framework": "quick", "tests": [{
        "default": {"plaintext_url": "/plaintext", "json_url": "/json", "port": 8080, "language": "Go", "display_name": "Qu\u200bick",
                    "approach": "Realistic", "classification": "Platform", "webserver": "None", "database": "None"},
        "pg": {"json_url": "/json", "db_url": "/db", "port": 9000, "database": "Postgres", "language": "Go"}
    }]}"#;

    #[test]
    fn a_server_is_imported_with_what_its_image_does() {
        let docker =
            "FROM golang:1.24\nWORKDIR /quick\nCOPY ./src /quick\nRUN go build -o app .\nCMD ./app -p 8080\n";
        let (toml, left) =
            imported(&[("benchmark_config.json", CONFIG), ("quick.dockerfile", docker)], None).unwrap();
        assert_eq!(toml["title"].as_str(), Some("Qu\u{200b}ick"));
        assert_eq!(toml["requires"][0]["name"].as_str(), Some("go"));
        let command: Vec<&str> =
            toml["start"]["command"].as_array().unwrap().iter().filter_map(|w| w.as_str()).collect();
        assert_eq!(command, ["sh", "-c", "exec ./app -p {port}"]);
        assert_eq!(toml["start"]["cwd"].as_str(), Some("{out}/root/quick"));
        assert!(
            toml["build"]["command"].as_str().unwrap().contains("(cd {out}/root/quick && go build -o app .)")
        );
        assert!(toml["start"].get("port").is_none(), "it is told its port");
        assert_eq!(toml["version"]["command"].as_str(), Some("go version"));
        assert_eq!(left.len(), 2, "{left:?}");
        assert!(left[0].starts_with("Its images are golang:1.24: "), "{left:?}");
        assert_eq!(left[1], "It can be run in other ways, too (--test): pg.");
    }

    #[test]
    fn a_database_is_dynos_own_and_what_names_another_is_told() {
        let docker = "FROM python:3.11\nWORKDIR /q\nCOPY . .\nRUN apt-get install -y libpq-dev && pip install -r /q/requirements.txt\n\
             ENV URL=postgres://u:p@tfb-database:5432/hello_world\nCMD [\"gunicorn\", \"app:main\"]\n";
        let files = [
            ("benchmark_config.json", CONFIG),
            ("quick-pg.dockerfile", docker),
            ("app.py", "host='tfb-database'"),
        ];
        let (toml, left) = imported(&files, Some("pg")).unwrap();
        assert!(toml.get("checks").is_none(), "{toml}");
        assert_eq!(toml["backends"][0].as_str(), Some("postgres"));
        let env = &toml["start"]["env"];
        assert_eq!(env["URL"].as_str(), Some("postgres://u:p@{postgres.host}:{postgres.port}/hello_world"));
        assert!(env["PATH"].as_str().unwrap().starts_with("{out}/venv/bin:"));
        assert_eq!(toml["start"]["port"].as_integer(), Some(9000));
        let text = left.join("\n");
        for part in [
            "port 9000 of its own accord",
            "Nothing of it is checked",
            "in app.py: edit that",
            "`backends/postgres` beside each folder",
            "Its images are python:3.11: ",
            "libpq-dev",
            "default",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn what_cargo_builds_is_kept() {
        let docker = "FROM rust:1 AS b\nWORKDIR /b\nCOPY . .\nRUN cargo build --release\nFROM scratch\nCOPY --from=b /b/target/release/app* /app/\nCMD [\"/app/app\"]\n";
        let (toml, _) =
            imported(&[("benchmark_config.json", CONFIG), ("quick.dockerfile", docker)], None).unwrap();
        let build = toml["build"]["command"].as_str().unwrap();
        assert!(build.contains("export CARGO_TARGET_DIR={cache}/target\n"), "{build}");
        assert!(build.contains("cp -R {cache}/target/release/app* {out}/root/app/"), "{build}");
        assert!(build.contains("(cd {out}/root/b && cargo build --release)"), "{build}");
    }

    #[test]
    fn what_is_no_server_is_refused() {
        assert!(imported(&[], None).unwrap_err().contains("there is no benchmark_config.json"));
        let config = [("benchmark_config.json", CONFIG)];
        assert!(
            imported(&config, Some("x")).unwrap_err().contains("has no test \"x\"; there are default, pg")
        );
        assert!(imported(&config, None).unwrap_err().contains("there is no quick.dockerfile"));
        assert!(
            imported(&[("benchmark_config.json", "{")], None)
                .unwrap_err()
                .contains("benchmark_config.json: EOF")
        );
    }
}
