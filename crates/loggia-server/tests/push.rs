//! Push notifications: the outbox behind the dispatcher, real stores, real webhooks on real sockets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "tests"
)]

#[path = "push/configs.rs"]
mod configs;
#[path = "push/delivery.rs"]
mod delivery;
#[path = "push/egress.rs"]
mod egress;
#[path = "push/foreign.rs"]
mod foreign;
#[path = "push/life.rs"]
mod life;
#[path = "push/signed.rs"]
mod signed;
#[path = "push/stage.rs"]
mod stage;
#[path = "push/tasks.rs"]
mod tasks;
#[path = "push/webhook.rs"]
mod webhook;
