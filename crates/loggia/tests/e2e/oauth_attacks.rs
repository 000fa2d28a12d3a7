//! Attacks on secrets and tokens of the real server: A08, A09, A11, A15, A42.

use std::io::Read;
use std::time::Instant;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::StreamExt;
use loggia_core::Event;
use serde_json::{Value, json};

use crate::attacks::as_other_user;
use crate::driver::Machine;
use crate::oauth::{FORM, SAMPLE, ask, register, status};
use crate::served::{Served, text_message};

/// A08: the published sample credentials work only with --dev-credentials.
#[tokio::test]
async fn published_credentials_open_nothing_unless_asked_for() {
    let machine = Machine::new();
    let served = Served::shared(&machine, &[]);
    let (code, body) = ask(&served, SAMPLE).await;
    assert_eq!((code, &body["error"]), (401, &json!("invalid_client")), "{body}");
    drop(served);
    let taken = machine.run(&["clients", "add", "a2a-claude-client-123"]);
    assert!(taken.code == 2 && taken.err.contains("sample"), "{}", taken.err);
    let elsewhere: &[&[&str]] = &[
        &["--listen", "0.0.0.0"],
        &["--listen", "::"],
        &["--listen", "192.0.2.1"],
        &["--public-url", "https://loggia.example"],
        &["--allowed-host", "loggia.example"],
        &["--allowed-host", "localhost.example:80"],
    ];
    for more in elsewhere {
        for command in [&["serve", "--port", "0"][..], &["--a2a-port", "0"]] {
            let ran = machine.run(&[command, &["--dev-credentials"], more].concat());
            assert_eq!(ran.code, 2, "{more:?}: {}", ran.err);
            assert!(ran.err.contains("--dev-credentials"), "{more:?}: {}", ran.err);
        }
    }
    let mut served = Served::start(&machine, &["serve", "--port", "0", "--dev-credentials"]);
    let (code, body) = ask(&served, SAMPLE).await;
    assert_eq!(code, 200, "{body}");
    let token = body["access_token"].as_str().unwrap().to_owned();
    assert_eq!(status(&served, &token).await, 200);
    let url = format!("http://127.0.0.1:{}/oauth/token", served.port);
    let (body, code) = as_other_user(&["-d", SAMPLE, &url]);
    assert_eq!(code, 401, "another user has read the guide, too: {body}");
    served.child.kill().unwrap();
    let mut said = String::new();
    served.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("WARNING") && said.contains("a2a-claude-client-123"), "{said}");
    let without = Served::start(&machine, &["serve", "--port", "0"]);
    assert_eq!(status(&without, &token).await, 401, "its tokens end with the flag");
}

