//! Keeps secrets out of reports: reports are shared, and a suite may send somebody's token with a request.
//!
//! A value is secret if the name of its header, query parameter or suite setting says so (of a setting also one that may be
//! secret by its name, as the archive's environment has it); so are passwords in URLs. The
//! command's `-H` and `--header` are searched too. Each secret is then erased everywhere else, whole and in parts: from
//! foreign text (logs) even if it is an ordinary word, from requests and dyno's own sentences only if it cannot be one.
//! The archive keeps all secrets: without them the run could not be repeated.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use dyno_analysis::experiment::{Effect, ExperimentResult};
use dyno_analysis::{Code, Report};
use dyno_archive::plan::{Body, Request};
use dyno_archive::secret::{
    end_of_authority, holds_secret, is_credential, is_secret, is_secret_parameter, may_be_secret,
    may_be_secret_header, with_parameters, without_escapes,
};
use serde_json::Value;

/// The text in place of a secret.
pub const MARK: &str = "(withheld)";

/// Shorter values are not erased elsewhere: they would match ordinary words.
const LEAST_CHARS: usize = 6;

/// Shorter values are not erased from requests and dyno's own sentences, whose words and codes must stay.
const LEAST_TELLING_CHARS: usize = 8;

/// Number of different values that were withheld.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld(pub usize);

/// A report that may be shown to others.
#[derive(Debug)]
pub struct Shared<'a> {
    pub report: Cow<'a, Report>,
    pub withheld: Withheld,
}

/// The report without secrets.
#[must_use]
pub fn for_sharing(report: &Report) -> Shared<'_> {
    let mut secrets = Secrets::default();
    let mut shared = report.clone();
    let run = &mut shared.run;
    for request in run.workloads.iter_mut().flat_map(|w| &mut w.requests) {
        request.headers.iter_mut().for_each(|(name, value)| secrets.header(name, value));
        for (name, value) in &mut request.expect.headers {
            value.iter_mut().for_each(|value| secrets.header(name, value));
        }
        request.path = secrets.without_password(&request.path);
        for body in request.body.iter_mut().chain(&mut request.expect.body) {
            if let Ok(text) = str::from_utf8(&body.0) {
                body.0 = secrets.fields(text).into_bytes();
            }
        }
        for (pointer, value) in &mut request.expect.json {
            secrets.json_fields(pointer, value);
        }
    }
    for config in shared.trials.iter_mut().map(|trial| &mut trial.load.config) {
        config.url = secrets.without_password(&config.url);
        config.requests_mixed.iter_mut().for_each(|r| r.path = secrets.without_password(&r.path));
    }
    for value in shared.subjects.iter_mut().flat_map(|s| s.conditions.request.values_mut()).flatten() {
        *value = secrets.without_password(value);
    }
    let run = &mut shared.run;
    run.command = secrets.command(&run.command);
    run.suite_source = secrets.source(&run.suite_source);
    if secrets.found == 0 {
        return Shared { report: Cow::Borrowed(report), withheld: Withheld(0) };
    }
    foreign_texts_of(&mut shared).for_each(|text| *text = secrets.erase_from_foreign(text));
    secrets.rename(&mut shared);
    let quoting = quoting_texts_of(&shared);
    own_texts_of(&mut shared).for_each(|text| *text = secrets.erase_from_own(text, &quoting));
    addresses_of(&mut shared).for_each(|text| *text = secrets.erase(text));
    for value in shared.subjects.iter_mut().flat_map(|s| s.conditions.request.values_mut()).flatten() {
        *value = secrets.erase(value);
    }
    let requests = shared.run.workloads.iter_mut().flat_map(|workload| &mut workload.requests);
    requests.for_each(|request| secrets.erase_from_request(request));
    counts_of(&mut shared).for_each(|counts| *counts = secrets.erase_from_keys(counts));
    Shared { report: Cow::Owned(shared), withheld: Withheld(secrets.found) }
}

