//! Tables of a page: cells with a sort key, a hint on hover and a bar for the eye.

use std::fmt::Write as _;

use crate::format::or_dash;

pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            _ => out.push(c),
        }
    }
    out
}

/// A table; cells are HTML already. Columns whose name begins with `#` hold numbers.
pub(super) fn table(class: &str, head: &[&str], rows: &[Vec<Cell>]) -> String {
    let columns: String = head
        .iter()
        .map(|name| match name.strip_prefix('#') {
            Some(name) => format!("<th scope=\"col\" class=\"n\">{name}</th>"),
            None => format!("<th scope=\"col\">{name}</th>"),
        })
        .collect();
    let mut out =
        format!("<div class=\"scroll\"><table class=\"{class}\"><thead><tr>{columns}</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (cell, name) in row.iter().zip(head) {
            let class = if name.starts_with('#') { " class=\"n\"" } else { "" };
            let key = cell.key.map_or(String::new(), |k| format!(" data-key=\"{k}\""));
            let hint = cell.hint.as_ref().map_or(String::new(), |h| format!(" title=\"{}\"", escape(h)));
            let bar = cell.bar.map_or(String::new(), |b| format!(" style=\"--bar:{:.1}%\"", b * 100.0));
            let _ = write!(out, "<td{class}{key}{hint}{bar}>{}</td>", cell.html);
        }
        out.push_str("</tr>\n");
    }
    out + "</tbody></table></div>\n"
}

/// A cell: what is shown, what it sorts by, a hint on hover, and a bar for the eye (0 to 1).
#[derive(Default)]
pub(super) struct Cell {
    pub(super) html: String,
    pub(super) key: Option<f64>,
    pub(super) hint: Option<String>,
    pub(super) bar: Option<f64>,
}

pub(super) fn text(text: impl AsRef<str>) -> Cell {
    Cell { html: escape(text.as_ref()), ..Cell::default() }
}

pub(super) fn value(value: Option<f64>, show: impl FnOnce(f64) -> String) -> Cell {
    Cell { html: or_dash(value, show), key: value, ..Cell::default() }
}

impl Cell {
    pub(super) fn with_bar(mut self, of: f64) -> Cell {
        self.bar = self.key.filter(|_| of > 0.0).map(|k| (k / of).clamp(0.0, 1.0));
        self
    }

    pub(super) fn with_hint(mut self, hint: Option<String>) -> Cell {
        self.hint = hint;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<a href=\"x\">&"), "&lt;a href=&quot;x&quot;&gt;&amp;");
    }
}
