//! A fold of the log for the status line and the keys.

use loggia_core::{Envelope, Event, Millis, Origin, PromptId, Seq, Settings, Usage, UsageByModel};

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    pub head: Seq,
    pub settings: Option<Settings>,
    pub workspace: Option<String>,
    /// The session's name.
    pub name: Option<String>,
    /// Start of the running turn.
    pub turn: Option<Millis>,
    /// Queued prompts, oldest first.
    pub queued: Vec<Queued>,
    /// Total usage, and the size of the last request, which is the size of the context.
    pub used: Usage,
    pub by_model: UsageByModel,
    pub context: u64,
    /// The model's context window, if known.
    pub window: Option<u64>,
    pub closed: bool,
}

/// A queued prompt.
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
                // The window of another model is not known yet.
                if before.is_none_or(|before| before.model != settings.model) {
                    self.window = None;
                }
            }
            Event::SessionNamed { name } => self.name = Some(name.clone()),
            // The new size is known after the next model request.
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
