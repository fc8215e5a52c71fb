//! The tools that an imported build may use: those that work in the folder where they are run.

use super::words::{Simple, Variables, is_name};

/// Programs whose arguments are files.
pub(super) fn is_file_tool(program: &str) -> bool {
    const TOOLS: [&str; 11] = ["cat", "cd", "chmod", "cp", "echo", "ln", "ls", "mkdir", "mv", "rm", "touch"];
    TOOLS.contains(&program)
}

/// Whether a tool may be run with these arguments, as far as these are no paths.
pub(super) fn is_allowed(program: &str, arguments: &[String], is_python: bool) -> bool {
    let first = arguments.iter().map(String::as_str).find(|word| !word.starts_with(['-', '+']));
    let does = |known: &[&str]| first.is_some_and(|first| known.contains(&first));
    let has = |is_it: &dyn Fn(&str) -> bool| arguments.iter().any(|word| is_it(word));
    let is_here = !has(&is_for_all);
    match program {
        "true" | "rustc" | "gcc" | "g++" | "cc" | "c++" | "clang" | "clang++" | "javac" | "jar" | "sbt" => {
            true
        }
        "mvn" | "./mvnw" | "gradle" | "./gradlew" => true,
        "make" | "ninja" => !has(&|word| word.contains("install")),
        "cmake" => !has(&|word| word.contains("install") || word.starts_with("-E") || word.starts_with("-P")),
        "go" => does(&["build", "generate", "get", "list", "mod", "test", "version", "vet"]),
        "cargo" => does(&[
            "add",
            "build",
            "check",
            "clean",
            "fetch",
            "generate-lockfile",
            "init",
            "metadata",
            "new",
            "run",
            "rustc",
            "test",
            "update",
            "vendor",
        ]),
        "npm" => is_here && does(&["ci", "i", "install", "prune", "rebuild", "run", "run-script"]),
        "npx" => is_here && first.is_some(),
        "yarn" => is_here && (first.is_none() || does(&["add", "build", "install", "run"])),
        "pnpm" => is_here && does(&["build", "i", "install", "rebuild", "run"]),
        "bun" => is_here && does(&["build", "ci", "i", "install", "run"]),
        "deno" => is_here && does(&["bundle", "cache", "check", "compile", "install", "task"]),
        "node" => arguments.first().is_some_and(|word| !word.starts_with('-')),
        "pip" | "pip3" => is_python && is_here && does(&["install"]),
        "python" | "python3" => {
            let begin: Vec<&str> = arguments.iter().take(3).map(String::as_str).collect();
            is_python && is_here && begin == ["-m", "pip", "install"]
        }
        "poetry" => is_python && is_here && does(&["build", "export", "install", "lock"]),
        "uv" => is_python && is_here && does(&["lock", "pip", "sync"]),
        "dotnet" => is_here && does(&["build", "publish", "restore"]),
        "mix" => does(&["assets.deploy", "compile", "deps.compile", "deps.get", "phx.digest", "release"]),
        "composer" => does(&["dump-autoload", "dumpautoload", "install", "require", "update"]),
        // Without these its packages are those of the whole machine.
        "bundle" => does(&["install"]) && has(&|word| word.starts_with("--path") || word == "--deployment"),
        "zig" => does(&["build", "build-exe", "build-lib", "build-obj", "cc"]),
        "nim" => does(&["c", "compile", "cpp", "js"]),
        "crystal" | "dune" => does(&["build"]),
        "shards" => does(&["build", "install"]),
        "sed" => is_sed(arguments),
        "tar" => is_tar(arguments),
        program => is_file_tool(program) || is_own_script(program),
    }
}

/// Whether a program is a file of the server's own, in the folder where it is run or below. It is trusted like its Makefile.
pub(super) fn is_own_script(program: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
    program.strip_prefix("./").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_alphanumeric())
            && !rest.contains("..")
            && rest.chars().all(is_plain)
    })
}

/// Whether an option has a package manager change what is not in the folder.
fn is_for_all(word: &str) -> bool {
    const BEGINS: [&str; 4] = ["--g", "--loc", "--sys", "--us"];
    let is_short = word.starts_with('-') && !word.starts_with("--") && word.contains('g');
    word == "global" || is_short || BEGINS.iter().any(|begin| word.starts_with(begin))
}

