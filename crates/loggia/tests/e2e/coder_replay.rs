//! What clients of the shipped SDLC agent server sent, sent again: the answers have the shapes that
//! were recorded. Texts and ids are not compared; members and enumerated values are. Where they
//! differ, they differ on purpose, and the tables below say why.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use reqwest::Method;
use serde_json::Value;

use crate::coder::{Coder, Stream, is_text, record, short};

/// Members that are not sent. A `*` stands for whatever follows.
const LEFT_OUT: &[(&str, &str)] = &[
    ("result.metadata.__persistedState*", "that server's own stored state"),
    ("result.metadata._contextId", "that server's own stored state"),
    ("result.metadata", "a task's metadata was nothing but that state"),
    ("*.data.tool.description", "a tool's description and schemas stand in its metadata route"),
    ("*.data.tool.schema", "as above"),
    ("*.data.tool.parameterSchema", "as above"),
    ("*.data.tool.isOutputMarkdown", "as above"),
    ("*.data.tool.canUpdateOutput", "as above"),
    ("*.data.request.args.*", "a tool's parameters have the tool's own names"),
    ("*.data.response.display*", "said once, in resultDisplay"),
    ("*.data.response.resultDisplay.diffStat*", "can be counted in the diff"),
    ("result.artifacts[]*", "live output is not kept beside the record of its call"),
    (
        "result.history[].parts[].data*",
        "a thought is told as it comes; what is kept is what was said",
    ),
    ("result.history[].parts[].kind=\"data\"", "as above"),
    ("result.status.message.*", "a poll says what is asked, and not the last chunk of a text"),
    ("result.status.message", "as above"),
    ("commands[].subCommands[]*", "which commands have others below them is ours to say"),
    ("[].availableTools[].parametersJsonSchema*", "it is called parameterSchema in the document"),
    ("metadata.availableTools[].parametersJsonSchema*", "as above"),
];

/// Events that come here and not there, or there and not here, by exchange.
const EVENTS: &[(&str, usize, &str, &str)] = &[
    ("deny", 1, "+text-content", "the model is told of the refusal and goes on"),
    ("deny", 1, "+state-change working", "as above"),
    (
        "two",
        0,
        "-tool-call-update run_shell_command scheduled",
        "a stream ends with the first question; the second call is told with its own",
    ),
    (
        "two",
        1,
        "+tool-call-confirmation write_file awaiting_approval",
        "what was answered is told, as the newer build does",
    ),
    (
        "two",
        1,
        "-tool-call-update write_file success",
        "the stream ends with the question that is still open; the next one goes on from there",
    ),
    ("two", 2, "+tool-call-confirmation run_shell_command awaiting_approval", "as above"),
    (
        "two",
        2,
        "+tool-call-update write_file success",
        "calls run side by side: the first may end before the second is answered, or after",
    ),
    ("two", 2, "-tool-call-update write_file success", "as above"),
];

/// Exchanges that end differently on purpose.
const EXCHANGES: &[(&str, usize, &str)] = &[
    ("settingsshape", 0, "settings under the extension's name turn the extension on"),
    ("settingsshape", 1, "a message that says nothing of that server is plain A2A"),
    ("settingsshape", 3, "a workspace outside the directories that are served is refused"),
    ("cancelrun", 2, "a cancelled task can be gone on with; nothing of it is lost"),
    ("rest", 6, "there are no extensions here to list"),
    ("rest", 9, "there are no checkpoints here to list"),
];

struct Exchange {
    sent: String,
    body: Option<Value>,
    status: Option<u64>,
    events: Vec<Value>,
    answer: Option<Value>,
    /// Nothing else was sent before it was over.
    alone: bool,
}

fn recorded(name: &str) -> Vec<Exchange> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recorded/sdlc");
    let text = std::fs::read_to_string(folder.join(format!("{name}.jsonl"))).unwrap();
    let mut exchanges: Vec<Exchange> = Vec::new();
    let mut of_client: HashMap<String, usize> = HashMap::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let client = line["client"].as_str().unwrap().to_owned();
        if let Some(sent) = line["sent"].as_str() {
            of_client.insert(client, exchanges.len());
            exchanges.push(Exchange {
                sent: sent.to_owned(),
                body: line.get("body").cloned(),
                status: None,
                events: Vec::new(),
                answer: None,
                alone: false,
            });
            continue;
        }
        let mut at = of_client[&client];
        if let Some(event) = line.get("event") {
            let named = exchanges.iter().position(|exchange| {
                exchange.body.as_ref().is_some_and(|body| body["id"] == event["id"])
            });
            at = named.unwrap_or(at);
            exchanges[at].events.push(event.clone());
        } else if let Some(answer) = line.get("answer") {
            exchanges[at].answer = Some(answer.clone());
        } else if let Some(status) = line["status"].as_u64() {
            exchanges[at].status = Some(status);
        } else if line["end"] == true && at + 1 == exchanges.len() {
            exchanges[at].alone = true;
        }
    }
    exchanges
}

