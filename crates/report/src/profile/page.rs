//! Renders a page with one profile, or with the difference of two.

use dyno_analysis::profile::{Flame, FunctionChange, ProfileDifference, SampleKind};
use maud::{Markup, html};
use serde_json::json;

use crate::format::micros;
use crate::html::{Viewer, document, flame_figure};
use crate::{VIEWER_CSS, VIEWER_JS};

/// The other profile, and its difference from the shown profile.
#[derive(Clone, Copy, Debug)]
pub struct ComparedProfile<'a> {
    pub title: &'a str,
    pub difference: &'a ProfileDifference,
}

/// Renders a page with one flame graph. If there is another profile to compare with, colours show
/// the differences.
#[must_use]
pub fn page(
    title: &str,
    side: SampleKind,
    flame: &Flame,
    compared: Option<ComparedProfile<'_>>,
) -> String {
    let flame = compared.map_or(flame, |compared| &compared.difference.flame);
    let profile = match side {
        SampleKind::Running => json!({"running": flame}),
        SampleKind::Waiting => json!({"waiting": flame}),
    };
    let data = json!({"schema": "dyno.profile/1", "run": {"id": "profile"}, "profiles": [profile]});
    let main = html! {
        header {
            p.brand { "dyno" }
            h1 { (title) }
            @if let Some(compared) = compared { p.lede { "compared with " (compared.title) } }
        }
        (flame_figure(0, side, flame))
        @if let Some(compared) = compared { (changes_section(&compared)) }
    };
    let data = data.to_string();
    document(
        &format!("{title} · dyno"),
        &main,
        Viewer { css: VIEWER_CSS, js: VIEWER_JS, data: &data, ..Viewer::default() },
    )
}

/// Renders the functions whose own time differs between the profiles.
fn changes_section(compared: &ComparedProfile<'_>) -> Markup {
    let ProfileDifference { here_us, there_us, changes, .. } = compared.difference;
    let row = |change: &FunctionChange| {
        let sign = if change.difference_us > 0.0 { "+" } else { "−" };
        html! {
            tr {
                td { (change.function.name) }
                td { (change.function.module.as_deref().unwrap_or(change.function.kind.name())) }
                td.n { (micros(change.here_us)) } td.n { (micros(change.there_us)) }
                td.n { (sign) (micros(change.difference_us.abs())) }
            }
        }
    };
    html! {
        p.note {
            "A response took " (micros(*here_us)) " in this profile and " (micros(*there_us))
            " in the other profile. Red calls take more time per response in this profile, blue "
            "calls take less. Calls without a colour "
            "differ by less than three times the sampling error. Each profile is of one start: "
            "other starts may differ more."
        }
        h2 { "Functions whose own time differs" }
        @if changes.is_empty() {
            p { "No function differs by more than three times the sampling error." }
        } @else {
            div.scroll { table {
                thead {
                    tr {
                        th { "Function" } th { "File or origin" }
                        th.n { "This profile, per response" } th.n { "Other profile" }
                        th.n { "Difference" }
                    }
                }
                tbody { @for change in changes { (row(change)) } }
            } }
        }
    }
}
