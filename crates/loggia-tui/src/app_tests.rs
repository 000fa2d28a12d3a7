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
struct Desk {
    model: Model,
    seq: u64,
    now: u64,
}

impl Desk {
    fn new() -> Self {
        Self::with_history(0)
    }

    fn with_history(head: u64) -> Self {
        let mut desk = Self { model: Model::new(start(head)), seq: 0, now: 1_000 };
        desk.event(
            me(),
            Event::SessionOpened {
                workspace: loggia_core::Workspace::Local { path: "/w".into() },
                settings: Settings {
                    model: ModelName("offline".into()),
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
        desk
    }

    fn send(&mut self, msg: Msg) -> Vec<Effect> {
        update(&mut self.model, msg, Moment(self.now))
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
        if !self.model.dialog.as_ref().is_some_and(Dialog::holds) {
            return Vec::new();
        }
        self.now += crate::guard::ALONE;
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
        self.now += crate::guard::GUARD;
    }

    fn draw(&mut self) -> crate::view::Frame {
        let frame = crate::view::inline(&mut self.model, Moment(self.now));
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
    let effects = Desk::new().types("write a.txt: hi\n");
    let text = "write a.txt: hi".to_owned();
    assert_eq!(effects, [Effect::Remember(text.clone()), Effect::Prompt(text)]);
}

#[test]
fn esc_interrupts_a_turn_and_nothing_else() {
    let mut desk = Desk::new();
    assert_eq!(desk.press(KeyCode::Esc), []);
    desk.turn("go");
    desk.types("/mo");
    assert_eq!(desk.press(KeyCode::Esc), [], "closes the list first");
    assert_eq!(desk.press(KeyCode::Esc), [Effect::Cancel(Cancel::Turn)]);
}

#[test]
fn ctrl_c_clears_interrupts_and_leaves_when_pressed_twice() {
    let mut desk = Desk::new();
    desk.types("draft");
    assert_eq!(desk.ctrl('c'), []);
    assert!(desk.model.composer.editor.is_empty());
    assert_eq!(desk.ctrl('c'), []);
    assert_eq!(desk.ctrl('c'), [Effect::Leave(Exit::Asked)]);
    // After the time, or after another key, it starts again.
    let mut desk = Desk::new();
    desk.ctrl('c');
    desk.now += LEAVING;
    assert_eq!(desk.ctrl('c'), []);
    desk.types("x");
    desk.ctrl('c');
    assert_eq!(desk.ctrl('c'), []);
    let mut desk = Desk::new();
    desk.turn("go");
    assert_eq!(desk.ctrl('c'), [Effect::Cancel(Cancel::Turn)]);
    assert_eq!(desk.ctrl('c'), [Effect::Leave(Exit::Asked)]);
}

#[test]
fn ctrl_d_leaves_only_an_empty_line() {
    let mut desk = Desk::new();
    desk.types("x");
    assert_eq!(desk.ctrl('d'), []);
    desk.ctrl('c');
    assert_eq!(desk.ctrl('d'), [Effect::Leave(Exit::Asked)]);
}

#[test]
fn shift_tab_goes_round_the_modes_but_never_to_all() {
    let mut desk = Desk::new();
    for wanted in [Mode::Edits, Mode::Plan, Mode::Ask] {
        let effects = desk.press(KeyCode::BackTab);
        let [Effect::Configure(settings)] = effects.as_slice() else { panic!("{effects:?}") };
        assert_eq!(settings.mode, wanted);
        let settings = settings.clone();
        desk.event(me(), Event::SettingsChanged { settings });
    }
}

#[test]
fn a_question_is_answered_once_by_a_key_that_came_after_it() {
    let mut desk = Desk::new();
    desk.turn("go");
    // Keys before and during its appearance are text.
    desk.types("yes");
    desk.ask("ls");
    assert_eq!(answer(&desk.types("y")), None, "not on the screen yet");
    desk.draw();
    assert_eq!(answer(&desk.types("y\n")), None, "on the screen for no time at all");
    assert_eq!(desk.model.composer.editor.text(), "", "the line was sent as a prompt");
    desk.look();
    desk.now += crate::guard::GUARD;
    assert_eq!(answer(&desk.types("y")), Some(("ls", "proceed_once")));
    assert_eq!(desk.types("yyn"), [], "one answer to one question");
    desk.answered(me(), "ls", "proceed_once");
    assert_eq!(desk.model.dialog, None);
    assert_eq!(desk.remark(), "", "one knows what one has answered");
}

#[test]
fn an_answer_carries_the_digest_of_what_was_shown() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.ask("ls");
    desk.look();
    let effects = desk.types("n");
    let shown = desk.model.questions.first().unwrap().details.digest();
    assert!(matches!(effects.as_slice(), [Effect::Answer { digest, .. }] if *digest == shown));
}

#[test]
fn a_dialog_closes_when_anybody_answers_and_says_who() {
    for (choice, said) in [("proceed_once", "approved"), ("cancel", "refused")] {
        let mut desk = Desk::new();
        desk.turn("go");
        desk.ask("ls");
        desk.look();
        desk.answered(other(), "ls", choice);
        assert_eq!(desk.model.dialog, None);
        assert_eq!(desk.remark(), format!("{said} by A2A:phone: run ls"));
    }
}

/// The effect of a key after its dialog was closed: `how` it was closed, `at` what time after the
/// frame that removed it (none: before that frame), and the composer's text afterwards.
#[test]
fn a_key_meant_for_a_dialog_that_somebody_else_closed_is_swallowed() {
    use crate::guard::AFTER;
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
        let mut desk = Desk::new();
        desk.turn("go");
        desk.ask("ls");
        match how.ends_with("too soon") {
            true => drop(desk.draw()),
            false => desk.look(),
        }
        let by = if how.contains("there") { other() } else { me() };
        match how.starts_with("answered") {
            true => desk.answered(by, "ls", "proceed_once"),
            false => desk.cancelled(by, "ls"),
        }
        if let Some(at) = at {
            desk.draw();
            desk.now += at;
        }
        desk.model.remark = None;
        assert_eq!(desk.press(*key), [], "{how} {at:?} {key:?}");
        assert_eq!(desk.model.composer.editor.text(), *wanted, "{how} {at:?} {key:?}");
        let told = desk.remark().contains("by A2A:phone");
        let swallowed = wanted.is_empty() && *key != KeyCode::Backspace;
        assert_eq!(told, swallowed, "{how} {at:?} {key:?}");
    }
}

/// Esc would have interrupted the turn, and Enter would have sent the draft.
#[test]
fn a_swallowed_key_interrupts_and_sends_nothing() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.types("draft");
    desk.ask("ls");
    desk.look();
    desk.press(KeyCode::Up);
    desk.answered(other(), "ls", "proceed_once");
    desk.draw();
    assert_eq!(desk.press(KeyCode::Esc), []);
    assert_eq!(desk.press(KeyCode::Enter), []);
    assert_eq!(desk.model.composer.editor.text(), "draft");
    // The first other key ends it early.
    desk.types("sy");
    assert_eq!(desk.model.composer.editor.text(), "draftsy");
    assert!(!desk.press(KeyCode::Enter).is_empty());
}

/// The next question opens at once: a key for the previous one neither answers it nor becomes text.
#[test]
fn a_swallowed_key_does_not_reach_the_next_question() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.ask("one");
    desk.ask("two");
    desk.look();
    desk.answered(other(), "one", "proceed_once");
    desk.draw();
    desk.now += crate::guard::GUARD;
    assert_eq!(desk.types("y"), []);
    assert_eq!(desk.model.composer.editor.text(), "");
    // The key restarts the guard time of the next question.
    desk.now += crate::guard::GUARD - 1;
    assert_eq!(answer(&desk.types("y")), None);
    desk.press(KeyCode::Backspace);
    desk.now += crate::guard::GUARD;
    assert_eq!(answer(&desk.types("n")), Some(("two", "cancel")));
}

