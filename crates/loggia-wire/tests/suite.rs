//! Golden logs in every dialect, S1's example exchange, what decoders take and refuse, and the laws
//! of projection.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::string_slice,
    reason = "tests"
)]

mod suite {
    mod appendix;
    mod card;
    mod coder;
    mod decode;
    mod devtool;
    mod endpoint;
    mod envelope;
    mod generate;
    mod laws;
    mod legacy;
    mod logs;
    mod refuse;
    mod refused;
    mod reply;
    mod rest;
    mod script;
    mod sdlc;
    mod transcript;
    mod view;
    mod words;
}
