//! Finds secret members of JSON objects in texts of any form: bodies with placeholders, several
//! objects one after the other, logs. The text need not be valid JSON as a whole.

use std::ops::Range;

use dyno_config::secret::{is_secret, is_secret_field, is_secret_parameter, without_escapes};

use super::name::{Span, ValueName, is_message_about_name, is_secret_object, name_at_end};
use super::value::{
    self, QUOTES, Value, end_of_quotation, is_harmless, is_number, quotation,
    without_unicode_escapes,
};

/// Escaped blanks between the tokens of JSON that is quoted in another text.
const ESCAPED_BLANKS: [&str; 3] = ["\\n", "\\r", "\\t"];

/// Finds the values after quoted secret names: `"token" : "…"`, `"token": {"value": …}`. Blanks and
/// line ends may precede and follow the colon.
pub(super) fn member_spans(text: &str) -> Vec<Span> {
    let mut found = Vec::new();
    // End of the last object or list whose values are all secret. Objects within it were searched,
    // too.
    let mut searched = 0;
    for (at, _) in text.match_indices(':') {
        let Some(name) = name_at_end(without_blanks_at_end(&text[..at])) else { continue };
        if name.quote.is_none() {
            continue;
        }
        let value = without_blanks(&text[at + 1..]);
        let start = text.len() - value.len();
        // A word on the next line is not the value, but begins the next message of a log.
        let is_next_line = text[at + 1..start].contains('\n');
        if is_next_line && value.starts_with(|c: char| c.is_alphabetic()) {
            continue;
        }
        let plain = without_escapes(&without_unicode_escapes(name.text));
        if value.starts_with(['{', '[']) {
            if start >= searched {
                let spans = container_spans(&plain, value);
                if plain.split('/').any(is_secret_object) {
                    searched = spans.last().map_or(searched, |last| start + last.range.end);
                }
                found.extend(spans.iter().map(|span| moved(span, start)));
            }
        } else if matches!(name.text, "name" | "key") {
            found.extend(entry_spans(text, at, value));
        } else if !is_message_about_name(&name, value) {
            found.extend(value_spans(&name, &plain, value).map(|span| moved(&span, start)));
        }
    }
    found
}

fn moved(span: &Span, by: usize) -> Span {
    Span { range: span.range.start + by..span.range.end + by, is_sure: span.is_sure }
}

/// Finds the text, number or word that is the value of a secret name.
fn value_spans(name: &ValueName<'_>, plain: &str, value: &str) -> impl Iterator<Item = Span> {
    let is_sure = is_secret(plain);
    let is_secret = is_sure || is_secret_field(plain) && !plain.contains(' ');
    let ranges = if is_secret { value::ranges(name.text, value, &Value::Word) } else { Vec::new() };
    ranges.into_iter().map(move |range| Span { range, is_sure })
}

/// Finds the secrets in an object or list with this name. A session also has settings, so only some
/// of its members are secrets.
fn container_spans(name: &str, value: &str) -> Vec<Span> {
    let parts = || name.split('/');
    let has_only_secrets = parts().any(is_secret_object);
    let last = parts().next_back().unwrap_or_default();
    if !(has_only_secrets || is_secret(last) || last.eq_ignore_ascii_case("auth")) {
        return Vec::new();
    }
    let is_list = value.starts_with('[');
    let is_secret_leaf = |leaf: &Leaf<'_>| {
        let is_secret_member =
            |member: &str| !is_list && (member == "value" || is_secret_parameter(member));
        let is_own = leaf.depth == 1
            && leaf.member.map_or_else(|| is_list && is_secret(last), is_secret_member);
        let text = &value[leaf.range.clone()];
        // All members of a secret object are secret, whatever their names are.
        let is_own = is_own && !leaf.member.is_some_and(|member| is_harmless(member, text));
        (has_only_secrets || is_own) && !is_harmless(name, text)
    };
    let found = leaves(value).into_iter().filter(is_secret_leaf);
    let is_sure = is_list && is_secret(name);
    found.map(|leaf| Span { range: leaf.range, is_sure }).collect()
}

