//! The state that decisions depend on: the open turn, its calls, the queue, the policy, and recent
//! questions and answers. Every part that a client could make grow has a limit.

pub mod apply;
pub mod decide;
pub mod effect;
pub mod recover;
mod reply;
pub mod stats;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::approval::{Choice, ChoiceId, Edit, Risk};
use crate::call::{Access, CallState, Details};
use crate::content::Content;
use crate::event::{Authority, CloseReason};
use crate::id::{ApprovalId, CallId, MessageId, Millis, PromptId, Seq, TaskId, TurnId};
use crate::origin::Origin;
use crate::policy::{Policy, Rule};
use crate::session::stats::Stats;
use crate::settings::{AgentName, Settings, Workspace};
use crate::task::TaskProgress;

/// Prompts that may wait while a turn runs.
pub const QUEUE_LIMIT: usize = 32;
/// How many of them one client other than the session's owner may have, and all such clients together.
/// The rest is reserved for the owner.
pub const QUEUE_SHARE: usize = 16;
pub const QUEUE_OTHERS: usize = 24;
/// The same limits in bytes of content. One client's share fits the largest message that the server accepts.
pub const QUEUE_BYTES: usize = 40 << 20;
pub const QUEUE_SHARE_BYTES: usize = 16 << 20;
pub const QUEUE_OTHERS_BYTES: usize = 24 << 20;
/// Opened tasks without a message. Beyond that, the oldest one is closed.
pub const READY_LIMIT: usize = 32;
/// How many past prompts and answers are remembered, for retries and late answers.
pub const RECENT: usize = 1024;
/// How many past turns are part of the context.
pub const RECENT_TURNS: usize = 32;
/// Bytes of a summary that replaces the conversation before it.
pub const SUMMARY_LIMIT: usize = 32 * 1024;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Session {
    pub(crate) head: Seq,
    pub(crate) opened: Option<Opened>,
    pub(crate) closed: Option<CloseReason>,
    pub(crate) session_rules: Vec<Rule>,
    pub(crate) policy: Policy,
    pub(crate) turn: Option<OpenTurn>,
    pub(crate) queue: VecDeque<Queued>,
    /// A B-tree, like the other maps here: most sessions have one task, and comparing two ids costs less
    /// than hashing one.
    pub(crate) tasks: BTreeMap<TaskId, TaskRecord>,
    pub(crate) prompts: Recent<PromptId, TaskId>,
    /// Recently proposed calls. Ids must be unique, or a late answer could reach another call.
    pub(crate) calls: Recent<CallId, ()>,
    pub(crate) closed_questions: Recent<CallId, ClosedQuestion>,
    /// The turns that a model still reads, oldest first.
    pub(crate) turns: VecDeque<RecentTurn>,
    /// The prompt of the first turn since the last compaction.
    pub(crate) context_from: Option<Seq>,
    pub(crate) compacted: Option<Compacted>,
    pub(crate) stats: Stats,
    pub(crate) title: String,
    pub(crate) name: Option<String>,
    pub(crate) updated: Millis,
    pub(crate) created: Millis,
    /// Profile of its first message, as in [`Content`].
    pub(crate) profile: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// The owner of the session, if clients have names.
    pub principal: Option<Arc<str>>,
    pub workspace: Workspace,
    pub settings: Settings,
    pub agent: AgentName,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OpenTurn {
    pub id: TurnId,
    pub prompt: PromptId,
    pub task: TaskId,
    pub content: Arc<Content>,
    /// The principal that sent the prompt, and the size of its content.
    pub by: Option<Arc<str>>,
    pub bytes: usize,
    /// The shell line that the person typed, until it was started: it runs once.
    pub line: Option<String>,
    /// The guest that sent the prompt; None: the owner.
    pub guest: Option<Arc<str>>,
    pub started: Seq,
    /// Calls that have not ended, in the order of their proposals.
    pub calls: Vec<OpenCall>,
    /// Calls that were refused without a person since the last change that succeeded.
    pub refused: Option<Refusals>,
}

/// The calls of a turn that were refused without a person: the first one, and how many followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusals {
    pub title: String,
    pub reason: String,
    pub more: usize,
}

