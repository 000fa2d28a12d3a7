//! `/model` and `/effort`: show and change the settings that concern the model.

use std::time::Duration;

use futures::future::join_all;
use loggia_core::{Effort, ModelChoice, ModelName};
use loggia_models::providers::{Freshness, ProviderConfig};
use loggia_models::{ModelFacts, Providers};
use loggia_session::{Turn, TurnOver};

use super::say;
use crate::model::{registry, scripted};
use crate::native::NativeAgent;

/// Models of one provider that are listed.
const SHOWN: usize = 30;
/// A provider that does not answer in time is listed from the shipped table.
const LIST_TIME: Duration = Duration::from_secs(3);
/// The level that stands for the model's own default.
const DEFAULT: &str = "default";

pub async fn model(agent: &NativeAgent, turn: &Turn, name: Option<&str>) -> Result<(), TurnOver> {
    let Some(name) = name else { return show(agent, turn).await };
    // Its errors quote the file, and the file may be anywhere.
    if turn.context().guest.is_some() && name.starts_with(scripted::PREFIX) {
        let why = "only the user who runs Loggia may choose a script: name another model";
        return Err(TurnOver::Failed(why.to_owned()));
    }
    let name = registry::absolute(name, agent.base());
    let checked = registry::check(&name, agent.base(), agent.providers());
    checked.map_err(|error| TurnOver::Failed(error.to_string()))?;
    let same = turn.context().settings.model.0 == name;
    turn.choose(ModelChoice::Model(ModelName(name.clone()))).await?;
    match same {
        true => say(turn, format!("The model is {name} already.")).await,
        false => say(turn, format!("The model is {name}, from the next prompt on.")).await,
    }
}

async fn show(agent: &NativeAgent, turn: &Turn) -> Result<(), TurnOver> {
    let settings = &turn.context().settings;
    let effort = settings.effort.map_or(DEFAULT, Effort::name);
    let mut text = format!("The model is {}, with the effort {effort}.\n\n", settings.model);
    let lines = lines(agent.providers()).await;
    if lines.is_empty() {
        text.push_str("No provider has a key: `loggia keys set PROVIDER` stores one.\n");
    }
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    text.push_str("\n`/model PROVIDER/MODEL` changes it, also to a model that is not listed.");
    say(turn, text).await
}

/// The models of providers with a key, and of servers on this machine that answer.
async fn lines(providers: &Providers) -> Vec<String> {
    let running = providers.local_servers().await;
    let usable = |provider: &&ProviderConfig| {
        provider.key.is_some() || running.iter().any(|(name, _)| *name == provider.name)
    };
    let usable = providers.all().iter().filter(usable);
    let lists = join_all(usable.map(|provider| list(providers, &provider.name))).await;
    lists.into_iter().flatten().collect()
}

async fn list(providers: &Providers, provider: &str) -> Vec<String> {
    let listed = providers.list(provider, Freshness::OfToday);
    let models = match tokio::time::timeout(LIST_TIME, listed).await {
        Ok(Ok(listed)) => listed.models,
        Ok(Err(_)) | Err(_) => providers.shipped(provider),
    };
    of_provider(provider, &models)
}

fn of_provider(provider: &str, models: &[ModelFacts]) -> Vec<String> {
    let mut lines: Vec<String> =
        models.iter().take(SHOWN).map(|facts| line(provider, facts)).collect();
    let more = models.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.push(format!("- {more} more of {provider}: `loggia models {provider}`"));
    }
    lines
}

fn line(provider: &str, facts: &ModelFacts) -> String {
    let mut line = format!("- `{provider}/{}`", facts.id);
    if let Some(window) = facts.window {
        line.push_str(&format!(": {window} tokens"));
    }
    if let Some([input, output, _]) = &facts.price {
        line.push_str(&format!(", ${input} in, ${output} out"));
    }
    line
}

pub async fn effort(turn: &Turn, level: Option<&str>) -> Result<(), TurnOver> {
    let levels = || Effort::ALL.map(Effort::name).join(", ");
    let Some(level) = level else {
        let effort = turn.context().settings.effort.map_or(DEFAULT, Effort::name);
        let text = format!(
            "The effort is {effort}. `/effort LEVEL` changes it: {} or {DEFAULT}.",
            levels()
        );
        return say(turn, text).await;
    };
    let level = level.to_ascii_lowercase();
    let effort = match level.as_str() {
        DEFAULT => None,
        level => Some(Effort::from_name(level).ok_or_else(|| {
            let shown: String = level.chars().take(40).collect();
            let levels = levels();
            TurnOver::Failed(format!("there is no effort `{shown}`: write {levels} or {DEFAULT}"))
        })?),
    };
    turn.choose(ModelChoice::Effort(effort)).await?;
    say(turn, format!("The effort is {level}, from the next prompt on.")).await
}
