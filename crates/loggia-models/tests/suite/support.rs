//! A fake with a script, a model that talks to it, and a conversation that grows as the turn loop grows it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use loggia_core::{CallId, CallOutcome, Output, ReplyItem};
use loggia_models::{
    Client, ClientConfig, Delta, Message, Model, ModelError, ModelFacts, ModelRequest, PastCall,
    Protocol, Purpose, Reply, Secret, UserMessage, VendorModel,
};

/// A model of the fake at this base URL.
pub fn model(
    provider: &str,
    base_url: &str,
    header: (&str, &str),
    protocol: Arc<dyn Protocol>,
    facts: ModelFacts,
) -> VendorModel {
    let client = Client::new(ClientConfig {
        provider: provider.to_owned(),
        base_url: base_url.to_owned(),
        headers: vec![(header.0.to_owned(), Secret::new(header.1))],
        idle: Duration::from_secs(5),
        ..ClientConfig::default()
    });
    VendorModel::new(client.unwrap(), protocol, facts)
}

/// Reads a reply to its end.
pub async fn reply(model: &dyn Model, request: ModelRequest) -> Result<Vec<Delta>, ModelError> {
    let mut stream = model.stream(request);
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        deltas.push(delta?);
    }
    Ok(deltas)
}

/// A conversation with a model.
pub struct Talk {
    pub request: ModelRequest,
    next_call: usize,
}

impl Talk {
    pub fn new(instructions: &str, prompt: &str) -> Self {
        let request = ModelRequest {
            purpose: Purpose::Turn,
            instructions: instructions.into(),
            messages: vec![Message::User(UserMessage::text(prompt))],
            tools: [].into(),
            effort: None,
            cache_key: "session-1".into(),
        };
        Self { request, next_call: 0 }
    }

    pub fn say(&mut self, text: &str) {
        self.request.messages.push(Message::User(UserMessage::text(text)));
    }

    /// Adds a reply, with this result for each of its calls, as the turn loop does.
    pub fn replied(&mut self, model: &dyn Model, deltas: &[Delta], result: &str) {
        let mut reply = Reply { model: Some(model.name()), ..Reply::default() };
        for delta in deltas {
            match delta {
                Delta::Text(text) => reply.text.push_str(text),
                Delta::Item(raw) => reply.items.push(ReplyItem { raw: raw.clone(), call: None }),
                Delta::Call { tool, input, item } => {
                    self.next_call += 1;
                    let call = CallId::from(format!("call-{}", self.next_call).as_str());
                    if let Some(raw) = item {
                        let (raw, call) = (raw.clone(), Some(call.clone()));
                        reply.items.push(ReplyItem { raw, call });
                    }
                    reply.calls.push(PastCall {
                        call,
                        tool: tool.clone(),
                        input: input.clone().unwrap_or_default(),
                        outcome: CallOutcome::Succeeded { output: Output::text(result) },
                    });
                }
                Delta::Thought { .. } | Delta::Usage(_) | Delta::Stop(_) => {}
            }
        }
        self.request.messages.push(Message::Reply(reply));
    }
}
