//! SQLite's plans for lists: each uses an index and sorts nothing.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

fn plan(connection: &Connection, text: &str, values: Vec<Value>) -> String {
    let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {text}")).unwrap();
    let rows = statement.query_map(params_from_iter(values), |row| row.get::<_, String>(3));
    rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap().join("; ")
}

#[test]
fn every_list_goes_by_an_index() {
    let connection = Connection::open_in_memory().unwrap();
    crate::schema::STEPS.iter().for_each(|step| connection.execute_batch(step).unwrap());
    let session = || Some(SessionId::from("s"));
    let principal = || Some("local:1000".to_owned());
    let scopes = [
        (None, None, "tasks_by_state"),
        (None, principal(), "tasks_by_principal"),
        (session(), None, "tasks_by_session"),
        (session(), principal(), "tasks_by_session"),
    ];
    let position = TaskPosition { updated: Millis(7), task: TaskId::from("t") };
    for (session, principal, index) in scopes {
        for since in [None, Some(Millis(3))] {
            for after in [None, Some(position.clone())] {
                let query = TaskQuery {
                    session: session.clone(),
                    principal: principal.clone(),
                    state: None,
                    since,
                    after,
                    limit: 50,
                };
                let (text, values) = page_query(&query, TaskState::Completed);
                let page = plan(&connection, &text, values);
                let (text, values) = count_query(&query, TaskState::Completed);
                let count = plan(&connection, &text, values);
                for plan in [&page, &count] {
                    assert!(plan.contains(&format!("INDEX {index} (")), "{query:?}: {plan}");
                    assert!(!plan.contains("SCAN"), "{query:?}: {plan}");
                    assert!(!plan.contains("TEMP B-TREE"), "{query:?}: {plan}");
                }
                // The position is searched by index, not counted up to.
                let found = query.since.is_some() || query.after.is_some();
                assert_eq!(page.contains("updated"), found, "{query:?}: {page}");
            }
        }
    }
}
