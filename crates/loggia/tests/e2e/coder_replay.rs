//! Replays recorded requests of SDLC clients: the answers have the recorded shapes. Allowed
//! differences:
//!
//! - ids, times and texts: members and enumerated values are compared (`ENUMERATED`), and statuses;
//! - members that are here and were not there;
//! - in which of several events of one kind a member stands: together they must have them all;
//! - repeated events count once: an event equal to the one before it, and a call's status and the
//!   task's working state at any place;
//! - `validating`, which the newer build of that server calls `scheduled`;
//! - the entries of the tables below, each with its reason. Of `LEFT_OUT` and `EXCHANGES`, an entry that
//!   is no longer needed is an error. Those of `EVENTS` for calls that run side by side are both
//!   ways of one race, so not all of them are needed each time.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use reqwest::Method;
use serde_json::Value;

use crate::coder::{Coder, Stream, is_text, kind, record, short};

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
];

/// Events that come here and not there (`+`), or there and not here (`-`), by exchange. Calls go by
/// the order in which they ask.
const EVENTS: &[(&str, usize, &str, &str)] = &[
    ("deny", 1, "+text-content", "the model is told of the refusal and goes on"),
    ("deny", 1, "+state-change working", "as above"),
    (
        "two",
        0,
        "-tool-call-update call-2 scheduled",
        "a stream ends with the first question; the second call is told with its own",
    ),
    ("two", 1, "+tool-call-update call-2 scheduled", "as above"),
    (
        "two",
        1,
        "+tool-call-confirmation call-1 awaiting_approval",
        "what was answered is told, as the newer build does",
    ),
    ("two", 2, "+tool-call-confirmation call-2 awaiting_approval", "as above"),
    (
        "two",
        1,
        "+tool-call-confirmation call-2 awaiting_approval",
        "the second question is told where it was asked, and again behind the answer to the first",
    ),
    ("two", 1, "-tool-call-confirmation call-2 awaiting_approval", "as above"),
    (
        "two",
        1,
        "-tool-call-update call-1 success",
        "calls run side by side: the first may end before the second is answered, or after",
    ),
    ("two", 1, "+tool-call-update call-1 success", "as above"),
    ("two", 1, "+state-change working", "as above"),
    ("two", 1, "+artifact", "as above"),
    ("two", 2, "+tool-call-update call-1 success", "as above"),
    ("two", 2, "-tool-call-update call-1 success", "as above"),
    ("two", 2, "+artifact", "as above"),
    ("two", 2, "-artifact", "as above"),
];

/// Exchanges that end differently on purpose.
const EXCHANGES: &[(&str, usize, &str)] = &[
    ("settingsshape", 0, "settings under the extension's name turn the extension on"),
    ("settingsshape", 1, "a message that says nothing of that server is plain A2A"),
    ("settingsshape", 3, "a workspace outside the directories that are served is refused"),
    ("cancelrun", 2, "a cancelled task can be continued; nothing of it is lost"),
    ("rest", 6, "there are no extensions here to list"),
    ("rest", 9, "there are no checkpoints here to list"),
];

struct Exchange {
    sent: String,
    body: Option<Value>,
    status: Option<u64>,
    events: Vec<Value>,
    answer: Option<Value>,
    /// No other request was sent before it ended.
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

/// Recorded names and their counterparts here.
#[derive(Default)]
struct Names(HashMap<String, String>);

impl Names {
    fn learn(&mut self, recorded: &Value, here: &Value) {
        if let (Some(recorded), Some(here)) = (recorded.as_str(), here.as_str()) {
            self.0.insert(recorded.to_owned(), here.to_owned());
        }
    }

    /// Matches tasks and contexts by the first event that names them, calls by the order of their
    /// questions.
    fn learn_stream(&mut self, recorded: &[Value], here: &[Value]) {
        for member in ["id", "taskId", "contextId"] {
            let first = |events: &[Value]| {
                events.iter().map(|event| event["result"][member].clone()).find(Value::is_string)
            };
            if let (Some(recorded), Some(here)) = (first(recorded), first(here)) {
                self.learn(&recorded, &here);
            }
        }
    }

