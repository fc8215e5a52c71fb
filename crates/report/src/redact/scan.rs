//! Finds secrets in texts of any form: logs, messages, comments, and bodies with placeholders.
//!
//! A text may quote another one, so quotes and line ends count with backslashes before them too.

use std::ops::Range;

use dyno_archive::secret::{
    is_scheme, is_secret, is_secret_field, is_secret_parameter, is_token, may_be_secret,
    may_be_secret_header, without_escapes,
};

use super::MARK;
use super::value::{
    self, Value, end_of_quotation, end_of_word, is_ordinary, looks_random, quotation,
};

/// A secret in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub range: Range<usize>,
    /// Whether the name or the form leaves no doubt.
    pub is_sure: bool,
}

/// The secrets of a text in order, without overlaps.
pub(super) fn spans(text: &str) -> Vec<Span> {
    if !text.contains('\x1b') {
        return plain_spans(text);
    }
    // Loggers colour names and values one by one.
    let (plain, places) = without_colours(text);
    let in_text = |range: Range<usize>| places[range.start]..places[range.end - 1] + 1;
    let all = plain_spans(&plain).into_iter();
    all.map(|span| Span { range: in_text(span.range), ..span }).collect()
}

/// The text without colours (SGR), and the offset of each of its bytes in the whole text.
fn without_colours(text: &str) -> (String, Vec<usize>) {
    let (mut plain, mut places) =
        (String::with_capacity(text.len()), Vec::with_capacity(text.len()));
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let codes = text[at..].strip_prefix("\x1b[");
        let end = codes.and_then(|codes| codes.find(|c: char| !c.is_ascii_digit() && c != ';'));
        let is_colour = codes.zip(end).is_some_and(|(codes, end)| codes[end..].starts_with('m'));
        if let Some(end) = end.filter(|_| is_colour) {
            at += end + "\x1b[m".len();
            continue;
        }
        plain.push(c);
        places.extend(at..at + c.len_utf8());
        at += c.len_utf8();
    }
    (plain, places)
}

fn plain_spans(text: &str) -> Vec<Span> {
    let mut found = named_spans(text);
    found.extend(options(text));
    found.extend(users(text));
    found.extend(elements(text));
    found.extend(parts_of_forms(text));
    found.extend(expectations(text));
    found.extend(listed_headers(text));
    found.extend(private_keys(text));
    found.extend(credentials(text));
    found.retain(|span| !span.range.is_empty() && !text[span.range.start..].starts_with(MARK));
    found.sort_by_key(|span| span.range.start);
    let mut merged: Vec<Span> = Vec::with_capacity(found.len());
    for span in found {
        match merged.last_mut().filter(|last| span.range.start < last.range.end) {
            Some(last) => {
                last.range.end = last.range.end.max(span.range.end);
                last.is_sure |= span.is_sure;
            }
            None => merged.push(span),
        }
    }
    merged
}

/// A name before `=` or `:`.
struct Name<'a> {
    text: &'a str,
    /// The quotation mark around it.
    quote: Option<char>,
    /// The character before it, or before its quotation mark.
    before: Option<char>,
    /// Nothing is before it on its line.
    is_first: bool,
}

/// Longer names are texts.
const LONGEST_NAME: usize = 80;

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-.%[]+$".contains(c)
}