#[test]
fn whoever_comes_second_is_told_by_whom() {
    let mut desk = Desk::new();
    desk.turn("go");
    let approval = desk.ask("ls");
    desk.look();
    desk.types("y");
    let by = other();
    let refusal = Refusal::AlreadyAnswered { choice: "cancel".into(), by, at: Millis(0) };
    let result = Err(SubmitError::Refused(refusal));
    desk.send(Msg::Submitted { what: Submitted::Answer(approval), result });
    assert_eq!(desk.remark(), "already answered: cancel by A2A:phone");
}

/// With Vim keys, the first Esc leaves insert mode and the second interrupts the turn.
#[test]
fn with_vims_keys_the_second_esc_interrupts() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.types("/vim\n");
    assert_eq!(desk.remark(), "keys are Vim's: Esc for normal mode");
    let status = |desk: &mut Desk| {
        let frame = desk.draw();
        frame.lines.last().unwrap().to_string()
    };
    desk.types("one two");
    assert!(status(&mut desk).starts_with("INSERT · ask"), "{}", status(&mut desk));
    assert_eq!(desk.press(KeyCode::Esc), []);
    assert!(status(&mut desk).starts_with("NORMAL · ask"), "{}", status(&mut desk));
    assert_eq!(desk.press(KeyCode::Esc), [Effect::Cancel(Cancel::Turn)]);
    desk.types("0dw");
    assert_eq!(desk.model.composer.editor.text(), "two");
    let sent = desk.types("\n");
    assert!(sent.contains(&Effect::Prompt("two".into())), "{sent:?}");
    desk.types("/vim\n");
    assert_eq!(desk.model.composer.vim, None);
}

