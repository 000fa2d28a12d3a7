//! Bearer tokens: the file, the answers, and the limit of wrong ones. A08, A09.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Instant;

use loggia_server::auth::TokenFile;
use tempfile::TempDir;

use crate::stage::{Server, Setup, curl};

const EDITOR: &str = "0123456789abcdef-editor";
const PLAIN: &str = "fedcba9876543210-plain";

fn token_file(text: &str, mode: u32) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
    (directory, path)
}

fn with_tokens(setup: Setup) -> (TempDir, Server) {
    let text = format!("# mine\n\neditor:{EDITOR}\n{PLAIN}\n");
    let (directory, path) = token_file(&text, 0o600);
    let tokens = Some(path.to_str().unwrap().to_owned());
    (directory, Server::with(Setup { tokens, ..setup }))
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}

#[test]
fn a_token_identifies_its_principal() {
    let (_directory, server) = with_tokens(Setup { require_token: true, ..Setup::default() });
    let known = server.get_with("/whoami", &bearer(EDITOR));
    assert!(
        known.body.contains("\"token:editor\"") && known.body.contains("[true,true,true,false]")
    );
    assert!(server.get_with("/whoami", &bearer(PLAIN)).body.contains("\"token:4\""));
    let lower = format!("authorization: bearer {EDITOR}");
    assert_eq!(server.get_with("/whoami", &lower).status, 200);
    let page = format!("{}\r\nOrigin: http://localhost:{}", bearer(EDITOR), server.port);
    assert_eq!(server.get_with("/whoami", &page).status, 200, "a page with a token");
    let without = server.get("/whoami");
    assert_eq!((without.status, without.reason()), (401, "token-needed".to_owned()));
    assert_eq!(without.header("www-authenticate"), Some("Bearer realm=\"loggia\""));
    assert_eq!(server.get("/there-is-no-such-route").status, 401);
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/healthz/").status, 401, "public is exact");
    assert_eq!(server.post("/healthz", "Content-Type: application/json", "{}").status, 401);
}

/// A page of an allowed origin may read every answer, also that its token is wrong.
#[test]
fn a_page_of_an_allowed_origin_comes_with_a_token() {
    let allowed_origins = vec!["https://listed.example".to_owned()];
    let (_directory, server) = with_tokens(Setup { allowed_origins, ..Setup::default() });
    let origin = "Origin: https://listed.example\r\nSec-Fetch-Site: cross-site";
    let rows = [(bearer(EDITOR), 200), (bearer("wrong-wrong-wrong"), 401), (String::new(), 401)];
    for (credential, wanted) in rows {
        let lines = format!("{origin}\r\n{credential}");
        let reply = server.get_with("/whoami", lines.trim_end());
        assert_eq!(reply.status, wanted, "{credential}: {reply:?}");
        let allowed = reply.header("access-control-allow-origin");
        assert_eq!(allowed, Some("https://listed.example"), "{credential}");
        let read = reply.header("access-control-expose-headers").unwrap();
        assert!(read.contains("WWW-Authenticate"), "{read}");
    }
}

#[test]
fn a_wrong_credential_is_refused() {
    let rows = [
        bearer("0123456789abcdef-editoR"),
        bearer("0123456789abcdef-edito"),
        bearer(&format!("{EDITOR} {PLAIN}")),
        bearer(""),
        "Authorization: Bearer".to_owned(),
        "Authorization:".to_owned(),
        format!("Authorization: {EDITOR}"),
        format!("Authorization: Basic {EDITOR}"),
        format!("{}\r\n{}", bearer(EDITOR), bearer(EDITOR)),
        format!("{}\r\n{}", bearer("wrong"), bearer(EDITOR)),
        bearer("t\u{f6}ken"),
    ];
    for row in rows {
        // One server for each, because of the limiter.
        for setup in [Setup::default(), Setup { require_token: true, ..Setup::default() }] {
            let (_directory, server) = with_tokens(setup);
            let reply = server.get_with("/whoami", &row);
            assert_eq!((reply.status, reply.reason()), (401, "invalid-token".to_owned()), "{row}");
            let challenge = reply.header("www-authenticate");
            assert_eq!(
                challenge,
                Some("Bearer realm=\"loggia\", error=\"invalid_token\""),
                "{row}"
            );
        }
    }
    let server = Server::start();
    assert_eq!(server.get_with("/whoami", &bearer(EDITOR)).status, 401, "no tokens at all");
    assert_eq!(server.get("/whoami").status, 200);
}