/// The last name of a text.
fn name_at_end(text: &str) -> Option<Name<'_>> {
    let text = text.trim_end_matches([' ', '\t']);
    // `headers["Cookie"] = …`
    let text = text.strip_suffix(']').filter(|text| text.ends_with(['"', '\''])).unwrap_or(text);
    let quote = text.chars().next_back().filter(|c| value::QUOTES.contains(c));
    let inside = text.strip_suffix(value::QUOTES).map_or(text, |text| text.trim_end_matches('\\'));
    let is_end = |c: char| quote.map_or_else(|| !is_of_name(c), |quote| c == quote || c == '\n');
    let start = match inside.char_indices().rev().take(LONGEST_NAME).find(|(_, c)| is_end(*c)) {
        Some((at, c)) => at + c.len_utf8(),
        None if inside.len() <= LONGEST_NAME => 0,
        None => return None,
    };
    let before = inside[..start].chars().next_back();
    // An escaped line end before a bare name: `\r\nCookie`.
    let is_escaped =
        quote.is_none() && before == Some('\\') && inside[start..].starts_with(['n', 'r', 't']);
    let start = start + usize::from(is_escaped);
    let line = inside[..start].trim_end_matches([' ', '\t', '-']);
    let is_first = line.is_empty() || line.ends_with('\n') || is_escaped;
    Some(Name { text: &inside[start..], quote, before, is_first })
        .filter(|name| !name.text.is_empty())
}

/// What a name says of its value: surely a secret, or perhaps.
fn says(name: &Name<'_>, is_variable: bool, is_header: bool) -> Option<bool> {
    let plain = without_escapes(&value::without_unicode_escapes(name.text));
    if is_secret(&plain) {
        return Some(true);
    }
    let is_capital = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let is_perhaps = match name.before {
        // Code in a sentence: `compare --undecided pass`.
        _ if name.quote.is_some() => {
            let is_field =
                is_secret_field(&plain) || plain.contains('-') && may_be_secret_header(&plain);
            is_field && !plain.contains(' ')
        }
        Some('?' | '&') => is_secret_parameter(&plain),
        // A form in quotation marks.
        Some('"' | '\'' | '`') if is_variable && is_secret_field(&plain) => true,
        _ if is_header => may_be_secret_header(&plain),
        // Parts of words say nothing: AUTHOR.
        _ if plain.chars().all(is_capital) => {
            let is_word =
                may_be_secret_header(&plain) || plain.split('_').any(|word| word == "PAT");
            is_variable && is_word && may_be_secret(&plain)
        }
        _ => is_variable && plain.contains(['_', '-', '.']) && is_secret_field(&plain),
    };
    is_perhaps.then_some(false)
}

/// Values after a name that says so: `name=value`, `Name: value`, `"name": "value"`.
fn named_spans(text: &str) -> Vec<Span> {
    let places = text.match_indices(['=', ':']);
    places.flat_map(|(at, sign)| named_at(text, at, sign == ":")).collect()
}

fn named_at(text: &str, at: usize, is_colon: bool) -> Vec<Span> {
    let (before, after) = (&text[..at], &text[at + 1..]);
    let is_none = match is_colon {
        true => after.starts_with("//") || after.starts_with([':', '=']) || before.ends_with(':'),
        // A comparison.
        false => before.ends_with([' ', '!', '<', '>']) && after.starts_with('='),
    };
    let Some(name) =
        Some(before.strip_suffix(':').unwrap_or(before)).filter(|_| !is_none).and_then(name_at_end)
    else {
        return Vec::new();
    };
    let after = after.strip_prefix('>').unwrap_or(after);
    let value = after.trim_start_matches([' ', '\t']);
    let is_spaced = value.len() < after.len();
    let is_bare = name.quote.is_none();
    if is_colon && is_spaced && is_quotation(&name, value) {
        return Vec::new();
    }
    let is_known =
        ["authorization", "cookie"].iter().any(|known| known.eq_ignore_ascii_case(name.text));
    let is_header = is_colon && is_bare && (is_known || name.text.contains('-'));
    let Some(is_sure) = says(&name, !is_colon && is_bare && !is_spaced, is_header) else {
        return if is_colon { Vec::new() } else { encoded_spans(text, value) };
    };
    // `token-service:8080`, `session.rs:12:5`
    let number = value.find(|c: char| !c.is_ascii_digit()).unwrap_or(value.len());
    let is_place = is_colon && is_bare && !is_spaced && number > 0;
    if is_place && value[number..].chars().next().is_none_or(|c| !c.is_ascii_alphanumeric()) {
        return Vec::new();
    }
    let start = text.len() - value.len();
    let kind = match (is_header, is_colon && is_spaced && is_bare) {
        // `'Cookie: …'`: the quotation ends the value.
        (true, _) => {
            Value::Header { quote: name.before.filter(|c| is_bare && value::QUOTES.contains(c)) }
        }
        (false, true) if !name.is_first || value::is_sentence(value) => Value::Said,
        (false, _) => Value::Word,
    };
    let ranges = value::ranges(name.text, value, &kind);
    ranges.into_iter().map(|r| Span { range: start + r.start..start + r.end, is_sure }).collect()
}

