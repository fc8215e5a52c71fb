//! Reads certificates and keys from PEM files. For a file of another kind, the error names the kind
//! and how to convert the file.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::limits::PEM_BYTES;

/// Reads the certificates of a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let bytes = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(no_certificate_error(path, &bytes)),
        Err(error) => {
            Err(format!("{}: no certificate can be read: {}", path.display(), error_text(&error)))
        }
    }
}

/// Reads the first private key of a file.
pub(crate) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let bytes = read(path)?;
    if is_encrypted(&bytes) {
        let file = path.display();
        return Err(format!(
            "{file}: the key is encrypted\nhint: decrypt the key with `openssl pkey -in {file} \
             -out plain.key`, and use plain.key"
        ));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => no_key_error(path, &bytes),
        error => format!("{}: no private key can be read: {}", path.display(), error_text(&error)),
    })
}

/// Reads a file, which may be a pipe, up to [`PEM_BYTES`].
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = File::open(path).map_err(named)?;
    let mut bytes = Vec::new();
    file.take(PEM_BYTES + 1).read_to_end(&mut bytes).map_err(named)?;
    if bytes.len() as u64 > PEM_BYTES {
        return Err(format!(
            "{}: has more than {PEM_BYTES} bytes, the limit of certificates and keys\nhint: use a \
             file that contains only the certificates or the key in PEM form",
            path.display()
        ));
    }
    Ok(bytes)
}

/// Returns whether a key is encrypted: as PKCS#8 (RFC 7468 §11), or in OpenSSL's older form (RFC
/// 1421 §4.6.1.1).
fn is_encrypted(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.contains("-----BEGIN ENCRYPTED PRIVATE KEY-----")
        || text.contains("Proc-Type: 4,ENCRYPTED")
}

/// Returns the error for a file without a certificate, depending on its contents.
fn no_certificate_error(path: &Path, bytes: &[u8]) -> String {
    let file = path.display();
    if is_der(bytes) {
        return not_pem_error(
            path,
            bytes,
            &format!("openssl x509 -inform der -in {file} -out {file}.pem"),
        );
    }
    if has_section(bytes, "PRIVATE KEY") {
        return format!(
            "{file}: has a private key and no certificate\nhint: use the file of the certificate \
             here, and give the file of the private key with --key"
        );
    }
    if has_section(bytes, "CERTIFICATE REQUEST") {
        return format!(
            "{file}: has a certificate signing request and no certificate\nhint: have the request \
             signed, and use the signed certificate"
        );
    }
    format!(
        "{file}: has no certificate in PEM form\nhint: use a file with a line -----BEGIN \
         CERTIFICATE-----"
    )
}

/// Returns the error for a file without a private key, depending on its contents.
fn no_key_error(path: &Path, bytes: &[u8]) -> String {
    let file = path.display();
    if is_der(bytes) {
        return not_pem_error(
            path,
            bytes,
            &format!("openssl pkey -inform der -in {file} -out {file}.pem"),
        );
    }
    if has_section(bytes, "CERTIFICATE") {
        return format!(
            "{file}: has a certificate and no private key\nhint: use the file of the private key \
             with --key"
        );
    }
    if has_section(bytes, "OPENSSH PRIVATE KEY") {
        return format!(
            "{file}: is an OpenSSH key\nhint: make a key for TLS with `openssl genpkey`"
        );
    }
    if has_section(bytes, "PUBLIC KEY") {
        return format!(
            "{file}: has a public key and no private key\nhint: use the file of the private key"
        );
    }
    format!(
        "{file}: has no private key in PEM form\nhint: use a file with a line -----BEGIN PRIVATE \
         KEY-----"
    )
}

