//! Remotes that hang and turns that are cancelled leave nothing behind.

use std::time::{Duration, Instant};

use loggia_agent::clone::CloneRetention;

use crate::fixture::{Fixture, Origin, eventually, repository};
use crate::server::{Manner, Server};
use crate::tools::processes;

/// R26: the remote must send a kibibyte a second.
#[tokio::test]
async fn a_remote_that_hangs_fails_the_clone() {
    let origin = Origin::new();
    let fixture = Fixture::with(|config| config.limits.stall_time = Duration::from_secs(2));
    for manner in [Manner::Silent, Manner::Drip] {
        let server = Server::http(manner);
        let mut session =
            fixture.open(&repository(format!("http://localhost:{}/x.git", server.port))).await;
        let begun = Instant::now();
        let failure = session.fails("say there").await;
        assert!(failure.contains("is too slow"), "{failure}");
        assert!(begun.elapsed() < Duration::from_secs(6), "{:?}", begun.elapsed());
        assert_eq!(fixture.kept(), Vec::<String>::new());
        assert_eq!(processes(&format!("localhost:{}", server.port)).count(), 0);
    }
    // The same over git's own protocol, which has no limit of its own.
    let server = Server::http(Manner::Silent);
    let url = format!("git://127.0.0.1:{}/x.git", server.port);
    let failure = fixture.open(&repository(url)).await.fails("say there").await;
    assert!(failure.contains("is too slow"), "{failure}");
    // The next clone is not affected.
    assert_eq!(fixture.open(&origin.repository()).await.turn("say there").await.failure, None);
}

/// For every fault of a remote the message says what to do, and contains no output of git.
#[tokio::test]
async fn a_faulty_remote_is_reported_in_plain_words() {
    let html =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>hi</html>";
    let lines =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n<html>\nhi\n";
    let odd = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\
               Connection: close\r\n\r\n<html>hi</html>";
    let cut = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-advertisement\r\n\
               Content-Length: 5000\r\n\r\n001e# service=git-upload-pack\n00000";
    let busy = "HTTP/1.1 503 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let table = [
        (html, "there is no git repository at its address. Check the address"),
        (lines, "there is no git repository at its address"),
        (odd, "does not speak git: check scheme, host and port"),
        (cut, "its host closed the connection too early: try again"),
        ("", "its host closed the connection too early: try again"),
        (busy, "its host reports an internal error: try again later"),
    ];
    let fixture = Fixture::new();
    for (answer, wanted) in table {
        let server = Server::http(Manner::Says(answer));
        let url = format!("http://localhost:{}/x.git", server.port);
        let failure = fixture.open(&repository(url)).await.fails("say there").await;
        assert!(failure.contains(wanted), "{answer}: {failure}");
        assert!(!failure.contains("fatal") && !failure.contains("<htm"), "{failure}");
        assert_eq!(fixture.kept(), Vec::<String>::new());
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://localhost:{unused}/x.git");
    let failure = fixture.open(&repository(url)).await.fails("say there").await;
    assert!(failure.contains("cannot be reached: check host and port"), "{failure}");
}

#[tokio::test]
async fn a_clone_has_a_time_limit() {
    let server = Server::http(Manner::Silent);
    let fixture = Fixture::with(|config| config.limits.time = Duration::from_secs(1));
    let url = format!("http://localhost:{}/x.git", server.port);
    let failure = fixture.open(&repository(url)).await.fails("say there").await;
    assert!(failure.contains("within the time limit"), "{failure}");
    assert_eq!(fixture.kept(), Vec::<String>::new());
}

#[tokio::test]
async fn a_pack_without_an_end_is_cut() {
    let origin = Origin::new();
    let server = Server::http(Manner::Endless(origin.root()));
    let fixture = Fixture::with(|config| config.limits.bytes = 4 << 20);
    let url = format!("http://localhost:{}/repo.git", server.port);
    let failure = fixture.open(&repository(url)).await.fails("say there").await;
    assert!(failure.contains("the limit is 4.0 MiB"), "{failure}");
    assert_eq!(fixture.kept(), Vec::<String>::new());
}

#[tokio::test]
async fn a_cancelled_turn_leaves_nothing_behind() {
    let server = Server::http(Manner::Silent);
    let fixture = Fixture::new();
    let url = format!("http://localhost:{}/x.git", server.port);
    let mut session = fixture.open(&repository(&url)).await;
    session.prompt("say there").await;
    session.until_notice("Cloning").await;
    let asked = || server.seen().len() > 1;
    eventually("the remote is asked", asked).await;
    session.cancel().await;
    assert_eq!(session.ended().await.failure.as_deref(), Some("Cancelled"));
    eventually("the clone is gone", || fixture.kept().is_empty()).await;
    assert_eq!(processes(&url).count(), 0);
    // A second attempt works too.
    session.prompt("say there").await;
    session.until_notice("Cloning").await;
    session.cancel().await;
    eventually("the clone is gone", || fixture.kept().is_empty()).await;
}

/// An incomplete clone that a crash left is not used.
#[tokio::test]
async fn an_incomplete_clone_is_removed_and_created_again() {
    let origin = Origin::new();
    let fixture = Fixture::new();
    let mut session = fixture.open(&origin.repository()).await;
    let name = session.path.display().to_string();
    for ending in [".new", ".base"] {
        let left = std::path::PathBuf::from(format!("{name}{ending}"));
        std::fs::create_dir_all(left.join(".git/objects")).unwrap();
        std::fs::write(left.join(".git/HEAD"), "ref: refs/heads/evil\n").unwrap();
        std::fs::write(left.join("stale.txt"), "stale\n").unwrap();
    }
    let ended = session.turn("say there").await;
    assert_eq!(ended.patch(), "# Nothing was changed.\n");
    assert!(ended.cloned() && !session.path.join("stale.txt").exists());
    assert_eq!(fixture.kept().len(), 2, "{:?}", fixture.kept());
}

#[tokio::test]
async fn a_clone_that_is_not_kept_is_removed_after_its_turn() {
    let origin = Origin::new();
    let fixture = Fixture::with(|config| config.keep = CloneRetention::Never);
    let mut session = fixture.open(&origin.repository()).await;
    // A directory without write permission is removed too.
    let ended = session.turn("run mkdir -p shut/in && touch shut/in/x && chmod -R a-w shut").await;
    assert!(ended.patch().contains("shut/in/x"), "the results outlive it");
    assert_eq!(fixture.kept(), Vec::<String>::new());
    let again = session.turn("say again").await;
    assert!(again.cloned() && again.failure.is_none(), "{again:?}");
    assert_eq!(fixture.kept(), Vec::<String>::new());
}
