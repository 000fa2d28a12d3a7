use crossterm::event::{KeyCode, KeyModifiers, MouseButton};
use loggia_core::{
    Access, Content, Details, Mode, ModelName, PromptId, Refusal, Risk, Surface, policy,
};

use super::*;

#[path = "app_command_tests.rs"]
mod commands;
#[path = "app_sending_tests.rs"]
mod sending;
#[path = "app_status_tests.rs"]
mod status;
#[path = "app_writing_tests.rs"]
mod writing;

fn start(head: u64) -> Start {
    Start {
        me: me(),
        head: Seq(head),
        opened: Millis(1_000_000),
        history: vec!["run ls".into()],
        fullscreen: false,
        vim: false,
        size: (60, 20),
        reflows: true,
        theme: Theme::default(),
        prices: loggia_core::Prices::default(),
        asks_background: false,
    }
}

fn me() -> Origin {
    Origin::new(Surface::Tui, "me")
}

fn other() -> Origin {
    Origin::new(Surface::A2a, "phone")
}

/// A model, a growing log and a clock.
struct Harness {
    model: Model,
    seq: u64,
    now: u64,
}

impl Harness {
    fn new() -> Self {
        Self::with_history(0)
    }

    fn with_history(head: u64) -> Self {
        let mut harness = Self { model: Model::new(start(head)), seq: 0, now: 1_000 };
        harness.event(
            me(),
            Event::SessionOpened {
                workspace: loggia_core::Workspace::Local { path: "/w".into() },
                settings: Settings {
                    model: ModelName("offline".into()),
                    effort: None,
                    mode: Mode::Ask,
                    rules: Vec::new(),
                    tools: None,
                    unattended: false,
                    timeout: None,
                    limits: Default::default(),
                },
                agent: loggia_core::AgentName("loggia".into()),
            },
        );
        harness
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        update(&mut self.model, msg, Uptime(self.now))
    }

    fn event(&mut self, origin: Origin, event: Event) -> Vec<Effect> {
        self.seq += 1;
        let at = Millis(1_000_000 + i64::try_from(self.now).unwrap());
        let envelope = Envelope { seq: Seq(self.seq), at, origin, event };
        self.send(Msg::Event(Arc::new(envelope)))
    }

    fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Effect> {
        self.send(Msg::Key(KeyEvent::new(code, modifiers)))
    }

    fn ctrl(&mut self, letter: char) -> Vec<Effect> {
        self.key(KeyCode::Char(letter), KeyModifiers::CONTROL)
    }

    fn press(&mut self, code: KeyCode) -> Vec<Effect> {
        self.key(code, KeyModifiers::NONE)
    }

    fn types(&mut self, text: &str) -> Vec<Effect> {
        let keys = text.chars().map(|letter| match letter {
            '\n' => KeyCode::Enter,
            letter => KeyCode::Char(letter),
        });
        let keys: Vec<KeyCode> = keys.collect();
        let mut effects: Vec<Effect> = keys.into_iter().flat_map(|code| self.press(code)).collect();
        effects.extend(self.pause());
        effects
    }

    /// Lets a pending letter's waiting time pass.
    fn pause(&mut self) -> Vec<Effect> {
        if !self.model.dialog.as_ref().is_some_and(Dialog::has_pending_letter) {
            return Vec::new();
        }
        self.now += crate::key_timing::ALONE;
        self.send(Msg::Tick)
    }

    /// Starts a turn.
    fn turn(&mut self, text: &str) {
        self.turn_for(me(), text);
    }

    fn turn_for(&mut self, origin: Origin, text: &str) {
        let prompt = PromptId::from(text);
        let task = loggia_core::TaskId::from("t");
        let content = Content::text(text).into();
        let accepted = Event::PromptAccepted {
            prompt: prompt.clone(),
            task: task.clone(),
            content,
            shell: false,
        };
        self.event(origin, accepted);
        self.event(Origin::agent(), Event::TurnStarted { turn: "u".into(), prompt, task });
    }

