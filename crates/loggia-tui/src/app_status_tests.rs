//! What the last line says.

use super::*;

#[test]
fn the_status_says_how_full_the_context_is_as_far_as_anybody_knows() {
    let mut desk = Desk::new();
    desk.model.size = (100, 20);
    desk.turn("go");
    let status = |desk: &mut Desk| desk.draw().lines.last().unwrap().to_string();
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
    assert!(!status(&mut desk).contains("context"));
    desk.event(Origin::agent(), usage(33_000, None));
    assert!(
        status(&mut desk).contains("· context 34k · 33k in, 1.0k out"),
        "{}",
        status(&mut desk)
    );
    desk.event(Origin::agent(), usage(49_000, Some(200_000)));
    assert!(status(&mut desk).contains("· context 50k of 200k (25%) · 82k in"));
    // Another model has not said what it holds.
    let settings = desk.model.facts.settings.clone().unwrap();
    let model = ModelName("scripted:x.toml".into());
    desk.event(me(), Event::SettingsChanged { settings: Settings { model, ..settings } });
    assert!(status(&mut desk).contains("· context 50k · 82k in"), "{}", status(&mut desk));
    let upto = Seq(desk.seq);
    desk.event(Origin::agent(), Event::ContextCompacted { upto, summary: "short".into() });
    assert!(!status(&mut desk).contains("context"), "{}", status(&mut desk));
    // Whatever a log says.
    desk.event(Origin::agent(), usage(u64::MAX, Some(1)));
    desk.event(Origin::agent(), usage(u64::MAX, Some(u64::MAX)));
    assert!(status(&mut desk).contains("(100%)"), "{}", status(&mut desk));
}

#[test]
fn the_status_says_what_it_cost_where_every_price_is_known() {
    let rate = |text| loggia_core::Rate::read(text).unwrap();
    let price =
        loggia_core::Price { input: rate("3.00"), output: rate("15.00"), cached_input: None };
    let mut desk = Desk::new();
    desk.model.size = (100, 20);
    desk.turn("go");
    let status = |desk: &mut Desk| desk.draw().lines.last().unwrap().to_string();
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
    desk.event(Origin::agent(), usage("large"));
    assert!(status(&mut desk).ends_with("· 33k in, 1.0k out · ? help"), "{}", status(&mut desk));
    desk.model.prices.currency = "USD".into();
    desk.model.prices.models.insert("large".into(), price);
    let shown = "· 33k in, 1.0k out · 0.1140 USD · ? help";
    assert!(status(&mut desk).ends_with(shown), "{}", status(&mut desk));
    // What nobody knows is not shown.
    desk.event(Origin::agent(), usage("other"));
    assert!(status(&mut desk).ends_with("· 66k in, 2.0k out · ? help"), "{}", status(&mut desk));
}
