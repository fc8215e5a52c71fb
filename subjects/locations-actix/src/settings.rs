use std::env::{self, VarError};

use elasticsearch::http::Url;

const VARIABLE: &str = "ELASTICSEARCH_URL";
const HINT: &str = "set it to where Elasticsearch listens, for instance http://127.0.0.1:9200";

/// What the service is told at its start.
pub struct Settings {
    pub port: u16,
    pub elasticsearch: Url,
}

impl Settings {
    /// From `--port PORT` and the environment. The error says what is wrong and what to do.
    pub fn read() -> Result<Self, String> {
        Ok(Self { port: port(env::args().skip(1))?, elasticsearch: url(env::var(VARIABLE))? })
    }
}

fn port(arguments: impl Iterator<Item = String>) -> Result<u16, String> {
    let mut rest = arguments.skip_while(|argument| argument != "--port").skip(1);
    let value = rest.next().ok_or("no port to listen on: start it with --port PORT")?;
    value.parse().map_err(|_| {
        format!(
            "{value:?} is not a port: give --port a number from 0 to \
                                       65535"
        )
    })
}

fn url(value: Result<String, VarError>) -> Result<Url, String> {
    let value = match value {
        Ok(value) => value,
        Err(VarError::NotPresent) => return Err(format!("{VARIABLE} is not set: {HINT}")),
        Err(VarError::NotUnicode(_)) => return Err(format!("{VARIABLE} is not UTF-8: {HINT}")),
    };
    match Url::parse(&value) {
        // The client is built without TLS.
        Ok(url) if url.scheme() == "http" && url.has_host() => Ok(url),
        _ => Err(format!("{VARIABLE} is {value:?}, which is not a URL of HTTP: {HINT}")),
    }
}
