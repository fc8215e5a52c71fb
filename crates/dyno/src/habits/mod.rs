//! Answers to the options of other load generators: what does the same here.

mod tools;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use self::tools::{LoadTool, SAME, Spelling, TOOLS};

/// A hint for an option of `dyno load` that clap refused; `None`: no other tool is known to have
/// it.
pub fn hint(error: &clap::Error, load: &clap::Command) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument if option.contains("://") => Some(format!(
            "{option} is a second URL, and a load has one; use --request for several paths of a \
             server, or --import FILE"
        )),
        ErrorKind::UnknownArgument => unknown(option.split('=').next().unwrap_or(option)),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let hint = misuse_hint(
                option.split(' ').next().unwrap_or(option),
                context(ContextKind::InvalidValue),
                load,
            )?;
            // What the option takes here is said by its own parser.
            let why = error.source().map_or_else(String::new, |why| format!("\nhint: {why}"));
            Some(hint + &why)
        }
        _ => None,
    }
}

/// The name of an option as it is typed, without its dashes. `None`: no tool spells it so.
fn name_of(typed: &str, spelling: Spelling) -> Option<&str> {
    let (name, dashes) = match (typed.strip_prefix("--"), typed.strip_prefix('-')) {
        (Some(name), _) => (name, 2),
        (None, Some(name)) => (name, 1),
        (None, None) => return None,
    };
    let is_letter = name.chars().count() == 1;
    match (spelling, dashes, is_letter) {
        (Spelling::Go, ..) | (Spelling::Gnu, 1, true) | (Spelling::Gnu, 2, false) => Some(name),
        (Spelling::Gnu, ..) => None,
    }
}

/// What does here what an option does in a tool. `None`: the tool has no such option.
fn answer(tool: &LoadTool, typed: &str) -> Option<&'static str> {
    let name = name_of(typed, tool.spelling)?;
    let has = |names: &str| names.split(' ').any(|own| own == name);
    tool.options.iter().find(|(names, _)| has(names)).map(|(_, here)| *here)
}

/// What does here what an option does in the tools that have it, with their names; those in which
/// it is the same are left out.
fn answers(typed: &str) -> Option<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for tool in &TOOLS {
        let Some(here) = answer(tool, typed).filter(|here| *here != SAME) else { continue };
        match all.iter_mut().find(|(known, _)| *known == here) {
            Some((_, tools)) => tools.push(tool.name),
            None => all.push((here, vec![tool.name])),
        }
    }
    let parts: Vec<String> =
        all.into_iter().map(|(here, tools)| format!("{here} ({})", tools.join(", "))).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn unknown(typed: &str) -> Option<String> {
    Some(format!("there is no {typed} here: {}", answers(typed)?))
}

/// A hint for an option with a value that it does not take here, because it means another thing
/// elsewhere. `long`: its name here.
fn misuse_hint(long: &str, value: Option<&str>, load: &clap::Command) -> Option<String> {
    let arg = load.get_arguments().find(|arg| arg.get_long() == long.strip_prefix("--"))?;
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let typed = [short.as_deref(), Some(long)];
    let (typed, elsewhere) =
        typed.into_iter().flatten().find_map(|typed| Some((typed, answers(typed)?)))?;
    let value = value.filter(|value| !value.is_empty());
    let cannot = match value {
        Some(value) => format!("{value:?} is no value of {typed}"),
        None => format!("{typed} needs a value"),
    };
    let same = if typed == long { String::new() } else { format!(", which is {long} here") };
    Some(format!("{cannot}{same}; for what it is elsewhere: {elsewhere}"))
}

/// A hint for a long name after one dash, as Go's tools have it: clap would read `-rate 100` as `-r
/// ate 100`, and `-host` as a wish for help.
pub fn one_dash(words: &[OsString], load: &clap::Command) -> Option<String> {
    let words = words.iter().skip(1).filter_map(|word| word.to_str());
    let mut words = words.take_while(|word| *word != "--").skip_while(|word| *word != "load");
    words.find_map(|word| {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        let name = letters.split('=').next()?;
        if name.chars().count() < 2 {
            return hidden_help(letters, load);
        }
        let (go, gnu) = (format!("-{name}"), format!("--{name}"));
        if let Some(hint) = unknown(&go) {
            return Some(hint);
        }
        if load.get_arguments().any(|arg| arg.get_long() == Some(name)) {
            return Some(format!("long names have two dashes here: {gnu}"));
        }
        unknown(&gnu).or_else(|| hidden_help(letters, load))
    })
}

/// A hint for letters among which clap would see a wish for help, and make no load.
fn hidden_help(letters: &str, load: &clap::Command) -> Option<String> {
    let is_flag = |letter: char| {
        let arg = load.get_arguments().find(|arg| arg.get_short() == Some(letter));
        arg.is_some_and(|arg| !arg.get_action().takes_values())
    };
    let asks = letters.trim_start_matches(|c: char| c != 'h' && is_flag(c)).starts_with('h');
    let is_plain = letters.chars().all(is_flag);
    // A word that asks for help and for nothing else may do so.
    (asks && !is_plain).then(|| format!("there is no -{letters} here; -h alone shows the options"))
}

#[cfg(test)]
mod tests;
