//! Any bytes: a trial of an archive is read or refused. A trial that was read is equal after it is
//! written and read again.
#![no_main]

use dyno_model::TrialRecord;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(record) = serde_json::from_slice::<TrialRecord>(bytes) {
        let text = serde_json::to_vec(&record).unwrap();
        let again: TrialRecord = serde_json::from_slice(&text).unwrap();
        assert_eq!(record, again);
    }
});
