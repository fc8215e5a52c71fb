//! Writes the definition of a server of TechEmpower's FrameworkBenchmarks: the settings of its
//! `benchmark_config.json`, and the steps of its Dockerfile as comments.
//!
//! Neither the import nor the written definition executes the Dockerfile. The user reads its steps,
//! and writes the steps that this machine needs as a build command.

mod dockerfile;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use dyno_config::relative_path::RelativePath;
use serde::Deserialize;
use serde_json::Value;

use dockerfile::Instruction;

/// A definition, and the remaining steps for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedSubject {
    /// The text of `subject.toml`.
    pub toml: String,
    /// Remaining steps as sentences. Further lines after a sentence list details.
    pub remaining_steps: Vec<String>,
}

/// Reads a file of the server's folder. `Ok(None)`: the file does not exist. `Err`: the reason why
/// it is refused or cannot be read.
pub type ReadServerFile<'a> = &'a dyn Fn(&str) -> Result<Option<String>, String>;

#[derive(Debug, Deserialize)]
struct Config {
    framework: Value,
    tests: Vec<BTreeMap<String, Test>>,
}

/// The keys of one test, a configuration of the server. TechEmpower's toolset formats all values as
/// text, so that files may have texts in place of numbers and numbers in place of texts.
type Test = BTreeMap<String, Value>;

const CONFIG: &str = "benchmark_config.json";

/// The host name of the database in TechEmpower's servers.
const DATABASE_HOST: &str = "tfb-database";

/// Writes a definition of a server with this `name`. `test`: the test to import; `None`: the
/// default test.
///
/// # Errors
/// A file is missing or refused, or there is no such test.
pub fn techempower(
    name: &str,
    read: ReadServerFile<'_>,
    test: Option<&str>,
) -> Result<ImportedSubject, String> {
    let missing = || {
        format!(
            "{CONFIG}: not found\nhint: name the folder of one server of FrameworkBenchmarks, such \
             as frameworks/Go/fasthttp"
        )
    };
    let text = read(CONFIG)?.ok_or_else(missing)?;
    let config: Config = serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| format!("{CONFIG}: {error}"))?;
    let mut tests: BTreeMap<String, Test> = config.tests.into_iter().flatten().collect();
    let test_name = test.unwrap_or("default");
    let Some(test) = tests.remove(test_name) else {
        let names: Vec<&str> = tests.keys().map(String::as_str).collect();
        return Err(format!(
            "{CONFIG}: no test {test_name:?}\nhint: use one of {}",
            names.join(", ")
        ));
    };
    let framework = scalar_text(&config.framework).unwrap_or_else(|| name.into());
    let image = if test_name == "default" { framework } else { format!("{framework}-{test_name}") };
    let file = member_text(&test, "dockerfile")
        .unwrap_or_else(|| format!("{}.dockerfile", image.to_lowercase()));
    let file = RelativePath::parse(&file)
        .map_err(|error| format!("{CONFIG}: the path of the Dockerfile is not valid: {error}"))?;
    let file = file.to_string();
    let docker =
        read(&file)?.ok_or_else(|| format!("{file}: not found, but needed for the build"))?;
    let mut writer = DefinitionWriter {
        name,
        test: &test,
        steps: dockerfile::parse(&docker),
        file,
        remaining: Vec::new(),
    };
    let toml = writer.write()?;
    let other_tests: Vec<String> =
        tests.iter().map(|(name, test)| test_with_databases(name, test)).collect();
    if !other_tests.is_empty() {
        writer.remaining.push(format!(
            "Use --test NAME to import another test of this framework: {}.",
            other_tests.join(", ")
        ));
    }
    Ok(ImportedSubject { toml, remaining_steps: writer.remaining })
}

/// Converts a text, a number or a boolean to text; `None`: another value, such as null.
fn scalar_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn member_text(test: &Test, key: &str) -> Option<String> {
    test.get(key).and_then(scalar_text)
}

/// Returns the names of a test's databases, without line breaks: those of a text with commas or of
/// a list. Empty: the test has no database.
fn databases(test: &Test) -> Vec<String> {
    let texts: Vec<String> = match test.get("database") {
        Some(Value::Array(values)) => values.iter().filter_map(scalar_text).collect(),
        Some(value) => scalar_text(value).into_iter().collect(),
        None => Vec::new(),
    };
    texts
        .iter()
        .flat_map(|text| text.split(','))
        .map(|name| plain_line(name.trim()))
        .filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("none"))
        .collect()
}

/// Returns whether a database is the one that the back end `postgres` provides.
fn is_postgres(database: &str) -> bool {
    is_one_of(database, &["postgres", "postgresql"])
}

/// Returns the name of a test with its databases: `pg (Postgres)`.
fn test_with_databases(name: &str, test: &Test) -> String {
    match databases(test).as_slice() {
        [] => plain_line(name),
        databases => format!("{} ({})", plain_line(name), databases.join(" and ")),
    }
}

/// Writes the parts of a definition, and collects the remaining steps.
struct DefinitionWriter<'a> {
    name: &'a str,
    test: &'a Test,
    /// The name of the Dockerfile.
    file: String,
    steps: Vec<Instruction>,
    remaining: Vec<String>,
}

