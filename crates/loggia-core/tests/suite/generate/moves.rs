//! The moves of clients and agents, valid or not.

use super::*;

#[derive(Debug, Clone)]
pub enum Move {
    Open {
        settings: Settings,
    },
    Prompt {
        by: u8,
        id: Pick,
        task: TaskPick,
        content: Content,
    },
    Shell {
        by: u8,
        id: Pick,
        line: &'static str,
    },
    Screened {
        by: u8,
        id: Pick,
        task: TaskPick,
        screening: Screening,
    },
    OpenTask {
        by: u8,
        task: Pick,
    },
    Answer(AnswerPick),
    /// A question times out.
    Expire(QuestionPick),
    Cancel {
        by: u8,
        what: CancelPick,
    },
    Configure {
        by: u8,
        settings: Settings,
    },
    Amend {
        by: u8,
        amendment: AmendPick,
    },
    Notice {
        by: u8,
        text: String,
    },
    Name {
        by: u8,
        name: &'static str,
    },
    Close {
        by: u8,
    },
    Report {
        turn: TurnPick,
        report: ReportPick,
    },
}

#[derive(Debug, Clone)]
pub enum Pick {
    FreshIds,
    Known(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum TaskPick {
    New,
    Named(Pick),
    Continue(Pick),
    Reopen(Pick),
}

#[derive(Debug, Clone)]
pub enum CancelPick {
    Turn,
    Prompt(Pick),
    Task(Pick),
}

#[derive(Debug, Clone)]
pub enum AmendPick {
    Add(Rule),
    Revoke(Pick),
}

#[derive(Debug, Clone)]
pub enum TurnPick {
    Current,
    Past(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum CallPick {
    FreshIds,
    Open(Index),
    Any(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub struct AnswerPick {
    pub by: u8,
    pub to: QuestionPick,
    pub by_call: bool,
    pub choice: ChoicePick,
    pub edit: EditPick,
    pub words: String,
    pub digest: DigestPick,
}

#[derive(Debug, Clone)]
pub enum QuestionPick {
    Open(Index),
    Any(Index),
    Unknown,
}

#[derive(Debug, Clone)]
pub enum ChoicePick {
    Offered(Index),
    Named(&'static str),
}

#[derive(Debug, Clone, Copy)]
pub enum EditPick {
    None,
    /// Of the kind that fits the question.
    Fitting,
    File,
    Command,
    Text,
}

#[derive(Debug, Clone, Copy)]
pub enum DigestPick {
    None,
    Right,
    Wrong,
}

#[derive(Debug, Clone, Copy)]
pub enum LinePick {
    Exact,
    OtherLine,
    OtherTool,
    OtherDirectory,
    OtherAccess,
}

#[derive(Debug, Clone)]
pub enum ReportPick {
    Text(u8, String),
    Publish(Artifact),
    Thought(u8, &'static str, String),
    Plan(Vec<PlanStep>),
    Cite(String),
    Usage(Usage),
    Notice(String),
    Name(&'static str),
    Choose(loggia_core::ModelChoice),
    Propose(CallPick, Proposal),
    /// A call for the typed line of the turn, or for a slightly different one.
    ProposeLine(CallPick, LinePick),
    Invalid(CallPick, Value),
    Output(CallPick, String, u64),
    End(CallPick, CallOutcome),
    Compact(String, bool),
    Expand(String),
    Revoke(Pick),
    Finish(TurnOutcome),
}