/// Finds the value of an entry in a list of names and values: `{"name": "token", "value": …}`.
/// `colon`: index of the colon after `"name"`. `value`: the text from the value of `"name"` on.
fn entry_spans(text: &str, colon: usize, value: &str) -> Vec<Span> {
    let name = quotation(value).map(|(mark, inside)| &inside[..end_of_quotation(inside, mark)]);
    let Some(name) = name.filter(|name| is_secret(name)) else { return Vec::new() };
    let Some(start) = object_start(&text[..colon]) else { return Vec::new() };
    let found = leaves(&text[start..]).into_iter();
    found
        .filter(|leaf| leaf.member == Some("value"))
        .map(|leaf| Span { range: start + leaf.range.start..start + leaf.range.end, is_sure: true })
        .filter(|span| !is_harmless(name, &text[span.range.clone()]))
        .collect()
}

/// Returns the index of the brace that opens the object at the end of a text.
fn object_start(text: &str) -> Option<usize> {
    let mut closed = 0_usize;
    for (at, brace) in text.rmatch_indices(['{', '}']) {
        match (brace, closed) {
            ("}", _) => closed += 1,
            (_, 0) => return Some(at),
            _ => closed -= 1,
        }
    }
    None
}

/// A text or number in an object or list.
struct Leaf<'a> {
    range: Range<usize>,
    /// Name of the member of the outermost object that contains the leaf. `None`: the outermost
    /// value is a list.
    member: Option<&'a str>,
    /// Number of objects and lists that contain the leaf.
    depth: usize,
}

/// Returns the texts and numbers in the object or list at the start of a text.
fn leaves(text: &str) -> Vec<Leaf<'_>> {
    let mut leaves = Vec::new();
    let (mut at, mut depth, mut member) = (0, 0, None);
    while let Some(c) = text[at..].chars().next() {
        let remainder = &text[at..];
        if let Some((mark, inside)) = quotation(remainder) {
            let start = at + mark.len();
            let range = start..start + end_of_quotation(inside, mark);
            at = range.end;
            at += if text[at..].starts_with(mark) { mark.len() } else { 0 };
            let is_name = without_blanks(&text[at..]).starts_with(':');
            match (is_name, depth) {
                (true, 1) => member = Some(&text[range]),
                (true, _) => {}
                (false, _) => leaves.push(Leaf { range, member, depth }),
            }
            continue;
        }
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
        // A colon after a name is skipped, and a colon within a placeholder belongs to its word.
        let word = if c == ':' { "" } else { &remainder[..end_of_bare_word(remainder)] };
        if is_number(word) {
            leaves.push(Leaf { range: at..at + word.len(), member, depth });
        }
        at += word.len().max(c.len_utf8());
    }
    leaves
}

/// Returns the end of a number or another word without quotation marks. An escaped blank is a word.
fn end_of_bare_word(text: &str) -> usize {
    if ESCAPED_BLANKS.iter().any(|blank| text.starts_with(blank)) {
        return 2;
    }
    let is_end = |c: char| c.is_whitespace() || "{}[],\\".contains(c) || QUOTES.contains(&c);
    text.find(is_end).unwrap_or(text.len())
}

/// Removes blanks, line ends and escaped blanks at the start of a text.
fn without_blanks(text: &str) -> &str {
    let mut text = text.trim_start();
    while let Some(remainder) = ESCAPED_BLANKS.iter().find_map(|blank| text.strip_prefix(*blank)) {
        text = remainder.trim_start();
    }
    text
}

/// Removes blanks, line ends and escaped blanks between a quoted name and the end of a text.
fn without_blanks_at_end(text: &str) -> &str {
    let mut name = text.trim_end();
    while let Some(remainder) = ESCAPED_BLANKS.iter().find_map(|blank| name.strip_suffix(*blank)) {
        name = remainder.trim_end();
    }
    if name.ends_with(QUOTES) { name } else { text }
}
