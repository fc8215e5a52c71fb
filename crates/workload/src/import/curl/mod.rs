//! Imports curl's command lines, as copied from a browser or written by hand.
//!
//! The script is split into words as bash does it. The options have the meaning of curl(1), checked
//! with curl 7.88. Parts that only a shell can expand (variables, pipes) are refused.

mod command;
mod form;
mod jar;
mod options;
mod shell;
#[cfg(test)]
mod tests;

use dyno_config::quotation::quote;

use self::command::CurlCommand;
use self::jar::JarUse;
use self::shell::{ShellWord, split_commands};
use super::{Changes, Imports, require_requests};
use crate::ReadFile;

/// Reads curl commands, one per line or separated by `;`, each with one or more URLs. The word
/// `curl` may be missing from the first command. `Err`: a shell or curl would refuse the commands,
/// or dyno cannot send the same requests.
///
/// Commands that share a cookie jar are a sequence.
///
/// Headers that curl adds by itself, `User-Agent: curl/…` and `Accept: */*`, are listed as changes.
pub fn curl(command: &str, read: ReadFile) -> Result<Imports, String> {
    if command.contains("^\"") || command.contains("Invoke-WebRequest") {
        return Err(
            "the command was copied for Windows\nhint: choose \"Copy as cURL (bash)\" instead"
                .into(),
        );
    }
    let mut commands = Vec::new();
    for (i, mut words) in split_commands(command)?.into_iter().enumerate() {
        let line = words[0].line;
        remove_name(&mut words, i == 0).map_err(|error| format!("line {line}: {error}"))?;
        commands.push(CurlCommand::parse(line, words, read)?);
    }
    let mut changes = Changes::default();
    let jars: Vec<JarUse> = commands.iter().map(CurlCommand::jar_use).collect();
    let order = jar::order(&jars, &mut changes, read)?;
    let mut requests = Vec::new();
    for command in commands {
        requests.extend(command.into_requests(order, read)?);
    }
    let imports = require_requests(
        requests,
        changes,
        "no curl command found\nhint: paste a command, such as curl http://localhost:8080/",
    )?;
    Ok(Imports { order, ..imports })
}

/// Removes `$ curl` from the start of a command. Only the first command may lack `curl`.
fn remove_name(words: &mut Vec<ShellWord>, is_first: bool) -> Result<(), String> {
    // The prompt of the shell.
    words.drain(..usize::from(words[0].bytes == b"$"));
    let name = String::from_utf8_lossy(words.first().map_or(b"", |word| &word.bytes)).into_owned();
    if matches!(name.rsplit('/').next(), Some("curl" | "curl.exe")) {
        words.remove(0);
    } else if !is_first || !(name.starts_with('-') || name.contains(['.', ':', '/'])) {
        let hint = "quote words with blanks, ; or &, and end each line except the last with a \
                    backslash";
        return Err(format!("expected curl, found {}\nhint: {hint}", quote(&name)));
    }
    Ok(())
}