/// Whether a message is about a path or a quoted text, and no value of a name:
/// `/etc/passwd: No such file`, `"Authorization Bearer": write it like 'Name: value'`.
fn is_quotation(name: &Name<'_>, value: &str) -> bool {
    match name.quote {
        None => name.before == Some('/'),
        Some(_) => {
            let is_address = name.text.contains(['/', '?', '=']);
            is_address || name.text.contains(' ') && !value.starts_with(value::QUOTES)
        }
    }
}

/// Longer values are searched up to here for what is encoded in them.
const LONGEST_ENCODED: usize = 1000;

/// A percent-encoded value with a secret in it, such as a URL.
fn encoded_spans(text: &str, value: &str) -> Vec<Span> {
    let start = text.len() - value.len();
    let word = value::beginning(value, LONGEST_ENCODED);
    let word = &word[..end_of_word(word)];
    let plain = Some(without_escapes(word)).filter(|plain| plain != word).unwrap_or_default();
    let has_user =
        plain.split_once("://").is_some_and(|(_, rest)| rest.contains('@') && rest.contains(':'));
    let is_secret = has_user || plain.contains(['=', ':']) && !plain_spans(&plain).is_empty();
    if is_secret {
        vec![Span { range: start..start + word.len(), is_sure: false }]
    } else {
        Vec::new()
    }
}

/// Whether a text goes on from here with a word of its own.
fn is_start(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || "\"'`([,=".contains(c))
}

/// Values of options in the next word: `--password hunter`, `'--password', 'hunter'`.
fn options(text: &str) -> Vec<Span> {
    let places = text.match_indices("--").filter(|(at, _)| is_start(text, *at));
    let value_of = |(at, _): (usize, &str)| {
        let rest = &text[at + 2..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c))?;
        let name = Some(&rest[..end]).filter(|name| is_secret(name))?;
        let after = rest[end..].trim_start_matches(value::QUOTES);
        let value = after.trim_start_matches([' ', ',', '\t']);
        let quote = value.chars().next().filter(|c| value::QUOTES.contains(c));
        let value = value.trim_start_matches(value::QUOTES);
        let end = quote
            .map_or_else(|| end_of_word(value), |quote| value.find(quote).unwrap_or(value.len()));
        let word = &value[..end];
        let is_value = after.starts_with([' ', ',', '\t'])
            && !word.starts_with(['-', '{', '$', '<', '[', '(', '/'])
            // `--token TOKEN` of a help text.
            && !name.to_ascii_lowercase().contains(&word.to_ascii_lowercase())
            && !is_ordinary(word);
        let start = text.len() - value.len();
        is_value.then_some(Span { range: start..start + end, is_sure: true })
    };
    places.filter_map(value_of).collect()
}

/// Passwords of `curl -u user:password`.
fn users(text: &str) -> Vec<Span> {
    let flags = ["-u ", "-U ", "--user ", "--user=", "--proxy-user ", "--proxy-user="];
    let places = flags.iter().flat_map(|flag| text.match_indices(flag));
    let password_of = |(at, flag): (usize, &str)| {
        let word = text[at + flag.len()..].trim_start_matches(value::QUOTES);
        let word = &word[..end_of_word(word)];
        let (user, password) = word.split_once(':')?;
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let is_number = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
        // Others have a group there: `docker run -u app:app`, `-u 1000:1000`.
        let is_password = !(password.starts_with("//") || is_number(user) && is_number(password));
        let is_curl = line.contains("curl") || looks_random(password);
        let end = at + flag.len() + text[at + flag.len()..].find(word)? + word.len();
        let range = end - password.len()..end;
        (is_start(text, at) && is_password && is_curl).then_some(Span { range, is_sure: true })
    };
    places.filter_map(password_of).collect()
}

