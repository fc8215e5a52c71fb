//! What a Dockerfile does, as far as a folder on this machine can do it too: copies, commands, variables, and the command in
//! the end.
//!
//! All stages share one folder, `{out}/root`, which stands for the image's root. Paths of the image that the file itself makes
//! (by WORKDIR, COPY and ADD) are found again in commands; what an image brings besides must be on this machine.

use std::collections::BTreeSet;

use crate::placeholders::escaped;

/// Where the root of the image is.
pub(super) const ROOT: &str = "{out}/root";

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
    /// Folder in which the command is started, of the image.
    pub(super) workdir: String,
    pub(super) command: Option<Command>,
    /// Instructions that were not understood, or cannot be done here.
    pub(super) left: Vec<String>,
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
    let instructions = instructions(&escaped(text));
    let mut reader = Reader { own: own_paths(&instructions), ..Reader::default() };
    instructions.iter().for_each(|(name, rest)| reader.take(name, rest));
    reader.file.command = started(reader.entry.take(), reader.file.command.take());
    reader.file.workdir = reader.workdir();
    reader.file
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

/// Instructions with their arguments: comments left out, continued lines joined.
fn instructions(text: &str) -> Vec<(String, String)> {
    let mut joined: Vec<String> = Vec::new();
    let mut goes_on = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (line, continues) = line.strip_suffix('\\').map_or((line, false), |line| (line.trim_end(), true));
        match joined.last_mut().filter(|_| goes_on) {
            Some(last) => *last = format!("{last} {line}"),
            None => joined.push(line.into()),
        }
        goes_on = continues;
    }
    let split = |line: String| {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((&line, ""));
        (name.to_ascii_uppercase(), rest.trim().to_string())
    };
    joined.into_iter().map(split).collect()
}

/// The absolute folders that the file itself makes, but for the root.
fn own_paths(all: &[(String, String)]) -> BTreeSet<String> {
    let of = |(name, rest): &(String, String)| match name.as_str() {
        "WORKDIR" => Some(rest.clone()),
        "COPY" | "ADD" => rest.split_whitespace().last().map(String::from),
        _ => None,
    };
    let absolute = all.iter().filter_map(of).map(|path| path.trim_end_matches('/').to_string());
    absolute.filter(|path| path.starts_with('/') && path.len() > 1).collect()
}

#[derive(Default)]
struct Reader {
    own: BTreeSet<String>,
    /// Of the image, absolute; empty: the root.
    at: String,
    /// What ENTRYPOINT says.
    entry: Option<Command>,
    file: Dockerfile,
}

impl Reader {
    fn workdir(&self) -> String {
        if self.at.is_empty() { "/".into() } else { self.at.clone() }
    }

    fn take(&mut self, name: &str, rest: &str) {
        match name {
            "FROM" => self.from(rest),
            "WORKDIR" => {
                self.at = self.absolute(rest);
                self.step(format!("mkdir -p {}", here(&self.at)));
            }
            "COPY" | "ADD" => self.copy(rest),
            "RUN" => self.run(rest),
            "ENV" => self.env(rest),
            "CMD" => self.file.command = Some(self.command(rest)),
            "ENTRYPOINT" => self.entry = Some(self.command(rest)),
            "EXPOSE" | "LABEL" | "MAINTAINER" | "USER" | "STOPSIGNAL" | "HEALTHCHECK" => {}
            _ => self.file.left.push(format!("{name} {rest}")),
        }
    }

    fn from(&mut self, rest: &str) {
        let image = rest.split_whitespace().find(|word| !word.starts_with("--")).unwrap_or_default();
        self.file.images.push(image.into());
        self.at = String::new();
        self.file.env.clear();
    }

    fn absolute(&self, path: &str) -> String {
        let joined = if path.starts_with('/') { path.to_string() } else { format!("{}/{path}", self.at) };
        let parts = joined.split('/').filter(|part| !part.is_empty() && *part != ".");
        parts.fold(String::new(), |path, part| format!("{path}/{part}"))
    }