/// All texts that a user, a server or a compiler wrote. Logs may hold secrets: servers log what they are sent.
fn foreign_texts_of(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let run = &mut report.run;
    let run = run.command.iter_mut().chain([&mut run.suite_source, &mut run.description]);
    let subjects = report.subjects.iter_mut().flat_map(|subject| {
        let checks = subject.checks.iter_mut();
        let checks =
            checks.flat_map(|c| [&mut c.detail].into_iter().chain(&mut c.asked).chain(&mut c.expected));
        let failures = subject.failures.iter_mut();
        let failures = failures.flat_map(|f| [&mut f.failure.message].into_iter().chain(&mut f.log_tail));
        checks.chain(failures).chain(&mut subject.skipped).chain([&mut subject.description])
    });
    let searches = report.searches.iter_mut().flat_map(|search| &mut search.result.ended);
    run.chain(subjects).chain(searches)
}

/// All texts that dyno wrote. They quote parts of foreign texts.
fn own_texts_of(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let trials = report.trials.iter_mut().flat_map(|trial| {
        let caveats = trial.caveats.iter_mut().chain(&mut trial.load.caveats);
        caveats.map(|caveat| &mut caveat.message).chain([&mut trial.limiter.sentence])
    });
    let caveats = report.caveats.iter_mut().map(|caveat| &mut caveat.message);
    // Summaries repeat the texts of their trials.
    let steps = report.summaries.iter_mut().flat_map(|step| {
        let caveats = step.caveats.iter_mut().map(|caveat| &mut caveat.message);
        caveats.chain([&mut step.limiter_sentence])
    });
    let rows = report.overview.iter_mut().flat_map(|row| {
        let caveats = row.caveats.iter_mut().map(|caveat| &mut caveat.message);
        caveats.chain(&mut row.limiter_sentence).chain(&mut row.absent).chain([&mut row.title])
    });
    let titles = report.subjects.iter_mut().map(|subject| &mut subject.title);
    let rates = report.brackets.iter_mut().flat_map(|bracket| &mut bracket.rates);
    let loads = report.searches.iter_mut().flat_map(|search| &mut search.result.trials);
    let missed = rates.flat_map(|rate| &mut rate.missed).chain(loads.flat_map(|load| &mut load.missed));
    let others = report.twins.iter_mut().chain(&mut report.duets);
    let effects = effects_of(&mut report.experiment).chain(others).flat_map(|effect| {
        let rows = effect.rows.iter_mut().map(|row| &mut row.sentence);
        rows.chain(effect.answers.iter_mut().map(|answer| &mut answer.sentence)).chain(&mut effect.because)
    });
    let cells = report.tables.iter_mut().flat_map(|table| &mut table.rows).flatten();
    let cells = cells.filter_map(|cell| if let Value::String(text) = cell { Some(text) } else { None });
    trials.chain(caveats).chain(steps).chain(rows).chain(titles).chain(missed).chain(effects).chain(cells)
}

/// What experiments come to.
fn effects_of(experiment: &mut Option<ExperimentResult>) -> impl Iterator<Item = &mut Effect> {
    experiment.iter_mut().flat_map(|experiment| &mut experiment.effects)
}

/// Texts by dyno that end with a foreign text, after the first colon. Verdicts, summaries and tables repeat them.
fn quoting_texts_of(report: &Report) -> BTreeSet<String> {
    const QUOTING: [Code; 2] = [Code::ChecksFailed, Code::SubjectFailed];
    let caveats = report.trials.iter().flat_map(|trial| trial.caveats.iter().chain(&trial.load.caveats));
    let caveats = caveats.filter(|caveat| QUOTING.contains(&caveat.code)).map(|caveat| &caveat.message);
    caveats.chain(report.overview.iter().filter_map(|row| row.absent.as_ref())).cloned().collect()
}

/// All names of workloads and requests: a name may be made from a URL.
fn names_of(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let plan = report.run.workloads.iter_mut().flat_map(|workload| {
        let requests = workload.requests.iter_mut().map(|request| &mut request.name);
        requests.chain([&mut workload.name])
    });
    let trials = report.trials.iter_mut().flat_map(|trial| {
        let mixed = trial.load.config.requests_mixed.iter_mut().map(|mixed| &mut mixed.name);
        let results = trial.load.requests.iter_mut().map(|result| &mut result.name);
        mixed.chain(results).chain([&mut trial.workload])
    });
    let steps = report.summaries.iter_mut().map(|step| &mut step.workload);
    let rows = report.overview.iter_mut().map(|row| &mut row.workload);
    let comparisons = report.comparisons.iter_mut().map(|comparison| &mut comparison.workload);
    let protocols = report.protocols.iter_mut().flat_map(|p| [&mut p.workload, &mut p.baseline]);
    let experiment = report.experiment.iter_mut().flat_map(|experiment| {
        let doses = experiment.doses.iter_mut().map(|dose| &mut dose.workload);
        experiment.effects.iter_mut().flat_map(names_of_effect).chain(doses)
    });
    let twins = report.twins.iter_mut().chain(&mut report.duets).flat_map(names_of_effect);
    let brackets = report.brackets.iter_mut().map(|bracket| &mut bracket.workload);
    let searches = report.searches.iter_mut().map(|search| &mut search.workload);
    plan.chain(trials)
        .chain(brackets)
        .chain(searches)
        .chain(steps)
        .chain(rows)
        .chain(comparisons)
        .chain(protocols)
        .chain(experiment)
        .chain(twins)
}