impl Refusals {
    /// The reason why the turn failed.
    pub fn message(&self) -> String {
        let Refusals { title, reason, more } = self;
        match more {
            0 => format!("{title} was refused: {reason}"),
            _ => format!("{title} and {more} more were refused: {reason}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct OpenCall {
    pub id: CallId,
    pub message: MessageId,
    pub tool: String,
    pub title: String,
    pub access: Access,
    pub input: Value,
    /// As proposed, or as edited by the person who approved it.
    pub details: Details,
    pub edit: Option<Edit>,
    pub choice: Option<ChoiceId>,
    pub state: CallState,
    pub approval: Option<OpenApproval>,
    /// The authority on which it was started.
    pub authority: Option<Authority>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct OpenApproval {
    pub id: ApprovalId,
    pub choices: Vec<Choice>,
    pub risk: Risk,
    /// When it was asked.
    pub asked: Millis,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    pub accepted: Seq,
    pub prompt: PromptId,
    pub task: TaskId,
    pub content: Arc<Content>,
    /// The principal that sent it; None: this process.
    pub by: Option<Arc<str>>,
    /// The size of its content.
    pub bytes: usize,
    pub shell: bool,
    /// As in [`OpenTurn`].
    pub guest: Option<Arc<str>>,
}

impl Queued {
    /// The shell line, if the prompt is one: its text without the prefix.
    fn line(&self) -> Option<String> {
        let text = self.shell.then(|| self.content.to_text())?;
        text.strip_prefix(crate::command::SHELL_PREFIX).map(str::to_owned)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecentTurn {
    pub accepted: Seq,
    pub started: Seq,
}

/// Replaces the conversation before the turns that the model still reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// Turns that began up to here are replaced.
    pub upto: Seq,
    /// Empty: they are left out without a summary.
    pub summary: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TaskRecord {
    pub progress: TaskProgress,
    /// The event that created it.
    pub since: Seq,
    /// Profile of the message or command that created it.
    pub profile: Option<String>,
    /// The question of its last turn that was closed most recently.
    pub last_question: Option<CallId>,
}

impl TaskRecord {
    pub fn new(since: Seq, profile: Option<String>) -> Self {
        Self { progress: TaskProgress::default(), since, profile, last_question: None }
    }
}

/// How a question stopped being open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClosedQuestion {
    pub approval: ApprovalId,
    pub at: Millis,
    pub how: Closing,
    /// The choices that were offered, to recognise a late answer in words.
    pub choices: Vec<Choice>,
    /// The details of a question to the user; empty generic details for any other call.
    pub details: Details,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Closing {
    Answered { choice: ChoiceId, edit: Option<Edit>, by: Origin },
    Withdrawn { why: String, by: Origin },
}

/// The summary of a session for lists, stored beside the log so that a list does not fold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The first line of its first prompt, shortened.
    pub title: String,
    pub workspace: String,
    pub model: String,
    pub created: Millis,
    pub updated: Millis,
    pub turns: u64,
    /// A turn is open or a prompt is queued: after a crash, the session must be recovered.
    pub busy: bool,
    pub waiting_for_answer: bool,
    pub closed: bool,
}

impl Session {
    pub fn head(&self) -> Seq {
        self.head
    }
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_ref()
    }
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }
    pub fn turn(&self) -> Option<&OpenTurn> {
        self.turn.as_ref()
    }
    pub fn queue(&self) -> impl ExactSizeIterator<Item = &Queued> {
        self.queue.iter()
    }
    /// The principal and the content size of every running or queued prompt.
    pub fn prompt_bytes(&self) -> impl Iterator<Item = (Option<&Arc<str>>, usize)> {
        let running = self.turn.iter().map(|turn| (turn.by.as_ref(), turn.bytes));
        running.chain(self.queue.iter().map(|queued| (queued.by.as_ref(), queued.bytes)))
    }
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
    pub fn task_of(&self, prompt: &PromptId) -> Option<&TaskId> {
        self.prompts.get(prompt)
    }
    /// The profile of the task's first message; None also if there is no such task.
    pub fn profile_of(&self, task: &TaskId) -> Option<&str> {
        self.tasks.get(task)?.profile.as_deref()
    }
    /// The profile of the session's first message.
    pub fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    /// Where the context of a new turn begins: the prompt of the oldest recent turn. The prompt may be
    /// older than the last compaction if it waited in the queue; its turn is newer.
    pub fn recent_from(&self) -> Seq {
        let upto = self.compacted.as_ref().map_or(Seq::ZERO, |compacted| compacted.upto);
        self.turns.front().map_or(upto, |turn| turn.accepted)
    }
    /// Where the whole context of a new turn begins, without a limit on the number of turns.
    pub fn context_from(&self) -> Seq {
        self.context_from.unwrap_or_else(|| self.recent_from())
    }
    /// Replaces the turns before [`Session::context_from`] for the model.
    pub fn compacted(&self) -> Option<&Compacted> {
        self.compacted.as_ref()
    }
    pub fn open_call(&self, call: &CallId) -> Option<&OpenCall> {
        self.turn.as_ref()?.calls.iter().find(|open| open.id == *call)
    }
    pub fn open_approvals(&self) -> impl Iterator<Item = (&OpenCall, &OpenApproval)> {
        let calls = self.turn.as_ref().map_or(&[][..], |turn| &turn.calls);
        calls.iter().filter_map(|call| Some((call, call.approval.as_ref()?)))
    }

    pub fn summary(&self) -> Summary {
        let opened = self.opened.as_ref();
        Summary {
            name: self.name.clone(),
            title: self.title.clone(),
            workspace: opened.map_or(String::new(), |opened| opened.workspace.path().to_owned()),
            model: opened.map_or(String::new(), |opened| opened.settings.model.0.clone()),
            created: self.created,
            updated: self.updated,
            turns: self.stats.turns,
            busy: self.turn.is_some() || !self.queue.is_empty(),
            waiting_for_answer: self.open_approvals().next().is_some(),
            closed: self.closed.is_some(),
        }
    }
}

/// A map that forgets its oldest entries.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recent<K, V> {
    entries: BTreeMap<K, V>,
    order: VecDeque<K>,
}

impl<K, V> Default for Recent<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), order: VecDeque::new() }
    }
}

impl<K: Clone + Ord, V> Recent<K, V> {
    pub fn get(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub fn values(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    pub fn insert(&mut self, key: K, value: V) {
        if self.entries.insert(key.clone(), value).is_none() {
            self.order.push_back(key);
        }
        if self.order.len() > RECENT
            && let Some(oldest) = self.order.pop_front()
        {
            self.entries.remove(&oldest);
        }
    }
}