    fn copy(&mut self, rest: &str) {
        let is_of_stage = rest.split_whitespace().any(|word| word.starts_with("--from="));
        let words: Vec<&str> = rest.split_whitespace().filter(|word| !word.starts_with("--")).collect();
        let Some((to, from)) = words.split_last() else { return };
        if words[0].starts_with('[') || words.iter().any(|word| word.contains("://")) {
            return self.file.left.push(format!("COPY {rest}"));
        }
        let is_folder =
            to.ends_with('/') || *to == "." || from.len() > 1 || self.own.contains(to.trim_end_matches('/'));
        let target = self.absolute(to);
        for from in from {
            let source = if is_of_stage {
                here(&self.absolute_of(from))
            } else {
                from.trim_start_matches("./").to_string()
            };
            self.step(copied(&source, &target, is_folder));
        }
    }

    /// A path of another stage, which knows no working folder of this one.
    fn absolute_of(&self, path: &str) -> String {
        format!("/{}", path.trim_start_matches('/'))
    }

    fn run(&mut self, rest: &str) {
        let parts = rest.split("&&").map(str::trim).filter(|part| self.is_kept(part));
        let placed = parts.map(|part| (part, self.placed(part)));
        // What an image does to itself would be done to this machine.
        let (outside, kept): (Vec<_>, Vec<_>) = placed.partition(|(_, placed)| is_outside(placed));
        self.file.left.extend(outside.into_iter().map(|(part, _)| format!("RUN {part}")));
        let kept: Vec<String> = kept.into_iter().map(|(_, placed)| placed).collect();
        let packages: Vec<String> = rest.split("&&").flat_map(packages_of).collect();
        self.file.packages.extend(packages);
        if !kept.is_empty() {
            // In a shell of its own: its `cd` is not the next one's.
            self.step(format!("(cd {} && {})", here(&self.at), kept.join(" && ")));
        }
    }

    /// Whether a command makes sense outside of an image.
    fn is_kept(&self, part: &str) -> bool {
        const OF_IMAGES: [&str; 6] = ["apt-get ", "apt ", "apk ", "yum ", "dnf ", "rm -rf /var"];
        !part.is_empty() && !OF_IMAGES.iter().any(|begin| part.starts_with(begin))
    }

    /// A text whose paths of the image are those of this machine.
    fn placed(&self, text: &str) -> String {
        // The longest first: one may begin like another.
        let mut own: Vec<&String> = self.own.iter().collect();
        own.sort_by_key(|path| std::cmp::Reverse(path.len()));
        let mut placed = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('/') {
            let begins =
                rest[..at].ends_with(|c: char| c.is_whitespace() || "\"'=:,(".contains(c)) || at == 0;
            let own = own.iter().find(|path| begins && is_path(&rest[at..], path));
            let end = own.map_or(at + 1, |path| at + path.len());
            placed.push_str(&rest[..at]);
            placed.push_str(&own.map_or_else(|| rest[at..end].to_string(), |path| here(path)));
            rest = &rest[end..];
        }
        placed + rest
    }

    fn env(&mut self, rest: &str) {
        let pairs: Vec<(String, String)> = match rest.split_once(char::is_whitespace) {
            // The old form has one variable, and no sign between.
            Some((name, value)) if !name.contains('=') => vec![(name.into(), value.trim().into())],
            _ => words(rest)
                .iter()
                .filter_map(|word| word.split_once('='))
                .map(|(n, v)| (n.into(), v.into()))
                .collect(),
        };
        for (name, value) in pairs {
            let value = self.placed(value.trim_matches('"'));
            self.step(format!("export {name}={}", quoted(&value)));
            if value.contains('$') {
                // Nothing fills variables in where a server is started.
                self.file.left.push(format!("ENV {name}={value}"));
            } else {
                self.file.env.push((name, value));
            }
        }
    }

    fn command(&self, rest: &str) -> Command {
        match serde_json::from_str::<Vec<String>>(rest) {
            Ok(words) => Command::Words(words.iter().map(|word| self.placed(word)).collect()),
            Err(_) => Command::Shell(self.placed(rest)),
        }
    }

    fn step(&mut self, step: String) {
        if self.file.steps.last() != Some(&step) {
            self.file.steps.push(step);
        }
    }
}

