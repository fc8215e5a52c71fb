//! Builds the environment of the programs that dyno starts, so that all users of a suite measure
//! the same. A program inherits only the variables that are named in this file, by a subject or by
//! a suite.
//!
//! Also redacts secrets in records of these variables.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use dyno_config::secret::{
    NOT_RECORDED, holds_secret, is_possible_secret, is_secret, without_userinfo,
};
use serde::{Deserialize, Deserializer, de};
use sha2::{Digest as _, Sha256};

use crate::secret_values::SecretValues;

/// Variables of dyno's own environment that every program gets.
const ALWAYS: [&str; 2] = ["PATH", "HOME"];

/// PATH of programs if dyno itself has none.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Locale of programs. Messages, sorting and encodings must not depend on the user.
const LANGUAGE: &str = "C.UTF-8";

/// Additional variables of dyno's environment for builds and for queries of tools (`version`,
/// `requires`). They locate toolchains, their caches and their registries.
///
/// Variables that change the generated code (RUSTFLAGS, CFLAGS, GOFLAGS, GOAMD64,
/// JAVA_TOOL_OPTIONS, NODE_OPTIONS and the like) are excluded. `inherit` or `env` of `[build]` adds
/// them. A name that ends with `*` is a prefix. docs/reference/environment.md shows this list.
pub const TOOLCHAINS: [&str; 71] = [
    // Proxies and trusted certificates.
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
    // Rust. Not CARGO_BUILD_*, CARGO_PROFILE_*, CARGO_TARGET_*, which change the compilation.
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
    // Java. The options are for the build tool's own process.
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

/// Name of a variable of dyno's environment that is passed on. A name that ends with `*` stands for
/// all variables with that prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherit(String);

impl Inherit {
    /// Parses a name with or without a `*` at its end.
    ///
    /// # Errors
    /// The text is not a name. The error has a hint.
    pub fn parse(text: &str) -> Result<Inherit, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "{text:?} is not the name of an environment variable\nhint: write it like \
                 \"JAVA_HOME\", or \"AWS_*\" for all variables with that prefix"
            ));
        }
        Ok(Inherit(text.into()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Checks the name of a variable.
///
/// # Errors
/// A variable cannot have this name.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(format!(
            "{name:?}: the name of a variable must not be empty, and must not contain `=` or a NUL \
             character"
        ));
    }
    Ok(())
}

impl<'de> Deserialize<'de> for Inherit {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Inherit::parse(&String::deserialize(from)?).map_err(de::Error::custom)
    }
}

/// Whether a pattern with an optional `*` at its end matches a name.
fn matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

/// Environment variables of dyno itself, of which some are passed on.
#[derive(Clone, Debug, Default)]
pub struct DynoVariables(Vec<(String, OsString)>);

impl DynoVariables {
    /// Reads the variables of this process, except variables whose names are not UTF-8.
    #[must_use]
    pub fn read() -> DynoVariables {
        DynoVariables::new(std::env::vars_os())
    }

    pub fn new(variables: impl IntoIterator<Item = (OsString, OsString)>) -> DynoVariables {
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value));
        DynoVariables(variables.into_iter().filter_map(text).collect())
    }
}

