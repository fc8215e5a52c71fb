//! `dyno calibrate`: measures the highest rates (ceilings) of the generator on this machine against
//! dyno's own servers (controls), and the lateness of its requests.

mod known_bottlenecks;
mod verdicts;

use std::path::{Path, PathBuf};

use dyno_analysis::calibration::{Calibration, CeilingRow, MeasurementPurpose};
use dyno_analysis::ceiling::KindCeiling;
use dyno_analysis::load::Ceiling;
use dyno_analysis::probe_cost::PriceResult;
use dyno_archive::RunDir;
use dyno_lab::calibrate::{self, Calibrated, CalibrationError, CalibrationEvent, NOT_MEASURED};
use dyno_report::calibration as page;
use dyno_report::format::plural;
use dyno_report::{json, probe_cost};

use super::report::{is_standard_output, write_out};
use crate::calibration::{CalibrationFile, MachineCeilings, machine, store};
use crate::cli::CalibrateArgs;
use crate::exit::{Exit, usage_error};
use crate::other_programs;
use crate::terminal::{self, ThirdInterrupt, first_error};

/// Measures the ceilings, or what an option requests instead, and writes the result.
pub fn run(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    // Checked before the measurements, which take a minute.
    if let Some(output) = args.output.as_deref().filter(|output| !is_standard_output(Some(output)))
    {
        crate::result_file::check(output)?;
    }
    let folder = super::cache_folder(args.cache.as_deref())?;
    refuse_ceilings_file(args.output.as_deref(), &CalibrationFile::path(&folder))?;
    if args.probes {
        return measure_probes(args);
    }
    if args.verdicts {
        return verdicts::run(args);
    }
    // An unreadable file of ceilings must not be replaced.
    CalibrationFile::read(&folder)?;
    let placement = calibrate::placement(&dyno_launch::allowed_cpus());
    let measurements = calibrate::measurements(args.duration.0);
    let create_archive = |folder: &PathBuf| {
        super::create_archive("--save", folder, &calibrate::plan(&measurements, &placement))
    };
    let archive = args.save.as_ref().map(create_archive).transpose()?;
    let interrupts = terminal::catch_interrupts(
        "ending early: the measured rates will not be saved",
        ThirdInterrupt::Ends,
    )?;
    other_programs::warn_before_calibration();
    let mut finished = 0;
    let mut on_event = |event: &CalibrationEvent<'_>| {
        finished += usize::from(is_finished_trial(event));
        print_progress(event);
    };
    let outcome =
        calibrate::run(&placement, measurements, archive.as_ref(), &interrupts, &mut on_event);
    if let Some(dir) = &archive {
        print_archive(dir, &outcome, finished);
    }
    let Calibrated { measured, archive_error } = outcome.map_err(unsaved_error)?;
    let not_measured =
        NOT_MEASURED.map(|(name, reason)| (name.to_string(), reason.to_string())).into();
    let result = Calibration::new(machine(), &placement, not_measured, &measured);
    let ceilings = store(machine_ceilings(&result), &folder);
    let path = ceilings.as_ref().ok().and_then(Option::as_ref);
    let location = path.map(|path| ceilings_location(args, path));
    let text = match args.format.is_text() {
        true => page::text(&result, location.as_deref(), terminal::style()),
        false => json::lines(&result),
    };
    let written = write_out(args.output.as_deref(), &text);
    // Reported after the result, so that the result is not lost.
    let archive_error = archive_error.map_or(Ok(()), |error| Err(error.into()));
    first_error([written, ceilings.map(drop), archive_error])?;
    Ok(if result.is_valid() { Exit::Valid } else { Exit::Invalid })
}

/// Whether a measurement has ended that the archive has as a trial. Requests to a closed port are
/// no trial of the server.
fn is_finished_trial(event: &CalibrationEvent<'_>) -> bool {
    matches!(event, CalibrationEvent::Ended(load)
        if load.measurement.shows != MeasurementPurpose::Refusals)
}

