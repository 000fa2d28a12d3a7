use super::*;

fn environment(variables: &[(&str, &str)]) -> Environment {
    Environment::from(variables.iter().map(|(name, value)| (name.into(), value.into())))
}

fn paths() -> Paths {
    Paths::new(&environment(&[("LOGGIA_HOME", "/home/l")])).unwrap()
}

fn user(base_url: &str) -> UserProvider {
    UserProvider { base_url: Some(base_url.to_owned()), ..UserProvider::default() }
}

fn config(providers: Vec<(&str, UserProvider)>, stored: &[(&str, &str)]) -> Config {
    Config {
        providers: providers.into_iter().map(|(name, of)| (name.to_owned(), of)).collect(),
        stored_keys: stored
            .iter()
            .map(|(name, key)| ((*name).to_owned(), Secret::new(*key)))
            .collect(),
        ..Config::default()
    }
}

/// The address of a provider, its key, and the header for the key.
fn reached(name: &str, config: &Config, variables: &[(&str, &str)]) -> (String, String, String) {
    let all = providers(config, &environment(variables), &paths());
    let provider = all.get(name).unwrap();
    let key = provider.key.as_ref().map(|key| key.expose().to_owned()).unwrap_or_default();
    (provider.base_url.clone().unwrap_or_default(), key, provider.auth.clone())
}

#[test]
fn a_key_comes_from_the_environment_or_the_file_and_has_its_header() {
    let none = config(vec![], &[]);
    let stored = config(vec![], &[("anthropic", "file"), ("openai", "file")]);
    let anthropic = "https://api.anthropic.com";
    let check = |name, config: &Config, variables: &[(&str, &str)], wanted: [&str; 3]| {
        let found = reached(name, config, variables);
        assert_eq!([found.0.as_str(), &found.1, &found.2], wanted, "{name} {variables:?}");
    };
    check("anthropic", &none, &[], [anthropic, "", BEARER]);
    check("anthropic", &none, &[("ANTHROPIC_API_KEY", "k")], [anthropic, "k", "x-api-key"]);
    check("anthropic", &none, &[("ANTHROPIC_AUTH_TOKEN", "t")], [anthropic, "t", BEARER]);
    let both = [("ANTHROPIC_AUTH_TOKEN", "t"), ("ANTHROPIC_API_KEY", "k")];
    check("anthropic", &stored, &both, [anthropic, "k", "x-api-key"]);
    check("anthropic", &stored, &[], [anthropic, "file", "x-api-key"]);
    check("anthropic", &stored, &[("ANTHROPIC_API_KEY", "")], [anthropic, "file", "x-api-key"]);
    let google = "https://generativelanguage.googleapis.com";
    let both = [("GOOGLE_API_KEY", "g"), ("GEMINI_API_KEY", "k")];
    check("gemini", &none, &both, [google, "k", "x-goog-api-key"]);
    let openai = [("OPENAI_BASE_URL", "http://localhost:1/v1/"), ("OPENAI_API_KEY", "k")];
    check("openai", &none, &openai, ["http://localhost:1/v1", "k", BEARER]);
    // Loggia's own configuration is more specific.
    let own = UserProvider { key_env: Some("MINE".into()), ..user("https://gateway.example/v1") };
    let own = config(vec![("openai", own)], &[]);
    check("openai", &own, &openai, ["https://gateway.example/v1", "", BEARER]);
    let mine = [("MINE", "m"), ("OPENAI_API_KEY", "k")];
    check("openai", &own, &mine, ["https://gateway.example/v1", "m", BEARER]);
    let kind = UserProvider {
        kind: Some(Kind::Anthropic),
        key_env: Some("MINE".into()),
        ..user("https://gateway.example")
    };
    let kind = config(vec![("mine", kind)], &[]);
    check("mine", &kind, &mine, ["https://gateway.example", "m", "x-api-key"]);
}

#[test]
fn the_first_provider_with_a_key_is_the_default() {
    let model = |variables: &[(&str, &str)], stored: &[(&str, &str)]| {
        let config = config(vec![], stored);
        let found = default_model(&config.providers, &environment(variables), &config.stored_keys);
        found.map(|(model, origin)| (model, origin.describe()))
    };
    assert_eq!(model(&[], &[]), None);
    assert_eq!(model(&[("DEEPSEEK_API_KEY", "k")], &[]), None);
    let all = [("GEMINI_API_KEY", "k"), ("OPENAI_API_KEY", "k")];
    let wanted = ("openai/gpt-6.1-sol".to_owned(), "environment OPENAI_API_KEY".to_owned());
    assert_eq!(model(&all, &[]), Some(wanted));
    let wanted = ("anthropic/claude-opus-5-5".to_owned(), "keys.toml".to_owned());
    assert_eq!(model(&all, &[("anthropic", "k")]), Some(wanted));
}

#[test]
fn proxies_are_chosen_by_scheme_and_never_for_this_machine() {
    let check = |url: &str, variables: &[(&str, &str)], wanted: Option<&str>| {
        let found = proxy(url, &environment(variables));
        assert_eq!(found.as_ref().map(Secret::expose), wanted, "{url} {variables:?}");
    };
    let all = [
        ("HTTPS_PROXY", "http://secure:1"),
        ("http_proxy", "plain:2"),
        ("ALL_PROXY", "socks5://all:3"),
    ];
    check("https://api.example", &all, Some("http://secure:1"));
    check("http://api.example", &all, Some("http://plain:2"));
    check("https://api.example", &all[2..], Some("socks5://all:3"));
    check("https://api.example", &[("all_proxy", "http://low:4")], Some("http://low:4"));
    check("https://api.example", &[], None);
    for local in ["http://127.0.0.1:11434", "http://localhost:1", "http://[::1]:1/v1"] {
        check(local, &all, None);
    }
}

#[test]
fn headers_of_the_vendors_variables_are_sent() {
    let variables =
        [("OPENAI_ORG_ID", "org"), ("OPENAI_CUSTOM_HEADERS", "X-One: 1\nnothing\nX-Two:  2 : 3")];
    let all = providers(&config(vec![], &[]), &environment(&variables), &paths());
    let headers = &all.get("openai").unwrap().headers;
    let headers: Vec<(&str, &str)> =
        headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
    assert_eq!(headers, [("openai-organization", "org"), ("x-one", "1"), ("x-two", "2 : 3")]);
}

#[test]
fn configured_prices_win_over_the_shipped_ones_in_the_same_currency() {
    let rate = |text: &str| Rate::parse(text).unwrap();
    let own = Price { input: rate("1"), output: rate("2"), cached_input: None };
    let name = "anthropic/claude-opus-5-5";
    let with = |currency: &str, models: &[&str]| Prices {
        currency: currency.to_owned(),
        models: models.iter().map(|name| ((*name).to_owned(), own.clone())).collect(),
    };
    let shipped = prices(&Prices::default());
    assert_eq!((shipped.currency.as_str(), shipped.models[name].input), ("USD", rate("4")));
    let mixed = prices(&with("USD", &[name]));
    assert_eq!(mixed.models[name], own);
    assert!(mixed.models.len() > 5);
    // Dollars are not added to other money.
    for other in [with("EUR", &[name]), with("EUR", &[]), with("", &["x"])] {
        assert_eq!(prices(&other), other);
    }
}
