//! The sections of docs/methodology that explain caveats, to stand in a report: its reader may have
//! no other text.

use dyno_analysis::Code;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Text of each page. Titles of sections are unique over all pages.
const PAGES: [&str; 17] = [
    include_str!("../../../docs/methodology/caveats.md"),
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

/// A section of a page, without those below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    text: &'static str,
}

impl Section {
    /// Name in links: the part behind `#`.
    pub(crate) fn name(&self) -> String {
        let kept = self.title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-'));
        kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
    }

    /// Converts the text to HTML. A link, within a page or to another page, leads to a section that
    /// is shown. All other links become plain text.
    pub(crate) fn html(&self, shown: &[Section]) -> String {
        let names: Vec<String> = shown.iter().map(Section::name).collect();
        let mut is_link = false;
        let events =
            Parser::new_ext(self.text, Options::ENABLE_TABLES).filter_map(|event| match event {
                Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                    let name = dest_url
                        .split_once('#')
                        .map(|(_, name)| name)
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
    let (_, link) = item.rsplit_once("([more](")?;
    let (_, name) = link.trim_end().strip_suffix("))")?.split_once('#')?;
    sections().into_iter().find(|section| section.name() == name)
}

/// The items of all lists, which may go on over several lines.
fn items() -> impl Iterator<Item = &'static str> {
    let begin = PAGES.into_iter().flat_map(|page| page.split("\n- ").skip(1));
    begin.map(|item| item.split("\n\n").next().unwrap_or(item))
}

/// Returns all sections, in the order of the pages.
fn sections() -> Vec<Section> {
    PAGES.into_iter().flat_map(sections_of).collect()
}

/// Returns the sections of a page, in its order.
fn sections_of(page: &'static str) -> Vec<Section> {
    let mut all: Vec<Section> = Vec::new();
    let mut begun: Option<(&str, usize)> = None;
    let mut at = 0;
    for line in page.split_inclusive('\n') {
        let title = line.trim_start_matches('#');
        if line.starts_with('#') && title.starts_with(' ') {
            all.extend(begun.map(|(title, from)| Section { title, text: &page[from..at] }));
            begun = Some((title.trim(), at + line.len()));
        }
        at += line.len();
    }
    all.extend(begun.map(|(title, from)| Section { title, text: &page[from..] }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_link_of_a_caveat_leads_to_a_section() {
        let links = items().filter(|item| item.contains("([more](")).count();
        let found = Code::ALL.iter().filter(|code| caveat_section(**code).is_some()).count();
        assert!(links > 20 && found == links, "{found} of {links}");
        assert_eq!(caveat_section(Code::AtOnce).unwrap().title, "Both at once");
    }

    #[test]
    fn titles_are_unique_over_all_pages() {
        let names: Vec<String> = sections().iter().map(Section::name).collect();
        for (i, name) in names.iter().enumerate() {
            assert!(!names[..i].contains(name), "{name} twice");
        }
    }

    #[test]
    fn links_to_other_pages_lead_to_shown_sections() {
        let (refused, duets) =
            (caveat_section(Code::Books).unwrap(), caveat_section(Code::AtOnce).unwrap());
        let link = "<a href=\"#method-both-at-once\">duets</a>";
        assert!(refused.html(&[refused, duets]).contains(link));
        let alone = refused.html(&[refused]);
        assert!(alone.contains("(duets)") && !alone.contains("<a href"), "{alone}");
    }

    #[test]
    fn section_is_shown_without_links_that_lead_nowhere() {
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
