//! Checks that no two servers that run at the same time have the same fixed port.

use std::collections::{BTreeMap, BTreeSet};

use dyno_archive::plan::Plan;
use dyno_subject::definition::Definition;
use dyno_workload::mistake::{Mistake, mistake};

/// Checks that servers and back ends that run at the same time have different fixed ports.
/// `subjects`, `backends`: definitions, in the plan's order.
///
/// # Errors
/// Two of them have the same one, so that only the first could start.
pub(super) fn check(
    plan: &Plan,
    subjects: &[Definition],
    backends: &[Definition],
) -> Result<(), Mistake> {
    for group in plan.concurrent_launches() {
        let mut names_by_port = BTreeMap::new();
        let arms = group.iter().flat_map(|launch| &plan.launches[*launch].arms);
        for arm in arms.copied().filter(|arm| plan.takes_part(*arm)) {
            let Some(arm) = plan.arms.get(arm) else { continue };
            let subject = std::iter::once((&*arm.name, &subjects[arm.subject]));
            let backend_programs =
                arm.backends.iter().map(|i| (&*plan.backends[*i].name, &backends[*i]));
            for (name, definition) in subject.chain(backend_programs) {
                let start = &definition.start;
                // One server may have one port for both.
                let ports: BTreeSet<u16> =
                    [start.port, start.tls_port].into_iter().flatten().collect();
                for port in ports {
                    if let Some(other) = names_by_port.insert(port, name) {
                        return Err(port_mistake(port, [other, name], group.len() > 1));
                    }
                }
            }
        }
    }
    Ok(())
}

/// `are_launches`: whether several launches run at the same time.
fn port_mistake(port: u16, names: [&str; 2], are_launches: bool) -> Mistake {
    let servers = match names {
        [a, b] if a == b => format!("two instances of {a}"),
        [a, b] => format!("{a} and {b}"),
    };
    let hint = match are_launches {
        true => {
            "use `{port}` in the command in place of a fixed `port`, or set `order = \"random\"` \
             in [suite], so that they run one after the other"
        }
        false => "give one of them another `port`, or use `{port}` in its command",
    };
    let message = format!(
        "`port`: {servers} run at the same time, and both have the fixed port {port}\nhint: {hint}"
    );
    mistake("order", message).with_parent("suite")
}
