//! `--save`: stores a load as the archive of a run with one trial.

use std::path::Path;

use dyno_archive::RunDir;
use dyno_lab::single::{self, LoadEnd, LoadedServer};
use dyno_model::Plan;
use dyno_model::plan::Workload;
use dyno_model::trial::Ceiling;
use dyno_suite::target::Url;

/// The archive in which a load is stored.
pub struct SavedLoad(RunDir);

impl SavedLoad {
    /// Creates the folder before the load, because an unwritable folder would waste the load.
    pub fn begin(folder: &Path, plan: &Plan) -> anyhow::Result<SavedLoad> {
        crate::cmd::create_archive("--save", folder, plan).map(SavedLoad)
    }

    /// Writes the end of the load, its measurements, and the ceiling that its result quotes.
    pub fn end(&self, ended: &LoadEnd<'_>, ceiling: Option<Ceiling>) -> anyhow::Result<()> {
        Ok(single::write(&self.0, ended, ceiling)?)
    }

    /// Prints the path of the archive. The archive of a load that never began has only the reason.
    pub fn print_path(&self, has_begun: bool) {
        let sentence = if has_begun {
            crate::cmd::MEASUREMENTS_SAVED
        } else {
            "The load did not begin. The reason is saved."
        };
        crate::cmd::print_saved(&self.0, sentence);
    }
}

/// Returns the server that a URL names. Its title omits the query, which may contain secrets.
pub fn server(url: &Url, workload: &Workload) -> LoadedServer {
    let path = match workload.requests.as_slice() {
        [request] => request.path.as_str(),
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
    use dyno_model::plan::Request;
    use dyno_workload::workloads::plaintext;

    use super::*;

    #[test]
    fn server_title_omits_query() {
        let url = Url::parse("https://example.test:8443/items?token=s3cret&page=2#x").unwrap();
        let request = |path: &str| Request { path: path.into(), ..Request::default() };
        let title =
            |requests: Vec<Request>| server(&url, &Workload { requests, ..plaintext() }).title;
        assert_eq!(title(vec![request(&url.target)]), "https://example.test:8443/items");
        // A mix has no path in its title.
        assert_eq!(
            title(vec![request("/a"), request("/b?token=s3cret")]),
            "https://example.test:8443"
        );
        assert_eq!(server(&url, &plaintext()).name, "example.test:8443");
    }
}
