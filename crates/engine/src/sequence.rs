//! Sequences: requests that one visitor sends in order, with what their responses pass on.

use std::sync::Arc;

use crate::cookies::CookieTransport;
use crate::extraction::CompiledExtraction;
use crate::stored_body::BodyBudget;

/// A sequence of requests: the compiled form of `Sequence` in a plan.
#[derive(Clone, Debug)]
pub struct CompiledSequence {
    /// For each request of the traffic, in order.
    pub requests: Vec<SequenceRequest>,
    /// Number of values that are extracted.
    pub values: usize,
    pub cookies: CookiePolicy,
    pub transport: CookieTransport,
    pub after_failure: AfterFailure,
    /// Memory for the bodies from which values are extracted.
    pub budget: BodyBudget,
    /// Time of day at instant 0 of the load's clock, seconds since 1970.
    pub epoch_s: i64,
}

/// What follows a visit whose request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterFailure {
    /// The visitor starts anew.
    NewVisit,
    /// The load ends, so that its only failure is known. For the visit before a load.
    EndOfLoad,
}

/// The part of a request that only requests of sequences have.
#[derive(Clone, Debug)]
pub struct SequenceRequest {
    /// Host in lower case, without port and brackets, for cookies.
    pub host: Arc<[u8]>,
    pub extractions: Vec<CompiledExtraction>,
}

/// Treatment of cookies that responses set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CookiePolicy {
    Ignore,
    /// A visitor keeps cookies, and sends them with later requests.
    Keep,
}

impl CompiledSequence {
    /// Returns the number of requests.
    pub(crate) fn length(&self) -> u16 {
        self.requests.len() as u16
    }

    /// Whether visitors need the fields of the responses to a request.
    pub(crate) fn needs_fields(&self, request: u16) -> bool {
        let extractions = &self.requests[usize::from(request)].extractions;
        self.cookies == CookiePolicy::Keep || !extractions.is_empty()
    }
}
