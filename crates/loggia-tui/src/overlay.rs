//! Overlays above the composer: help, sharing, session picker.

use crossterm::event::KeyEvent;
use loggia_core::{CustomCommands, SessionId};
use qrcode::QrCode;
use qrcode::render::unicode::Dense1x2;
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use crate::host::{Invitation, Preview, ShareFacts};
use crate::keymap::{self, Action, KeyContext};
use crate::lines::{first, wrapped};
use crate::wrap::width as columns;
use crate::{command, safe};

/// Preview lines in the picker.
const PREVIEW: usize = 6;

#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    content: OverlayContent,
    scroll: usize,
}

#[derive(Debug, Clone, PartialEq)]
enum OverlayContent {
    Help(CustomCommands),
    Share(ShareFacts),
    Resume { previews: Vec<Preview>, filter: String, selected: usize },
}

#[derive(Debug, Clone, PartialEq)]
pub enum OverlayAction {
    Stay,
    Close,
    Resume(SessionId),
}

impl Overlay {
    pub fn help(custom: &CustomCommands) -> Self {
        Self { content: OverlayContent::Help(custom.clone()), scroll: 0 }
    }

    pub fn commands_found(&mut self, found: &CustomCommands) {
        if let OverlayContent::Help(custom) = &mut self.content {
            custom.clone_from(found);
        }
    }

    pub fn share(facts: ShareFacts) -> Self {
        Self { content: OverlayContent::Share(facts), scroll: 0 }
    }

    pub fn resume(previews: Vec<Preview>) -> Self {
        Self {
            content: OverlayContent::Resume { previews, filter: String::new(), selected: 0 },
            scroll: 0,
        }
    }

    pub fn key(&mut self, event: &KeyEvent) -> OverlayAction {
        if let OverlayContent::Resume { .. } = self.content {
            return self.key_in_picker(event);
        }
        match keymap::action(KeyContext::Transcript, event) {
            Some(Action::ScrollUp) => self.scroll = self.scroll.saturating_sub(1),
            Some(Action::ScrollDown) => self.scroll += 1,
            Some(Action::PageUp) => self.scroll = self.scroll.saturating_sub(10),
            Some(Action::PageDown) => self.scroll += 10,
            Some(Action::Top) => self.scroll = 0,
            _ => return OverlayAction::Close,
        }
        OverlayAction::Stay
    }

    /// Scrolls; the limit is applied when it is drawn.
    pub fn scroll_by(&mut self, rows: isize) {
        self.scroll = self.scroll.saturating_add_signed(rows);
    }

    fn key_in_picker(&mut self, event: &KeyEvent) -> OverlayAction {
        let fitting: Vec<SessionId> =
            self.fitting().iter().map(|preview| preview.session.clone()).collect();
        let OverlayContent::Resume { filter, selected, .. } = &mut self.content else {
            return OverlayAction::Close;
        };
        if let Some(letter) = keymap::letter(event) {
            filter.push(letter);
            *selected = 0;
            return OverlayAction::Stay;
        }
        match keymap::action(KeyContext::Composer, event) {
            Some(Action::Older) => *selected = selected.saturating_sub(1),
            Some(Action::Newer) => *selected = (*selected + 1).min(fitting.len().saturating_sub(1)),
            Some(Action::DeleteLeft) => {
                filter.pop();
                *selected = 0;
            }
            Some(Action::Submit) => {
                let chosen = fitting.get(*selected).cloned();
                return chosen.map_or(OverlayAction::Stay, OverlayAction::Resume);
            }
            Some(Action::Interrupt | Action::LeaveIfEmpty) => return OverlayAction::Close,
            _ => {}
        }
        OverlayAction::Stay
    }

    fn fitting(&self) -> Vec<&Preview> {
        let OverlayContent::Resume { previews, filter, .. } = &self.content else {
            return Vec::new();
        };
        let wanted = filter.to_lowercase();
        let fits = |preview: &&Preview| {
            let name = preview.name.as_deref().unwrap_or_default();
            name.to_lowercase().contains(&wanted)
                || preview.title.to_lowercase().contains(&wanted)
                || preview.session.as_str().starts_with(&wanted)
        };
        previews.iter().filter(fits).collect()
    }

