//! The requests of a load as data, with their compiled form.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use dyno_engine::{Http2, Traffic};
use dyno_model::plan::{Body, Workload};
use dyno_workload::{ReadFile, compile};
use serde::{Deserialize, Serialize};

/// The requests of a load. The data determine the compiled form, and a generator on another machine
/// needs only the data.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(try_from = "RequestsOnWire", into = "RequestsOnWire")]
pub struct LoadRequests {
    data: Arc<RequestData>,
    selection: Selection,
    traffic: Arc<Traffic>,
}

/// Everything from which requests are compiled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct RequestData {
    workload: Workload,
    /// Name of the server in the requests.
    host: String,
    /// Settings that an upgrade to HTTP/2 announces.
    http2: Http2,
    /// Contents of the files that the workload names.
    files: BTreeMap<String, Body>,
}

/// The requests of a workload that are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Selection {
    All,
    /// The test of one request before the load, by its index.
    Test(usize),
    /// The test visit before a load of sequences.
    TestVisit,
}

#[derive(Serialize, Deserialize)]
struct RequestsOnWire {
    data: RequestData,
    selection: Selection,
}

impl LoadRequests {
    /// Compiles the requests of a workload for a server with the name `host`. `http2`: the settings
    /// that an upgrade announces.
    ///
    /// # Errors
    /// A message for the user: a request cannot be sent as it is written, or a file that it names
    /// cannot be read.
    pub fn compile(
        workload: Workload,
        host: &str,
        http2: Http2,
        read: ReadFile<'_>,
    ) -> Result<LoadRequests, String> {
        let files = RefCell::new(BTreeMap::new());
        let read_and_keep = |name: &str| {
            let bytes = read(name)?;
            files.borrow_mut().insert(name.to_string(), Body(bytes.clone()));
            Ok(bytes)
        };
        let traffic = compile::compile(&workload, host, &http2, &read_and_keep)?;
        let files = files.into_inner();
        let data = RequestData { workload, host: host.into(), http2, files };
        Ok(LoadRequests::new(data, traffic))
    }

    fn new(data: RequestData, traffic: Traffic) -> LoadRequests {
        let (data, traffic) = (Arc::new(data), Arc::new(traffic.with_epoch(epoch_s())));
        LoadRequests { data, selection: Selection::All, traffic }
    }

    /// Returns the compiled form.
    #[must_use]
    pub const fn traffic(&self) -> &Arc<Traffic> {
        &self.traffic
    }

    /// Returns the settings that an upgrade to HTTP/2 announces.
    #[must_use]
    pub fn http2(&self) -> Http2 {
        self.data.http2
    }

    /// Returns the tests before the load: one for each request that has full checks, with the index
    /// of the request. Not for sequences: see [`LoadRequests::test_visit`].
    pub fn tests(&self) -> impl Iterator<Item = (usize, LoadRequests)> {
        self.traffic
            .trials()
            .map(|(index, traffic)| (index, self.with_selection(Selection::Test(index), traffic)))
    }

    /// Whether the requests are a sequence.
    #[must_use]
    pub fn is_sequence(&self) -> bool {
        self.traffic.sequence().is_some()
    }

    /// Returns the test visit before a load of sequences. `None`: no sequence, or no full checks.
    #[must_use]
    pub fn test_visit(&self) -> Option<LoadRequests> {
        let traffic = self.traffic.trial_visit()?;
        Some(self.with_selection(Selection::TestVisit, traffic))
    }

    fn with_selection(&self, selection: Selection, traffic: Traffic) -> LoadRequests {
        LoadRequests { data: Arc::clone(&self.data), selection, traffic: Arc::new(traffic) }
    }
}

/// Returns the time of day at instant 0 of the monotonic clock, seconds since 1970. Drivers measure
/// with that clock.
fn epoch_s() -> i64 {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let monotonic_s = dyno_observer::monotonic_ns() / 1_000_000_000;
    since_1970.as_secs().cast_signed().saturating_sub_unsigned(monotonic_s)
}

