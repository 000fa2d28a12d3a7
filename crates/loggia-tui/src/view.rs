//! Lays out the screen: lines for the scrollback and the part below, from the live cells to the
//! status line. Distributes the rows if there are few.

use loggia_core::{ApprovalId, Cell};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::app::{FrameInfo, Model};
use crate::cell::{self, CellContext};
use crate::composer::completion::ROWS;
use crate::dialog::Drawn;
use crate::lines::{first, wrapped};
use crate::uptime::Uptime;
use crate::wrap::width as columns;
use crate::{safe, status};

/// Maximum rows of the composer before it scrolls.
const COMPOSER_ROWS: usize = 10;
/// With fewer rows, only the question is shown.
const TIGHT: usize = 6;
/// Maximum number of displayed queued prompts.
const QUEUED: usize = 3;

/// The lower part of the screen.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Frame {
    pub lines: Vec<Line<'static>>,
    pub cursor: Option<(u16, u16)>,
    /// Rows relative to the frame, for clicks.
    answers: Vec<(usize, usize)>,
    question: Option<(ApprovalId, bool)>,
}

impl Frame {
    pub fn new(lines: Vec<Line<'static>>, cursor: Option<(u16, u16)>) -> Self {
        Self { lines, cursor, ..Self::default() }
    }

    /// A frame with only a question.
    pub fn of_question(drawn: Drawn, approval: ApprovalId) -> Self {
        let Drawn { lines, cursor, answers, end_shown } = drawn;
        Self { lines, cursor, answers, question: Some((approval, end_shown)) }
    }

    /// The meaning of keys and clicks once the frame is at row `top`. Without a known row, clicks are
    /// ignored.
    pub fn shown(&self, top: Option<u16>) -> FrameInfo {
        let row = |at: usize| Some(top?.saturating_add(u16::try_from(at).ok()?));
        let answers = self.answers.iter().filter_map(|(at, index)| Some((row(*at)?, *index)));
        FrameInfo { question: self.question.clone(), answers: answers.collect() }
    }

    fn push(&mut self, lines: impl IntoIterator<Item = Line<'static>>) {
        self.lines.extend(lines);
    }
}

/// Newly finished lines for the scrollback.
pub fn finished(model: &mut Model, now: Uptime) -> Vec<Line<'static>> {
    if model.replaying() {
        return Vec::new();
    }
    let skipped = model.scrollback.take_skipped().map(|cells| {
        let text = format!("… {cells} earlier cells: Ctrl-T shows them");
        first(&text, model.size.0, model.theme.dim)
    });
    let before = model.scrollback.last().cloned();
    let cells = model.scrollback.take(&model.transcript, model.facts.running());
    let lines = cell_lines(model, &cells, before.as_ref(), now);
    skipped.into_iter().chain(lines).collect()
}

/// Renders cells with empty lines between them.
fn cell_lines<'a>(
    model: &Model,
    cells: &'a [Cell],
    mut before: Option<&'a Cell>,
    now: Uptime,
) -> Vec<Line<'static>> {
    let scene = model.scene(now);
    let mut lines = Vec::new();
    for cell in cells {
        let context = CellContext {
            width: usize::from(model.size.0),
            theme: scene.theme,
            highlighter: scene.highlighter,
            expanded: cell::starts_expanded(&cell.body),
            now: scene.now,
            frame: scene.frame,
            own: scene.own,
            whole: Some("Ctrl-T"),
        };
        let shown = cell::render(cell, &context);
        if shown.is_empty() {
            continue;
        }
        if before.is_none_or(|before| cell::is_apart(before, cell)) {
            lines.push(Line::default());
        }
        lines.extend(shown);
        before = Some(cell);
    }
    lines
}

/// The inline screen: live cells, question, composer.
pub fn inline(model: &mut Model, now: Uptime) -> Frame {
    let (width, height) = (model.size.0, usize::from(model.size.1));
    let mut below = panel(model, width, height, now);
    let room = height.saturating_sub(below.lines.len());
    let live = live_lines(model, room, now);
    let mut frame = Frame { lines: live, ..Frame::default() };
    join(&mut frame, &mut below);
    frame
}