/// Texts of XML elements: `<password>hunter</password>`.
fn elements(text: &str) -> Vec<Span> {
    let content_of = |(at, _): (usize, &str)| {
        let name = text[at + 2..].split(['>', '<', ' ', '\n']).next()?;
        let local = name.rsplit(':').next().unwrap_or(name);
        let is_sure = is_secret(local);
        if !is_sure && !is_secret_field(local) {
            return None;
        }
        const CDATA: &str = "<![CDATA[";
        let range = match text[..at].strip_suffix("]]>") {
            Some(before) => before.rfind(CDATA)? + CDATA.len()..before.len(),
            None => text[..at].rfind('>')? + 1..at,
        };
        let content = text[range.clone()].trim();
        let is_text =
            !content.is_empty() && !content.contains('<') && !content.starts_with(['{', '$']);
        is_text.then_some(Span { range, is_sure })
    };
    text.match_indices("</").filter_map(content_of).collect()
}

/// Longer heads are none of a form's part.
const LONGEST_HEAD: usize = 400;

/// Values of `multipart/form-data` (RFC 7578): parts whose `name` says so.
fn parts_of_forms(text: &str) -> Vec<Span> {
    let value_of = |(at, found): (usize, &str)| {
        let rest = &text[at + found.len()..];
        let rest = value::beginning(rest, LONGEST_HEAD);
        let end = value::first_of(rest, &["\r\n\r\n", "\n\n", "\\r\\n\\r\\n", "\\n\\n"])?;
        let head = &rest[..end.start];
        let name = head.split(';').find_map(|part| part.trim().strip_prefix("name="))?;
        let name = name.trim_start_matches('\\').trim_start_matches(value::QUOTES);
        let name = name.split(|c: char| "\"'\\\r\n".contains(c)).next()?;
        let is_sure = is_secret(&without_escapes(name));
        let start = at + found.len() + end.end;
        let value = &text[start..];
        let length = value::first_of(value, &["\r\n--", "\n--", "\\r\\n--", "\\n--"]);
        let length = length.map_or(value.len(), |end| end.start);
        (is_sure || is_secret_parameter(name))
            .then_some(Span { range: start..start + length, is_sure })
    };
    text.match_indices("form-data").filter_map(value_of).collect()
}

/// Values of dyno's sentences on expectations: `JSON /token "hunter"`, `header Cookie is not "a"`.
fn expectations(text: &str) -> Vec<Span> {
    let value_of = |(at, found): (usize, &str)| {
        let rest = &text[at + found.len()..];
        let (name, rest) = rest.split_once(if found.ends_with('"') { '"' } else { ' ' })?;
        let rest = rest.strip_prefix(' ').unwrap_or(rest);
        let is_sure = is_secret(name);
        if !(is_sure || found == HEADER && may_be_secret_header(name)) {
            return None;
        }
        let of_expression =
            ["does not match ", "matching "].iter().find_map(|v| rest.strip_prefix(v));
        let value = of_expression.or_else(|| rest.strip_prefix("is not "));
        let value = value.or_else(|| Some(rest).filter(|_| found == "JSON /"))?;
        let start = text.len() - value.len();
        let range = match quotation(value) {
            Some((mark, inside)) => {
                start + mark.len()..start + mark.len() + end_of_quotation(inside, mark)
            }
            None if of_expression.is_some() => {
                let end = value::first_of(value, &[", ", "; ", "\n", "\\n"])
                    .map_or(value.len(), |end| end.start);
                start..start + value[..end].trim_end_matches(':').len()
            }
            None => start..start + value.find([',', ';', ' ', '\n']).unwrap_or(value.len()),
        };
        Some(Span { range, is_sure })
    };
    const HEADER: &str = "header ";
    let places =
        ["JSON /", "JSON pointer \"", HEADER].into_iter().flat_map(|says| text.match_indices(says));
    places.filter_map(value_of).collect()
}