#[test]
fn questions_come_one_after_the_other_and_each_is_guarded() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.ask("one");
    desk.ask("two");
    desk.look();
    assert_eq!(answer(&desk.types("y")), Some(("one", "proceed_once")));
    desk.answered(me(), "one", "proceed_once");
    // The same key again, meant for the first question, does not answer the second.
    desk.draw();
    assert_eq!(answer(&desk.types("y")), None);
    desk.press(KeyCode::Backspace);
    desk.now += crate::guard::GUARD;
    assert_eq!(answer(&desk.types("n")), Some(("two", "cancel")));
}

#[test]
fn a_replayed_question_is_on_the_screen_and_replayed_answers_are_not_news() {
    let mut desk = Desk::with_history(8);
    desk.turn("go");
    desk.ask("old");
    desk.answered(other(), "old", "proceed_once");
    assert_eq!(desk.model.dialog, None);
    desk.ask("open");
    assert_eq!(desk.remark(), "");
    assert!(desk.model.dialog.is_some(), "{:?}", desk.model.facts.head);
}

#[test]
fn the_terminal_rings_when_nobody_looks() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.send(Msg::Focus(false));
    desk.ask("ls");
    let over = Event::TurnEnded { turn: "u".into(), outcome: loggia_core::TurnOutcome::Completed };
    assert_eq!(desk.event(Origin::agent(), over.clone()), [Effect::Bell]);
    desk.send(Msg::Focus(true));
    assert_eq!(desk.event(Origin::agent(), over), []);
}

#[test]
fn a_prompt_that_was_refused_comes_back() {
    let mut desk = Desk::new();
    desk.types("one\n");
    let result = Err(SubmitError::Refused(Refusal::QueueFull {
        queued: 32,
        bound: loggia_core::QueueBound::Prompts,
    }));
    let what = Submitted::Prompt { prompt: "p".into(), text: "one".into() };
    desk.send(Msg::Submitted { what, result });
    assert_eq!(desk.model.composer.editor.text(), "one");
    assert!(desk.remark().contains("32 prompts are waiting"), "{}", desk.remark());
}

