//! The state a session decides by: the open turn, its calls, the queue, the policy, and what was
//! recently asked and answered. Small, and bounded wherever clients could make it grow.

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
use crate::event::{Authority, CloseReason, Usage};
use crate::id::{ApprovalId, CallId, MessageId, Millis, PromptId, Seq, TaskId, TurnId};
use crate::origin::Origin;
use crate::policy::{Policy, Rule};
use crate::session::stats::Stats;
use crate::settings::{AgentName, Settings, Workspace};
use crate::task::TaskState;

/// Prompts that may wait behind a running turn.
pub const QUEUE_LIMIT: usize = 32;
/// Of them, how many may be of clients other than the session's owner: of one client, and of all of them together.
/// The rest is kept for the owner.
pub const QUEUE_SHARE: usize = 16;
pub const QUEUE_OTHERS: usize = 24;
/// The same in bytes of content. A share holds the largest message that a server accepts.
pub const QUEUE_BYTES: usize = 40 << 20;
pub const QUEUE_SHARE_BYTES: usize = 16 << 20;
pub const QUEUE_OTHERS_BYTES: usize = 24 << 20;
/// Tasks that may wait for their first message; beyond, the one that waits longest is given up.
pub const READY_LIMIT: usize = 32;
/// How many past prompts, answers and turns are remembered for retries, late answers and context.
pub const RECENT: usize = 1024;
pub const RECENT_TURNS: usize = 32;
/// Bytes of a summary that stands for the conversation before it.
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
    /// Ordered, like the other maps of a fold: most sessions have one task, and comparing two names costs
    /// less than hashing one.
    pub(crate) tasks: BTreeMap<TaskId, KnownTask>,
    pub(crate) prompts: Recent<PromptId, TaskId>,
    /// Every call proposed lately: an id names one call, or a late answer could reach another.
    pub(crate) calls: Recent<CallId, ()>,
    pub(crate) closed_questions: Recent<CallId, ClosedQuestion>,
    /// The turns that a model still reads, oldest first.
    pub(crate) turns: VecDeque<RecentTurn>,
    pub(crate) compacted: Option<Compacted>,
    pub(crate) stats: Stats,
    pub(crate) title: String,
    pub(crate) name: Option<String>,
    pub(crate) updated: Millis,
    pub(crate) created: Millis,
    pub(crate) last_task: Option<TaskId>,
    /// Of its first message, as on [`Content`].
    pub(crate) profile: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Opened {
    /// Whose session it is, where clients have names.
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
    /// Of the prompt: the principal that sent it, and what its content weighs.
    pub by: Option<Arc<str>>,
    pub bytes: usize,
    /// The person's own command line, until it has been let run: once is what they typed.
    pub line: Option<String>,
    /// The guest whose prompt it is; None: the owner's.
    pub guest: Option<Arc<str>>,
    pub started: Seq,
    /// Calls that have not ended, in the order they were proposed.
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
    /// Why a turn that ends like this is no success.
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
    /// What it runs on, once it has started.
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
    /// The principal that sent it; None: this process itself.
    pub by: Option<Arc<str>>,
    /// What its content weighs.
    pub bytes: usize,
    pub shell: bool,
    /// As in [`OpenTurn`].
    pub guest: Option<Arc<str>>,
}

impl Queued {
    /// The command line, where the prompt is one: the text that everybody is shown, without its mark.
    fn line(&self) -> Option<String> {
        let text = self.shell.then(|| self.content.to_text())?;
        text.strip_prefix(crate::command::SHELL_MARK).map(str::to_owned)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RecentTurn {
    pub accepted: Seq,
    pub started: Seq,
}

/// What stands for the conversation before the turns that a model still reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compacted {
    /// Turns that began up to here are not read any more.
    pub upto: Seq,
    /// Empty: nothing stands for them.
    pub summary: String,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KnownTask {
    /// Prompts of this task that wait or run.
    pub waiting: usize,
    pub last: Option<TaskState>,
    /// A turn of it has started, and prompts of it have waited or run ever since.
    pub at_work: bool,
    /// The event that began it.
    pub since: Seq,
    /// Of whatever began it.
    pub profile: Option<String>,
    /// The question of its last turn that was closed last.
    pub last_question: Option<CallId>,
}

impl KnownTask {
    pub fn new(since: Seq, profile: Option<String>) -> Self {
        Self { waiting: 0, last: None, at_work: false, since, profile, last_question: None }
    }

    /// Opened, and still without a message.
    pub fn is_ready(&self) -> bool {
        self.waiting == 0 && self.last.is_none()
    }
}

/// How a question stopped being open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ClosedQuestion {
    pub approval: ApprovalId,
    pub at: Millis,
    pub how: Closing,
    /// What a late answer in words is recognised by.
    pub choices: Vec<Choice>,
    /// The details of a question to the user; generic ones without text for any other call.
    pub details: Details,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Closing {
    Answered { choice: ChoiceId, edit: Option<Edit>, by: Origin },
    Withdrawn { why: String },
}

/// What a listing shows of a session, kept beside the log so that a list need not fold it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// What somebody calls it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The beginning of its first prompt.
    pub title: String,
    pub workspace: String,
    pub model: String,
    pub created: Millis,
    pub updated: Millis,
    pub turns: u64,
    /// A turn is open: after a crash, somebody has to recover this session.
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
    /// What the content of every prompt that runs or waits weighs in bytes, with the principal that sent it.
    pub fn held(&self) -> impl Iterator<Item = (Option<&Arc<str>>, usize)> {
        let running = self.turn.iter().map(|turn| (turn.by.as_ref(), turn.bytes));
        running.chain(self.queue.iter().map(|queued| (queued.by.as_ref(), queued.bytes)))
    }
    /// What somebody calls it.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }
    pub fn policy(&self) -> &Policy {
        &self.policy
    }
    pub fn usage(&self) -> Usage {
        self.stats.usage
    }
    /// The task a client means when it names none: of the current turn, or of the last.
    pub fn current_task(&self) -> Option<&TaskId> {
        self.turn.as_ref().map(|turn| &turn.task).or(self.last_task.as_ref())
    }
    pub fn task_of(&self, prompt: &PromptId) -> Option<&TaskId> {
        self.prompts.get(prompt)
    }
    /// The profile that a task began in; None also for a task that is not there.
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
    /// Where the context of a new turn begins: the prompt of the oldest of the recent turns. That
    /// prompt may have waited since before the last compaction; its turn began after it.
    pub fn recent_from(&self) -> Seq {
        let upto = self.compacted.as_ref().map_or(Seq::ZERO, |compacted| compacted.upto);
        self.turns.front().map_or(upto, |turn| turn.accepted)
    }
    /// What a model is told instead of the turns before [`Session::recent_from`].
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
