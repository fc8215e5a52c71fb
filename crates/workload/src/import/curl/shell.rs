//! The shell's part: a script is split into commands and words as bash does it.

use std::mem;

/// A word of a command, without its quotes. Bytes, because `\xHH` makes any.
#[derive(Debug)]
pub struct ShellWord {
    /// Counted from 1.
    pub line: usize,
    pub bytes: Vec<u8>,
}

/// Splits a script into commands, none of them empty, and these into words.
pub fn commands(script: &str) -> Result<Vec<Vec<ShellWord>>, String> {
    let mut shell = Shell { rest: script.trim_start_matches('\u{feff}'), line: 1 };
    let mut commands = shell.commands().map_err(|error| format!("line {}: {error}", shell.line))?;
    commands.retain(|words| !words.is_empty());
    Ok(commands)
}

struct Shell<'a> {
    rest: &'a str,
    line: usize,
}

impl Shell<'_> {
    fn commands(&mut self) -> Result<Vec<Vec<ShellWord>>, String> {
        let (mut commands, mut words, mut word) = (Vec::new(), Vec::new(), None);
        loop {
            let line = self.line;
            let c = match self.take() {
                // Before anything but a blank, it cuts through a URL that lost its quotes.
                Some('&')
                    if self.rest.is_empty() || self.rest.starts_with(['&', ' ', '\r', '\n']) =>
                {
                    Some(';')
                }
                c => c,
            };
            match c {
                Some('\\') if self.eat_line_end() => {}
                Some('#') if word.is_none() => {
                    self.rest = self.rest.trim_start_matches(|c| c != '\n');
                }
                Some(' ' | '\t' | '\r') => words.extend(word.take()),
                None | Some('\n' | ';') => {
                    words.extend(word.take());
                    commands.push(mem::take(&mut words));
                    if c.is_none() {
                        return Ok(commands);
                    }
                }
                Some(c @ ('&' | '|' | '<' | '>' | '(' | ')')) => {
                    return Err(format!(
                        "{c}: is an operator of the shell\nhint: quote the word with it, or remove \
                         it and the rest of the line"
                    ));
                }
                Some(c) => {
                    let word = word.get_or_insert_with(|| ShellWord { line, bytes: Vec::new() });
                    self.part(c, &mut word.bytes)?;
                }
            }
        }
    }

    /// Returns the part of a word that begins with `c`: something in quotes, or one character.
    fn part(&mut self, c: char, out: &mut Vec<u8>) -> Result<(), String> {
        match c {
            '\'' => self.read_quoted("'", out)?,
            '"' => self.read_quoted("\"", out)?,
            '$' if self.take_prefix("'") => self.read_quoted("$'", out)?,
            '$' if self.take_prefix("\"") => self.read_quoted("\"", out)?,
            '$' | '`' => self.dollar(c, out)?,
            '\\' => push(out, self.take().unwrap_or(c)),
            c => push(out, c),
        }
        Ok(())
    }

    /// Reads the text after the opening quotes, up to the closing one.
    fn read_quoted(&mut self, open: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let (line, close) = (self.line, if open == "\"" { '"' } else { '\'' });
        while let Some(c) = self.take() {
            match (open, c) {
                (_, c) if c == close => return Ok(()),
                ("$'", '\\') => self.escape(out)?,
                ("\"", '$' | '`') => self.dollar(c, out)?,
                ("\"", '\\') if self.eat_line_end() => {}
                ("\"", '\\') if self.rest.starts_with(['$', '`', '"', '\\']) => {
                    push(out, self.take().unwrap_or(c));
                }
                (_, c) => push(out, c),
            }
        }
        self.line = line;
        Err(format!("the quote {open} is not closed\nhint: add the closing quote"))
    }

    /// Reads a literal dollar. An expansion by the shell is an error.
    fn dollar(&self, c: char, out: &mut Vec<u8>) -> Result<(), String> {
        let name: String =
            self.rest.chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
        if c == '`'
            || !name.is_empty()
            || self.rest.starts_with(['{', '(', '@', '*', '#', '?', '!', '$', '-'])
        {
            return Err(format!(
                "{c}{name}…: would be expanded by a shell\nhint: write the result, or use single \
                 quotes"
            ));
        }
        push(out, c);
        Ok(())
    }

    /// Reads the escape after a backslash in `$'…'`: bash(1), "QUOTING".
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self.take().unwrap_or('\\') {
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            c @ ('\\' | '\'' | '"' | '?') => push(out, c),
            'u' => push(out, self.unicode()?),
            'x' => out.push(
                self.number(2).ok_or("\\x: has no byte after it\nhint: write it like \\x0a")? as u8,
            ),
            c => return Err(format!("\\{c}: unknown escape in $'…'\nhint: write it like \\x0a")),
        }
        Ok(())
    }

    /// Returns a code point. Browsers write those beyond U+FFFF as two surrogates, which bash would
    /// not put together.
    fn unicode(&mut self) -> Result<char, String> {
        let mut code = self.number(4);
        if let Some(high @ 0xd800..0xdc00) = code
            && self.take_prefix("\\u")
        {
            let low = self.number(4).and_then(|low| low.checked_sub(0xdc00));
            code = low.map(|low| 0x10000 + ((high - 0xd800) << 10) + low);
        }
        code.and_then(char::from_u32)
            .ok_or_else(|| "\\u: has no character after it\nhint: write it like \\u00e4".into())
    }

    /// Returns the number in up to `most` hexadecimal digits, if there are any.
    fn number(&mut self, most: usize) -> Option<u32> {
        let count = self.rest.chars().take(most).take_while(char::is_ascii_hexdigit).count();
        let digits;
        (digits, self.rest) = self.rest.split_at(count);
        u32::from_str_radix(digits, 16).ok()
    }

    fn take(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take_prefix(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).map(|rest| self.rest = rest).is_some()
    }

    fn eat_line_end(&mut self) -> bool {
        let eaten = self.take_prefix("\n") || self.take_prefix("\r\n");
        self.line += usize::from(eaten);
        eaten
    }
}

fn push(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Returns a word as text. `Err`: it is not UTF-8.
pub fn text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        format!("{text:?}: not UTF-8\nhint: save the text as UTF-8")
    })
}
