//! Laws that hold for every log.

use std::collections::{BTreeMap, HashMap, HashSet};

use loggia_core::{Envelope, Event, Seq, Session, TaskId, TaskState, Tasks};
use loggia_wire::{
    A2aVersion, Dialect, End, Extension, Frame, FrameId, HistoryLength, Projector, TaskDetail,
    TaskStream, View,
};
use proptest::prelude::*;
use serde_json::Value;

use super::generate::log;
use super::transcript::project;

fn fresh(view: View) -> Projector {
    Projector::new("session-1".into(), view)
}

/// The event inside a frame, without the dialect's wrapper.
fn inner(frame: &Frame) -> (&str, &Value) {
    // Events of the legacy service are told apart by their members.
    for (member, kind) in
        [("createdAt", "task"), ("artifact", "artifact-update"), ("state", "status-update")]
    {
        if frame.body.get(member).is_some() {
            return (kind, &frame.body);
        }
    }
    match frame.body["kind"].as_str() {
        Some(kind) => (kind, &frame.body),
        None => {
            let (name, value) = frame.body.as_object().unwrap().iter().next().unwrap();
            (name.as_str(), value)
        }
    }
}

fn is_task(frame: &Frame) -> bool {
    inner(frame).0 == "task"
}

proptest! {
    // Every cut of every log in every view is folded from the start.
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// L7: after a cut anywhere, resuming by the id of the last frame gives every later frame once.
    #[test]
    fn resuming_is_exact(log in log()) {
        for view in View::all() {
            let whole = project(&log, view);
            let ids: Vec<FrameId> = whole.iter().map(|frame| frame.id).collect();
            prop_assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
            for (seen, after) in ids.iter().enumerate() {
                let mut projector = fresh(view);
                let rest: Vec<Frame> =
                    log.iter().flat_map(|envelope| projector.resume(envelope, *after)).collect();
                prop_assert_eq!(&rest, &whole[seen + 1..]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Folding with and without frames leaves a projector in the same state.
    #[test]
    fn folding_and_projecting_agree(log in log(), cut in 0usize..60) {
        for view in View::all() {
            let cut = cut.min(log.len());
            let mut folded = fresh(view);
            log[..cut].iter().for_each(|envelope| folded.fold(envelope));
            let mut projected = fresh(view);
            log[..cut].iter().for_each(|envelope| drop(projected.project(envelope)));
            prop_assert_eq!(opening_of_all(&folded), opening_of_all(&projected));
            for envelope in &log[cut..] {
                prop_assert_eq!(folded.project(envelope), projected.project(envelope));
            }
        }
    }

    /// A snapshot needs no frames.
    #[test]
    fn a_snapshot_needs_no_frames(log in log(), cut in 0usize..60, last in 0usize..4) {
        let lengths = [HistoryLength::All, HistoryLength::Last(last)];
        let cut = cut.min(log.len());
        for view in View::all() {
            let (mut learned, mut projected) = (fresh(view), fresh(view));
            for envelope in &log[..cut] {
                learned.fold_for_snapshot(envelope);
                projected.fold(envelope);
            }
            prop_assert_eq!(learned.head(), projected.head());
            prop_assert_eq!(learned.tasks(), projected.tasks());
            for (task, history) in learned.tasks().iter().zip(lengths.into_iter().cycle()) {
                let shown = TaskDetail { history, artifacts: true };
                let value = projected.snapshot(&task.id, shown).unwrap();
                prop_assert_eq!(learned.snapshot(&task.id, shown).unwrap(), value);
            }
        }
    }

    /// A stream that begins with a snapshot continues with exactly the frames after it.
    #[test]
    fn an_opening_is_a_position_in_the_stream(log in log(), cut in 0usize..60) {
        let cut = cut.min(log.len());
        for view in View::all() {
            let mut projector = fresh(view);
            log[..cut].iter().for_each(|envelope| projector.fold(envelope));
            let next: Vec<Frame> = project(&log, view)
                .into_iter()
                .filter(|frame| frame.id.seq > projector.head())
                .collect();
            for task in projector.tasks().iter() {
                let after = projector.opening(&task.id).unwrap().id;
                let mut again = fresh(view);
                let resumed: Vec<Frame> =
                    log.iter().flat_map(|envelope| again.resume(envelope, after)).collect();
                prop_assert_eq!(&resumed, &next);
            }
        }
    }

    /// The view of a task has the state that the session has.
    #[test]
    fn task_views_agree_with_the_session(log in log()) {
        let (mut session, mut tasks) = (Session::default(), Tasks::default());
        for envelope in &log {
            session.apply(envelope);
            tasks.apply(envelope);
            for view in tasks.iter() {
                prop_assert_eq!(Some(view.state), session.task_state(&view.id));
            }
        }
    }

    /// A client that only reads frames knows the same as one that polls.
    #[test]
    fn frames_add_up_to_the_snapshot(log in log()) {
        for view in with_coder() {
            let mut projector = fresh(view);
            let frames: Vec<Frame> =
                log.iter().flat_map(|envelope| projector.project(envelope)).collect();
            let mut client = Client::default();
            frames.iter().for_each(|frame| client.read(frame));
            for task in projector.tasks().iter() {
                let shown = projector.snapshot(&task.id, TaskDetail::default()).unwrap();
                prop_assert_eq!(&client.states[&task.id], &shown["status"]["state"]);
                if view.extension == Extension::Off && view != View::CODER {
                    let seen = client.artifacts.get(&task.id).cloned().unwrap_or_default();
                    prop_assert_eq!(seen, artifacts(&shown));
                }
            }
        }
    }

    /// Every stream begins with a task, every frame names its task, and streams end exactly where a task is
    /// over or waits for an answer.
    #[test]
    fn frames_are_well_formed(log in log()) {
        for view in View::all_of_a2a() {
            let mut begun: HashSet<TaskId> = HashSet::new();
            for frame in project(&log, view) {
                let (kind, event) = inner(&frame);
                if is_task(&frame) {
                    prop_assert_eq!(event["id"].as_str(), Some(frame.task.as_str()));
                    begun.insert(frame.task.clone());
                } else {
                    let name = if view.dialect == Dialect::Legacy { "id" } else { "taskId" };
                    prop_assert_eq!(event[name].as_str(), Some(frame.task.as_str()));
                    prop_assert!(begun.contains(&frame.task), "{kind} before the task");
                }
                if view.dialect != Dialect::Legacy {
                    prop_assert_eq!(&event["contextId"], "session-1");
                } else if kind != "artifact-update" {
                    prop_assert_eq!(&event["sessionId"], "session-1");
                    prop_assert_eq!(&event["state"], &event["status"]["state"]);
                }
                check_end(view, &frame, event)?;
            }
        }
    }

    /// The same for dialects that do not repeat the task: a stream ends exactly where the task is over or
    /// waits for an answer, and a client that only reads states knows the same as one that polls.
    #[test]
    fn events_are_well_formed(log in log()) {
        for view in [View::SDLC, View::CODER] {
            let mut projector = fresh(view);
            for envelope in &log {
                for frame in projector.project(envelope) {
                    let (state, named) = match view {
                        View::SDLC => (&frame.body["taskState"], &frame.body["taskId"]),
                        _ => (&frame.body["status"]["state"], &frame.body["taskId"]),
                    };
                    let status = !state.is_null();
                    if status && frame.body["kind"] != "task" {
                        prop_assert_eq!(named.as_str(), Some(frame.task.as_str()));
                        prop_assert_eq!(&frame.body["contextId"], "session-1");
                    }
                    if frame.body["kind"] == "status-update" {
                        prop_assert_eq!(&frame.body["final"], frame.ends.is_some());
                    }
                    let ends = ["completed", "failed", "canceled", "input-required"];
                    let ends = ends.iter().any(|name| state == name);
                    prop_assert!(frame.ends.is_none() || ends, "{}", frame.body);
                    if frame.body["kind"] == "state-change" {
                        prop_assert_eq!(frame.ends.is_some(), ends, "{}", frame.body);
                    }
                }
            }
        }
    }

    /// A client that only reads the documented events knows every task's state.
    #[test]
    fn state_changes_add_up(log in log()) {
        let mut projector = fresh(View::SDLC);
        let mut states: HashMap<TaskId, Value> = HashMap::new();
        for envelope in &log {
            for frame in projector.project(envelope) {
                if frame.body["kind"] == "state-change" {
                    states.insert(frame.task.clone(), frame.body["taskState"].clone());
                }
            }
        }
        for task in projector.tasks().iter() {
            let shown = projector.snapshot(&task.id, TaskDetail::default()).unwrap();
            prop_assert_eq!(states.get(&task.id), Some(&shown["taskState"]));
        }
    }

    /// At most one update of live output in 100 ms of the log's time for each call.
    #[test]
    fn live_output_is_paced(log in log()) {
        let view = View { dialect: Dialect::A2a03, extension: Extension::On, guest: false };
        let at: HashMap<u64, i64> =
            log.iter().map(|envelope| (envelope.seq.0, envelope.at.0)).collect();
        let ends: HashSet<u64> = log
            .iter()
            .filter(|envelope| matches!(envelope.event, Event::CallEnded { .. }))
            .map(|envelope| envelope.seq.0)
            .collect();
        let mut shown: HashMap<String, i64> = HashMap::new();
        for frame in project(&log, view) {
            let call = &frame.body["status"]["message"]["parts"][0]["data"];
            if call["live_content"].is_string() && !ends.contains(&frame.id.seq.0) {
                let now = at[&frame.id.seq.0];
                let before = shown.insert(call["tool_call_id"].to_string(), now);
                let pause = before.map(|before| now - before);
                prop_assert!(pause.is_none_or(|pause| !(0..100).contains(&pause)), "{pause:?}");
            }
        }
    }
}

fn with_coder() -> impl Iterator<Item = View> {
    View::all_of_a2a().chain([View::CODER])
}

fn opening_of_all(projector: &Projector) -> Vec<Option<Frame>> {
    projector.tasks().iter().map(|task| projector.opening(&task.id)).collect()
}

fn check_end(view: View, frame: &Frame, event: &Value) -> Result<(), TestCaseError> {
    let (kind, of_03) = (inner(frame).0, view.dialect.version() == A2aVersion::V03);
    if of_03 && ["status-update", "statusUpdate"].contains(&kind) {
        prop_assert_eq!(&event["final"], frame.ends.is_some());
    }
    let state = event["status"]["state"].as_str().unwrap_or_default().to_lowercase();
    let over =
        ["completed", "failed", "canceled", "cancelled"].iter().any(|name| state.ends_with(name));
    match frame.ends {
        Some(End::Terminal) => prop_assert!(over),
        Some(End::InputRequired) => {
            prop_assert!(state.replace('_', "-").ends_with("input-required"))
        }
        None => prop_assert!(!over || is_task(frame), "{state} and no end"),
    }
    Ok(())
}

/// A client that keeps everything it reads.
#[derive(Default)]
struct Client {
    states: HashMap<TaskId, Value>,
    artifacts: HashMap<TaskId, BTreeMap<String, String>>,
}

impl Client {
    fn read(&mut self, frame: &Frame) {
        let (kind, event) = inner(frame);
        match kind {
            "task" => {
                self.states.insert(frame.task.clone(), event["status"]["state"].clone());
                self.artifacts.insert(frame.task.clone(), artifacts(event));
            }
            "status-update" | "statusUpdate" => {
                self.states.insert(frame.task.clone(), event["status"]["state"].clone());
                // The last event of the legacy service has all artifacts.
                if event.get("artifacts").is_some() {
                    let known = self.artifacts.get(&frame.task).cloned().unwrap_or_default();
                    assert_eq!(known, artifacts(event));
                }
            }
            "artifact-update" | "artifactUpdate" => {
                let known = self.artifacts.entry(frame.task.clone()).or_default();
                let id = artifact_id(&event["artifact"]);
                let text = parts_text(&event["artifact"]["parts"]);
                let appends = event.get("append").unwrap_or(&event["artifact"]["append"]);
                if *appends == true {
                    // The official SDKs drop a chunk that appends to nothing.
                    known.get_mut(&id).expect("appends to something").push_str(&text);
                } else {
                    known.insert(id, text);
                }
            }
            other => panic!("unknown kind {other}"),
        }
    }
}

fn artifacts(task: &Value) -> BTreeMap<String, String> {
    let items = task["artifacts"].as_array().unwrap();
    // The legacy service's artifact for a task without artifacts.
    let items = items.iter().filter(|item| item["name"] != "status");
    items.map(|item| (artifact_id(item), parts_text(&item["parts"]))).collect()
}

/// What identifies the chunks of one artifact: an id, or a number.
fn artifact_id(artifact: &Value) -> String {
    artifact["artifactId"].as_str().map_or_else(|| artifact["index"].to_string(), str::to_owned)
}

fn parts_text(parts: &Value) -> String {
    parts.as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect()
}

#[test]
fn a_clock_that_goes_back_does_not_stop_updates() {
    let mut script = super::script::Script::with_mode(loggia_core::Mode::All);
    script.prompt("Build it");
    let call = script.shell("make");
    script.output(&call, "one\n").wait(-60_000).output(&call, "two\n");
    let view = View { dialect: Dialect::A2a03, extension: Extension::On, guest: false };
    let frames = project(&script.log, view);
    let last = &frames.last().unwrap().body["status"]["message"]["parts"][0]["data"];
    assert_eq!(last["live_content"], "one\ntwo\n");
}

/// A client of one task that reads one stream for each request: the streams of its prompt and of its
/// answers, in order, and where the last one ended.
fn streams(log: &[Envelope], view: View, task: &TaskId) -> Option<(Vec<Vec<Frame>>, FrameId)> {
    let whole = project(log, view);
    let (mut projector, mut starts) = (fresh(view), Vec::new());
    for envelope in log {
        let running = projector.tasks().running().cloned();
        projector.fold(envelope);
        let stream = TaskStream::of_message(task.clone());
        match &envelope.event {
            Event::PromptAccepted { prompt, task: of, .. } if of == task => {
                starts.push((projector.prompted_after(prompt)?, stream));
            }
            Event::ApprovalAnswered { call, .. } if running.as_ref() == Some(task) => {
                let answered = projector.answered(&loggia_core::Question::Call(call.clone()))?;
                starts.push((answered.after, stream.continued(answered.seq)));
            }
            _ => {}
        }
    }
    let mut end = FrameId::default();
    let read = starts.into_iter().map(|(after, mut stream)| {
        let ahead = whole.iter().filter(|frame| frame.id > after);
        let read: Vec<Frame> =
            ahead.filter(|frame| stream.takes(&frame.task, frame.mark())).cloned().collect();
        end = read.last().map_or(end, |last| last.id.max(end));
        read
    });
    let read = read.collect();
    Some((read, end))
}

/// Clients of S1 and S2 read one stream for each request. Together the streams have every update exactly
/// once, except for questions that were answered in the meantime.
fn check_streams(log: &[Envelope], view: View, task: &TaskId) {
    let Some((read, end)) = streams(log, view, task) else { return };
    let seen: Vec<FrameId> = read.concat().iter().map(|frame| frame.id).collect();
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(once.len(), seen.len(), "{view:?}: a frame is in two streams");
    for frame in project(log, view).iter().filter(|frame| frame.task == *task && frame.id <= end) {
        let overtaken = frame.ends == Some(End::InputRequired);
        assert!(seen.contains(&frame.id) || overtaken, "{view:?}: in no stream: {}", frame.body);
    }
}

#[test]
fn the_stream_of_an_answer_continues_where_the_last_one_ended() {
    let mut parallel = super::script::Script::new();
    let task = parallel.prompt("Write two files");
    let calls = [parallel.write("a.txt", "a\n"), parallel.write("b.txt", "b\n")];
    for call in &calls {
        parallel.answer("ann", call, "proceed_once", None).unwrap();
        parallel.succeed(call, super::script::written("a.txt", "a\n"));
    }
    parallel.finish();
    for view in View::all() {
        check_streams(&super::logs::two_files(), view, &first_task(&super::logs::two_files()));
        check_streams(&parallel.log, view, &task);
    }
}

fn first_task(log: &[Envelope]) -> TaskId {
    let accepted = log.iter().find_map(|envelope| match &envelope.event {
        Event::PromptAccepted { task, .. } => Some(task.clone()),
        _ => None,
    });
    accepted.expect("a prompt")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The same for every log: of tasks with one message, whose client gives all answers.
    #[test]
    fn every_update_is_in_one_stream(log in log()) {
        let mut prompts: HashMap<TaskId, usize> = HashMap::new();
        for envelope in &log {
            if let Event::PromptAccepted { task, .. } | Event::TaskOpened { task, .. } = &envelope.event {
                *prompts.entry(task.clone()).or_default() += 1;
            }
        }
        for view in View::all() {
            for task in prompts.iter().filter(|(_, count)| **count == 1).map(|(task, _)| task) {
                check_streams(&log, view, task);
            }
        }
    }

    /// Clients keep one task for each stream. Wherever a stream begins and whatever others send to its task,
    /// at most its first frame is a whole task.
    #[test]
    fn a_stream_has_one_task_and_it_comes_first(log in log()) {
        for view in View::all() {
            let whole = project(&log, view);
            let tasks: HashSet<&TaskId> = whole.iter().map(|frame| &frame.task).collect();
            for task in tasks {
                let from_anywhere = whole.iter().map(|frame| frame.id);
                let begins = from_anywhere.chain([FrameId::default()]).flat_map(|after| {
                    let message = TaskStream::of_message(task.clone());
                    let watch = TaskStream::of_subscription(task.clone());
                    let resumed = watch.clone().resumed(Seq(after.seq.0 + 3));
                    [message.clone(), message.continued(after.seq), watch, resumed].map(|it| (after, it))
                });
                for (after, mut stream) in begins {
                    let ahead = whole.iter().filter(|frame| frame.id > after);
                    let read: Vec<&Frame> =
                        ahead.filter(|frame| stream.takes(&frame.task, frame.mark())).collect();
                    prop_assert!(read.iter().skip(1).all(|frame| !frame.whole));
                    prop_assert!(read.iter().all(|frame| frame.whole == is_whole(view, frame)));
                }
            }
        }
    }
}

/// By its body.
fn is_whole(view: View, frame: &Frame) -> bool {
    view != View::SDLC && is_task(frame)
}

/// The stream of a prompt begins with its task, also if the task was running before.
#[test]
fn the_stream_of_a_prompt_begins_with_its_task() {
    let log = super::logs::queued();
    for view in View::all_of_a2a() {
        let mut projector = fresh(view);
        log.iter().for_each(|envelope| projector.fold(envelope));
        let whole = project(&log, view);
        for prompt in ["prompt-1", "prompt-2", "prompt-3"] {
            let after = projector.prompted_after(&prompt.into()).unwrap();
            let first = whole.iter().find(|frame| frame.id > after).unwrap();
            assert!(is_task(first));
        }
    }
}

/// The task at the beginning of an answer's stream never looks like its last frame, in any dialect.
#[test]
fn a_continued_stream_does_not_begin_with_its_end() {
    let log = super::logs::two_files();
    for view in View::all() {
        let mut projector = fresh(view);
        for envelope in &log {
            projector.fold(envelope);
            let Some(task) = projector.tasks().iter().next() else { continue };
            let (beginning, opening) =
                (projector.beginning(&task.id).unwrap(), projector.opening(&task.id).unwrap());
            assert_eq!(beginning.ends, None);
            assert_ne!(beginning.body["final"], true, "{view:?}");
            assert_eq!(beginning.body["id"], opening.body["id"]);
        }
    }
}

#[test]
fn a_state_that_ends_a_task_ends_a_stream_that_begins_there() {
    let log: Vec<Envelope> = super::logs::two_files();
    for view in View::all() {
        let mut projector = fresh(view);
        for envelope in &log {
            projector.fold(envelope);
            let Some(task) = projector.tasks().iter().next() else { continue };
            let ends = match task.state {
                TaskState::Submitted | TaskState::Working => None,
                TaskState::InputRequired => Some(End::InputRequired),
                TaskState::Completed
                | TaskState::Failed
                | TaskState::Canceled
                | TaskState::Rejected => Some(End::Terminal),
            };
            let opening = projector.opening(&task.id).unwrap();
            assert_eq!(opening.ends, ends);
            assert_eq!(opening.id.seq, projector.head());
        }
    }
}
