//! The environment of what dyno starts. It is of dyno's making, so that two users of one suite measure the same: of dyno's
//! own only what is named here, or by a subject or a suite, is passed on.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use dyno_archive::secret::is_secret;
use serde::{Deserialize, Deserializer, de};

/// What every program gets of dyno's own environment.
const ALWAYS: [&str; 2] = ["PATH", "HOME"];

/// Where programs are looked for if dyno itself has no PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The same language everywhere: messages, sorting and encodings are not to depend on who measures.
const LANGUAGE: &str = "C.UTF-8";

/// What builds, and the questions that dyno asks of tools (`version`, `requires`), get of dyno's own environment besides:
/// where toolchains find themselves, their caches and their registries. What changes the code that they make (RUSTFLAGS,
/// CFLAGS, GOFLAGS, GOAMD64, JAVA_TOOL_OPTIONS, NODE_OPTIONS and the like) is not among them: `inherit` or `env` of
/// `[build]` lets it in. A `*` at the end stands for any rest. docs/subjects.md shows this list.
pub const TOOLCHAINS: [&str; 71] = [
    // Proxies, and whom to trust.
    "http_proxy",
    "https_proxy",
    "ftp_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "FTP_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "NODE_EXTRA_CA_CERTS",
    "SSH_AUTH_SOCK",
    // Caches and settings of any tool.
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    // Rust. Not CARGO_BUILD_*, CARGO_PROFILE_*, CARGO_TARGET_*: they say how to compile.
    "CARGO_HOME",
    "CARGO_HTTP_*",
    "CARGO_NET_*",
    "CARGO_REGISTRIES_*",
    "CARGO_REGISTRY_*",
    "CARGO_SOURCE_*",
    "RUSTUP_*",
    // Go.
    "GOROOT",
    "GOPATH",
    "GOCACHE",
    "GOMODCACHE",
    "GOTOOLCHAIN",
    "GOPROXY",
    "GOPRIVATE",
    "GONOPROXY",
    "GONOSUMDB",
    "GOSUMDB",
    "GOINSECURE",
    "GOAUTH",
    // Java. The options are those of the build tool's own process.
    "JAVA_HOME",
    "JDK_HOME",
    "MAVEN_HOME",
    "M2_HOME",
    "MAVEN_USER_HOME",
    "MAVEN_OPTS",
    "MAVEN_ARGS",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "GRADLE_OPTS",
    // JavaScript.
    "npm_config_*",
    "NPM_CONFIG_*",
    "NVM_DIR",
    "FNM_DIR",
    "VOLTA_HOME",
    "PNPM_HOME",
    "YARN_*",
    "COREPACK_*",
    "BUN_INSTALL",
    "DENO_DIR",
    // Python.
    "PIP_*",
    "UV_*",
    "PYENV_ROOT",
    // .NET, Ruby, PHP.
    "DOTNET_ROOT",
    "NUGET_*",
    "GEM_HOME",
    "GEM_PATH",
    "BUNDLE_*",
    "COMPOSER_HOME",
    "COMPOSER_CACHE_DIR",
];

/// A variable, or with a `*` at its end all that begin so, that is let in from dyno's own environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherit(String);

impl Inherit {
    /// # Errors
    /// A sentence on how it is written.
    pub fn parse(text: &str) -> Result<Inherit, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "{text:?} is not the name of an environment variable; write it like \"JAVA_HOME\", or \"AWS_*\" for all that begin so"
            ));
        }
        Ok(Inherit(text.into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Inherit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Inherit::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

fn covers(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |start| name.starts_with(start))
}

/// dyno's own variables, from which some are passed on.
#[derive(Clone, Debug, Default)]
pub struct Ours(Vec<(String, OsString)>);

impl Ours {
    /// Those that this process was started with. Names that are no text are nobody's.
    #[must_use]
    pub fn read() -> Ours {
        Ours::of(std::env::vars_os())
    }

    pub fn of(variables: impl IntoIterator<Item = (OsString, OsString)>) -> Ours {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        Ours(variables.into_iter().filter_map(text).collect())
    }
}

/// The whole environment of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// Of a server: what everybody gets, and what is let in. Temporary files go into `temporary`.
    #[must_use]
    pub fn of_server(ours: &Ours, inherit: &[Inherit], temporary: &Path) -> Environment {
        let mut environment = Environment::default();
        environment.set("PATH", USUAL_PATH);
        environment.set("HOME", temporary);
        environment.let_in(ours, ALWAYS);
        environment.set("LANG", LANGUAGE);
        environment.set("TMPDIR", temporary);
        environment.let_in(ours, inherit.iter().map(Inherit::as_str));
        environment
    }

    /// Of a build, or of a tool that is asked something: that, and [`TOOLCHAINS`].
    #[must_use]
    pub fn of_tool(ours: &Ours, inherit: &[Inherit], temporary: &Path) -> Environment {
        let mut environment = Environment::of_server(ours, inherit, temporary);
        environment.let_in(ours, TOOLCHAINS);
        environment
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.0.insert(name.into(), value.as_ref().into());
    }

    fn let_in<'a>(&mut self, ours: &Ours, patterns: impl IntoIterator<Item = &'a str>) {
        for pattern in patterns {
            let wanted = ours.0.iter().filter(|(name, _)| covers(pattern, name));
            wanted.for_each(|(name, value)| self.set(name, value));
        }
    }

    /// Makes it the whole environment of a command.
    pub fn apply(&self, command: &mut Command) {
        command.env_clear().envs(&self.0);
    }

    /// What the archive keeps: names, and values that are no secrets.
    #[must_use]
    pub fn recorded(&self) -> BTreeMap<String, String> {
        let record =
            |(name, value): (&String, &OsString)| (name.clone(), shown(name, &value.to_string_lossy()));
        self.0.iter().map(record).collect()
    }

    /// What can change the artefact of a build: all but the places of the user's and of temporary files, with secrets as they
    /// are recorded, because a new token makes no other artefact.
    #[must_use]
    pub fn of_key(&self) -> BTreeMap<String, String> {
        let mut recorded = self.recorded();
        recorded.retain(|name, _| !["HOME", "TMPDIR"].contains(&name.as_str()));
        recorded
    }
}

