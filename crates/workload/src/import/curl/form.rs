//! Encodes the form of `-F` options as a multipart body.

use std::mem;

use dyno_config::quotation::{plain, quote, quote_value};

use super::shell::into_text;
use crate::ReadFile;
use crate::import::read_file;

/// Separates the parts of a form.
pub const BOUNDARY: &str = "------------------------dyno-form-boundary";

/// Content-Type of a form, up to the boundary.
pub const FORM_TYPE: &str = "multipart/form-data; boundary=";

/// A part of a form (RFC 7578).
#[derive(Default)]
pub struct FormPart {
    name: String,
    file_name: Option<String>,
    content_type: Option<String>,
    content: Vec<u8>,
}

impl FormPart {
    /// Parses `name=content`, with the content unchanged.
    pub fn literal(field: &str) -> Result<FormPart, String> {
        let error =
            || format!("-F {}: not a field\nhint: write it like -F name=value", quote(field));
        let (name, content) = field.split_once('=').ok_or_else(error)?;
        Ok(FormPart { name: name.into(), content: content.into(), ..FormPart::default() })
    }

    /// Parses `name=content` or `name=@file`, with optional `;type=` and `;filename=`.
    pub fn parse(field: &str, read: ReadFile) -> Result<FormPart, String> {
        let mut part = FormPart::literal(field)?;
        let value = into_text(mem::take(&mut part.content))?;
        let path = value.strip_prefix('@');
        let (word, suffixes) = split_word(path.unwrap_or(&value));
        let is_text_of_file = value.starts_with('<');
        let has_several_files = path.is_some() && word.contains(',');
        if is_text_of_file || has_several_files || word.contains('\\') {
            return Err(format!(
                "-F {}={}: not supported\nhint: write it like name=value or name=@file",
                plain(&part.name),
                quote_value(&part.name, &value)
            ));
        }
        part.apply_suffixes(suffixes)?;
        if path.is_none() {
            part.content = word.into();
            return Ok(part);
        }
        part.content = read_file(word, read)?;
        let file_name = part.file_name.get_or_insert_with(|| file_name(word).into());
        let guess = guess_type(file_name)
            .or_else(|| guess_type(word))
            .unwrap_or("application/octet-stream");
        part.content_type.get_or_insert_with(|| guess.into());
        Ok(part)
    }

    /// Applies `;type=…` and `;filename=…`.
    fn apply_suffixes(&mut self, mut rest: &str) -> Result<(), String> {
        while !rest.is_empty() {
            let suffix = rest.trim_start_matches([';', ' ']);
            if let Some(value) = suffix.strip_prefix("type=") {
                // A type can have its own parameters, after semicolons.
                let (kind, after) = value.split_at(value.find(";filename=").unwrap_or(value.len()));
                (self.content_type, rest) = (Some(kind.trim().into()), after);
            } else if let Some(value) = suffix.strip_prefix("filename=") {
                let (name, after) = split_word(value);
                (self.file_name, rest) = (Some(name.into()), after);
            } else {
                let hint = "use ;type= or ;filename=, or quote the value as in 'a=\"b;c\"'";
                let rest = quote_value(&self.name, rest);
                return Err(format!("-F: unknown suffix {rest}\nhint: {hint}"));
            }
        }
        Ok(())
    }
}

/// Splits off a word that ends at a semicolon or is in double quotes. Returns the word and the
/// rest.
fn split_word(text: &str) -> (&str, &str) {
    let quoted = text.trim_start().strip_prefix('"').and_then(|text| text.split_once('"'));
    let (word, rest) =
        quoted.unwrap_or_else(|| text.split_at(text.find(';').unwrap_or(text.len())));
    (if quoted.is_some() { word } else { word.trim() }, rest)
}

/// Returns the content type of a file by its extension, from curl's table.
fn guess_type(path: &str) -> Option<&'static str> {
    const TYPES: &str = "gif=image/gif jpg=image/jpeg jpeg=image/jpeg png=image/png \
                         svg=image/svg+xml txt=text/plain htm=text/html html=text/html \
                         pdf=application/pdf xml=application/xml";
    let extension = path.rsplit_once('.')?.1.to_ascii_lowercase();
    TYPES
        .split_whitespace()
        .find_map(|pair| pair.strip_prefix(extension.as_str())?.strip_prefix('='))
}

/// Encodes a form as a multipart body.
pub fn encode_multipart(parts: &[FormPart]) -> Vec<u8> {
    let escape = |text: &str| text.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A");
    let mut body = Vec::new();
    for part in parts {
        let file = part.file_name.iter().map(|name| format!("; filename=\"{}\"", escape(name)));
        let kind = part.content_type.iter().map(|kind| format!("\r\nContent-Type: {kind}"));
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{}\"",
            escape(&part.name)
        );
        let head = [head]
            .into_iter()
            .chain(file)
            .chain(kind)
            .chain(["\r\n\r\n".into()])
            .collect::<String>();
        body.extend([head.as_bytes(), &part.content, b"\r\n"].concat());
    }
    body.extend(format!("--{BOUNDARY}--\r\n").bytes());
    body
}

/// Returns the part of a path after its last slash.
fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}
