//! The dialog for one open question: its full text and the answers.
//!
//! A key typed before the dialog was visible never answers it, and neither does a key while the
//! composer contains text ([`crate::key_timing`]): it goes to the composer. A letter answers only if no
//! other letter follows; otherwise it starts a word. Enter gives the answer that an arrow marked
//! for this question. No answer is marked initially, and typing clears the mark. A question can be
//! allowed only after the end of its text was visible.

mod mark;

use std::borrow::Cow;

use crossterm::event::{KeyCode, KeyEvent};
use loggia_core::{ChoiceId, Details, Edit};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use self::mark::Mark;
use crate::editor::{Editor, Motion};
use crate::highlight::Highlighter;
use crate::key_timing::{ComposerState, KeyDelay, LetterAction, PendingLetter};
use crate::keymap::{self, Action, KeyContext};
use crate::lines::{details, wrapped};
use crate::questions::OpenQuestion;
use crate::safe;
use crate::theme::{Background, Theme};
use crate::uptime::Uptime;

/// Marks the dialog's rows.
const MARK: &str = "▌ ";
/// The answer to a trust question that stops further questions. It allows nothing.
pub const NEVER: &str = "never";

#[derive(Debug, Clone, PartialEq)]
pub struct Dialog {
    pub question: OpenQuestion,
    /// The answer that the arrow keys chose.
    mark: Mark,
    /// The first visible row of the body.
    scroll: usize,
    /// Since when keys can answer.
    key_delay: KeyDelay,
    /// The content of the composer.
    composer: ComposerState,
    /// The person moved with an arrow from the composer to the answers.
    moved_to_answers: bool,
    /// The end of the body was visible.
    seen_end: bool,
    /// A letter that answers if no other letter follows.
    pending_letter: Option<PendingLetter>,
    /// The editor of the proposal, or of an answer in words.
    editing: Option<Editor>,
    /// A trust question, which is not about a tool call.
    for_trust: bool,
    /// The rendered body, with the width, colours and background that it was rendered for.
    body: Option<((u16, bool, Background), Vec<Line<'static>>)>,
    /// Visible rows of the body in the last frame.
    page: usize,
    /// Screen rows of the answers, for clicks.
    pub answer_rows: Vec<(u16, usize)>,
}

/// The result of a key in the dialog.
#[derive(Debug, Clone, PartialEq)]
pub enum Reaction {
    Nothing,
    /// Not used by the dialog; it goes to the composer.
    Elsewhere,
    Answer(ChoiceId, Option<Edit>),
    /// Open the proposal in the external editor.
    EditOutside {
        name: String,
        text: String,
    },
    /// Why the key had no effect.
    Hint(Cow<'static, str>),
}

/// The drawn dialog and the positions of its answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Drawn {
    pub lines: Vec<Line<'static>>,
    pub cursor: Option<(u16, u16)>,
    /// Row and index of each answer.
    pub answers: Vec<(usize, usize)>,
    pub end_shown: bool,
}

impl Dialog {
    pub fn new(question: OpenQuestion) -> Self {
        let asks_words = matches!(question.details, Details::Question { .. });
        Self {
            question,
            mark: Mark::default(),
            scroll: 0,
            key_delay: KeyDelay::default(),
            composer: ComposerState::default(),
            moved_to_answers: false,
            seen_end: false,
            pending_letter: None,
            editing: asks_words.then(Editor::default),
            for_trust: false,
            body: None,
            page: 1,
            answer_rows: Vec::new(),
        }
    }

    /// A question whose title is its heading. Enter rejects unless another answer is marked.
    pub fn for_trust(question: OpenQuestion) -> Self {
        let mut dialog = Self { for_trust: true, ..Self::new(question) };
        dialog.mark = Mark::starting_at(dialog.position(ChoiceId::CANCEL));
        dialog
    }

    /// Resets the dialog: it must be visible again before it accepts keys.
    pub fn start_over(&mut self) {
        self.pending_letter = None;
        self.moved_to_answers = false;
        self.key_delay = KeyDelay::default();
        self.mark.clear();
    }

