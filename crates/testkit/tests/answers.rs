//! Tests that `testkit` responds to requests with every behaviour.

use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use dyno_testkit::{Behaviour, Program, behaviours};

/// A running server, which is killed on drop.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Server {
    fn start(name: &str, extra: &[&str]) -> Server {
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_testkit"));
        command.args(["--port", &port.to_string(), "--behaviour", name]).args(extra);
        command.current_dir(folder.path()).stdin(Stdio::null());
        Server { child: command.spawn().unwrap(), port, _folder: folder }
    }

    fn connect(&mut self) -> TcpStream {
        loop {
            // A connection to a port without a listener may be connected to itself.
            match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(stream) if stream.local_addr().unwrap() != stream.peer_addr().unwrap() => {
                    return stream;
                }
                _ => assert!(self.child.try_wait().unwrap().is_none(), "the server ended"),
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a request and reads its response, up to the end of the known body.
fn exchange(stream: &mut TcpStream) -> io::Result<String> {
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")?;
    let (mut response, mut buffer) = (String::new(), [0; 512]);
    while !response.ends_with("Hello, World!") {
        let n = stream.read(&mut buffer)?;
        if n == 0 {
            return Err(io::Error::other(format!("closed after {response:?}")));
        }
        response.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }
    Ok(response)
}

fn check(behaviour: &Behaviour, extra: &[&str]) {
    let mut server = Server::start(behaviour.name, extra);
    let mut stream = server.connect();
    // The second request shows that the connection was kept.
    for _ in 0..2 {
        let response = exchange(&mut stream)
            .unwrap_or_else(|error| panic!("{}: no response: {error}", behaviour.name));
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{}: {response}", behaviour.name);
    }
}

#[test]
fn every_behaviour_responds() {
    for behaviour in behaviours().filter(|b| matches!(b.program, Program::Testkit(..))) {
        let Some(back_end) = behaviour.back_end else {
            check(behaviour, &[]);
            continue;
        };
        let mut service = Server::start(back_end.behaviour, &[]);
        drop(service.connect());
        check(behaviour, &["--backend", &service.port.to_string()]);
    }
}

#[test]
fn unknown_behaviour_error_lists_known_ones() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_testkit"));
    let output = command.args(["--port", "1", "--behaviour", "none"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        message.contains("--behaviour none: must be one of cpu, ") && message.contains("usage:"),
        "{message}"
    );
}