    fn ask(&mut self, call: &str) -> ApprovalId {
        let details = Details::Execute { command: "ls".into(), directory: "/w".into() };
        let choices = policy::choices("shell", &details, Risk::Normal, &loggia_shell::Parser);
        let proposed = Event::CallProposed {
            turn: "u".into(),
            message: "m".into(),
            call: call.into(),
            tool: "shell".into(),
            title: format!("run {call}"),
            access: Access::Execute,
            input: Default::default(),
            details,
        };
        self.event(Origin::agent(), proposed);
        let approval = ApprovalId::from(call);
        let asked = Event::ApprovalAsked {
            approval: approval.clone(),
            call: call.into(),
            choices,
            risk: Risk::Normal,
        };
        self.event(Origin::agent(), asked);
        approval
    }

    fn answered(&mut self, origin: Origin, call: &str, choice: &str) {
        let answered = Event::ApprovalAnswered {
            approval: call.into(),
            call: call.into(),
            choice: choice.into(),
            edit: None,
            details: None,
            message: None,
        };
        self.event(origin, answered);
    }

    fn cancelled(&mut self, origin: Origin, call: &str) {
        let outcome = loggia_core::CallOutcome::Cancelled { reason: "cancelled".into() };
        self.event(origin, Event::CallEnded { call: call.into(), outcome });
    }

    /// Draws like the runner and lets the guard time pass.
    fn look(&mut self) {
        self.draw();
        self.now += crate::key_timing::GUARD;
    }

    fn draw(&mut self) -> crate::view::Frame {
        let frame = crate::view::inline(&mut self.model, Uptime(self.now));
        self.send(Msg::Drawn(frame.shown(Some(0))));
        frame
    }

    fn remark(&self) -> &str {
        self.model.remark.as_ref().map_or("", |(text, _)| text)
    }
}

fn answer(effects: &[Effect]) -> Option<(&str, &str)> {
    effects.iter().find_map(|effect| match effect {
        Effect::Answer { approval, choice, .. } => Some((approval.as_str(), choice.0.as_str())),
        _ => None,
    })
}

#[test]
fn a_prompt_is_sent_and_remembered() {
    let effects = Harness::new().types("write a.txt: hi\n");
    let text = "write a.txt: hi".to_owned();
    assert_eq!(effects, [Effect::Remember(text.clone()), Effect::Prompt(text)]);
}

#[test]
fn esc_interrupts_a_turn_and_nothing_else() {
    let mut harness = Harness::new();
    assert_eq!(harness.press(KeyCode::Esc), []);
    harness.turn("go");
    harness.types("/mo");
    assert_eq!(harness.press(KeyCode::Esc), [], "closes the list first");
    assert_eq!(harness.press(KeyCode::Esc), [Effect::Cancel(Cancel::Turn)]);
}

#[test]
fn ctrl_c_clears_interrupts_and_leaves_when_pressed_twice() {
    let mut harness = Harness::new();
    harness.types("draft");
    assert_eq!(harness.ctrl('c'), []);
    assert!(harness.model.composer.editor.is_empty());
    assert_eq!(harness.ctrl('c'), []);
    assert_eq!(harness.ctrl('c'), [Effect::Leave(Exit::Asked)]);
    // After the time, or after another key, it starts again.
    let mut harness = Harness::new();
    harness.ctrl('c');
    harness.now += LEAVING;
    assert_eq!(harness.ctrl('c'), []);
    harness.types("x");
    harness.ctrl('c');
    assert_eq!(harness.ctrl('c'), []);
    let mut harness = Harness::new();
    harness.turn("go");
    assert_eq!(harness.ctrl('c'), [Effect::Cancel(Cancel::Turn)]);
    assert_eq!(harness.ctrl('c'), [Effect::Leave(Exit::Asked)]);
}

#[test]
fn ctrl_d_leaves_only_an_empty_line() {
    let mut harness = Harness::new();
    harness.types("x");
    assert_eq!(harness.ctrl('d'), []);
    harness.ctrl('c');
    assert_eq!(harness.ctrl('d'), [Effect::Leave(Exit::Asked)]);
}

