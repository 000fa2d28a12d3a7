//! The cost of tokens by configured prices. Amounts are integers, so sums are exact.
//!
//! Not here: built-in prices.

use std::collections::BTreeMap;
use std::fmt;

use crate::event::Usage;
use crate::settings::ModelName;

/// Decimal places of a price for a million tokens.
const DIGITS: usize = 6;
/// Parts of a unit in an [`Amount`]: a millionth of a millionth.
const UNIT: u128 = 1_000_000_000_000;
/// Models whose tokens are counted separately.
const MAX_MODELS: usize = 64;

/// The price of a million tokens, in millionths of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Rate(u64);

/// The price of one model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    pub input: Rate,
    pub output: Rate,
    /// For input tokens from the provider's cache; defaults to `input`.
    pub cached_input: Option<Rate>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Prices {
    /// The unit after an amount; may be empty.
    pub currency: String,
    pub models: BTreeMap<String, Price>,
}

/// An exact amount of money.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Amount(u128);

/// Tokens of each model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UsageByModel(BTreeMap<String, Usage>);

impl Rate {
    /// Parses a decimal number: `3`, `0.30`, `15.000001`.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const FORM: &str = "write the price of a million tokens, such as 3.00";
        let text = text.replace('_', "");
        let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let empty = whole.is_empty() && part.is_empty();
        if empty || !digits(whole) || !digits(part) {
            return Err(FORM);
        }
        if part.len() > DIGITS {
            return Err("write at most six decimal places");
        }
        let digits = format!("{whole}{part:0<DIGITS$}");
        let rate: u64 =
            digits.parse().map_err(|_| "the price is too high: write less than a million")?;
        match rate < 1_000_000_000_000 {
            true => Ok(Self(rate)),
            false => Err("the price is too high: write less than a million"),
        }
    }

    fn of(self, tokens: u64) -> Amount {
        Amount(u128::from(self.0) * u128::from(tokens))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1_000_000, self.0 % 1_000_000);
        let part = format!("{part:06}");
        let part = part.trim_end_matches('0');
        write!(out, "{whole}.{part:0<2}")
    }
}

impl Price {
    /// Cached tokens are part of the input; thought tokens are part of the output.
    pub fn of(&self, usage: &Usage) -> Amount {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let parts = [
            self.input.of(usage.input_tokens - cached),
            self.cached_input.unwrap_or(self.input).of(cached),
            self.output.of(usage.output_tokens),
        ];
        parts.into_iter().fold(Amount::default(), Amount::plus)
    }
}

impl Amount {
    #[must_use]
    pub fn plus(self, more: Self) -> Self {
        Self(self.0.saturating_add(more.0))
    }
}

/// Rounded to the nearest hundredth; below one unit to the nearest ten-thousandth.
impl fmt::Display for Amount {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = if self.0 < UNIT { 4 } else { 2 };
        let step = UNIT / 10_u128.pow(places);
        let rounded = self.0.saturating_add(step / 2) / step;
        if rounded == 0 && self.0 > 0 {
            return out.write_str("<0.0001");
        }
        let scale = 10_u128.pow(places);
        let width = usize::try_from(places).unwrap_or(2);
        write!(out, "{}.{:0width$}", rounded / scale, rounded % scale)
    }
}

impl UsageByModel {
    pub fn add(&mut self, model: &ModelName, usage: &Usage) {
        let known = self.0.contains_key(&model.0) || self.0.len() < MAX_MODELS;
        // Further models are counted together, without a name and so without a price.
        let name = if known { model.0.as_str() } else { "" };
        self.0.entry(name.to_owned()).or_default().add(usage);
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Usage)> {
        self.0.iter().map(|(model, usage)| (model.as_str(), usage))
    }

    /// Models with at least one token.
    pub fn spending(&self) -> impl Iterator<Item = (&str, &Usage)> {
        self.iter().filter(|(_, usage)| **usage != Usage::default())
    }
}

impl Prices {
    /// The cost of a model's tokens; None if it has no price.
    pub fn of(&self, model: &str, usage: &Usage) -> Option<Amount> {
        self.models.get(model).map(|price| price.of(usage))
    }

    /// The total cost; None if a used model has no price.
    pub fn total(&self, used: &UsageByModel) -> Option<Amount> {
        let costs: Option<Vec<Amount>> =
            used.spending().map(|(model, usage)| self.of(model, usage)).collect();
        let costs = costs.filter(|costs| !costs.is_empty())?;
        Some(costs.into_iter().fold(Amount::default(), Amount::plus))
    }

    /// An amount with its currency.
    pub fn shown(&self, amount: Amount) -> String {
        format!("{amount} {}", self.currency).trim_end().to_owned()
    }
}

#[cfg(test)]
#[path = "prices_tests.rs"]
mod tests;
