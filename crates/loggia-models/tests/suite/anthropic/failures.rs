//! How a reply fails.

use std::sync::Arc;
use std::time::Duration;

use loggia_core::Stop;
use loggia_fake_vendors::{Answer, FakeVendors, Fault, Say, Script};
use loggia_models::ModelErrorKind::{self, *};
use loggia_models::{Anthropic, Delta, HttpFailure, Protocol, VendorModel};
use serde_json::json;

use super::{OPUS, answering, client, facts, opus, raw, read, talk};
use crate::support::reply;

#[tokio::test]
async fn every_refusal_has_its_kind() {
    for (name, kind, retry) in [
        ("rate_limit", RateLimited, true),
        ("quota", QuotaSpent, false),
        ("own_limit", QuotaSpent, false),
        ("credit", QuotaSpent, false),
        ("billing", QuotaSpent, false),
        ("overloaded", Overloaded, true),
        ("server", Overloaded, true),
        ("timeout", Overloaded, true),
        ("bad_key", Authentication, false),
        ("permission", Authentication, false),
        ("unknown_model", UnknownModel, false),
        ("too_long", ContextTooLong, false),
        ("too_large", ContextTooLong, false),
        ("history", HistoryRejected, false),
    ] {
        let fakes = answering(vec![Answer::refused(name)]).await;
        let error = reply(&opus(&fakes), talk("go").request).await.unwrap_err();
        assert_eq!((error.kind, error.may_retry()), (kind, retry), "{name}: {error}");
        assert!(error.message.contains("; ") && !error.message.contains('\n'), "{error}");

        let fault = Fault::ErrorAfter { events: 4, error: name.to_owned() };
        let fakes = answering(vec![Answer::text("So it is.").failing(fault)]).await;
        let (deltas, error) = read(&opus(&fakes), talk("go").request).await;
        assert_eq!(deltas, [Delta::Text("So it is.".into())], "{name}");
        assert_eq!(error.unwrap().kind, kind, "{name}");
    }
}

#[tokio::test]
async fn the_wait_that_the_vendor_asks_for_is_kept() {
    let fault = Fault::Refuse { error: "rate_limit".into(), retry_after_ms: Some(1200) };
    let fakes = answering(vec![Answer::default().failing(fault)]).await;
    let error = reply(&opus(&fakes), talk("go").request).await.unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_millis(1200)));
}

#[test]
fn codes_come_before_types_and_types_before_texts() {
    let body = |kind: &str, message: &str, code: &str| {
        let details = json!({ "error_code": code });
        json!({ "type": "error", "error": { "type": kind, "message": message, "details": details } })
            .to_string()
    };
    let invalid = |message: &str| body("invalid_request_error", message, "");
    let cases: [(u16, String, ModelErrorKind); 15] = [
        (429, body("rate_limit_error", "slow", "enforced_spend_limit_reached"), QuotaSpent),
        (429, body("rate_limit_error", "slow", "ramp_limit_exceeded"), RateLimited),
        (429, body("rate_limit_error", "slow", "a_new_code"), RateLimited),
        (
            413,
            body("invalid_request_error", "big", "request_body_too_large_after_decoding"),
            ContextTooLong,
        ),
        (404, body("not_found_error", "model: claude-9", ""), UnknownModel),
        (404, body("not_found_error", "Not found", ""), BadRequest),
        (
            400,
            invalid("input length and `max_tokens` exceed context limit: 9 + 9 > 10"),
            ContextTooLong,
        ),
        (
            400,
            invalid(
                "messages.3.content.8: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified.",
            ),
            HistoryRejected,
        ),
        (
            400,
            invalid("messages.1.content.0: Invalid `signature` in `thinking` block"),
            HistoryRejected,
        ),
        (
            400,
            invalid("messages.1.content.0: Invalid `data` in `redacted_thinking` block"),
            HistoryRejected,
        ),
        (
            400,
            invalid(
                "messages.9.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`.",
            ),
            HistoryRejected,
        ),
        (400, invalid("tools.0.custom.name: too long"), BadRequest),
        (502, "<html>Bad gateway</html>".into(), Overloaded),
        (402, String::new(), QuotaSpent),
        (401, "no".into(), Authentication),
    ];
    for (status, body, kind) in cases {
        let failure = HttpFailure { status, body: body.clone(), ..HttpFailure::default() };
        assert_eq!(Anthropic::vendor().error(&failure).kind, kind, "{body}");
    }
}

#[test]
fn a_spent_quota_is_not_retried_and_long_texts_are_cut() {
    let said = "ö\n".repeat(2000);
    let body = json!({ "error": { "type": "billing_error", "message": said } }).to_string();
    let failure = HttpFailure { status: 429, body, ..HttpFailure::default() };
    let error = Anthropic::vendor().error(&failure);
    assert_eq!(error.should_retry, Some(false));
    assert!(error.message.chars().count() < 600, "{error}");
}

#[tokio::test]
async fn a_cut_at_every_byte_is_an_error() {
    let answer = Answer::says([
        Say::Thought("hm ü".into()),
        Say::Text("tëxt".into()),
        Say::call("run_shell", &json!({ "command": "ls" })),
    ]);
    let fakes = answering(vec![answer.clone()]).await;
    let complete = reply(&opus(&fakes), talk("go").request).await.unwrap();
    assert_eq!(complete.last(), Some(&Delta::Stop(Stop::Finished)));
    let bytes = raw(&fakes, &fakes.recorded()[0].body).await.len();
    let script: Script =
        Arc::new(move |asked| answer.clone().failing(Fault::CutAfter(asked.earlier_requests)));
    let fakes = FakeVendors::start(script).await.unwrap();
    let model = opus(&fakes);
    for cut in 0..bytes {
        let (deltas, error) = read(&model, talk("go").request).await;
        let error = error.unwrap_or_else(|| panic!("an end at {cut} of {bytes}"));
        assert_eq!(error.kind, Transport, "at {cut}: {error}");
        assert!(complete.starts_with(&deltas), "at {cut}: {deltas:?}");
        assert!(deltas.len() < complete.len(), "at {cut}: {deltas:?}");
    }
    assert_eq!(read(&model, talk("go").request).await, (complete, None));
}

#[tokio::test]
async fn pings_do_not_keep_a_stalled_stream_open() {
    let fakes = answering(vec![Answer::text("So")]).await;
    reply(&opus(&fakes), talk("go").request).await.unwrap();
    let stream = raw(&fakes, &fakes.recorded()[0].body).await;
    let (said, _) = stream.split_once("event: content_block_stop").unwrap();
    let stalled = Answer::text("So").failing(Fault::StallAfter(said.len()));
    let fakes = answering(vec![stalled]).await;
    let client = client(&fakes, Duration::from_millis(300));
    let model = VendorModel::new(client, Arc::new(Anthropic::vendor()), facts(OPUS, "adaptive"));
    let read = read(&model, talk("go").request);
    let (deltas, error) = tokio::time::timeout(Duration::from_secs(4), read).await.unwrap();
    assert_eq!(deltas, [Delta::Text("So".into())]);
    let error = error.unwrap();
    assert_eq!(error.kind, Transport);
    assert!(error.message.contains("sent nothing"), "{error}");
}