    pub fn accepts_keys(&self, now: Uptime) -> bool {
        self.key_delay.accepts_keys(now)
    }

    /// The next time at which the dialog changes without input.
    pub fn next_move(&self, now: Uptime) -> Option<Uptime> {
        let accepts = self.key_delay.accepts_keys_from().filter(|at| *at > now);
        accepts.into_iter().chain(self.pending_letter.as_ref().map(PendingLetter::alone_from)).min()
    }

    /// Whether a letter is pending.
    pub fn has_pending_letter(&self) -> bool {
        self.pending_letter.is_some()
    }

    /// The reaction to a pending letter whose waiting time is over.
    pub fn due(&mut self, now: Uptime) -> Option<Reaction> {
        let pending = self.pending_letter.take_if(|pending| pending.is_alone(now))?;
        self.do_letter_action(pending.action)
    }

    fn do_letter_action(&mut self, action: LetterAction) -> Option<Reaction> {
        match action {
            LetterAction::Answer(index) => Some(self.choose(index)),
            LetterAction::Edit => Some(self.edit_here()),
            LetterAction::Done => None,
        }
    }

    /// The pending letters, which turned out to be the start of a word.
    pub fn take_word(&mut self) -> String {
        self.pending_letter.take().map(PendingLetter::into_text).unwrap_or_default()
    }

    /// A key was pressed that was not for the dialog.
    pub fn was_typed(&mut self, now: Uptime) {
        self.key_delay.was_typed(now);
        self.mark.clear();
    }

    /// Sets what the composer contains.
    pub fn set_composer(&mut self, composer: ComposerState) {
        self.moved_to_answers &= composer != ComposerState::Empty;
        self.composer = composer;
        if self.composer_takes_letters() {
            self.mark.clear();
        }
    }

    /// Whether letters go to the composer.
    pub fn composer_takes_letters(&self) -> bool {
        self.composer != ComposerState::Empty && !self.moved_to_answers
    }

    /// The dialog was drawn; `end_shown` tells whether the end of its text was visible.
    pub fn was_drawn(&mut self, now: Uptime, end_shown: bool) {
        self.key_delay.was_drawn(now);
        self.seen_end |= end_shown;
    }

    fn asks_words(&self) -> bool {
        matches!(self.question.details, Details::Question { .. })
    }

    pub fn is_editing(&self) -> bool {
        self.editing.is_some()
    }

    pub fn paste(&mut self, text: &str) -> bool {
        let composing = self.composer_takes_letters();
        match self.editing.as_mut().filter(|_| !composing) {
            Some(editor) => {
                editor.insert(text);
                self.mark.clear();
                true
            }
            None => false,
        }
    }

    /// The index of the text answer while text is being written.
    fn words(&self) -> Option<usize> {
        let written = self.editing.as_ref().is_some_and(|editor| !editor.is_empty());
        self.position(ChoiceId::ANSWER).filter(|_| self.asks_words() && written)
    }

    /// The answer that Enter gives.
    fn marked(&self) -> Option<usize> {
        self.mark.get().or_else(|| self.words())
    }

    fn position(&self, id: &str) -> Option<usize> {
        self.question.choices.iter().position(|choice| choice.id.0 == id)
    }

    pub fn key(&mut self, event: &KeyEvent, now: Uptime) -> Reaction {
        let reaction = match (self.accepts_keys(now), self.key_delay.is_seen(now)) {
            (true, _) => self.accepted_key(event, now),
            // An arrow may move from the composer to the visible question at once; answers need the
            // guard time.
            (false, true) if self.goes_up(event) => {
                self.moved_to_answers = true;
                return Reaction::Nothing;
            }
            (false, _) => Reaction::Elsewhere,
        };
        if reaction == Reaction::Elsewhere {
            // Other keys show that the person is typing, so the next letter is part of the same
            // word.
            self.was_typed(now);
            self.moved_to_answers &= self.editing.is_some();
        }
        reaction
    }