/// The whole environment of one program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// Returns the environment of a server: the variables of `ALWAYS` and of `inherit`. Temporary
    /// files go into the folder `temporary`.
    #[must_use]
    pub fn for_server(
        own_variables: &DynoVariables,
        inherit: &[Inherit],
        temporary: &Path,
    ) -> Environment {
        let mut environment = Environment::default();
        environment.set("PATH", USUAL_PATH);
        environment.set("HOME", temporary);
        environment.inherit(own_variables, ALWAYS);
        environment.set("LANG", LANGUAGE);
        environment.set("TMPDIR", temporary);
        environment.inherit(own_variables, inherit.iter().map(Inherit::as_str));
        environment
    }

    /// Returns the environment of a build or of a query of a tool: the environment of a server, and
    /// [`TOOLCHAINS`].
    #[must_use]
    pub fn for_tool(
        own_variables: &DynoVariables,
        inherit: &[Inherit],
        temporary: &Path,
    ) -> Environment {
        let mut environment = Environment::for_server(own_variables, inherit, temporary);
        environment.inherit(own_variables, TOOLCHAINS);
        environment
    }

    /// Appends a value to a variable's value, after a space, or sets the variable.
    pub fn add(&mut self, name: &str, value: &str) {
        let mut values = self.0.get(name).cloned().unwrap_or_default();
        if !values.is_empty() {
            values.push(" ");
        }
        values.push(value);
        self.set(name, values);
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.0.insert(name.into(), value.as_ref().into());
    }

    fn inherit<'a>(
        &mut self,
        own_variables: &DynoVariables,
        patterns: impl IntoIterator<Item = &'a str>,
    ) {
        for pattern in patterns {
            let matching = own_variables.0.iter().filter(|(name, _)| matches(pattern, name));
            matching.for_each(|(name, value)| self.set(name, value));
        }
    }

    /// Replaces the environment of a command.
    pub fn apply(&self, command: &mut Command) {
        command.env_clear().envs(&self.0);
    }

    /// Variables as the archive records them, with secrets redacted.
    #[must_use]
    pub fn to_record(&self) -> BTreeMap<String, String> {
        let record = |(name, value): (&String, &OsString)| {
            (name.clone(), recorded_value(name, &value.to_string_lossy()))
        };
        self.0.iter().map(record).collect()
    }

    /// Returns the variables whose values are redacted in records, with these values.
    #[must_use]
    pub fn withheld_variables(&self) -> BTreeMap<String, OsString> {
        let is_withheld = |(name, value): &(&String, &OsString)| {
            let value = value.to_string_lossy();
            recorded_value(name, &value) != value
        };
        let withheld = self.0.iter().filter(is_withheld);
        withheld.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    pub fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns the secret values, which are erased from records of the program's output.
    #[must_use]
    pub fn secret_values(&self) -> SecretValues {
        SecretValues::from_variables(self.0.iter().map(|(name, value)| (&**name, &**value)))
    }

    /// Returns the variables for the key of a build, which identifies its artefact: all variables
    /// except `PLACES`. Secrets are redacted, because a new token does not change the artefact. A
    /// value that may be a secret is replaced by its hash, because the value may also affect the
    /// build: `GRADLE_OPTS`, for example, may contain a proxy's password among other options.
    #[must_use]
    pub fn key_variables(&self) -> BTreeMap<String, String> {
        let relevant = self.relevant_variables();
        relevant.map(|(name, value)| (name.into(), key_value(name, &value))).collect()
    }

    /// Variables that can change the artefact of a build.
    fn relevant_variables(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let variables = self.0.iter().map(|(name, value)| (name.as_str(), value.to_string_lossy()));
        variables.filter(|(name, _)| !PLACES.contains(name))
    }

    /// Whether a variable is the same on other machines that build the same program, and its value
    /// cannot be a secret. The variables of `ALWAYS` and [`TOOLCHAINS`] locate tools and caches.
    #[must_use]
    pub fn is_portable(&self, name: &str) -> bool {
        let mut places = ALWAYS.iter().chain(&TOOLCHAINS);
        let value = self.0.get(name).map(|value| value.to_string_lossy());
        value.is_some_and(|value| is_recorded(name, &value))
            && !places.any(|pattern| matches(pattern, name))
    }

    /// Whether the value of a variable that can change an artefact contains a word.
    #[must_use]
    pub fn mentions(&self, word: &str) -> bool {
        self.relevant_variables().any(|(_, value)| value.contains(word))
    }
}

/// Variables that name folders and sockets of the user, which do not change the artefact.
const PLACES: [&str; 3] = ["HOME", "TMPDIR", "SSH_AUTH_SOCK"];

