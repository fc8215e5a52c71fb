//! Assigns ports to the parts of a start (the subject and its back ends), and refuses a fixed port
//! that another program uses.

use std::borrow::Cow;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use dyno_contract::listener::Listener;
use dyno_contract::ports;
use dyno_model::Protocol;
use dyno_observer::proc::{self, ListenerOwner};
use dyno_subject::certs::Certs;
use dyno_subject::definition::Definition;

/// The ports of one part.
#[derive(Clone, Copy)]
pub(super) struct Ports {
    pub(super) plain: u16,
    pub(super) tls: u16,
}

/// Returns the port of the subject's first listener: the value of `{port}` in expected output.
pub(super) fn main_port(definition: &Definition, ports: Ports) -> u16 {
    let is_tls = definition.protocols.first().is_some_and(|protocol| protocol.is_tls());
    if is_tls { ports.tls } else { ports.plain }
}

/// Returns addresses without a listener, as replacements for the back ends' addresses.
pub(super) fn unused_addresses(
    backend_ports: &[(String, Ports)],
) -> Result<Vec<(String, Ports)>, String> {
    let free = ports::free_ports(2 * backend_ports.len(), dyno_observer::monotonic_ns())?;
    Ok(backend_ports
        .iter()
        .zip(free.chunks(2))
        .map(|((name, _), free)| (name.clone(), Ports { plain: free[0], tls: free[1] }))
        .collect())
}

impl Ports {
    /// Finds free ports, or returns the server's fixed ports if they are unused.
    pub(super) fn find(definition: &Definition) -> Result<Ports, String> {
        let free = ports::free_ports(2, dyno_observer::monotonic_ns())?;
        let start = &definition.start;
        for port in [start.port, start.tls_port].into_iter().flatten() {
            let owner = proc::listener_at(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
            if let Some((user, hint)) = port_user(&owner) {
                let name = &definition.name;
                return Err(format!(
                    "port {port}: the fixed port of {name} is in use by {user}\nhint: {hint}"
                ));
            }
        }
        Ok(Ports { plain: start.port.unwrap_or(free[0]), tls: start.tls_port.unwrap_or(free[1]) })
    }

    /// Returns the ports that the part listens on: assigned ports that its definition uses, and
    /// fixed ports.
    pub(super) fn used_by(self, definition: &Definition) -> Vec<u16> {
        let start = &definition.start;
        let ports = [("port", start.port, self.plain), ("tls_port", start.tls_port, self.tls)];
        let used = ports
            .into_iter()
            .filter(|(placeholder, fixed, _)| fixed.is_some() || definition.uses(placeholder));
        used.map(|(_, _, port)| port).collect()
    }

    /// Returns the placeholders for these ports in other parts' settings, with their values.
    pub(super) fn port_placeholders(self, name: &str) -> [(Cow<'static, str>, String); 3] {
        [
            (format!("{name}.port").into(), self.plain.to_string()),
            (format!("{name}.tls_port").into(), self.tls.to_string()),
            (format!("{name}.host").into(), Ipv4Addr::LOCALHOST.to_string()),
        ]
    }

    pub(super) fn listener(self, protocol: Protocol, certs: Option<&Certs>) -> Listener {
        let port = if protocol.is_tls() { self.tls } else { self.plain };
        Listener {
            addr: SocketAddr::from(([127, 0, 0, 1], port)),
            protocol,
            authority: certs.filter(|_| protocol.is_tls()).map(Certs::authority),
        }
    }
}

/// Describes the program that uses a port, and how to free the port. `None`: the port is free.
fn port_user(owner: &ListenerOwner) -> Option<(String, &'static str)> {
    match owner {
        ListenerOwner::Absent => None,
        ListenerOwner::Process { pid, name } => {
            Some((format!("{name}, process {pid}"), "stop that process first"))
        }
        ListenerOwner::Unknown => Some((
            "a program that dyno is not allowed to inspect".into(),
            "stop that program first. To find the program, run `ss -ltnp` as root",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_of_unknown_program_is_in_use() {
        let process = ListenerOwner::Process { pid: 7, name: "nginx".into() };
        let user = |owner| port_user(&owner).map(|(user, _)| user);
        assert_eq!(user(ListenerOwner::Absent), None);
        assert_eq!(user(process).unwrap(), "nginx, process 7");
        let unknown = user(ListenerOwner::Unknown).unwrap();
        assert_eq!(unknown, "a program that dyno is not allowed to inspect");
    }

    #[test]
    fn occupied_port_error_names_its_holder() {
        let holder = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = holder.local_addr().unwrap().port();
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("own");
        std::fs::create_dir(&folder).unwrap();
        let text = format!(
            "language = \"C\"\nprotocols = [\"h1\"]\n[start]\ncommand = [\"x\"]\n\
             port = {port}\n"
        );
        std::fs::write(folder.join("subject.toml"), text).unwrap();
        let definition = Definition::read(&folder).unwrap();
        let error = Ports::find(&definition).err().unwrap();
        let begin = format!("port {port}: the fixed port of own is in use by ");
        let process = format!(", process {}\n", std::process::id());
        assert!(error.starts_with(&begin) && error.contains(&process), "{error}");
        drop(holder);
        assert_eq!(Ports::find(&definition).ok().unwrap().plain, port);
    }
}