impl TryFrom<RequestsOnWire> for LoadRequests {
    type Error = String;

    fn try_from(RequestsOnWire { data, selection }: RequestsOnWire) -> Result<Self, String> {
        let read = |name: &str| {
            let file = data.files.get(name).map(|Body(bytes)| bytes.clone());
            file.ok_or_else(|| "its content is not part of the load".into())
        };
        let traffic = compile::compile(&data.workload, &data.host, &data.http2, &read)?;
        let all = LoadRequests::new(data, traffic);
        let selected = match selection {
            Selection::All => return Ok(all),
            Selection::Test(wanted) => all.tests().find(|(index, _)| *index == wanted),
            Selection::TestVisit => all.test_visit().map(|visit| (0, visit)),
        };
        selected.map(|(_, requests)| requests).ok_or_else(|| "the workload has no such test".into())
    }
}

impl From<LoadRequests> for RequestsOnWire {
    fn from(requests: LoadRequests) -> RequestsOnWire {
        let LoadRequests { data, selection, .. } = requests;
        RequestsOnWire { data: Arc::unwrap_or_clone(data), selection }
    }
}

#[cfg(test)]
mod tests {
    use dyno_contract::listener::Listener;
    use dyno_model::Protocol;
    use dyno_model::plan::{DriverKind, Expect, Request};
    use dyno_suite::defaults::default_load;

    use super::super::sharing::Sharing;
    use super::super::spec::{LoadSpec, single_request};
    use super::*;

    /// Returns a mix of two requests with full checks. One names a file.
    fn mix() -> LoadRequests {
        let request = |path: &str| Request {
            weight: 1,
            method: "GET".into(),
            path: path.into(),
            expect: Expect { body_contains: Some("ok".into()), ..Expect::default() },
            ..Request::default()
        };
        let workload = Workload {
            name: "mix".into(),
            protocol: Protocol::H1,
            requests: vec![request("/a?n={seq}"), request("/b/{csv:users.csv:id}")],
            page: None,
            sequence: None,
            requests_per_connection: None,
        };
        let read = |name: &str| match name {
            "users.csv" => Ok(b"id\n7\n8\n".to_vec()),
            other => Err(format!("{other}: not found")),
        };
        LoadRequests::compile(workload, "server:80", Http2::default(), &read).unwrap()
    }

    fn through_json(requests: &LoadRequests) -> LoadRequests {
        let text = serde_json::to_string(requests).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn requests_are_compiled_alike_from_their_data() {
        let all = mix();
        let tests: Vec<LoadRequests> = all.tests().map(|(_, requests)| requests).collect();
        assert_eq!(tests.len(), 2);
        for requests in tests.iter().chain([&all]) {
            let received = through_json(requests);
            assert_eq!(format!("{:?}", received.traffic), format!("{:?}", requests.traffic));
        }
    }

    #[test]
    fn specification_is_unchanged_by_serialisation() {
        let addr = ([127, 0, 0, 1], 8080).into();
        let authority = Some("/run/authority.pem".into());
        let listener = Listener { addr, protocol: Protocol::H2, authority };
        let spec = LoadSpec {
            trace: [5, 70].into(),
            sharing: Sharing::Turns { slice_ns: 40, loads: 2, index: 1, seed: 3 },
            ..single_request(&listener, mix(), default_load(DriverKind::Epoll))
        };
        let json = serde_json::to_value(&spec).unwrap();
        let received: LoadSpec = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&received).unwrap(), json);
        assert_eq!((received.target, received.trace), (spec.target, spec.trace));
    }

    #[test]
    fn requests_without_a_named_file_are_refused() {
        let mut json = serde_json::to_value(mix()).unwrap();
        let files = json["data"]["files"].take();
        assert_eq!(files, serde_json::json!({"users.csv": "id\n7\n8\n"}));
        json["data"]["files"] = serde_json::json!({});
        let error = serde_json::from_value::<LoadRequests>(json).unwrap_err().to_string();
        assert!(error.contains("users.csv"), "{error}");
    }
}