/// Names the archive of a calibration. `finished`: the number of measurements that it should have.
fn print_archive(dir: &RunDir, outcome: &Result<Calibrated, CalibrationError>, finished: usize) {
    match outcome {
        Ok(Calibrated { archive_error: None, .. })
        | Err(CalibrationError::Interrupted { archive_error: None }) => {
            super::print_saved(dir, super::MEASUREMENTS_SAVED);
        }
        Ok(Calibrated { archive_error: Some(_), .. })
        | Err(
            CalibrationError::Interrupted { archive_error: Some(_) }
            | CalibrationError::NotStarted(_)
            | CalibrationError::Machine(_),
        ) => {
            let saved = dir.read().map_or(0, |run| run.trials.len());
            super::print_saved(dir, &incomplete_archive_text(saved, finished));
        }
    }
}

/// Describes the archive after a failure.
fn incomplete_archive_text(saved: usize, finished: usize) -> String {
    let measurements = plural(finished as u64, "finished measurement");
    if finished == 0 {
        "No measurement was finished.".into()
    } else if saved >= finished {
        format!("All {measurements} are saved.")
    } else {
        format!("{saved} of {measurements} are saved.")
    }
}

/// Refuses to write the result to the file of the ceilings.
fn refuse_ceilings_file(output: Option<&Path>, ceilings: &Path) -> anyhow::Result<()> {
    let Some(output) = output.filter(|output| !is_standard_output(Some(output))) else {
        return Ok(());
    };
    let identity = crate::result_file::check(output)?;
    if identity.is_some() && identity == crate::result_file::check(ceilings)? {
        let output = output.display();
        return Err(usage_error(format!(
            "{output}: cannot be the output, because `dyno calibrate` stores rates for `dyno load` \
             in this file\nhint: write the result to another file"
        )));
    }
    Ok(())
}

/// Measures the cost of probes (`dyno calibrate --probes`).
fn measure_probes(args: &CalibrateArgs) -> anyhow::Result<Exit> {
    let placement = calibrate::placement(&dyno_launch::allowed_cpus());
    let interrupts = terminal::catch_interrupts("ending early", ThirdInterrupt::Ends)?;
    let sets = calibrate::priced_probes();
    let (prices, end) = measure_prices(&sets, |set| {
        let names: Vec<&str> = set.iter().map(|probe| probe.name()).collect();
        terminal::say(&format!("calibrate: measuring the cost of {} (20 s)", names.join(", ")));
        calibrate::price(&placement, set, &interrupts).map(|price| PriceResult::new(&price))
    });
    // Finished prices are a result, also if a later measurement failed.
    let written = if prices.is_empty() { Ok(()) } else { write_prices(args, &prices) };
    first_error([end, written])?;
    Ok(Exit::Valid)
}

/// Measures the price of each set of probes, up to the first failure or an interrupt.
fn measure_prices<S, P>(
    sets: &[S],
    mut price: impl FnMut(&S) -> Result<P, CalibrationError>,
) -> (Vec<P>, anyhow::Result<()>) {
    let mut prices = Vec::new();
    for set in sets {
        match price(set) {
            Ok(price) => prices.push(price),
            Err(CalibrationError::Interrupted { .. }) => {
                let (measured, all) = (prices.len(), sets.len());
                let error =
                    anyhow::anyhow!("--probes: interrupted after {measured} of {all} measurements");
                return (prices, Err(error));
            }
            Err(error) => return (prices, Err(error.into())),
        }
    }
    (prices, Ok(()))
}

fn write_prices(args: &CalibrateArgs, prices: &[PriceResult]) -> anyhow::Result<()> {
    let text = match args.format.is_text() {
        true => probe_cost::text(&machine(), prices, terminal::style()),
        false => json::lines(&prices),
    };
    write_out(args.output.as_deref(), &text)
}

/// Prints why an interrupted calibration could not be saved. Returns the interrupt as the error.
fn unsaved_error(error: CalibrationError) -> anyhow::Error {
    if let CalibrationError::Interrupted { archive_error: Some(archive_error) } = error {
        terminal::print_error(&archive_error.into());
        return CalibrationError::Interrupted { archive_error: None }.into();
    }
    error.into()
}