#[test]
fn shift_tab_goes_round_the_modes_but_never_to_all() {
    let mut harness = Harness::new();
    for wanted in [Mode::Edits, Mode::Plan, Mode::Ask] {
        let effects = harness.press(KeyCode::BackTab);
        let [Effect::Configure(settings)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(settings.mode, wanted);
        let settings = settings.clone();
        harness.event(me(), Event::SettingsChanged { settings });
    }
}

#[test]
fn a_question_is_answered_once_by_a_key_that_came_after_it() {
    let mut harness = Harness::new();
    harness.turn("go");
    // Keys before and during its appearance are text.
    harness.types("yes");
    harness.ask("ls");
    assert_eq!(answer(&harness.types("y")), None, "not on the screen yet");
    harness.draw();
    assert_eq!(answer(&harness.types("y\n")), None, "on the screen for no time at all");
    assert_eq!(harness.model.composer.editor.text(), "", "the line was sent as a prompt");
    harness.look();
    harness.now += crate::key_timing::GUARD;
    assert_eq!(answer(&harness.types("y")), Some(("ls", "proceed_once")));
    assert_eq!(harness.types("yyn"), [], "one answer to one question");
    harness.answered(me(), "ls", "proceed_once");
    assert_eq!(harness.model.dialog, None);
    assert_eq!(harness.remark(), "", "one knows what one has answered");
}

#[test]
fn an_answer_carries_the_digest_of_what_was_shown() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("ls");
    harness.look();
    let effects = harness.types("n");
    let shown = harness.model.questions.first().unwrap().details.digest();
    assert!(matches!(effects.as_slice(), [Effect::Answer { digest, .. }] if *digest == shown));
}

#[test]
fn a_dialog_closes_when_another_client_answers_and_names_it() {
    for (choice, said) in [("proceed_once", "approved"), ("cancel", "refused")] {
        let mut harness = Harness::new();
        harness.turn("go");
        harness.ask("ls");
        harness.look();
        harness.answered(other(), "ls", choice);
        assert_eq!(harness.model.dialog, None);
        assert_eq!(harness.remark(), format!("{said} by A2A:phone: run ls"));
    }
}

/// The effect of a key after its dialog was closed: `how` it was closed, `at` what time after the
/// frame that removed it (none: before that frame), and the composer's text afterwards.
#[test]
fn a_key_for_a_dialog_closed_by_another_client_is_ignored() {
    use crate::key_timing::AFTER;
    const TABLE: &[(&str, Option<u64>, KeyCode, &str)] = &[
        ("answered there", None, KeyCode::Char('y'), ""),
        ("answered there", Some(0), KeyCode::Char('y'), ""),
        ("answered there", Some(AFTER - 1), KeyCode::Char('n'), ""),
        ("answered there", Some(AFTER), KeyCode::Char('y'), "y"),
        // Keys that the dialog does not use.
        ("answered there", Some(0), KeyCode::Char('x'), "x"),
        ("answered there", Some(0), KeyCode::Backspace, ""),
        ("cancelled there", Some(0), KeyCode::Char('y'), ""),
        ("cancelled there", Some(AFTER), KeyCode::Char('y'), "y"),
        // Answered here, so the person knows.
        ("answered here", Some(0), KeyCode::Char('y'), "y"),
        ("cancelled here", Some(0), KeyCode::Char('y'), "y"),
        // The dialog did not accept keys yet, so they went to the composer.
        ("answered there too soon", Some(0), KeyCode::Char('y'), "y"),
    ];
    for (how, at, key, wanted) in TABLE {
        let mut harness = Harness::new();
        harness.turn("go");
        harness.ask("ls");
        match how.ends_with("too soon") {
            true => drop(harness.draw()),
            false => harness.look(),
        }
        let by = if how.contains("there") { other() } else { me() };
        match how.starts_with("answered") {
            true => harness.answered(by, "ls", "proceed_once"),
            false => harness.cancelled(by, "ls"),
        }
        if let Some(at) = at {
            harness.draw();
            harness.now += at;
        }
        harness.model.remark = None;
        assert_eq!(harness.press(*key), [], "{how} {at:?} {key:?}");
        assert_eq!(harness.model.composer.editor.text(), *wanted, "{how} {at:?} {key:?}");
        let told = harness.remark().contains("by A2A:phone");
        let swallowed = wanted.is_empty() && *key != KeyCode::Backspace;
        assert_eq!(told, swallowed, "{how} {at:?} {key:?}");
    }
}

/// Esc would have interrupted the turn, and Enter would have sent the draft.
#[test]
fn a_swallowed_key_interrupts_and_sends_nothing() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.types("draft");
    harness.ask("ls");
    harness.look();
    harness.press(KeyCode::Up);
    harness.answered(other(), "ls", "proceed_once");
    harness.draw();
    assert_eq!(harness.press(KeyCode::Esc), []);
    assert_eq!(harness.press(KeyCode::Enter), []);
    assert_eq!(harness.model.composer.editor.text(), "draft");
    // The first other key ends it early.
    harness.types("sy");
    assert_eq!(harness.model.composer.editor.text(), "draftsy");
    assert!(!harness.press(KeyCode::Enter).is_empty());
}

