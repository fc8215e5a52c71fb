//! The environment of programs that dyno starts. dyno builds it, so that two users of one suite
//! measure the same. Only variables that are named here, by a subject or by a suite are passed on.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use dyno_archive::secret::{holds_secret, is_perhaps_secret, is_secret, without_userinfo};
use serde::{Deserialize, Deserializer, de};
use sha2::{Digest as _, Sha256};

/// Variables of dyno's own environment that every program gets.
const ALWAYS: [&str; 2] = ["PATH", "HOME"];

/// Search path of programs if dyno itself has no PATH.
const USUAL_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The same language everywhere: messages, sorting and encodings must not depend on the user.
const LANGUAGE: &str = "C.UTF-8";

/// Additional variables of dyno's environment for builds and for queries of tools (`version`,
/// `requires`): places of toolchains, their caches and their registries. Variables that change the
/// generated code (RUSTFLAGS, CFLAGS, GOFLAGS, GOAMD64, JAVA_TOOL_OPTIONS, NODE_OPTIONS and the
/// like) are excluded: `inherit` or `env` of `[build]` adds them. A `*` at the end matches any
/// rest. docs/reference/environment.md shows this list.
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

/// A variable of dyno's own environment that is passed on. With a `*` at its end: all variables
/// with that prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inherit(String);

impl Inherit {
    /// # Errors
    /// The text is no name; with how to write it.
    pub fn parse(text: &str) -> Result<Inherit, String> {
        let name = text.strip_suffix('*').unwrap_or(text);
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!(
                "{text:?} is not the name of an environment variable\nhint: write it like \
                 \"JAVA_HOME\", or \"AWS_*\" for all with that prefix"
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
/// No variable can have this name; as a sentence.
pub fn check_name(name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(format!(
            "{name:?}: the name of a variable must not be empty or contain `=` or a NUL"
        ));
    }
    Ok(())
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
pub struct DynoVariables(Vec<(String, OsString)>);

impl DynoVariables {
    /// The variables that this process was started with, except those whose names are not UTF-8.
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
    /// The environment of a server: `ALWAYS`, and what `inherit` lets in. Temporary files go into
    /// `temporary`.
    #[must_use]
    pub fn for_server(ours: &DynoVariables, inherit: &[Inherit], temporary: &Path) -> Environment {
        let mut environment = Environment::default();
        environment.set("PATH", USUAL_PATH);
        environment.set("HOME", temporary);
        environment.let_in(ours, ALWAYS);
        environment.set("LANG", LANGUAGE);
        environment.set("TMPDIR", temporary);
        environment.let_in(ours, inherit.iter().map(Inherit::as_str));
        environment
    }

    /// The environment of a build or of a query of a tool: that of a server, and [`TOOLCHAINS`].
    #[must_use]
    pub fn for_tool(ours: &DynoVariables, inherit: &[Inherit], temporary: &Path) -> Environment {
        let mut environment = Environment::for_server(ours, inherit, temporary);
        environment.let_in(ours, TOOLCHAINS);
        environment
    }

    /// Sets a variable. If it has a value, appends this one after a blank.
    pub fn add(&mut self, name: &str, value: &str) {
        let mut all = self.0.get(name).cloned().unwrap_or_default();
        if !all.is_empty() {
            all.push(" ");
        }
        all.push(value);
        self.set(name, all);
    }

    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        self.0.insert(name.into(), value.as_ref().into());
    }

    fn let_in<'a>(&mut self, ours: &DynoVariables, patterns: impl IntoIterator<Item = &'a str>) {
        for pattern in patterns {
            let wanted = ours.0.iter().filter(|(name, _)| covers(pattern, name));
            wanted.for_each(|(name, value)| self.set(name, value));
        }
    }

    /// Replaces the environment of a command.
    pub fn apply(&self, command: &mut Command) {
        command.env_clear().envs(&self.0);
    }

    /// The variables as the archive keeps them: names, and values that are no secrets.
    #[must_use]
    pub fn to_record(&self) -> BTreeMap<String, String> {
        let record = |(name, value): (&String, &OsString)| {
            (name.clone(), recorded_value(name, &value.to_string_lossy()))
        };
        self.0.iter().map(record).collect()
    }

    /// A text of the program, such as its log, without the values of variables whose names say that
    /// they are secrets. Shorter values would match ordinary words.
    #[must_use]
    pub fn without_secrets(&self, text: String) -> String {
        const MIN_CHARS: usize = 6;
        let all = self.0.iter().map(|(name, value)| (name, value.to_string_lossy()));
        let secrets = all.filter(|(name, value)| {
            Hidden::from_variable(name, value) == Some(Hidden::Secret)
                && value.chars().count() >= MIN_CHARS
        });
        secrets.fold(text, |text, (_, value)| text.replace(&*value, SECRET))
    }

    /// The variables that can change the artefact of a build: all but `PLACES`. Secrets are
    /// redacted, because a new token does not change the artefact. A value that may be a secret is
    /// replaced by its hash: `GRADLE_OPTS` may hold a proxy's password, and always affects the
    /// build.
    #[must_use]
    pub fn key_variables(&self) -> BTreeMap<String, String> {
        self.what_counts().map(|(name, value)| (name.into(), in_key(name, &value))).collect()
    }

    fn what_counts(&self) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
        let all = self.0.iter().map(|(name, value)| (name.as_str(), value.to_string_lossy()));
        all.filter(|(name, _)| !PLACES.contains(name))
    }

