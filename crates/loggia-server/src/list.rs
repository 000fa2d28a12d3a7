//! Lists of tasks: newest change first, in pages that stay right while tasks go on.
//!
//! Reads the sessions that the caller may see. What a page costs grows with their number: there is
//! no index of tasks by state yet.

use loggia_core::{Millis, TaskId, TaskState};
use loggia_session::SessionHandle;
use loggia_wire::{Condition, ListTasks, Shown, View, Violation, WireError, reply};
use serde_json::Value;

use crate::dispatch::Reply;
use crate::state::{Caller, Server, Shape, hub_error};

/// A task's place in a list: by time, then by id, so that no two are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    updated: Millis,
    task: TaskId,
}

struct Found {
    place: Place,
    handle: SessionHandle,
}

impl Server {
    pub(crate) async fn list(
        &self,
        list: ListTasks,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let before = list.page_token.as_deref().map(read_token).transpose()?;
        let mut found = Vec::new();
        for handle in self.visible(&list, caller).await? {
            let projection = self.projection(&handle, view);
            if !projection.reach(handle.head()).await {
                return Err(Condition::Restarting.into());
            }
            let wanted = |state: TaskState, updated: Millis| {
                list.status.admits(state) && list.since.is_none_or(|since| updated >= since)
            };
            projection.look(|projector| {
                for task in projector.tasks().iter().filter(|task| wanted(task.state, task.updated))
                {
                    let place = Place { updated: task.updated, task: task.id.clone() };
                    found.push(Found { place, handle: handle.clone() });
                }
            });
        }
        found.sort_by(|a, b| b.place.cmp(&a.place));
        let total = found.len();
        let rest: Vec<Found> = found
            .into_iter()
            .filter(|found| before.as_ref().is_none_or(|before| found.place < *before))
            .collect();
        let next = rest.get(list.page_size).and(rest.get(list.page_size.saturating_sub(1)));
        let next = next.map(|last| write_token(&last.place));
        let shown = Shown { history: list.history, artifacts: list.artifacts };
        let tasks: Vec<Value> = rest
            .iter()
            .take(list.page_size)
            .filter_map(|found| {
                self.projection(&found.handle, view).snapshot(&found.place.task, shown)
            })
            .collect();
        Ok(Reply::Value(reply::page(tasks, next, list.page_size, total)))
    }

    async fn visible(
        &self,
        list: &ListTasks,
        caller: &Caller,
    ) -> Result<Vec<SessionHandle>, WireError> {
        let ids = match (&list.session, &self.shape) {
            (Some(id), _) => vec![id.clone()],
            (None, Shape::Shared(shared)) => vec![shared.clone()],
            (None, Shape::Many) => {
                let listed = self.hub.list(usize::MAX).await.map_err(hub_error)?;
                listed.into_iter().map(|listed| listed.session).collect()
            }
        };
        let mut handles = Vec::with_capacity(ids.len());
        for id in ids {
            match self.session(&id, caller).await {
                Ok(handle) => handles.push(handle),
                // Somebody else's, or in use by another process: not in this list.
                Err(WireError::Condition(Condition::UnknownContext | Condition::Busy)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(handles)
    }
}

fn write_token(place: &Place) -> String {
    format!("{}-{}", place.updated.0, place.task)
}

fn read_token(text: &str) -> Result<Place, WireError> {
    let parts = text.split_once('-').and_then(|(at, task)| Some((at.parse().ok()?, task)));
    let (at, task) = parts.ok_or_else(|| {
        let why = "is not a token of this server".to_owned();
        WireError::Invalid(Violation { field: "pageToken".into(), why })
    })?;
    Ok(Place { updated: Millis(at), task: task.into() })
}