/// The alternate screen: the transcript, and the same panel below if it is needed.
pub fn fullscreen(model: &mut Model, now: Uptime) -> (Buffer, Frame) {
    let (width, height) = (model.size.0, usize::from(model.size.1));
    let with_panel = model.full.as_ref().is_some_and(|full| !full.has_keys())
        || model.dialog.is_some()
        || model.overlay.is_some();
    let mut below = match with_panel {
        true => panel(model, width, height.saturating_sub(1), now),
        false => Frame::default(),
    };
    let room = u16::try_from(height.saturating_sub(below.lines.len())).unwrap_or(0);
    let mut buffer = Buffer::empty(Rect::new(0, 0, width, model.size.1));
    let area = Rect::new(0, 0, width, room);
    model.with_full(now, |full, scene| full.draw(scene, area, &mut buffer));
    for (row, line) in (room..).zip(&below.lines) {
        buffer.set_line(0, row, line, width);
    }
    let lines = vec![Line::default(); usize::from(room)];
    let mut frame = Frame { lines, ..Frame::default() };
    join(&mut frame, &mut below);
    (buffer, frame)
}

fn join(frame: &mut Frame, below: &mut Frame) {
    let above = frame.lines.len();
    let down = u16::try_from(above).unwrap_or(u16::MAX);
    frame.cursor = below.cursor.map(|(column, row)| (column, row.saturating_add(down)));
    frame.answers = below.answers.iter().map(|(row, index)| (row + above, *index)).collect();
    frame.question = below.question.take();
    frame.lines.append(&mut below.lines);
}

/// The last live lines that fit.
fn live_lines(model: &Model, room: usize, now: Uptime) -> Vec<Line<'static>> {
    let cells = model.scrollback.live(&model.transcript);
    let mut lines = cell_lines(model, &cells, model.scrollback.last(), now);
    let over = lines.len().saturating_sub(room);
    lines.drain(..over);
    lines
}

/// From the remark to the status line, in at most `height` rows. The composer keeps at least one
/// row; a question gets the rest first.
fn panel(model: &mut Model, width: u16, height: usize, now: Uptime) -> Frame {
    let mut frame = Frame::default();
    if height == 0 {
        return frame;
    }
    // With few rows, show only the question.
    let tight = model.dialog.is_some() && model.overlay.is_none() && height < TIGHT;
    let composer = if tight { (Vec::new(), (0, 0)) } else { composer(model, width, height) };
    let mut left = height.saturating_sub(composer.0.len());
    let status = (left >= 2 && !tight).then(|| status::line(model, width, now));
    left = left.saturating_sub(usize::from(status.is_some()));

    let mut asked = Frame::default();
    model.tell_dialog();
    if let Some(overlay) = &mut model.overlay {
        asked.push(overlay.draw(width, left));
    } else if let Some(dialog) = model.dialog.as_mut().filter(|_| left > 0) {
        let drawn = dialog.draw(width, left, &model.theme, now);
        asked = Frame::of_question(drawn, dialog.question.approval.clone());
    }
    left = left.saturating_sub(asked.lines.len());
    let popup = popup(model, width, left);
    left -= popup.len();
    let mut above: Vec<Line<'static>> = Vec::new();
    if height > TIGHT {
        above.push(Line::default());
    }
    above.extend(remark(model, width));
    above.extend(queued(model, width));
    above.extend(status::activity(model, now));
    let over = above.len().saturating_sub(left);
    above.drain(..over);

    let (asked_row, editing) = (above.len(), asked.cursor);
    frame.push(above);
    frame.push(std::mem::take(&mut asked.lines));
    frame.answers = asked.answers.iter().map(|(row, index)| (row + asked_row, *index)).collect();
    frame.question = asked.question;
    let down = |cursor: (u16, u16), rows: usize| {
        (cursor.0, cursor.1.saturating_add(u16::try_from(rows).unwrap_or(u16::MAX)))
    };
    frame.cursor = match (editing, model.overlay.is_some()) {
        (Some(cursor), _) => Some(down(cursor, asked_row)),
        (None, true) => None,
        (None, false) if tight => None,
        (None, false) => Some(down(composer.1, frame.lines.len())),
    };
    frame.push(composer.0);
    frame.push(popup);
    frame.push(status);
    frame
}

