//! Every transport, and addresses that must be refused.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use loggia_agent::clone::CloneConfig;
use loggia_core::Repository;
use loggia_core::repository::AllowedSources;

use crate::fixture::{Fixture, Names, Origin, git, repository};
use crate::server::{Manner, Server, tls_file};

/// Allows a host name of this test that resolves to this machine.
fn inside(config: &mut CloneConfig) {
    config.lookup = Arc::new(Names(vec![("repo.test", "127.0.0.1")]));
    config.sources.private_hosts = vec!["repo.test".to_owned()];
    config.ca_file = Some(tls_file("ca.pem"));
}

#[tokio::test]
async fn git_daemon_and_http_and_https() {
    let origin = Origin::new();
    let head = origin.git(&["rev-parse", "HEAD"]);
    let side = origin.git(&["rev-parse", "side"]);
    let daemon = Server::daemon(&origin.root());
    let http = Server::http(Manner::Serve(origin.root()));
    let https = Server::https(Manner::Serve(origin.root()));
    let fixture = Fixture::with(inside);
    let urls = [
        format!("git://127.0.0.1:{}/repo.git", daemon.port),
        format!("http://127.0.0.1:{}/repo.git", http.port),
        // Resolved by Loggia: git itself could not.
        format!("https://repo.test:{}/repo.git", https.port),
    ];
    for url in urls {
        for (revision, shallow, commit, history) in [
            (None, false, &head, "2"),
            (None, true, &head, "1"),
            (Some("side".to_owned()), false, &side, "3"),
            (Some(side.clone()), true, &side, "1"),
        ] {
            let asked = Repository { revision, shallow, ..repository(&url) };
            let mut session = fixture.open(&asked).await;
            let ended = session.turn("say there").await;
            assert_eq!(ended.failure, None, "{asked:?}");
            assert_eq!(git(&session.path, &["rev-parse", "HEAD"]), *commit, "{asked:?}");
            assert_eq!(git(&session.path, &["rev-list", "--count", "HEAD"]), history, "{asked:?}");
            assert_eq!(git(&session.path, &["remote", "get-url", "origin"]), url);
            assert!(ended.notices[0].starts_with(&format!("Cloning {url}")), "{:?}", ended.notices);
        }
    }
    // An untrusted certificate is refused.
    let fixture = Fixture::with(|config| {
        inside(config);
        config.ca_file = None;
    });
    let url = format!("https://repo.test:{}/repo.git", https.port);
    let failure = fixture.open(&repository(url)).await.fails("say there").await;
    assert!(failure.contains("certificate"), "{failure}");
}