#[test]
fn the_last_queued_prompt_of_ours_can_be_taken_back() {
    let mut desk = Desk::new();
    desk.turn("go");
    for (origin, text) in [(me(), "mine"), (other(), "theirs")] {
        let content = Content::text(text).into();
        let accepted =
            Event::PromptAccepted { prompt: text.into(), task: "t".into(), content, shell: false };
        desk.event(origin, accepted);
    }
    let effects = desk.key(KeyCode::Up, KeyModifiers::ALT);
    assert_eq!(effects, [Effect::Cancel(Cancel::Prompt("mine".into()))]);
    assert_eq!(desk.model.composer.editor.text(), "mine");
}

/// Interrupting reports the queued prompts, which run next, and how to remove them.
#[test]
fn whoever_interrupts_is_told_of_the_queue() {
    let mut desk = Desk::new();
    desk.turn("go");
    let content = Content::text("mine").into();
    let accepted =
        Event::PromptAccepted { prompt: "mine".into(), task: "t".into(), content, shell: false };
    desk.event(me(), accepted);
    assert_eq!(desk.press(KeyCode::Esc), [Effect::Cancel(Cancel::Turn)]);
    assert!(desk.remark().starts_with("1 prompt of yours waits"), "{}", desk.remark());
    // A remark disappears after its time even during activity.
    desk.now += REMARK;
    desk.event(Origin::agent(), Event::Unknown);
    assert_eq!(desk.remark(), "");
}

#[test]
fn joins_and_leaves_are_noted() {
    let mut desk = Desk::new();
    let phone = Present { surface: Surface::A2a, name: "phone".into() };
    desk.send(Msg::Present(vec![phone]));
    assert_eq!(desk.remark(), "phone joined");
    desk.send(Msg::Present(Vec::new()));
    assert_eq!(desk.remark(), "phone left");
    desk.now += REMARK;
    desk.send(Msg::Tick);
    assert_eq!(desk.remark(), "");
}

#[test]
fn trouble_on_the_way_is_in_the_last_line_until_it_is_over() {
    let mut desk = Desk::new();
    let line = |desk: &Desk| {
        let line = crate::status::line(&desk.model, 30, Moment(desk.now));
        line.spans.iter().map(|span| span.content.as_ref()).collect::<String>()
    };
    let calm = line(&desk);
    desk.send(Msg::Trouble("connection lost (\u{1b}[2Jclosed), trying again".into()));
    let shown = line(&desk);
    assert!(shown.starts_with("connection lost (") && !shown.contains('\u{1b}'), "{shown}");
    assert!(crate::wrap::width(&shown) <= 30, "{shown}");
    desk.send(Msg::Trouble(String::new()));
    assert_eq!(line(&desk), calm);
}

#[test]
fn nothing_moves_when_nothing_happens() {
    let mut desk = Desk::new();
    assert_eq!(desk.model.next_move(Moment(desk.now)), None);
    desk.turn("go");
    assert!(desk.model.next_move(Moment(desk.now)).is_some());
    let over = Event::TurnEnded { turn: "u".into(), outcome: loggia_core::TurnOutcome::Completed };
    desk.event(Origin::agent(), over);
    assert_eq!(desk.model.next_move(Moment(desk.now)), None);
}

#[test]
fn an_answer_can_be_clicked() {
    let mut desk = Desk::new();
    desk.turn("go");
    desk.ask("ls");
    let frame = desk.draw();
    let shown: Vec<String> = frame.lines.iter().map(ToString::to_string).collect();
    let row = shown.iter().position(|line| line.contains("Refuse")).unwrap();
    let click = MouseEvent {
        kind: MouseEventKind::Down(MouseButton::Left),
        column: 4,
        row: u16::try_from(row).unwrap(),
        modifiers: KeyModifiers::NONE,
    };
    assert_eq!(desk.send(Msg::Mouse(click)), [], "too early");
    desk.now += crate::guard::GUARD;
    assert_eq!(answer(&desk.send(Msg::Mouse(click))), Some(("ls", "cancel")));
}

