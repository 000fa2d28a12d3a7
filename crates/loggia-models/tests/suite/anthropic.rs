//! The Messages API against its fake.

mod failures;
mod models;
mod prefix;
mod requests;
mod round_trip;

use std::sync::Arc;
use std::time::Duration;

use loggia_core::{Effort, ToolDescription};
use loggia_fake_vendors::{Answer, FakeVendors, Script};
use loggia_models::{
    Anthropic, Client, ClientConfig, Delta, Model, ModelError, ModelFacts, ModelRequest, Secret,
    VendorModel,
};
use serde_json::{Value, json};

use crate::support::{self, Talk};

const OPUS: &str = "claude-opus-5-5";
const KEY: (&str, &str) = ("x-api-key", "sk-ant-test");

fn facts(id: &str, thinking: &str) -> ModelFacts {
    ModelFacts {
        id: id.to_owned(),
        window: Some(1_000_000),
        output: Some(64_000),
        efforts: Some(vec![Effort::Low, Effort::Medium, Effort::High]),
        thinking: Some(thinking.to_owned()),
        price: None,
    }
}

fn opus(fakes: &FakeVendors) -> VendorModel {
    model(fakes, facts(OPUS, "adaptive"))
}

fn model(fakes: &FakeVendors, facts: ModelFacts) -> VendorModel {
    let protocol = Arc::new(Anthropic::vendor());
    support::model("anthropic", &fakes.url("anthropic"), KEY, protocol, facts)
}

fn client(fakes: &FakeVendors, idle: Duration) -> Client {
    let client = Client::new(ClientConfig {
        provider: "anthropic".to_owned(),
        base_url: fakes.url("anthropic"),
        headers: vec![(KEY.0.to_owned(), Secret::new(KEY.1))],
        idle,
        ..ClientConfig::default()
    });
    client.unwrap()
}

/// A fake that gives these answers in turn, and the last one again.
async fn answering(answers: Vec<Answer>) -> FakeVendors {
    let script: Script = Arc::new(move |asked| {
        let answer = answers.get(asked.earlier_requests).or(answers.last());
        answer.cloned().unwrap_or_default()
    });
    FakeVendors::start(script).await.unwrap()
}

fn talk(prompt: &str) -> Talk {
    let mut talk = Talk::new("Be short.", prompt);
    talk.request.tools = [ToolDescription {
        name: "run_shell".to_owned(),
        description: "Runs a command.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "command": { "type": "string" } } }),
    }]
    .into();
    talk
}

/// What was read before the end or the error.
async fn read(model: &dyn Model, request: ModelRequest) -> (Vec<Delta>, Option<ModelError>) {
    use futures::StreamExt;
    let mut stream = model.stream(request);
    let mut deltas = Vec::new();
    while let Some(delta) = stream.next().await {
        match delta {
            Ok(delta) => deltas.push(delta),
            Err(error) => return (deltas, Some(error)),
        }
    }
    (deltas, None)
}

/// The content that the vendor gives for a request without a stream.
async fn whole(fakes: &FakeVendors, body: &Value) -> Value {
    let mut body = body.clone();
    body["stream"] = json!(false);
    let response: Value = serde_json::from_str(&raw(fakes, &body).await).unwrap();
    response["content"].clone()
}

/// The body of the response.
async fn raw(fakes: &FakeVendors, body: &Value) -> String {
    let url = format!("{}/v1/messages", fakes.url("anthropic"));
    let sent = reqwest::Client::new()
        .post(url)
        .header(KEY.0, KEY.1)
        .header("anthropic-version", "2026-10-21")
        .json(body);
    sent.send().await.unwrap().text().await.unwrap()
}
