//! The interface of a load generator, and what a generator may be unable to do.

use dyno_driver::Stamps;
use dyno_model::machine::MachineUse;

use super::messages::GeneratorOrder;
use super::sink::Sink;
use super::spec::LoadSpec;

/// A load generator.
pub trait Instrument {
    /// Returns what the instrument can do.
    fn capabilities(&self) -> Capabilities;

    /// Starts a load. Its workers send their events to `sink`. If the started load is dropped, its
    /// workers end.
    ///
    /// # Errors
    /// A sentence: the load cannot be started. Its workers have ended.
    fn start(&self, spec: &LoadSpec, sink: Sink) -> Result<Box<dyn StartedLoad>, String>;
}

/// A load that an [`Instrument`] has started.
pub trait StartedLoad {
    /// Obeys an order of the controller.
    fn obey(&mut self, order: GeneratorOrder);

    /// Waits for the end of all workers that were not given up.
    fn finish(self: Box<Self>) -> GeneratorReadings;
}

/// What an instrument can do, beyond closed and open loops of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Loads over TLS.
    pub tls: Support,
    /// Loads with neither a duration nor a number of requests, which only the user ends.
    pub open_end: Support,
    /// Instants at which the kernel received responses.
    pub kernel_stamps: Support,
}

/// Whether an instrument supports something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    Supported,
    /// The reason, with a hint.
    Unsupported(&'static str),
}

impl Support {
    /// Returns the reason for which something is unsupported.
    #[must_use]
    pub const fn refusal(self) -> Option<&'static str> {
        match self {
            Support::Supported => None,
            Support::Unsupported(reason) => Some(reason),
        }
    }
}

impl Capabilities {
    /// Checks that an instrument can run a load.
    ///
    /// # Errors
    /// The load needs something that the instrument does not support.
    pub fn check(&self, spec: &LoadSpec) -> Result<(), String> {
        let needs = [
            (spec.target.tls.is_some(), self.tls),
            (spec.load.has_open_end(), self.open_end),
            (spec.target.endpoint.stamps == Stamps::Kernel, self.kernel_stamps),
        ];
        let mut needed = needs.into_iter().filter(|(is_needed, _)| *is_needed);
        needed.find_map(|(_, support)| support.refusal()).map_or(Ok(()), |r| Err(r.into()))
    }
}

/// The generator's own use of its machine.
#[derive(Clone, Debug, PartialEq)]
pub enum GeneratorReadings {
    Read {
        rss_peak_bytes: Option<u64>,
        machine: Option<Box<MachineUse>>,
    },
    /// The instrument does not measure itself: neither the machine nor its threads.
    Unsupported,
}
