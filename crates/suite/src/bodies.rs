//! Limits the memory that the request bodies of a load need, so that a suite cannot exhaust the
//! machine's memory.

use dyno_model::plan::Request;
use dyno_workload::template;

use crate::limits::{MAX_BODY_BYTES, MAX_INPUT_BYTES};

/// Checks the memory that the bodies of a load need: every body is in memory once, and each
/// connection stores the bodies that it sends. `in_flight`: number of requests in flight.
///
/// # Errors
/// The bodies need too much memory.
pub fn check(requests: &[Request], in_flight: u64) -> Result<(), String> {
    let lengths = || {
        let bodies = requests.iter().filter_map(|request| Some((request, request.body.as_ref()?)));
        bodies.map(|(request, body)| (template::length(&body.0), request))
    };
    let total = lengths().fold(0, |total: u64, (length, _)| total.saturating_add(length));
    let Some((longest, request)) = lengths().max_by_key(|(length, _)| *length) else {
        return Ok(());
    };
    if total > MAX_INPUT_BYTES {
        return Err(format!(
            "request bodies: all bodies together have {total} bytes, which is more than the limit \
             of {MAX_INPUT_BYTES} bytes (1 GiB). The longest has {longest} bytes ({} {}).\nhint: \
             use shorter or fewer bodies",
            request.method, request.path
        ));
    }
    let needed = longest.saturating_mul(in_flight);
    if needed <= MAX_BODY_BYTES {
        return Ok(());
    }
    let max = MAX_BODY_BYTES / longest;
    let advice = match max {
        0 => "use a shorter body".into(),
        max => {
            format!(
                "use at most {max} requests in flight (connections × pipeline depth, or \
                 connections × streams)"
            )
        }
    };
    Err(format!(
        "request bodies: {in_flight} requests in flight with {longest} bytes each need {needed} \
         bytes of memory, which is more than the limit of {MAX_BODY_BYTES} bytes (1 GiB)\nhint: \
         {advice}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    use dyno_model::plan::Body;

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
        assert_eq!(check(&[], u64::MAX), Ok(()));
    }

    #[test]
    fn check_refuses_sum_of_bodies_above_limit() {
        let request = |path: &str, size: u64| {
            let body = Some(Body(format!("{{fill:{size}}}").into_bytes()));
            dyno_workload::command_line::request("POST", path, Vec::new(), body)
        };
        let half = MAX_INPUT_BYTES / 2;
        assert_eq!(check(&[request("/a", half), request("/b", half)], 1), Ok(()));
        let message = check(&[request("/a", half), request("/b", half + 1)], 1).unwrap_err();
        assert!(message.contains("together have 1073741825 bytes"), "{message}");
        assert!(message.contains("536870913 bytes (POST /b)"), "{message}");
        assert!(message.contains("\nhint: "), "{message}");
    }
}
