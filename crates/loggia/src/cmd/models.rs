//! `loggia models`: the models of the providers, with window, price and whether a key is there.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use futures::future::join_all;
use loggia_models::ModelFacts;
use loggia_models::providers::{Freshness, ListSource, Listed, ProviderConfig};
use serde_json::{Value, json};

use crate::compose::App;
use crate::config::Flags;
use crate::exit::UsageError;
use crate::style::{json_text, one_line};

/// Providers that do not answer in time are listed from the shipped table.
const LIST_TIME: Duration = Duration::from_secs(8);

#[derive(Args)]
#[command(after_help = "Lists are asked for once a day. A model that is not listed works, too.")]
pub struct ModelsArgs {
    /// Only the models of this provider
    pub provider: Option<String>,
    /// Print one JSON object per line
    #[arg(long)]
    pub json: bool,
    /// Ask the providers again
    #[arg(long)]
    pub refresh: bool,
}

/// One provider and what is known of its models.
struct Offer<'a> {
    provider: &'a ProviderConfig,
    listed: Listed,
    /// Where its key is.
    key: Option<String>,
}

pub async fn run(args: ModelsArgs, app: &App) -> anyhow::Result<ExitCode> {
    let config = app.load_config(&Flags::default())?.config;
    let providers = app.providers(&config);
    let freshness = if args.refresh { Freshness::Now } else { Freshness::OfToday };
    let wanted: Vec<&ProviderConfig> = match &args.provider {
        None => providers.all().iter().collect(),
        Some(name) => match providers.get(name) {
            Some(provider) => vec![provider],
            None => {
                let error = providers.list(name, freshness).await.err();
                let why = error.map(|error| error.message).unwrap_or_default();
                return Err(UsageError(why).into());
            }
        },
    };
    let running = match args.provider {
        None => providers.local_servers().await,
        Some(_) => Vec::new(),
    };
    let offers = wanted.into_iter().map(|provider| {
        let (providers, running) = (&providers, &running);
        let key = app.find_key(&provider.name, &config).map(|key| key.origin.describe());
        let configured = config.providers.contains_key(&provider.name);
        let asked = args.provider.is_some()
            || key.is_some()
            || configured
            || running.iter().any(|(name, _)| *name == provider.name);
        async move {
            let shipped = || Listed {
                models: providers.shipped(&provider.name),
                source: ListSource::Table,
                problem: None,
            };
            let listed = match asked {
                true => {
                    let list = providers.list(&provider.name, freshness);
                    let listed = tokio::time::timeout(LIST_TIME, list).await.ok();
                    listed.and_then(Result::ok).unwrap_or_else(shipped)
                }
                false => shipped(),
            };
            Offer { provider, listed, key }
        }
    });
    let offers = join_all(offers).await;
    let mut out = std::io::stdout().lock();
    for offer in &offers {
        match args.json {
            true => {
                for facts in &offer.listed.models {
                    writeln!(out, "{}", json_text(&offer.json(facts).to_string()))?;
                }
            }
            false => write!(out, "{}", offer.text(args.provider.is_some()))?,
        }
    }
    Ok(ExitCode::SUCCESS)
}

impl Offer<'_> {
    fn json(&self, facts: &ModelFacts) -> Value {
        let price = facts.price.as_ref().map(|[input, output, cached]| {
            json!({ "input": input, "output": output, "cached_input": cached })
        });
        let source = match self.listed.source {
            ListSource::Provider => "provider",
            ListSource::Cache => "cache",
            ListSource::Table => "table",
        };
        json!({
            "name": format!("{}/{}", self.provider.name, facts.id),
            "provider": self.provider.name,
            "window": facts.window,
            "output": facts.output,
            "efforts": facts.efforts,
            "price": price,
            "key": self.provider.has_key(),
            "source": source,
        })
    }

    /// Empty for a server on this machine that offers nothing.
    fn text(&self, asked: bool) -> String {
        let Self { provider, listed, key } = self;
        let state = match (key, provider.needs_key, &listed.problem) {
            (Some(origin), _, None) => format!("key in {origin}"),
            (Some(origin), _, Some(error)) => format!("key in {origin}; {}", error.message),
            (None, true, _) => format!("no key: `loggia keys set {}`", provider.name),
            (None, false, Some(error)) if asked => error.message.clone(),
            (None, false, _) if listed.models.is_empty() => return String::new(),
            (None, false, _) => "on this machine".to_owned(),
        };
        let mut text = format!("{}: {}\n", provider.name, one_line(&state));
        for facts in &listed.models {
            let name = one_line(&format!("{}/{}", provider.name, facts.id));
            let window = facts.window.map(|window| format!("{window} tokens")).unwrap_or_default();
            let price = facts.price.as_ref();
            let price = price.map(|[input, output, _]| format!("${input} in, ${output} out"));
            let line = format!("  {name:<40} {window:>16}  {}", price.unwrap_or_default());
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}
