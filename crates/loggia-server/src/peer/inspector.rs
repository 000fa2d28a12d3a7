//! Finds out who peers are, for many connections at a time: one look at `/proc` answers everybody
//! who asked before it began, so a thousand clients that connect at once cost a few looks.
//!
//! A task with a bounded queue; when the queue is full, connections wait. The work is blocking and
//! done off the runtime's threads. The rule for each connection is [`classify`].

use std::collections::{HashMap, HashSet};
use std::fs;

use tokio::sync::{mpsc, oneshot};

use super::process::{Process, Processes};
use super::socket::{Owner, SocketTable};
use super::{Ends, PeerIdentity};

const QUEUE: usize = 256;

struct Question {
    ends: Ends,
    answer: oneshot::Sender<PeerIdentity>,
}

/// The way to the task. It ends when the last clone is gone.
#[derive(Clone)]
pub(crate) struct Inspector {
    questions: mpsc::Sender<Question>,
}

impl Inspector {
    /// The inspector, and the task for its owner to run.
    pub(crate) fn new() -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (questions, inbox) = mpsc::channel(QUEUE);
        (Self { questions }, run(inbox))
    }

    pub(super) async fn inspect(&self, ends: Ends) -> PeerIdentity {
        let (answer, answered) = oneshot::channel();
        match self.questions.send(Question { ends, answer }).await {
            Ok(()) => answered.await.unwrap_or(PeerIdentity::Unknown),
            Err(_) => PeerIdentity::Unknown,
        }
    }
}

async fn run(mut inbox: mpsc::Receiver<Question>) {
    let mut batch = Vec::with_capacity(QUEUE);
    while inbox.recv_many(&mut batch, QUEUE).await > 0 {
        let ends: Vec<Ends> = batch.iter().map(|question| question.ends).collect();
        let identities = tokio::task::spawn_blocking(move || identify(&ends)).await;
        let identities = identities.unwrap_or_default();
        let unknown = std::iter::repeat(PeerIdentity::Unknown);
        for (question, identity) in batch.drain(..).zip(identities.into_iter().chain(unknown)) {
            // Whoever has hung up meanwhile needs no answer.
            let _ = question.answer.send(identity);
        }
    }
}

/// Who we are, as far as it matters for others.
struct Ourselves {
    process: Process,
    ancestors: HashSet<u32>,
    uid: u32,
    /// Unless orphans of calls come back to us, a stranger could be one.
    keeps_orphans: bool,
    /// Whether one number can stand for many users.
    users_are_distinct: bool,
}

impl Ourselves {
    fn read() -> Option<Self> {
        let process = Process::read(std::process::id())?;
        let ancestors = process.ancestors()?.into_iter().map(|ancestor| ancestor.pid).collect();
        let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
        let whole = ["0", "0", "4294967295"];
        Some(Self {
            process,
            ancestors,
            uid: rustix::process::geteuid().as_raw(),
            keeps_orphans: nix::sys::prctl::get_child_subreaper().unwrap_or(false),
            users_are_distinct: map.split_ascii_whitespace().eq(whole),
        })
    }

    /// In a user namespace the kernel shows users that are not mapped all as one.
    fn is_nobody(&self, uid: u32) -> bool {
        if self.users_are_distinct {
            return false;
        }
        let overflow = fs::read_to_string("/proc/sys/kernel/overflowuid").unwrap_or_default();
        overflow.trim().parse().unwrap_or(65_534) == uid
    }
}

/// Why local clients are not told apart here and need a token, if so: a sentence for the start.
pub fn obstacle() -> Option<&'static str> {
    let Some(us) = Ourselves::read() else {
        return Some("/proc does not show this process: local clients need a token");
    };
    if SocketTable::open().is_err() {
        return Some(
            "the kernel does not tell whose sockets are whose: local clients need a token",
        );
    }
    let orphans = "this process does not keep the orphans of its calls: local clients need a token";
    (!us.keeps_orphans).then_some(orphans)
}

fn identify(batch: &[Ends]) -> Vec<PeerIdentity> {
    let (Some(us), Ok(mut table)) = (Ourselves::read(), SocketTable::open()) else {
        return Vec::new();
    };
    let mut owner = |ends: &Ends| table.owner(*ends).ok().flatten();
    let owners: Vec<Option<Owner>> = batch.iter().map(&mut owner).collect();
    // Other users are told from the socket alone, so they can not make us search.
    let trusted = |owner: &&Owner| owner.uid == us.uid || owner.uid == 0;
    let wanted: HashSet<u32> =
        owners.iter().flatten().filter(trusted).map(|owner| owner.inode).collect();
    let processes = if wanted.is_empty() { None } else { Some(Processes::read()) };
    let holders = processes.as_ref().map(|all| all.holders(&wanted, us.process.pid));
    let holders = holders.unwrap_or_default();
    owners.iter().map(|owner| classify(*owner, &us, &holders)).collect()
}

fn classify(
    owner: Option<Owner>,
    us: &Ourselves,
    holders: &HashMap<u32, Vec<&Process>>,
) -> PeerIdentity {
    let Some(Owner { uid, inode }) = owner else { return PeerIdentity::Unknown };
    if us.is_nobody(uid) {
        return PeerIdentity::Unknown;
    }
    if uid != us.uid && uid != 0 {
        return PeerIdentity::OtherUser { uid };
    }
    let mut identity = PeerIdentity::Unknown;
    for holder in holders.get(&inode).map(Vec::as_slice).unwrap_or_default() {
        let pid = holder.pid;
        let found = match is_tool(holder, us) {
            Some(true) => return PeerIdentity::ToolDescendant { uid, pid },
            None => return PeerIdentity::Unknown,
            Some(false) if pid == us.process.pid => PeerIdentity::Ourselves { uid },
            Some(false) if us.keeps_orphans => {
                PeerIdentity::Local { uid, pid, program: holder.program.clone() }
            }
            Some(false) => PeerIdentity::Unknown,
        };
        identity = found;
    }
    identity
}

/// Whether a call started this process: ours, or that of another Loggia which we do not run in
/// ourselves. Nothing if its line of parents would not hold still.
fn is_tool(holder: &Process, us: &Ourselves) -> Option<bool> {
    if holder.pid == us.process.pid {
        return Some(false);
    }
    let ancestors = holder.ancestors()?;
    let below_us = |ancestor: &Process| ancestor.pid == us.process.pid;
    let below_another = |ancestor: &Process| {
        ancestor.program == us.process.program && !us.ancestors.contains(&ancestor.pid)
    };
    Some(ancestors.iter().any(|ancestor| below_us(ancestor) || below_another(ancestor)))
}