/// The next question opens at once: a key for the previous one neither answers it nor becomes text.
#[test]
fn a_swallowed_key_does_not_reach_the_next_question() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("one");
    harness.ask("two");
    harness.look();
    harness.answered(other(), "one", "proceed_once");
    harness.draw();
    harness.now += crate::key_timing::GUARD;
    assert_eq!(harness.types("y"), []);
    assert_eq!(harness.model.composer.editor.text(), "");
    // The key restarts the guard time of the next question.
    harness.now += crate::key_timing::GUARD - 1;
    assert_eq!(answer(&harness.types("y")), None);
    harness.press(KeyCode::Backspace);
    harness.now += crate::key_timing::GUARD;
    assert_eq!(answer(&harness.types("n")), Some(("two", "cancel")));
}

#[test]
fn a_second_answer_names_the_first() {
    let mut harness = Harness::new();
    harness.turn("go");
    let approval = harness.ask("ls");
    harness.look();
    harness.types("y");
    let by = other();
    let refusal = Refusal::AlreadyAnswered { choice: "cancel".into(), by, at: Millis(0) };
    let result = Err(SubmitError::Refused(refusal));
    harness.send(Msg::Submitted { what: Submitted::Answer(approval), result });
    assert_eq!(harness.remark(), "already answered: cancel by A2A:phone");
}

/// With Vim keys, the first Esc leaves insert mode and the second interrupts the turn.
#[test]
fn with_vims_keys_the_second_esc_interrupts() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.types("/vim\n");
    assert_eq!(harness.remark(), "Vim keys on: Esc for normal mode");
    let status = |harness: &mut Harness| {
        let frame = harness.draw();
        frame.lines.last().unwrap().to_string()
    };
    harness.types("one two");
    assert!(status(&mut harness).starts_with("INSERT · ask"), "{}", status(&mut harness));
    assert_eq!(harness.press(KeyCode::Esc), []);
    assert!(status(&mut harness).starts_with("NORMAL · ask"), "{}", status(&mut harness));
    assert_eq!(harness.press(KeyCode::Esc), [Effect::Cancel(Cancel::Turn)]);
    harness.types("0dw");
    assert_eq!(harness.model.composer.editor.text(), "two");
    let sent = harness.types("\n");
    assert!(sent.contains(&Effect::Prompt("two".into())), "{sent:?}");
    harness.types("/vim\n");
    assert_eq!(harness.model.composer.vim, None);
}

#[test]
fn questions_come_one_after_the_other_and_each_is_guarded() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("one");
    harness.ask("two");
    harness.look();
    assert_eq!(answer(&harness.types("y")), Some(("one", "proceed_once")));
    harness.answered(me(), "one", "proceed_once");
    // The same key again, meant for the first question, does not answer the second.
    harness.draw();
    assert_eq!(answer(&harness.types("y")), None);
    harness.press(KeyCode::Backspace);
    harness.now += crate::key_timing::GUARD;
    assert_eq!(answer(&harness.types("n")), Some(("two", "cancel")));
}

#[test]
fn a_replayed_question_is_on_the_screen_and_replayed_answers_are_not_news() {
    let mut harness = Harness::with_history(8);
    harness.turn("go");
    harness.ask("old");
    harness.answered(other(), "old", "proceed_once");
    assert_eq!(harness.model.dialog, None);
    harness.ask("open");
    assert_eq!(harness.remark(), "");
    assert!(harness.model.dialog.is_some(), "{:?}", harness.model.facts.head);
}

#[test]
fn the_bell_rings_without_focus() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.send(Msg::Focus(false));
    harness.ask("ls");
    let over = Event::TurnEnded { turn: "u".into(), outcome: loggia_core::TurnOutcome::Completed };
    assert_eq!(harness.event(Origin::agent(), over.clone()), [Effect::Bell]);
    harness.send(Msg::Focus(true));
    assert_eq!(harness.event(Origin::agent(), over), []);
}

