//! What a Dockerfile does, as far as a folder on this machine can do it too: copies, commands, variables, and the command in
//! the end.
//!
//! All stages share one folder, `{out}/root`, which stands for the image's root. Paths of the image that the file itself makes
//! (by WORKDIR, COPY and ADD) are found again in commands; what an image brings besides must be on this machine.

use std::collections::BTreeSet;

use super::run::{self, Scene, own_path};
use super::tools::packages;
use super::words::{self, Variables, Word, quoted};
use crate::placeholders::escaped;

/// Where the root of the image is.
pub(super) const ROOT: &str = "{out}/root";

/// What stands for `{out}` until all that is not a placeholder is escaped: no text of others holds it.
pub(super) const OUT: char = '\u{1}';

/// A Dockerfile, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dockerfile {
    /// Images of its stages, in their order.
    pub(super) images: Vec<String>,
    /// Commands of a shell that do what its instructions do, in their order.
    pub(super) steps: Vec<String>,
    /// Debian packages that its commands install.
    pub(super) packages: BTreeSet<String>,
    /// Variables of the last stage.
    pub(super) env: Vec<(String, String)>,
    /// Folder in which the command is started, on this machine.
    pub(super) cwd: String,
    pub(super) command: Option<Command>,
    /// Instructions that were not understood, or cannot be done here.
    pub(super) left: Vec<String>,
    /// Scripts that come with the server, and are run.
    pub(super) scripts: BTreeSet<String>,
    /// Absolute paths of the image that it makes.
    own: BTreeSet<String>,
}

/// The command that an image runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Word by word.
    Words(Vec<String>),
    /// By a shell.
    Shell(String),
}

/// Reads a Dockerfile.
pub(super) fn parse(text: &str) -> Dockerfile {
    let instructions = instructions(text.trim_start_matches('\u{feff}'));
    // Paths may be named before what makes them.
    let own = read(&instructions, BTreeSet::new()).own;
    let mut file = read(&instructions, own);
    file.steps.iter_mut().for_each(|step| *step = finished(step));
    file.env.iter_mut().for_each(|(_, value)| *value = finished(value));
    file.cwd = finished(&file.cwd);
    file.command = file.command.map(|command| match command {
        Command::Words(words) => Command::Words(words.iter().map(|word| finished(word)).collect()),
        Command::Shell(text) => Command::Shell(finished(&text)),
    });
    file
}

impl Dockerfile {
    /// A command that somebody gives a shell in the image.
    pub(super) fn shell(&self, text: &str) -> Command {
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        Command::Shell(finished(&placed(&text, &self.own)))
    }
}

/// A text in which nothing is a placeholder but what was put there.
fn finished(text: &str) -> String {
    escaped(text).replace(OUT, "{out}")
}

fn read(instructions: &[(String, String)], own: BTreeSet<String>) -> Dockerfile {
    let is_python = instructions.iter().any(|(name, rest)| name == "FROM" && is_of_python(rest));
    let mut reader = Reader { scene: Scene { own, is_python, ..Scene::default() }, ..Reader::default() };
    instructions.iter().for_each(|(name, rest)| reader.take(name, rest));
    reader.file.command = started(reader.entry.take(), reader.file.command.take());
    reader.file.cwd = here(&reader.at);
    reader.file.own = reader.scene.own;
    reader.file.scripts = reader.scene.scripts;
    reader.file
}

/// Whether an image has Python's packages.
pub(super) fn is_of_python(image: &str) -> bool {
    image.contains("python") || image.contains("pypy")
}

/// What ENTRYPOINT and CMD start together: words of the second are arguments of the first; a shell's command takes none.
fn started(entry: Option<Command>, command: Option<Command>) -> Option<Command> {
    match (entry, command) {
        (Some(Command::Words(entry)), Some(Command::Words(arguments))) => {
            Some(Command::Words([entry, arguments].concat()))
        }
        (entry, command) => entry.or(command),
    }
}

/// Instructions with their arguments: comments left out, continued lines joined. Of one with a here-document the first line.
fn instructions(text: &str) -> Vec<(String, String)> {
    let is_said = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let mut joined = String::new();
        while let Some(line) = lines.get(at) {
            at += 1;
            if !is_said(line) {
                continue;
            }
            let line = line.trim_end();
            joined.push_str(line.strip_suffix('\\').unwrap_or(line));
            if !line.ends_with('\\') {
                break;
            }
        }
        let joined = joined.trim();
        let (name, rest) = joined.split_once(char::is_whitespace).unwrap_or((joined, ""));
        let name = name.to_ascii_uppercase();
        if ["RUN", "COPY", "ADD"].contains(&name.as_str()) {
            at += here_document(rest, &lines[at..]);
        }
        if !name.is_empty() {
            all.push((name, rest.trim().to_string()));
        }
    }
    all
}

