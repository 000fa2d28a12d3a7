//! The index of tasks in SQLite. Each state is a range of an index, in the order of a list, so a page
//! costs what it shows and a count what it counts. No query here scans the table.

use std::path::Path;

use loggia_core::{Millis, SessionId, TaskId, TaskState};
use loggia_session::{ListedTask, StoreError, TaskMark, TaskPage, TaskPosition, TaskQuery};
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
    let read = || -> Result<Option<TaskPage>, rusqlite::Error> {
        // One read transaction: the count and the page must be of the same state.
        let transaction = connection.unchecked_transaction()?;
        let (mut found, mut total) = (Vec::new(), 0);
        if has_unknown_state(&transaction)? {
            return Ok(None);
        }
        for state in STATES.into_iter().filter(|state| query.state.is_none_or(|is| is == *state)) {
            let (counted, listed) =
                (count(&transaction, query, state)?, range(&transaction, query, state)?);
            let wanted = counted.min(query.limit as u64 + 1);
            if query.after.is_none() && listed.len() as u64 != wanted {
                return Ok(None);
            }
            total += counted;
            found.extend(listed);
        }
        // Every task is in one of the states: a damaged entry hides itself and its neighbours.
        let unfiltered = query.state.is_none() && query.since.is_none();
        if unfiltered && total != count_all(&transaction, query)? {
            return Ok(None);
        }
        Ok(Some(TaskPage::of(found, total, query.limit)))
    };
    let page = read().map_err(|error| describe(error, path))?;
    page.ok_or_else(|| StoreError::Damaged {
        file: path.display().to_string(),
        detail: "some tasks cannot be listed; `loggia doctor` checks the file".to_owned(),
    })
}

/// Whether a task is in a state that does not exist, and so in no list: the stretches of the index
/// between the states have to be empty.
fn has_unknown_state(connection: &Connection) -> Result<bool, rusqlite::Error> {
    let mut words = STATES.map(word);
    words.sort_unstable();
    let mut between = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM tasks WHERE state > ?1 AND state < ?2)")?;
    for (low, high) in words.iter().zip(words.iter().skip(1)) {
        if between.query_row([low, high], |row| row.get(0))? {
            return Ok(true);
        }
    }
    let mut outside = connection.prepare_cached(
        "SELECT EXISTS (SELECT 1 FROM tasks WHERE state < ?1)
             OR EXISTS (SELECT 1 FROM tasks WHERE state > ?2)",
    )?;
    outside.query_row([words.first(), words.last()], |row| row.get(0))
}

/// The tasks in one state, after the query's position, and one more than wanted.
fn range(
    connection: &Connection,
    query: &TaskQuery,
    state: TaskState,
) -> Result<Vec<ListedTask>, rusqlite::Error> {
    let (text, values) = page_query(query, state);
    let mut statement = connection.prepare_cached(&text)?;
    let rows = statement.query_map(params_from_iter(values), |row| {
        let task = TaskId::new(row.get::<_, String>(0)?);
        let position = TaskPosition { updated: Millis(row.get(1)?), task };
        Ok(ListedTask { position, session: SessionId::new(row.get::<_, String>(2)?), state })
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

/// How many tasks the query admits whatever their state.
fn count_all(connection: &Connection, query: &TaskQuery) -> Result<u64, rusqlite::Error> {
    let (conditions, values) = within("true".to_owned(), Vec::new(), query);
    let text = format!("SELECT count(*) FROM tasks WHERE {conditions}");
    let mut statement = connection.prepare_cached(&text)?;
    statement.query_row(params_from_iter(values), |row| row.get(0))
}

/// The conditions of a query within one state, without its position.
fn conditions(query: &TaskQuery, state: TaskState) -> (String, Vec<Value>) {
    within("tasks.state = ?".to_owned(), vec![Value::from(word(state).to_owned())], query)
}

fn within(mut text: String, mut values: Vec<Value>, query: &TaskQuery) -> (String, Vec<Value>) {
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
