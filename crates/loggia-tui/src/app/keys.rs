//! Handles keys, by the part of the screen that has the focus: overlay, question, transcript or
//! composer.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use loggia_core::{Cancel, Mode};

use super::sending::is_unsent;
use super::{Edited, Effect, Exit, Model, react};
use crate::command::{self, Local};
use crate::composer::KeyResult;
use crate::dialog::Reaction;
use crate::full::FullTranscript;
use crate::keymap::{self, Action, KeyContext};
use crate::overlay::{Overlay, OverlayAction};
use crate::uptime::Uptime;

pub fn key(model: &mut Model, event: &KeyEvent, now: Uptime) -> Vec<Effect> {
    let general = keymap::action(KeyContext::Anywhere, event);
    if general == Some(Action::Leave) {
        return leave(model, now);
    }
    model.leaving = None;
    if let Some(overlay) = &mut model.overlay {
        model.dialog.iter_mut().for_each(|dialog| dialog.was_typed(now));
        let chosen = overlay.key(event);
        return close_overlay(model, chosen);
    }
    if let Some(mut closed) = model.closed.take()
        && closed.takes(event, now)
    {
        model.remark(closed.notice.clone(), now);
        model.closed = Some(closed);
        // The next question was not seen either.
        model.dialog.iter_mut().for_each(|dialog| dialog.was_typed(now));
        return Vec::new();
    }
    model.tell_dialog();
    if let Some(dialog) = &mut model.dialog {
        let reaction = dialog.key(event, now);
        let word = match &reaction {
            Reaction::Elsewhere => dialog.take_word(),
            _ => String::new(),
        };
        if let Some(effects) = react(model, reaction, now) {
            return effects;
        }
        // The pending letters start the word.
        let mut effects = Vec::new();
        for letter in word.chars() {
            let event = KeyEvent::new(KeyCode::Char(letter), KeyModifiers::NONE);
            effects.extend(key_beside_dialog(model, &event, None, now));
        }
        effects.extend(key_beside_dialog(model, event, general, now));
        return effects;
    }
    key_beside_dialog(model, event, general, now)
}

/// Handles a key outside the question: in the transcript or the composer.
fn key_beside_dialog(
    model: &mut Model,
    event: &KeyEvent,
    general: Option<Action>,
    now: Uptime,
) -> Vec<Effect> {
    if model.full.as_ref().is_some_and(FullTranscript::has_keys) {
        return key_in_transcript(model, event, general, now);
    }
    if let (Some(_), Some(action)) =
        (&model.full, keymap::own_action(KeyContext::Transcript, event))
        && matches!(event.code, KeyCode::PageUp | KeyCode::PageDown)
    {
        model.with_full(now, |full, scene| full.page(action == Action::PageDown, scene));
        return Vec::new();
    }
    if keymap::letter(event) == Some('?') && model.composer.editor.is_empty() {
        return help(model);
    }
    let action = keymap::action(KeyContext::Composer, event);
    if action == Some(Action::TakeBack) {
        return take_back(model, now);
    }
    if action == Some(Action::TakeBackAll) {
        return take_back_all(model, now);
    }
    let empty = model.composer.editor.is_empty();
    if action == Some(Action::LeaveIfEmpty) && !empty {
        model.composer.editor.delete(crate::editor::Motion::Right);
        return Vec::new();
    }
    match model.composer.key(event, action) {
        KeyResult::Unknown => general.map_or_else(Vec::new, |action| anywhere(model, action, now)),
        written => write(model, written, now),
    }
}

fn key_in_transcript(
    model: &mut Model,
    event: &KeyEvent,
    general: Option<Action>,
    now: Uptime,
) -> Vec<Effect> {
    let taken = model.with_full(now, |full, scene| full.key(event, scene));
    if taken == Some(true) {
        return Vec::new();
    }
    let closes = keymap::action(KeyContext::Transcript, event) == Some(Action::Close);
    match general {
        _ if closes => toggle_transcript(model),
        Some(action) => anywhere(model, action, now),
        None => Vec::new(),
    }
}

pub fn paste(model: &mut Model, text: &str, now: Uptime) -> Vec<Effect> {
    if let Some(closed) = model.closed.take_if(|closed| closed.takes_paste(now)) {
        model.remark(closed.notice, now);
        return Vec::new();
    }
    // A paste never answers a question, but may be part of a text answer.
    model.tell_dialog();
    if let Some(dialog) = &mut model.dialog {
        if dialog.accepts_keys(now) && dialog.paste(text) {
            return Vec::new();
        }
        dialog.was_typed(now);
        let word = dialog.take_word();
        let written = model.composer.paste(&format!("{word}{text}"));
        return write(model, written, now);
    }
    let written = model.composer.paste(text);
    write(model, written, now)
}

