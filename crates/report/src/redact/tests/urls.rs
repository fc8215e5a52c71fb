//! Tests users and passwords in URLs.

use super::*;

const TOKEN: &str = "hf_AbCdEfGhIjKlMnOpQrStUvWxYzAbCdEfGh";

#[test]
fn token_as_user_of_url_is_withheld() {
    for (url, redacted) in [
        ("https://0a1b2c3d4e5f:@api.example/", "https://(withheld):@api.example/"),
        ("https://0a1b2c3d4e5f@api.example/", "https://(withheld)@api.example/"),
        (
            "https://0a1b2c3d4e5f:x-oauth-basic@git.example/",
            "https://(withheld):(withheld)@git.example/",
        ),
        ("postgres://postgres:@h/d", "postgres://postgres:@h/d"),
        ("postgres://postgres:horse@h/d", "postgres://postgres:(withheld)@h/d"),
        ("https://{request.user12}:@h/", "https://{request.user12}:@h/"),
    ] {
        assert_eq!(Secrets::default().log(url), redacted);
        assert_eq!(Secrets::default().fields(url), redacted);
        assert_eq!(Secrets::default().without_password(url), redacted);
        let source = |url: &str| format!("env = {{ URL = \"{url}\" }}");
        assert_eq!(Secrets::default().source(&source(url)), source(redacted));
    }
    assert_eq!(
        Secrets::default().without_password(&format!("https://{TOKEN}:@h/")),
        "https://(withheld):@h/"
    );
    let mut secrets = Secrets::default();
    secrets.log("https://0a1b2c3d4e5f:@api.example/");
    assert_eq!(secrets.erase("as 0a1b2c3d4e5f"), "as (withheld)");
}