    pub fn accepted_key(&mut self, event: &KeyEvent, now: Uptime) -> Reaction {
        let letter = keymap::letter(event);
        match (self.composer_takes_letters(), self.editing.is_some(), letter) {
            (true, _, _) => self.key_while_composing(event),
            (false, true, _) => self.key_while_editing(event),
            (false, false, Some(letter)) => self.letter_while_choosing(letter, event, now),
            (false, false, None) => self.key_while_choosing(event),
        }
    }

    /// A letter is an answer only if it stands alone, because words start with every letter.
    fn letter_while_choosing(&mut self, letter: char, event: &KeyEvent, now: Uptime) -> Reaction {
        let repeats = self.pending_letter.as_ref().is_some_and(|pending| pending.repeats(letter));
        if self.pending_letter.is_some() && !repeats {
            return Reaction::Elsewhere;
        }
        let action = match (self.choice_for(letter), keymap::action(KeyContext::Dialog, event)) {
            (Some(index), _) => LetterAction::Answer(index),
            (None, Some(Action::EditProposal)) => LetterAction::Edit,
            (None, Some(_)) if self.key_while_choosing(event) == Reaction::Nothing => {
                LetterAction::Done
            }
            (None, _) => return Reaction::Elsewhere,
        };
        match &mut self.pending_letter {
            Some(pending) => pending.again(letter, now),
            None => self.pending_letter = Some(PendingLetter::new(letter, now, action)),
        }
        Reaction::Nothing
    }

    /// Whether a key moves from the composer to the answers.
    fn goes_up(&self, event: &KeyEvent) -> bool {
        let arrow = matches!(event.code, KeyCode::Up | KeyCode::Down) && event.modifiers.is_empty();
        arrow && self.composer == ComposerState::Draft && !self.moved_to_answers
    }

    /// Keys that are not used for typing; others go to the composer.
    fn key_while_composing(&mut self, event: &KeyEvent) -> Reaction {
        match (event.code, keymap::action(KeyContext::Dialog, event)) {
            (KeyCode::PageUp, _) => self.scroll_by(-page(self.page)),
            (KeyCode::PageDown, _) => self.scroll_by(page(self.page)),
            _ if self.composer == ComposerState::Open => Reaction::Elsewhere,
            _ if self.goes_up(event) => {
                self.moved_to_answers = true;
                Reaction::Nothing
            }
            (_, Some(Action::Interrupt)) => match self.position(ChoiceId::CANCEL) {
                Some(index) => self.choose(index),
                None => Reaction::Elsewhere,
            },
            _ => Reaction::Elsewhere,
        }
    }

    fn key_while_choosing(&mut self, event: &KeyEvent) -> Reaction {
        let action = keymap::action(KeyContext::Dialog, event);
        if keymap::letter(event).is_none()
            && let Some(pending) =
                self.pending_letter.take_if(|pending| pending.action != LetterAction::Done)
            && action == Some(Action::Confirm)
        {
            // Enter confirms a pending letter at once.
            return self.do_letter_action(pending.action).unwrap_or(Reaction::Nothing);
        }
        match action {
            Some(Action::ChooseUp) => self.mark_up(),
            Some(Action::ChooseDown) => self.mark_down(),
            Some(Action::Confirm) => self.confirm(),
            Some(Action::EditProposal) => self.edit_here(),
            Some(Action::EditOutside) => self.edit_outside(),
            Some(Action::ScrollUp) => self.scroll_by(-1),
            Some(Action::ScrollDown) => self.scroll_by(1),
            Some(Action::PageUp) => self.scroll_by(-page(self.page)),
            Some(Action::PageDown) => self.scroll_by(page(self.page)),
            Some(Action::Top) => self.scroll_by(isize::MIN),
            Some(Action::Bottom) => self.scroll_by(isize::MAX),
            Some(Action::Interrupt) => match self.position(ChoiceId::CANCEL) {
                Some(index) => self.choose(index),
                None => Reaction::Elsewhere,
            },
            _ => Reaction::Elsewhere,
        }
    }

