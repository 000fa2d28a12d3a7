//! What the status line and the keys need to know of the session: a fold of the log.

use loggia_core::{Envelope, Event, Millis, Origin, PromptId, Seq, Settings, Usage, UsageByModel};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    pub head: Seq,
    pub settings: Option<Settings>,
    pub workspace: Option<String>,
    /// What somebody calls the session.
    pub name: Option<String>,
    /// When the turn that runs began.
    pub turn: Option<Millis>,
    /// Prompts that wait, the oldest first.
    pub queued: Vec<Queued>,
    /// All that was used, and what the last request held: how full the context is.
    pub used: Usage,
    pub by_model: UsageByModel,
    pub context: u64,
    /// What the model can hold, where that is known.
    pub window: Option<u64>,
    pub closed: bool,
}

/// A prompt that waits for its turn.
#[derive(Debug, Clone, PartialEq)]
pub struct Queued {
    pub prompt: PromptId,
    pub text: String,
    pub origin: Origin,
}

impl Facts {
    pub fn apply(&mut self, envelope: &Envelope) {
        self.head = envelope.seq;
        match &envelope.event {
            Event::SessionOpened { workspace, settings, .. } => {
                self.settings = Some(settings.clone());
                self.workspace = Some(workspace.path().to_owned());
            }
            Event::SettingsChanged { settings } => {
                let before = self.settings.replace(settings.clone());
                // Another model holds another amount, which it has not said yet.
                if before.is_none_or(|before| before.model != settings.model) {
                    self.window = None;
                }
            }
            Event::SessionNamed { name } => self.name = Some(name.clone()),
            // How much is left is known when the model is asked the next time.
            Event::ContextCompacted { .. } => self.context = 0,
            Event::SessionClosed { .. } => self.closed = true,
            Event::PromptAccepted { prompt, content, .. } => {
                self.queued.push(Queued {
                    prompt: prompt.clone(),
                    text: content.shown(),
                    origin: envelope.origin.clone(),
                });
            }
            Event::PromptWithdrawn { prompt } => self.unqueue(prompt),
            Event::TurnStarted { prompt, .. } => {
                self.unqueue(prompt);
                self.turn = Some(envelope.at);
            }
            Event::TurnEnded { .. } => self.turn = None,
            Event::UsageReported { model, usage, window, .. } => {
                self.window = *window;
                self.context = usage.input_tokens.saturating_add(usage.output_tokens);
                self.used.add(usage);
                self.by_model.add(model, usage);
            }
            _ => {}
        }
    }

    fn unqueue(&mut self, prompt: &PromptId) {
        self.queued.retain(|known| known.prompt != *prompt);
    }

    pub fn running(&self) -> bool {
        self.turn.is_some()
    }
}