fn names_of_effect(effect: &mut Effect) -> impl Iterator<Item = &mut String> {
    let rows = effect.rows.iter_mut().map(|row| &mut row.workload);
    rows.chain(effect.answers.iter_mut().map(|answer| &mut answer.workload))
}

/// The URLs and paths of all trials: a token may be in one under a name that does not say so.
fn addresses_of(report: &mut Report) -> impl Iterator<Item = &mut String> {
    let configs = report.trials.iter_mut().map(|trial| &mut trial.load.config);
    configs.flat_map(|config| {
        config.requests_mixed.iter_mut().map(|mixed| &mut mixed.path).chain([&mut config.url])
    })
}

/// Counts whose keys quote an expected or a received text.
fn counts_of(report: &mut Report) -> impl Iterator<Item = &mut BTreeMap<String, u64>> {
    let loads = report.trials.iter_mut().map(|trial| &mut trial.load);
    loads.flat_map(|l| [&mut l.unexpected, &mut l.protocol_errors, &mut l.connection_failures])
}

/// A report's note on withheld values; `None`: there are none.
#[must_use]
pub fn said(withheld: Withheld) -> Option<String> {
    let what = match withheld {
        Withheld(0) => return None,
        Withheld(1) => "One value that looks like a secret is".to_string(),
        Withheld(n) => format!("{n} values that look like secrets are"),
    };
    Some(format!(
        "{what} left out of this report, and {MARK} stands in place of each: put yours there to run it again. The run's own folder (run.json) holds them."
    ))
}

/// What an option's value holds.
#[derive(Clone, Copy)]
enum Holds {
    /// `Name: value`.
    Header,
    /// `user:password`.
    User,
    /// Nothing but a secret.
    Secret,
}

/// An option whose value may be a secret.
struct SecretOption {
    /// Its letter; the value may follow in the same word.
    short: Option<char>,
    long: &'static str,
    holds: Holds,
}

const fn option(short: Option<char>, long: &'static str, holds: Holds) -> SecretOption {
    SecretOption { short, long, holds }
}

const OPTIONS: [SecretOption; 1] = [option(Some('H'), "--header", Holds::Header)];

const OPTIONS_OF_CURL: [SecretOption; 6] = [
    option(Some('H'), "--header", Holds::Header),
    option(Some('u'), "--user", Holds::User),
    option(Some('U'), "--proxy-user", Holds::User),
    option(Some('b'), "--cookie", Holds::Secret),
    option(None, "--oauth2-bearer", Holds::Secret),
    option(None, "--proxy-header", Holds::Header),
];

/// Letters of curl's options without a value: they may precede another option's letter in a word, as in `-sSu`.
const SWITCHES: &str = "0123456#aBfgGiIjJkLlMnNOpqRsSvZ";

impl SecretOption {
    /// The flag and the value of a word that holds both; `None`: it does not.
    fn split<'a>(&self, word: &'a str) -> Option<(&'a str, &'a str, Holds)> {
        let joined = word.strip_prefix(self.long).and_then(|rest| rest.strip_prefix('='));
        let value = joined.or_else(|| self.after_letter(word)).filter(|value| !value.is_empty())?;
        Some((&word[..word.len() - value.len()], value, self.holds))
    }

    /// The rest of a word after the option's letter; `None`: the word does not have the letter.
    fn after_letter<'a>(&self, word: &'a str) -> Option<&'a str> {
        let letters = word.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        letters.trim_start_matches(|letter| SWITCHES.contains(letter)).strip_prefix(self.short?)
    }

    /// Whether the option's value is the word after this one.
    fn takes_next(&self, word: &str) -> bool {
        word == self.long || self.after_letter(word) == Some("")
    }
}

