//! `--save`: the archive of a load, which is that of a run of one trial.

use std::path::Path;

use dyno_archive::plan::Workload;
use dyno_archive::trial::Ceiling;
use dyno_archive::{Plan, RunDir};
use dyno_runner::single::{self, Ended, Server};

use super::target::Url;

/// The archive in which a load is to be kept.
pub struct Saving(RunDir);

impl Saving {
    /// Makes its folder, so that a load is not made for nothing.
    pub fn begin(folder: &Path, plan: &Plan) -> anyhow::Result<Saving> {
        crate::cmd::keep_in(folder, plan).map(Saving)
    }

    /// Writes what the load came to, with the ceiling that its result quotes.
    pub fn end(&self, ended: Ended<'_>, ceiling: Option<Ceiling>) -> anyhow::Result<()> {
        Ok(single::write(&self.0, ended, ceiling)?)
    }

    /// Tells where it is.
    pub fn tell(&self) {
        crate::cmd::tell_kept(&self.0);
    }
}

/// The server that a URL means. What is asked of it may hold secrets: of a query nothing is shown.
pub fn server(url: &Url, workload: &Workload) -> Server {
    let path = match workload.requests.as_slice() {
        [only] => only.path.as_str(),
        [document, ..] if workload.page.is_some() => document.path.as_str(),
        _ => "",
    };
    let path = path.split('?').next().unwrap_or_default();
    Server { name: url.authority(), title: format!("{}://{}{path}", url.scheme.name(), url.authority()) }
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::Request;
    use dyno_workload::workloads::plaintext;

    use super::*;

    #[test]
    fn a_server_is_named_without_what_may_be_secret() {
        let url = Url::parse("https://example.test:8443/items?token=s3cret&page=2#x").unwrap();
        let request = |path: &str| Request { path: path.into(), ..Request::default() };
        let title = |requests: Vec<Request>| server(&url, &Workload { requests, ..plaintext() }).title;
        assert_eq!(title(vec![request(&url.target)]), "https://example.test:8443/items");
        // Of a mix no request is the one that is meant.
        assert_eq!(title(vec![request("/a"), request("/b?token=s3cret")]), "https://example.test:8443");
        assert_eq!(server(&url, &plaintext()).name, "example.test:8443");
    }
}
