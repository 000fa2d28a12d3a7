//! The list of models.

use loggia_core::Effort;
use serde_json::Value;

use super::dialect::{Dialect, List};
use crate::fields::Fields;
use crate::protocol::ModelFacts;

pub fn listed(dialect: &Dialect, body: &str) -> Result<Vec<ModelFacts>, String> {
    let models = match Fields::parse(body) {
        Some(body) => body.read::<Vec<Fields>>("data"),
        // Some gateways send the list alone.
        None => serde_json::from_str(body).ok(),
    };
    let models = models.ok_or("it has no list `data`")?;
    let mut facts: Vec<ModelFacts> = Vec::new();
    for model in models.iter().filter_map(|model| facts_of(dialect, model)) {
        // A gateway lists a model once for each server behind it.
        if !facts.iter().any(|known| known.id == model.id) {
            facts.push(model);
        }
    }
    Ok(facts)
}

fn facts_of(dialect: &Dialect, model: &Fields) -> Option<ModelFacts> {
    let List { id, window, output, price, reasons, .. } = dialect.list;
    let at = |path: &str| model.read_at::<Value>(path);
    let count = |path: &str| at(path)?.as_u64().filter(|count| *count > 0);
    let reasons = reasons.and_then(at).map(|found| match found {
        Value::Bool(reasons) => reasons,
        Value::Array(found) => found.iter().any(|found| found == "reasoning"),
        _ => false,
    });
    Some(ModelFacts {
        id: model.text(id)?,
        window: window.iter().copied().find_map(count),
        output: output.and_then(count),
        efforts: reasons.map(|reasons| match reasons {
            true => dialect.efforts.iter().map(|(effort, _)| *effort).collect(),
            false => Vec::<Effort>::new(),
        }),
        thinking: None,
        price: price.and_then(|[input, output, cached]| {
            let price = |path: &str| per_million(&at(path)?);
            let input = price(input)?;
            Some([input.clone(), price(output)?, price(cached).unwrap_or(input)])
        }),
    })
}

/// Dollars for a token, as a number or text, to dollars for a million.
fn per_million(value: &Value) -> Option<String> {
    let dollars = match value {
        Value::String(text) => text.parse::<f64>().ok(),
        other => other.as_f64(),
    };
    // A negative price means that it varies.
    let dollars = dollars.filter(|dollars| dollars.is_finite() && *dollars >= 0.0)? * 1e6;
    let text = format!("{dollars:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    Some(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_of_a_token_become_prices_of_a_million() {
        let check = |value: Value, wanted: Option<&str>| {
            assert_eq!(per_million(&value).as_deref(), wanted, "{value}");
        };
        check("0.000003".into(), Some("3"));
        check("0.0000001".into(), Some("0.1"));
        check(3e-7.into(), Some("0.3"));
        check("0".into(), Some("0"));
        check("-1".into(), None);
        check("free".into(), None);
    }
}
