//! Lists the formats of a profile.

use dyno_analysis::profile::{Flame, Line, SampleKind, difference, lines};
use dyno_model::profile::ProfileRecord;

use super::collapsed::{collapse, collapse_pair};
use super::page::{ComparedProfile, page};
use super::pprof::pprof;
use super::speedscope::speedscope;
use crate::output::Format;

/// A format of a profile. An error is a message for the user.
pub type ProfileFormat = Format<fn(&ProfileExport<'_>) -> Result<ExportedProfile, String>>;

/// Every format of a profile, the default first.
pub const FORMATS: &[ProfileFormat] = &[
    ProfileFormat::new("collapsed", "One line per stack, for flamegraph.pl and inferno", collapsed),
    ProfileFormat::new("pprof", "For `go tool pprof` and other readers of its format", binary),
    ProfileFormat::new(
        "speedscope",
        "JSON for the viewer at speedscope.app, with weights in nanoseconds",
        json,
    ),
    ProfileFormat::new("html", "An HTML page with a flame graph", html),
];

/// A profile, the profile to compare it with, and the state of the threads to show.
#[derive(Clone, Debug)]
pub struct ProfileExport<'a> {
    pub shown: NamedProfile<'a>,
    pub other: Option<NamedProfile<'a>>,
    pub kind: SampleKind,
}

/// A profile and its title.
#[derive(Clone, Debug)]
pub struct NamedProfile<'a> {
    pub profile: &'a ProfileRecord,
    pub title: String,
}

/// Content of an exported file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExportedProfile {
    Text(String),
    Binary(Vec<u8>),
}

impl ProfileFormat {
    /// Exports a profile, or its difference from another one.
    ///
    /// # Errors
    /// The format does not show differences, or a profile has no samples in this state.
    pub fn export(&self, export: &ProfileExport<'_>) -> Result<ExportedProfile, String> {
        (self.renderer)(export)
    }
}

impl ProfileExport<'_> {
    fn lines(&self) -> Vec<Line> {
        lines(self.shown.profile, self.kind)
    }

    /// Returns the time that a sample represents, in nanoseconds.
    const fn period_ns(&self) -> u64 {
        self.kind.stacks(self.shown.profile).period_ns
    }

    /// Refuses a second profile for a format that shows one.
    fn refuse_difference(&self, format: &str) -> Result<(), String> {
        match self.other {
            Some(_) => Err(format!(
                "--format {format}: cannot show differences\nhint: use --format html or --format \
                 collapsed"
            )),
            None => Ok(()),
        }
    }
}

fn collapsed(export: &ProfileExport<'_>) -> Result<ExportedProfile, String> {
    let shown = export.lines();
    Ok(ExportedProfile::Text(match &export.other {
        Some(other) => collapse_pair(&shown, &lines(other.profile, export.kind)),
        None => collapse(&shown),
    }))
}

fn binary(export: &ProfileExport<'_>) -> Result<ExportedProfile, String> {
    export.refuse_difference("pprof")?;
    let (kind, length_ns) = (export.kind, export.shown.profile.length_ns);
    let bytes = pprof(&export.lines(), kind, export.period_ns(), length_ns);
    bytes.map(ExportedProfile::Binary).map_err(|error| error.to_string())
}

fn json(export: &ProfileExport<'_>) -> Result<ExportedProfile, String> {
    export.refuse_difference("speedscope")?;
    let text = speedscope(&export.shown.title, &export.lines(), export.period_ns());
    Ok(ExportedProfile::Text(text))
}

fn html(export: &ProfileExport<'_>) -> Result<ExportedProfile, String> {
    let ProfileExport { shown, other, kind } = export;
    let no_samples = || format!("{}: has no samples of {} threads", shown.title, kind.name());
    let flame = Flame::from_profiles(&[shown.profile], *kind).ok_or_else(no_samples)?;
    let Some(other) = other else {
        return Ok(ExportedProfile::Text(page(&shown.title, *kind, &flame, None)));
    };
    if *kind == SampleKind::Waiting {
        return Err(
            "--off-cpu: --format html cannot show the difference of two profiles, because one long \
             wait gives many samples, so a difference may be chance\nhint: use --format \
             collapsed, which has the counts of both profiles"
                .into(),
        );
    }
    let difference = difference(shown.profile, other.profile, *kind).ok_or_else(no_samples)?;
    let compared = ComparedProfile { title: &other.title, difference: &difference };
    Ok(ExportedProfile::Text(page(&shown.title, *kind, &flame, Some(compared))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'a>(profile: &'a ProfileRecord, title: &str) -> NamedProfile<'a> {
        NamedProfile { profile, title: title.into() }
    }

    fn export(name: &str, export: &ProfileExport<'_>) -> Result<ExportedProfile, String> {
        Format::find(FORMATS, name).unwrap().export(export)
    }

    #[test]
    fn formats_of_other_tools_refuse_differences() {
        let profile = ProfileRecord::default();
        let (shown, other) = (named(&profile, "a"), Some(named(&profile, "b")));
        let pair = ProfileExport { shown, other, kind: SampleKind::Running };
        for name in ["pprof", "speedscope"] {
            let error = export(name, &pair).unwrap_err();
            assert!(
                error.contains(&format!("--format {name}: cannot show differences")),
                "{error}"
            );
        }
        assert_eq!(export("collapsed", &pair), Ok(ExportedProfile::Text(String::new())));
        assert_eq!(export("html", &pair), Err("a: has no samples of running threads".into()));
    }

    #[test]
    fn only_pprof_is_binary() {
        let profile = ProfileRecord::default();
        let single =
            ProfileExport { shown: named(&profile, "a"), other: None, kind: SampleKind::Waiting };
        assert!(matches!(export("pprof", &single), Ok(ExportedProfile::Binary(_))));
        let Ok(ExportedProfile::Text(text)) = export("speedscope", &single) else {
            panic!("speedscope reads text")
        };
        assert!(text.contains("\"name\":\"a\""), "{text}");
    }
}