/// Files are edited in their places, by one script.
fn is_sed(arguments: &[String]) -> bool {
    let (options, others): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|word| word.starts_with('-'));
    let is_known = |word: &&String| ["-i", "-i.bak", "-E", "-r"].contains(&word.as_str());
    let in_place = options.iter().any(|word| word.starts_with("-i"));
    let is_edit = others.first().is_some_and(|script| is_script_of_sed(script));
    let has_one = others.iter().filter(|word| is_script_of_sed(word)).count() == 1;
    options.iter().all(is_known) && in_place && is_edit && has_one
}

/// Whether a text replaces words, and does nothing else: scripts can write files and run commands.
pub(super) fn is_script_of_sed(text: &str) -> bool {
    let mut chars = text.chars();
    let Some(sign) = chars.next().filter(|c| *c == 's').and_then(|_| chars.next()) else { return false };
    let parts: Vec<&str> = chars.as_str().split(sign).collect();
    let is_sign = "/|#,:@!%~".contains(sign) && !text.contains(['\n', '\r']);
    is_sign
        && parts.len() == 3
        && !parts[0].ends_with('\\')
        && parts[2].chars().all(|c| "gI0123456789".contains(c))
}

/// Whether nothing is asked of it but to pack or unpack.
fn is_tar(arguments: &[String]) -> bool {
    let flags = |text: &str| text.chars().all(|c| "xcztjJvfC".contains(c));
    let is_known = |word: &String| match word.strip_prefix('-') {
        Some(rest) => flags(rest) || rest.starts_with("-strip-components="),
        None => true,
    };
    let begin = arguments.first().is_some_and(|word| flags(word.trim_start_matches('-')));
    begin && arguments.iter().all(is_known)
}

/// Whether a command is about the image alone, and nothing is lost without it: its packages are this machine's.
pub(super) fn is_of_images(simple: &Simple, variables: &Variables) -> bool {
    const MANAGERS: [&str; 6] = ["apt", "apt-get", "aptitude", "apk", "dnf", "yum"];
    const LEFTOVERS: [&str; 4] = ["/var/cache/", "/var/lib/apt/", "/var/tmp/", "/tmp/"];
    // A variable that is not known may be a package.
    let word = |raw: &super::words::Raw| raw.word(variables).map(|word| word.text()).unwrap_or_default();
    let words: Vec<String> = simple
        .words
        .iter()
        .skip_while(|raw| raw.is_assignment())
        .map(word)
        .skip_while(|word| word == "sudo")
        .collect();
    let Some((program, arguments)) = words.split_first() else { return false };
    let is_option =
        |word: &String| word.starts_with(['-', '+']) || is_name(word) && word.starts_with("pipefail");
    let is_leftover =
        |word: &String| LEFTOVERS.iter().any(|begin| word.starts_with(begin)) && !word.contains("..");
    match program.as_str() {
        "set" => !arguments.is_empty() && arguments.iter().all(is_option),
        "rm" => {
            let mut files = arguments.iter().filter(|word| !word.starts_with('-')).peekable();
            files.peek().is_some() && files.all(is_leftover)
        }
        program => MANAGERS.contains(&program),
    }
}

/// Names of the packages that a text installs, in whatever form.
pub(super) fn packages(text: &str) -> Vec<String> {
    let apart: String =
        text.chars().flat_map(|c| if ";&|()".contains(c) { vec![' ', ';', ' '] } else { vec![c] }).collect();
    let (mut is_manager, mut is_install, mut is_value) = (false, false, false);
    let mut all = Vec::new();
    for word in apart.split_whitespace().map(|word| word.trim_matches(['"', '\''])) {
        let is_package = word.starts_with(|c: char| c.is_ascii_alphanumeric())
            && word.chars().all(|c| c.is_ascii_alphanumeric() || "+.:=~_-".contains(c));
        match word {
            ";" => (is_manager, is_install) = (false, false),
            "apt-get" | "apt" | "apk" => (is_manager, is_install) = (true, false),
            "install" | "add" if is_manager && !is_install => is_install = true,
            word if is_install && is_package && !is_value => all.push(word.into()),
            _ => {}
        }
        is_value = ["-o", "-t", "--virtual", "--repository", "-X"].contains(&word);
    }
    all
}