    fn learn_calls(&mut self, recorded: &[Value], here: &[Value]) {
        for (recorded, here) in questions(recorded).iter().zip(questions(here)) {
            self.learn(&recorded["callId"], &here["callId"]);
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

/// The asking calls, in the order of their first question.
fn questions(events: &[Value]) -> Vec<&Value> {
    let mut asked: Vec<&Value> = Vec::new();
    for event in events.iter().filter(|event| kind(event) == "tool-call-confirmation") {
        let request = &record(event)["request"];
        if !asked.iter().any(|known| known["callId"] == request["callId"]) {
            asked.push(request);
        }
    }
    asked
}

enum Got {
    Stream(Stream),
    Answer(u64, Value),
}

/// The used entries of `LEFT_OUT`.
type Needed = BTreeSet<usize>;

async fn replay(name: &str) -> Needed {
    let coder = Coder::start(&[]);
    let workspace = coder.workspace();
    let exchanges = recorded(name);
    let (mut names, mut got) = (Names::default(), Vec::new());
    let all_recorded: Vec<Value> =
        exchanges.iter().flat_map(|exchange| exchange.events.clone()).collect();
    let mut all_here: Vec<Value> = Vec::new();
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
            all_here.extend(seen);
            names.learn_calls(&all_recorded, &all_here);
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
    let (mut complaints, mut needed) = (Vec::new(), Needed::new());
    for (at, (exchange, got)) in exchanges.iter().zip(got).enumerate() {
        let on_purpose = EXCHANGES.iter().any(|(of, index, _)| *of == name && *index == at);
        let told = match got {
            Got::Stream(stream) => {
                let mut told = shapes_of(&exchange.events, &all_here, &mut needed);
                let theirs = course(&exchange.events, &all_recorded);
                let ours = course(&stream.end().await, &all_here);
                told.extend(compare_courses(name, at, &theirs, &ours));
                told
            }
            Got::Answer(status, answer) => {
                let recorded = exchange.answer.clone().unwrap_or_default();
                let mut told = compare(&recorded, &[&answer], &mut needed);
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
            // A difference that no longer exists must be removed from the table.
            (true, true) => complaints.push(format!("{name} {at} is as recorded")),
            (false, true) | (true, false) => {}
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    needed
}

/// A short form of an event; the older build says validating where the newer one says scheduled.
fn label(event: &Value) -> String {
    short(event).replace("validating", "scheduled")
}

/// The event kinds of a stream in order, without repetitions. Calls are numbered by the order of
/// their questions in the whole recording, because calls of one reply are proposed concurrently.
fn course(events: &[Value], all: &[Value]) -> Vec<String> {
    let questions = questions(all);
    let tools: Vec<&str> =
        questions.iter().filter_map(|request| request["name"].as_str()).collect();
    let mut course: Vec<String> = Vec::new();
    for event in events {
        let mut label = label(event);
        for (number, tool) in (1..).zip(&tools) {
            label = label.replace(tool, &format!("call-{number}"));
        }
        let repeats = label == "state-change working" || label.starts_with("tool-call");
        let known = if repeats { course.contains(&label) } else { course.last() == Some(&label) };
        if !known {
            course.push(label);
        }
    }
    course
}

fn compare_courses(name: &str, at: usize, recorded: &[String], here: &[String]) -> Option<String> {
    let allowed = |label: &str| {
        EVENTS.iter().any(|(of, index, event, _)| *of == name && *index == at && *event == label)
    };
    let expected: Vec<&String> =
        recorded.iter().filter(|label| !allowed(&format!("-{label}"))).collect();
    let actual: Vec<&String> = here.iter().filter(|label| !allowed(&format!("+{label}"))).collect();
    (expected != actual).then(|| format!("events {actual:?}, recorded {expected:?}"))
}

/// Members of the recorded events that ours of the same kind lack.
fn shapes_of(recorded: &[Value], here: &[Value], needed: &mut Needed) -> Vec<String> {
    let mut told = Vec::new();
    for event in recorded {
        let wanted = label(event);
        let same: Vec<&Value> = here.iter().filter(|event| label(event) == wanted).collect();
        if !same.is_empty() {
            told.extend(compare(event, &same, needed));
        }
    }
    told.sort();
    told.dedup();
    told
}

/// Members of the recorded value that none of these have.
fn compare(recorded: &Value, here: &[&Value], needed: &mut Needed) -> Vec<String> {
    let mut ours = BTreeSet::new();
    here.iter().for_each(|value| shape(value, "", &mut ours));
    let mut theirs = BTreeSet::new();
    shape(recorded, "", &mut theirs);
    let mut missing = Vec::new();
    for path in theirs.difference(&ours) {
        match LEFT_OUT.iter().position(|(pattern, _)| fits(pattern, path)) {
            Some(entry) => drop(needed.insert(entry)),
            None => missing.push(format!("no {path}")),
        }
    }
    missing
}

/// The paths of all members, and the values of enumerated ones.
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
        const RECORDED: &[&str] = &[$(stringify!($name)),*];

        $(#[tokio::test]
        async fn $name() {
            replay(stringify!($name)).await;
        })*
    };
}

replayed!(text, approve, deny, shell, modify, two, send, rest, settingsshape, cancelrun, resub);

/// Every omitted member is really missing.
#[tokio::test]
async fn nothing_is_left_out_that_is_there() {
    let mut needed = Needed::new();
    for name in RECORDED {
        needed.extend(replay(name).await);
    }
    let all = LEFT_OUT.iter().enumerate();
    let idle: Vec<&str> =
        all.filter(|(entry, _)| !needed.contains(entry)).map(|(_, (path, _))| *path).collect();
    assert!(idle.is_empty(), "not needed any more: {idle:?}");
}

/// The tables refer to recorded exchanges.
#[test]
fn the_tables_name_what_was_recorded() {
    let known = |name: &str, at: usize| recorded(name).len() > at;
    assert!(EVENTS.iter().all(|(name, at, _, _)| known(name, *at)));
    assert!(EXCHANGES.iter().all(|(name, at, _)| known(name, *at)));
    assert!(fits("*.data.tool.schema", "result.status.message.parts[].data.tool.schema"));
    assert!(!fits("*.data.tool.schema", "result.status.message.parts[].data.tool.schemas"));
}
