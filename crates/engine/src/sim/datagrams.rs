//! Simulated datagram sockets. The server returns each datagram to its sender.

use super::{Arrival, Delivery, Event, Fault, SimDriver};
use crate::driver::{ConnId, DatagramDriver};

/// A datagram socket of the generator.
#[derive(Debug, Default)]
pub(super) struct DatagramSocket {
    /// Lengths of the datagrams that wait for a flush.
    lengths: Vec<usize>,
    /// Whether no program receives at the address of the server.
    is_unanswered: bool,
    /// Whether the refusal of a datagram was scheduled. The socket receives nothing after it.
    is_refused: bool,
}

impl DatagramDriver for SimDriver {
    fn open_datagrams(&mut self, conn: ConnId) {
        let is_unanswered = self.rng.chance(self.world.net.refuse);
        let socket = DatagramSocket { is_unanswered, ..DatagramSocket::default() };
        let generation = self.insert_connection(conn, Some(socket));
        // No packet leaves, so opening takes no time.
        self.schedule(self.now, Event::Opened { conn, generation, outcome: Ok(()) });
    }

    fn send_datagram(&mut self, conn: ConnId, datagram: &[u8]) {
        let connection = self.conns.get_mut(&conn).expect("the socket should be open");
        let socket = connection.datagrams.as_mut().expect("the slot should have a datagram socket");
        if socket.lengths.is_empty() {
            self.queued.push(conn);
        }
        socket.lengths.push(datagram.len());
        connection.out.extend_from_slice(datagram);
    }
}

impl SimDriver {
    /// Schedules the effects of the datagrams that a flush sends. Each datagram returns after a
    /// round trip, unless the server is silent.
    pub(super) fn deliver_datagrams(&mut self, conn: ConnId, mut bytes: &[u8]) {
        let is_silent = self.world.server.faults.iter().any(|(fault, _)| *fault == Fault::Silence);
        let returns_at = self.now + 2 * self.world.net.delay_ns;
        let connection = self.conns.get_mut(&conn).expect("the socket should be open");
        let generation = connection.generation;
        let socket = connection.datagrams.as_mut().expect("the slot should have a datagram socket");
        let lengths = std::mem::take(&mut socket.lengths);
        if socket.is_unanswered {
            if !std::mem::replace(&mut socket.is_refused, true) {
                let at = self.arrival_after(conn, returns_at);
                let arrival = Arrival::Reset;
                self.schedule(at, Event::AtGenerator { conn, generation, arrival });
            }
            return;
        }
        for length in lengths {
            let (datagram, others) = bytes.split_at(length);
            bytes = others;
            if is_silent {
                continue;
            }
            let at = self.arrival_after(conn, returns_at);
            let arrival = Arrival::Bytes(Delivery { bytes: datagram.to_vec(), completes: None });
            self.schedule(at, Event::AtGenerator { conn, generation, arrival });
        }
    }
}
