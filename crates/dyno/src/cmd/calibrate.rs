//! `dyno calibrate`: measures the highest rates (ceilings) of the generator on this machine against
//! dyno's own servers (controls), and the lateness of its requests.

mod known_bottlenecks;
mod verdicts;

use std::path::{Path, PathBuf};

use dyno_analysis::calibration::{Calibration, CeilingRow};
use dyno_analysis::ceiling::KindCeiling;
use dyno_analysis::load::Ceiling;
use dyno_analysis::probe_cost::PriceResult;
use dyno_report::calibration as page;
use dyno_report::probe_cost;
use dyno_runner::calibrate::{self, Calibrated, CalibrationError, CalibrationEvent, NOT_MEASURED};

use super::report::{is_standard_output, write_out};
use crate::calibration::{CalibrationFile, machine};
use crate::cli::{CalibrateArgs, PlanFormat};
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
    let outcome = calibrate::run(
        &placement,
        measurements,
        archive.as_ref(),
        &interrupts,
        &mut print_progress,
    );
    let is_saved = matches!(
        &outcome,
        Ok(Calibrated { archive_error: None, .. })
            | Err(CalibrationError::Interrupted { archive_error: None })
    );
    if let Some(dir) = archive.as_ref().filter(|_| is_saved) {
        super::print_saved(dir, super::MEASUREMENTS_SAVED);
    }
    let Calibrated { measured, archive_error } = outcome.map_err(unsaved_error)?;
    let not_measured =
        NOT_MEASURED.map(|(name, reason)| (name.to_string(), reason.to_string())).into();
    let result = Calibration::new(machine(), &placement, not_measured, &measured);
    let ceilings = calibration_file(&result).write(&folder);
    let location = ceilings.as_ref().ok().map(|path| ceilings_location(args, path));
    let text = match args.format {
        PlanFormat::Text => page::text(&result, location.as_deref(), terminal::style()),
        PlanFormat::Json => serde_json::to_string_pretty(&result)? + "\n",
    };
    let written = write_out(args.output.as_deref(), &text);
    // Reported after the result, so that the result is not lost.
    let archive_error = archive_error.map_or(Ok(()), |error| Err(error.into()));
    first_error([written, ceilings.map(drop), archive_error])?;
    Ok(if result.is_valid() { Exit::Valid } else { Exit::Invalid })
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
    let mut prices = Vec::new();
    for set in calibrate::priced_probes() {
        let names: Vec<&str> = set.iter().map(|probe| probe.name()).collect();
        terminal::say(&format!("calibrate: measuring the cost of {} (20 s)", names.join(", ")));
        prices.push(PriceResult::new(&calibrate::price(&placement, &set, &interrupts)?));
    }
    let text = match args.format {
        PlanFormat::Text => probe_cost::text(&machine(), &prices, terminal::style()),
        PlanFormat::Json => serde_json::to_string_pretty(&prices)? + "\n",
    };
    write_out(args.output.as_deref(), &text)?;
    Ok(Exit::Valid)
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

/// Returns the contents of the file of ceilings.
fn calibration_file(result: &Calibration) -> CalibrationFile {
    let measured = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
    let kind = |row: &CeilingRow| KindCeiling {
        driver: row.driver,
        protocol: row.protocol,
        pipelined: row.in_flight_each() > 1,
        in_flight_each: Some(row.in_flight_each()),
        ceiling: Ceiling { throughput_rps: row.throughput_rps, measured: measured.clone() },
    };
    CalibrationFile {
        machine: result.machine.clone(),
        ceilings: result.valid_ceilings().map(kind).collect(),
    }
}
