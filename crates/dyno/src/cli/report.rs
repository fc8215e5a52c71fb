//! The command line of `dyno report`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use dyno_report::Format;

#[derive(Debug, Args)]
#[command(after_help = super::examples::REPORT)]
pub struct ReportArgs {
    /// Run folder.
    pub run: PathBuf,
    /// Write one format to standard output [default: all, into the run folder].
    #[arg(long, value_parser = format_in(Format::ALL))]
    pub format: Option<&'static Format>,
    /// Write the one format to this file.
    #[arg(short, long, value_name = "FILE", requires = "format")]
    pub output: Option<PathBuf>,
}

/// Parses the name of a format.
pub(super) fn format_in<R: Copy + Send + Sync + 'static>(
    all: &'static [Format<R>],
) -> impl TypedValueParser<Value = &'static Format<R>> {
    let names = all.iter().map(|format| PossibleValue::new(format.name).help(format.help));
    PossibleValuesParser::new(names).try_map(|name| Format::find(all, &name).ok_or(name))
}
