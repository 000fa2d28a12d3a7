//! The cards: one with both versions, one for each version.

use loggia_core::{Mode, ModelName};
use loggia_wire::card::{AuthScheme, GrpcUrls, SETUP, Skill, proto_card};
use loggia_wire::{CardFacts, CardKind, Extended, card, card_kind, extended_card, legacy};
use serde_json::{Value, json};

fn tool(name: &str) -> Skill {
    Skill {
        id: name.into(),
        name: name.into(),
        description: format!("What {name} does."),
        tags: vec!["tool".into()],
        examples: Vec::new(),
    }
}

fn extended() -> Extended {
    Extended {
        session: Some("01J0SESSION".into()),
        workspace: "/home/ada/project".into(),
        roots: vec!["/home/ada".into()],
        mode: Mode::Edits,
        model: ModelName("offline".into()),
        tools: Some(vec!["read_file".into()]),
    }
}

fn facts() -> CardFacts {
    CardFacts {
        name: "Loggia".into(),
        description: "A coding agent whose session many clients share.".into(),
        version: "0.1.0".into(),
        public_url: "https://example.org/loggia".into(),
        grpc: Some(GrpcUrls { v1: "example.org:443".into(), v03: "example.org:443".into() }),
        tenant: None,
        documentation_url: None,
        streaming: true,
        push: true,
        extended_card: true,
        auth: vec![
            AuthScheme::Bearer,
            AuthScheme::ClientCredentials {
                token_url: "https://example.org/loggia/oauth/token".into(),
                scopes: vec![
                    ("read".into(), "Follow sessions".into()),
                    ("admin".into(), "Follow everybody's".into()),
                ],
                needed: vec!["read".into()],
            },
        ],
        input_modes: vec!["text/plain".into()],
        output_modes: vec!["text/plain".into()],
        skills: vec![Skill {
            id: "code".into(),
            name: "Coding".into(),
            description: "Reads, writes and runs code in a workspace.".into(),
            tags: vec!["code".into()],
            examples: vec!["Fix the failing test".into()],
        }],
        tools: vec![tool("read_file"), tool("run_shell_command")],
    }
}

#[test]
fn every_card() {
    for (name, shown) in [
        ("card-hybrid", card(&facts(), CardKind::Hybrid)),
        ("card-1.0", card(&facts(), CardKind::A2a1)),
        ("card-0.3", card(&facts(), CardKind::A2a03)),
        ("card-tasks", legacy::card::agent_json(&facts())),
    ] {
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../transcripts");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, super::transcript::compact(&shown, 0)));
    }
}

/// A credential is possible and not needed: both versions say so.
#[test]
fn a_card_of_a_server_that_knows_local_clients() {
    let [_, oauth] = facts().auth.try_into().unwrap();
    let facts = CardFacts { auth: vec![AuthScheme::Nothing, oauth], ..facts() };
    let v03 = card(&facts, CardKind::A2a03);
    assert_eq!(v03["security"], serde_json::json!([{}, { "oauth2": ["read"] }]));
    let v1 = card(&facts, CardKind::A2a1);
    let wanted =
        serde_json::json!([{ "schemes": {} }, { "schemes": { "oauth2": { "list": ["read"] } } }]);
    assert_eq!(v1["securityRequirements"], wanted);
    for card in [v03, v1] {
        assert_eq!(card["securitySchemes"].as_object().unwrap().len(), 1, "{card}");
    }
}

/// Without a token URL, the card names none.
#[test]
fn the_legacy_card_says_how_to_authenticate() {
    let shown = legacy::card::agent_json(&facts());
    assert_eq!(shown["url"], "https://example.org/loggia", "one URL for every version");
    assert_eq!(shown["endpoints"]["rpc"], "https://example.org/loggia/rpc");
    assert_eq!(shown["endpoints"]["token"], "https://example.org/loggia/oauth/token");
    assert_eq!(shown["authentication"]["flow"], "client_credentials");
    assert!(shown["capabilities"]["streaming"].is_boolean() && shown["skills"].is_array());
    let shown = legacy::card::agent_json(&CardFacts { auth: Vec::new(), ..facts() });
    assert_eq!(shown["endpoints"].get("token"), None);
    assert_eq!(shown["authentication"]["schemes"], serde_json::json!(["Bearer"]));
}

