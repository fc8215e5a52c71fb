//! `--save`: keeps a load as the archive of a run of one trial.

use std::path::Path;

use dyno_archive::plan::Workload;
use dyno_archive::trial::Ceiling;
use dyno_archive::{Plan, RunDir};
use dyno_runner::single::{self, LoadEnd, LoadedServer};

use super::target::Url;

/// The archive in which a load is to be kept.
pub struct SavedLoad(RunDir);

impl SavedLoad {
    /// Makes the folder before the load, so that a load is not wasted on an unwritable folder.
    pub fn begin(folder: &Path, plan: &Plan) -> anyhow::Result<SavedLoad> {
        crate::cmd::keep_in(folder, plan).map(SavedLoad)
    }

    /// Writes how the load ended, what it measured, and the ceiling that its result quotes.
    pub fn end(&self, ended: &LoadEnd<'_>, ceiling: Option<Ceiling>) -> anyhow::Result<()> {
        Ok(single::write(&self.0, ended, ceiling)?)
    }

    /// Prints where the archive is. A load that never began has only the reason in it.
    pub fn print_place(&self, has_begun: bool) {
        let kept =
            if has_begun { crate::cmd::IS_KEPT } else { "The reason of the failure is saved." };
        crate::cmd::print_saved(&self.0, kept);
    }
}

/// The server that a URL names. Its title leaves out the query, which may hold secrets.
pub fn server(url: &Url, workload: &Workload) -> LoadedServer {
    let path = match workload.requests.as_slice() {
        [only] => only.path.as_str(),
        [document, ..] if workload.page.is_some() => document.path.as_str(),
        _ => "",
    };
    let path = path.split('?').next().unwrap_or_default();
    LoadedServer {
        name: url.authority(),
        title: format!("{}://{}{path}", url.scheme.name(), url.authority()),
    }
}

#[cfg(test)]
mod tests {
    use dyno_archive::plan::Request;
    use dyno_workload::workloads::plaintext;

    use super::*;

    #[test]
    fn server_is_named_without_what_may_be_secret() {
        let url = Url::parse("https://example.test:8443/items?token=s3cret&page=2#x").unwrap();
        let request = |path: &str| Request { path: path.into(), ..Request::default() };
        let title =
            |requests: Vec<Request>| server(&url, &Workload { requests, ..plaintext() }).title;
        assert_eq!(title(vec![request(&url.target)]), "https://example.test:8443/items");
        // No request of a mix stands for all of it.
        assert_eq!(
            title(vec![request("/a"), request("/b?token=s3cret")]),
            "https://example.test:8443"
        );
        assert_eq!(server(&url, &plaintext()).name, "example.test:8443");
    }
}
