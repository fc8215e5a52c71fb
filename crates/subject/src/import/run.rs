//! What RUN does, as far as it may be done on this machine: simple commands of known tools that stay below the folder that
//! stands for the image's root.

use std::collections::BTreeSet;

use super::dockerfile::{here, within};
use super::tools::{is_allowed, is_file_tool, is_of_images, is_own_script, is_script_of_sed};
use super::words::{Raw, Simple, Variables, Word, commands, quoted};

/// What commands find where they are run.
#[derive(Clone, Debug, Default)]
pub(super) struct Scene {
    /// Absolute paths of the image that its file makes, but for the root.
    pub(super) own: BTreeSet<String>,
    pub(super) variables: Variables,
    /// Whether packages of Python go into an environment of their own.
    pub(super) is_python: bool,
    /// Scripts that come with the server, and are run.
    pub(super) scripts: BTreeSet<String>,
    /// Whether a link was made, so that `..` may be anywhere.
    pub(super) has_links: bool,
}

/// What becomes of one RUN.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ran {
    pub(super) commands: Vec<String>,
    /// What is not done of it.
    pub(super) left: Option<String>,
}

/// Takes the text of a shell. `at`: the folder of the image in which it is run; empty: the root.
pub(super) fn shell(text: &str, at: &str, scene: &mut Scene) -> Ran {
    let Some(all) = commands(text) else {
        return Ran { left: Some(text.into()), ..Ran::default() };
    };
    let count = all.len();
    let needed: Vec<Simple> =
        all.into_iter().filter(|simple| !is_of_images(simple, &scene.variables)).collect();
    let mut after = scene.clone();
    let mut walk = Walk { at: at.into(), scene: &mut after };
    let done: Option<Vec<String>> = needed.iter().map(|simple| walk.command(simple)).collect();
    match done {
        Some(commands) => {
            *scene = after;
            Ran { commands, left: None }
        }
        None => {
            let texts: Vec<&str> = needed.iter().map(|simple| simple.text.as_str()).collect();
            let left = if texts.len() == count { text.into() } else { texts.join(" && ") };
            Ran { left: Some(left), ..Ran::default() }
        }
    }
}

/// Takes words that no shell reads.
pub(super) fn words(words: &[String], at: &str, scene: &mut Scene) -> Option<String> {
    let words: Vec<Word> = words.iter().map(|word| Word::literal(word)).collect();
    Walk { at: at.into(), scene }.program(&words)
}

/// Whether a variable decides which tools are found, or where they put what they make.
pub(super) fn is_of_tools(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "path",
        "home",
        "ifs",
        "env",
        "bash_env",
        "shellopts",
        "virtual_env",
        "ld_preload",
        "pip_user",
        "destdir",
        "npm_config_global",
        "npm_config_location",
    ];
    NAMES.contains(&name.to_ascii_lowercase().as_str())
}

/// A value that holds no path but those of the image that are its own, as it is here.
pub(super) fn placed(value: &str, scene: &mut Scene) -> Option<String> {
    let walk = Walk { at: String::new(), scene };
    Some(walk.word(&Word::literal(value), false)?.text())
}

/// One RUN, command by command.
struct Walk<'a> {
    at: String,
    scene: &'a mut Scene,
}