#[derive(Default)]
struct Secrets {
    found: usize,
    values: Vec<String>,
    /// Parts of values, which servers may log alone: of `Bearer TOKEN` and `name=value; …`.
    parts: Vec<String>,
    /// Values that may be secrets by their names.
    perhaps: BTreeSet<String>,
}

impl Secrets {
    fn header(&mut self, name: &str, value: &mut String) {
        *value = self.withheld_by(is_secret(name) || is_credential(value), may_be_secret_header(name), value);
    }

    /// A value that is a secret, or may be one: such a one is withheld where it stands, and is no reason to erase what may be a word elsewhere.
    fn withheld_by(&mut self, is: bool, may_be: bool, value: &str) -> String {
        match (is, may_be) {
            (true, _) => self.withhold(value),
            (false, true) if !value.is_empty() && value != MARK => {
                self.found += usize::from(self.perhaps.insert(value.into()));
                MARK.into()
            }
            _ => value.into(),
        }
    }

    fn withhold(&mut self, value: &str) -> String {
        if value.is_empty() || value == MARK {
            return value.into();
        }
        if !self.values.iter().any(|v| v == value) {
            self.values.push(value.into());
            self.found += 1;
        }
        // The word of credentials is a secret however it looks: that of `Basic` may have no digit.
        let word = value.trim().split_once(' ').filter(|_| is_credential(value)).map(|(_, word)| word.trim());
        let is_part = |part: &&str| is_telling(part) || word == Some(*part);
        let parts = value.split([' ', ';', ',', '=', '"']).filter(is_part);
        self.parts.extend(parts.map(String::from));
        MARK.into()
    }

    /// A command without secrets. A word that is itself a command, as `--curl` takes it, is searched word by word.
    fn command(&mut self, words: &[String]) -> Vec<String> {
        let shown = self.words(words, &OPTIONS);
        shown.iter().map(|word| self.words_within(word)).collect()
    }

    fn words(&mut self, words: &[String], options: &[SecretOption]) -> Vec<String> {
        let mut shown = Vec::with_capacity(words.len());
        let mut wanted: Option<Holds> = None;
        for word in words {
            let word = if let Some(holds) = wanted.take() {
                self.value_of(holds, word)
            } else {
                wanted = options.iter().find(|option| option.takes_next(word)).map(|option| option.holds);
                match options.iter().find_map(|option| option.split(word)) {
                    Some((flag, value, holds)) => format!("{flag}{}", self.value_of(holds, value)),
                    None => word.clone(),
                }
            };
            let word = self.without_password(&word);
            shown.push(self.fields(&word));
        }
        shown
    }

    /// An option's value without its secret.
    fn value_of(&mut self, holds: Holds, value: &str) -> String {
        match (holds, value.split_once(':')) {
            (Holds::Header, _) => self.header_line(value),
            (Holds::User, Some((user, password))) => format!("{user}:{}", self.withhold(password)),
            (Holds::User, None) => value.into(),
            (Holds::Secret, _) => self.withhold(value),
        }
    }

    /// `Name: value`, as `-H` takes it, without a secret value.
    fn header_line(&mut self, line: &str) -> String {
        match line.split_once(':') {
            Some((name, value)) if is_credential(value) || may_be_secret_header(name) => {
                let is = is_secret(&without_escapes(name)) || is_credential(value);
                format!("{name}: {}", self.withheld_by(is, true, value.trim()))
            }
            _ => line.into(),
        }
    }

    fn words_within(&mut self, word: &str) -> String {
        let Some(words) = word.contains(' ').then(|| shlex::split(word)).flatten() else {
            return word.into();
        };
        let inner = self.words(&words, &OPTIONS_OF_CURL);
        if inner == words { word.into() } else { crate::shell::command(&inner) }
    }

    /// A URL such as `https://user:password@host/?token=…` without the password and the values of secret parameters.
    fn without_password(&mut self, url: &str) -> String {
        let url = self.without_user(url);
        with_parameters(&url, |pair| self.pair(pair))
    }