/// How many lines the here-documents of an instruction have.
fn here_document(rest: &str, lines: &[&str]) -> usize {
    let mut taken = 0;
    for after in rest.split("<<").skip(1) {
        let name = after.trim_start_matches('-').trim_start_matches(['"', '\'']);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        let is_end = |line: &&str| end > 0 && line.trim() == &name[..end];
        taken += lines[taken..].iter().position(is_end).map_or(0, |at| at + 1);
    }
    taken
}

#[derive(Default)]
struct Reader {
    scene: Scene,
    /// Values that stand before the first stage.
    global: Variables,
    /// Names of stages, where they have any.
    stages: Vec<String>,
    /// Of the image, absolute; empty: the root.
    at: String,
    /// What ENTRYPOINT says.
    entry: Option<Command>,
    /// Folders that are to be: what is copied there goes into them.
    folders: BTreeSet<String>,
    file: Dockerfile,
}

impl Reader {
    fn take(&mut self, name: &str, rest: &str) {
        if rest.contains(|c: char| c.is_control() && c != '\t') {
            return self.leave(name, rest);
        }
        let is_done = match name {
            "FROM" => self.from(rest),
            "ARG" => self.arg(rest),
            "WORKDIR" => self.workdir(rest),
            "COPY" | "ADD" => self.copy(name, rest),
            "RUN" => self.run(rest),
            "ENV" => self.env(rest),
            "CMD" => self.command(rest).map(|command| self.file.command = command),
            "ENTRYPOINT" => self.command(rest).map(|command| self.entry = command),
            "EXPOSE" | "LABEL" | "MAINTAINER" | "USER" | "STOPSIGNAL" | "HEALTHCHECK" => Some(()),
            _ => None,
        };
        if is_done.is_none() {
            self.leave(name, rest);
        }
    }

    /// Says that something is not done.
    fn leave(&mut self, name: &str, rest: &str) {
        let rest: String = rest.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let rest: Vec<&str> = rest.split_whitespace().collect();
        let told = format!("{name} {}", rest.join(" "));
        if self.file.left.last() != Some(&told) {
            self.file.left.push(told);
        }
    }

    fn from(&mut self, rest: &str) -> Option<()> {
        if self.file.images.is_empty() {
            self.global = std::mem::take(&mut self.scene.variables);
        }
        let words: Vec<&str> = rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        self.file.images.push(words.first().copied().unwrap_or_default().into());
        self.stages.push(words.get(2).copied().unwrap_or_default().to_lowercase());
        self.at = String::new();
        self.file.env.clear();
        self.scene.variables.clear();
        Some(())
    }

    fn arg(&mut self, rest: &str) -> Option<()> {
        for raw in words::of_instruction(rest)? {
            let text = raw.word(&self.scene.variables)?.text();
            let (name, value) = match text.split_once('=') {
                Some((name, value)) => (name, Some(value.to_string())),
                None => (text.as_str(), self.global.get(&text).cloned()),
            };
            // What ENV says counts for more.
            let is_set = self.file.env.iter().any(|(own, _)| own == name);
            if let Some(value) = value.filter(|_| !is_set) {
                self.scene.variables.insert(name.into(), value);
            }
        }
        Some(())
    }

    fn workdir(&mut self, rest: &str) -> Option<()> {
        self.at = within(&self.at, &self.text(rest)?);
        self.folders.insert(self.at.clone());
        self.scene.own.extend(own_path(&self.at));
        self.step(format!("mkdir -p {}", quoted(&here(&self.at))));
        Some(())
    }

