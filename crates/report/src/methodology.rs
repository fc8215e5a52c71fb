//! Finds the sections of docs/methodology that explain caveats, and renders them in a report,
//! because readers of the report may not have the docs.

use dyno_analysis::Code;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Texts of the pages. Titles of sections are unique over all pages.
const PAGES: [&str; 16] = [
    include_str!("../../../docs/methodology/comparison.md"),
    include_str!("../../../docs/methodology/counters.md"),
    include_str!("../../../docs/methodology/duets.md"),
    include_str!("../../../docs/methodology/experiments.md"),
    include_str!("../../../docs/methodology/inside-a-server.md"),
    include_str!("../../../docs/methodology/levels-and-capacity.md"),
    include_str!("../../../docs/methodology/limiters.md"),
    include_str!("../../../docs/methodology/network.md"),
    include_str!("../../../docs/methodology/order-and-turns.md"),
    include_str!("../../../docs/methodology/placement.md"),
    include_str!("../../../docs/methodology/ranks.md"),
    include_str!("../../../docs/methodology/statistics.md"),
    include_str!("../../../docs/methodology/times.md"),
    include_str!("../../../docs/methodology/validity.md"),
    include_str!("../../../docs/methodology/verdicts.md"),
    include_str!("../../../docs/methodology/window-and-warm-up.md"),
];

/// A section of a page, without its subsections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    text: &'static str,
}

impl Section {
    /// Returns the name of the section in links, after `#`.
    pub(crate) fn name(&self) -> String {
        let name = self.title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
        name.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    }

    /// Converts the text to HTML. Links to `shown_sections` are kept. All other links become plain
    /// text.
    pub(crate) fn html(&self, shown_sections: &[Section]) -> String {
        let names: Vec<String> = shown_sections.iter().map(Section::name).collect();
        let mut is_link = false;
        let events =
            Parser::new_ext(self.text, Options::ENABLE_TABLES).filter_map(|event| match event {
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let name = dest_url
                        .split_once('#')
                        .map(|(_, name)| name)
                        .filter(|name| names.iter().any(|known| known == name));
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

/// Returns the id of a section in the page of a report.
pub(crate) fn anchor(name: &str) -> String {
    format!("method-{name}")
}

/// Returns the section that explains a caveat. `None`: its meaning says all.
pub(crate) fn caveat_section(code: Code) -> Option<Section> {
    let (_, name) = code.more()?.split_once('#')?;
    sections().into_iter().find(|section| section.name() == name)
}

/// Returns all sections, in the order of the pages.
fn sections() -> Vec<Section> {
    PAGES.into_iter().flat_map(page_sections).collect()
}

/// Returns the sections of a page, in its order.
fn page_sections(page: &'static str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut current: Option<(&str, usize)> = None;
    let mut offset = 0;
    for line in page.split_inclusive('\n') {
        let title = line.trim_start_matches('#');
        if line.starts_with('#') && title.starts_with(' ') {
            sections.extend(
                current.map(|(title, start)| Section { title, text: &page[start..offset] }),
            );
            current = Some((title.trim(), offset + line.len()));
        }
        offset += line.len();
    }
    sections.extend(current.map(|(title, start)| Section { title, text: &page[start..] }));
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caveat_links_lead_to_sections() {
        for code in Code::all().filter(|code| code.more().is_some()) {
            assert!(caveat_section(code).is_some(), "{code}: {:?}", code.more());
        }
        assert_eq!(caveat_section(Code::CONCURRENT_LOADS).unwrap().title, "Both at once");
    }

    #[test]
    fn section_titles_are_unique() {
        let names: Vec<String> = sections().iter().map(Section::name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} twice");
        }
    }

    #[test]
    fn links_to_other_pages_lead_to_shown_sections() {
        let (refused, duets) =
            (caveat_section(Code::BOOKS).unwrap(), caveat_section(Code::CONCURRENT_LOADS).unwrap());
        let link = "<a href=\"#method-both-at-once\">duets</a>";
        assert!(refused.html(&[refused, duets]).contains(link));
        let alone = refused.html(&[refused]);
        assert!(alone.contains("(duets)") && !alone.contains("<a href"), "{alone}");
    }

    #[test]
    fn links_to_hidden_sections_become_text() {
        let section = caveat_section(Code::CONCURRENT_LOADS).unwrap();
        let page = section.html(&[section]);
        assert!(
            page.starts_with("<p>") && page.contains("<code>order = \"duet\"</code>"),
            "{page}"
        );
        assert!(!page.contains("<a href") && !page.contains("<script"), "{page}");
        let levels = caveat_section(Code::SLOWDOWN).unwrap();
        assert_eq!(
            (levels.name(), anchor(&levels.name())),
            ("levels".into(), "method-levels".into())
        );
    }
}
