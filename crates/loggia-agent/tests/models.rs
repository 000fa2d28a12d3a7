//! The built-in models by their configured names, run through their streams. Every example in
//! `docs/reference/models.md` and `examples/` is run here.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on should stop")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use loggia_agent::model::{
    Delta, Message, Model, ModelError, ModelRequest, PastCall, Purpose, Reply, UserMessage,
    registry,
};
use loggia_core::{CallId, CallOutcome, Output};
use loggia_models::Providers;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn open(name: &str) -> Arc<dyn Model> {
    registry::built_in(name, &repository()).unwrap().unwrap_or_else(|error| panic!("{error}"))
}

fn request(messages: &[Message]) -> ModelRequest {
    ModelRequest {
        purpose: Purpose::Turn,
        instructions: "".into(),
        effort: None,
        cache_key: "".into(),
        messages: messages.to_vec(),
        tools: [].into(),
    }
}

/// Runs a prompt until a reply has no calls. Every call returns `outcome`.
async fn run_prompt(model: &dyn Model, prompt: &str, outcome: &str) -> String {
    let mut messages = vec![Message::User(UserMessage::text(prompt))];
    let mut transcript = String::new();
    loop {
        let deltas: Vec<_> = model.stream(request(&messages)).collect().await;
        let mut reply = Reply::default();
        for delta in &deltas {
            transcript.push_str(&shown(delta));
            if let Ok(Delta::Call { tool, input, .. }) = delta {
                reply.calls.push(PastCall {
                    call: CallId::from("call"),
                    tool: tool.clone(),
                    input: input.clone().unwrap_or_default(),
                    outcome: CallOutcome::Succeeded { output: Output::text(outcome) },
                });
            }
        }
        if reply.calls.is_empty() {
            return transcript;
        }
        messages.push(Message::Reply(reply));
    }
}

fn shown(delta: &Result<Delta, ModelError>) -> String {
    match delta {
        Ok(Delta::Text(text)) => text.clone(),
        Ok(Delta::Thought { subject, text }) => format!("<{subject}: {text}>\n"),
        Ok(Delta::Call { tool, input: Ok(input), .. }) => format!("\n<{tool} {input}>"),
        Ok(Delta::Call { tool, input: Err(text), .. }) => format!("\n<{tool} !{text}>"),
        Ok(Delta::Usage(usage)) => format!("<{} {}>", usage.input_tokens, usage.output_tokens),
        Ok(Delta::Item(item)) => format!("<item {item}>"),
        Ok(Delta::Stop(_)) => "<stop>\n".to_owned(),
        Err(error) => format!("<{:?}: {error}>", error.kind),
    }
}

