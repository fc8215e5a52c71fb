//! Reads the steps of a sequence from the command line: `--step`, `--extract` and `--cookies`.

use dyno_config::quotation::quote;
use dyno_model::plan::{Cookies, EXTRACTED_VALUE, Request, Sequence, Workload};
use dyno_workload::sequence::{StepExtraction, parse_extraction, too_many_steps};
use dyno_workload::{command_line, limits};

use crate::cli::LoadArgs;
use crate::exit::usage_error;
use crate::inputs::read_file;

/// Refuses options that contradict a sequence, or that need one.
pub fn refuse_conflicts(args: &LoadArgs) -> anyhow::Result<()> {
    if args.steps.is_empty() {
        return refuse_without_steps(args);
    }
    if args.steps.len() < 2 {
        return Err(usage_error(
            "--step: a sequence needs at least two steps\nhint: add the request that follows as \
             another --step, or give the URL of the only request",
        ));
    }
    Ok(())
}

/// Returns the error of a sequence that cannot be sent, from steps or from curl commands. `None`:
/// the workload can be sent, or is no sequence.
pub fn fault(args: &LoadArgs, workload: &Workload) -> Option<String> {
    workload.sequence?;
    let count = workload.requests.len();
    if count > limits::STEPS {
        return Some(too_many_steps(count));
    }
    (args.settings.pipeline[0] > 1).then(|| {
        "--pipeline: cannot be used with a sequence, because a visitor sends its requests one \
         after the other\nhint: remove --pipeline, or use more connections (-c)"
            .into()
    })
}

fn refuse_without_steps(args: &LoadArgs) -> anyhow::Result<()> {
    let option = if args.cookies { "--cookies" } else { "--extract" };
    if !args.cookies && args.extract.is_empty() {
        return Ok(());
    }
    let reason = match args.mix.is_empty() {
        true => "",
        false => ", because the requests of a mix are drawn at random and belong to no visitor",
    };
    Err(usage_error(format!(
        "{option}: needs the steps of a sequence{reason}\nhint: write the requests in order, such \
         as --step 'POST /login @user.json' --step 'GET /home'"
    )))
}

/// Returns how visitors send the steps. `None`: the command line has no steps.
pub fn sequence(args: &LoadArgs) -> Option<Sequence> {
    let cookies = if args.cookies { Cookies::Kept } else { Cookies::Ignored };
    (!args.steps.is_empty()).then_some(Sequence { cookies })
}

/// Returns the name of each extracted value, with the index of its step.
pub fn extracted_names(steps: &[Request]) -> Vec<(String, usize)> {
    let names = |(step, request): (usize, &Request)| {
        request.extract.iter().map(move |extraction| (extraction.name.clone(), step)).collect()
    };
    steps.iter().enumerate().flat_map(|step| -> Vec<(String, usize)> { names(step) }).collect()
}

/// Whether a step has all extracted values of a header. A header of `-H` is sent with every step
/// that can have it. A value that no step extracts is refused later.
pub fn has_values(header: &str, step: usize, extracted: &[(String, usize)]) -> bool {
    // `{{` stands for a brace and begins no placeholder.
    let placeholders = header.replace("{{", "");
    extracted.iter().all(|(name, extracted_by)| {
        *extracted_by < step || !placeholders.contains(&format!("{{{EXTRACTED_VALUE}{name}}}"))
    })
}

/// Returns the steps with their extractions.
pub fn read(args: &LoadArgs) -> anyhow::Result<Vec<Request>> {
    let parse_step = |text: &String| {
        command_line::parse_step(text, &read_file)
            .map_err(|error| usage_error(format!("--step {}: {error}", quote(text))))
    };
    let mut steps = args.steps.iter().map(parse_step).collect::<anyhow::Result<Vec<_>>>()?;
    for text in &args.extract {
        let with_option = |error| usage_error(format!("--extract {}: {error}", quote(text)));
        let StepExtraction { step, extraction } = parse_extraction(text).map_err(with_option)?;
        let count = steps.len();
        let request = steps.get_mut(step - 1).ok_or_else(|| {
            with_option(format!(
                "there is no step {step}\nhint: use a number from 1 to {count}, which counts --step"
            ))
        })?;
        request.extract.push(extraction);
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;
    use super::*;

    fn args(words: &[&str]) -> LoadArgs {
        parse(&[&["http://h/"], words].concat()).unwrap()
    }

    #[test]
    fn steps_have_extractions() {
        let args = args(&[
            "--step",
            "POST /login {}",
            "--step",
            "GET /{extract.id}",
            "--cookies",
            "--extract",
            "1 id=header:Location",
        ]);
        refuse_conflicts(&args).unwrap();
        let steps = read(&args).unwrap();
        assert_eq!((steps.len(), steps[0].extract.len()), (2, 1));
        assert_eq!(sequence(&args), Some(Sequence { cookies: Cookies::Kept }));
        let extracted = extracted_names(&steps);
        assert_eq!(extracted, [("id".to_string(), 0)]);
        let has = |header: &str| [0, 1].map(|step| has_values(header, step, &extracted));
        assert_eq!(has("Bearer {extract.id}"), [false, true]);
        assert_eq!(has("{{extract.id}}"), [true; 2]);
        assert_eq!(has("{{{extract.id}}}"), [false, true]);
        assert_eq!((has("{extract.other}"), has("x")), ([true; 2], [true; 2]));
    }

    #[test]
    fn options_without_sequence_are_refused() {
        for (words, expected) in [
            (&["--cookies"][..], "--cookies: needs the steps of a sequence\n"),
            (
                &["--request", "1 GET /a", "--cookies"],
                "--cookies: needs the steps of a sequence, b",
            ),
            (&["--extract", "1 a=json:/a"], "--extract: needs the steps"),
            (&["--step", "GET /a"], "--step: a sequence needs at least two steps"),
        ] {
            let error = refuse_conflicts(&args(words)).unwrap_err().to_string();
            assert!(error.starts_with(expected) && error.contains("hint:"), "{error}");
        }
        let wrong = args(&["--step", "GET /a", "--step", "GET /b", "--extract", "3 a=json:/a"]);
        assert!(read(&wrong).unwrap_err().to_string().contains("no step 3"));
    }
}