impl Walk<'_> {
    /// The command as it is run here. `None`: it may not be.
    fn command(&mut self, simple: &Simple) -> Option<String> {
        let begin = simple.words.iter().take_while(|word| word.is_assignment()).count();
        let (set, rest) = simple.words.split_at(begin);
        let mut parts = Vec::new();
        for raw in set {
            let word = raw.word(&self.scene.variables)?;
            let is_refused = word.text().split_once('=').is_none_or(|(name, _)| is_of_tools(name));
            let word = self.word(&word, false).filter(|word| !is_refused && !word.has_pattern())?;
            parts.push(word.written());
        }
        let words: Option<Vec<Vec<Word>>> = rest.iter().map(|raw| raw.split(&self.scene.variables)).collect();
        // First: a folder that it changes to is that of the next command.
        let redirections: Option<Vec<String>> =
            simple.redirections.iter().map(|(operator, raw)| self.redirection(operator, raw)).collect();
        parts.push(self.program(&words?.concat())?);
        parts.extend(redirections?);
        Some(parts.join(" "))
    }

    fn redirection(&self, operator: &str, raw: &Raw) -> Option<String> {
        let word = raw.word(&self.scene.variables)?;
        if operator.ends_with('&') {
            let is_stream = ["1", "2"].contains(&word.text().as_str());
            return is_stream.then(|| format!("{operator}{}", word.text()));
        }
        let word = self.word(&word, true).filter(|word| !word.has_pattern())?;
        Some(format!("{operator}{}", word.written()))
    }

    fn program(&mut self, words: &[Word]) -> Option<String> {
        let (program, arguments) = words.split_first()?;
        let program = program.text();
        let texts: Vec<String> = arguments.iter().map(Word::text).collect();
        let is_patterned = arguments.iter().any(Word::has_pattern);
        if !is_allowed(&program, &texts, self.scene.is_python) || (program == "rm" && is_patterned) {
            return None;
        }
        match program.as_str() {
            "cd" => return self.cd(&texts).filter(|_| !is_patterned),
            "mkdir" => self.scene.own.extend(texts.iter().filter_map(|path| own_path(path))),
            script if is_own_script(script) => self.scene.scripts.extend([script.to_string()]),
            _ => {}
        }
        if !is_file_tool(&program) || program == "ln" {
            // These may go elsewhere before they go up.
            let ups = texts.iter().map(|text| ups(text)).sum::<usize>();
            if ups > if program == "ln" { 0 } else { depth(&self.at) } {
                return None;
            }
        }
        let mut parts = vec![quoted(&program)];
        for (word, text) in arguments.iter().zip(&texts) {
            let word = if program == "sed" && is_script_of_sed(text) {
                word.clone()
            } else {
                self.word(word, is_file_tool(&program))?
            };
            parts.push(word.written());
        }
        self.scene.has_links |= program == "ln";
        Some(parts.join(" "))
    }

    /// Changes the folder. Its whole path is written, which no variable of the user's leads elsewhere.
    fn cd(&mut self, arguments: &[String]) -> Option<String> {
        let [path] = arguments else { return None };
        let is_sound = !path.is_empty() && !path.starts_with(['-', '~']);
        let is_up = ups(path) > 0 && self.scene.has_links;
        let to = match path.strip_prefix('/') {
            Some(_) => Some(within("", path)).filter(|path| path.is_empty() || self.is_own(path)),
            None => stays(path, depth(&self.at)).then(|| within(&self.at, path)),
        };
        self.at = to.filter(|_| is_sound && !is_up)?;
        Some(format!("cd {}", quoted(&here(&self.at))))
    }

    fn is_own(&self, path: &str) -> bool {
        self.scene
            .own
            .iter()
            .any(|own| path.strip_prefix(own).is_some_and(|r| r.is_empty() || r.starts_with('/')))
    }

    /// A word whose paths are those of this machine. `None`: one is outside.
    fn word(&self, word: &Word, is_file: bool) -> Option<Word> {
        let text = word.text();
        let from = if text.starts_with('/') { 0 } else { depth(&self.at) };
        let is_up = ups(&text) > 0;
        if is_up && (self.scene.has_links || text.contains(char::is_whitespace) || !stays(&text, from)) {
            return None;
        }
        let mut placed: Vec<(char, bool)> = Vec::new();
        let mut rest = word.0.as_slice();
        while let Some((c, is_quoted)) = rest.first() {
            if is_separator(*c) {
                placed.push((*c, *is_quoted));
                rest = &rest[1..];
                continue;
            }
            let url = if is_file { 0 } else { url_length(&placed, rest) };
            let length = rest.iter().take_while(|(c, _)| !is_separator(*c)).count();
            let (piece, after) = rest.split_at(length.max(url));
            match url {
                0 => placed.extend(self.piece(piece, &placed, is_file)?),
                _ => placed.extend(piece),
            }
            rest = after;
        }
        Some(Word(placed))
    }

    /// A part of a word that may be a path. `before`: what of the word is before it.
    fn piece(
        &self,
        piece: &[(char, bool)],
        before: &[(char, bool)],
        is_file: bool,
    ) -> Option<Vec<(char, bool)>> {
        let text: String = piece.iter().map(|(c, _)| c).collect();
        let is_value = before.iter().position(|(c, _)| *c == '=').is_none_or(|at| at + 1 == before.len());
        let is_hidden = |at: usize| {
            // A shell finds `..` by it.
            piece[at] == ('.', false)
                && (at == 0 || piece[at - 1].0 == '/')
                && piece[at..].iter().take_while(|(c, _)| *c != '/').any(|(c, q)| !q && "*?[".contains(*c))
        };
        let is_begun = before.last().is_some_and(|(c, _)| *c != '=');
        let is_home = !is_begun && piece.first() == Some(&('~', false));
        if is_home || (ups(&text) > 0 && !is_value) || (0..piece.len()).any(is_hidden) {
            return None;
        }
        let begin = if text.starts_with('-') { option_length(&text, is_file)? } else { 0 };
        let (option, path) = piece.split_at(begin);
        let text: String = path.iter().map(|(c, _)| c).collect();
        if !text.starts_with('/') {
            let is_odd = |part: &str| begin > 0 && part.ends_with("..") && !part.chars().all(|c| c == '.');
            let is_inside = stays(&text, depth(&self.at)) && !text.split('/').any(is_odd);
            return is_inside.then(|| piece.to_vec());
        }
        if text == "/dev/null" {
            return Some(piece.to_vec());
        }
        let folded = within("", &text);
        if !self.is_own(&folded) || !stays(&text, 0) {
            return None;
        }
        let mut placed = option.to_vec();
        placed.extend(here("").chars().map(|c| (c, true)));
        placed.extend(path);
        Some(placed)
    }
}

