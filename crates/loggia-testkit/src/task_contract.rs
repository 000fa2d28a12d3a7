//! The part of the store contract about the index of tasks.

use std::sync::Arc;

use loggia_core::{Millis, SessionId, TaskId, TaskState};
use loggia_session::{ListedTask, Store, TaskMark, TaskPage, TaskPosition, TaskQuery};

use crate::store_contract::{acquire, mark, step, texts};

const STATES: [TaskState; 7] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::Rejected,
];

fn everything() -> TaskQuery {
    TaskQuery { limit: 100, ..TaskQuery::default() }
}

fn names(page: &TaskPage) -> Vec<&str> {
    page.tasks.iter().map(|listed| listed.position.task.as_str()).collect()
}

async fn write(store: &dyn Store, session: &str, marks: Vec<TaskMark>) {
    let session = SessionId::from(session);
    let lease = acquire(store, &session).await;
    let head = store.head(&session).await.unwrap().unwrap();
    let mut append = step(texts(head.0 + 1, 1));
    append.tasks = marks;
    store.append(&lease, append).await.unwrap();
}

pub async fn a_task_is_listed_as_in_its_last_mark(store: Arc<dyn Store>) {
    let of_ann = |task, updated, state| TaskMark {
        principal: Some("ann".into()),
        state,
        ..mark(task, updated)
    };
    write(&*store, "one", vec![of_ann("a", 10, TaskState::Submitted), mark("b", 11)]).await;
    write(&*store, "one", vec![of_ann("a", 12, TaskState::Completed)]).await;
    write(&*store, "one", Vec::new()).await;
    let position =
        |task, updated| TaskPosition { updated: Millis(updated), task: TaskId::from(task) };
    let listed = |position, state| ListedTask { position, session: SessionId::from("one"), state };
    let expected = TaskPage {
        tasks: vec![
            listed(position("a", 12), TaskState::Completed),
            listed(position("b", 11), TaskState::Working),
        ],
        total: 2,
        more: false,
    };
    assert_eq!(store.tasks(everything()).await, Ok(expected));
}

pub async fn a_refused_step_marks_nothing(store: Arc<dyn Store>) {
    write(&*store, "one", vec![mark("a", 10)]).await;
    let lease = acquire(&*store, &SessionId::from("one")).await;
    let mut refused = step(texts(9, 1));
    refused.tasks = vec![mark("a", 99), mark("b", 99)];
    assert!(store.append(&lease, refused).await.is_err());
    let page = store.tasks(everything()).await.unwrap();
    assert_eq!((names(&page), page.tasks[0].position.updated), (vec!["a"], Millis(10)));
}

pub async fn a_foreign_mark_does_not_move_a_task(store: Arc<dyn Store>) {
    write(&*store, "first", vec![mark("task", 10)]).await;
    write(&*store, "second", vec![TaskMark { state: TaskState::Failed, ..mark("task", 20) }]).await;
    let page = store.tasks(everything()).await.unwrap();
    assert_eq!(page.tasks.len(), 1);
    assert_eq!(page.tasks[0].session, SessionId::from("first"));
    assert_eq!(page.tasks[0].state, TaskState::Working);
    let lease = acquire(&*store, &SessionId::from("first")).await;
    store.delete(lease).await.unwrap();
    assert_eq!(store.tasks(everything()).await, Ok(TaskPage::default()));
}

/// For every filter and page size, the result equals a plain search over all marks.
pub async fn every_query_of_tasks_equals_a_plain_search(store: Arc<dyn Store>) {
    let principals = [None, Some("ann"), Some("bob")];
    let mut known: Vec<(SessionId, TaskMark)> = Vec::new();
    for number in 0..60_usize {
        let (session, state) = (number % 5, STATES[number * 7 % 6]);
        let written = TaskMark {
            state,
            principal: principals[session % 3].map(str::to_owned),
            // Several at the same time are ordered by id.
            ..mark(&format!("task {}", number * 37 % 60), (number / 4) as i64)
        };
        let session = format!("session {session}");
        write(&*store, &session, vec![written.clone()]).await;
        known.push((SessionId::new(session), written));
    }
    for session in [None, Some(SessionId::from("session 1")), Some(SessionId::from("nobody's"))] {
        for principal in [None, Some("ann"), Some("bob"), Some("eve")] {
            for state in [None, Some(TaskState::Completed), Some(TaskState::Working)] {
                for (since, limit) in [(None, 7), (Some(Millis(5)), 1), (Some(Millis(99)), 3)] {
                    let query = TaskQuery {
                        session: session.clone(),
                        principal: principal.map(str::to_owned),
                        state,
                        since,
                        after: None,
                        limit,
                    };
                    assert_eq!(walk(&*store, query.clone()).await, plain(&known, &query));
                }
            }
        }
    }
}

fn plain(known: &[(SessionId, TaskMark)], query: &TaskQuery) -> Vec<TaskPosition> {
    let admitted = known.iter().filter(|(session, mark)| {
        query.session.as_ref().is_none_or(|wanted| wanted == session)
            && (query.principal.is_none() || query.principal == mark.principal)
            && query.state.is_none_or(|state| state == mark.state)
            && query.since.is_none_or(|since| mark.updated >= since)
    });
    let position =
        |mark: &TaskMark| TaskPosition { updated: mark.updated, task: mark.task.clone() };
    let mut positions: Vec<TaskPosition> = admitted.map(|(_, mark)| position(mark)).collect();
    positions.sort_by(|a, b| b.cmp(a));
    positions
}

/// Reads all pages, and checks that each has the same total.
async fn walk(store: &dyn Store, mut query: TaskQuery) -> Vec<TaskPosition> {
    let mut positions: Vec<TaskPosition> = Vec::new();
    let mut total = None;
    loop {
        let page = store.tasks(query.clone()).await.unwrap();
        assert!(page.tasks.len() <= query.limit);
        assert_eq!(*total.get_or_insert(page.total), page.total);
        positions.extend(page.tasks.into_iter().map(|listed| listed.position));
        if !page.more {
            assert_eq!(total, Some(positions.len() as u64));
            return positions;
        }
        query.after = positions.last().cloned();
    }
}

pub async fn pages_stay_correct_while_tasks_change(store: Arc<dyn Store>) {
    let marks = (0..20).map(|number| mark(&format!("task {number:02}"), number)).collect();
    write(&*store, "one", marks).await;
    let mut query = TaskQuery { limit: 5, ..TaskQuery::default() };
    let mut met: Vec<String> = Vec::new();
    let mut clock = 100;
    loop {
        let page = store.tasks(query.clone()).await.unwrap();
        met.extend(names(&page).into_iter().map(str::to_owned));
        query.after = page.tasks.last().map(|last| last.position.clone());
        // A listed task changes, one that is not listed yet changes, and a new one is added.
        let changed = [met[met.len() - 1].clone(), "task 00".into(), format!("new {clock}")];
        for task in changed {
            clock += 1;
            write(&*store, "one", vec![mark(&task, clock)]).await;
        }
        if !page.more {
            break;
        }
    }
    let expected: Vec<String> = (1..20).rev().map(|number| format!("task {number:02}")).collect();
    assert_eq!(met, expected, "each unchanged task once, in order");
    let since = TaskQuery { since: Some(Millis(100)), ..everything() };
    let moved = store.tasks(since).await.unwrap();
    assert!(names(&moved).contains(&"task 00"), "found with since");
}