#[test]
fn a_prompt_that_was_refused_comes_back() {
    let mut harness = Harness::new();
    harness.types("one\n");
    let result = Err(SubmitError::Refused(Refusal::QueueFull {
        queued: 32,
        bound: loggia_core::QueueBound::Prompts,
    }));
    let what = Submitted::Prompt { prompt: "p".into(), text: "one".into() };
    harness.send(Msg::Submitted { what, result });
    assert_eq!(harness.model.composer.editor.text(), "one");
    assert!(harness.remark().contains("32 prompts are already queued"), "{}", harness.remark());
}

#[test]
fn the_last_queued_prompt_of_ours_can_be_taken_back() {
    let mut harness = Harness::new();
    harness.turn("go");
    for (origin, text) in [(me(), "mine"), (other(), "theirs")] {
        let content = Content::text(text).into();
        let accepted =
            Event::PromptAccepted { prompt: text.into(), task: "t".into(), content, shell: false };
        harness.event(origin, accepted);
    }
    let effects = harness.key(KeyCode::Up, KeyModifiers::ALT);
    assert_eq!(effects, [Effect::Cancel(Cancel::Prompt("mine".into()))]);
    assert_eq!(harness.model.composer.editor.text(), "mine");
}

/// Interrupting reports the queued prompts, which run next, and how to remove them.
#[test]
fn interrupting_reports_the_queue() {
    let mut harness = Harness::new();
    harness.turn("go");
    let content = Content::text("mine").into();
    let accepted =
        Event::PromptAccepted { prompt: "mine".into(), task: "t".into(), content, shell: false };
    harness.event(me(), accepted);
    assert_eq!(harness.press(KeyCode::Esc), [Effect::Cancel(Cancel::Turn)]);
    assert!(harness.remark().starts_with("1 prompt queued"), "{}", harness.remark());
    // A remark disappears after its time even during activity.
    harness.now += REMARK;
    harness.event(Origin::agent(), Event::Unknown);
    assert_eq!(harness.remark(), "");
}

#[test]
fn joins_and_leaves_are_noted() {
    let mut harness = Harness::new();
    let phone = ConnectedClient { surface: Surface::A2a, name: "phone".into() };
    harness.send(Msg::Present(vec![phone]));
    assert_eq!(harness.remark(), "phone joined");
    harness.send(Msg::Present(Vec::new()));
    assert_eq!(harness.remark(), "phone left");
    harness.now += REMARK;
    harness.send(Msg::Tick);
    assert_eq!(harness.remark(), "");
}

#[test]
fn trouble_on_the_way_is_in_the_last_line_until_it_is_over() {
    let mut harness = Harness::new();
    let line = |harness: &Harness| {
        let line = crate::status::line(&harness.model, 30, Uptime(harness.now));
        line.spans.iter().map(|span| span.content.as_ref()).collect::<String>()
    };
    let calm = line(&harness);
    harness.send(Msg::ConnectionProblem("connection lost (\u{1b}[2Jclosed), trying again".into()));
    let shown = line(&harness);
    assert!(shown.starts_with("connection lost (") && !shown.contains('\u{1b}'), "{shown}");
    assert!(crate::wrap::width(&shown) <= 30, "{shown}");
    harness.send(Msg::ConnectionProblem(String::new()));
    assert_eq!(line(&harness), calm);
}

#[test]
fn nothing_moves_when_nothing_happens() {
    let mut harness = Harness::new();
    assert_eq!(harness.model.next_move(Uptime(harness.now)), None);
    harness.turn("go");
    assert!(harness.model.next_move(Uptime(harness.now)).is_some());
    let over = Event::TurnEnded { turn: "u".into(), outcome: loggia_core::TurnOutcome::Completed };
    harness.event(Origin::agent(), over);
    assert_eq!(harness.model.next_move(Uptime(harness.now)), None);
}

#[test]
fn an_answer_can_be_clicked() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("ls");
    let frame = harness.draw();
    let shown: Vec<String> = frame.lines.iter().map(ToString::to_string).collect();
    let row = shown.iter().position(|line| line.contains("Refuse")).unwrap();
    let click = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 4,
        row: u16::try_from(row).unwrap(),
        modifiers: KeyModifiers::NONE,
    };
    assert_eq!(harness.send(Msg::Mouse(click)), [], "too early");
    harness.now += crate::key_timing::GUARD;
    assert_eq!(answer(&harness.send(Msg::Mouse(click))), Some(("ls", "cancel")));
}

