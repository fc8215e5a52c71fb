//! Renders a page with one profile, or with the difference of two.

use dyno_analysis::profile::{Flame, FunctionChange, ProfileDifference, SampleKind};
use maud::html;
use serde_json::json;

use crate::format::micros;
use crate::html::block;
use crate::html::document::{Viewer, document};
use crate::present::block::{Block, ReportSection};
use crate::present::table::{Column, ReportTable, text};
use crate::sections::flame_figure;
use crate::{VIEWER_CSS, VIEWER_JS};

/// The other profile, and its difference from the shown profile.
#[derive(Clone, Copy)]
pub(super) struct ComparedProfile<'a> {
    pub(super) title: &'a str,
    pub(super) difference: &'a ProfileDifference,
}

/// Renders a page with one flame graph. If there is another profile to compare with, colours show
/// the differences.
pub(super) fn page(
    title: &str,
    side: SampleKind,
    flame: &Flame,
    compared: Option<ComparedProfile<'_>>,
) -> String {
    let flame = compared.map_or(flame, |compared| &compared.difference.flame);
    let profiles = json!([{side.name(): flame}]);
    let data = json!({"schema": "dyno.profile/1", "run": {"id": "profile"}, "profiles": profiles});
    let main = html! {
        header {
            p.brand { "dyno" }
            h1 { (title) }
            @if let Some(compared) = compared { p.lede { "compared with " (compared.title) } }
        }
        (block::render(&flame_figure(0, side, flame)))
        @if let Some(compared) = compared { (block::section(&changes(&compared))) }
    };
    let data = data.to_string();
    document(
        &format!("{title} · dyno"),
        &main,
        Viewer { css: VIEWER_CSS, js: VIEWER_JS, data: &data, ..Viewer::default() },
    )
}

/// Returns the functions whose own time differs between the profiles.
fn changes(compared: &ComparedProfile<'_>) -> ReportSection {
    let ProfileDifference { here_us, there_us, changes, .. } = compared.difference;
    let note = format!(
        "A response took {} in this profile and {} in the other profile. Red calls take more time \
         per response in this profile, blue calls take less. Calls without a colour differ by less \
         than three times the sampling error. Each profile is of one start: other starts may \
         differ more.",
        micros(*here_us),
        micros(*there_us)
    );
    let columns: [Column<'_, FunctionChange>; 5] = [
        ("Function", &|change| text(&*change.function.name)),
        ("File or origin", &|change| text(change.function.file())),
        ("#This profile, per response", &|change| text(micros(change.here_us))),
        ("#Other profile", &|change| text(micros(change.there_us))),
        ("#Difference", &|change| {
            let sign = if change.difference_us > 0.0 { "+" } else { "−" };
            text(format!("{sign}{}", micros(change.difference_us.abs())))
        }),
    ];
    let table = match changes.is_empty() {
        true => {
            Block::paragraph("No function differs by more than three times the sampling error.")
        }
        false => Block::Table(ReportTable::plain("", &columns, changes)),
    };
    let content = Block::Group(vec![Block::note(&note), table]);
    ReportSection { id: "changes", title: "Functions whose own time differs".into(), content }
}