    /// `name=value` of a query or a form, without a secret value.
    fn pair(&mut self, pair: &str) -> String {
        match pair.split_once('=') {
            Some((name, value)) if is_credential(value) || is_secret_parameter(name) => {
                let is = is_secret(name) || is_credential(value);
                format!("{name}={}", self.withheld_by(is, true, value))
            }
            _ => pair.into(),
        }
    }

    /// A body without the values of fields that hold secrets: a form
    /// (`application/x-www-form-urlencoded`), or JSON. Other texts are as they were.
    fn fields(&mut self, text: &str) -> String {
        if is_form(text) {
            let pairs: Vec<String> = text.split('&').map(|pair| self.pair(pair)).collect();
            return pairs.join("&");
        }
        let is_json = text.trim_start().starts_with(['{', '[']);
        let Some(json) = is_json.then(|| serde_json::from_str::<Value>(text).ok()).flatten() else {
            return text.into();
        };
        let mut hidden = json.clone();
        self.json_fields("", &mut hidden);
        if hidden == json { text.into() } else { hidden.to_string() }
    }

    /// Withholds texts and numbers of fields whose names say that they are secrets. `name`: that of
    /// the value.
    fn json_fields(&mut self, name: &str, value: &mut Value) {
        match value {
            Value::Object(all) => all.iter_mut().for_each(|(name, value)| self.json_fields(name, value)),
            Value::Array(all) => all.iter_mut().for_each(|value| self.json_fields(name, value)),
            Value::String(text) if is_secret(name) || is_credential(text) => *text = self.withhold(text),
            Value::Number(number) if is_secret(name) => *value = self.withhold(&number.to_string()).into(),
            Value::String(_) | Value::Number(_) | Value::Null | Value::Bool(_) => {}
        }
    }

    /// A text with URLs without their passwords, and without a user that has none: that is a token, as often as not.
    fn without_user(&mut self, text: &str) -> String {
        let mut shown = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("://") {
            let (authority, later) = after.split_at(end_of_authority(after));
            let authority = match authority.rsplit_once('@') {
                Some((user, host)) => match user.split_once(':') {
                    Some((user, password)) => format!("{user}:{}@{host}", self.withhold(password)),
                    // A mere name is not to be erased everywhere.
                    None if is_telling(user) => format!("{}@{host}", self.withhold(user)),
                    None => authority.into(),
                },
                None => authority.into(),
            };
            shown.extend([before, "://", &authority]);
            rest = later;
        }
        shown + rest
    }

    /// TOML without the string values of secret names. It is searched as text, because a parser might not accept it.
    fn source(&mut self, source: &str) -> String {
        let settings = secret_settings(source);
        let mut shown = String::with_capacity(source.len());
        let mut rest = source;
        // The string before: it names the next one if only a `=` is between them.
        let mut before = "";
        // What names all strings of a list, while it goes on.
        let mut of_list: Option<&str> = None;
        while let Some(at) = rest.find(['"', '\'']) {
            let quote = quote_of(&rest[at..]);
            let (outside, inside) = (&rest[..at], &rest[at + quote.len()..]);
            let (value, after) = inside.split_at(end_of_string(inside, quote));
            let begins = outside.trim_end().strip_suffix('[').map(str::trim_end);
            let named = begins.unwrap_or(outside.trim_end()).strip_suffix('=').map(|key| match key.trim() {
                "" => before,
                key => key.rsplit([' ', '{', ',', '[', '\t', '\n']).next().unwrap_or_default(),
            });
            of_list = match begins {
                Some(_) => named,
                None => of_list.filter(|_| !is_ended(outside)),
            };
            let name = named.or(of_list).unwrap_or_default();
            let is_setting = || settings.contains(&meant(quote, value));
            let value_shown = match may_be_secret(name) || !settings.is_empty() && is_setting() {
                true => self.withhold(value),
                false => {
                    let value = self.without_password(value);
                    self.fields(&value)
                }
            };
            let closing = if after.starts_with(quote) { quote } else { "" };
            shown.extend([outside, quote, &value_shown, closing]);
            rest = &after[closing.len()..];
            before = value;
        }
        shown + rest
    }

    /// The text with a mark for each secret that cannot be an ordinary word: for requests and dyno's own texts.
    fn erase(&self, text: &str) -> String {
        self.erase_all(text, is_telling)
    }

    /// The text with a mark for each secret, even if it is an ordinary word: for foreign texts.
    fn erase_from_foreign(&self, text: &str) -> String {
        self.erase_all(text, |value| value.chars().count() >= LEAST_CHARS)
    }