/// Reason why a value is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Redaction {
    /// The variable's name marks a secret.
    Secret,
    /// The value may be a secret, or contain a secret among other things.
    Perhaps,
}

impl Redaction {
    fn from_variable(name: &str, value: &str) -> Option<Redaction> {
        if is_secret(name) {
            return Some(Redaction::Secret);
        }
        (is_possible_secret(name) || holds_secret(value)).then_some(Redaction::Perhaps)
    }
}

/// Returns the form of a value in records.
#[must_use]
pub fn recorded_value(name: &str, value: &str) -> String {
    match Redaction::from_variable(name, value) {
        Some(Redaction::Secret | Redaction::Perhaps) => NOT_RECORDED.into(),
        None => without_userinfo(value),
    }
}

/// Whether records keep a value, because it cannot be a secret.
#[must_use]
pub fn is_recorded(name: &str, value: &str) -> bool {
    Redaction::from_variable(name, value).is_none()
}

/// Returns the form of a value in the key of a build.
fn key_value(name: &str, value: &str) -> String {
    match Redaction::from_variable(name, value) {
        Some(Redaction::Perhaps) => {
            Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect()
        }
        Some(Redaction::Secret) => NOT_RECORDED.into(),
        None => without_userinfo(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own_variables(variables: &[(&str, &str)]) -> DynoVariables {
        DynoVariables::new(variables.iter().map(|(name, value)| (name.into(), value.into())))
    }

    #[test]
    fn only_named_variables_are_passed_on() {
        let own_variables = own_variables(&[
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
            ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.7"),
        ]);
        let work = Path::new("/work");
        let names = |e: &Environment| e.to_record().into_keys().collect::<Vec<_>>().join(" ");
        let server = Environment::for_server(&own_variables, &[], work);
        assert_eq!(names(&server), "HOME LANG PATH TMPDIR");
        assert_eq!(server.to_record()["LANG"], "C.UTF-8");
        assert_eq!(server.to_record()["TMPDIR"], "/work");
        let tool = Environment::for_tool(&own_variables, &[], work);
        assert_eq!(
            names(&tool),
            "CARGO_HOME HOME LANG PATH SSH_AUTH_SOCK TMPDIR npm_config_registry"
        );
        let inherit =
            ["GOMAXPROCS", "AWS_*", "RUSTFLAGS"].map(|name| Inherit::parse(name).unwrap());
        assert_eq!(
            names(&Environment::for_server(&own_variables, &inherit, work)),
            "AWS_REGION GOMAXPROCS HOME LANG PATH RUSTFLAGS TMPDIR"
        );
        let key_names: Vec<_> = tool.key_variables().into_keys().collect();
        assert_eq!(key_names, ["CARGO_HOME", "LANG", "PATH", "npm_config_registry"]);
        assert_eq!(
            names(&Environment::for_server(&DynoVariables::default(), &[], work)),
            "HOME LANG PATH TMPDIR"
        );
    }

    #[test]
    fn secrets_are_not_recorded() {
        for name in [
            "GITHUB_TOKEN",
            "npm_config__authToken",
            "AWS_SECRET_ACCESS_KEY",
            "pgpassword",
            "API_PASS",
            "PGPASS",
            "DB_PWD",
            "NUGET_CRED",
            "SESSION_COOKIE",
            "SENTRY_DSN",
            "BUNDLE_GEMS__CONTRIBSYS__COM",
        ] {
            assert_eq!(recorded_value(name, "hunter2"), NOT_RECORDED, "{name}");
        }
        for (name, value) in [
            ("GRADLE_OPTS", "-Dhttps.proxyUser=me -Dhttps.proxyPassword=x"),
            ("MAVEN_OPTS", "-Xmx1g -Djavax.net.ssl.trustStorePassword=x"),
            ("MAVEN_ARGS", "-Dgpg.pass=x"),
            ("PIP_INDEX_URL", "https://x.test/?token=abc"),
            ("http_proxy", "me:pw@proxy:3128"),
            ("http_proxy", "me:p/w@proxy:3128"),
            ("http_proxy", "http://me:p/w@proxy:3128"),
            ("http_proxy", "http://me:p w@proxy:3128"),
            ("NPM_CONFIG_X", "/bin/tool --password x"),
        ] {
            assert_eq!(recorded_value(name, value), NOT_RECORDED, "{name}={value}");
        }
    }

    #[test]
    fn withheld_variables_have_original_values() {
        let address = "https://me:pw@proxy.test:3128";
        let variables = own_variables(&[
            ("BYPASS_CACHE", "1"),
            ("PROXY", address),
            ("LEVEL", "2"),
            ("AUTH_NOT_INHERITED", "3"),
        ]);
        let inherit = ["BYPASS_CACHE", "PROXY", "LEVEL"].map(|name| Inherit::parse(name).unwrap());
        let environment = Environment::for_server(&variables, &inherit, Path::new("/work"));
        let expected = [("BYPASS_CACHE", "1"), ("PROXY", address)]
            .map(|(name, value)| (name.to_owned(), OsString::from(value)));
        assert_eq!(environment.withheld_variables(), BTreeMap::from(expected));
    }

    #[test]
    fn harmless_values_are_recorded() {
        for (value, expected) in [
            ("https://me:pw@proxy.test:3128", "https://***@proxy.test:3128"),
            ("https://a:b@x/p@q,https://c@y|direct", "https://***@x/p@q,https://***@y|direct"),
            ("https://x/y@z", "https://x/y@z"),
            ("git@x.test:a/b", "git@x.test:a/b"),
            ("-Xmx1g -Dfile.encoding=UTF-8", "-Xmx1g -Dfile.encoding=UTF-8"),
            (
                "/bin:/opt/node@18/bin:/home/secretary/bin",
                "/bin:/opt/node@18/bin:/home/secretary/bin",
            ),
            ("plain", "plain"),
            ("://", "://"),
        ] {
            assert_eq!(recorded_value("GOPROXY", value), expected);
        }
        assert_eq!(recorded_value("PWD", "/x"), "/x");
    }

    #[test]
    fn key_hashes_possible_secrets_and_omits_certain_ones() {
        let key = |name: &str, value: &str| {
            let mut environment = Environment::default();
            environment.set(name, value);
            environment.key_variables()[name].clone()
        };
        for (name, value, other) in [
            ("GRADLE_OPTS", "-Xmx1g -Dhttps.proxyPassword=x", "-Xmx2g -Dhttps.proxyPassword=x"),
            ("AUTHOR", "me", "you"),
            ("KEYSPACE", "a", "b"),
            ("BUNDLE_BUILD__NOKOGIRI", "--a", "--b"),
        ] {
            assert_ne!(key(name, value), key(name, other), "{name}");
            assert_ne!(key(name, value), value, "{name}");
        }
        assert_eq!(key("GITHUB_TOKEN", "a"), key("GITHUB_TOKEN", "b"));
        assert_eq!(key("http_proxy", "http://me:a@x"), key("http_proxy", "http://me:b@x"));
    }

    #[test]
    fn documentation_lists_all_toolchain_variables() {
        let docs = include_str!("../../../docs/reference/environment.md");
        let has_name = |name: &str| docs.contains(&format!("`{name}`"));
        // The names of proxies are listed only in small letters.
        let is_listed = |name: &str| has_name(name) || has_name(&name.to_ascii_lowercase());
        let missing: Vec<_> = TOOLCHAINS.iter().filter(|name| !is_listed(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn inherit_refuses_texts_that_are_not_names() {
        for text in ["", "*", "A B", "A=B", "A*B", "Ä"] {
            assert!(Inherit::parse(text).unwrap_err().contains("JAVA_HOME"), "{text}");
        }
    }
}
