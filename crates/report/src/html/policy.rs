//! The page's content security policy: it may run the viewer's script, and nothing from an archive.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// The content security policy of a page with this style sheet and script. Both are named by their
/// hash. `style` attributes are allowed: the bars in tables and the charts' SVG need them. Browsers
/// before CSP level 3 know only `style-src`.
pub(super) fn policy(css: &str, js: &str) -> String {
    let (css, js) = (hash(css), hash(js));
    format!(
        "default-src 'none'; script-src {js}; style-src 'unsafe-inline'; style-src-elem {css}; \
         style-src-attr 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}

fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_are_named_by_their_hash_and_no_other_runs() {
        // echo -n 'alert(1)' | openssl dgst -sha256 -binary | base64
        let policy = policy("", "alert(1)");
        let scripts = policy.split("; ").find(|d| d.starts_with("script-src")).unwrap();
        assert_eq!(scripts, "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
        assert!(!policy.contains("script-src 'unsafe-inline'"));
    }
}