/// A32: all addresses of a name are checked, and one that is not public is enough to refuse it.
#[tokio::test]
async fn private_addresses_are_not_connected_to() {
    let origin = Origin::new();
    let server = Server::https(Manner::Serve(origin.root()));
    let port = server.port;
    let names = vec![
        ("localtest", "127.0.0.1"),
        ("inner.example", "10.0.0.1"),
        ("metadata.example", "169.254.169.254"),
        ("mapped.example", "::ffff:127.0.0.1"),
        ("mixed.example", "1.1.1.1"),
        ("mixed.example", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
    ];
    let fixture = Fixture::with(|config| {
        config.sources = AllowedSources::default();
        config.lookup = Arc::new(Names(names));
        config.ca_file = Some(tls_file("ca.pem"));
    });
    let hosts = [
        "127.0.0.1",
        "169.254.169.254",
        "[::ffff:10.0.0.1]",
        "[::1]",
        "localtest",
        "inner.example",
        "metadata.example",
        "mapped.example",
        "mixed.example",
        "localhost",
        "unknown.example",
    ];
    for host in hosts {
        let url = format!("https://{host}:{port}/repo.git");
        let failure = fixture.open(&repository(url)).await.fails("say there").await;
        let why = ["resolves to an address that is not public", "has no address"];
        assert!(why.iter().any(|why| failure.contains(why)), "{host}: {failure}");
    }
    assert_eq!(server.seen(), Vec::<String>::new());
    assert_eq!(fixture.kept(), Vec::<String>::new());
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let origin = Origin::new();
    let target = Server::https(Manner::Serve(origin.root()));
    let location = format!("https://127.0.0.1:{}", target.port);
    for server in [
        Server::https(Manner::Redirect(location)),
        Server::https(Manner::Redirect(format!("https://repo.test:{}", target.port))),
        Server::https(Manner::Redirect("ext::sh -c touch% PWNED".to_owned())),
    ] {
        let fixture = Fixture::with(inside);
        let url = format!("https://repo.test:{}/repo.git", server.port);
        let failure = fixture.open(&repository(url)).await.fails("say there").await;
        assert!(failure.contains("redirects are not followed"), "{failure}");
        assert!(!server.seen().is_empty());
        assert_eq!(fixture.kept(), Vec::<String>::new());
    }
    assert_eq!(target.seen(), Vec::<String>::new());
}

fn secret_file(directory: &Path, text: &str, mode: u32) -> std::path::PathBuf {
    let file = directory.join("secret");
    std::fs::write(&file, text).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// Credentials reach only their host and no message.
#[tokio::test]
async fn credentials_go_only_to_their_host() {
    let origin = Origin::new();
    let basic = "Basic bWU6aHVudGVyMg==".to_owned(); // me:hunter2
    let server = Server::https(Manner::Guarded(origin.root(), basic));
    let url = format!("https://repo.test:{}/repo.git", server.port);
    let directory = tempfile::tempdir().unwrap();
    let with = |host: &str, text: &str, mode: u32| {
        let file = secret_file(directory.path(), text, mode);
        let host = host.to_owned();
        Fixture::with(move |config| {
            inside(config);
            config.credentials = vec![(host, file)];
        })
    };
    let port = server.port;
    for host in ["repo.test", &format!("repo.test:{port}")] {
        let fixture = with(host, "me:hunter2\n", 0o600);
        let ended = fixture.open(&repository(&url)).await.turn("say there").await;
        assert_eq!(ended.failure, None);
        assert!(!format!("{ended:?}").contains("hunter2"));
    }
    let sent = server.seen().len();
    let table = [
        ("other.test", "me:hunter2", 0o600, "it does not exist, or needs credentials"),
        ("repo.test:1", "me:hunter2", 0o600, "it does not exist, or needs credentials"),
        ("repo.test", "me:hunter3", 0o600, "it does not exist, or needs credentials"),
        ("repo.test", "me:hunter2", 0o644, "only you may read"),
        ("repo.test", "hunter2", 0o600, "user:password"),
        ("repo.test", "me:hunter2\r\nX: y", 0o600, "user:password"),
    ];
    for (host, text, mode, why) in table {
        let failure = with(host, text, mode).open(&repository(&url)).await.fails("say a").await;
        assert!(failure.contains(why) && !failure.contains("hunter"), "{host} {text}: {failure}");
    }
    let seen = server.seen().split_off(sent).join("\n");
    assert!(!seen.contains("bWU6aHVudGVyMg"), "{seen}");
}

/// A fake ssh on the path records its arguments and serves the repository.
#[tokio::test]
async fn ssh_gets_only_the_fixed_arguments() {
    let origin = Origin::new();
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("log");
    let (log_text, served) = (log.display(), origin.path());
    let script = format!(
        "#!/bin/sh\n{{ echo \"$@\"; env; }} >> {log_text}\nexec git upload-pack {}\n",
        served.display()
    );
    std::fs::write(directory.path().join("ssh"), script).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path().join("ssh"), mode).unwrap();
    let key = directory.path().join("a key");
    std::fs::write(&key, "").unwrap();
    let path = format!("{}:/usr/bin:/bin", directory.path().display());
    let fixture = Fixture::with(|config| {
        inside(config);
        config.env = vec![
            ("PATH".into(), path.into()),
            ("OPENAI_API_KEY".into(), "canary".into()),
            ("SSH_AUTH_SOCK".into(), "canary".into()),
            ("GIT_SSH_COMMAND".into(), "canary".into()),
            ("LD_PRELOAD".into(), "canary".into()),
        ];
        config.credentials = vec![("repo.test".to_owned(), key)];
    });
    let asked = repository("ssh://git@repo.test:2222/x.git");
    let ended = fixture.open(&asked).await.turn("say there").await;
    assert_eq!(ended.failure, None);
    let written = std::fs::read_to_string(log).unwrap();
    for part in ["-F none", "BatchMode=yes", "StrictHostKeyChecking=yes", "HostName=127.0.0.1"] {
        assert!(written.contains(part), "{part}: {written}");
    }
    for part in
        ["HostKeyAlias=repo.test", "-p 2222", "git@repo.test", "a key", "GIT_TERMINAL_PROMPT=0"]
    {
        assert!(written.contains(part), "{part}: {written}");
    }
    assert!(!written.contains("canary"), "{written}");
}
