//! Tests the sentence on skewed ratios, for which intervals of runs that may stop early are too
//! narrow.

use dyno_analysis::baseline::PairEstimate;
use dyno_analysis::stats::{Estimate, Looks, PairUnit};
use dyno_model::plan::Arrivals;

use super::answer::sentences_after;

fn estimate(is_skewed: bool) -> Option<PairEstimate> {
    let last = if is_skewed { 3.0 } else { 2.0 };
    let ratios = [1.98, 2.02, 1.99, 2.01, 1.98, 2.02, 2.0, last];
    let estimate = Estimate::from_pairs_at(Looks::AfterEach, &ratios).unwrap();
    let unit = PairUnit::Launches;
    Some(PairEstimate { estimate, unit, interval_of_all: Some((1.7, 2.4)) })
}

fn first_sentence([throughput, cpu]: [bool; 2], arrivals: &Arrivals) -> String {
    sentences_after(|r| {
        r.run.at_every_look = true;
        let cell = r.overview[0].reference_cell;
        r.run.load.steps[cell.step].arrivals = arrivals.clone();
        let comparison = r.comparisons.iter_mut().find(|c| c.cell == cell).unwrap();
        (comparison.throughput, comparison.cpu) = (estimate(throughput), estimate(cpu));
    })
    .remove(0)
}

#[test]
fn skewed_ratios_are_named_in_first_sentence() {
    for arrivals in [Arrivals::Closed, Arrivals::Constant { rate: 1000.0 }] {
        for (skewed, names) in [
            ([true, false], "throughput"),
            ([false, true], "CPU time per request"),
            ([true, true], "throughput and CPU time per request"),
        ] {
            let sentence = first_sentence(skewed, &arrivals);
            let expected = format!(
                ". The ratios of {names} are skewed, and intervals assume symmetry, so their \
                 confidence is below 95 %."
            );
            assert!(sentence.contains(&expected), "{sentence}");
        }
        let symmetric = first_sentence([false; 2], &arrivals);
        assert!(!symmetric.contains("skewed"), "{symmetric}");
    }
}