/// Values of headers in a list of names and values: `('cookie', 'a=b')`, `['Cookie', 'a=b', …]`.
fn listed_headers(text: &str) -> Vec<Span> {
    let value_of = |(at, _): (usize, &str)| {
        let name = name_at_end(&text[..at]).filter(|name| name.quote.is_some())?;
        let is_known =
            ["authorization", "cookie"].iter().any(|known| known.eq_ignore_ascii_case(name.text));
        let is_header = is_known || name.text.contains('-') && !name.text.starts_with('-');
        let value = text[at + 1..].trim_start();
        let value =
            value.strip_prefix('b').filter(|v| v.starts_with(value::QUOTES)).unwrap_or(value);
        let (mark, inside) = quotation(value).filter(|_| is_header && is_secret(name.text))?;
        let end = end_of_quotation(inside, mark);
        let start = text.len() - inside.len();
        // A list of names has another name there, and no end of a pair.
        let is_name = inside[..end].chars().all(|c| c.is_ascii_alphabetic() || c == '-');
        let is_value =
            !is_name || inside.get(end + mark.len()..).is_some_and(|after| after.starts_with(')'));
        is_value.then_some(Span { range: start..start + end, is_sure: true })
    };
    text.match_indices(',').filter_map(value_of).collect()
}

/// Private keys in PEM (RFC 7468).
fn private_keys(text: &str) -> Vec<Span> {
    const END: &str = "PRIVATE KEY-----";
    let key_after = |(at, _): (usize, &str)| {
        let start = at + END.len();
        let line = text[..at].rsplit("-----").next()?;
        let length = text[start..].find("-----END").unwrap_or(text.len() - start);
        line.trim_start()
            .starts_with("BEGIN")
            .then_some(Span { range: start..start + length, is_sure: true })
    };
    text.match_indices(END).filter_map(key_after).collect()
}

/// Tokens that are known by their form, and words after a scheme of authentication.
fn credentials(text: &str) -> Vec<Span> {
    let is_end = |c: char| c.is_whitespace() || "=;,\"'&?:()[]{}<>\\|`@/#".contains(c);
    let mut found = Vec::new();
    let mut start = 0;
    for word in text.split(is_end) {
        let range = start..start + word.len();
        start += word.len() + text[range.end..].chars().next().map_or(0, char::len_utf8);
        // An escaped line end before a word: `\nghp_…`.
        let is_escaped = text[..range.start].ends_with('\\') && word.starts_with(['n', 'r', 't']);
        let from = usize::from(is_escaped);
        let plain = word[from..].trim_end_matches('.');
        let place = range.start + from..range.start + from + plain.len();
        if is_token(plain) {
            found.push(Span { range: place, is_sure: true });
        } else if is_scheme(plain) {
            found.extend(word_of_scheme(text, plain, place.end));
        }
    }
    found
}

fn word_of_scheme(text: &str, scheme: &str, end: usize) -> Option<Span> {
    let after = text[end..].trim_start_matches(' ');
    let start = Some(text.len() - after.len()).filter(|start| *start > end)?;
    let length = after.find(|c: char| !c.is_ascii_alphanumeric() && !"-._~+/=".contains(c));
    let word = after[..length.unwrap_or(after.len())].trim_end_matches('.');
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    // Base64 has `=` at its end alone: others are the parameters of a challenge, or of a form.
    let is_one = !word.trim_end_matches('=').contains('=');
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    let is_random = looks_random(word) && (is_bearer || is_basic || word.len() >= 16);
    let is_secret = word.len() >= 6 && is_one && (is_random || is_bearer && !is_ordinary(word));
    is_secret.then_some(Span { range: start..start + word.len(), is_sure: true })
}