    /// Erases secrets from all names, in fields and in dyno's texts. No two names become one, because rows are found by
    /// name.
    fn rename(&self, report: &mut Report) {
        let renamed = self.renamed(names_of(report).map(|name| name.clone()).collect());
        for name in names_of(report) {
            if let Some((_, shown)) = renamed.iter().find(|(old, _)| old == name) {
                name.clone_from(shown);
            }
        }
        for (old, shown) in &renamed {
            own_texts_of(report).for_each(|text| *text = text.replace(old, shown));
        }
    }

    /// Names that hold a secret, each with the name shown instead. The longest come first, because a name may begin
    /// with another.
    fn renamed(&self, names: BTreeSet<String>) -> Vec<(String, String)> {
        let (kept, holding): (BTreeSet<_>, BTreeSet<_>) =
            names.into_iter().partition(|name| self.erase_from_name(name) == *name);
        let mut taken = kept;
        let mut renamed: Vec<_> = holding
            .into_iter()
            .map(|old| {
                let shown = free_name(self.erase_from_name(&old), &taken);
                taken.insert(shown.clone());
                (old, shown)
            })
            .collect();
        renamed.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        renamed
    }

    /// A name without secrets. It may end with the query of a URL, whose secrets are counted already: hence the fresh
    /// `Secrets`.
    fn erase_from_name(&self, name: &str) -> String {
        self.erase(&Secrets::default().without_password(name))
    }

    fn erase_from_request(&self, request: &mut Request) {
        let expect = &mut request.expect;
        let headers = request.headers.iter_mut().map(|(_, value)| value);
        let expected = expect.headers.iter_mut().filter_map(|(_, value)| value.as_mut());
        let pointers = expect.json.iter_mut().map(|(pointer, _)| pointer);
        let texts = headers.chain(expected).chain(pointers).chain(&mut expect.body_contains);
        texts.chain([&mut request.path]).for_each(|text| *text = self.erase(text));
        expect.json.iter_mut().for_each(|(_, value)| self.erase_from_json(value));
        request.body.iter_mut().chain(&mut expect.body).for_each(|body| self.erase_from_body(body));
    }

    /// Erases secrets from a body if it is UTF-8 text.
    fn erase_from_body(&self, body: &mut Body) {
        if let Ok(text) = str::from_utf8(&body.0) {
            body.0 = self.erase(text).into_bytes();
        }
    }

