//! Splits a Dockerfile into instructions, without interpreting them.

use super::plain_line;

/// Maximum number of characters of a listed line. Longer ones are cut.
const LINE_CHARS: usize = 400;

/// An instruction: its name in capitals, and its lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) name: String,
    pub(super) lines: Vec<String>,
}

/// Reads the instructions of a Dockerfile, with their continued lines and here-documents, and
/// without comments and empty lines.
pub(super) fn parse(text: &str) -> Vec<Instruction> {
    let text = text.trim_start_matches('\u{feff}');
    let escape = escape_character(text);
    let mut lines = text.lines();
    let mut instructions = Vec::new();
    while let Some(line) = lines.next() {
        if is_empty_or_comment(line) {
            continue;
        }
        let name = line.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        let mut instruction_lines = vec![line.trim().to_string()];
        let mut last = line;
        while last.trim_end().ends_with(escape) {
            let Some(next) = lines.next() else { break };
            if !is_empty_or_comment(next) {
                instruction_lines.push(next.trim_end().to_string());
                last = next;
            }
        }
        if ["RUN", "COPY", "ADD"].contains(&name.as_str()) {
            for end in here_document_ends(&instruction_lines.join("\n")) {
                for line in lines.by_ref() {
                    instruction_lines.push(line.trim_end().to_string());
                    if line.trim() == end {
                        break;
                    }
                }
            }
        }
        instructions.push(Instruction { name, lines: instruction_lines });
    }
    instructions
}

fn is_empty_or_comment(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// Returns the character that continues lines: a backslash, or a backtick if a directive before the
/// first instruction chooses it.
fn escape_character(text: &str) -> char {
    let directives = text.lines().map(str::trim).take_while(|line| line.starts_with('#'));
    let mut escapes = directives.filter_map(|line| {
        let (name, value) = line.trim_start_matches('#').split_once('=')?;
        name.trim().eq_ignore_ascii_case("escape").then(|| value.trim().to_string())
    });
    if escapes.next().is_some_and(|value| value == "`") { '`' } else { '\\' }
}

/// Returns the words that end the here-documents of an instruction.
fn here_document_ends(text: &str) -> Vec<String> {
    let name = |after: &str| {
        let after = after.trim_start_matches('-').trim_start_matches(['"', '\'']);
        let end =
            after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
        after[..end].to_string()
    };
    // `<<<` begins a here-string of the shell, which has no further lines.
    let texts = text.replace("<<<", "");
    texts.split("<<").skip(1).map(name).filter(|name| !name.is_empty()).collect()
}

/// Returns the lines of the instructions whose name `is_selected`. Lines after the first of an
/// instruction are indented.
pub(super) fn instruction_lines(
    instructions: &[Instruction],
    is_selected: impl Fn(&str) -> bool,
) -> String {
    let selected = instructions.iter().filter(|instruction| is_selected(&instruction.name));
    let lines = selected.flat_map(|instruction| {
        instruction.lines.iter().enumerate().map(|(i, line)| {
            let indent = if i > 0 && !line.starts_with([' ', '\t']) { "    " } else { "" };
            format!("{indent}{}\n", shorten(&plain_line(line)))
        })
    });
    lines.collect()
}

fn shorten(line: &str) -> String {
    match line.char_indices().nth(LINE_CHARS) {
        Some((end, _)) => {
            format!("{} … ({} characters more)", &line[..end], line[end..].chars().count())
        }
        None => line.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> String {
        instruction_lines(&parse(text), |_| true)
    }

    #[test]
    fn parse_joins_continued_lines() {
        let text = "\u{feff}# c\nFROM debian\r\n\nrun apt-get update && \\\n# why\n\n  apt-get \
                    install -y x \\\n&& make\nCMD [\"a\"]\n";
        assert_eq!(
            lines(text),
            "FROM debian\nrun apt-get update && \\\n  apt-get install -y x \\\n    && make\nCMD \
             [\"a\"]\n"
        );
        let names: Vec<String> =
            parse(text).into_iter().map(|instruction| instruction.name).collect();
        assert_eq!(names, ["FROM", "RUN", "CMD"]);
        let windows = "# escape=`\nFROM x\nRUN a `\n  b\nCOPY C:\\ D:\\\nRUN c\n";
        assert_eq!(parse(windows).len(), 4);
    }

    #[test]
    fn parse_includes_here_documents() {
        let text = "RUN <<EOF bash <<-'B'\n#!/bin/sh\nrm -rf /\nEOF\nCMD no\n\tB\nCOPY <<E \
                    /x\nFROM no\nE\nRUN cat <<<x\nCMD yes\n";
        let instructions = parse(text);
        let names: Vec<&str> =
            instructions.iter().map(|instruction| instruction.name.as_str()).collect();
        assert_eq!(names, ["RUN", "COPY", "RUN", "CMD"]);
        assert_eq!(instructions[0].lines.len(), 6);
        // A here-document without an end has all remaining lines, as in Docker.
        assert_eq!(parse("RUN <<A\nCMD x\n").len(), 1);
    }

    #[test]
    fn instruction_lines_have_no_control_characters() {
        let text = format!("RUN echo \u{1b}]0;x\u{7}\rb\u{202e}\u{85}c\t{}\n", "y".repeat(1_000));
        let listed = lines(&text);
        assert!(
            listed.starts_with("RUN echo \u{fffd}]0;x\u{fffd}\u{fffd}b\u{fffd}\u{fffd}c yyy"),
            "{listed}"
        );
        assert!(listed.contains("… (") && listed.len() < 600, "{listed}");
    }
}
