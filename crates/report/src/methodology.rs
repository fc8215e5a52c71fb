//! The sections of docs/methodology.md that explain caveats, to stand in the page: a reader may
//! have no more than that.

use dyno_analysis::Code;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

const TEXT: &str = include_str!("../../../docs/methodology.md");

/// A section of the document, without those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    text: &'static str,
}

impl Section {
    /// How links within the document name it.
    pub(crate) fn name(&self) -> String {
        let kept = self.title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    }

    /// As HTML. A link leads to another of the sections that are shown, or is none.
    pub(crate) fn html(&self, shown: &[Section]) -> String {
        let names: Vec<String> = shown.iter().map(Section::name).collect();
        let mut is_link = false;
        let events =
            Parser::new_ext(self.text, Options::ENABLE_TABLES).filter_map(|event| match event {
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let name = dest_url
                        .strip_prefix('#')
                        .filter(|name| names.iter().any(|own| own == name));
                    is_link = name.is_some();
                    let dest_url = CowStr::from(format!("#{}", anchor(name?)));
                    Some(Event::Start(Tag::Link { link_type, dest_url, title, id }))
                }
                Event::End(TagEnd::Link) => {
                    std::mem::take(&mut is_link).then_some(Event::End(TagEnd::Link))
                }
                Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
                event => Some(event),
            });
        let mut out = String::new();
        html::push_html(&mut out, events);
        out
    }
}

/// The id of a section in the page.
pub(crate) fn anchor(name: &str) -> String {
    format!("method-{name}")
}

/// The section that says more of a caveat; `None`: its line among the caveats is all.
pub(crate) fn caveat_section(code: Code) -> Option<Section> {
    let item = items().find_map(|item| item.strip_prefix(&format!("`{}`: ", code.name())))?;
    let (_, name) = item.rsplit_once("([more](#")?;
    let name = name.trim_end().strip_suffix("))")?;
    sections().into_iter().find(|section| section.name() == name)
}

/// The items of all lists, which may go on over several lines.
fn items() -> impl Iterator<Item = &'static str> {
    let begin = TEXT.split("\n- ").skip(1);
    begin.map(|item| item.split("\n\n").next().unwrap_or(item))
}

/// Every section, in the document's order.
fn sections() -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    let mut begun: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in TEXT.split_inclusive('\n') {
        let title = line.trim_start_matches('#');
        if line.starts_with('#') && title.starts_with(' ') {
            all.extend(begun.map(|(title, from)| Section { title, text: &TEXT[from..at] }));
            begun = Some((title.trim(), at + line.len()));
        }
        at += line.len();
    }
    all.extend(begun.map(|(title, from)| Section { title, text: &TEXT[from..] }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_a_caveat_leads_to_a_section() {
        let links = items().filter(|item| item.contains("([more](#")).count();
        let found = Code::ALL.iter().filter(|code| caveat_section(**code).is_some()).count();
        assert!(links > 20 && found == links, "{found} of {links}");
        assert_eq!(caveat_section(Code::AtOnce).unwrap().title, "Both at once");
    }

    #[test]
    fn a_section_is_shown_without_links_that_lead_nowhere() {
        let own = caveat_section(Code::AtOnce).unwrap();
        let page = own.html(&[own]);
        assert!(
            page.starts_with("<p>") && page.contains("<code>order = \"duet\"</code>"),
            "{page}"
        );
        assert!(!page.contains("<a href") && !page.contains("<script"), "{page}");
        let levels = caveat_section(Code::Slowdown).unwrap();
        assert_eq!(
            (levels.name(), anchor(&levels.name())),
            ("levels".into(), "method-levels".into())
        );
    }
}
