//! R11: the memory of a follower, and the time until the last one has a whole burst.

use std::path::Path;
use std::time::{Duration, Instant};

use super::reader::{Reader, Seen, Transport};
use super::server::Server;
use crate::{Size, heading, report};

pub async fn measure(program: &Path, size: &Size) {
    heading(&format!("{} followers of each kind, a burst of {}", size.readers, size.burst));
    for (name, transport) in [("stream", Transport::Stream), ("socket", Transport::Socket)] {
        of(program, size, name, transport).await;
    }
}

async fn of(program: &Path, size: &Size, name: &str, transport: Transport) {
    let steps = format!(
        "{{ call = \"run_shell_command\", input = {{ command = \"true\" }} }}, \
         {{ repeat = {}, step = {{ text = \"word\\n\", delay = \"1ms\" }} }}",
        size.burst
    );
    let server = Server::start(program, "", &steps);
    let mut watch = server.watch().await;
    // Excludes what a turn leaves behind.
    let question = server.begin(&mut watch).await;
    server.release(&question).await;
    watch.until_over().await;
    let question = server.begin(&mut watch).await;
    settle().await;
    let idle = server.resident();
    let readers = match transport {
        Transport::Stream => {
            Reader::streams(server.port, size.readers, &question.task, "0.0").await
        }
        Transport::Socket => Reader::sockets(server.port, size.readers, "").await,
    };
    settle().await;
    let joined = server.resident();
    let reading: Vec<_> = readers
        .into_iter()
        .map(|mut reader| {
            tokio::spawn(async move {
                let read = reader.read(|_| {}).await;
                // Kept open, because its memory is measured.
                (read, reader)
            })
        })
        .collect();
    let begun = Instant::now();
    let mut peak = joined;
    let releasing = async {
        server.release(&question).await;
        watch.until_over().await;
        Instant::now()
    };
    let mut releasing = std::pin::pin!(releasing);
    let emitted = loop {
        tokio::select! {
            emitted = &mut releasing => break emitted,
            () = tokio::time::sleep(Duration::from_millis(20)) => peak = peak.max(server.resident()),
        }
    };
    let mut reading = std::pin::pin!(futures::future::join_all(reading));
    let all = loop {
        tokio::select! {
            all = &mut reading => break all,
            () = tokio::time::sleep(Duration::from_millis(20)) => peak = peak.max(server.resident()),
        }
    };
    peak = peak.max(server.resident());
    let mut first: Option<Seen> = None;
    let mut kept = Vec::new();
    let mut last = begun;
    for reader in all {
        let ((seen, done), reader) = reader.expect("a reader");
        assert_eq!(*first.get_or_insert(seen), seen, "everybody has seen the same");
        last = last.max(done.at);
        kept.push(reader);
    }
    settle().await;
    let after = server.resident();
    let count = size.readers as u64;
    let each = |kib: u64| kib.saturating_sub(idle) as f64 / count as f64;
    let met = |kib: u64| Some(("≤ 24 KiB", each(kib) <= 24.0));
    let shown = |kib: u64| format!("{:.1} KiB", each(kib));
    report(&format!("a {name} at rest"), &shown(joined), met(joined));
    report(&format!("a {name} in the burst, at most"), &shown(peak), met(peak));
    if transport == Transport::Socket {
        report(&format!("a {name} after the burst"), &shown(after), met(after));
    }
    let late = last.saturating_duration_since(emitted);
    report(
        &format!("the last {name} has all, after the first had it"),
        &format!(
            "{:.2} s ({:.2} s after the release)",
            late.as_secs_f64(),
            (last - begun).as_secs_f64()
        ),
        Some(("≤ 2 s", late <= Duration::from_secs(2))),
    );
    drop(kept);
}

/// Waits a moment until nothing changes; no event reports that.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}
