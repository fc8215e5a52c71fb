//! Builds the content security policy of the page. The policy allows the viewer's script, and no
//! script from an archive.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

/// Returns the content security policy of a page with this style sheet and script, which are named
/// by their hashes. `style` attributes are allowed for the bars in tables and the SVG of charts.
/// `style-src` is for browsers that do not know `style-src-elem` (CSP level 3).
pub(super) fn policy(css: &str, js: &str) -> String {
    let (css, js) = (hash(css), hash(js));
    format!(
        "default-src 'none'; script-src {js}; style-src 'unsafe-inline'; style-src-elem {css}; \
         style-src-attr 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
}

/// Returns the hash of a text as a source of the policy.
fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policy_allows_script_by_hash_only() {
        // echo -n 'alert(1)' | openssl dgst -sha256 -binary | base64
        let policy = policy("", "alert(1)");
        let scripts = policy.split("; ").find(|d| d.starts_with("script-src")).unwrap();
        assert_eq!(scripts, "script-src 'sha256-bhHHL3z2vDgxUt0W3dWQOrprscmda2Y5pLsLg4GF+pI='");
        assert!(!policy.contains("script-src 'unsafe-inline'"));
    }
}