    /// Draws the overlay in at most `height` rows.
    pub fn draw(&mut self, width: u16, height: usize) -> Vec<Line<'static>> {
        let mut lines = match &self.content {
            OverlayContent::Help(custom) => help(custom, width),
            OverlayContent::Share(facts) => share(facts, width, height),
            OverlayContent::Resume { .. } => self.picker(width, height),
        };
        // The last line explains the keys and stays visible.
        let last = lines.pop().filter(|_| height > 0);
        let room = height.saturating_sub(1);
        let over = lines.len().saturating_sub(room);
        self.scroll = self.scroll.min(over);
        lines.drain(..self.scroll);
        lines.truncate(room);
        lines.extend(last);
        lines
    }

    fn picker(&self, width: u16, height: usize) -> Vec<Line<'static>> {
        let OverlayContent::Resume { filter, selected, .. } = &self.content else {
            return Vec::new();
        };
        let fitting = self.fitting();
        let mut lines = vec![heading(&format!("Resume session: {}", safe::one_line(filter)))];
        if fitting.is_empty() {
            lines.push(Line::from("  no such session"));
            return lines;
        }
        let rows = height.saturating_sub(PREVIEW + 2).clamp(1, 10);
        let skip = (selected + 1).saturating_sub(rows);
        for (index, preview) in fitting.iter().enumerate().skip(skip).take(rows) {
            let here = if preview.here { "" } else { " (elsewhere)" };
            let name = preview.name.as_ref().map(|name| format!("{}: ", safe::one_line(name)));
            let (name, title) = (name.unwrap_or_default(), safe::one_line(&preview.title));
            let text = format!("{}  {name}{title}{here}", preview.when);
            let mut style = Style::new();
            if index == *selected {
                style = style.add_modifier(Modifier::REVERSED);
            }
            lines.push(first(&text, width, style));
        }
        if let Some(preview) = fitting.get(*selected) {
            let dim = Style::new().add_modifier(Modifier::DIM);
            for line in preview.lines.iter().rev().take(PREVIEW).rev() {
                let text = format!("  {}", safe::one_line(line));
                lines.push(first(&text, width, dim));
            }
        }
        lines.push(hint("↑↓ Enter resume · type to search · Esc back"));
        lines
    }
}

fn heading(text: &str) -> Line<'static> {
    Line::from(Span::styled(text.to_owned(), Style::new().add_modifier(Modifier::BOLD)))
}

fn hint(text: &str) -> Line<'static> {
    Line::from(Span::styled(text.to_owned(), Style::new().add_modifier(Modifier::DIM)))
}

fn help(custom: &CustomCommands, width: u16) -> Vec<Line<'static>> {
    let keys = keymap::help();
    let commands = command::all(&custom.commands)
        .into_iter()
        .map(|known| (format!("  /{}{}", known.name, known.argument_hint()), known.about));
    let heading_of_commands = [("Commands".to_owned(), String::new())];
    let rows: Vec<(String, String)> =
        keys.into_iter().chain(heading_of_commands).chain(commands).collect();
    let left = rows.iter().map(|(left, _)| columns(left)).max().unwrap_or(0).min(34);
    let mut lines = Vec::new();
    for (what, about) in rows {
        if about.is_empty() {
            lines.push(heading(&what));
            continue;
        }
        let gap = " ".repeat((left + 2).saturating_sub(columns(&what)).max(1));
        lines.extend(wrapped(&format!("{what}{gap}{about}"), width, Style::new()));
    }
    if !custom.notes.is_empty() {
        lines.push(heading("Ignored command files"));
    }
    for note in &custom.notes {
        lines.extend(wrapped(&format!("  {}", safe::one_line(note)), width, Style::new()));
    }
    lines.push(hint("↑↓ PgUp PgDn scroll · any other key closes"));
    lines
}

fn share(facts: &ShareFacts, width: u16, height: usize) -> Vec<Line<'static>> {
    let mut lines = vec![heading("This session")];
    if facts.urls.is_empty() {
        let how =
            "is not shared. `/share PORT` shares it on this machine, `/share 0` on a free port.";
        lines.extend(wrapped(how, width, Style::new()));
        return lines;
    }
    match &facts.invitation {
        Some(invitation) => lines = invited(invitation, width),
        None => {
            let token = facts.token.as_deref();
            let token = token.unwrap_or("Your own programs on this machine need no token.");
            let urls = facts.urls.iter().chain(&facts.attach).map(String::as_str);
            for text in urls.chain([token]) {
                lines.extend(wrapped(&safe::one_line(text), width, Style::new()));
            }
        }
    }
    if let Some(code) = facts.code.as_deref().and_then(qr_code) {
        let fits = code.iter().all(|line| columns(line) <= usize::from(width));
        match fits && code.len() + lines.len() < height {
            true => lines.extend(code.into_iter().map(Line::from)),
            false => lines.push(hint("(a larger window shows a QR code)")),
        }
    }
    lines.push(hint("any key closes"));
    lines
}

/// The instructions for another device.
fn invited(invitation: &Invitation, width: u16) -> Vec<Line<'static>> {
    let Invitation { code, terms, command } = invitation;
    let mut lines = vec![heading(&format!("One-time code: {}", safe::one_line(code)))];
    for text in [terms, command] {
        lines.extend(wrapped(&safe::one_line(text), width, Style::new()));
    }
    lines
}

/// A QR code in half blocks.
pub fn qr_code(text: &str) -> Option<Vec<String>> {
    let code = QrCode::new(text).ok()?;
    let drawn = code.render::<Dense1x2>().build();
    Some(drawn.lines().map(str::to_owned).collect())
}