/// What the recording calls something, and what it is called here.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn learn(&mut self, recorded: &Value, here: &Value) {
        if let (Some(recorded), Some(here)) = (recorded.as_str(), here.as_str()) {
            self.0.insert(recorded.to_owned(), here.to_owned());
        }
    }

    /// Tasks and contexts by the first event that names them, calls by their tool.
    fn learn_stream(&mut self, recorded: &[Value], here: &[Value]) {
        for member in ["id", "taskId", "contextId"] {
            let first = |events: &[Value]| {
                events.iter().map(|event| event["result"][member].clone()).find(Value::is_string)
            };
            if let (Some(recorded), Some(here)) = (first(recorded), first(here)) {
                self.learn(&recorded, &here);
            }
        }
        let calls = |events: &[Value]| -> Vec<(Value, Value)> {
            let requests = events.iter().map(|event| &record(event)["request"]);
            let named = requests.filter(|request| request.is_object());
            named.map(|request| (request["name"].clone(), request["callId"].clone())).collect()
        };
        let ours = calls(here);
        for (tool, call) in calls(recorded) {
            if let Some((_, here)) = ours.iter().find(|(name, _)| *name == tool) {
                self.learn(&call, here);
            }
        }
    }

    fn apply(&self, value: &Value, workspace: &str) -> Value {
        match value {
            Value::String(text) => {
                let named = self.0.get(text).cloned();
                named.unwrap_or_else(|| text.replace("$WS", workspace)).into()
            }
            Value::Array(items) => items.iter().map(|it| self.apply(it, workspace)).collect(),
            Value::Object(map) => map
                .iter()
                .map(|(name, value)| (name.clone(), self.apply(value, workspace)))
                .collect(),
            other => other.clone(),
        }
    }
}

enum Got {
    Stream(Stream),
    Answer(u64, Value),
}

