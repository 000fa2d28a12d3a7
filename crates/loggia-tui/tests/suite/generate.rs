//! Cells for tests, and cells with hostile contents.

use loggia_core::{
    CallCell, CallFailure, CallId, CallOutcome, CallState, Cell, CellBody, ChoiceId, Details,
    FileDiff, Level, Millis, Origin, Output, PlanStep, Seq, Source, StepState, Surface,
    TurnOutcome,
};
use proptest::prelude::*;

pub fn cell(body: CellBody) -> Cell {
    from(Origin::agent(), body)
}

pub fn from(origin: Origin, body: CellBody) -> Cell {
    Cell { id: Seq(1), at: Millis(1_767_603_600_000), origin, body }
}

pub fn text(text: &str) -> Cell {
    cell(CellBody::Text { text: text.to_owned(), discarded: false })
}

pub fn shell(command: &str) -> CallCell {
    CallCell {
        typed: false,
        skipped: 0,
        call: CallId::new("call-1"),
        tool: "shell".to_owned(),
        title: format!("Run `{command}`"),
        details: Details::Execute { command: command.to_owned(), directory: "/w".to_owned() },
        state: CallState::Proposed,
        answered: None,
        live: String::new(),
        outcome: None,
        started: None,
        ended: None,
    }
}

pub fn call(call: CallCell) -> Cell {
    cell(CellBody::Call(Box::new(call)))
}

/// Generates texts that consist mostly of problematic characters.
pub fn nasty() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => "[a-z ]{0,8}",
        2 => any::<char>().prop_map(String::from),
        1 => any::<[u8; 4]>().prop_map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
        2 => "\u{1b}\\[[0-9;:?]{0,6}[@-~]",
        1 => "\u{1b}[\\]P_^X][a-z0-9;]{0,6}(\u{7}|\u{1b}\\\\|)",
        2 => prop::sample::select(vec![
            "\n", "\r", "\r\n", "\t", "\u{8}", "\u{0}", "\u{7f}", "\u{9b}", "\u{202e}", "\u{200b}",
            "漢字", "👩‍💻", "🇩🇪", "e\u{301}", "```", "- ", "> ", "# ", "| a | b |\n|---|---|\n", "**",
        ]).prop_map(String::from),
    ];
    prop::collection::vec(piece, 0..16).prop_map(|pieces| pieces.concat())
}

fn origin() -> impl Strategy<Value = Origin> {
    let surface = prop::sample::select(vec![Surface::Tui, Surface::A2a, Surface::Web]);
    (surface, nasty(), prop::option::of(nasty())).prop_map(|(surface, client, principal)| Origin {
        principal: principal.map(Into::into),
        ..Origin::new(surface, client.as_str())
    })
}

fn details() -> impl Strategy<Value = Details> {
    prop_oneof![
        (nasty(), nasty()).prop_map(|(command, directory)| Details::Execute { command, directory }),
        (nasty(), prop::option::of(nasty()), nasty()).prop_map(|(path, old, new)| Details::Edit(
            FileDiff::between(&path, &path, old.as_deref(), &new)
        )),
        (nasty(), nasty()).prop_map(|(server, tool)| Details::Mcp { server, tool }),
        (nasty(), prop::collection::vec(nasty(), 0..3))
            .prop_map(|(text, options)| Details::Question { text, options }),
        nasty().prop_map(|text| Details::Generic { text }),
    ]
}

fn outcome() -> impl Strategy<Value = CallOutcome> {
    prop_oneof![
        nasty().prop_map(|text| CallOutcome::Succeeded { output: Output::text(text) }),
        nasty().prop_map(|text| CallOutcome::Failed { failure: CallFailure::new("x", text) }),
        nasty().prop_map(|reason| CallOutcome::Cancelled { reason }),
    ]
}

fn any_call() -> impl Strategy<Value = CellBody> {
    let state = prop::sample::select(vec![
        CallState::Proposed,
        CallState::Asked,
        CallState::Started,
        CallState::Ended,
    ]);
    let choice = prop::sample::select(vec!["proceed_once", "cancel", "answer"]);
    let answered = prop::option::of((choice.prop_map(ChoiceId::from), origin()));
    let parts = (details(), state, answered, nasty(), nasty(), prop::option::of(outcome()));
    parts.prop_map(|(details, state, answered, title, live, outcome)| {
        let started = (state == CallState::Started).then_some(Millis(1_767_603_600_000));
        let call = CallCell { details, state, answered, title, live, started, ..shell("x") };
        CellBody::Call(Box::new(CallCell { outcome, ..call }))
    })
}

pub fn any_cell() -> impl Strategy<Value = Cell> {
    let level = prop::sample::select(vec![Level::Info, Level::Warning, Level::Error]);
    let step = (
        nasty(),
        prop::sample::select(vec![
            StepState::Pending,
            StepState::InProgress,
            StepState::Completed,
            StepState::Cancelled,
        ]),
    );
    let steps =
        prop::collection::vec(step.prop_map(|(text, state)| PlanStep { text, state }), 0..4);
    let source = (nasty(), nasty()).prop_map(|(title, uri)| Source { title, uri });
    let body = prop_oneof![
        (nasty(), any::<bool>(), any::<bool>())
            .prop_map(|(text, queued, withdrawn)| CellBody::Prompt { text, queued, withdrawn }),
        nasty().prop_map(|text| CellBody::Text { text, discarded: false }),
        (nasty(), nasty()).prop_map(|(subject, text)| CellBody::Thought {
            subject,
            text,
            discarded: false
        }),
        steps.prop_map(|steps| CellBody::Plan { steps }),
        prop::collection::vec(source, 0..4).prop_map(|sources| CellBody::Sources { sources }),
        (level, nasty()).prop_map(|(level, text)| CellBody::Notice { level, text }),
        Just(CellBody::TurnEnd { outcome: TurnOutcome::Cancelled }),
        nasty().prop_map(|message| CellBody::TurnEnd { outcome: TurnOutcome::failed(message) }),
        any_call(),
    ];
    (origin(), body).prop_map(|(origin, body)| from(origin, body))
}
