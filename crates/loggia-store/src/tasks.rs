//! The index of tasks in SQLite. Each state is a range of an index, in the order of a list, so a page
//! costs what it shows and a count what it counts. No query here scans the table.

use std::path::Path;

use loggia_core::{Millis, SessionId, TaskId, TaskState};
use loggia_session::{ListedTask, StoreError, TaskMark, TaskPage, TaskPlace, TaskQuery};
use rusqlite::types::Value;
use rusqlite::{Connection, Transaction, params, params_from_iter};

use crate::files::describe;

const STATES: [TaskState; 7] = [
    TaskState::Submitted,
    TaskState::Working,
    TaskState::InputRequired,
    TaskState::Completed,
    TaskState::Failed,
    TaskState::Canceled,
    TaskState::Rejected,
];

/// A state as it is stored; never changed once released.
fn word(state: TaskState) -> &'static str {
    match state {
        TaskState::Submitted => "submitted",
        TaskState::Working => "working",
        TaskState::InputRequired => "input-required",
        TaskState::Completed => "completed",
        TaskState::Failed => "failed",
        TaskState::Canceled => "canceled",
        TaskState::Rejected => "rejected",
    }
}

/// Records how a step left a task. The first session of a task keeps it.
pub fn mark(
    transaction: &Transaction<'_>,
    session: i64,
    mark: &TaskMark,
) -> Result<(), rusqlite::Error> {
    transaction
        .prepare_cached(
            "INSERT INTO tasks (task, session, principal, state, updated)
             VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (task) DO UPDATE SET state = excluded.state, updated = excluded.updated
             WHERE session = excluded.session",
        )?
        .execute(params![
            mark.task.as_str(),
            session,
            mark.principal,
            word(mark.state),
            mark.updated.0
        ])?;
    Ok(())
}

pub fn page(
    connection: &Connection,
    path: &Path,
    query: &TaskQuery,
) -> Result<TaskPage, StoreError> {
    let read = || -> Result<TaskPage, rusqlite::Error> {
        // One read transaction: the count and the page must be of the same state.
        let transaction = connection.unchecked_transaction()?;
        let (mut found, mut total) = (Vec::new(), 0);
        for state in STATES.into_iter().filter(|state| query.state.is_none_or(|is| is == *state)) {
            total += count(&transaction, query, state)?;
            found.extend(range(&transaction, query, state)?);
        }
        Ok(TaskPage::of(found, total, query.limit))
    };
    read().map_err(|error| describe(error, path))
}

/// The tasks in one state, after the query's place, and one more than wanted.
fn range(
    connection: &Connection,
    query: &TaskQuery,
    state: TaskState,
) -> Result<Vec<ListedTask>, rusqlite::Error> {
    let (text, values) = page_query(query, state);
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        let task = TaskId::new(row.get::<_, String>(0)?);
        let place = TaskPlace { updated: Millis(row.get(1)?), task };
        Ok(ListedTask { place, session: SessionId::new(row.get::<_, String>(2)?), state })
    })?;
    rows.collect()
}

fn count(
    connection: &Connection,
    query: &TaskQuery,
    state: TaskState,
) -> Result<u64, rusqlite::Error> {
    let (text, values) = count_query(query, state);
    let mut statement = connection.prepare_cached(&text)?;
    statement.query_row(params_from_iter(values), |row| row.get(0))
}

/// The conditions of a query within one state, without its place.
fn conditions(query: &TaskQuery, state: TaskState) -> (String, Vec<Value>) {
    let mut text = "tasks.state = ?".to_owned();
    let mut values = vec![Value::from(word(state).to_owned())];
    if let Some(session) = &query.session {
        text.push_str(" AND tasks.session = (SELECT row FROM sessions WHERE id = ?)");
        values.push(session.as_str().to_owned().into());
    }
    if let Some(principal) = &query.principal {
        // Within one session all tasks have the same principal: compare it, do not search by it.
        let column = if query.session.is_some() { "+tasks.principal" } else { "tasks.principal" };
        text.push_str(&format!(" AND {column} = ?"));
        values.push(principal.clone().into());
    }
    if let Some(since) = query.since {
        text.push_str(" AND tasks.updated >= ?");
        values.push(since.0.into());
    }
    (text, values)
}

fn page_query(query: &TaskQuery, state: TaskState) -> (String, Vec<Value>) {
    let (mut conditions, mut values) = conditions(query, state);
    if let Some(after) = &query.after {
        conditions.push_str(" AND (tasks.updated, tasks.task) < (?, ?)");
        values.push(after.updated.0.into());
        values.push(after.task.as_str().to_owned().into());
    }
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX).saturating_add(1);
    values.push(limit.into());
    let text = format!(
        "SELECT tasks.task, tasks.updated, sessions.id
         FROM tasks JOIN sessions ON sessions.row = tasks.session
         WHERE {conditions} ORDER BY tasks.updated DESC, tasks.task DESC LIMIT ?"
    );
    (text, values)
}

fn count_query(query: &TaskQuery, state: TaskState) -> (String, Vec<Value>) {
    let (conditions, values) = conditions(query, state);
    (format!("SELECT count(*) FROM tasks WHERE {conditions}"), values)
}

#[cfg(test)]
#[path = "tasks_tests.rs"]
mod tests;