fn write(model: &mut Model, written: KeyResult, now: Uptime) -> Vec<Effect> {
    match written {
        KeyResult::Nothing | KeyResult::Unknown => Vec::new(),
        KeyResult::FindFiles(query) => vec![Effect::FindFiles(query)],
        KeyResult::LoadCommands => vec![Effect::LoadCommands],
        KeyResult::EditOutside(text) => {
            vec![Effect::EditOutside { what: Edited::Composer, name: "prompt.md".into(), text }]
        }
        KeyResult::TooLong => {
            model.remark("the prompt is too long", now);
            Vec::new()
        }
        KeyResult::Shell(line) => {
            let typed = format!("{}{line}", loggia_core::SHELL_PREFIX);
            if is_unsent(model, "your command was not sent", now) {
                model.composer.give_back(&typed);
                return Vec::new();
            }
            vec![Effect::Remember(typed), Effect::Shell(line)]
        }
        KeyResult::Submit(text) => {
            model.full.iter_mut().for_each(FullTranscript::to_end);
            let mut effects = vec![Effect::Remember(text.clone())];
            match command::local(&text) {
                Some((local, argument)) => effects.extend(do_locally(model, local, argument, now)),
                None if is_unsent(model, "your prompt was not sent", now) => {
                    model.composer.give_back(&text);
                    return Vec::new();
                }
                None => effects.push(Effect::Prompt(text)),
            }
            effects
        }
    }
}

/// Handles `/share`.
fn share(model: &mut Model, argument: &str, now: Uptime) -> Vec<Effect> {
    let (word, rest) = argument.split_once(char::is_whitespace).unwrap_or((argument, ""));
    match (word, rest.trim(), argument.parse()) {
        ("", _, _) => vec![Effect::LoadShare],
        ("off", "", _) => vec![Effect::ShareOn(None)],
        ("code", scopes, _) => vec![Effect::Invite(scopes.to_owned())],
        (_, _, Ok(port)) => vec![Effect::ShareOn(Some(port))],
        (_, _, Err(_)) => {
            let how = "usage: /share PORT (0 picks a free port), /share code or /share off";
            model.remark(how, now);
            Vec::new()
        }
    }
}

fn do_locally(model: &mut Model, local: Local, argument: &str, now: Uptime) -> Vec<Effect> {
    if let Some(name) = command::alone(local).filter(|_| !argument.is_empty()) {
        let given = crate::safe::one_line(argument);
        model.remark(format!("`/{name}` takes no argument, but got `{given}`"), now);
        return Vec::new();
    }
    let remark = match local {
        Local::Help => return help(model),
        Local::Share => return share(model, argument, now),
        Local::Resume => return vec![Effect::LoadSessions],
        Local::Transcript => return toggle_transcript(model),
        Local::Quit => return vec![Effect::Leave(Exit::Asked)],
        Local::Copy => match model.last_answer().map(str::to_owned) {
            Some(text) => {
                model.remark("copied, if your terminal allows it", now);
                return vec![Effect::Copy(text)];
            }
            None => "no answer yet".to_owned(),
        },
        Local::Vim => {
            model.composer.toggle_vim();
            match model.composer.vim {
                Some(_) => "Vim keys on: Esc for normal mode".to_owned(),
                None => "Vim keys off".to_owned(),
            }
        }
        Local::Mode => {
            let mode = model.facts.settings.as_ref().map_or("", |settings| settings.mode.name());
            let found = match (mode_named(argument), argument) {
                (Some(mode), _) => return set_mode(model, mode),
                (None, "") => format!("the mode is `{mode}`"),
                (None, other) => format!("there is no mode `{}`", crate::safe::one_line(other)),
            };
            format!("{found}: /mode ask, edits, plan or all")
        }
    };
    model.remark(remark, now);
    Vec::new()
}

fn help(model: &mut Model) -> Vec<Effect> {
    model.overlay = Some(Overlay::help(&model.composer.custom));
    vec![Effect::LoadCommands]
}

fn mode_named(name: &str) -> Option<Mode> {
    let all = [Mode::Ask, Mode::Edits, Mode::Plan, Mode::All];
    all.into_iter().find(|mode| mode.name().eq_ignore_ascii_case(name))
}

fn set_mode(model: &Model, mode: Mode) -> Vec<Effect> {
    let settings = model.facts.settings.clone();
    let changed = settings.map(|settings| loggia_core::Settings { mode, ..settings });
    changed.map(Effect::Configure).into_iter().collect()
}

