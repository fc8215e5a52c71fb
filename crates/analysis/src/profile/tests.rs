//! Tests flame graphs and differences of profiles made by hand.

use super::*;

/// Indices of the frames of [`profile`].
const MAIN: u32 = 0;
const A: u32 = 1;
const B: u32 = 2;
const WRITE: u32 = 3;
const UNNAMED: u32 = 4;

fn frame(name: &str, kind: FrameKind) -> Frame {
    let module = (kind == FrameKind::Native).then(|| "server".into());
    Frame { name: (!name.is_empty()).then(|| name.into()), module, kind }
}

fn stack(frames: &[u32], samples: u64) -> Stack {
    let (thread, process) = ("server".into(), "server".into());
    Stack {
        thread,
        process,
        first: true,
        runnable: false,
        is_complete: true,
        frames: frames.to_vec(),
        samples,
    }
}

/// `main` calls `a` and `b`; `a` calls itself and the kernel's `write`. 1,000 responses; a sample
/// is a millisecond.
fn profile(stacks: Vec<Stack>) -> ProfileRecord {
    let frames = [
        ("main", FrameKind::Native),
        ("a", FrameKind::Native),
        ("b", FrameKind::Jit),
        ("write", FrameKind::Kernel),
        ("", FrameKind::Kernel),
    ];
    ProfileRecord {
        length_ns: 1_000_000_000,
        responses: 1000,
        cpu_ns: Some(500_000_000),
        frames: frames.iter().map(|(name, kind)| frame(name, *kind)).collect(),
        running: Stacks { period_ns: 1_000_000, lost: 0, stacks },
        ..ProfileRecord::default()
    }
}

fn visible_frames(flame: &Flame) -> Vec<(&str, u32, u64, u64)> {
    let name = |n: &Node| flame.functions[n.function as usize].name.as_str();
    flame.nodes.iter().map(|n| (name(n), n.depth, n.start, n.samples)).collect()
}

#[test]
fn flame_has_siblings_in_order_of_names() {
    let record = profile(vec![
        stack(&[MAIN, A, WRITE], 50),
        stack(&[MAIN, A, A], 10),
        stack(&[MAIN, B], 30),
        stack(&[MAIN], 10),
    ]);
    let flame = Flame::from_profiles(&[&record], SampleKind::Running).unwrap();
    let expected = [
        ("work", 0, 0, 100),
        ("main", 1, 0, 100),
        ("a", 2, 0, 60),
        ("a", 3, 0, 10),
        ("write", 3, 10, 50),
        ("b", 2, 60, 30),
    ];
    assert_eq!(visible_frames(&flame), expected);
    assert_eq!((flame.samples, flame.seconds, flame.us_per_request), (100, 0.1, Some(100.0)));
    let hot_function = |place: usize| {
        let hot_function = &flame.hottest[place];
        (
            flame.functions[hot_function.function as usize].name.as_str(),
            hot_function.own_share,
            hot_function.share,
            hot_function.own_us_per_request,
        )
    };
    assert_eq!(hot_function(0), ("write", 0.5, 0.5, Some(50.0)));
    assert_eq!(hot_function(1), ("b", 0.3, 0.3, Some(30.0)));
    assert_eq!(
        hot_function(2),
        ("a", 0.1, 0.6, Some(10.0)),
        "a recursive function is counted once"
    );
    assert_eq!(hot_function(3), ("main", 0.1, 1.0, Some(10.0)));
    let origins: Vec<_> = flame.by_origin.iter().map(|o| (o.name.as_str(), o.share)).collect();
    assert_eq!(origins, [("kernel", 0.5), ("compiled just in time", 0.3), ("server", 0.2)]);
    assert!(Flame::from_profiles(&[&record], SampleKind::Waiting).is_none());
}

#[test]
fn flame_reports_unknown_parts() {
    let mut record = profile(vec![
        stack(&[MAIN, UNNAMED], 3),
        Stack { is_complete: false, ..stack(&[MAIN, A], 1) },
    ]);
    record.running.stacks.push(Stack { runnable: true, ..stack(&[MAIN], 4) });
    let flame = Flame::from_profiles(&[&record], SampleKind::Running).unwrap();
    assert_eq!((flame.whole_share, flame.named_share), (0.875, 0.625));
    let names: BTreeSet<&str> = flame.functions.iter().map(|f| f.name.as_str()).collect();
    assert!(names.contains("[kernel]") && names.contains("waits for a CPU"), "{names:?}");
}

#[test]
fn flame_omits_invisible_parts() {
    let record = profile(vec![stack(&[MAIN, A], 5000), stack(&[MAIN, B], 4)]);
    let flame = Flame::from_profiles(&[&record], SampleKind::Running).unwrap();
    assert_eq!(visible_frames(&flame).len(), 3);
    assert_eq!(flame.hottest.len(), 2);
}

/// Lost samples are assumed to be like the others, in both profiles.
#[test]
fn equal_profiles_with_lost_samples_take_equal_time() {
    let mut record = profile(vec![stack(&[MAIN, A], 100)]);
    record.running.lost = 100;
    let compared = difference(&record, &record, SampleKind::Running).unwrap();
    assert_eq!((compared.here_us, compared.there_us), (200.0, 200.0));
    assert_eq!(compared.changes, []);
}

#[test]
fn profile_difference_requires_significant_samples() {
    let here = profile(vec![stack(&[MAIN, A], 400), stack(&[MAIN, B], 100)]);
    let mut there =
        profile(vec![stack(&[MAIN, A], 400), stack(&[MAIN, B], 108), stack(&[MAIN, WRITE], 150)]);
    // With twice as many responses, each sample is half as much time per response.
    there.responses = 2000;
    let result = difference(&here, &there, SampleKind::Running).unwrap();
    let changes: Vec<_> = result
        .changes
        .iter()
        .map(|c| (c.function.name.as_str(), c.here_us, c.there_us, c.difference_us))
        .collect();
    assert_eq!(
        changes,
        [("a", 400.0, 200.0, 200.0), ("write", 0.0, 75.0, -75.0), ("b", 100.0, 54.0, 46.0)]
    );
    assert_eq!(result.there_us, 329.0);
    let levels: Vec<_> = visible_frames(&result.flame)
        .iter()
        .map(|n| n.0)
        .zip(result.flame.levels.clone().unwrap())
        .collect();
    assert_eq!(levels, [("work", 3), ("main", 3), ("a", 3), ("b", 3)]);
    let same = difference(&here, &here, SampleKind::Running).unwrap();
    assert!(same.changes.is_empty() && same.flame.levels.unwrap().iter().all(|level| *level == 0));
    let similar = profile(vec![stack(&[MAIN, A], 430), stack(&[MAIN, B], 100)]);
    assert!(
        difference(&similar, &here, SampleKind::Running).unwrap().changes.is_empty(),
        "30 of 400 are chance"
    );
    assert!(difference(&here, &ProfileRecord::default(), SampleKind::Running).is_none());
}