/// A09: after a few wrong secrets, all attempts wait, and other clients do not.
#[tokio::test]
async fn guessing_secrets_is_slow_and_locks_out_no_other_client() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &[]);
    let served = Served::shared(&machine, &[]);
    ann.token(&served).await;
    let before = served.resident();
    let wrong =
        format!("grant_type=client_credentials&client_id=ann&client_secret={}", "x".repeat(43));
    let begun = Instant::now();
    let mut codes = Vec::new();
    for _ in 0..200 {
        codes.push(ask(&served, &wrong).await.0);
    }
    assert_eq!(codes[..5], [401; 5]);
    let looked_at = codes.iter().filter(|code| **code == 401).count();
    // One more attempt after each wait: 1, 3, 7, 15, … seconds.
    let waits = (begun.elapsed().as_secs() + 1).ilog2() as usize;
    assert!(looked_at <= 5 + waits, "{looked_at} in {:?}", begun.elapsed());
    assert!(codes.iter().all(|code| [401, 429].contains(code)), "{codes:?}");
    // Lock it for longer than the next requests take, then try to circumvent it.
    let mut body = Value::Null;
    while body["error"] != "temporarily_unavailable" {
        body = ask(&served, &wrong).await.1;
    }
    let basic = |name: &str| served.request("POST", "/oauth/token").basic_auth(name, Some("wrong"));
    let only = "grant_type=client_credentials";
    let tried = [
        (served.request("POST", "/oauth/token"), wrong.as_str()),
        (served.request("POST", "/oauth/token").header("X-Forwarded-For", "192.0.2.1"), &wrong),
        (served.request("POST", "/oauth/token").header("Cookie", "a=b"), &wrong),
        (basic("ann"), only),
        (basic("nobody-of-that-name"), only),
        (basic("a b c"), only),
        (served.request("POST", "/oauth/token"), &format!("{wrong}&scope=admin")),
        (served.request("POST", "/oauth/token"), &format!("{wrong}&token=x&device_code=y")),
        (served.request("POST", "/oauth/token"), &ann.form()),
    ];
    let begun = Instant::now();
    for (number, (request, form)) in tried.into_iter().enumerate() {
        let request = request.header("Content-Type", FORM).body(form.to_owned());
        let answer = request.send().await.unwrap();
        let limited = answer.status() == 429 && answer.headers().contains_key("retry-after");
        assert!(limited || begun.elapsed().as_secs() >= 1, "{number}: {}", answer.status());
    }
    let url = format!("http://127.0.0.1:{}/oauth/token", served.port);
    let (body, code) = as_other_user(&["-d", &ann.form(), &url]);
    assert_eq!(code, 200, "the right secret from elsewhere: {body}");
    let attempts = futures::stream::iter(200..10_000).map(|_| ask(&served, &wrong));
    let codes: Vec<u16> = attempts.buffer_unordered(16).map(|(code, _)| code).collect().await;
    assert!(codes.iter().all(|code| [401, 429].contains(code)));
    let grown = served.resident().saturating_sub(before);
    assert!(grown < 50 * 1024, "it grew by {grown} KiB");
}

/// Checking a secret is expensive on purpose; a flood uses no more memory and time than a few.
#[tokio::test]
async fn a_flood_of_token_requests_is_bounded() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &[]);
    let served = Served::shared(&machine, &[]);
    ann.token(&served).await;
    let before = served.resident();
    let form = ann.form();
    let asking = (0..200).map(|_| ask(&served, &form));
    let all = futures::future::join_all(asking);
    let meanwhile = async {
        let begun = Instant::now();
        let listed = served.call("ListTasks", json!({})).await;
        assert!(listed["result"].is_object(), "{listed}");
        (begun.elapsed(), served.resident().saturating_sub(before))
    };
    let (all, (took, grown)) = futures::join!(all, meanwhile);
    let given = all.iter().filter(|(code, _)| *code == 200).count();
    assert!(all.iter().all(|(code, _)| [200, 503].contains(code)), "{all:?}");
    assert!(given >= 64, "{given} got a token");
    assert!(took.as_secs() < 10 && grown < 80 * 1024, "{took:?}, {grown} KiB");
    assert_eq!(ask(&served, &form).await.0, 200, "it is over");
}

