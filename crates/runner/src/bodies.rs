//! Limits the memory that the request bodies of a load need.

use dyno_archive::plan::Request;
use dyno_workload::template;

use crate::limits::MAX_BODY_BYTES;

/// Checks the memory that the bodies of a load need, because each connection keeps those that it
/// sends.
///
/// # Errors
/// They need too much memory.
pub fn check(requests: &[Request], in_flight: u64) -> Result<(), String> {
    let bodies = requests.iter().filter_map(|request| request.body.as_ref());
    let longest = bodies.map(|body| template::length(&body.0)).max().unwrap_or(0);
    let needed = longest.saturating_mul(in_flight);
    if needed <= MAX_BODY_BYTES {
        return Ok(());
    }
    let max = MAX_BODY_BYTES / longest;
    let advice = match max {
        0 => "use a shorter body".into(),
        max => {
            format!("use at most {max} requests in flight (connections × pipeline or streams)")
        }
    };
    Err(format!(
        "request bodies: {in_flight} requests in flight with {longest} bytes each need {needed} \
         bytes, more than the limit of {MAX_BODY_BYTES} (1 GiB)\nhint: {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    use dyno_archive::plan::Body;

    #[test]
    fn check_refuses_bodies_above_memory_limit() {
        let with = |body: &[u8]| {
            [dyno_workload::command_line::request(
                "POST",
                "/",
                Vec::new(),
                Some(Body(body.to_vec())),
            )]
        };
        let megabyte = vec![b'x'; 1 << 20];
        assert_eq!(check(&with(&megabyte), 1024), Ok(()));
        let message = check(&with(&megabyte), 1025).unwrap_err();
        assert!(message.contains("\nhint: use at most 1024 requests in flight"), "{message}");
        let long = vec![b'x'; (1 << 20) + 1];
        assert!(check(&with(&long), 1024).unwrap_err().contains("at most 1023"));
        assert!(check(&with(b"{fill:16MiB}{fill:16MiB}"), 33).is_err());
        assert_eq!(check(&with(b"{fill:16MiB}{fill:16MiB}"), 32), Ok(()));
        assert_eq!(check(&with(b""), u64::MAX), Ok(()));
    }
}