/// Returns the error message for a file in a binary form: PKCS#12, or plain DER. `convert`: the
/// command that converts DER to PEM.
fn not_pem_error(path: &Path, bytes: &[u8], convert: &str) -> String {
    let file = path.display();
    if is_pkcs12(bytes) {
        return format!(
            "{file}: is in the format PKCS#12, but dyno reads PEM\nhint: run `openssl pkcs12 -in \
             {file} -nodes -out {file}.pem`, then use --cert {file}.pem --key {file}.pem"
        );
    }
    format!(
        "{file}: is in the format DER, but dyno reads PEM\nhint: convert the file with `{convert}`"
    )
}

/// Returns whether bytes begin with an ASN.1 SEQUENCE whose length has the long form (128 bytes or
/// more).
fn is_der(bytes: &[u8]) -> bool {
    matches!(bytes, [0x30, length, ..] if *length >= 0x80)
}

/// Returns whether bytes in DER are PKCS#12: a SEQUENCE whose first member is the INTEGER 3 (RFC
/// 7292 §4).
fn is_pkcs12(bytes: &[u8]) -> bool {
    let length_bytes = match bytes.get(1) {
        Some(&first @ 0x80..) => usize::from(first & 0x7F),
        _ => 0,
    };
    bytes.get(2 + length_bytes..).is_some_and(|rest| rest.starts_with(&[0x02, 0x01, 0x03]))
}

fn has_section(bytes: &[u8], label: &str) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.lines().any(|line| {
        line.starts_with("-----BEGIN ") && line.trim_end().ends_with(&format!("{label}-----"))
    })
}

/// Describes an error of the PEM parser.
fn error_text(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { end_marker } => {
            format!(
                "the line {:?} is missing, because the file is truncated",
                String::from_utf8_lossy(end_marker).trim()
            )
        }
        pem::Error::IllegalSectionStart { line } => {
            format!("the line {:?} is not a valid BEGIN line", String::from_utf8_lossy(line).trim())
        }
        pem::Error::Base64Decode(_) => "the text between BEGIN and END is not base64".into(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key_error(bytes: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        private_key(file.path()).unwrap_err()
    }

    fn certificate_error(bytes: &[u8]) -> String {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        certificates(file.path()).unwrap_err()
    }

    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

    #[test]
    fn encrypted_key_error_has_hint() {
        for text in [
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n",
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: \
             AES,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n",
        ] {
            let error = key_error(text.as_bytes());
            assert!(
                error.contains("the key is encrypted") && error.contains("hint: decrypt"),
                "{error}"
            );
        }
    }

    #[test]
    fn wrong_file_error_has_hint() {
        let pkcs12 = [0x30, 0x82, 0x01, 0x02, 0x02, 0x01, 0x03, 0x30];
        let der = [0x30, 0x82, 0x01, 0x02, 0x30, 0x82];
        for (error, words) in [
            (key_error(&pkcs12), "openssl pkcs12"),
            (certificate_error(&pkcs12), "openssl pkcs12"),
            (key_error(&der), "openssl pkey -inform der"),
            (certificate_error(&der), "openssl x509 -inform der"),
            (key_error(CERTIFICATE.as_bytes()), "a certificate and no private key"),
            (certificate_error(KEY.as_bytes()), "a private key and no certificate"),
            (key_error(b"hello"), "no private key in PEM form"),
            (certificate_error(b""), "no certificate in PEM form"),
            (key_error(&KEY.as_bytes()[..40]), "the file is truncated"),
            (certificate_error(&CERTIFICATE.as_bytes()[..34]), "the file is truncated"),
            (
                key_error(b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"),
                "public key",
            ),
        ] {
            assert!(error.contains(words), "{error}");
        }
        // A sparse file of this length takes no space.
        let endless = tempfile::NamedTempFile::new().unwrap();
        endless.as_file().set_len(1 << 40).unwrap();
        let error = certificates(endless.path()).unwrap_err();
        assert!(error.contains("more than 16777216 bytes") && error.contains("hint: "), "{error}");
        assert!(private_key(Path::new("/no/such")).unwrap_err().contains("/no/such: No such file"));
    }
}
