//! Providers as a configuration describes them, against the fakes.

use std::path::Path;
use std::sync::Arc;

use loggia_fake_vendors::{Answer, Asked, FakeVendors, Say};
use loggia_models::providers::{Freshness, Kind, ListSource, ProviderConfig, built_in, catalog};
use loggia_models::{Model, ModelErrorKind, Providers, ProvidersConfig, Secret};

use crate::support::{Talk, reply};

const KEY: &str = "test-key-0123456789";

async fn fakes() -> FakeVendors {
    let script = |_: &Asked| Answer::says(vec![Say::Text("hello".to_owned())]);
    FakeVendors::start(Arc::new(script)).await.unwrap()
}

/// A built-in provider whose server is the fake.
fn provider(name: &str, fakes: &FakeVendors, key: Option<&str>) -> ProviderConfig {
    let known = built_in(name).unwrap();
    let version = match (known.kind, name) {
        (Kind::Openai, _) => "/v1",
        (Kind::Chat, "deepseek") => "/v1",
        (Kind::Chat, _) => "/v1",
        (Kind::Anthropic | Kind::Gemini | Kind::Ollama, _) => "",
    };
    ProviderConfig {
        name: name.to_owned(),
        kind: Some(known.kind),
        dialect: known.dialect.to_owned(),
        base_url: Some(format!("{}{version}", fakes.url(name))),
        key: key.map(Secret::new),
        auth: known.key_variables[0].1.to_owned(),
        key_variables: vec![known.key_variables[0].0.to_owned()],
        needs_key: known.needs_key,
        ..ProviderConfig::default()
    }
}

fn providers(all: Vec<ProviderConfig>, cache: Option<&Path>) -> Providers {
    let cache = cache.map(Path::to_owned);
    Providers::new(ProvidersConfig { providers: all, cache, ..ProvidersConfig::default() })
}

#[tokio::test]
async fn each_built_in_provider_answers_by_name_and_gets_only_its_own_key() {
    let fakes = fakes().await;
    for (name, model, header) in [
        ("anthropic", "claude-opus-5-5", "x-api-key"),
        ("openai", "gpt-6.1-sol", "authorization"),
        ("gemini", "gemini-3.8-flash", "x-goog-api-key"),
        ("ollama", "qwen3.8:27b", "authorization"),
        ("deepseek", "deepseek-v4-pro", "authorization"),
        ("openrouter", "anthropic/claude-opus-5.5", "authorization"),
        ("vllm", "model-of-mine", "authorization"),
    ] {
        let providers = providers(vec![provider(name, &fakes, Some(KEY))], None);
        let full = format!("{name}/{model}");
        providers.check(&full).unwrap();
        let opened = providers.open(&full).await.unwrap();
        assert_eq!(opened.name().0, full);
        let said = reply(&opened, Talk::new("Be brief.", "hi").request).await;
        assert!(said.is_ok(), "{full}: {said:?} {:?}", fakes.refusals());
        let recorded = fakes.recorded();
        let sent = recorded.last().unwrap();
        let value = sent.headers.iter().find(|(name, _)| name == header).map(|(_, v)| v.as_str());
        let value = value.unwrap_or_default();
        assert!(value == KEY || value == format!("Bearer {KEY}"), "{name}: {value}");
    }
}

#[tokio::test]
async fn facts_come_from_the_configuration_then_the_server_then_the_table() {
    let fakes = fakes().await;
    // The table, without a request.
    let known = provider("anthropic", &fakes, Some(KEY));
    let opened = providers(vec![known.clone()], None).open("anthropic/claude-opus-5-5").await;
    let opened = opened.unwrap();
    assert_eq!(opened.window(), Some(1_000_000));
    assert_eq!(opened.facts().thinking.as_deref(), Some("adaptive"));
    assert!(fakes.recorded().is_empty());
    // The server, for a model that the table does not have.
    let opened = providers(vec![known.clone()], None).open("anthropic/claude-opus-4-8").await;
    assert!(opened.unwrap().window().is_some());
    let opened = providers(vec![provider("ollama", &fakes, None)], None);
    let opened = opened.open("ollama/qwen3.8:27b").await.unwrap();
    assert!(opened.window().is_some(), "{:?}", fakes.refusals());
    // The configuration.
    let declared = ProviderConfig { window: Some(9_000), ..known };
    let opened = providers(vec![declared], None).open("anthropic/claude-opus-5-5").await.unwrap();
    assert_eq!(opened.window(), Some(9_000));
}

