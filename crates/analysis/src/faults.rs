//! Which caveats blame the server, and which excuse it.

use crate::caveat::{Caveat, Code};
use crate::load::LoadResult;

/// Caveats that make a trial invalid because its server responded incorrectly, ended, or violated
/// its contract.
pub(crate) const SERVER_FAULTS: [Code; 5] = [
    Code::IncorrectResponses,
    Code::SubjectFailed,
    Code::ChecksFailed,
    Code::Unsolicited,
    Code::AnsweredEarly,
];

/// Caveats that make a trial invalid because too many requests got no response.
pub(crate) const MISSING_RESPONSES: [Code; 3] =
    [Code::NoCorrectResponse, Code::Errors, Code::Outage];

/// Caveats that attribute missing responses to causes outside of the server and the generator's
/// capacity.
pub(crate) const OUTSIDE_CAUSES: [Code; 4] =
    [Code::DroppedPackets, Code::GeneratorStopped, Code::BackendFailed, Code::MachineFailed];

/// Caveats that attribute all failures of a server, including incorrect responses, to another
/// program.
pub(crate) const OTHER_PROGRAM_FAILED: [Code; 2] = [Code::BackendFailed, Code::MachineFailed];

/// Sorts caveats, the most severe first. Among equally severe caveats, faults of the server come
/// first, because reports show the first one.
pub(crate) fn sort_by_severity(caveats: &mut [Caveat]) {
    let rank = |code: Code| match code {
        code if OTHER_PROGRAM_FAILED.contains(&code) => 0,
        code if SERVER_FAULTS.contains(&code) => 1,
        code if may_excuse_losses(code) => 2,
        code if MISSING_RESPONSES.contains(&code) => 3,
        _ => 4,
    };
    caveats.sort_by_key(|c| (std::cmp::Reverse(c.severity), rank(c.code)));
}

/// Whether a caveat that makes a load invalid shows that missing responses and slow ones are not
/// the server's fault. Incorrect responses remain the server's fault. So do missing responses
/// beyond those that the caveat explains.
pub(crate) fn excuses_losses(caveat: &Caveat, load: &LoadResult) -> bool {
    may_excuse_losses(caveat.code) && caveat.explains_losses(load.failed_requests())
}

/// Whether caveats with this code may show that missing responses are not the server's fault.
fn may_excuse_losses(code: Code) -> bool {
    OUTSIDE_CAUSES.contains(&code) || code.is_generator_limit() || code == Code::NoLocalPort
}

/// Whether a caveat is about missing responses, and can make a load invalid.
pub(crate) fn is_loss(code: Code) -> bool {
    MISSING_RESPONSES.contains(&code)
}