impl DefinitionWriter<'_> {
    /// Returns the text of the whole definition.
    fn write(&mut self) -> Result<String, String> {
        let mut toml = self.head();
        toml.push_str(&self.unfinished_requirement());
        toml.push_str(&self.build());
        toml.push_str(&self.start()?);
        toml.push_str(&self.ready_and_endpoints());
        self.list_databases();
        Ok(toml)
    }

    /// Lists the remaining work for the databases of the test.
    fn list_databases(&mut self) {
        if self.needs_postgres() {
            self.remaining.push(
                "The server needs the PostgreSQL back end. dyno looks for the folder \
                 `backends/postgres` next to each folder of subjects. Copy that folder from dyno's \
                 sources, or run dyno with --subjects DYNO/subjects, where DYNO is the folder of \
                 dyno's sources."
                    .into(),
            );
            self.remaining.push(format!(
                "The server's sources may contain the host name {DATABASE_HOST:?} (find it with \
                 `grep -r {DATABASE_HOST} .`). Set an environment variable in `env` of [start] to \
                 \"{{postgres.host}}:{{postgres.port}}\", and use the variable in the sources \
                 instead of the host name."
            ));
        }
        let (postgres, others): (Vec<String>, Vec<String>) =
            databases(self.test).into_iter().partition(|name| is_postgres(name));
        if !postgres.is_empty() && !self.needs_postgres() {
            self.remaining.push(format!(
                "{CONFIG}: the test names the database PostgreSQL, but no URL of the test needs a \
                 database. If the server uses PostgreSQL, write backends = [\"postgres\"] in \
                 subject.toml."
            ));
        }
        if !others.is_empty() {
            self.remaining.push(format!(
                "{CONFIG}: the test uses {}, which dyno does not set up. Write a back end in \
                 `backends/NAME/backend.toml`, name it in `backends` of subject.toml, and replace \
                 the host name {DATABASE_HOST:?} in the server's sources \
                 (docs/guides/back-ends.md).",
                others.join(" and ")
            ));
        }
        let system = member_text(self.test, "database_os").map(|system| plain_line(&system));
        let is_other = |system: &String| !is_one_of(system, &["", "linux", "none"]);
        if let Some(system) = system.filter(is_other) {
            self.remaining.push(format!(
                "{CONFIG}: the database of the test runs on {system} (`database_os`), but dyno \
                 starts back ends on this machine. Use a back end that runs on Linux."
            ));
        }
    }

    /// Returns the descriptive keys.
    fn head(&self) -> String {
        let text = |key| member_text(self.test, key);
        let title = text("display_name").unwrap_or_else(|| self.name.into());
        let category =
            ["approach", "classification"].map(|key| text(key).unwrap_or_default().to_lowercase());
        let web = text("webserver").filter(|web| !web.eq_ignore_ascii_case("none"));
        let web = web.map(|web| format!(", on {web}")).unwrap_or_default();
        let description = format!(
            "{title}{web}, from TechEmpower's FrameworkBenchmarks ({}).",
            category.join(" ").trim()
        );
        let checks = if self.has_contract_paths() { "checks = [\"techempower\"]\n" } else { "" };
        let backends = if self.needs_postgres() { "backends = [\"postgres\"]\n" } else { "" };
        format!(
            "# Made by `dyno subjects import techempower` from {}.\nname = {}\ntitle = \
             {}\nlanguage = {}\ndescription = {}\nprotocols = [\"h1\"]\n{checks}{backends}",
            CONFIG,
            string(self.name),
            string(&title),
            string(&text("language").unwrap_or_else(|| "unknown".into())),
            string(&description)
        )
    }

    /// Returns whether the test has the paths that the contract `techempower` checks: `/plaintext`
    /// and `/json`.
    fn has_contract_paths(&self) -> bool {
        let has =
            |key: &str, path: &str| member_text(self.test, key).is_some_and(|text| text == path);
        has("plaintext_url", "/plaintext") && has("json_url", "/json")
    }

    /// Returns whether a URL of the test uses PostgreSQL, so that the server needs the back end
    /// `postgres`.
    fn needs_postgres(&self) -> bool {
        let urls = [
            "db_url",
            "query_url",
            "update_url",
            "fortune_url",
            "cached_query_url",
            "cached-query_url",
        ];
        urls.iter().any(|url| member_text(self.test, url).is_some())
            && databases(self.test).iter().any(|name| is_postgres(name))
    }

    /// Returns a requirement that is not met until the user has completed the file. The requirement
    /// prevents the start of an incomplete server.
    fn unfinished_requirement(&self) -> String {
        let hint = format!(
            "Write [build], and the `command` of [start], in subject.toml. The steps of {} are \
             comments in this file. Then remove this [[requires]].",
            self.file
        );
        format!(
            "\n[[requires]]\nname = \"the command that starts the server\"\ntest = \"false\"\nhint \
             = {}\n",
            string(&hint)
        )
    }

    /// Returns the steps of the image as comments.
    fn build(&mut self) -> String {
        let comments = comment(&dockerfile::instruction_lines(&self.steps, is_build_instruction));
        let step = format!(
            "Write [build] in subject.toml. The file has the steps of {} as comments, which dyno \
             does not execute:\n{}",
            self.file,
            dockerfile::instruction_lines(&self.steps, is_build_instruction)
        );
        self.remaining.push(step.trim_end().into());
        format!(
            "\n# Write the build steps that this machine needs as one script:\n# [build]\n# \
             command = '''\n# set -e\n# '''\n# inputs = [\".\"]\n#\n# The steps of {}:\n{comments}",
            plain_line(&self.file)
        )
    }

    /// Returns `[start]`, with the commands of the image as comments.
    fn start(&mut self) -> Result<String, String> {
        let mut listed =
            dockerfile::instruction_lines(&self.steps, |name| !is_build_instruction(name));
        // `docker_cmd` replaces the image's CMD.
        if let Some(command) = self.test.get("docker_cmd").filter(|value| !value.is_null()) {
            let command = scalar_text(command).unwrap_or_else(|| command.to_string());
            let _ = writeln!(listed, "{CONFIG}: docker_cmd {}", plain_line(&command));
        }
        let comments = comment(&listed);
        self.remaining.push(
            format!(
                "In [start] of subject.toml, replace the placeholder `command = [\"false\"]` by \
                 the command that starts the server, and then remove [[requires]]. The Docker \
                 image starts the server with:\n{listed}"
            )
            .trim_end()
            .into(),
        );
        let port = match self.port()? {
            Some(port) => {
                self.remaining.push(format!(
                    "The server listens on port {port}, so only one server process can run at a \
                     time, and no other program may use the port. If the server's command accepts \
                     a port, write {{port}} in the command and remove `port`."
                ));
                format!("port = {port}\n")
            }
            None => {
                self.remaining.push(format!(
                    "{CONFIG} has no port. In [start] below, write `port`, or {{port}} in \
                     `command`."
                ));
                String::new()
            }
        };
        Ok(format!(
            "\n# The Docker image starts the server with:\n{comments}#\n# \"false\" is a \
             placeholder. Replace it by the command that starts the server on this machine.\
             \n[start]\ncommand = [\"false\"]\n{port}"
        ))
    }

    /// Returns the port of the server; `None`: the test has no port.
    fn port(&self) -> Result<Option<u16>, String> {
        let Some(text) = member_text(self.test, "port") else { return Ok(None) };
        match text.trim().parse() {
            Ok(port) if port > 0 => Ok(Some(port)),
            _ => Err(format!("{CONFIG}: port {text:?}: must be a number from 1 to 65535")),
        }
    }

    /// Returns `[ready]` and `[endpoints]`.
    fn ready_and_endpoints(&mut self) -> String {
        let urls: Vec<(&str, String)> = self
            .test
            .iter()
            .filter_map(|(key, value)| Some((key.strip_suffix("_url")?, scalar_text(value)?)))
            .collect();
        let url =
            |name: &str| urls.iter().find(|(key, _)| *key == name).map(|(_, url)| url.as_str());
        let first = urls.first().map(|(_, url)| url.as_str());
        let ready = url("plaintext").or_else(|| url("json")).or(first).unwrap_or("/");
        let mut toml =
            format!("\n[ready]\npath = {}\ndeadline = \"60s\"\n\n[endpoints]\n", string(ready));
        for (name, path) in &urls {
            let _ = writeln!(toml, "{} = {}", key(name), string(path));
        }
        if !self.has_contract_paths() {
            self.remaining.push(
                "The responses of the server are not checked, because the contract `techempower` \
                 needs both /plaintext and /json. Write a contract (the expected responses) for \
                 the server (docs/reference/contracts.md)."
                    .into(),
            );
        }
        toml
    }
}

fn is_one_of(text: &str, texts: &[&str]) -> bool {
    texts.iter().any(|other| other.eq_ignore_ascii_case(text))
}

/// Returns whether an instruction builds the image, as opposed to starting it.
fn is_build_instruction(name: &str) -> bool {
    !["CMD", "ENTRYPOINT", "EXPOSE", "HEALTHCHECK", "STOPSIGNAL"].contains(&name)
}

/// Returns lines as TOML comments, each with a `#` and without characters that TOML reads as a line
/// end.
fn comment(lines: &str) -> String {
    lines.lines().map(|line| format!("#   {}\n", plain_line(line))).collect()
}

/// Returns a line without characters that control a terminal, an editor or a parser.
fn plain_line(line: &str) -> String {
    let is_control = |c: char| {
        c.is_control()
            // Line and paragraph separators; marks and overrides of the writing direction.
            || matches!(c, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    line.chars()
        .map(|c| match c {
            '\t' => ' ',
            c if is_control(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

/// Returns a TOML key.
fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if !name.is_empty() && name.chars().all(is_bare) { name.into() } else { string(name) }
}

/// Returns a TOML string. TOML and JSON strings are equal, except for DEL, which JSON does not
/// escape.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests;