    /// Whether a variable that can change an artefact contains a word.
    #[must_use]
    pub fn says(&self, word: &str) -> bool {
        self.what_counts().any(|(_, value)| value.contains(word))
    }
}

/// Places of the user, of temporary files, and of a login: they do not change the artefact.
const PLACES: [&str; 3] = ["HOME", "TMPDIR", "SSH_AUTH_SOCK"];

/// The text that replaces a secret in records.
pub const SECRET: &str = "(not recorded)";

/// Why a value is not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hidden {
    /// The variable's name says that it is a secret.
    Secret,
    /// The value may be a secret, or hold one among other things.
    Perhaps,
}

impl Hidden {
    fn from_variable(name: &str, value: &str) -> Option<Hidden> {
        if is_secret(name) {
            return Some(Hidden::Secret);
        }
        (is_perhaps_secret(name) || holds_secret(value)).then_some(Hidden::Perhaps)
    }
}

/// The form of a value in records.
#[must_use]
pub fn recorded_value(name: &str, value: &str) -> String {
    match Hidden::from_variable(name, value) {
        Some(Hidden::Secret | Hidden::Perhaps) => SECRET.into(),
        None => without_userinfo(value),
    }
}

/// The form of a value in the inputs of a build.
fn in_key(name: &str, value: &str) -> String {
    match Hidden::from_variable(name, value) {
        Some(Hidden::Perhaps) => {
            Sha256::digest(value).iter().map(|byte| format!("{byte:02x}")).collect()
        }
        Some(Hidden::Secret) => SECRET.into(),
        None => without_userinfo(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(variables: &[(&str, &str)]) -> DynoVariables {
        DynoVariables::new(variables.iter().map(|(name, value)| (name.into(), value.into())))
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
            ("SSH_AUTH_SOCK", "/tmp/ssh-x/agent.7"),
        ]);
        let work = Path::new("/work");
        let named = |e: &Environment| e.to_record().into_keys().collect::<Vec<_>>().join(" ");
        let server = Environment::for_server(&ours, &[], work);
        assert_eq!(named(&server), "HOME LANG PATH TMPDIR");
        assert_eq!(server.to_record()["LANG"], "C.UTF-8");
        assert_eq!(server.to_record()["TMPDIR"], "/work");
        let tool = Environment::for_tool(&ours, &[], work);
        assert_eq!(
            named(&tool),
            "CARGO_HOME HOME LANG PATH SSH_AUTH_SOCK TMPDIR npm_config_registry"
        );
        let inherit =
            ["GOMAXPROCS", "AWS_*", "RUSTFLAGS"].map(|name| Inherit::parse(name).unwrap());
        assert_eq!(
            named(&Environment::for_server(&ours, &inherit, work)),
            "AWS_REGION GOMAXPROCS HOME LANG PATH RUSTFLAGS TMPDIR"
        );
        let in_key: Vec<_> = tool.key_variables().into_keys().collect();
        assert_eq!(in_key, ["CARGO_HOME", "LANG", "PATH", "npm_config_registry"]);
        assert_eq!(
            named(&Environment::for_server(&DynoVariables::default(), &[], work)),
            "HOME LANG PATH TMPDIR"
        );
    }

    #[test]
    fn secrets_in_texts_are_erased() {
        let ours = ours(&[("MY_TOKEN", "Zq81hhTT"), ("PIN", "12"), ("NAME", "visible")]);
        let inherit = ["MY_TOKEN", "PIN", "NAME"].map(|name| Inherit::parse(name).unwrap());
        let environment = Environment::for_server(&ours, &inherit, Path::new("/tmp"));
        let log = environment.without_secrets("using Zq81hhTT, 12, visible".into());
        assert_eq!(log, format!("using {SECRET}, 12, visible"));
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
            assert_eq!(recorded_value(name, "hunter2"), SECRET, "{name}");
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
            assert_eq!(recorded_value(name, value), SECRET, "{name}={value}");
        }
    }

    #[test]
    fn what_is_no_secret_is_recorded() {
        for (value, wanted) in [
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
            assert_eq!(recorded_value("GOPROXY", value), wanted);
        }
        assert_eq!(recorded_value("PWD", "/x"), "/x");
    }

    #[test]
    fn what_may_be_a_secret_is_in_the_key_by_its_hash_and_what_is_one_is_not() {
        let key = |name: &str, value: &str| {
            let mut environment = Environment::default();
            environment.set(name, value);
            environment.key_variables()[name].clone()
        };
        for (name, one, other) in [
            ("GRADLE_OPTS", "-Xmx1g -Dhttps.proxyPassword=x", "-Xmx2g -Dhttps.proxyPassword=x"),
            ("AUTHOR", "me", "you"),
            ("KEYSPACE", "a", "b"),
            ("BUNDLE_BUILD__NOKOGIRI", "--a", "--b"),
        ] {
            assert_ne!(key(name, one), key(name, other), "{name}");
            assert_ne!(key(name, one), one, "{name}");
        }
        assert_eq!(key("GITHUB_TOKEN", "a"), key("GITHUB_TOKEN", "b"));
        assert_eq!(key("http_proxy", "http://me:a@x"), key("http_proxy", "http://me:b@x"));
    }

    #[test]
    fn documentation_lists_them_all() {
        let docs = include_str!("../../../docs/reference/environment.md");
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
