//! The command line of `dyno report`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use dyno_report::Format;

#[derive(Debug, Args)]
#[command(after_help = super::examples::REPORT)]
pub struct ReportArgs {
    /// Run folder.
    pub run: PathBuf,
    /// Write one format to standard output [default: all, into the run folder].
    #[arg(long, value_parser = format())]
    pub format: Option<&'static Format>,
    /// Write the one format to this file.
    #[arg(short, long, value_name = "FILE", requires = "format")]
    pub output: Option<PathBuf>,
}

/// Parses the name of a format.
fn format() -> impl TypedValueParser<Value = &'static Format> {
    let names = Format::ALL.iter().map(|format| format.name);
    PossibleValuesParser::new(names).try_map(|name| Format::from_name(&name).ok_or(name))
}