/// The wheel scrolls the topmost part: help, question or transcript.
#[test]
fn the_wheel_scrolls_what_is_in_front() {
    let mut harness = Harness::new();
    for number in 0..40 {
        let text = format!("line {number}");
        harness.event(
            Origin::system(),
            Event::NoticeRaised { level: loggia_core::Level::Info, text, wait: None },
        );
    }
    harness.ctrl('t');
    let wheel = |harness: &mut Harness, kind| {
        let event = MouseEvent { kind, column: 1, row: 1, modifiers: KeyModifiers::NONE };
        assert_eq!(harness.send(Msg::Mouse(event)), []);
        let (buffer, _) = crate::view::fullscreen(&mut harness.model, Uptime(harness.now));
        let row = |row: u16| (0..60).map(|column| buffer[(column, row)].symbol()).collect();
        (0..20).map(row).collect::<Vec<String>>()
    };
    let shows = |rows: &[String], text: &str| rows.iter().any(|row| row.contains(text));
    let end = wheel(&mut harness, MouseEventKind::ScrollDown);
    assert!(shows(&end, "line 39"), "{end:#?}");
    let up = wheel(&mut harness, MouseEventKind::ScrollUp);
    assert!(shows(&up, "line 36") && !shows(&up, "line 37"), "{up:#?}");
    assert_eq!(wheel(&mut harness, MouseEventKind::ScrollDown), end);

    harness.types("/nowhere\n");
    let searched = wheel(&mut harness, MouseEventKind::ScrollDown);
    assert!(shows(&searched, "/nowhere  not found"), "{searched:#?}");
    let (level, text) = (loggia_core::Level::Info, "out of nowhere".to_owned());
    harness.event(Origin::system(), Event::NoticeRaised { level, text, wait: None });
    let searched = wheel(&mut harness, MouseEventKind::ScrollDown);
    assert!(shows(&searched, "/nowhere  n next"), "{searched:#?}");
    harness.press(KeyCode::Esc);
    harness.types("/line 3\n");
    let searched = wheel(&mut harness, MouseEventKind::ScrollDown);
    assert!(shows(&searched, "/line 3  n next"), "{searched:#?}");
    harness.press(KeyCode::Esc);

    harness.press(KeyCode::F(1));
    let help = wheel(&mut harness, MouseEventKind::ScrollUp);
    assert!(shows(&help, "Everywhere"), "{help:#?}");
    assert!(shows(&help, "any other key closes"), "{help:#?}");
    let down = wheel(&mut harness, MouseEventKind::ScrollDown);
    assert!(!shows(&down, "Everywhere") && down != help, "{down:#?}");
}

#[test]
fn the_cursor_is_there_again_after_the_transcript() {
    let mut harness = Harness::new();
    let mut renderer = crate::renderer::Renderer::new((60, 20), Some(0), true);
    let some = |number| std::num::NonZero::new(number).unwrap();
    let mut parser = vt100::Parser::new(some(20), some(60), 0);
    for (key, hidden) in [('x', false), ('t', true), ('q', false), ('t', true), ('t', false)] {
        match key {
            't' => harness.ctrl('t'),
            key => harness.press(KeyCode::Char(key)),
        };
        let painted = renderer.draw(&mut harness.model, Uptime(harness.now));
        parser.process(&painted.bytes);
        assert_eq!(parser.screen().hide_cursor(), hidden, "after {key}");
    }
}

#[test]
fn every_size_has_a_picture() {
    for width in 1..30 {
        for height in 1..12 {
            let mut harness = Harness::new();
            harness.model.size = (width, height);
            harness.turn("go");
            harness.types("/m");
            for step in 0..3 {
                match step {
                    0 => {}
                    1 => drop(harness.ask("ls")),
                    _ => harness.model.overlay = Some(Overlay::help(&Default::default())),
                }
                let frame = harness.draw();
                assert!(frame.lines.len() <= usize::from(height), "{width}x{height} {step}");
                harness.model.full = Some(FullTranscript::default());
                let full = crate::view::fullscreen(&mut harness.model, Uptime(harness.now));
                assert!(full.1.lines.len() <= usize::from(height), "{width}x{height} {step}");
                harness.model.full = None;
            }
        }
    }
}
