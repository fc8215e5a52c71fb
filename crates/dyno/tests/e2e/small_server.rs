//! A small real server on a thread, whose responses a test chooses.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A server on a separate thread. It responds to each request head with the result of `respond`,
/// and ends with the test's process.
pub struct SmallServer {
    pub port: u16,
    /// The received request heads.
    heads: Arc<Mutex<Vec<String>>>,
}

impl SmallServer {
    pub fn start(address: &str, respond: fn(&str) -> Vec<u8>) -> SmallServer {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let received_heads = Arc::clone(&heads);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, received_heads) = (stream.unwrap(), Arc::clone(&received_heads));
                thread::spawn(move || serve(stream, respond, &received_heads));
            }
        });
        SmallServer { port, heads }
    }

    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

fn serve(mut stream: TcpStream, respond: fn(&str) -> Vec<u8>, received_heads: &Mutex<Vec<String>>) {
    let mut received = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        while let Some(at) = received.windows(4).position(|w| w == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&received[..at + 4]).into_owned();
            received.drain(..at + 4);
            let response = respond(&head);
            received_heads.lock().unwrap().push(head);
            if stream.write_all(&response).is_err() {
                return;
            }
        }
        match stream.read(&mut buffer) {
            Ok(n @ 1..) => received.extend_from_slice(&buffer[..n]),
            _ => return,
        }
    }
}
