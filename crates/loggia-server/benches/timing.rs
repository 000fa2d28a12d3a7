//! Compares the times of refusals with different reasons: `cargo bench -p loggia-server --bench
//! timing`, `-- --quick` for a short run, `-- --full` for 20,000 of each kind.
//!
//! Three kinds, in alternating order: a client or token that does not exist, one that is wrong in its first byte, one that
//! is wrong in its last. Without the limiter, which would dominate the times. Prints medians and, for each pair of kinds,
//! the Kolmogorov-Smirnov test. A busy machine may spoil the report. See `docs/contributing/performance.md`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark that cannot measure should say so loudly"
)]

use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::Request;
use axum::http::request::Parts;
use loggia_server::auth::{
    Clients, CredentialCheck, Denied, Grant, OAuth, SampleClient, Scheme, Scopes, Secret, Source,
    TokenFile, TokenRequest,
};
use loggia_server::peer::PeerIdentity;
use loggia_session::{MemoryStore, Store};

const KINDS: [&str; 3] = ["unknown", "wrong in byte 1", "wrong in the last byte"];
/// Rounds before the limiter would answer: it lets twenty wrong secrets of one client pass.
const UNLIMITED: usize = 6;

/// The largest difference between medians, in percent.
const APART: f64 = 2.0;

type Times = [Vec<Duration>; 3];

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let given = |name: &str| std::env::args().any(|argument| argument == name);
    let (secrets, tokens) = match (given("--full"), given("--quick")) {
        (true, _) => (20_000, 20_000),
        (false, true) => (50, 2_000),
        (false, false) => (1_000, 20_000),
    };
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    println!("refusals, {build} build\n");
    // The quick ones first, so that there is early output.
    report("a token of the file", &of_tokens(tokens).await);
    report("a client's secret", &of_secrets(secrets).await);
}

/// Another order each round, so that no kind always follows the same one.
fn order(round: usize) -> [usize; 3] {
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0], [0, 2, 1], [1, 0, 2]];
    ORDERS[round % ORDERS.len()]
}

/// The secret with another first or last byte.
fn changed(secret: &str, kind: usize) -> String {
    let at = if kind == 1 { 0 } else { secret.len() - 1 };
    let other = |byte: u8| if byte == b'a' { b'b' } else { b'a' };
    let bytes = secret.bytes().enumerate();
    bytes.map(|(index, byte)| char::from(if index == at { other(byte) } else { byte })).collect()
}

async fn of_secrets(rounds: usize) -> Times {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let clients = Clients::new(store.clone());
    let secret = clients.add("ann", Scopes::CLIENT, Grant::None).await.unwrap();
    let fresh = || OAuth::new(store.clone(), SampleClient::Off).unwrap();
    let (mut oauth, mut times) = (fresh(), Times::default());
    for round in 0..rounds {
        if round % UNLIMITED == 0 {
            oauth = fresh();
        }
        for kind in order(round) {
            let client = if kind == 0 { "bob" } else { "ann" };
            let secret = Secret::new(changed(secret.reveal(), kind));
            let asked = TokenRequest { client: client.to_owned(), secret, scopes: None };
            // From another address each time.
            let number = u8::try_from(round % UNLIMITED * 3 + kind).unwrap();
            let source = Source::Address(IpAddr::from([192, 0, 2, number]));
            let begun = Instant::now();
            let denied = oauth.issue(asked, source, &PeerIdentity::Unknown).await;
            times[kind].push(begun.elapsed());
            assert_eq!(denied.err(), Some(Denied::Client));
        }
    }
    times
}

async fn of_tokens(rounds: usize) -> Times {
    const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789a";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens");
    std::fs::write(&path, format!("ann:{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    let file = TokenFile::read(&path).unwrap();
    let given = ["z".repeat(TOKEN.len()), changed(TOKEN, 1), changed(TOKEN, 2)];
    // A new one each time, so that memory locations do not affect a kind.
    let request = |kind: usize| -> Parts {
        let token = format!("Bearer {}", given[kind]);
        Request::builder().header("authorization", token).body(()).unwrap().into_parts().0
    };
    let mut times = Times::default();
    for round in 0..rounds {
        for kind in order(round) {
            let request = request(kind);
            let begun = Instant::now();
            let checked = file.check(&request).await;
            times[kind].push(begun.elapsed());
            assert_eq!(checked, CredentialCheck::Unknown);
        }
    }
    times
}

fn report(what: &str, times: &Times) {
    let sorted = times.clone().map(|mut times| {
        times.sort_unstable();
        times
    });
    println!("{what}, {} of each kind\n", sorted[0].len());
    println!("| kind | median | beside the first | tenth | nine tenths |");
    println!("|---|---:|---:|---:|---:|");
    let part = |times: &[Duration], tenths: usize| times[times.len() * tenths / 10];
    let first = part(&sorted[0], 5).as_secs_f64();
    for (kind, times) in KINDS.iter().zip(&sorted) {
        let median = part(times, 5);
        let more = (median.as_secs_f64() / first - 1.0) * 100.0;
        let [low, high] = [1, 9].map(|tenths| part(times, tenths));
        println!("| {kind} | {median:.2?} | {more:+.2} % | {low:.2?} | {high:.2?} |");
    }
    let medians = [0, 1, 2].map(|kind| part(&sorted[kind], 5).as_secs_f64());
    let [least, most] = [f64::min, f64::max]
        .map(|pick: fn(f64, f64) -> f64| medians.into_iter().reduce(pick).unwrap());
    let apart = (most / least - 1.0) * 100.0;
    let met = if apart <= APART { "met" } else { "missed" };
    println!("\nmedians {apart:.2} % apart; at most {APART} %: {met}\n");
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let (distance, chance) = kolmogorov_smirnov(&sorted[one], &sorted[other]);
        println!("{} / {}: D = {distance:.4}, p = {chance:.3}", KINDS[one], KINDS[other]);
    }
    println!();
}

/// The largest distance between two distributions, and the probability of one as large among equal ones.
fn kolmogorov_smirnov(one: &[Duration], other: &[Duration]) -> (f64, f64) {
    let (mut at, mut distance) = ([0; 2], 0.0_f64);
    let part = |count: usize, of: &[Duration]| count as f64 / of.len() as f64;
    while let (Some(a), Some(b)) = (one.get(at[0]), other.get(at[1])) {
        let next = *a.min(b);
        at[0] += one[at[0]..].iter().take_while(|time| **time == next).count();
        at[1] += other[at[1]..].iter().take_while(|time| **time == next).count();
        distance = distance.max((part(at[0], one) - part(at[1], other)).abs());
    }
    let (n, m) = (one.len() as f64, other.len() as f64);
    let root = (n * m / (n + m)).sqrt();
    let scaled = (root + 0.12 + 0.11 / root) * distance;
    let term = |j: i32| {
        let sign = if j % 2 == 1 { 2.0 } else { -2.0 };
        sign * (-2.0 * f64::from(j * j) * scaled * scaled).exp()
    };
    let chance: f64 = if scaled < 0.2 { 1.0 } else { (1..100).map(term).sum() };
    (distance, chance.clamp(0.0, 1.0))
}
