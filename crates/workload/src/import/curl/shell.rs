//! Splits a script into commands and words as bash does.

use std::mem;

use dyno_config::quotation::quote;

/// A word of a command, without its quotes. A word can have any bytes, because of `\xHH`.
#[derive(Debug)]
pub struct ShellWord {
    /// Counted from 1.
    pub line: usize,
    pub bytes: Vec<u8>,
}

/// Splits a script into commands that are not empty, and each command into words.
pub fn split_commands(script: &str) -> Result<Vec<Vec<ShellWord>>, String> {
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
            let c = match self.next_char() {
                // `&` and `&&` end a command as `;` does. An `&` before another character is
                // refused below, because it is probably in a URL without quotes.
                Some('&')
                    if self.rest.is_empty() || self.rest.starts_with(['&', ' ', '\r', '\n']) =>
                {
                    Some(';')
                }
                c => c,
            };
            match c {
                Some('\\') if self.skip_line_end() => {}
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
                        "{c}: is an operator of the shell\nhint: quote the word that contains it, \
                         or remove it and the rest of the line"
                    ));
                }
                Some(c) => {
                    let word = word.get_or_insert_with(|| ShellWord { line, bytes: Vec::new() });
                    self.read_part(c, &mut word.bytes)?;
                }
            }
        }
    }

    /// Reads the part of a word that begins with `c`: a quoted text, or one character.
    fn read_part(&mut self, c: char, out: &mut Vec<u8>) -> Result<(), String> {
        match c {
            '\'' => self.read_quoted("'", out)?,
            '"' => self.read_quoted("\"", out)?,
            '$' if self.take_prefix("'") => self.read_quoted("$'", out)?,
            '$' if self.take_prefix("\"") => self.read_quoted("\"", out)?,
            '$' | '`' => self.read_dollar(c, out)?,
            '\\' => push_char(out, self.next_char().unwrap_or(c)),
            c => push_char(out, c),
        }
        Ok(())
    }

    /// Reads the text after the opening quote, up to the closing quote.
    fn read_quoted(&mut self, open: &str, out: &mut Vec<u8>) -> Result<(), String> {
        let (line, close) = (self.line, if open == "\"" { '"' } else { '\'' });
        while let Some(c) = self.next_char() {
            match (open, c) {
                (_, c) if c == close => return Ok(()),
                ("$'", '\\') => self.read_escape(out)?,
                ("\"", '$' | '`') => self.read_dollar(c, out)?,
                ("\"", '\\') if self.skip_line_end() => {}
                ("\"", '\\') if self.rest.starts_with(['$', '`', '"', '\\']) => {
                    push_char(out, self.next_char().unwrap_or(c));
                }
                (_, c) => push_char(out, c),
            }
        }
        self.line = line;
        Err(format!("the quote {open} is not closed\nhint: add the closing quote"))
    }

    /// Reads a literal `$`. An expansion by the shell, which begins with `$` or a backquote, is an
    /// error.
    fn read_dollar(&self, c: char, out: &mut Vec<u8>) -> Result<(), String> {
        let name: String =
            self.rest.chars().take_while(|&c| c.is_ascii_alphanumeric() || c == '_').collect();
        let is_special_parameter =
            self.rest.starts_with(['{', '(', '@', '*', '#', '?', '!', '$', '-']);
        if c == '`' || !name.is_empty() || is_special_parameter {
            return Err(format!(
                "{c}{name}…: would be expanded by a shell\nhint: write the result, or use single \
                 quotes"
            ));
        }
        push_char(out, c);
        Ok(())
    }

    /// Reads the escape after a backslash in `$'…'` (bash(1), "QUOTING").
    fn read_escape(&mut self, out: &mut Vec<u8>) -> Result<(), String> {
        match self.next_char().unwrap_or('\\') {
            'n' => out.push(b'\n'),
            'r' => out.push(b'\r'),
            't' => out.push(b'\t'),
            c @ ('\\' | '\'' | '"' | '?') => push_char(out, c),
            'u' => push_char(out, self.read_code_point()?),
            'x' => out.push(
                self.read_hex(2).ok_or("\\x: has no byte after it\nhint: write it like \\x0a")?
                    as u8,
            ),
            c => return Err(format!("\\{c}: unknown escape in $'…'\nhint: write it like \\x0a")),
        }
        Ok(())
    }

    /// Reads a code point. Browsers write code points above U+FFFF as two surrogates, which bash
    /// would not combine.
    fn read_code_point(&mut self) -> Result<char, String> {
        let mut code = self.read_hex(4);
        if let Some(high @ 0xd800..0xdc00) = code
            && self.take_prefix("\\u")
        {
            let low = self.read_hex(4).and_then(|low| low.checked_sub(0xdc00));
            code = low.map(|low| 0x10000 + ((high - 0xd800) << 10) + low);
        }
        code.and_then(char::from_u32)
            .ok_or_else(|| "\\u: has no character after it\nhint: write it like \\u00e4".into())
    }

    /// Reads a number of up to `max_digits` hexadecimal digits; `None`: no digit.
    fn read_hex(&mut self, max_digits: usize) -> Option<u32> {
        let count = self.rest.chars().take(max_digits).take_while(char::is_ascii_hexdigit).count();
        let digits;
        (digits, self.rest) = self.rest.split_at(count);
        u32::from_str_radix(digits, 16).ok()
    }

    fn next_char(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        self.line += usize::from(c == '\n');
        Some(c)
    }

    fn take_prefix(&mut self, prefix: &str) -> bool {
        self.rest.strip_prefix(prefix).map(|rest| self.rest = rest).is_some()
    }

    /// Skips a line end. Returns whether there was a line end.
    fn skip_line_end(&mut self) -> bool {
        let is_line_end = self.take_prefix("\n") || self.take_prefix("\r\n");
        self.line += usize::from(is_line_end);
        is_line_end
    }
}

fn push_char(out: &mut Vec<u8>, c: char) {
    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

/// Converts a word to text. `Err`: the word is not UTF-8.
pub fn into_text(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
        format!("{}: not UTF-8\nhint: save the text as UTF-8", quote(&text))
    })
}