    fn copy(&mut self, name: &str, rest: &str) -> Option<()> {
        let options: Vec<&str> = rest.split_whitespace().take_while(|word| word.starts_with("--")).collect();
        let known = ["--from=", "--chown=", "--chmod=", "--link"];
        let is_known = options.iter().all(|option| known.iter().any(|begin| option.starts_with(begin)));
        let of_stage = options.iter().find_map(|option| option.strip_prefix("--from="));
        if !is_known || of_stage.is_some_and(|stage| !self.is_stage(stage)) {
            return None;
        }
        let paths = options.iter().fold(rest, |rest, option| rest[option.len()..].trim_start());
        let words: Vec<Word> = match serde_json::from_str::<Vec<String>>(paths) {
            Ok(words) => words.iter().map(|word| Word(word.chars().map(|c| (c, false)).collect())).collect(),
            Err(_) => {
                let raws = words::of_instruction(paths)?;
                raws.iter().map(|raw| raw.word(&self.scene.variables)).collect::<Option<_>>()?
            }
        };
        let is_unpacked = |word: &Word| name == "ADD" && of_stage.is_none() && is_archive(&word.text());
        let (to, from) = words.split_last().filter(|(_, from)| !from.is_empty())?;
        if words.iter().any(is_unfit) || from.iter().any(is_unpacked) {
            return None;
        }
        let to = to.text();
        let target = within(&self.at, &to);
        let is_folder =
            to.ends_with('/') || to.split('/').next_back().is_some_and(|last| last == "." || last == "..");
        let is_folder = is_folder || from.len() > 1 || target.is_empty() || self.folders.contains(&target);
        for from in from {
            self.step(copied(&source(from, of_stage.is_some()), &target, is_folder, from.has_pattern()));
        }
        self.scene.own.extend(own_path(&target));
        self.folders.extend(is_folder.then_some(target));
        Some(())
    }

    /// Whether a name is that of a stage before, or its number.
    fn is_stage(&self, stage: &str) -> bool {
        let is_number = stage.parse::<usize>().is_ok_and(|index| index < self.stages.len());
        is_number || (!stage.is_empty() && self.stages.contains(&stage.to_lowercase()))
    }

    /// What is not done of it is told here: it may be a part.
    fn run(&mut self, rest: &str) -> Option<()> {
        self.file.packages.extend(packages(rest));
        let mut text = rest;
        while let Some((option, after)) = text.split_once(char::is_whitespace) {
            if !option.starts_with("--mount=type=cache") && !option.starts_with("--network=") {
                break;
            }
            text = after.trim_start();
        }
        let ran = match serde_json::from_str::<Vec<String>>(text) {
            Ok(words) => {
                let is_plain = !words.iter().any(|word| word.contains(|c: char| c.is_control()));
                let command = is_plain.then(|| run::words(&words, &self.at, &mut self.scene)).flatten();
                run::Ran {
                    left: command.is_none().then(|| text.into()),
                    commands: command.into_iter().collect(),
                }
            }
            Err(_) => run::shell(text, &self.at, &mut self.scene),
        };
        if let Some(left) = ran.left {
            self.leave("RUN", &left);
        }
        if !ran.commands.is_empty() {
            // In a shell of its own: its `cd` is not the next one's.
            self.step(format!("(cd {} && {})", quoted(&here(&self.at)), ran.commands.join(" && ")));
        }
        Some(())
    }

    fn env(&mut self, rest: &str) -> Option<()> {
        let old = rest.split_once(char::is_whitespace).filter(|(name, _)| !name.contains('='));
        if let Some((name, value)) = old {
            // The old form has one variable, and no sign between.
            let value = self.text(value);
            self.set(name, value, rest);
            return Some(());
        }
        for raw in words::of_instruction(rest)? {
            let name = raw.name()?;
            let value = raw.word(&self.scene.variables).map(|word| word.text()[name.len() + 1..].to_string());
            let told = value.as_ref().map_or_else(|| rest.to_string(), |value| format!("{name}={value}"));
            self.set(&name, value, &told);
        }
        Some(())
    }

    /// All words of a text as one. `None`: a variable is not known.
    fn text(&self, text: &str) -> Option<String> {
        let raws = words::of_instruction(text)?;
        let all: Option<Vec<String>> =
            raws.iter().map(|raw| Some(raw.word(&self.scene.variables)?.text())).collect();
        Some(all?.join(" "))
    }

    fn set(&mut self, name: &str, value: Option<String>, told: &str) {
        self.file.env.retain(|(own, _)| own != name);
        match &value {
            Some(value) => self.scene.variables.insert(name.into(), value.clone()),
            None => self.scene.variables.remove(name),
        };
        let placed = value.and_then(|value| run::placed(&value, &mut self.scene));
        let Some(value) = placed.filter(|_| words::is_name(name) && !run::is_of_tools(name)) else {
            return self.leave("ENV", told);
        };
        self.step(format!("export {name}={}", quoted(&value)));
        self.file.env.push((name.into(), value));
    }

    /// `None`: it cannot be done; within: there is none.
    fn command(&self, rest: &str) -> Option<Option<Command>> {
        let placed = |text: &str| placed(text, &self.scene.own);
        match serde_json::from_str::<Vec<String>>(rest) {
            Ok(words) if words.iter().any(|word| word.contains(['\0', OUT])) => None,
            Ok(words) if words.is_empty() => Some(None),
            Ok(words) => Some(Some(Command::Words(words.iter().map(|word| placed(word)).collect()))),
            Err(_) if rest.is_empty() => Some(None),
            Err(_) => Some(Some(Command::Shell(placed(rest)))),
        }
    }

