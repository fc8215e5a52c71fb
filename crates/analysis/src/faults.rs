//! Which caveats blame the server, and which excuse it.

use crate::caveat::{Caveat, Code, CodeProperty};
use crate::load::LoadResult;
use crate::verdict::thresholds::MAX_LOST;

/// Sorts caveats, the most severe first. Among equally severe caveats, faults of the server come
/// first, because reports show the first one.
pub(crate) fn sort_by_severity(caveats: &mut [Caveat]) {
    let rank = |code: Code| match code {
        code if code.has(CodeProperty::OtherProgramFailed) => 0,
        code if code.has(CodeProperty::ServerFault) => 1,
        code if code.has(CodeProperty::ExcusesLosses) => 2,
        code if code.has(CodeProperty::MissingResponses) => 3,
        _ => 4,
    };
    caveats.sort_by_key(|c| (std::cmp::Reverse(c.severity), rank(c.code)));
}

/// Whether a caveat that makes a load invalid shows that missing responses and slow ones are not
/// the server's fault. Incorrect responses remain the server's fault. So do missing responses
/// beyond those that the caveat explains.
pub(crate) fn excuses_losses(caveat: &Caveat, load: &LoadResult) -> bool {
    if caveat.code.is_generator_limit() {
        // A generator at its limit sends and reads late. It closes no connection of the server.
        let ended = load.with_repeated(load.ended_by_server());
        return ended as f64 <= MAX_LOST * load.exchanges.due() as f64;
    }
    caveat.code.has(CodeProperty::ExcusesLosses)
        && caveat.explains_losses(load.with_repeated(load.failed_requests()))
}