    fn key_while_editing(&mut self, event: &KeyEvent) -> Reaction {
        let (words, command) = (self.asks_words(), self.is_command());
        let Some(editor) = &mut self.editing else { return Reaction::Nothing };
        if let Some(letter) = keymap::letter(event) {
            editor.insert(letter.encode_utf8(&mut [0; 4]));
            self.mark.clear();
            return Reaction::Nothing;
        }
        match keymap::action(KeyContext::Composer, event) {
            Some(Action::Submit) if words => return self.confirm(),
            Some(Action::Older) if words => return self.mark_up(),
            Some(Action::Newer) if words => return self.mark_down(),
            Some(Action::Interrupt) if words => {
                let cancel = self.position(ChoiceId::CANCEL);
                return cancel.map_or(Reaction::Elsewhere, |index| self.choose(index));
            }
            Some(Action::Interrupt) => {
                self.editing = None;
                return Reaction::Nothing;
            }
            // Enter submits a command, which is one line. In a file Enter inserts a line break, and
            // Ctrl-D submits.
            Some(Action::Submit) if command => return self.send_edit(),
            Some(Action::LeaveIfEmpty) => return self.send_edit(),
            Some(Action::Submit | Action::Newline) => editor.insert("\n"),
            Some(Action::EditOutside) => return self.edit_outside(),
            Some(Action::Older) => {
                editor.go_row(u16::MAX, false);
            }
            Some(Action::Newer) => {
                editor.go_row(u16::MAX, true);
            }
            Some(action) if !edit(editor, action) => return Reaction::Elsewhere,
            Some(_) | None => {}
        }
        Reaction::Nothing
    }

    fn is_command(&self) -> bool {
        matches!(self.question.details, Details::Execute { .. })
    }

    /// `y`, `a`, `p`, `n` as in `loggia run`; every answer also has a number.
    fn choice_for(&self, letter: char) -> Option<usize> {
        let by_number = letter.to_digit(10).and_then(|digit| digit.checked_sub(1));
        let by_number = by_number.and_then(|index| usize::try_from(index).ok());
        let by_letter =
            self.question.choices.iter().position(|choice| key_of(&choice.id) == Some(letter));
        by_letter.or(by_number.filter(|index| *index < self.question.choices.len()))
    }

    fn mark_up(&mut self) -> Reaction {
        self.mark.up(self.question.choices.len());
        Reaction::Nothing
    }

    fn mark_down(&mut self) -> Reaction {
        self.mark.down(self.question.choices.len());
        Reaction::Nothing
    }

    /// Handles Enter. Without a mark it shows which keys answer.
    fn confirm(&mut self) -> Reaction {
        match self.marked() {
            Some(index) => self.choose(index),
            None if self.asks_words() => {
                Reaction::Hint("type your answer, or choose one with ↑↓; Esc rejects".into())
            }
            None => {
                let keys = self.keys_shown().join(", ");
                Reaction::Hint(format!("press a key to answer: {keys}, or ↑↓ and Enter").into())
            }
        }
    }

    /// Gives the clicked answer once the dialog accepts keys.
    pub fn click(&mut self, index: usize, now: Uptime) -> Reaction {
        match self.accepts_keys(now) {
            true => self.choose(index),
            false => Reaction::Nothing,
        }
    }

    fn choose(&mut self, index: usize) -> Reaction {
        let Some(choice) = self.question.choices.get(index) else { return Reaction::Nothing };
        let id = choice.id.clone();
        if allows(&id) && !self.seen_end {
            return Reaction::Hint("scroll to the end first: PgDn".into());
        }
        if id.0 == ChoiceId::ANSWER {
            let text = self.editing.as_ref().map(Editor::text).unwrap_or_default();
            return match text.trim().is_empty() {
                true => Reaction::Hint("type your answer first".into()),
                false => Reaction::Answer(id, Some(Edit::Text { text })),
            };
        }
        Reaction::Answer(id, None)
    }

