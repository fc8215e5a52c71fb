//! `dyno explain`: explains a caveat, a limiter or an exit status.

use std::fmt::Write as _;

use dyno_analysis::Code;
use dyno_analysis::caveat::CaveatGroup;
use dyno_analysis::verdict::Resource;
use dyno_config::text::nearest;
use dyno_report::present::style::Style;
use dyno_report::present::text::wrap;

use crate::cli::ExplainArgs;
use crate::exit::{Exit, usage_error};
use crate::terminal;

/// Columns of a line.
const WIDTH: usize = 100;

/// Number of similar codes that an error names.
const SIMILAR: usize = 3;

/// Prints the explanation of a code, or a list of all codes.
pub fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let style = terminal::style();
    let text = if args.code.is_empty() { list_codes(style) } else { explain(&args.code, style)? };
    terminal::print(&text)?;
    Ok(Exit::Valid)
}

/// A code that has an explanation.
struct ExplainedCode {
    name: String,
    /// Kind of the code, such as `limiter`.
    kind: &'static str,
    /// The meaning, if the explanation does not begin with it.
    meaning: Option<&'static str>,
    explanation: &'static str,
}

impl ExplainedCode {
    fn all() -> Vec<ExplainedCode> {
        let caveats = Code::all().map(|code| ExplainedCode {
            name: code.name().into(),
            kind: "caveat",
            meaning: Some(code.meaning()),
            explanation: code.explanation(),
        });
        let limiters = Resource::ALL.iter().map(|resource| ExplainedCode {
            name: resource.name().into(),
            kind: "limiter",
            meaning: None,
            explanation: resource.explanation(),
        });
        let statuses = Exit::ALL.into_iter().map(|exit| ExplainedCode {
            name: (exit as u8).to_string(),
            kind: "exit status",
            meaning: None,
            explanation: exit.explanation(),
        });
        caveats.chain(limiters).chain(statuses).collect()
    }

    fn text(&self, style: Style) -> String {
        let head = style.bold(&format!("{} ({})", self.name, self.kind));
        let meaning = self
            .meaning
            .map_or_else(String::new, |words| format!("{}\n\n", wrap(words, WIDTH, "")));
        format!("{head}\n\n{meaning}{}", render_marks(self.explanation, style))
    }
}

/// Explains every code with this name. A caveat and a limiter can have the same name.
fn explain(words: &[String], style: Style) -> anyhow::Result<String> {
    let name = normalise(&words.join("_"));
    let codes = ExplainedCode::all();
    let explanations: Vec<String> =
        codes.iter().filter(|code| code.name == name).map(|code| code.text(style)).collect();
    if !explanations.is_empty() {
        return Ok(explanations.join("\n"));
    }
    let mut names: Vec<&str> = codes.iter().map(|code| code.name.as_str()).collect();
    let mut similar = Vec::new();
    while similar.len() < SIMILAR {
        let Some(code) = nearest(&name, names.iter().copied()) else { break };
        similar.push(code);
        names.retain(|name| *name != code);
    }
    let hint = match similar.is_empty() {
        true => String::new(),
        false => format!("try {}, or ", similar.join(", ")),
    };
    Err(usage_error(format!(
        "explain {:?}: unknown code\nhint: {hint}list all codes with `dyno explain`",
        words.join(" ")
    )))
}

/// Changes a code to the spelling of results: `still_warming`.
fn normalise(code: &str) -> String {
    code.trim().to_lowercase().replace(['-', ' '], "_")
}

/// Lists all codes, grouped, each with its meaning.
fn list_codes(style: Style) -> String {
    let mut out = String::new();
    for group in CaveatGroup::ALL {
        write_head(&mut out, &format!("Caveats: {}", group.title()), style);
        group.codes().for_each(|code| write_line(&mut out, code.name(), code.meaning()));
    }
    write_head(&mut out, "Limiters", style);
    Resource::ALL.iter().for_each(|r| write_line(&mut out, r.name(), r.meaning()));
    write_head(&mut out, "Exit statuses", style);
    for exit in Exit::ALL {
        write_line(&mut out, &(exit as u8).to_string(), exit.meaning());
    }
    out + "\n`dyno explain CODE` explains one code.\n"
}

fn write_head(out: &mut String, title: &str, style: Style) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}{}", style.bold(title));
}

/// Writes a code and the first sentence of its meaning.
fn write_line(out: &mut String, name: &str, meaning: &str) {
    /// Columns of the names.
    const NAMES: usize = 24;
    let sentence = meaning.split_inclusive(". ").next().unwrap_or(meaning).trim_end();
    let indent = " ".repeat(NAMES + 2);
    let _ = writeln!(out, "  {name:<NAMES$}{}", wrap(sentence, WIDTH - NAMES - 2, &indent));
}

/// Renders bold words of a Markdown text, and removes the marks of emphasis.
fn render_marks(markdown: &str, style: Style) -> String {
    let parts = markdown.split("**").enumerate();
    let rendered = parts.map(|(index, part)| match index % 2 {
        0 => part.replace('*', ""),
        _ => style.bold(part),
    });
    rendered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_found_in_any_spelling() {
        for code in ExplainedCode::all() {
            for typed in [code.name.clone(), code.name.replace('_', "-").to_uppercase()] {
                let text = explain(&[typed], Style::Plain).unwrap();
                assert!(text.contains(&format!("{} ({})", code.name, code.kind)), "{text}");
                assert!(text.contains("\nAction: ") && !text.contains("**"), "{text}");
            }
        }
        let text = explain(&["few".into(), "repeats".into()], Style::Plain).unwrap();
        assert!(text.starts_with("few_repeats (caveat)\n\n"), "{text}");
    }

    #[test]
    fn name_shared_by_two_codes_explains_both() {
        let text = explain(&["dropped_packets".into()], Style::Plain).unwrap();
        assert!(text.contains("(caveat)") && text.contains("\n\ndropped_packets (limiter)"));
    }

    #[test]
    fn unknown_code_names_similar_ones() {
        let message = |code: &str| explain(&[code.into()], Style::Plain).unwrap_err().to_string();
        let near = message("still_warm");
        assert!(near.starts_with("explain \"still_warm\": unknown code\nhint: "), "{near}");
        assert!(near.contains("try still_warming"), "{near}");
        assert!(message("9").contains("hint: list all codes with `dyno explain`"));
    }

    #[test]
    fn list_has_every_code_within_width() {
        let text = list_codes(Style::Plain);
        for code in ExplainedCode::all() {
            assert!(text.contains(&format!("\n  {} ", code.name)), "{}", code.name);
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        assert!(list_codes(Style::Colour).starts_with("\x1b[1mCaveats: "));
    }

    #[test]
    fn render_marks_keeps_bold_only() {
        let text = "**Observed**: a *guess*.";
        assert_eq!(render_marks(text, Style::Plain), "Observed: a guess.");
        assert_eq!(render_marks(text, Style::Colour), "\x1b[1mObserved\x1b[0m: a guess.");
    }
}
