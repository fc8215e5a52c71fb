//! The options of `dyno load` that are made from the table of settings.

use std::ops::{Deref, DerefMut};

use clap::builder::{PossibleValuesParser, TypedValueParser, ValueParser};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use dyno_model::plan::DriverKind;
use dyno_suite::settings::{LoadOption, LoadSettings, SETTINGS, Setting};

/// The settings of the command line.
#[derive(Clone, Debug)]
pub struct SettingArgs(LoadSettings);

impl Deref for SettingArgs {
    type Target = LoadSettings;

    fn deref(&self) -> &LoadSettings {
        &self.0
    }
}

impl DerefMut for SettingArgs {
    fn deref_mut(&mut self) -> &mut LoadSettings {
        &mut self.0
    }
}

impl FromArgMatches for SettingArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<SettingArgs, clap::Error> {
        let mut settings = LoadSettings::default();
        for setting in SETTINGS.iter().filter(|setting| setting.option.is_some()) {
            let Some(text) = matches.get_one::<String>(setting.key) else { continue };
            let is_given = matches.value_source(setting.key) == Some(ValueSource::CommandLine);
            let result = match is_given {
                true => settings.set(setting, text),
                false => settings.set_default(setting, text),
            };
            result.map_err(|message| clap::Error::raw(ErrorKind::ValueValidation, message))?;
        }
        Ok(SettingArgs(settings))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = SettingArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for SettingArgs {
    fn augment_args(command: Command) -> Command {
        let options = SETTINGS.iter().filter_map(|setting| Some((setting, setting.option?)));
        command.args(options.map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

fn argument((setting, option): (&'static Setting, LoadOption)) -> Arg {
    let is_blank = |line: &&str| line.is_empty();
    let paragraphs: Vec<String> =
        setting.help.split(is_blank).map(|lines| lines.concat().trim().to_string()).collect();
    let parser = match setting.choices() {
        [] => ValueParser::new(move |text: &str| {
            LoadSettings::default().set(setting, text).map(|()| text.to_string())
        }),
        names => PossibleValuesParser::new(names).into(),
    };
    let argument = Arg::new(setting.key)
        .long(setting.flag().trim_start_matches('-').to_string())
        .value_name(option.value_name)
        .value_parser(parser)
        .default_value(option.default)
        .help(paragraphs[0].trim_end_matches('.').to_string())
        .help_heading(option.group)
        .hide_short_help(!option.is_common)
        .allow_negative_numbers(true)
        .short(option.short);
    match paragraphs.len() {
        1 => argument,
        _ => argument.long_help(paragraphs.join("\n\n")),
    }
}

/// Returns the parser of a driver.
pub fn driver_parser() -> impl TypedValueParser<Value = DriverKind> {
    let driver = |name: String| DriverKind::from_name(&name).expect("the name should be possible");
    PossibleValuesParser::new(DriverKind::ALL.map(DriverKind::name)).map(driver)
}