/// What stands in records in place of a secret.
pub const SECRET: &str = "(not recorded)";

/// Parts of the names of variables that hold secrets, besides those of any name: what is called a key here opens something.
const SECRETS: [&str; 2] = ["KEY", "AUTH"];

/// A value as records show it.
#[must_use]
pub fn shown(name: &str, value: &str) -> String {
    let capitals = name.to_ascii_uppercase();
    if is_secret(name) || SECRETS.iter().any(|part| capitals.contains(part)) {
        return SECRET.into();
    }
    without_userinfo(value)
}

/// Takes names and passwords out of URLs (RFC 3986 §3.2.1), of which a value may hold several.
fn without_userinfo(value: &str) -> String {
    let mut shown = String::new();
    let mut rest = value;
    while let Some(at) = rest.find("://") {
        let (scheme, after) = rest.split_at(at + 3);
        shown.push_str(scheme);
        let end = after.find(['/', '?', '#', ',', '|', '"', '\'', ' ']).unwrap_or(after.len());
        let authority = &after[..end];
        let host = authority.rfind('@').map(|at| &authority[at..]);
        shown.push_str(&host.map_or_else(|| authority.into(), |host| format!("***{host}")));
        rest = &after[end..];
    }
    shown + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(variables: &[(&str, &str)]) -> Ours {
        Ours::of(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn only_what_is_named_is_passed_on() {
        let ours = ours(&[
            ("PATH", "/bin"),
            ("HOME", "/home/me"),
            ("LANG", "de_DE"),
            ("TMPDIR", "/elsewhere"),
            ("GOMAXPROCS", "1"),
            ("LD_PRELOAD", "/x.so"),
            ("RUSTFLAGS", "-Ctarget-cpu=native"),
            ("CARGO_BUILD_RUSTFLAGS", "-Ctarget-cpu=native"),
            ("CARGO_HOME", "/cargo"),
            ("npm_config_registry", "https://me:secret@npm.test/"),
            ("AWS_REGION", "x"),
        ]);
        let work = Path::new("/work");
        let named = |e: &Environment| e.recorded().into_keys().collect::<Vec<_>>().join(" ");
        let server = Environment::of_server(&ours, &[], work);
        assert_eq!(named(&server), "HOME LANG PATH TMPDIR");
        assert_eq!(server.recorded()["LANG"], "C.UTF-8");
        assert_eq!(server.recorded()["TMPDIR"], "/work");
        let tool = Environment::of_tool(&ours, &[], work);
        assert_eq!(named(&tool), "CARGO_HOME HOME LANG PATH TMPDIR npm_config_registry");
        let inherit = ["GOMAXPROCS", "AWS_*", "RUSTFLAGS"].map(|name| Inherit::parse(name).unwrap());
        assert_eq!(
            named(&Environment::of_server(&ours, &inherit, work)),
            "AWS_REGION GOMAXPROCS HOME LANG PATH RUSTFLAGS TMPDIR"
        );
        // Elsewhere, by somebody else, it is the same artefact.
        assert!(!tool.of_key().contains_key("HOME") && tool.of_key().contains_key("CARGO_HOME"));
        assert_eq!(named(&Environment::of_server(&Ours::default(), &[], work)), "HOME LANG PATH TMPDIR");
    }

    #[test]
    fn secrets_are_not_recorded() {
        for name in ["GITHUB_TOKEN", "npm_config__authToken", "AWS_SECRET_ACCESS_KEY", "pgpassword"] {
            assert_eq!(shown(name, "hunter2"), SECRET, "{name}");
        }
        for (value, wanted) in [
            ("https://me:pw@proxy.test:3128", "https://***@proxy.test:3128"),
            ("https://a:b@x/p@q,https://c@y|direct", "https://***@x/p@q,https://***@y|direct"),
            ("https://x/y@z", "https://x/y@z"),
            ("plain", "plain"),
            ("://", "://"),
        ] {
            assert_eq!(shown("GOPROXY", value), wanted);
        }
    }

    #[test]
    fn the_documentation_lists_them_all() {
        let docs = include_str!("../../../docs/subjects.md");
        let is_there = |name: &str| docs.contains(&format!("`{name}`"));
        // Proxies have their names in capitals too.
        let is_listed = |name: &str| is_there(name) || is_there(&name.to_ascii_lowercase());
        let missing: Vec<_> = TOOLCHAINS.iter().filter(|name| !is_listed(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn names_are_names() {
        for text in ["", "*", "A B", "A=B", "A*B", "Ä"] {
            assert!(Inherit::parse(text).unwrap_err().contains("JAVA_HOME"), "{text}");
        }
    }
}
