//! What Ollama says about one model.

use loggia_core::Effort;
use serde_json::{Value, json};

use crate::fields::Fields;
use crate::protocol::ModelFacts;

pub const SHOW_PATH: &str = "/api/show";

/// The window that is asked for if the model's own settings name none. Memory for the whole window is
/// taken at once, so a model's largest window would not fit into many machines.
const WINDOW: u64 = 65_536;

/// The body of the request at [`SHOW_PATH`], a POST.
pub fn show_request(model: &str) -> String {
    json!({ "model": model }).to_string()
}

/// The facts in the answer.
pub fn shown(model: &str, body: &str) -> Result<ModelFacts, String> {
    let body = Fields::parse(body).ok_or("it is not a JSON object")?;
    let info = body.read::<Fields>("model_info").unwrap_or_default();
    let largest = info.iter().find(|(name, _)| name.ends_with(".context_length"));
    let largest = largest.and_then(|(_, value)| serde_json::from_str::<u64>(value.get()).ok());
    let parameters = body.text("parameters").unwrap_or_default();
    let set = parameters.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        words.next().filter(|name| *name == "num_ctx")?;
        words.next()?.parse::<u64>().ok()
    });
    let thinks = body
        .read::<Vec<String>>("capabilities")
        .map(|all| all.iter().any(|capability| capability == "thinking"));
    let levels = levels(&body);
    Ok(ModelFacts {
        id: model.to_owned(),
        window: set.or_else(|| largest.map(|largest| largest.min(WINDOW))),
        thinking: match (thinks, levels.is_empty()) {
            (Some(true), true) => Some("switch".to_owned()),
            (Some(true), false) => Some("level".to_owned()),
            _ => None,
        },
        efforts: thinks.map(|thinks| match (thinks, levels.is_empty()) {
            (true, true) => vec![Effort::None, Effort::High],
            (true, false) => levels,
            (false, _) => Vec::new(),
        }),
        ..ModelFacts::default()
    })
}

/// The names of levels that the model accepts. Older servers do not say, but only one family has levels.
fn levels(body: &Fields) -> Vec<Effort> {
    let values = body.read_at::<Vec<Value>>("thinking.values");
    let values = values.or_else(|| {
        let family = body.read_at::<String>("details.family")?;
        let levels = ["low", "medium", "high"].map(Value::from).to_vec();
        (family == "gptoss" || family == "gpt-oss").then_some(levels)
    });
    let values = values.unwrap_or_default();
    let levels: Vec<Effort> =
        values.iter().filter_map(|value| Effort::from_name(value.as_str()?)).collect();
    let off = values.contains(&Value::Bool(false)) && !levels.is_empty();
    off.then_some(Effort::None).into_iter().chain(levels).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_the_models_setting_or_a_part_of_its_largest() {
        let check = |body: Value, window, thinking: Option<&str>, efforts: Option<&[Effort]>| {
            let facts = shown("m", &body.to_string()).unwrap();
            assert_eq!(facts.window, window, "{body}");
            assert_eq!(facts.thinking.as_deref(), thinking, "{body}");
            assert_eq!(facts.efforts.as_deref(), efforts, "{body}");
        };
        check(json!({}), None, None, None);
        let info = json!({ "general.architecture": "qwen3", "qwen3.context_length": 262_144 });
        check(
            json!({ "model_info": info, "capabilities": ["completion", "tools", "thinking"] }),
            Some(65_536),
            Some("switch"),
            Some(&[Effort::None, Effort::High]),
        );
        check(
            json!({
                "model_info": { "x.context_length": 8192 },
                "capabilities": ["completion", "thinking"],
                "thinking": { "values": [false, "low", "high"], "default": "low" },
            }),
            Some(8192),
            Some("level"),
            Some(&[Effort::None, Effort::Low, Effort::High]),
        );
        let parameters =
            "stop                           \"<|im_end|>\"\nnum_ctx                        131072";
        check(
            json!({ "model_info": info, "parameters": parameters, "capabilities": ["completion"] }),
            Some(131_072),
            None,
            Some(&[]),
        );
    }
}
