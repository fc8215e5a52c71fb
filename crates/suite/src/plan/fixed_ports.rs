//! Checks that no two servers that run at the same time have the same fixed port.

use std::collections::BTreeMap;

use dyno_config::mistake::{Mistake, mistake};
use dyno_model::plan::Plan;
use dyno_subject::definition::Definition;

/// Checks that servers and back ends that run at the same time have different fixed ports.
/// `subjects`, `backends`: definitions, in the plan's order.
///
/// # Errors
/// Two of these servers have the same fixed port, so that only the first could start.
pub(super) fn check(
    plan: &Plan,
    subjects: &[Definition],
    backends: &[Definition],
) -> Result<(), Mistake> {
    for group in plan.concurrent_launches() {
        let mut names_by_port = BTreeMap::new();
        let arms = group.iter().flat_map(|launch| &plan.launches[*launch].arms);
        let mut arms: Vec<usize> = arms.copied().filter(|arm| plan.takes_part(*arm)).collect();
        // The order of starts is random. The message names the servers in the order of the suite.
        arms.sort_unstable();
        for arm in arms {
            let Some(arm) = plan.arms.get(arm) else { continue };
            let subject = std::iter::once((&*arm.name, &subjects[arm.subject]));
            let backend_programs =
                arm.backends.iter().map(|i| (&*plan.backends[*i].name, &backends[*i]));
            for (name, definition) in subject.chain(backend_programs) {
                for (port, key) in fixed_ports(definition) {
                    if let Some(other) = names_by_port.insert(port, name) {
                        return Err(port_mistake((key, port), [other, name], group.len() > 1));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Returns the fixed ports of a definition, each with its key. If a definition has the same port
/// for both keys, the key of the port is `port`.
fn fixed_ports(definition: &Definition) -> BTreeMap<u16, &'static str> {
    let start = &definition.start;
    let keys = [(start.tls_port, "tls_port"), (start.port, "port")];
    keys.into_iter().filter_map(|(port, key)| Some((port?, key))).collect()
}

/// Describes a fixed port of two servers. `key`: the key of the second server with this port.
/// `has_several_launches`: whether several launches run at the same time.
fn port_mistake((key, port): (&str, u16), names: [&str; 2], has_several_launches: bool) -> Mistake {
    let servers = match names {
        [a, b] if a == b => format!("two instances of {a}"),
        [a, b] => format!("{a} and {b}"),
    };
    let hint = match has_several_launches {
        true => format!(
            "use `{{{key}}}` in the command instead of a fixed `{key}`, or set `order = \
             \"random\"` in [suite] to run the servers one after the other"
        ),
        false => {
            format!("give one of them another `{key}`, or use `{{{key}}}` in its command")
        }
    };
    let message = format!(
        "`{key}`: {servers} run at the same time, and both have the fixed port {port}\nhint: {hint}"
    );
    mistake("order", message).with_parent("suite")
}