fn print_progress(event: &CalibrationEvent<'_>) {
    match event {
        CalibrationEvent::Begins(measurement) => {
            terminal::say(&format!("calibrate: {}", page::measuring(measurement)));
        }
        CalibrationEvent::Ended(measured) if measured.lacks_stamps() => {
            terminal::say(
                "calibrate: kernel timestamps skipped, because the kernel returned none for \
                 received data",
            );
        }
        CalibrationEvent::Ended(_) => {}
    }
}

/// Describes the location of the ceilings, with the variable by which later loads find it.
fn ceilings_location(args: &CalibrateArgs, path: &Path) -> String {
    let is_found =
        args.cache.is_none() || std::env::var_os("DYNO_CACHE").map(PathBuf::from) == args.cache;
    match &args.cache {
        Some(folder) if !is_found => {
            format!(
                "{} (set DYNO_CACHE={} so that `dyno load` finds this file)",
                path.display(),
                terminal::quote(&folder.display().to_string())
            )
        }
        _ => path.display().to_string(),
    }
}

/// Returns the ceilings to store.
fn machine_ceilings(result: &Calibration) -> MachineCeilings {
    let measured = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let kind = |row: &CeilingRow| KindCeiling {
        driver: row.driver,
        protocol: row.protocol,
        pipelined: row.in_flight_each() > 1,
        in_flight_each: Some(row.in_flight_each()),
        ceiling: Ceiling { throughput_rps: row.throughput_rps, measured: measured.clone() },
    };
    MachineCeilings {
        machine: result.machine.clone(),
        ceilings: result.valid_ceilings().map(kind).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::exit::exit_status;

    #[test]
    fn unusable_files_are_refused_before_measurements() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
        let (file, cache, other) = (at("file"), at("cache"), at("other"));
        std::fs::write(&file, "mine").unwrap();
        std::fs::create_dir(&other).unwrap();
        let ceilings = CalibrationFile::path(other.as_ref());
        std::fs::write(&ceilings, "notes").unwrap();
        for (words, text) in [
            (["-o", &at("file/x"), "--cache", &cache], "file/x: cannot be written"),
            (["--cache", &file, "-o", "-"], "file: cannot be used"),
            (["--save", &file, "--cache", &cache], "--save "),
            (["--cache", &other, "-o", "-"], "calibration.json: is not a file of ceilings"),
        ] {
            let words = ["dyno", "calibrate"].iter().chain(&words).map(OsString::from);
            let cli = Cli::read(&words.collect::<Vec<_>>()).unwrap();
            let Command::Calibrate(args) = cli.command else { panic!() };
            let error = run(&args).unwrap_err();
            assert!(error.to_string().contains(text), "{error:#}");
            assert_eq!(exit_status(&error), Exit::Usage);
        }
        assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
        assert_eq!(std::fs::read_to_string(ceilings).unwrap(), "notes");
    }

    #[test]
    fn finished_prices_are_kept_after_interrupt() {
        let interrupted = || CalibrationError::Interrupted { archive_error: None };
        let measure = |stops_at: usize, error: fn() -> CalibrationError| {
            measure_prices(&[0, 1, 2], |set| if *set == stops_at { Err(error()) } else { Ok(*set) })
        };
        let (prices, end) = measure(2, interrupted);
        assert_eq!(prices, [0, 1]);
        let message = end.unwrap_err().to_string();
        assert_eq!(message, "--probes: interrupted after 2 of 3 measurements");
        let (prices, end) = measure(1, || CalibrationError::Machine("disk".into()));
        assert_eq!((prices, end.unwrap_err().to_string()), (vec![0], "disk".into()));
        let (prices, end) = measure(3, interrupted);
        assert!(prices.len() == 3 && end.is_ok());
    }

    #[test]
    fn incomplete_archive_is_described() {
        let texts = [(3, 3), (2, 3), (0, 0)].map(|(n, all)| incomplete_archive_text(n, all));
        assert_eq!(
            texts,
            [
                "All 3 finished measurements are saved.",
                "2 of 3 finished measurements are saved.",
                "No measurement was finished."
            ]
        );
    }
}