    fn edit_here(&mut self) -> Reaction {
        match editable(&self.question.details) {
            Some((_, text)) => {
                self.editing = Some(Editor::with_text(text));
                self.mark.clear();
                Reaction::Nothing
            }
            None => Reaction::Hint("this cannot be edited".into()),
        }
    }

    fn edit_outside(&self) -> Reaction {
        let text = self.editing.as_ref().map(Editor::text);
        match editable(&self.question.details) {
            Some((name, shown)) => {
                let text = text.unwrap_or_else(|| shown.to_owned());
                Reaction::EditOutside { name: name.to_owned(), text }
            }
            None => Reaction::Hint("this cannot be edited".into()),
        }
    }

    /// Shows the version from the external editor again before it is submitted.
    pub fn edited_outside(&mut self, text: &str) {
        self.editing = Some(Editor::with_text(text));
    }

    fn send_edit(&mut self) -> Reaction {
        let Some(editor) = &self.editing else { return Reaction::Nothing };
        let text = editor.text();
        let edit = match &self.question.details {
            Details::Execute { .. } => Edit::Command { command: text.trim_end().to_owned() },
            _ => Edit::File { content: text },
        };
        // The person has seen the text, having written it.
        Reaction::Answer(ChoiceId::PROCEED_ONCE.into(), Some(edit))
    }

    pub fn scroll_by(&mut self, rows: isize) -> Reaction {
        let total = self.body.as_ref().map_or(0, |(_, lines)| lines.len());
        let last = total.saturating_sub(self.page);
        self.scroll = self.scroll.saturating_add_signed(rows).min(last);
        Reaction::Nothing
    }

    /// Draws the dialog in at most `height` rows. Its first column never contains text of a tool or
    /// a model.
    pub fn draw(&mut self, width: u16, height: usize, theme: &Theme, now: Uptime) -> Drawn {
        let inner = width.saturating_sub(2).max(1);
        let body = self.body_lines(inner, theme);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let title = wrapped(&safe::one_line(&self.heading()), inner, bold);
        let answers = self.answer_lines(inner, now);
        let compact = title.len() + answers.len() + 2 > height;
        let (title, answers) = match compact {
            true => {
                // The title may use up to half of the rows.
                let rows = (height / 2).max(1);
                (title.into_iter().take(rows).collect(), vec![(None, self.short_answers(now))])
            }
            false => (title, answers),
        };
        let room = height.saturating_sub(title.len() + answers.len()).max(1);
        let cut = body.len() > room;
        // A row counts the hidden lines if there is room for it.
        let counted = cut && room > 1;
        let page = if counted { room - 1 } else { room };
        self.page = page.max(1);
        self.scroll = self.scroll.min(body.len().saturating_sub(page));
        let cursor = self.follow_cursor(inner, page);
        let end = (self.scroll + page).min(body.len());
        let mut drawn = Drawn { end_shown: end >= body.len(), ..Drawn::default() };
        drawn.lines.extend(title);
        let first = drawn.lines.len();
        drawn.lines.extend(body.iter().skip(self.scroll).take(page).cloned());
        if counted {
            let left = body.len() - end;
            let text = match left {
                0 => format!("— the end, {} lines —", body.len()),
                left => format!("… {left} more lines: PgDn; scroll to the end to allow it"),
            };
            drawn.lines.push(Line::from(Span::styled(text, bold)));
        }
        if let Some((column, row)) = cursor {
            drawn.cursor = Some((column + 2, row + u16::try_from(first).unwrap_or(0)));
        }
        for (answer, line) in answers {
            drawn.answers.extend(answer.map(|answer| (drawn.lines.len(), answer)));
            drawn.lines.push(line);
        }
        drawn.lines.truncate(height.max(1));
        drawn.lines = self.framed(std::mem::take(&mut drawn.lines), width, now);
        drawn
    }