    fn erase_from_json(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.erase(text),
            Value::Array(all) => all.iter_mut().for_each(|value| self.erase_from_json(value)),
            Value::Object(all) => {
                all.values_mut().for_each(|value| self.erase_from_json(value));
                *all = std::mem::take(all).into_iter().map(|(key, v)| (self.erase(&key), v)).collect();
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Counts by text, without secrets. Counts whose texts become equal are added.
    fn erase_from_keys(&self, counts: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let mut shown = BTreeMap::new();
        for (text, count) in counts {
            let sum: &mut u64 = shown.entry(self.erase_from_foreign(text)).or_default();
            *sum = sum.saturating_add(*count);
        }
        shown
    }

    /// A text of dyno without secrets. If it begins with a text of `quoting`, that part is foreign after its first colon.
    fn erase_from_own(&self, text: &str, quoting: &BTreeSet<String>) -> String {
        // In reverse order the longest of texts that begin alike comes first.
        let quotation = quoting.iter().rev().find(|quotation| text.starts_with(quotation.as_str()));
        let Some((own, foreign)) = quotation.and_then(|quotation| quotation.split_once(": ")) else {
            return self.erase(text);
        };
        let after = &text[own.len() + 2 + foreign.len()..];
        self.erase(&format!("{own}: {}{after}", self.erase_from_foreign(foreign)))
    }

    fn erase_all(&self, text: &str, is_sought: impl Fn(&str) -> bool) -> String {
        let all = self.values.iter().chain(&self.parts).map(String::as_str);
        let mut sought: Vec<&str> = all.filter(|value| is_sought(value)).collect();
        sought.sort_by_key(|value| std::cmp::Reverse(value.len()));
        sought.into_iter().fold(text.to_string(), |text, value| without_word(&text, value))
    }
}

/// Whether a list ends in the text after one of its strings. Comments, which go to the end of their lines, end none.
fn is_ended(after: &str) -> bool {
    after.lines().any(|line| line.split('#').next().is_some_and(|code| code.contains(']')))
}

/// The name if it is free, else the first free one of `NAME 2`, `NAME 3`, ….
fn free_name(name: String, taken: &BTreeSet<String>) -> String {
    let numbered = (2_u64..).map(|n| format!("{name} {n}"));
    [name.clone()].into_iter().chain(numbered).find(|n| !taken.contains(n)).unwrap_or(name)
}

/// Whether a text is a form of names and values, without the parts of a URL or of a sentence.
fn is_form(text: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "_.-+%[]/".contains(c);
    let is_pair = |pair: &str| {
        pair.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
    };
    !text.contains(['\n', ' ']) && text.split('&').all(is_pair)
}

/// Whether a value is unlikely to be an ordinary word: long, with letters and digits.
fn is_telling(value: &str) -> bool {
    let has = |is: fn(&char) -> bool| value.chars().any(|c| is(&c));
    value.chars().count() >= LEAST_TELLING_CHARS && has(char::is_ascii_digit) && has(|c| c.is_alphabetic())
}

/// The text with [`MARK`] in place of a value. A value that may be an ordinary word is kept within a longer word. Any
/// other is replaced there too, because the colour code or escape before it may end with a letter or digit.
fn without_word(text: &str, value: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    let is_telling = is_telling(value);
    let is_within = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    while let Some(at) = rest.find(value) {
        let (before, after) = (&rest[..at], &rest[at + value.len()..]);
        let last = before.chars().next_back().or_else(|| shown.chars().next_back());
        let is_part = !is_telling && (is_within(last) || is_within(after.chars().next()));
        shown.extend([before, if is_part { value } else { MARK }]);
        rest = after;
    }
    shown + rest
}

/// Values of a suite whose names do not say that they hold secrets: credentials of any name, and
/// what its environments hold.
fn secret_settings(source: &str) -> BTreeSet<String> {
    fn texts(value: &toml::Value, found: &mut BTreeSet<String>) {
        match value {
            toml::Value::String(text) => drop(holds_secret(text).then(|| found.insert(text.clone()))),
            toml::Value::Array(all) => all.iter().for_each(|one| texts(one, found)),
            toml::Value::Table(all) => all.values().for_each(|one| texts(one, found)),
            _ => {}
        }
    }
    fn walk(table: &toml::Table, found: &mut BTreeSet<String>) {
        for (key, value) in table {
            match value {
                // `env = { … }`, and `"env.NAME" = […]` of what an experiment varies.
                value if key == "env" || key.starts_with("env.") => texts(value, found),
                toml::Value::Table(inner) => walk(inner, found),
                toml::Value::Array(all) => {
                    all.iter().filter_map(toml::Value::as_table).for_each(|inner| walk(inner, found));
                }
                toml::Value::String(text) if is_credential(text) => drop(found.insert(text.clone())),
                _ => {}
            }
        }
    }
    let mut found = BTreeSet::new();
    if let Ok(table) = source.parse::<toml::Table>() {
        walk(&table, &mut found);
    }
    found
}

/// What a string of a suite means, without what escapes it.
fn meant(quote: &str, written: &str) -> String {
    let parsed = format!("x = {quote}{written}{quote}").parse::<toml::Table>().ok();
    let text = parsed.and_then(|table| Some(table.get("x")?.as_str()?.to_string()));
    text.unwrap_or_else(|| written.into())
}

/// The quotes that a TOML string begins with: one, or three if it may span lines.
fn quote_of(text: &str) -> &str {
    let three = ["\"\"\"", "'''"].iter().any(|quotes| text.starts_with(quotes));
    &text[..if three { 3 } else { 1 }]
}

/// The byte offset at which a TOML string ends. An unclosed one ends with its line, or with the text if it may span lines.
fn end_of_string(inside: &str, quote: &str) -> usize {
    let mut escaped = false;
    for (i, c) in inside.char_indices() {
        match c {
            '\\' if quote.starts_with('"') && !escaped => escaped = true,
            _ if inside[i..].starts_with(quote) && !escaped => return i,
            '\n' if quote.len() == 1 => return i,
            _ => escaped = false,
        }
    }
    inside.len()
}

#[cfg(test)]
mod tests;
