//! Words as a shell and Dockerfiles have them: quotes, backslashes and variables. Of a shell's language simple commands are
//! read, and nothing else.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::str::CharIndices;

/// Part of a word. `quoted`: it stood in quotes, or after a backslash.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Char { c: char, quoted: bool },
    Variable { name: String, quoted: bool },
}

/// A word as it is written, whose variables have no values yet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Raw(Vec<Part>);

/// A word with the values of its variables: its characters, and whether each was quoted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word(pub(super) Vec<(char, bool)>);

/// A command that is nothing but words and redirections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Simple {
    /// As it stands in the file.
    pub(super) text: String,
    pub(super) words: Vec<Raw>,
    /// Operators, such as `2>`, with the word after each.
    pub(super) redirections: Vec<(String, Raw)>,
}

/// Values of variables, by their names.
pub(super) type Variables = BTreeMap<String, String>;

impl Raw {
    /// The words that this one becomes: values outside of quotes are split at blanks. `None`: a variable is not known.
    pub(super) fn split(&self, variables: &Variables) -> Option<Vec<Word>> {
        let (mut all, mut word, mut is_begun) = (Vec::new(), Word::default(), self.0.is_empty());
        for part in &self.0 {
            let (text, quoted, is_split) = part.value(variables)?;
            is_begun |= quoted;
            for c in text.chars() {
                if is_split && c.is_whitespace() {
                    all.extend(is_begun.then(|| std::mem::take(&mut word)));
                    is_begun = false;
                } else {
                    word.0.push((c, quoted));
                    is_begun = true;
                }
            }
        }
        all.extend(is_begun.then_some(word));
        Some(all)
    }

    /// The one word that this is in a Dockerfile. `None`: a variable is not known.
    pub(super) fn word(&self, variables: &Variables) -> Option<Word> {
        let mut word = Word::default();
        for part in &self.0 {
            let (text, quoted, _) = part.value(variables)?;
            word.0.extend(text.chars().map(|c| (c, quoted)));
        }
        Some(word)
    }

    /// Whether it is `NAME=…`, which sets a variable in front of a command.
    pub(super) fn is_assignment(&self) -> bool {
        let bare = |part: &Part| match part {
            Part::Char { c, quoted: false } => Some(*c),
            _ => None,
        };
        let name: String = self.0.iter().map_while(bare).take_while(|c| *c != '=').collect();
        is_name(&name) && self.0.get(name.len()).and_then(bare) == Some('=')
    }

    /// The name before a `=`.
    pub(super) fn name(&self) -> Option<String> {
        let at = self.0.iter().position(|part| *part == Part::Char { c: '=', quoted: false })?;
        let char = |part: &Part| match part {
            Part::Char { c, .. } => Some(*c),
            Part::Variable { .. } => None,
        };
        self.0[..at].iter().map(char).collect()
    }

    fn push(&mut self, c: char, quoted: bool) {
        self.0.push(Part::Char { c, quoted });
    }
}

impl Part {
    /// Its text, whether that was quoted, and whether it is split at blanks.
    fn value(&self, variables: &Variables) -> Option<(String, bool, bool)> {
        match self {
            Part::Char { c, quoted } => Some((c.to_string(), *quoted, false)),
            Part::Variable { name, quoted } => Some((variables.get(name)?.clone(), *quoted, !quoted)),
        }
    }
}

impl Word {
    /// A word of which every character stands for itself.
    pub(super) fn literal(text: &str) -> Word {
        Word(text.chars().map(|c| (c, true)).collect())
    }

    pub(super) fn text(&self) -> String {
        self.0.iter().map(|(c, _)| c).collect()
    }

    /// Whether a shell makes names of files of it.
    pub(super) fn has_pattern(&self) -> bool {
        self.0.iter().any(|(c, quoted)| !quoted && "*?[".contains(*c))
    }

    /// The word as a shell reads it again.
    pub(super) fn written(&self) -> String {
        if self.has_pattern() {
            let shown = |(c, quoted): &(char, bool)| match c {
                c if is_plain(*c) || (!quoted && "*?[]".contains(*c)) => c.to_string(),
                c => format!("\\{c}"),
            };
            return self.0.iter().map(shown).collect();
        }
        let text = self.text();
        match text.split_once('=') {
            // An assignment must not be quoted as a whole.
            Some((name, value)) if !name.is_empty() && name.chars().all(is_plain) && !value.is_empty() => {
                format!("{name}={}", quoted(value))
            }
            _ => quoted(&text),
        }
    }
}