    /// Adds the mark in the first column and a full-width heading, which text of a model or tool
    /// cannot imitate.
    fn framed(&self, lines: Vec<Line<'static>>, width: u16, now: Uptime) -> Vec<Line<'static>> {
        let plain = Style::new();
        let bold = plain.add_modifier(Modifier::BOLD);
        let mark = if self.accepts_keys(now) { bold } else { plain.add_modifier(Modifier::DIM) };
        let head = bold.add_modifier(Modifier::REVERSED);
        let marked = lines.into_iter().enumerate().map(|(row, line)| {
            let style = if row == 0 { head } else { mark };
            let mut spans = vec![Span::styled(MARK, style)];
            spans.extend(line.spans);
            if row == 0 {
                let used = crate::wrap::spans_width(&spans);
                spans.push(Span::raw(" ".repeat(usize::from(width).saturating_sub(used))));
                spans.iter_mut().for_each(|span| span.style = head);
            }
            Line::from(spans)
        });
        marked.collect()
    }

    fn heading(&self) -> String {
        match (&self.question.details, self.is_editing()) {
            _ if self.for_trust => self.question.title.clone(),
            (Details::Question { .. }, _) => "Loggia asks you".to_owned(),
            (_, true) => format!("Your version of: {}", self.question.title),
            (_, false) => format!("Allow Loggia to {}?", self.question.title),
        }
    }

    fn body_lines(&mut self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        let drawn_for = (width, Highlighter::when_ready().is_ready(), theme.background);
        if let Some(editor) = &self.editing {
            let rows = editor.layout(width).rows.into_iter().map(Line::from);
            let mut lines = match &self.question.details {
                Details::Question { text, .. } => wrapped(text, width, Style::new()),
                _ => Vec::new(),
            };
            lines.extend(rows);
            self.body = Some((drawn_for, lines.clone()));
            return lines;
        }
        match &self.body {
            Some((known, lines)) if *known == drawn_for => lines.clone(),
            _ => {
                let lines = details(&self.question.details, width, theme);
                self.body = Some((drawn_for, lines.clone()));
                lines
            }
        }
    }

    /// Scrolls to the cursor of the edited text and returns its position on the page.
    fn follow_cursor(&mut self, width: u16, page: usize) -> Option<(u16, u16)> {
        let layout = self.editing.as_ref()?.layout(width);
        let before = self.body.as_ref().map_or(0, |(_, lines)| lines.len()) - layout.rows.len();
        let row = before + usize::from(layout.cursor.1);
        if row < self.scroll || row >= self.scroll + page {
            self.scroll = row.saturating_sub(page.saturating_sub(1));
        }
        let row = row.checked_sub(self.scroll)?;
        (row < page && !self.composer_takes_letters())
            .then_some((layout.cursor.0, u16::try_from(row).ok()?))
    }

    fn answer_lines(&self, width: u16, now: Uptime) -> Vec<(Option<usize>, Line<'static>)> {
        if self.is_editing() && !self.asks_words() {
            let how = match self.is_command() {
                true => "Enter runs it · Esc back · Ctrl-G in your editor",
                false => "Ctrl-D writes it · Esc back · Ctrl-G in your editor",
            };
            return vec![(None, Line::from(how))];
        }
        let (accepting, composing) = (self.accepts_keys(now), self.composer_takes_letters());
        // A pending letter shows its answer.
        let pending = self.pending_letter.as_ref().and_then(|pending| match pending.action {
            LetterAction::Answer(index) => Some(index),
            LetterAction::Edit | LetterAction::Done => None,
        });
        let marked = pending.or_else(|| self.marked()).filter(|_| !composing);
        let mut lines = Vec::new();
        for (index, choice) in self.question.choices.iter().enumerate() {
            let key = self.key_shown(index, &choice.id);
            let ready = accepting && !composing && (self.seen_end || !allows(&choice.id));
            let mut style = Style::new();
            if !ready {
                style = style.add_modifier(Modifier::DIM);
            }
            if Some(index) == marked {
                style = style.add_modifier(Modifier::REVERSED);
            }
            let text = format!("{key} {}", safe::one_line(&choice.name));
            for line in wrapped(&text, width, style) {
                lines.push((Some(index), line));
            }
        }
        let last = match (accepting, editable(&self.question.details).is_some()) {
            (false, _) => "wait a moment",
            (true, _) if composing && self.composer == ComposerState::Open => {
                "you are writing: finish or clear it (Ctrl-C), then answer"
            }
            (true, _) if composing => "you are writing: ↑↓ to the answers · Esc refuses",
            (true, true) => "e change it first · ↑↓ Enter choose · PgUp PgDn scroll",
            (true, false) => "↑↓ Enter choose · PgUp PgDn scroll",
        };
        let dim = Style::new().add_modifier(Modifier::DIM);
        lines.extend(wrapped(last, width, dim).into_iter().map(|line| (None, line)));
        lines
    }

    /// The key of an answer. While text is written, letters and numbers are text.
    fn key_shown(&self, index: usize, choice: &ChoiceId) -> String {
        match (self.asks_words(), choice.0 == ChoiceId::CANCEL) {
            (true, true) => "Esc".to_owned(),
            (true, false) => "·".to_owned(),
            (false, _) => key_of(choice).map_or_else(|| (index + 1).to_string(), String::from),
        }
    }

    fn keys_shown(&self) -> Vec<String> {
        let choices = self.question.choices.iter().enumerate();
        choices.map(|(index, choice)| self.key_shown(index, &choice.id)).collect()
    }

    /// A single row with the keys, for small screens.
    fn short_answers(&self, now: Uptime) -> Line<'static> {
        let keys = self.keys_shown();
        let dim = Style::new().add_modifier(Modifier::DIM);
        match self.accepts_keys(now) {
            true if self.composer_takes_letters() => Line::from(Span::styled("↑↓ answer", dim)),
            true => Line::from(keys.join("/")),
            false => Line::from(Span::styled("a moment", dim)),
        }
    }
}

fn page(rows: usize) -> isize {
    isize::try_from(rows.saturating_sub(1).max(1)).unwrap_or(1)
}

/// The letter of an answer.
pub fn key_of(choice: &ChoiceId) -> Option<char> {
    match choice.known() {
        Some(known) => known.word_and_key().map(|(_, key)| key),
        None => (choice.0 == NEVER).then_some('d'),
    }
}

/// Whether the answer allows something.
fn allows(choice: &ChoiceId) -> bool {
    choice.proceeds() && choice.0 != NEVER
}

/// The editable text, and a file name for the external editor.
pub fn editable(details: &Details) -> Option<(&str, &str)> {
    match details {
        Details::Execute { command, .. } => Some(("command.sh", command)),
        Details::Edit(diff) => {
            let name = diff.path.rsplit('/').next().unwrap_or("file");
            Some((name, &diff.new))
        }
        Details::Mcp { .. } | Details::Question { .. } | Details::Generic { .. } => None,
    }
}

/// Applies an editing key; false if it is not one.
pub fn edit(editor: &mut Editor, action: Action) -> bool {
    match action {
        Action::Left => editor.go(Motion::Left),
        Action::Right => editor.go(Motion::Right),
        Action::WordLeft => editor.go(Motion::WordLeft),
        Action::WordRight => editor.go(Motion::WordRight),
        Action::LineStart => editor.go(Motion::LineStart),
        Action::LineEnd => editor.go(Motion::LineEnd),
        Action::DeleteLeft => editor.delete(Motion::Left),
        Action::DeleteRight => editor.delete(Motion::Right),
        Action::DeleteWord => editor.delete(Motion::WordLeft),
        Action::DeleteToStart => editor.delete(Motion::LineStart),
        Action::DeleteToEnd => editor.delete(Motion::LineEnd),
        Action::Yank => editor.yank(),
        Action::Undo => editor.undo(),
        _ => return false,
    }
    true
}

#[cfg(test)]
#[path = "dialog_tests.rs"]
mod tests;