    fn step(&mut self, step: String) {
        if self.file.steps.last() != Some(&step) {
            self.file.steps.push(step);
        }
    }
}

/// A text whose paths of the image are those of this machine.
fn placed(text: &str, own: &BTreeSet<String>) -> String {
    // The longest first: one may begin like another.
    let mut own: Vec<&String> = own.iter().collect();
    own.sort_by_key(|path| std::cmp::Reverse(path.len()));
    let mut placed = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('/') {
        let before = rest[..at].chars().next_back().or_else(|| placed.chars().next_back());
        let begins = before.is_none_or(|c| c.is_whitespace() || "\"'=:,(".contains(c));
        let own = own.iter().find(|path| begins && is_path(&rest[at..], path));
        let end = own.map_or(at + 1, |path| at + path.len());
        placed.push_str(&rest[..at]);
        placed.push_str(&own.map_or_else(|| rest[at..end].to_string(), |path| here(path)));
        rest = &rest[end..];
    }
    placed + rest
}

/// A path of the image, from a folder of it; empty: its root, above which is nothing.
pub(super) fn within(at: &str, path: &str) -> String {
    let joined = if path.starts_with('/') { path.to_string() } else { format!("{at}/{path}") };
    let mut parts: Vec<&str> = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.iter().map(|part| format!("/{part}")).collect()
}

/// A path of the image on this machine.
pub(super) fn here(path: &str) -> String {
    format!("{OUT}/root{}", path.trim_end_matches('/'))
}

/// Whether a text begins with this path, and not with a longer name.
fn is_path(text: &str, path: &str) -> bool {
    text.strip_prefix(path)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c)))
}

/// Whether a word of COPY is no path, or a pattern that names the folder above.
fn is_unfit(word: &Word) -> bool {
    let text = word.text();
    let is_hidden = word.has_pattern() && text.split('/').any(|part| part.starts_with('.') && part != ".");
    let is_no_path = ["://", "<<", "git@"].iter().any(|sign| text.contains(sign));
    is_hidden || is_no_path || text.contains(|c: char| c.is_control())
}

/// Whether ADD would unpack a file.
fn is_archive(name: &str) -> bool {
    const ENDINGS: [&str; 9] =
        [".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst", ".gz"];
    ENDINGS.iter().any(|ending| name.to_lowercase().ends_with(ending))
}

/// What is copied, as a word of a shell: of another stage's root, or of the server's folder, neither of which it leaves.
fn source(from: &Word, is_of_stage: bool) -> String {
    let folded = within("", &from.text());
    let path = match (is_of_stage, folded.trim_start_matches('/')) {
        (true, _) => here(&folded),
        (false, "") => ".".into(),
        (false, path) if path.starts_with('-') => format!("./{path}"),
        (false, path) => path.into(),
    };
    if from.has_pattern() {
        Word(path.chars().map(|c| (c, false)).collect()).written()
    } else {
        quoted(&path)
    }
}