/// Whether a command names an absolute path that is none of the image's folder here.
fn is_outside(placed: &str) -> bool {
    let mut words = placed.split(|c: char| c.is_whitespace() || "\"'=(),;<>|&".contains(c));
    words.any(|word| {
        (word.starts_with('/') && !word.starts_with("/dev/"))
            || word.starts_with('~')
            || word.starts_with("$HOME")
    })
}

/// A path of the image on this machine.
pub(super) fn here(path: &str) -> String {
    format!("{ROOT}{}", path.trim_end_matches('/'))
}

/// Whether a text begins with this path, and not with a longer name.
fn is_path(text: &str, path: &str) -> bool {
    text.strip_prefix(path)
        .is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric() || "._-".contains(c)))
}

/// The command that copies one thing; a folder's contents go into the target, as Docker has it.
fn copied(source: &str, target: &str, is_folder: bool) -> String {
    let target = here(target);
    let source = if source.is_empty() { "." } else { source.trim_end_matches('/') };
    if source == target {
        return "true".into();
    }
    if source == "." {
        return format!("mkdir -p {target} && cp -R ./. {target}/");
    }
    if source.contains('*') {
        return format!("mkdir -p {target} && cp -R {source} {target}/");
    }
    let file = if is_folder { format!("{target}/") } else { target.clone() };
    let parent = if is_folder { target.clone() } else { format!("$(dirname {target})") };
    format!(
        "if [ -d {source} ]; then mkdir -p {target} && cp -R {source}/. {target}/; else mkdir -p {parent} && cp {source} {file}; fi"
    )
}

fn packages_of(part: &str) -> Vec<String> {
    let words: Vec<&str> = part.split_whitespace().collect();
    let is_install =
        words.first().is_some_and(|word| ["apt-get", "apt"].contains(word)) && words.contains(&"install");
    let names =
        words.iter().skip_while(|word| **word != "install").skip(1).filter(|word| !word.starts_with('-'));
    if is_install { names.map(|name| (*name).to_string()).collect() } else { Vec::new() }
}

/// Words of a line, of which some are in quotes.
fn words(text: &str) -> Vec<String> {
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in text.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(q), c) if c == q => quote = None,
            (None, c) if c.is_whitespace() => all.push(std::mem::take(&mut word)),
            (_, c) => word.push(c),
        }
    }
    all.push(word);
    all.retain(|word| !word.is_empty());
    all
}

/// A value as one word of a shell, in which placeholders are still filled in.
pub(super) fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
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
                "if [ -d src ]; then mkdir -p {out}/root/app/src && cp -R src/. {out}/root/app/src/; else mkdir -p {out}/root/app/src && cp src {out}/root/app/src/; fi",
                "(cd {out}/root/app && go build -o {out}/root/app/server ./src)",
                "export MODE=\"fast\"",
                "export A=\"1\"",
                "export B=\"two words\"",
                "true",
                "mkdir -p {out}/root/app",
            ]
        );
        assert_eq!(file.env[0], ("MODE".into(), "fast".into()));
        assert_eq!(file.workdir, "/app");
        let words = ["{out}/root/app/server", "-p", "8080"].map(String::from).to_vec();
        assert_eq!(file.command, Some(Command::Words(words)));
        assert_eq!(file.left, ["SHELL [\"x\"]"]);
    }

    #[test]
    fn what_an_image_does_to_itself_is_not_done_to_this_machine() {
        let file = parse(
            "FROM debian\nWORKDIR /app\nRUN rm -rf /opt/x/* && make 2>/dev/null && echo a>/etc/b && ls ~/c && cp a /app/b\n",
        );
        assert_eq!(
            file.steps,
            ["mkdir -p {out}/root/app", "(cd {out}/root/app && make 2>/dev/null && cp a {out}/root/app/b)"]
        );
        assert_eq!(file.left, ["RUN rm -rf /opt/x/*", "RUN echo a>/etc/b", "RUN ls ~/c"]);
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
            (file.workdir.as_str(), file.command),
            ("/", Some(Command::Shell("node app.js --opt=/etc/x".into())))
        );
    }
}
