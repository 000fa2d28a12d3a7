//! Answers that are the same in every protocol.

use serde_json::{Value, json};

/// A page of tasks, which only 1.0 defines. An empty token means that there is no next page.
pub fn page(tasks: Vec<Value>, next: Option<String>, page_size: usize, total_size: usize) -> Value {
    let next = next.unwrap_or_default();
    let mut page = json!({ "nextPageToken": next, "pageSize": page_size, "totalSize": total_size });
    page["tasks"] = Value::Array(tasks);
    page
}
