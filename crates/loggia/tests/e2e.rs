//! The real binary, as a user runs it: real processes, real files, real signals.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "tests"
)]

#[path = "e2e/access.rs"]
mod access;
#[path = "e2e/attach.rs"]
mod attach;
#[path = "e2e/attacks.rs"]
mod attacks;
#[path = "e2e/authority.rs"]
mod authority;
#[path = "e2e/automatic_compaction.rs"]
mod automatic_compaction;
#[path = "e2e/bindings.rs"]
mod bindings;
#[path = "e2e/bounds.rs"]
mod bounds;
#[path = "e2e/card.rs"]
mod card;
#[path = "e2e/catalog.rs"]
mod catalog;
#[path = "e2e/clone.rs"]
mod clone;
#[path = "e2e/coder.rs"]
mod coder;
#[path = "e2e/coder_faults.rs"]
mod coder_faults;
#[path = "e2e/coder_replay.rs"]
mod coder_replay;
#[path = "e2e/copresence.rs"]
mod copresence;
#[path = "e2e/cost.rs"]
mod cost;
#[path = "e2e/criteria.rs"]
mod criteria;
#[path = "e2e/custom.rs"]
mod custom;
#[path = "e2e/driver.rs"]
mod driver;
#[path = "e2e/encrypted.rs"]
mod encrypted;
#[path = "e2e/first_run.rs"]
mod first_run;
#[path = "e2e/floods.rs"]
mod floods;
#[path = "e2e/granted.rs"]
mod granted;
#[path = "e2e/hook.rs"]
mod hook;
#[path = "e2e/hostile.rs"]
mod hostile;
#[path = "e2e/isolation.rs"]
mod isolation;
#[path = "e2e/kill.rs"]
mod kill;
#[path = "e2e/lists.rs"]
mod lists;
#[path = "e2e/logging.rs"]
mod logging;
#[path = "e2e/lost_connection.rs"]
mod lost_connection;
#[path = "e2e/many_clients.rs"]
mod many_clients;
#[path = "e2e/naming.rs"]
mod naming;
#[path = "e2e/oauth.rs"]
mod oauth;
#[path = "e2e/oauth_attacks.rs"]
mod oauth_attacks;
#[path = "e2e/ownership.rs"]
mod ownership;
#[path = "e2e/pairing.rs"]
mod pairing;
#[path = "e2e/providers.rs"]
mod providers;
#[path = "e2e/push.rs"]
mod push;
#[path = "e2e/questions.rs"]
mod questions;
#[path = "e2e/refused.rs"]
mod refused;
#[path = "e2e/replies.rs"]
mod replies;
#[path = "e2e/reserved_dirs.rs"]
mod reserved_dirs;
#[path = "e2e/screen.rs"]
mod screen;
#[path = "e2e/screens.rs"]
mod screens;
#[path = "e2e/screenshots.rs"]
mod screenshots;
#[path = "e2e/sdlc.rs"]
mod sdlc;
#[path = "e2e/secrets.rs"]
mod secrets;
#[path = "e2e/seeds.rs"]
mod seeds;
#[path = "e2e/served.rs"]
mod served;
#[path = "e2e/served_faults.rs"]
mod served_faults;
#[path = "e2e/sessions.rs"]
mod sessions;
#[path = "e2e/shared.rs"]
mod shared;
#[path = "e2e/sharing.rs"]
mod sharing;
#[path = "e2e/slash.rs"]
mod slash;
#[path = "e2e/snapshots.rs"]
mod snapshots;
#[path = "e2e/sockets.rs"]
mod sockets;
#[path = "e2e/split_frames.rs"]
mod split_frames;
#[path = "e2e/store_faults.rs"]
mod store_faults;
#[path = "e2e/svg.rs"]
mod svg;
#[path = "e2e/tasks.rs"]
mod tasks;
#[path = "e2e/terminal.rs"]
mod terminal;
#[path = "e2e/tls.rs"]
mod tls;
#[path = "e2e/tool_faults.rs"]
mod tool_faults;
#[path = "e2e/trusting.rs"]
mod trusting;
#[path = "e2e/tui.rs"]
mod tui;
#[path = "e2e/unanswered.rs"]
mod unanswered;
#[path = "e2e/vendors.rs"]
mod vendors;
#[path = "e2e/workspace_faults.rs"]
mod workspace_faults;
