//! Hints for the options of other load generators: what does the same here.

mod tools;

use std::error::Error as _;
use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use self::tools::{
    DURATION, IDLE_TIMEOUT, LOG, LoadTool, METHOD, SAME, Spelling, TIMEOUT, TOOLS, WARMUP,
};

/// A hint for an option of `dyno load` that clap refused. `None`: no known tool has it.
pub fn hint(error: &clap::Error, load: &clap::Command) -> Option<String> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let option = context(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument if option.contains("://") => Some(format!(
            "{option}: is a second URL, and a load has one\nhint: use --request for several paths \
             of a server, or --import FILE"
        )),
        ErrorKind::UnknownArgument => unknown(option.split('=').next().unwrap_or(option)),
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let problem = error.source().map(ToString::to_string);
            misuse_hint(
                option.split(' ').next().unwrap_or(option),
                context(ContextKind::InvalidValue).filter(|value| !value.is_empty()),
                problem.as_deref(),
                load,
            )
        }
        _ => None,
    }
}

/// Removes the dashes of an option. `None`: the tool does not spell options so.
fn strip_dashes(typed: &str, spelling: Spelling) -> Option<&str> {
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

/// Returns what does here the same as an option of a tool. `None`: the tool has no such option.
fn answer(tool: &LoadTool, typed: &str) -> Option<&'static str> {
    let name = strip_dashes(typed, tool.spelling)?;
    let has = |names: &str| names.split(' ').any(|own| own == name);
    tool.options.iter().find(|(names, _)| has(names)).map(|(_, here)| *here)
}

/// Returns a hint per meaning of an option in other tools, with their names. Tools in which it
/// means the same are left out. `fits`: whether a meaning is to be named.
fn answers(typed: &str, fits: impl Fn(&str) -> bool) -> Option<String> {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for tool in &TOOLS {
        let Some(here) = answer(tool, typed).filter(|here| *here != SAME && fits(here)) else {
            continue;
        };
        match all.iter_mut().find(|(known, _)| *known == here) {
            Some((_, tools)) => tools.push(tool.name),
            None => all.push((here, vec![tool.name])),
        }
    }
    let line = |(here, tools): (&str, Vec<&str>)| {
        format!("\nhint: {typed} in {}: {here}", tools.join(", "))
    };
    (!all.is_empty()).then(|| all.into_iter().map(line).collect())
}

fn unknown(typed: &str) -> Option<String> {
    Some(format!("{typed}: no such option{}", answers(typed, |_| true)?))
}

/// Whether a value looks like one of the option that a tool has for `here`.
fn is_value_for(here: &str, value: &str) -> bool {
    if value.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) {
        let is_time = value.ends_with(|c: char| c.is_ascii_alphabetic());
        return is_time && [DURATION, TIMEOUT, IDLE_TIMEOUT, WARMUP].contains(&here);
    }
    match here {
        METHOD => value.bytes().all(|byte| byte.is_ascii_alphabetic()),
        LOG => false,
        _ if here.contains("TEXT") => true,
        _ if here.contains("FILE") => value.contains(['.', '/', '@']),
        _ => here.contains("-H '") && value.contains([':', '=', '/']),
    }
}

/// A hint for an option with a value that it does not take here, if the value looks like one of the
/// option of another tool. `long`: its name here. `problem`: the message of its own parser.
fn misuse_hint(
    long: &str,
    value: Option<&str>,
    problem: Option<&str>,
    load: &clap::Command,
) -> Option<String> {
    let arg = load.get_arguments().find(|arg| arg.get_long() == long.strip_prefix("--"))?;
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let typed = [short.as_deref(), Some(long)];
    let fits = |here: &str| value.is_none_or(|value| is_value_for(here, value));
    let (typed, elsewhere) =
        typed.into_iter().flatten().find_map(|typed| Some((typed, answers(typed, fits)?)))?;
    let problem = match value {
        Some(value) => {
            // The parser may name the value, too, and may separate its advice by a semicolon.
            let quoted = format!("{value:?}");
            let problem = problem?.trim_start_matches(&quoted).trim_start_matches(": ").trim();
            format!("{typed} {quoted}: {}", problem.replacen("; ", "\nhint: ", 1))
        }
        None => format!("{typed}: needs a value"),
    };
    let same =
        if typed == long { String::new() } else { format!("\nhint: {typed} is {long} here") };
    Some(format!("{problem}{same}{elsewhere}"))
}

/// A hint for a long name after one dash, as Go's tools have it: clap would read `-rate 100` as `-r
/// ate 100`, and `-host` as a wish for help.
pub fn single_dash_hint(words: &[OsString], load: &clap::Command) -> Option<String> {
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
            return Some(format!("-{name}: long names have two dashes\nhint: use {gnu}"));
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
    // A word with flags alone may ask for help.
    (asks && !is_plain)
        .then(|| format!("-{letters}: no such option\nhint: use -h alone to show the options"))
}

#[cfg(test)]
mod tests;