#[test]
fn guessing_is_slow_and_does_not_lock_out_others() {
    let (_directory, server) = with_tokens(Setup::default());
    let url = format!("http://127.0.0.1:{}/whoami", server.port);
    let wrong = |uid| curl(&["-H", &bearer("wrong-wrong-wrong"), &url], uid);
    for attempt in 0..5 {
        assert!(wrong(65_534).ends_with(" 401"), "attempt {attempt}");
    }
    let started = Instant::now();
    for _ in 0..3 {
        let limited = wrong(65_534);
        // If this machine took a whole second, another attempt may be allowed.
        assert!(limited.ends_with(" 429") || started.elapsed().as_secs() >= 1, "{limited}");
    }
    for headers in ["X-Forwarded-For: 192.0.2.1", "Cookie: a=b", "Forwarded: for=192.0.2.1"] {
        let tried = curl(&["-H", &bearer("wrong"), "-H", headers, "-i", &url], 65_534);
        let limited = tried.contains("\r\nretry-after: ") && tried.ends_with(" 429");
        assert!(limited || started.elapsed().as_secs() >= 1, "{tried}");
    }
    for token in [EDITOR, PLAIN] {
        let right = curl(&["-H", &bearer(token), &url], 65_534);
        assert!(right.ends_with(" 200"), "the right one from the same place: {right}");
    }
    let limited = wrong(65_534);
    assert!(limited.ends_with(" 429") || started.elapsed().as_secs() >= 1, "still: {limited}");
    assert_eq!(server.get_with("/whoami", &bearer(EDITOR)).status, 200, "another user's right one");
    assert_eq!(server.get("/whoami").status, 200);
}

#[test]
fn a_token_file_is_private_and_well_formed() {
    let good = format!("{EDITOR}\n");
    let long = "x".repeat(5_000);
    let rows: &[(&str, u32, &str)] = &[
        (&good, 0o644, "others may read the token file"),
        (&good, 0o640, "mode 640): run `chmod 600"),
        (&good, 0o604, "others may read"),
        ("", 0o600, "holds no token"),
        ("# only remarks\n\n", 0o600, "holds no token"),
        ("short\n", 0o600, "line 1: a token has at least 16"),
        ("name:short\n", 0o600, "line 1: a token has at least 16"),
        ("\nbad name:0123456789abcdef\n", 0o600, "line 2: a name has"),
        (":0123456789abcdef\n", 0o600, "line 1: a name has"),
        ("0123456789abcdef with spaces\n", 0o600, "line 1: a token has at most"),
        (&long, 0o600, "line 1: a token has at most"),
        ("a:0123456789abcdef\na:0123456789abcdeg\n", 0o600, "line 2: the name is taken"),
    ];
    for (text, mode, wanted) in rows {
        let (_directory, path) = token_file(text, *mode);
        let said = TokenFile::read(&path).err().expect(wanted).to_string();
        assert!(said.contains(wanted), "{said}");
        assert!(!said.contains("0123456789abcdef"), "{said}");
    }
    let (directory, path) = token_file(&good, 0o600);
    assert!(TokenFile::read(&path).is_ok());
    assert!(TokenFile::read(&directory.path().join("missing")).is_err());
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let said = |path: &std::path::Path| TokenFile::read(path).err().unwrap().to_string();
    assert!(said(&link).contains("not a regular file"), "{}", said(&link));
    assert!(said(directory.path()).contains("not a regular file"));
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    assert!(said(&path).contains("is owned by another user"));
}