async fn replay(name: &str) {
    let coder = Coder::start(&[]);
    let workspace = coder.workspace();
    let exchanges = recorded(name);
    let (mut names, mut got) = (Names::default(), Vec::new());
    for exchange in &exchanges {
        let body = exchange.body.as_ref().map(|body| names.apply(body, &workspace));
        let (method, path) = exchange.sent.split_once(' ').unwrap();
        let path = names.0.iter().fold(path.to_owned(), |path, (from, to)| path.replace(from, to));
        let streams = ["message/stream", "tasks/resubscribe"];
        let called = body.as_ref().map(|body| body["method"].as_str().unwrap_or_default());
        if called.is_some_and(|called| streams.contains(&called)) {
            let stream = Stream::open(&coder.served, body.unwrap());
            let seen = match exchange.alone {
                true => stream.end().await,
                false => stream.until(is_text).await,
            };
            names.learn_stream(&exchange.events, &seen);
            got.push(Got::Stream(stream));
            continue;
        }
        let request = coder.served.request(Method::from_bytes(method.as_bytes()).unwrap(), &path);
        let request = match &body {
            Some(body) => request.json(body),
            None => request,
        };
        let response = request.send().await.unwrap();
        let status = u64::from(response.status().as_u16());
        let answer = serde_json::from_str(&response.text().await.unwrap()).unwrap_or_default();
        names.learn(exchange.answer.as_ref().unwrap_or(&Value::Null), &answer);
        got.push(Got::Answer(status, answer));
    }
    let mut complaints = Vec::new();
    for (at, (exchange, got)) in exchanges.iter().zip(got).enumerate() {
        let on_purpose = EXCHANGES.iter().any(|(of, index, _)| *of == name && *index == at);
        let told = match got {
            Got::Stream(stream) => compare_streams(name, at, &exchange.events, &stream.end().await),
            Got::Answer(status, answer) => {
                let recorded = exchange.answer.clone().unwrap_or_default();
                let mut told = compare(&recorded, &[&answer]);
                if exchange.status != Some(status) {
                    told.push(format!("status {status}, recorded {:?}", exchange.status));
                }
                told
            }
        };
        match (on_purpose, told.is_empty()) {
            (false, false) => {
                complaints.push(format!("{name} {at} {}: {}", exchange.sent, told.join("; ")));
            }
            // A difference that is none any more does not stay in the table.
            (true, true) => complaints.push(format!("{name} {at} is as recorded")),
            (false, true) | (true, false) => {}
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// The kinds of events of a stream, in order; what is told more than once counts once.
fn course(events: &[Value]) -> Vec<String> {
    let mut course: Vec<String> = Vec::new();
    for event in events {
        // The older build says validating where the newer one says scheduled.
        let label = short(event).replace("validating", "scheduled");
        let repeats = label == "state-change working" || label.starts_with("tool-call");
        let known = if repeats { course.contains(&label) } else { course.last() == Some(&label) };
        if !known {
            course.push(label);
        }
    }
    course
}

fn compare_streams(name: &str, at: usize, recorded: &[Value], here: &[Value]) -> Vec<String> {
    let allowed = |label: &str| {
        EVENTS.iter().any(|(of, index, event, _)| *of == name && *index == at && *event == label)
    };
    let (expected, course_here) = (course(recorded), course(here));
    let expected: Vec<&String> =
        expected.iter().filter(|label| !allowed(&format!("-{label}"))).collect();
    let actual: Vec<&String> =
        course_here.iter().filter(|label| !allowed(&format!("+{label}"))).collect();
    let mut told = Vec::new();
    if expected != actual {
        told.push(format!("events {actual:?}, recorded {expected:?}"));
    }
    for event in recorded {
        let label = short(event).replace("validating", "scheduled");
        let same: Vec<&Value> = here.iter().filter(|event| short(event) == label).collect();
        if !same.is_empty() {
            told.extend(compare(event, &same));
        }
    }
    told.sort();
    told.dedup();
    told
}

/// What is in the recorded value and in none of these.
fn compare(recorded: &Value, here: &[&Value]) -> Vec<String> {
    let mut ours = BTreeSet::new();
    here.iter().for_each(|value| shape(value, "", &mut ours));
    let mut theirs = BTreeSet::new();
    shape(recorded, "", &mut theirs);
    let left_out = |path: &str| LEFT_OUT.iter().any(|(pattern, _)| fits(pattern, path));
    theirs
        .difference(&ours)
        .filter(|path| !left_out(path))
        .map(|path| format!("no {path}"))
        .collect()
}

/// Members by their path, and the values of those that are enumerated.
fn shape(value: &Value, at: &str, found: &mut BTreeSet<String>) {
    const ENUMERATED: [&str; 7] = ["kind", "role", "type", "final", "lastChunk", "code", "outcome"];
    match value {
        Value::Object(map) => {
            for (name, value) in map {
                let path = if at.is_empty() { name.clone() } else { format!("{at}.{name}") };
                found.insert(path.clone());
                if ENUMERATED.contains(&name.as_str()) && !value.is_object() {
                    found.insert(format!("{path}={value}"));
                }
                shape(value, &path, found);
            }
        }
        Value::Array(items) => {
            items.iter().for_each(|item| shape(item, &format!("{at}[]"), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn fits(pattern: &str, path: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == path,
        Some(("", rest)) => (0..=path.len())
            .filter(|at| path.is_char_boundary(*at))
            .any(|at| fits(rest, &path[at..])),
        Some((front, rest)) => {
            path.strip_prefix(front).is_some_and(|path| fits(&format!("*{rest}"), path))
        }
    }
}

macro_rules! replayed {
    ($($name:ident),* $(,)?) => {
        $(#[tokio::test]
        async fn $name() {
            replay(stringify!($name)).await;
        })*
    };
}

replayed!(text, approve, deny, shell, modify, two, send, rest, settingsshape, cancelrun, resub);

/// The tables speak of exchanges that there are.
#[test]
fn the_tables_name_what_was_recorded() {
    let known = |name: &str, at: usize| recorded(name).len() > at;
    assert!(EVENTS.iter().all(|(name, at, _, _)| known(name, *at)));
    assert!(EXCHANGES.iter().all(|(name, at, _)| known(name, *at)));
    assert!(fits("*.data.tool.schema", "result.status.message.parts[].data.tool.schema"));
    assert!(!fits("*.data.tool.schema", "result.status.message.parts[].data.tool.schemas"));
}
