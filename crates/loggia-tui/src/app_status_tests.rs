//! The status line.

use super::*;

#[test]
fn the_status_shows_how_full_the_context_is_if_known() {
    let mut harness = Harness::new();
    harness.model.size = (100, 20);
    harness.turn("go");
    let status = |harness: &mut Harness| harness.draw().lines.last().unwrap().to_string();
    let usage = |tokens, window| Event::UsageReported {
        turn: "u".into(),
        model: ModelName("offline".into()),
        usage: loggia_core::Usage {
            input_tokens: tokens,
            output_tokens: 1_000,
            ..Default::default()
        },
        window,
    };
    assert!(!status(&mut harness).contains("context"));
    harness.event(Origin::agent(), usage(33_000, None));
    assert!(
        status(&mut harness).contains("· context 34k · 33k in, 1.0k out"),
        "{}",
        status(&mut harness)
    );
    harness.event(Origin::agent(), usage(49_000, Some(200_000)));
    assert!(status(&mut harness).contains("· context 50k of 200k (25%) · 82k in"));
    // The window of another model is unknown at first.
    let settings = harness.model.facts.settings.clone().unwrap();
    let model = ModelName("scripted:x.toml".into());
    harness.event(me(), Event::SettingsChanged { settings: Settings { model, ..settings } });
    assert!(status(&mut harness).contains("· context 50k · 82k in"), "{}", status(&mut harness));
    let upto = Seq(harness.seq);
    harness.event(
        Origin::agent(),
        Event::ContextCompacted {
            upto,
            summary: "short".into(),
            automatic: false,
            within_turn: false,
        },
    );
    assert!(!status(&mut harness).contains("context"), "{}", status(&mut harness));
    // Extreme values from a log.
    harness.event(Origin::agent(), usage(u64::MAX, Some(1)));
    harness.event(Origin::agent(), usage(u64::MAX, Some(u64::MAX)));
    assert!(status(&mut harness).contains("(100%)"), "{}", status(&mut harness));
}

#[test]
fn the_status_shows_the_cost_if_all_prices_are_known() {
    let rate = |text| loggia_core::Rate::parse(text).unwrap();
    let price =
        loggia_core::Price { input: rate("3.00"), output: rate("15.00"), cached_input: None };
    let mut harness = Harness::new();
    harness.model.size = (100, 20);
    harness.turn("go");
    let status = |harness: &mut Harness| harness.draw().lines.last().unwrap().to_string();
    let usage = |model: &str| Event::UsageReported {
        turn: "u".into(),
        model: ModelName(model.into()),
        usage: loggia_core::Usage {
            input_tokens: 33_000,
            output_tokens: 1_000,
            ..Default::default()
        },
        window: None,
    };
    harness.event(Origin::agent(), usage("large"));
    assert!(
        status(&mut harness).ends_with("· 33k in, 1.0k out · ? help"),
        "{}",
        status(&mut harness)
    );
    harness.model.prices.currency = "USD".into();
    harness.model.prices.models.insert("large".into(), price);
    let shown = "· 33k in, 1.0k out · 0.1140 USD · ? help";
    assert!(status(&mut harness).ends_with(shown), "{}", status(&mut harness));
    // Unknown costs are not shown.
    harness.event(Origin::agent(), usage("other"));
    assert!(
        status(&mut harness).ends_with("· 66k in, 2.0k out · ? help"),
        "{}",
        status(&mut harness)
    );
}

/// A question shows its remaining time by the log's clock, and nothing without a timeout.
#[test]
fn a_question_says_what_becomes_of_it_and_when() {
    use loggia_core::{OnTimeout, Seconds, Timeout};
    let within = |then| Some(Timeout { after: Seconds(300), then });
    let cases = [
        (None, 50, "? waiting for an answer · 50s"),
        (within(OnTimeout::Wait), 50, "? waiting for an answer · 50s"),
        (within(OnTimeout::Deny), 50, "? waiting for an answer · 50s · refused in 4m 10s"),
        (within(OnTimeout::Cancel), 299, "? waiting for an answer · 4m 59s · cancelled in 1s"),
        // The session has not recorded the timeout yet.
        (within(OnTimeout::Deny), 301, "? waiting for an answer · 5m 01s · refused in 0s"),
    ];
    for (timeout, passed, wanted) in cases {
        let mut harness = Harness::new();
        harness.model.size = (100, 20);
        let settings = harness.model.facts.settings.clone().unwrap();
        harness.event(me(), Event::SettingsChanged { settings: Settings { timeout, ..settings } });
        harness.turn("go");
        harness.ask("one");
        harness.now += passed * 1_000;
        let shown: Vec<String> = harness.draw().lines.iter().map(ToString::to_string).collect();
        assert!(shown.iter().any(|line| line == wanted), "{wanted}: {shown:#?}");
        // The clock runs without input.
        assert!(harness.model.next_move(Uptime(harness.now)) <= Some(Uptime(harness.now + 1_000)));
    }
}

#[test]
fn a_late_answer_is_refused_after_the_timeout() {
    let mut harness = Harness::new();
    harness.turn("go");
    harness.ask("one");
    harness.answered(Origin::timeout(), "one", "cancel");
    assert_eq!(harness.remark(), "refused by the time-out: run one");
    assert!(harness.model.dialog.is_none());
}
