//! Models of providers through the binary: keys, flags, lists, and what a session keeps. The providers are
//! the strict fakes.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use loggia_core::{Effort, Event, Settings};
use loggia_fake_vendors::{Answer, Asked, FakeVendors, Say};
use serde_json::{Value, json};

use crate::driver::{Machine, Ran};
use crate::screen::Screen;
use crate::served::{EXTENSION, Served, text_message};
use crate::terminal::Person;

const KEY: &str = "canary-provider-key-0123456789";
const OWN_KEY: &str = "canary-own-key-9876543210";
const OPUS: &str = "anthropic/claude-opus-5-5";

/// Calls the shell for a prompt with `run LINE`, and says `done` else.
async fn fakes() -> FakeVendors {
    let script = |asked: &Asked| {
        let line = asked.prompt().lines().find_map(|line| line.strip_prefix("run "));
        Answer::says(vec![match line {
            Some(line) if asked.replies() == 0 => Say::Call {
                tool: "run_shell_command".to_owned(),
                arguments: json!({ "command": line }).to_string(),
            },
            Some(_) | None => Say::Text("I am the fake.".to_owned()),
        }])
    };
    FakeVendors::start(Arc::new(script)).await.unwrap()
}

fn ran(mut command: Command) -> Ran {
    command.output().unwrap().into()
}

fn with_key(machine: &Machine, fakes: &FakeVendors, arguments: &[&str]) -> Command {
    let mut command = machine.command(arguments);
    command.env("ANTHROPIC_API_KEY", KEY).env("ANTHROPIC_BASE_URL", fakes.url("anthropic"));
    command
}