/// How many characters of an option are before the path in it. `None`: that cannot be said.
fn option_length(text: &str, is_file: bool) -> Option<usize> {
    let Some(slash) = text.find('/') else { return Some(text.chars().count().min(2)) };
    let is_flags = slash <= 4 && text[1..slash].chars().all(|c| c.is_ascii_alphabetic());
    match (is_file, is_flags && slash == 2) {
        (false, true) => Some(2),
        (false, false) if !is_flags => Some(2),
        _ => None,
    }
}

/// The length of a URL that begins here, after its scheme; 0: none does.
fn url_length(before: &[(char, bool)], rest: &[(char, bool)]) -> usize {
    let text: String = rest.iter().map(|(c, _)| c).collect();
    let scheme: String = before.iter().map(|(c, _)| c).collect();
    let is_scheme = scheme
        .strip_suffix(':')
        .is_some_and(|s| s.ends_with(|c: char| c.is_ascii_alphanumeric()) && !s.ends_with("file"));
    let is_host = |host: &str| host.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '[');
    if !is_scheme || text.contains("..") || !text.strip_prefix("//").is_some_and(is_host) {
        return 0;
    }
    text.chars().take_while(|c| !c.is_whitespace() && !"\"',;".contains(*c)).count()
}

fn is_separator(c: char) -> bool {
    c.is_whitespace() || "=:,;\"'()<>|&{}!`$\\".contains(c)
}

/// How often a text goes up a folder.
fn ups(text: &str) -> usize {
    text.split(|c| c == '/' || is_separator(c)).filter(|part| part.trim_start_matches('-') == "..").count()
        + usize::from(
            text.starts_with('-')
                && text.len() > 3
                && text.split('/').next().is_some_and(|p| p.ends_with("..")),
        )
}

/// Whether a path never goes above the root from a folder this deep in it.
fn stays(path: &str, depth: usize) -> bool {
    let after = path.split('/').try_fold(depth, |depth, part| match part {
        "" | "." => Some(depth),
        ".." => depth.checked_sub(1),
        _ => Some(depth + 1),
    });
    after.is_some()
}

/// How deep in the root a folder is.
fn depth(path: &str) -> usize {
    path.split('/').filter(|part| !part.is_empty()).count()
}

/// The absolute path that a command makes, but for the root.
pub(super) fn own_path(path: &str) -> Option<String> {
    let is_sound = path.starts_with('/') && stays(path, 0) && !path.contains(['*', '?', '[']);
    is_sound.then(|| within("", path)).filter(|path| !path.is_empty())
}