/// The command that copies one thing; a folder's contents go into the target, as Docker has it.
fn copied(source: &str, target: &str, is_folder: bool, is_pattern: bool) -> String {
    let parent = target.rsplit_once('/').map_or("", |(parent, _)| parent);
    let (parent, file) = if is_folder {
        (quoted(&here(target)), quoted(&format!("{}/", here(target))))
    } else {
        (quoted(&here(parent)), quoted(&here(target)))
    };
    let into = quoted(&format!("{}/", here(target)));
    let target = quoted(&here(target));
    if source == target {
        return "true".into();
    }
    if source == "." {
        return format!("mkdir -p {target} && cp -R ./. {into}");
    }
    if is_pattern {
        return format!("mkdir -p {target} && cp -R {source} {into}");
    }
    format!(
        "if [ -d {source} ]; then mkdir -p {target} && cp -R {source}/. {into}; else mkdir -p {parent} && cp {source} {file}; fi"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_copies_commands_and_variables_are_done_in_one_folder() {
        let file = parse(
            "# a comment\nFROM golang:1.24 AS build\nWORKDIR /app\nCOPY go.mod ./\nCOPY src /app/src\n\
             RUN apt-get update && apt-get install -y --no-install-recommends pkg-config \\\n    libssl-dev && go build -o /app/server ./src\n\
             FROM scratch\nENV MODE fast\nENV A=1 B=\"two words\"\nCOPY --from=build /app/server /app/server\nWORKDIR /app\n\
             EXPOSE 8080\nCMD [\"/app/server\", \"-p\", \"8080\"]\nSHELL [\"x\"]\n",
        );
        assert_eq!(file.images, ["golang:1.24", "scratch"]);
        assert_eq!(
            file.packages.iter().map(String::as_str).collect::<Vec<_>>(),
            ["libssl-dev", "pkg-config"]
        );
        assert_eq!(
            file.steps,
            [
                "mkdir -p {out}/root/app",
                "if [ -d go.mod ]; then mkdir -p {out}/root/app && cp -R go.mod/. {out}/root/app/; else mkdir -p {out}/root/app && cp go.mod {out}/root/app/; fi",
                "if [ -d src ]; then mkdir -p {out}/root/app/src && cp -R src/. {out}/root/app/src/; else mkdir -p {out}/root/app && cp src {out}/root/app/src; fi",
                "(cd {out}/root/app && go build -o {out}/root/app/server ./src)",
                "export MODE=fast",
                "export A=1",
                "export B='two words'",
                "true",
                "mkdir -p {out}/root/app",
            ]
        );
        assert_eq!(file.env[0], ("MODE".into(), "fast".into()));
        assert_eq!(file.cwd, "{out}/root/app");
        let words = ["{out}/root/app/server", "-p", "8080"].map(String::from).to_vec();
        assert_eq!(file.command, Some(Command::Words(words)));
        assert_eq!(file.left, ["SHELL [\"x\"]"]);
    }

    #[test]
    fn what_an_image_does_to_itself_is_not_done_to_this_machine() {
        let file = parse(
            "FROM debian\nWORKDIR /app\nRUN rm -rf /opt/x && make\nRUN set -eux; apt-get update; make 2>/dev/null; cp a /app/b\n\
             RUN echo a>/etc/b\nRUN ls ~/c\nRUN make 2>&1 >log\n",
        );
        assert_eq!(
            file.steps,
            [
                "mkdir -p {out}/root/app",
                "(cd {out}/root/app && make 2>/dev/null && cp a {out}/root/app/b)",
                "(cd {out}/root/app && make 2>&1 >log)"
            ]
        );
        assert_eq!(file.left, ["RUN rm -rf /opt/x && make", "RUN echo a>/etc/b", "RUN ls ~/c"]);
    }

    #[test]
    fn a_file_is_copied_to_a_name_and_into_a_folder() {
        let file = parse(
            "FROM x\nWORKDIR /a\nCOPY pom.xml pom.xml\nCOPY x /a\nCOPY y z/\nCOPY --from=0 /b c\nCOPY --from=img /b c\n",
        );
        let folders = ["{out}/root/a/pom.xml;", "{out}/root/a/;", "{out}/root/a/z/;", "{out}/root/a/c;"];
        for (step, into) in file.steps[1..].iter().zip(folders) {
            assert!(step.ends_with(&format!("{into} fi")), "{step}");
        }
        assert_eq!((file.steps.len(), file.left), (5, vec!["COPY --from=img /b c".to_string()]));
    }

    #[test]
    fn arguments_follow_an_entry_point() {
        let command = |text: &str| parse(&format!("FROM x\n{text}\n")).command;
        let words = |all: &[&str]| Some(Command::Words(all.iter().map(|word| (*word).to_string()).collect()));
        assert_eq!(command("ENTRYPOINT [\"a\", \"b\"]\nCMD [\"c\"]"), words(&["a", "b", "c"]));
        assert_eq!(command("CMD [\"c\"]\nENTRYPOINT [\"a\"]"), words(&["a", "c"]));
        assert_eq!(command("ENTRYPOINT a b\nCMD [\"c\"]"), Some(Command::Shell("a b".into())));
    }

    #[test]
    fn a_variable_of_variables_is_left_to_do() {
        let file = parse("FROM x\nENV PATH=/opt/t/bin:$PATH\nENV A=1\n");
        assert_eq!(
            (file.env, file.left),
            (vec![("A".into(), "1".into())], vec!["ENV PATH=/opt/t/bin:$PATH".into()])
        );
    }

    #[test]
    fn the_root_is_a_folder_like_any_other() {
        let file = parse("FROM node:20\nCOPY ./ ./\nRUN npm install\nCMD node app.js --opt=/etc/x\n");
        assert_eq!(
            file.steps,
            ["mkdir -p {out}/root && cp -R ./. {out}/root/", "(cd {out}/root && npm install)"]
        );
        assert_eq!(
            (file.cwd.as_str(), file.command),
            ("{out}/root", Some(Command::Shell("node app.js --opt=/etc/x".into())))
        );
    }
}