/// A text as one word of a shell, in which nothing is filled in but placeholders.
pub(super) fn quoted(text: &str) -> String {
    let is_bare = !text.is_empty() && text.chars().all(is_plain);
    if is_bare { text.into() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// Whether a character stands for itself in a shell.
fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || "._-+/@%:,=".contains(c) || c == super::dockerfile::OUT
}

/// Whether a shell can have a variable of this name.
pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// The simple commands of a text, with `&&` or `;` between. `None`: there is more than that in it.
pub(super) fn commands(text: &str) -> Option<Vec<Simple>> {
    Lexer { text, chars: text.char_indices().peekable(), is_shell: true }.commands()
}

/// The words of an instruction's arguments. `None`: quotes stay open, or a variable is more than a name.
pub(super) fn of_instruction(text: &str) -> Option<Vec<Raw>> {
    let mut lexer = Lexer { text, chars: text.char_indices().peekable(), is_shell: false };
    let mut all = Vec::new();
    loop {
        lexer.blanks();
        if lexer.chars.peek().is_none() {
            return Some(all);
        }
        all.push(lexer.word()?);
    }
}

/// Whether a shell's text is one command that `exec` can stand in front of.
pub(super) fn is_one_program(text: &str) -> bool {
    const WORDS_OF_SHELLS: [&str; 9] = ["exec", "!", "{", "if", "while", "for", "until", "case", "time"];
    let Some(all) = commands(text) else { return false };
    let [Simple { words, .. }] = all.as_slice() else { return false };
    let Some(first) = words.first() else { return false };
    let program = first.word(&Variables::new()).map(|word| word.text());
    !first.is_assignment() && !program.is_some_and(|program| WORDS_OF_SHELLS.contains(&program.as_str()))
}

struct Lexer<'a> {
    text: &'a str,
    chars: Peekable<CharIndices<'a>>,
    /// Whether the signs of a shell mean something.
    is_shell: bool,
}