#[tokio::test]
async fn an_unknown_model_is_opened_without_facts() {
    let fakes = fakes().await;
    let providers = providers(vec![provider("anthropic", &fakes, Some(KEY))], None);
    let opened = providers.open("anthropic/claude-of-tomorrow").await.unwrap();
    assert_eq!((opened.window(), opened.facts().thinking.clone()), (None, None));
    let error = reply(&opened, Talk::new("Be brief.", "hi").request).await;
    assert!(error.is_ok() || error.is_err_and(|e| e.kind == ModelErrorKind::UnknownModel));
}

#[tokio::test]
async fn a_server_that_does_not_answer_does_not_keep_a_model_from_opening() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let gone = ProviderConfig {
        name: "mine".to_owned(),
        kind: Some(Kind::Chat),
        dialect: "generic".to_owned(),
        base_url: Some(format!("http://127.0.0.1:{port}/v1")),
        window: Some(4096),
        ..ProviderConfig::default()
    };
    let providers = providers(vec![gone], None);
    assert_eq!(providers.open("mine/some-model").await.unwrap().window(), Some(4096));
    let listed = providers.list("mine", Freshness::OfToday).await.unwrap();
    assert_eq!((listed.models.len(), listed.source), (0, ListSource::Table));
    assert_eq!(listed.problem.unwrap().kind, ModelErrorKind::Transport);
}

#[tokio::test]
async fn wrong_names_and_missing_keys_are_sentences_with_a_next_step() {
    let fakes = fakes().await;
    let azure = ProviderConfig { base_url: None, ..provider("azure", &fakes, Some(KEY)) };
    let azure = ProviderConfig { url_variable: Some("AZURE_OPENAI_ENDPOINT".into()), ..azure };
    let all = vec![
        provider("anthropic", &fakes, Some(KEY)),
        provider("openai", &fakes, None),
        azure,
        ProviderConfig { dialect: "klingon".into(), ..provider("vllm", &fakes, None) },
    ];
    let providers = providers(all, None);
    for (name, kind, parts) in [
        (
            "openai/gpt-6-astra",
            ModelErrorKind::Authentication,
            ["OPENAI_API_KEY", "loggia keys set openai"],
        ),
        (
            "anthropc/x",
            ModelErrorKind::UnknownModel,
            ["`anthropc/x`", "did you mean `anthropic/x`?"],
        ),
        (
            "claude-opus-5-5",
            ModelErrorKind::UnknownModel,
            ["did you mean `anthropic/claude-opus-5-5`?", "loggia models"],
        ),
        ("ofline", ModelErrorKind::UnknownModel, ["did you mean `offline`?", "loggia models"]),
        (
            "nothing-like-it",
            ModelErrorKind::UnknownModel,
            ["`nothing-like-it`: `loggia models`", "PROVIDER/MODEL"],
        ),
        ("anthropic/", ModelErrorKind::UnknownModel, ["names no model", "loggia models anthropic"]),
        ("azure/mine", ModelErrorKind::BadRequest, ["AZURE_OPENAI_ENDPOINT", "[providers.azure]"]),
        ("vllm/x", ModelErrorKind::BadRequest, ["no dialect `klingon`", "llamacpp"]),
    ] {
        let error = providers.check(name).unwrap_err();
        assert_eq!(error.kind, kind, "{name}: {error}");
        for part in parts {
            assert!(error.message.contains(part), "{name}: {error}");
        }
    }
    let error = providers.list("anthropik", Freshness::OfToday).await.unwrap_err();
    let wanted =
        "there is no provider `anthropik`; did you mean `anthropic`? There are anthropic, openai";
    assert!(error.message.starts_with(wanted), "{error}");
}

