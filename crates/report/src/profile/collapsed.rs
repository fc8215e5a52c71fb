//! Writes collapsed stacks, which flame graph tools read (FlameGraph, inferno, speedscope). Each
//! line has the functions of a stack between semicolons, and its number of samples.

use std::collections::BTreeMap;

use dyno_analysis::profile::{Function, FunctionKind, Line};

/// Writes one line per stack, the outermost function first.
pub(super) fn collapse(lines: &[Line]) -> String {
    let line = |line: &Line| {
        let functions: Vec<String> = line.functions.iter().map(marked_name).collect();
        format!("{} {}\n", functions.join(";"), line.samples)
    };
    lines.iter().map(line).collect()
}

/// Writes the stacks of two profiles. Each line has the count in `there` and then the count in
/// `here`. Differential flame graphs use this format (FlameGraph's difffolded.pl).
pub(super) fn collapse_pair(here: &[Line], there: &[Line]) -> String {
    let mut counts: BTreeMap<&[Function], [u64; 2]> = BTreeMap::new();
    for (side, lines) in [there, here].into_iter().enumerate() {
        for line in lines {
            counts.entry(&line.functions).or_default()[side] += line.samples;
        }
    }
    let line = |(functions, [there, here]): (&[Function], [u64; 2])| {
        let functions: Vec<String> = functions.iter().map(marked_name).collect();
        format!("{} {there} {here}\n", functions.join(";"))
    };
    counts.into_iter().map(line).collect()
}

/// Returns the name of a function, with the mark by which flame graph tools choose colours.
fn marked_name(function: &Function) -> String {
    let mark = match function.kind {
        FunctionKind::Kernel => "_[k]",
        FunctionKind::Jit => "_[j]",
        FunctionKind::Inlined => "_[i]",
        FunctionKind::Native | FunctionKind::Role => "",
    };
    format!("{}{mark}", function.name.replace(';', ":"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collapse_pair_has_two_counts_per_stack() {
        let line = |name: &str, samples| Line {
            functions: vec![Function {
                name: name.into(),
                module: None,
                kind: FunctionKind::Native,
            }],
            samples,
        };
        let text = collapse_pair(&[line("a", 1), line("b", 2)], &[line("b", 3), line("c", 4)]);
        assert_eq!(text, "a 0 1\nb 3 2\nc 4 0\n");
    }

    #[test]
    fn collapse_marks_functions_by_kind() {
        let function = |name: &str, kind| Function { name: name.into(), module: None, kind };
        let functions = vec![
            function("work", FunctionKind::Role),
            function("a(int; b)", FunctionKind::Native),
            function("JS:*f x.js:1", FunctionKind::Jit),
            function("g", FunctionKind::Inlined),
            function("tcp_sendmsg", FunctionKind::Kernel),
        ];
        let text = collapse(&[Line { functions, samples: 12 }]);
        assert_eq!(text, "work;a(int: b);JS:*f x.js:1_[j];g_[i];tcp_sendmsg_[k] 12\n");
    }
}