/// The members of A2A 1.0, whose clients reject others.
#[test]
fn the_1_0_card_has_no_other_members() {
    const KNOWN: &[&str] = &[
        "name",
        "description",
        "supportedInterfaces",
        "provider",
        "version",
        "documentationUrl",
        "capabilities",
        "securitySchemes",
        "securityRequirements",
        "defaultInputModes",
        "defaultOutputModes",
        "skills",
        "signatures",
        "iconUrl",
    ];
    let shown = card(&facts(), CardKind::A2a1);
    for name in shown.as_object().unwrap().keys() {
        assert!(KNOWN.contains(&name.as_str()), "{name}");
    }
    const CAPABILITIES: &[&str] =
        &["streaming", "pushNotifications", "extensions", "extendedAgentCard"];
    for name in shown["capabilities"].as_object().unwrap().keys() {
        assert!(CAPABILITIES.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn the_hybrid_card_has_both_versions() {
    let (hybrid, v1, v03) = (
        card(&facts(), CardKind::Hybrid),
        card(&facts(), CardKind::A2a1),
        card(&facts(), CardKind::A2a03),
    );
    for part in [&v1, &v03] {
        for name in part.as_object().unwrap().keys() {
            assert!(hybrid.get(name).is_some(), "{name}");
        }
    }
    assert_eq!(hybrid["url"], v03["url"]);
    assert_eq!(hybrid["supportedInterfaces"][0], v1["supportedInterfaces"][0]);
    // The 0.3 conformance kit rejects a card with an unknown transport.
    let transports = hybrid["additionalInterfaces"].as_array().unwrap().iter();
    let transports: Vec<&Value> = transports.map(|interface| &interface["transport"]).collect();
    assert_eq!(transports, ["JSONRPC", "HTTP+JSON", "GRPC"]);
    for shown in [&hybrid, &v1, &v03] {
        let extension = &shown["capabilities"]["extensions"][0];
        assert_eq!(extension["uri"], loggia_wire::devtool::URI);
        assert_eq!(extension["required"], false);
    }
}

#[test]
fn the_root_card_by_version() {
    assert_eq!(card_kind(None), CardKind::Hybrid);
    assert_eq!(card_kind(Some("")), CardKind::Hybrid);
    assert_eq!(card_kind(Some("0.3")), CardKind::Hybrid);
    assert_eq!(card_kind(Some("1.0")), CardKind::A2a1);
    assert_eq!(card_kind(Some("1.1")), CardKind::A2a1);
}

#[test]
fn the_same_facts_give_the_same_bytes() {
    let bytes = |value: Value| serde_json::to_vec(&value).unwrap();
    for kind in [CardKind::Hybrid, CardKind::A2a1, CardKind::A2a03] {
        assert_eq!(bytes(card(&facts(), kind)), bytes(card(&facts(), kind)));
    }
    let plain = CardFacts { auth: Vec::new(), ..facts() };
    let shown = card(&plain, CardKind::Hybrid);
    assert!(shown.get("securitySchemes").is_none() && shown.get("security").is_none());
    let local = CardFacts { public_url: "http://127.0.0.1:41242".into(), ..facts() };
    let shown = card(&local, CardKind::A2a1);
    assert_eq!(shown["supportedInterfaces"][3]["url"], "ws://127.0.0.1:41242/ws");
}

#[test]
fn grpc_addresses() {
    let cases = [
        ("http://localhost:41242", Some("localhost:41242")),
        ("http://[::1]:41242", Some("[::1]:41242")),
        ("https://example.org", Some("example.org:443")),
        ("http://example.org/", Some("example.org:80")),
        ("https://[2001:db8::1]", Some("[2001:db8::1]:443")),
        ("https://example.org/loggia", None),
        ("example.org", None),
        ("http://", None),
    ];
    for (url, expected) in cases {
        assert_eq!(GrpcUrls::of(url).map(|urls| urls.v1).as_deref(), expected, "{url}");
    }
    let none = CardFacts { grpc: None, tenant: Some("acme".into()), ..facts() };
    let shown = card(&none, CardKind::Hybrid);
    assert!(!shown.to_string().contains("GRPC"), "an unreachable interface is not listed");
    for interface in shown["supportedInterfaces"].as_array().unwrap() {
        let tenant = (interface["protocolVersion"] == "1.0").then_some("acme");
        assert_eq!(interface["tenant"].as_str(), tenant, "only 1.0 has tenants");
    }
}

/// The protocol file of 0.3 wraps members that its JSON does not.
#[test]
fn the_card_of_the_0_3_protocol_file() {
    let shown = proto_card(card(&facts(), CardKind::Proto03));
    assert_eq!(shown["security"][0], json!({ "schemes": { "bearer": { "list": [] } } }));
    assert_eq!(shown["security"][1], json!({ "schemes": { "oauth2": { "list": ["read"] } } }));
    let bearer = &shown["securitySchemes"]["bearer"];
    assert_eq!(bearer["httpAuthSecurityScheme"]["scheme"], "bearer");
    assert_eq!(bearer["type"], "http", "for those who read it as JSON");
}

#[test]
fn every_extended_card() {
    for (name, kind) in
        [("card-extended-1.0", CardKind::A2a1), ("card-extended-0.3", CardKind::A2a03)]
    {
        let shown = extended_card(&facts(), &extended(), kind);
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../transcripts");
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!(name, super::transcript::compact(&shown, 0)));
    }
}

/// The public card does not show how sessions are set up.
#[test]
fn the_extended_card_adds_and_changes_nothing_else() {
    for kind in [CardKind::Hybrid, CardKind::A2a1, CardKind::A2a03] {
        let public = card(&facts(), kind);
        let text = public.to_string();
        for secret in ["/home/ada", "01J0SESSION", "offline", "run_shell_command", SETUP] {
            assert!(!text.contains(secret), "{secret} is public");
        }
        let mut shown = extended_card(&facts(), &extended(), kind);
        let skills = shown["skills"].as_array_mut().unwrap();
        let tools: Vec<Value> = skills.drain(1..).map(|skill| skill["id"].clone()).collect();
        assert_eq!(tools, ["read_file"], "only what the agent is given");
        let extensions = shown["capabilities"]["extensions"].as_array_mut().unwrap();
        assert_eq!(extensions.pop().unwrap()["uri"], SETUP);
        assert_eq!(shown, public);
    }
    let all = Extended { tools: None, session: None, roots: Vec::new(), ..extended() };
    let shown = extended_card(&facts(), &all, CardKind::A2a1);
    assert_eq!(shown["skills"].as_array().unwrap().len(), 3);
    let setup = &shown["capabilities"]["extensions"][1]["params"];
    assert_eq!(
        setup.as_object().unwrap().keys().collect::<Vec<_>>(),
        ["mode", "model", "workspace"]
    );
}
