//! The vendors' clients against the strict fakes: what is sent, what is read, and how a reply fails.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod anthropic;
mod chat;
mod gemini;
mod ollama;
mod openai;
mod providers;
mod support;