/// The modes that a key cycles through. `all` is excluded because of the risk of a typing error.
fn next_mode(model: &Model) -> Vec<Effect> {
    let Some(settings) = &model.facts.settings else { return Vec::new() };
    let next = match settings.mode {
        Mode::Ask => Mode::Edits,
        Mode::Edits => Mode::Plan,
        Mode::Plan | Mode::All => Mode::Ask,
    };
    set_mode(model, next)
}

fn anywhere(model: &mut Model, action: Action, now: Uptime) -> Vec<Effect> {
    match action {
        Action::Interrupt if model.facts.running() => {
            if is_unsent(model, "nothing was interrupted", now) {
                return Vec::new();
            }
            note_queue(model, now);
            vec![Effect::Cancel(Cancel::Turn)]
        }
        Action::LeaveIfEmpty => vec![Effect::Leave(Exit::Asked)],
        Action::Suspend => vec![Effect::Suspend],
        Action::Transcript => toggle_transcript(model),
        Action::NextMode => next_mode(model),
        Action::Help => help(model),
        Action::Redraw => vec![Effect::Redraw],
        _ => Vec::new(),
    }
}

/// Reports queued prompts when a turn is interrupted, because they run next.
fn note_queue(model: &mut Model, now: Uptime) {
    let ours = model
        .facts
        .queued
        .iter()
        .filter(|queued| model.own_origins.contains(&queued.origin))
        .count();
    if ours > 0 {
        let prompts = if ours == 1 { "prompt" } else { "prompts" };
        let text = format!("{ours} {prompts} queued: Alt-↑ takes back the last, Ctrl-X all");
        model.remark(text, now);
    }
}

/// Ctrl-C clears the composer, then interrupts the turn, then quits if pressed twice.
fn leave(model: &mut Model, now: Uptime) -> Vec<Effect> {
    // Drop a pending letter.
    model.dialog.iter_mut().for_each(|dialog| drop(dialog.take_word()));
    if model.leaving(now) {
        return vec![Effect::Leave(Exit::Asked)];
    }
    if model.composer.history.search.take().is_some() {
        return Vec::new();
    }
    if !model.composer.editor.is_empty() {
        model.composer.editor.clear();
        model.composer.popup = None;
        return Vec::new();
    }
    if model.overlay.take().is_some() {
        return Vec::new();
    }
    model.leaving = Some(now);
    match model.facts.running() && !is_unsent(model, "nothing was interrupted", now) {
        true => vec![Effect::Cancel(Cancel::Turn)],
        false => Vec::new(),
    }
}

fn toggle_transcript(model: &mut Model) -> Vec<Effect> {
    model.full = match model.full.take() {
        None => Some(FullTranscript::default()),
        Some(full) => full.toggled(),
    };
    Vec::new()
}

/// Returns this person's last queued prompt to the composer.
fn take_back(model: &mut Model, now: Uptime) -> Vec<Effect> {
    let ours =
        model.facts.queued.iter().rev().find(|queued| model.own_origins.contains(&queued.origin));
    let Some(queued) = ours.cloned() else { return Vec::new() };
    if is_unsent(model, "the prompt was not removed from the queue", now) {
        return Vec::new();
    }
    model.composer.give_back(&queued.text);
    vec![Effect::Cancel(Cancel::Prompt(queued.prompt))]
}

/// Removes all queued prompts of this person. They remain in the history.
fn take_back_all(model: &mut Model, now: Uptime) -> Vec<Effect> {
    let ours =
        model.facts.queued.iter().filter(|queued| model.own_origins.contains(&queued.origin));
    let cancels: Vec<Effect> =
        ours.map(|queued| Effect::Cancel(Cancel::Prompt(queued.prompt.clone()))).collect();
    if !cancels.is_empty() && is_unsent(model, "no prompt was removed from the queue", now) {
        return Vec::new();
    }
    let said = match cancels.len() {
        0 => "you have no queued prompts".to_owned(),
        1 => "1 prompt removed from the queue: ↑ recalls it".to_owned(),
        many => format!("{many} prompts removed from the queue: ↑ recalls them"),
    };
    model.remark(said, now);
    cancels
}

fn close_overlay(model: &mut Model, chosen: OverlayAction) -> Vec<Effect> {
    match chosen {
        OverlayAction::Stay => Vec::new(),
        OverlayAction::Close => {
            model.overlay = None;
            Vec::new()
        }
        OverlayAction::Resume(session) => {
            model.overlay = None;
            vec![Effect::OpenSession(session)]
        }
    }
}