#[tokio::test]
async fn the_tour_of_the_offline_model() {
    let prompt = std::fs::read_to_string(repository().join("examples/tour.txt")).unwrap();
    let expected = "\
Let me show you around.<Tour: a file first, then a command that reads it>

<write_todos {\"todos\":[{\"state\":\"pending\",\"text\":\"write a greeting\"},{\"state\":\"pending\",\"text\":\"read it back\"},{\"state\":\"pending\",\"text\":\"publish it\"}]}><stop>

<ask_user {\"question\":\"Whom shall I greet?\"}><stop>

<write_file {\"content\":\"Hello, Ada!\\n\",\"path\":\"greeting.txt\"}><stop>

<replace {\"new_string\":\"Good morning\",\"old_string\":\"Hello\",\"path\":\"greeting.txt\"}><stop>

<run_shell_command {\"command\":\"cat greeting.txt\"}><stop>

<write_file {\"content\":\"# Today\\n\\n- greeted Ada\\n\",\"path\":\"notes/today.md\"}><stop>

<list_directory {\"path\":\"notes\"}><stop>

<search_file_content {\"pattern\":\"greeted\"}><stop>

<publish_artifact {\"name\":\"summary\",\"text\":\"Ada was greeted.\"}><stop>
That was the tour.

planned 3 steps

asked `Whom shall I greet?`: Ada

wrote greeting.txt: Ada

edited greeting.txt: Ada

ran `cat greeting.txt`:
```
Ada
```

wrote notes/today.md: Ada

listed notes:
```
Ada
```

searched for `greeted`:
```
Ada
```

published summary: Ada<stop>
";
    assert_eq!(run_prompt(open("offline").as_ref(), &prompt, "Ada").await, expected);
}

#[tokio::test]
async fn the_examples_of_the_scripted_model() {
    let cases = [
        (
            "tour.toml",
            "hello",
            "<Greeting: Somebody says hello.>\nHello! I am a script, and I stream slowly.<12 10><stop>\n",
        ),
        (
            "tour.toml",
            "add a note: buy milk",
            "I will write it down.\n\
             <write_file {\"content\":\"buy milk\\n\",\"path\":\"note.txt\"}><stop>\n\n\
             <read_file {\"path\":\"note.txt\"}><stop>\n\
             The note says: RESULT<stop>\n",
        ),
        (
            "tour.toml",
            "please look around",
            "\n<list_directory {\"path\":\".\"}>\n<search_file_content {\"pattern\":\"TODO\"}><stop>\n\
             I looked.<stop>\n",
        ),
        ("tour.toml", "what?", "I only know the prompts of this file.<stop>\n"),
        (
            "tour.json",
            "count to 3",
            "To 3? I will let the shell do that.\n\
             <run_shell_command {\"command\":\"seq 3\"}><stop>\nRESULT<stop>\n",
        ),
        ("faults.toml", "refuse", "<Refused: I must not do that.>"),
        ("faults.toml", "break off", "And then the connec"),
        (
            "faults.toml",
            "write nonsense",
            "\n<write_file !{\"path\": \"a.txt\", \"content\": ><stop>\nI was told: RESULT<stop>\n",
        ),
        ("faults.toml", "?", "No rule of `examples/faults.toml` matches this prompt.<stop>\n"),
    ];
    for (file, prompt, expected) in cases {
        let model = open(&format!("scripted:examples/{file}"));
        assert_eq!(model.name().0, format!("scripted:examples/{file}"));
        assert_eq!(
            run_prompt(model.as_ref(), prompt, "RESULT").await,
            expected,
            "{file}: {prompt}"
        );
    }
}

#[tokio::test]
async fn faults_of_the_scripted_model() {
    let model = open("scripted:examples/faults.toml");
    let mut attempts = Vec::new();
    for _ in 0..3 {
        attempts.push(run_prompt(model.as_ref(), "be busy twice", "").await);
    }
    let busy = "<Overloaded: the provider is overloaded>";
    assert_eq!(attempts, [busy, busy, "Now it works.<stop>\n"]);

    let long = run_prompt(model.as_ref(), "talk a lot", "").await;
    assert_eq!(long.matches("and so on ").count(), 1000);

    let panicked =
        std::panic::AssertUnwindSafe(run_prompt(model.as_ref(), "panic", "")).catch_unwind();
    let payload = panicked.await.unwrap_err();
    assert_eq!(payload.downcast_ref::<String>().unwrap(), "the script asked for a panic");

    // Dropping the stream ends the wait.
    let hanging = run_prompt(model.as_ref(), "hang", "");
    assert!(tokio::time::timeout(Duration::from_millis(50), hanging).await.is_err());
}

#[tokio::test]
async fn every_example_in_the_documentation_is_understood() {
    let page = std::fs::read_to_string(repository().join("docs/reference/models.md")).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let mut seen = [0, 0, 0];
    for (language, text) in blocks(&page) {
        match language.as_str() {
            "text" => {
                seen[0] += 1;
                let reply = run_prompt(open("offline").as_ref(), &text, "").await;
                assert!(
                    reply.contains("<stop>\n\n<") || reply.starts_with("\n<"),
                    "{text}: {reply}"
                );
            }
            "toml" | "json" => {
                seen[usize::from(language == "json") + 1] += 1;
                let file = format!("example.{language}");
                std::fs::write(directory.path().join(&file), &text).unwrap();
                let model = registry::built_in(&format!("scripted:{file}"), directory.path());
                if let Some(Err(error)) = model {
                    panic!("{error}\n{text}");
                }
            }
            _ => {}
        }
    }
    assert_eq!(seen, [2, 2, 1], "examples in text, TOML and JSON");
    for file in ["tour.txt", "tour.json"] {
        let text = std::fs::read_to_string(repository().join("examples").join(file)).unwrap();
        assert!(
            page.contains(&text),
            "docs/reference/models.md does not show examples/{file} as it is"
        );
    }
}

/// The fenced blocks of a page, with the text after their opening fence.
fn blocks(page: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let language = line.trim_start_matches('`');
        let fence = line.strip_suffix(language).unwrap_or_default();
        if fence.len() >= 3 {
            let text: Vec<&str> = lines.by_ref().take_while(|line| *line != fence).collect();
            found.push((language.to_owned(), text.join("\n")));
        }
    }
    found
}

#[test]
fn unknown_model_names_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let write =
        |name: &str, bytes: &[u8]| std::fs::write(directory.path().join(name), bytes).unwrap();
    write("latin.toml", b"# \xe9");
    write("large.toml", &vec![b'#'; 4 * 1024 * 1024 + 1]);
    write("wrong.toml", b"[[rule]]\nstep = []\n");
    std::fs::create_dir(directory.path().join("folder.toml")).unwrap();
    let cases = [
        ("gpt-9", "there is no model `gpt-9`: `loggia models` lists the models, as PROVIDER/MODEL"),
        ("", "there is no model ``"),
        ("Offline", "there is no model `Offline`"),
        ("scripted:", "`scripted:` needs a file after the colon, such as `scripted:"),
        ("scripted:none.toml", "none.toml: the script cannot be read: No such file"),
        ("scripted:folder.toml", "folder.toml: the script is not a file"),
        ("scripted:latin.toml", "latin.toml: the script is not UTF-8 text"),
        ("scripted:large.toml", "large.toml: the script is larger than 4 MiB"),
        ("scripted:wrong.toml", "wrong.toml:2:1: unknown field `step`"),
    ];
    for (name, expected) in cases {
        let checked = registry::check(name, directory.path(), &Providers::default());
        let Err(error) = checked else { panic!("{name} is open") };
        let found = error.to_string();
        assert!(found.starts_with(expected), "{name}: {found}");
    }
    let offline = registry::built_in(" offline ", directory.path()).unwrap().unwrap();
    assert_eq!(offline.name().0, "offline");
}