impl Lexer<'_> {
    fn peek(&mut self) -> Option<char> {
        self.chars.peek().map(|(_, c)| *c)
    }

    /// Takes a character if it comes next.
    fn takes(&mut self, c: char) -> bool {
        self.chars.next_if(|(_, next)| *next == c).is_some()
    }

    fn at(&mut self) -> usize {
        self.chars.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    fn blanks(&mut self) {
        while self.chars.next_if(|(_, c)| c.is_whitespace()).is_some() {}
    }

    fn commands(mut self) -> Option<Vec<Simple>> {
        let mut all = Vec::new();
        loop {
            self.blanks();
            let from = self.at();
            let mut simple = self.simple()?;
            simple.text = self.text[from..self.at()].trim().into();
            let is_empty = simple.words.is_empty() && simple.redirections.is_empty();
            match self.chars.next() {
                None if is_empty && all.is_empty() => return None,
                None => {
                    all.extend((!is_empty).then_some(simple));
                    return Some(all);
                }
                Some(_) if is_empty => return None,
                Some((_, '&')) if self.takes('&') => {
                    self.blanks();
                    self.peek()?;
                }
                Some((_, ';')) => {}
                Some(_) => return None,
            }
            all.push(simple);
        }
    }

    /// A command up to what ends it.
    fn simple(&mut self) -> Option<Simple> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            match self.peek() {
                None | Some('&' | ';') => return Some(simple),
                Some('|' | '(' | ')' | '<' | '`' | '#') => return None,
                Some('>') => simple.redirections.push(self.redirection(String::new())?),
                Some(_) => {
                    let word = self.word()?;
                    match (self.peek(), word.0.as_slice()) {
                        (Some('>'), [Part::Char { c: c @ ('1' | '2'), quoted: false }]) => {
                            simple.redirections.push(self.redirection(c.to_string())?);
                        }
                        _ => simple.words.push(word),
                    }
                }
            }
        }
    }

    fn redirection(&mut self, mut operator: String) -> Option<(String, Raw)> {
        while self.takes('>') {
            operator.push('>');
        }
        if self.takes('&') {
            operator.push('&');
        }
        self.blanks();
        let word = self.word()?;
        (operator.len() < 4 && !word.0.is_empty()).then_some((operator, word))
    }

    fn word(&mut self) -> Option<Raw> {
        let mut word = Raw::default();
        while let Some(c) = self.peek() {
            if c.is_whitespace() || (self.is_shell && "&;|()<>`".contains(c)) {
                break;
            }
            self.chars.next();
            match c {
                '\\' => word.push(self.chars.next()?.1, true),
                '\'' => self.in_single_quotes(&mut word)?,
                '"' => self.in_double_quotes(&mut word)?,
                '$' => self.variable(&mut word, false)?,
                c => word.push(c, false),
            }
        }
        Some(word)
    }

    fn in_single_quotes(&mut self, word: &mut Raw) -> Option<()> {
        loop {
            match self.chars.next()?.1 {
                '\'' => return Some(()),
                c => word.push(c, true),
            }
        }
    }

    fn in_double_quotes(&mut self, word: &mut Raw) -> Option<()> {
        loop {
            match self.chars.next()?.1 {
                '"' => return Some(()),
                '`' if self.is_shell => return None,
                '$' => self.variable(word, true)?,
                '\\' => match self.chars.next()?.1 {
                    c @ ('$' | '`' | '"' | '\\') => word.push(c, true),
                    c => word.0.extend(['\\', c].map(|c| Part::Char { c, quoted: true })),
                },
                c => word.push(c, true),
            }
        }
    }

    /// What follows a `$`.
    fn variable(&mut self, word: &mut Raw, quoted: bool) -> Option<()> {
        let in_braces = self.takes('{');
        let mut name = String::new();
        while let Some((_, c)) = self.chars.next_if(|(_, c)| c.is_ascii_alphanumeric() || *c == '_') {
            name.push(c);
        }
        if in_braces && !self.takes('}') {
            return None;
        }
        if is_name(&name) {
            word.0.push(Part::Variable { name, quoted });
            return Some(());
        }
        // Of these a shell makes something: its arguments, its number, the output of a command.
        let means_more = |c: char| "(@*#?-$!'\"".contains(c) && !(quoted && c == '"');
        if in_braces || !name.is_empty() || (self.is_shell && self.peek().is_some_and(means_more)) {
            return None;
        }
        word.push('$', true);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Option<Vec<Vec<String>>> {
        let variables = Variables::from([("A".into(), "x  y".into()), ("E".into(), String::new())]);
        let words = |simple: Simple| {
            let split = |raw: &Raw| raw.split(&variables);
            let words: Option<Vec<Vec<Word>>> = simple.words.iter().map(split).collect();
            words.map(|words| words.concat().iter().map(Word::written).collect())
        };
        commands(text)?.into_iter().map(words).collect()
    }

    #[test]
    fn simple_commands_are_read_and_written_again() {
        for (text, all) in [
            ("a 'b c' \"d\\\"e\" f\\ g", vec![vec!["a", "'b c'", "'d\"e'", "'f g'"]]),
            ("a && b;c ;", vec![vec!["a"], vec!["b"], vec!["c"]]),
            ("a $A \"${A}\" '$A' $E \"$E\"", vec![vec!["a", "x", "y", "'x  y'", "'$A'", "''"]]),
            ("a *.x '*' a\\*b*", vec![vec!["a", "*.x", "'*'", "a\\*b*"]]),
            ("X=\"a b\" go -f='s w' 5$", vec![vec!["X='a b'", "go", "-f='s w'", "'5$'"]]),
            ("a \"it's\" ~ {x,y}", vec![vec!["a", "'it'\\''s'", "'~'", "'{x,y}'"]]),
        ] {
            assert_eq!(written(text).unwrap(), all, "{text}");
        }
    }

    #[test]
    fn what_is_more_than_simple_commands_is_not_read() {
        for text in [
            "",
            ";",
            "a | b",
            "a || b",
            "a & b",
            "a &",
            "(a)",
            "a `b`",
            "a \"`b`\"",
            "a $(b)",
            "a \"$(b)\"",
            "a < b",
            "a <<E",
            "a ;; b",
            "&& a",
            "a &&",
            "a 'b",
            "a \"b",
            "a \\",
            "a # b",
            "a ${B:-c}",
            "a $1 ",
            "a $@",
            "a $B",
            "a >",
        ] {
            assert_eq!(written(text), None, "{text}");
        }
    }

    #[test]
    fn exec_stands_in_front_of_programs_only() {
        for (text, is_one) in [
            ("./x -p $PORT", true),
            ("java -jar x 2>&1", true),
            ("PORT=1 ./x", false),
            ("exec ./x", false),
            ("a && b", false),
            ("a $(b)", false),
            ("", false),
            ("if a; then b; fi", false),
        ] {
            assert_eq!(is_one_program(text), is_one, "{text}");
        }
    }
}
