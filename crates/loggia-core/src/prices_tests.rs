use proptest::prelude::*;

use super::*;

fn rate(text: &str) -> Rate {
    Rate::parse(text).unwrap()
}

fn usage(input: u64, output: u64, thought: u64, cached: u64) -> Usage {
    Usage {
        input_tokens: input,
        output_tokens: output,
        thought_tokens: thought,
        cached_tokens: cached,
        cache_write_tokens: 0,
    }
}

fn price(cached: Option<&str>) -> Price {
    Price { input: rate("3.00"), output: rate("15"), cached_input: cached.map(rate) }
}

#[test]
fn rates_are_read_to_the_last_digit() {
    for (text, shown) in [
        ("3", "3.00"),
        ("0.1", "0.10"),
        ("15.00", "15.00"),
        (".5", "0.50"),
        ("2.", "2.00"),
        ("0.000001", "0.000001"),
        ("1_000.25", "1000.25"),
        ("999999.999999", "999999.999999"),
        ("0", "0.00"),
    ] {
        assert_eq!(rate(text).to_string(), shown, "{text}");
    }
    for text in [
        "",
        ".",
        "-1",
        "+1",
        "1e3",
        "nan",
        "inf",
        "1.0000001",
        "1000000",
        "1,5",
        "0x10",
        "99999999999999999999999",
    ] {
        assert!(Rate::parse(text).is_err(), "{text}");
    }
}

#[test]
fn each_kind_of_token_has_its_price() {
    let cases = [
        (price(None), usage(1_000_000, 0, 0, 0), "3.00"),
        (price(None), usage(0, 1_000_000, 0, 0), "15.00"),
        (price(None), usage(1_000_000, 0, 0, 1_000_000), "3.00"),
        (price(Some("0.30")), usage(1_000_000, 0, 0, 1_000_000), "0.3000"),
        (price(Some("0.30")), usage(1_000_000, 0, 0, 500_000), "1.65"),
        // A provider reports more cached tokens than input tokens.
        (price(Some("0.30")), usage(1_000_000, 0, 0, 9_000_000), "0.3000"),
        (price(None), usage(0, 1_000_000, 400_000, 0), "15.00"),
        (price(None), usage(1_234, 567, 0, 0), "0.0122"),
        (price(None), usage(1, 0, 0, 0), "<0.0001"),
        (price(None), usage(0, 0, 0, 0), "0.0000"),
        (price(None), usage(u64::MAX, u64::MAX, u64::MAX, 0), "332041393326771.93"),
    ];
    for (price, usage, shown) in cases {
        assert_eq!(price.of(&usage).to_string(), shown, "{usage:?}");
    }
}

#[test]
fn amounts_are_rounded_to_the_nearest() {
    for (amount, shown) in [
        (0, "0.0000"),
        (1, "<0.0001"),
        (49_999_999, "<0.0001"),
        (50_000_000, "0.0001"),
        (149_999_999, "0.0001"),
        (999_949_999_999, "0.9999"),
        (999_999_999_999, "1.0000"),
        (1_000_000_000_000, "1.00"),
        (1_004_999_999_999, "1.00"),
        (1_005_000_000_000, "1.01"),
        (12_345_678_000_000, "12.35"),
    ] {
        assert_eq!(Amount(amount).to_string(), shown, "{amount}");
    }
}

#[test]
fn a_total_needs_the_price_of_every_used_model() {
    let prices = Prices {
        currency: "USD".into(),
        models: [("a".to_owned(), price(None))].into_iter().collect(),
    };
    let mut used = UsageByModel::default();
    assert_eq!(prices.total(&used), None);
    used.add(&ModelName("free".into()), &Usage::default());
    assert_eq!(prices.total(&used), None);
    used.add(&ModelName("a".into()), &usage(1_000, 0, 0, 0));
    used.add(&ModelName("a".into()), &usage(1_000, 100, 0, 0));
    let total = prices.total(&used).unwrap();
    assert_eq!(prices.shown(total), "0.0075 USD");
    used.add(&ModelName("b".into()), &usage(1, 0, 0, 0));
    assert_eq!(prices.total(&used), None);
    assert_eq!(Prices::default().shown(Amount(UNIT)), "1.00");
}

#[test]
fn names_are_bounded() {
    let mut used = UsageByModel::default();
    for number in 0..200 {
        used.add(&ModelName(format!("m{number}")), &usage(1, 0, 0, 0));
    }
    assert_eq!(used.iter().count(), MAX_MODELS + 1);
    let all: u64 = used.iter().map(|(_, usage)| usage.input_tokens).sum();
    assert_eq!(all, 200);
}

proptest! {
    /// The sum of the costs of many requests equals the cost of all their tokens.
    #[test]
    fn sums_are_exact(requests in prop::collection::vec((0..9_999_u64, 0..9_999_u64, 0..99_u64), 1..60),
                      input in 0..99_999_999_u64, output in 0..99_999_999_u64) {
        let price = Price { input: Rate(input), output: Rate(output), cached_input: None };
        let (mut whole, mut sum) = (Usage::default(), Amount::default());
        for (input, output, thought) in requests {
            let one = usage(input, output, thought, input / 2);
            whole.add(&one);
            sum = sum.plus(price.of(&one));
        }
        prop_assert_eq!(price.of(&whole), sum);
    }
}
