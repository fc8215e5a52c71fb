//! Subjects of a suite that are up at once and loaded at the same time: `order = "duet"`.

use dyno_archive::plan::{Arrivals, Load};
use dyno_workload::mistake::{Mistake, mistake};

use super::turns::RawOrder;

/// Whether a suite asks for a duet.
///
/// # Errors
/// It does, and asks of it what it cannot tell.
pub(super) fn asked(order: Option<RawOrder>, load: &Load, has_objective: bool) -> Result<bool, Mistake> {
    if order != Some(RawOrder::Duet) {
        return Ok(false);
    }
    let is_even = |arrivals: &Arrivals| {
        matches!(arrivals, Arrivals::Closed | Arrivals::Constant { .. } | Arrivals::Poisson { .. })
    };
    if !load.steps.iter().all(|step| is_even(&step.arrivals)) {
        let message = "subjects of a duet are loaded for as much longer as there are of them, and a rate that changes with time, or was recorded, has a length of its own; leave `order = \"duet\"` out, or that step";
        return Err(mistake("order", message).within("suite"));
    }
    if has_objective {
        let message = "with `order = \"duet\"` response times hold the wait for the other servers, and keep no objective; leave it out, or take `order = \"interleaved\"`";
        return Err(mistake("objective", message).within("report"));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::super::tests::parse;

    #[test]
    fn what_a_duet_cannot_tell_is_refused() {
        let suite =
            |more: &str| parse(&format!("subjects = [\"a\", \"b\"]\n[suite]\norder = \"duet\"\n{more}"));
        let closed = suite("[load]\nconnections = 8\n").unwrap();
        assert!(closed.duet && closed.slice_ns.is_none());
        assert!(suite("[load]\nrate = 1000\nconnections = 8\n").unwrap().duet);
        for (more, says) in [
            ("slice = \"200ms\"\n", "nobody takes turns"),
            ("[load]\nconnections = 8\nrate = \"1k..5k\"\n", "has a length of its own"),
            ("[load]\nconnections = 8\nrate = 100\n[report]\nobjective = \"p99<5ms\"\n", "keep no objective"),
        ] {
            let error = suite(more).unwrap_err();
            assert!(error.contains(says), "{more}\n→ {error}");
        }
    }
}