/// The composer's rows and cursor. Saves the width for moving between rows.
fn composer(model: &mut Model, width: u16, height: usize) -> (Vec<Line<'static>>, (u16, u16)) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let dim = model.theme.dim;
    if let Some(search) = &model.composer.history.search {
        let found = model.composer.history.found().unwrap_or_default();
        let text = format!("search: {}", safe::one_line(&search.query));
        let column = u16::try_from(columns(&text)).unwrap_or(u16::MAX);
        let text = format!("{text}  {}", safe::one_line(found));
        let line = first(&text, width, bold);
        return (vec![line], (column.min(width.saturating_sub(1)), 0));
    }
    let mark = match (width >= 4, model.composer.is_shell()) {
        (false, _) => "",
        (true, false) => "› ",
        (true, true) => "$ ",
    };
    let bold = if model.composer.is_shell() { bold.patch(model.theme.running) } else { bold };
    let margin = u16::try_from(columns(mark)).unwrap_or(0);
    let inner = width.saturating_sub(margin).max(1);
    model.composer.width = inner;
    let layout = model.composer.editor.layout(inner);
    let rows = layout.rows.len().min(COMPOSER_ROWS).min((height / 2).max(1));
    // The part that contains the cursor.
    let row = usize::from(layout.cursor.1);
    let skip = (row + 1).saturating_sub(rows);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (index, text) in layout.rows.into_iter().enumerate().skip(skip).take(rows) {
        let mark = if index == 0 || mark.is_empty() { mark } else { "  " };
        lines.push(Line::from(vec![Span::styled(mark.to_owned(), bold), Span::raw(text)]));
    }
    if model.composer.editor.is_empty() {
        let hint = "what shall I do?  / commands  @ files  ! shell  ? help";
        let hint: String = hint.chars().take(usize::from(inner)).collect();
        lines =
            vec![Line::from(vec![Span::styled(mark.to_owned(), bold), Span::styled(hint, dim)])];
    }
    let row = u16::try_from(row.saturating_sub(skip)).unwrap_or(0);
    (lines, (layout.cursor.0 + margin, row))
}

fn popup(model: &Model, width: u16, left: usize) -> Vec<Line<'static>> {
    let Some(popup) = model.composer.popup.as_ref().filter(|_| left > 0) else {
        return Vec::new();
    };
    let dim = model.theme.dim;
    let row = |(marked, offer): (bool, &crate::composer::completion::Offer)| {
        let style =
            if marked { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
        let label = safe::one_line(&offer.label).into_owned();
        let gap = " ".repeat(24usize.saturating_sub(columns(&label)).max(2));
        let about = format!("{gap}{}", safe::one_line(&offer.about));
        let spans = [Span::raw("  "), Span::styled(label, style), Span::styled(about, dim)];
        crate::wrap::cut(&spans, usize::from(width))
    };
    popup.shown(left.min(ROWS)).map(row).collect()
}

fn remark(model: &Model, width: u16) -> Vec<Line<'static>> {
    let Some((text, _)) = &model.remark else { return Vec::new() };
    let style = Style::new().add_modifier(Modifier::ITALIC);
    wrapped(&safe::one_line(text), width, style).into_iter().take(2).collect()
}

fn queued(model: &Model, width: u16) -> Vec<Line<'static>> {
    let queued = &model.facts.queued;
    let dim = model.theme.dim;
    let row = |text: String| first(&text, width, dim);
    let by = |origin: &loggia_core::Origin| match model.own_origins.contains(origin) {
        true => String::new(),
        false => format!("[{}] ", safe::one_line(&origin.to_string())),
    };
    let shown = queued.iter().take(QUEUED);
    let shown =
        shown.map(|one| format!("queued: {}{}", by(&one.origin), safe::one_line(&one.text)));
    let more = queued.len().saturating_sub(QUEUED);
    let more = (more > 0).then(|| format!("… and {more} more in the queue"));
    shown.chain(more).map(row).collect()
}