/// A11: forged, foreign and invalidated tokens. Expiry is tested in the server crate.
#[tokio::test]
async fn tokens_that_were_not_given_open_nothing() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &[]);
    let bob = register(&machine, "bob", &[]);
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    let good = ann.token(&served).await;
    let dead = bob.token(&served).await;
    assert_eq!(machine.run(&["clients", "revoke", "bob"]).code, 0);
    drop(served);
    let [form, key, claims, sum] = good.split('.').collect::<Vec<_>>().try_into().unwrap();
    let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let says = String::from_utf8(URL_SAFE_NO_PAD.decode(claims).unwrap()).unwrap();
    let wider = encode(&says.replace("read prompt", "read prompt approve admin"));
    let later = encode(&says.replace("\"exp\":1", "\"exp\":2"));
    let tokens = [
        format!("{}.{claims}.", encode(r#"{"alg":"none","typ":"JWT"}"#)),
        format!("{}.{claims}.{sum}", encode(r#"{"alg":"HS256","kid":"../../x"}"#)),
        format!("{}.{claims}.{sum}", encode(r#"{"alg":"RS256","jku":"http://127.0.0.1:1/"}"#)),
        format!("{form}.../../x.{claims}.{sum}"),
        format!("{form}.{key}.{wider}.{sum}"),
        format!("{form}.{key}.{later}.{sum}"),
        format!("{form}.{key}.{claims}."),
        format!("{form}.{key}.{claims}.{}", encode(&"x".repeat(32))),
        good.to_uppercase(),
        ann.secret.clone(),
        dead,
    ];
    // A few for each server, to stay below the limiter.
    for tokens in tokens.chunks(4) {
        let served = Served::start(&machine, &["serve", "--port", "0"]);
        for token in tokens {
            let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {} });
            let answer = served.post(&list).bearer_auth(token).send().await.unwrap();
            assert_eq!(answer.status(), 401, "{token}");
            let challenge = answer.headers()["www-authenticate"].to_str().unwrap();
            assert_eq!(challenge, "Bearer realm=\"loggia\", error=\"invalid_token\"", "{token}");
            let upgrade = [("Authorization", format!("Bearer {token}"))];
            if tokens.len() < 4 {
                assert_eq!(served.upgrade("", upgrade).await.err().unwrap().0, 401, "{token}");
            }
        }
        assert_eq!(status(&served, &good).await, 200);
    }
    // A once valid token is not a guess: it can be sent a hundred times without a lockout.
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    for _ in 0..100 {
        assert_eq!(status(&served, &tokens[10]).await, 401);
    }
    assert_eq!(status(&served, &good).await, 200);
}

/// A15: an agent's command gets no token, even with a valid secret.
#[tokio::test]
async fn a_secret_does_not_help_a_command() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &[]);
    let served = Served::shared(&machine, &["--approve", "all"]);
    let url = format!("http://127.0.0.1:{}/oauth/token", served.port);
    let look = format!("curl -s -m 5 -w ' %{{http_code}}' -d '{}' {url}", ann.form());
    machine.write("look.sh", &format!("{look}\nsetsid -w {look}\n"));
    let message =
        json!({ "message": text_message("run sh look.sh"), "configuration": { "blocking": true } });
    let done = served.call("message/send", message).await;
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    let log = machine.log(&machine.sessions().remove(0));
    let ended = log.iter().find(|envelope| matches!(envelope.event, Event::CallEnded { .. }));
    let ended = serde_json::to_string(ended.unwrap()).unwrap();
    assert_eq!(ended.matches("unauthorized_client").count(), 2, "{ended}");
    assert!(ended.contains(" 403") && !ended.contains("access_token"), "{ended}");
    assert_eq!(ask(&served, &ann.form()).await.0, 200, "a process that no call started");
}

/// A42: secrets and tokens appear in no file and no debug log.
#[tokio::test]
async fn secrets_and_tokens_are_written_down_nowhere() {
    let machine = Machine::new();
    let ann = register(&machine, "ann", &["--scope", "read,prompt"]);
    let mut command = machine.command(&["serve", "--port", "0"]);
    command.env("LOGGIA_LOG", "trace");
    let log = machine.home().with_file_name("stderr");
    command.stderr(std::fs::File::create(&log).unwrap());
    let served = Served::spawn(command);
    let token = ann.token(&served).await;
    let basic = served.request("POST", "/oauth/token").basic_auth("ann", Some(&ann.secret));
    let basic = basic.header("Content-Type", FORM).body("grant_type=client_credentials");
    assert_eq!(basic.send().await.unwrap().status(), 200);
    let mistakes = [
        ann.form().replace("grant_type", "grant"),
        format!("{}&scope=admin", ann.form()),
        format!("{}&client_id=x", ann.form()),
        format!("{}x", ann.form()),
    ];
    for form in &mistakes {
        assert!(ask(&served, form).await.0 >= 400);
    }
    let message = json!({ "message": text_message("say hi") });
    served.call_as(&token, "/", "message/send", message).await;
    served.call_as(&token, "/", "no/such/method", json!({})).await;
    assert_eq!(status(&served, &format!("{token}x")).await, 401);
    drop(served);
    assert!(std::fs::read_to_string(&log).unwrap().contains("TRACE"), "it did say everything");
    let mut places = vec![machine.home(), machine.work(), log];
    let sum = token.rsplit('.').next().unwrap();
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(std::fs::read_dir(place).unwrap().map(|entry| entry.unwrap().path()));
            continue;
        }
        let bytes = std::fs::read(&place).unwrap();
        for canary in [ann.secret.as_str(), sum] {
            let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
            assert!(!found, "{} holds a secret", place.display());
        }
    }
}