/// The wheel scrolls the topmost part: help, question or transcript.
#[test]
fn the_wheel_scrolls_what_is_in_front() {
    let mut desk = Desk::new();
    for number in 0..40 {
        let text = format!("line {number}");
        desk.event(Origin::system(), Event::NoticeRaised { level: loggia_core::Level::Info, text });
    }
    desk.ctrl('t');
    let wheel = |desk: &mut Desk, kind| {
        let event = MouseEvent { kind, column: 1, row: 1, modifiers: KeyModifiers::NONE };
        assert_eq!(desk.send(Msg::Mouse(event)), []);
        let (buffer, _) = crate::view::fullscreen(&mut desk.model, Moment(desk.now));
        let row = |row: u16| (0..60).map(|column| buffer[(column, row)].symbol()).collect();
        (0..20).map(row).collect::<Vec<String>>()
    };
    let shows = |rows: &[String], text: &str| rows.iter().any(|row| row.contains(text));
    let end = wheel(&mut desk, MouseEventKind::ScrollDown);
    assert!(shows(&end, "line 39"), "{end:#?}");
    let up = wheel(&mut desk, MouseEventKind::ScrollUp);
    assert!(shows(&up, "line 36") && !shows(&up, "line 37"), "{up:#?}");
    assert_eq!(wheel(&mut desk, MouseEventKind::ScrollDown), end);

    desk.types("/nowhere\n");
    let searched = wheel(&mut desk, MouseEventKind::ScrollDown);
    assert!(shows(&searched, "/nowhere  not found"), "{searched:#?}");
    let (level, text) = (loggia_core::Level::Info, "out of nowhere".to_owned());
    desk.event(Origin::system(), Event::NoticeRaised { level, text });
    let searched = wheel(&mut desk, MouseEventKind::ScrollDown);
    assert!(shows(&searched, "/nowhere  n next"), "{searched:#?}");
    desk.press(KeyCode::Esc);
    desk.types("/line 3\n");
    let searched = wheel(&mut desk, MouseEventKind::ScrollDown);
    assert!(shows(&searched, "/line 3  n next"), "{searched:#?}");
    desk.press(KeyCode::Esc);

    desk.press(KeyCode::F(1));
    let help = wheel(&mut desk, MouseEventKind::ScrollUp);
    assert!(shows(&help, "Everywhere"), "{help:#?}");
    assert!(shows(&help, "any other key closes"), "{help:#?}");
    let down = wheel(&mut desk, MouseEventKind::ScrollDown);
    assert!(!shows(&down, "Everywhere") && down != help, "{down:#?}");
}

#[test]
fn the_cursor_is_there_again_after_the_transcript() {
    let mut desk = Desk::new();
    let mut picture = crate::picture::Picture::new((60, 20), Some(0), true);
    let some = |number| std::num::NonZero::new(number).unwrap();
    let mut parser = vt100::Parser::new(some(20), some(60), 0);
    for (key, hidden) in [('x', false), ('t', true), ('q', false), ('t', true), ('t', false)] {
        match key {
            't' => desk.ctrl('t'),
            key => desk.press(KeyCode::Char(key)),
        };
        let painted = picture.draw(&mut desk.model, Moment(desk.now));
        parser.process(&painted.bytes);
        assert_eq!(parser.screen().hide_cursor(), hidden, "after {key}");
    }
}

#[test]
fn every_size_has_a_picture() {
    for width in 1..30 {
        for height in 1..12 {
            let mut desk = Desk::new();
            desk.model.size = (width, height);
            desk.turn("go");
            desk.types("/m");
            for step in 0..3 {
                match step {
                    0 => {}
                    1 => drop(desk.ask("ls")),
                    _ => desk.model.overlay = Some(Overlay::help(&Default::default())),
                }
                let frame = desk.draw();
                assert!(frame.lines.len() <= usize::from(height), "{width}x{height} {step}");
                desk.model.full = Some(Full::default());
                let full = crate::view::fullscreen(&mut desk.model, Moment(desk.now));
                assert!(full.1.lines.len() <= usize::from(height), "{width}x{height} {step}");
                desk.model.full = None;
            }
        }
    }
}
