//! Chat Completions, as five servers speak it: OpenAI (`chat`), DeepSeek, OpenRouter, llama.cpp and vLLM.
//! The base URL ends with `/v1`.

mod check;
mod error;
mod reply;

use serde_json::{Value, json};

use super::{HttpCall, Response, Route, Vendor};
use crate::script::{Answer, Asked};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    OpenAi,
    DeepSeek,
    OpenRouter,
    LlamaCpp,
    Vllm,
}

impl Server {
    pub const ALL: [Server; 5] =
        [Server::OpenAi, Server::DeepSeek, Server::OpenRouter, Server::LlamaCpp, Server::Vllm];

    /// The list of models.
    fn models(self) -> Value {
        let model = |id: &str, owner: &str| json!({ "id": id, "object": "model", "created": 1_790_000_000, "owned_by": owner });
        let (mut model, more) = match self {
            Server::OpenAi => (model("gpt-6.1-sol", "system"), json!({})),
            Server::DeepSeek => (
                json!({ "id": "deepseek-v4-pro", "object": "model", "owned_by": "deepseek" }),
                json!({}),
            ),
            Server::OpenRouter => (
                json!({ "id": "anthropic/claude-opus-5-5", "name": "Anthropic: Claude Opus 5.5" }),
                json!({
                    "context_length": 1_000_000,
                    "pricing": { "prompt": "0.000004", "completion": "0.00002", "input_cache_read": "0.0000002" },
                    "top_provider": { "context_length": 1_000_000, "max_completion_tokens": 128_000, "is_moderated": true },
                    "supported_parameters": ["include_reasoning", "max_tokens", "reasoning", "tools"],
                }),
            ),
            Server::LlamaCpp => (
                model("qwen3.8-27b.gguf", "llamacpp"),
                json!({ "meta": { "vocab_type": 2, "n_ctx": 32_768, "n_ctx_train": 262_144 } }),
            ),
            Server::Vllm => (
                model("Qwen/Qwen3.8-27B", "vllm"),
                json!({ "root": "Qwen/Qwen3.8-27B", "parent": null, "max_model_len": 131_072 }),
            ),
        };
        if let (Value::Object(model), Value::Object(more)) = (&mut model, more) {
            model.extend(more);
        }
        json!({ "object": "list", "data": [model] })
    }
}

impl Vendor for Server {
    fn name(&self) -> &'static str {
        match self {
            Server::OpenAi => "chat",
            Server::DeepSeek => "deepseek",
            Server::OpenRouter => "openrouter",
            Server::LlamaCpp => "llamacpp",
            Server::Vllm => "vllm",
        }
    }

    fn route(&self, call: &HttpCall) -> Route {
        if let Err(refusal) = check::key(*self, call) {
            return Route::Now(refusal);
        }
        match (call.method.as_str(), call.path.as_str()) {
            ("GET", "/v1/models") => Route::Now(Response::new(200, self.models())),
            ("POST", "/v1/chat/completions") => match check::request(*self, &call.body) {
                Ok(asked) => Route::Reply(asked),
                Err(refusal) => Route::Now(refusal),
            },
            (method, path) => {
                let query = if call.query.is_empty() { "" } else { "?" };
                let why = format!("Invalid URL ({method} {path}{query}{})", call.query);
                Route::Now(error::refusal(*self, 404, &why))
            }
        }
    }

    fn events(&self, asked: &Asked, answer: &Answer) -> Vec<String> {
        reply::chunks(*self, asked, answer)
    }

    fn whole(&self, asked: &Asked, answer: &Answer) -> Value {
        reply::whole(*self, asked, answer)
    }

    fn error(&self, name: &str, retry_after_ms: Option<u64>) -> Response {
        error::named(*self, name, retry_after_ms)
    }

    fn error_event(&self, name: &str) -> String {
        error::event(*self, name)
    }

    fn keep_alive(&self) -> String {
        match self {
            Server::OpenRouter => ": OPENROUTER PROCESSING\n\n".to_owned(),
            _ => ": keep-alive\n\n".to_owned(),
        }
    }
}