/// Lists are asked for once a day: in this process and, with a directory, by later ones.
#[tokio::test]
async fn a_list_is_kept_for_a_day_unless_the_server_is_on_this_machine() {
    let fakes = fakes().await;
    let directory = tempfile::tempdir().unwrap();
    // The name of the host is not an address of this machine, so the list is kept.
    let remote = |fakes: &FakeVendors| {
        let provider = provider("anthropic", fakes, Some(KEY));
        let port = fakes.port();
        ProviderConfig {
            base_url: Some("http://vendor.test/anthropic".to_owned()),
            proxy: Some(Secret::new(format!("http://127.0.0.1:{port}"))),
            ..provider
        }
    };
    let asked = |fakes: &FakeVendors| {
        fakes.recorded().iter().filter(|request| request.path.ends_with("/v1/models")).count()
    };
    let first = providers(vec![remote(&fakes)], Some(directory.path()));
    let listed = first.list("anthropic", Freshness::OfToday).await.unwrap();
    assert_eq!((listed.source, listed.problem), (ListSource::Provider, None));
    let opus = listed.models.iter().find(|facts| facts.id == "claude-opus-5-5").unwrap();
    assert!(opus.price.is_some(), "the table adds what the list does not say");
    assert_eq!(
        first.list("anthropic", Freshness::OfToday).await.unwrap().source,
        ListSource::Cache
    );
    let later = providers(vec![remote(&fakes)], Some(directory.path()));
    assert_eq!(
        later.list("anthropic", Freshness::OfToday).await.unwrap().source,
        ListSource::Cache
    );
    assert_eq!(asked(&fakes), 1);
    assert_eq!(later.list("anthropic", Freshness::Now).await.unwrap().source, ListSource::Provider);
    assert_eq!(asked(&fakes), 2);
    let kept = std::fs::read_to_string(directory.path().join("anthropic.json")).unwrap();
    assert!(!kept.contains(KEY));
    // Another address, an older list.
    let moved =
        ProviderConfig { base_url: Some("http://other.test/anthropic".into()), ..remote(&fakes) };
    let moved = providers(vec![moved], Some(directory.path()));
    assert_eq!(
        moved.list("anthropic", Freshness::OfToday).await.unwrap().source,
        ListSource::Provider
    );
    let old = kept.replacen("\"at\":", "\"at\":1,\"then\":", 1);
    std::fs::write(directory.path().join("anthropic.json"), old).unwrap();
    let later = providers(vec![remote(&fakes)], Some(directory.path()));
    assert_eq!(
        later.list("anthropic", Freshness::OfToday).await.unwrap().source,
        ListSource::Provider
    );
    // A server of this machine.
    let local = providers(vec![provider("ollama", &fakes, None)], Some(directory.path()));
    for _ in 0..2 {
        let listed = local.list("ollama", Freshness::OfToday).await.unwrap();
        assert_eq!(listed.source, ListSource::Provider, "{:?}", listed.problem);
        assert!(listed.models.iter().all(|facts| facts.window.is_some()), "{:?}", listed.models);
    }
    assert!(!directory.path().join("ollama.json").exists());
}

#[tokio::test]
async fn servers_on_this_machine_are_offered_if_they_answer_at_once() {
    let fakes = fakes().await;
    let stalled = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1", stalled.local_addr().unwrap());
    let silent = ProviderConfig { base_url: Some(url), ..provider("llamacpp", &fakes, None) };
    let both = providers(vec![provider("ollama", &fakes, None), silent], None);
    let begun = std::time::Instant::now();
    let found = both.local_servers().await;
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].1.starts_with("ollama/"), "{found:?}");
    assert!(begun.elapsed() < std::time::Duration::from_secs(2));
}

#[test]
fn a_key_is_in_no_text_of_the_configuration() {
    let config = ProviderConfig { key: Some(Secret::new(KEY)), ..ProviderConfig::default() };
    assert!(!format!("{config:?}").contains(KEY));
    assert!(catalog::prices().any(|(name, _)| name == "anthropic/claude-opus-5-5"));
}