fn piped(mut command: Command, text: &str) -> Ran {
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

fn settings(machine: &Machine) -> Settings {
    let session = machine.sessions().remove(0);
    let log = machine.log(&session);
    let settings = log.iter().rev().find_map(|envelope| match &envelope.event {
        Event::SessionOpened { settings, .. } | Event::SettingsChanged { settings } => {
            Some(settings.clone())
        }
        _ => None,
    });
    settings.unwrap()
}

/// The files below a directory that contain a text, except those with this name.
fn containing(directory: &Path, text: &str, except: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(containing(&path, text, except));
        } else if path.file_name().is_some_and(|name| name != except) {
            let bytes = std::fs::read(&path).unwrap_or_default();
            if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

#[test]
fn keys_are_stored_listed_and_removed_and_never_shown() {
    let machine = Machine::new();
    let set = piped(machine.command(&["keys", "set", "openai"]), &format!("{KEY}\n"));
    assert_eq!(set.code, 0, "{}", set.err);
    let file = machine.home().join("config/keys.toml");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let listed = machine.run(&["keys", "list"]);
    assert_eq!(listed.out, "openai       keys.toml\n");
    let mut named = machine.command(&["keys", "list", "--json"]);
    named.env("GEMINI_API_KEY", KEY);
    let lines = ran(named).out;
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let wanted = [
        json!({ "provider": "openai", "origin": "keys.toml" }),
        json!({ "provider": "gemini", "origin": "environment GEMINI_API_KEY" }),
    ];
    assert_eq!(lines, wanted);
    // A key chooses the default model.
    let config = machine.run(&["config"]);
    assert!(config.out.contains("openai/gpt-6.1-sol"), "{}", config.out);
    assert!(config.out.contains("key in keys.toml"), "{}", config.out);
    let doctor = machine.run(&["doctor"]);
    assert!(doctor.out.contains("openai: https://api.openai.com/v1, key in keys.toml"));
    let shown = [set.out, set.err, listed.err, config.out, config.err, doctor.out, doctor.err];
    assert!(shown.iter().all(|text| !text.contains(KEY)), "{shown:?}");
    assert_eq!(containing(&machine.home(), KEY, "keys.toml"), Vec::<String>::new());

    assert_eq!(machine.run(&["keys", "remove", "openai"]).code, 0);
    assert_eq!(machine.run(&["keys", "remove", "openai"]).code, 1);
    assert_eq!(machine.run(&["keys", "list"]).out, "");
    for (provider, text, why) in [
        ("opnai", KEY, "there is no provider `opnai`"),
        ("openai", "", "there is no key"),
        ("openai", "two words", "this is not a key"),
    ] {
        let refused = piped(machine.command(&["keys", "set", provider]), text);
        assert_eq!(refused.code, 2);
        assert!(refused.err.contains(why) && !refused.err.contains(KEY), "{}", refused.err);
    }
    // A file that others can read is not used, and says so.
    piped(machine.command(&["keys", "set", "openai"]), KEY);
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    let config = machine.run(&["config"]);
    assert!(config.out.contains("chmod 600") && !config.out.contains("gpt-6.1"), "{}", config.out);
}

/// The terminal shows the prompt and not the key, and has its echo back afterwards.
#[test]
fn a_key_is_typed_without_being_shown() {
    let machine = Machine::new();
    let words = ["sh", "-c", "\"$1\" keys set gemini; stty -a | grep -o ' echo '; echo end", "x"];
    let words: Vec<&str> =
        words.into_iter().chain([Machine::program().to_str().unwrap()]).collect();
    let mut terminal = Person::starts(&machine, &words, &[("PATH", "/usr/bin:/bin")]);
    terminal.sees("it is not shown): ").types(&format!("{KEY}\r"));
    let (_, shown) = terminal.leaves();
    assert!(!shown.contains(KEY) && shown.contains(" echo "), "{shown}");
    let stored = std::fs::read_to_string(machine.home().join("config/keys.toml")).unwrap();
    assert!(stored.contains(KEY));
}

/// The agent's commands, the log, the export, errors and the process list contain no key.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_reaches_its_provider_and_nothing_else() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    machine.configure(&format!(
        "[providers.mine]\nkind = 'openai'\nbase_url = '{}/v1'\nkey_env = 'OWN_KEY'\nheaders = {{ X-Team = '{OWN_KEY}' }}\n",
        fakes.url("openai")
    ));
    let look = "run env; cat /proc/self/environ; for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; done 2>/dev/null";
    let mut shown = Vec::new();
    for model in [OPUS, "mine/gpt-6.1-sol"] {
        let arguments = ["run", "--approve", "all", "--model", model, look];
        let mut command = with_key(&machine, &fakes, &arguments);
        command.env("OWN_KEY", OWN_KEY).env("LOGGIA_LOG", "trace");
        let ran = ran(command);
        assert_eq!(ran.code, 0, "{} {:?}", ran.err, fakes.refusals());
        assert!(ran.out.contains("I am the fake."), "{}", ran.out);
        shown.extend([ran.out, ran.err]);
    }
    let recorded = fakes.recorded();
    let sent = |key: &str| {
        let has = |(_, value): &&(String, String)| value.contains(key);
        recorded.iter().filter(|request| request.headers.iter().any(|pair| has(&pair))).count()
    };
    assert!(sent(KEY) >= 2 && sent(OWN_KEY) >= 2);
    let of_anthropic = recorded.iter().filter(|request| request.vendor == "anthropic");
    let mut headers = of_anthropic.flat_map(|request| &request.headers);
    assert!(headers.all(|(_, value)| !value.contains(OWN_KEY)));
    assert!(recorded.iter().all(|request| !request.body.to_string().contains(KEY)));

    for session in machine.sessions() {
        for format in ["markdown", "jsonl"] {
            let exported = machine.run(&["sessions", "export", &session, "--format", format]);
            // The look saw something.
            assert!(exported.out.contains("LANG=C.UTF-8"), "{}", exported.out);
            shown.push(exported.out);
        }
    }
    for arguments in [&["config"][..], &["config", "--output", "json"], &["doctor"], &["models"]] {
        let mut command = with_key(&machine, &fakes, arguments);
        command.env("OWN_KEY", OWN_KEY);
        let ran = ran(command);
        shown.extend([ran.out, ran.err]);
    }
    for key in [KEY, OWN_KEY] {
        assert!(shown.iter().all(|text| !text.contains(key)), "{key} in {shown:?}");
        assert_eq!(containing(&machine.home(), key, "config.toml"), Vec::<String>::new());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_variable_with_a_key_cannot_be_passed_to_commands() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    machine.configure("shell.pass_env = ['ANTHROPIC_API_KEY']\n");
    let refused = machine.run(&["run", "say hi"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("never passed to commands"), "{}", refused.err);
    let provider = "[providers.mine]\nbase_url = 'http://127.0.0.1:1/v1'\nkey_env = 'OWN_KEY'\n";
    machine.configure(&format!("shell.pass_env = ['OWN_KEY']\n{provider}"));
    let refused = machine.run(&["run", "say hi"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("the key of the provider mine"), "{}", refused.err);
    machine.configure(&provider.replace("OWN_KEY", "HOME"));
    let refused = machine.run(&["run", "say hi"]);
    assert!(refused.err.contains("passed to every command"), "{}", refused.err);
    drop(fakes);
}

/// Trusted or not, a project sends nobody's key elsewhere.
#[tokio::test(flavor = "multi_thread")]
async fn a_project_cannot_redirect_a_provider() {
    let (machine, fakes, thief) = (Machine::new(), fakes().await, fakes().await);
    let file = format!(
        "network.ca_file = '/tmp/ca.pem'\n[providers.anthropic]\nbase_url = '{}'\n",
        thief.url("anthropic")
    );
    machine.write(".loggia/config.toml", &file);
    for trusted in [false, true] {
        if trusted {
            assert_eq!(machine.run(&["trust"]).code, 0);
        }
        let ran = ran(with_key(&machine, &fakes, &["run", "--model", OPUS, "hello"]));
        assert_eq!(ran.code, 0, "{}", ran.err);
        assert!(ran.err.contains("set `providers` in your own file"), "{}", ran.err);
        assert!(ran.err.contains("set `network.ca_file` in your own file"), "{}", ran.err);
        assert!(thief.recorded().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn models_are_listed_with_their_window_price_and_key() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    let listed = ran(with_key(&machine, &fakes, &["models", "anthropic"]));
    assert_eq!(listed.code, 0, "{}", listed.err);
    assert!(listed.out.starts_with("anthropic: key in environment ANTHROPIC_API_KEY\n"));
    let opus = listed.out.lines().find(|line| line.contains(OPUS)).unwrap();
    assert!(opus.contains("1000000 tokens") && opus.contains("$4.00 in, $20.00 out"), "{opus}");
    let json = ran(with_key(&machine, &fakes, &["models", "--json", "anthropic"])).out;
    let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let opus = lines.iter().find(|line| line["name"] == OPUS).unwrap();
    assert_eq!((&opus["key"], &opus["source"]), (&json!(true), &json!("provider")));
    // Without keys: the shipped table, and a server on this machine.
    let mut all = machine.command(&["models"]);
    all.env("OLLAMA_HOST", fakes.url("ollama"));
    let all = ran(all).out;
    assert!(
        all.contains("openai: no key: `loggia keys set openai`\n  openai/gpt-5.6-luna"),
        "{all}"
    );
    assert!(all.contains("ollama: on this machine\n  ollama/"), "{all}");
    let wrong = machine.run(&["models", "anthropik"]);
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("did you mean `anthropic`?"), "{}", wrong.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_key_two_lines_say_how_to_get_a_model() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    let hint = "this is the offline demo";
    let plain = machine.run(&["run", "say hi"]);
    assert!(plain.err.contains(hint) && plain.err.contains("loggia keys set anthropic"));
    assert_eq!(plain.out, "hi\n");
    let mut local = machine.command(&["run", "say hi"]);
    local.env("OLLAMA_HOST", fakes.url("ollama"));
    let local = ran(local).err;
    assert!(local.contains("`--model ollama/"), "{local}");
    for quiet in [
        &["run", "--quiet", "say hi"][..],
        &["run", "--output", "json", "say hi"],
        &["run", "--output", "stream-json", "say hi"],
        &["run", "--model", "offline", "say hi"],
    ] {
        let ran = machine.run(quiet);
        assert!(!ran.err.contains(hint) && !ran.out.contains(hint), "{quiet:?}: {}", ran.err);
    }
    machine.configure("model = 'offline'\n");
    assert!(!machine.run(&["run", "say hi"]).err.contains(hint));
    machine.configure("");
    let mut screen = Screen::open(&machine, &[]);
    screen.sees(hint).sees("? help").types("/quit\r").sees("code 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_models_are_refused_before_anything_starts() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    for (model, why) in [
        (
            "openai/gpt-6-luna",
            "there is no key for openai: set OPENAI_API_KEY or run `loggia keys set openai`",
        ),
        ("claude-opus-5-5", "did you mean `anthropic/claude-opus-5-5`?"),
        ("nonsense", "there is no model `nonsense`"),
    ] {
        let ran = ran(with_key(&machine, &fakes, &["run", "--model", model, "hi"]));
        assert_eq!(ran.code, 2, "{}", ran.err);
        assert!(ran.err.contains(why), "{}", ran.err);
    }
    let ran = machine.run(&["run", "--effort", "enormous", "say hi"]);
    assert!(ran.code == 2 && ran.err.contains("there is no effort `enormous`"), "{}", ran.err);
    assert!(machine.sessions().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_session_keeps_its_model_effort_and_mode() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    let run = |arguments: &[&str]| {
        let ran = ran(with_key(&machine, &fakes, &[&["run"], arguments].concat()));
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.err
    };
    run(&["--model", "anthropic/claude-sonnet-5-5", "--effort", "low", "--approve", "edits", "hi"]);
    let first = settings(&machine);
    assert_eq!(first.effort, Some(Effort::Low));
    run(&["--continue", "again"]);
    let kept = settings(&machine);
    assert_eq!((&kept.model, kept.effort, kept.mode), (&first.model, first.effort, first.mode));
    // A flag says otherwise, one setting at a time.
    run(&["--continue", "--effort", "high", "again"]);
    let changed = settings(&machine);
    assert_eq!((&changed.model, changed.effort), (&first.model, Some(Effort::High)));
    run(&["--continue", "--model", OPUS, "again"]);
    assert_eq!(settings(&machine).model.0, OPUS);
    let body = fakes
        .recorded()
        .iter()
        .rev()
        .find(|request| request.method == "POST")
        .unwrap()
        .body
        .clone();
    assert_eq!(
        (&body["model"], &body["output_config"]["effort"]),
        (&json!("claude-opus-5-5"), &json!("high"))
    );
    // The key is gone.
    let without = machine.run(&["run", "--continue", "say hi"]);
    assert_eq!(without.code, 0, "{}", without.err);
    assert!(without.err.contains("this session used the model anthropic/claude-opus-5-5"));
    assert!(without.err.contains("it continues with offline"), "{}", without.err);
}

#[tokio::test(flavor = "multi_thread")]
async fn slash_commands_change_the_model_and_the_effort_of_the_session() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    let run = |prompt: &str| ran(with_key(&machine, &fakes, &["run", "--continue", prompt]));
    assert_eq!(ran(with_key(&machine, &fakes, &["run", "--model", "offline", "say hi"])).code, 0);
    let shown = run("/model").out;
    assert!(shown.contains("The model is offline") && shown.contains(OPUS), "{shown}");
    assert!(run(&format!("/model {OPUS}")).out.contains("from the next prompt on"));
    assert_eq!(settings(&machine).model.0, OPUS);
    assert!(run("hello").out.contains("I am the fake."));
    let wrong = run("/model anthropc/x");
    assert_eq!(wrong.code, 1);
    assert!(wrong.err.contains("did you mean `anthropic/x`?"), "{}", wrong.err);
    assert!(run("/effort").out.contains("The effort is default"));
    assert!(run("/effort High").out.contains("The effort is high"));
    assert_eq!(settings(&machine).effort, Some(Effort::High));
    assert!(run("/effort huge").err.contains("there is no effort `huge`"));
    run("/effort default");
    assert_eq!(settings(&machine).effort, None);
    // Any screen.
    let mut screen = Screen::open(&machine, &["--continue", "--model", "offline"]);
    screen.sees("? help").types("/effort max\r").sees("The effort is max").types("/model ofline\r");
    screen.sees("did you mean `offline`?").types("/quit\r").sees("code 0");
    assert_eq!(settings(&machine).effort, Some(Effort::Max));
}

/// Over A2A: in the settings of the first message, and as a slash command.
#[tokio::test(flavor = "multi_thread")]
async fn clients_choose_the_model_of_their_session() {
    let (machine, fakes) = (Machine::new(), fakes().await);
    let mut command = with_key(&machine, &fakes, &["serve", "--port", "0", "--model", "offline"]);
    command.stderr(Stdio::null());
    let served = Served::spawn(command);
    let send = async |text: &str, settings: Value| {
        let mut message = text_message(text);
        message["metadata"] = json!({ EXTENSION: settings });
        let configuration = json!({ "blocking": true });
        let params = json!({ "message": message, "configuration": configuration });
        served.call("message/send", params).await
    };
    let answered = send("hello", json!({ "model": OPUS, "effort": "low" })).await;
    assert!(answered.to_string().contains("I am the fake."), "{answered}");
    let first = settings(&machine);
    assert_eq!((first.model.0.as_str(), first.effort), (OPUS, Some(Effort::Low)));
    let refused = send("say hi", json!({ "model": "scripted:/etc/passwd" })).await.to_string();
    assert!(!refused.contains("root:"), "{refused}");
    assert_eq!(settings(&machine).model.0, "offline");
}
