//! How a session is set up, and changes that clients have not received yet.

use std::collections::VecDeque;

use loggia_core::{Envelope, Event, Level, Seq, Settings};

/// How many notices wait for the next turn.
const MOST_PENDING: usize = 8;

/// Where a session works, and under which settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Setup {
    pub workspace: String,
    pub model: String,
    pub settings: Option<Settings>,
    /// The session belongs to a named client, which may be on another machine.
    remote: bool,
}

impl Setup {
    /// A directory as clients see it: for remote clients without the server's own path.
    pub fn directory<'a>(&self, path: &'a str) -> &'a str {
        match path.strip_prefix(&self.workspace).filter(|_| self.remote) {
            Some("") => "the workspace",
            Some(below) => below.strip_prefix('/').unwrap_or(path),
            None => path,
        }
    }

    pub fn apply(&mut self, envelope: &Envelope) {
        if let Event::SessionOpened { workspace, .. } = &envelope.event {
            self.remote = envelope.origin.name().is_some();
            self.workspace = workspace.path().to_owned();
        }
        if let Event::SessionOpened { settings, .. } | Event::SettingsChanged { settings } =
            &envelope.event
        {
            self.model.clone_from(&settings.model.0);
            self.settings = Some(settings.clone());
        }
    }
}

/// A notice, and its event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Notice {
    pub seq: Seq,
    pub level: Level,
    pub text: String,
}

impl Notice {
    /// The id of the message that shows it.
    pub fn id(&self) -> String {
        format!("notice-{}", self.seq)
    }
}

/// Notices and changes of settings while no turn was open. They are sent when the next turn starts, so that the client of
/// that turn sees them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Pending {
    /// The newest, at most [`MOST_PENDING`].
    notices: VecDeque<Notice>,
    settings_changed: bool,
}

impl Pending {
    /// The notices to send with this event. `has_reader`: a client reads the frames of a notice that is raised now.
    pub fn notices(&mut self, envelope: &Envelope, has_reader: bool) -> Vec<Notice> {
        match &envelope.event {
            Event::NoticeRaised { level, text, .. } => {
                let notice = Notice { seq: envelope.seq, level: *level, text: text.clone() };
                if has_reader {
                    return vec![notice];
                }
                self.notices.push_back(notice);
                if self.notices.len() > MOST_PENDING {
                    self.notices.pop_front();
                }
                Vec::new()
            }
            Event::TurnStarted { .. } => self.notices.drain(..).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether a turn starts with this event, and settings changed before it while no task ran.
    pub fn settings_changed(&mut self, envelope: &Envelope, has_task: bool) -> bool {
        match &envelope.event {
            Event::TurnStarted { .. } => std::mem::take(&mut self.settings_changed),
            Event::SettingsChanged { .. } => {
                self.settings_changed |= !has_task;
                false
            }
            _ => false,
        }
    }
}
