//! Lists of tasks: the last changed first, in pages that stay right while tasks go on; and single tasks
//! of sessions that another process has.
//!
//! Which tasks a page shows is the store's index to say; only the sessions of the page are read,
//! and none of them is opened for it. So a list shows what other processes work on, too.

use std::collections::HashMap;

use futures::StreamExt;
use loggia_core::{Millis, SessionId, TaskId};
use loggia_session::{HubError, ListedTask, StoreError, TaskPage, TaskPlace, TaskQuery, hub};
use loggia_wire::{
    Condition, ListTasks, Projector, Shown, StatusFilter, View, Violation, WireError, reply,
};
use serde_json::Value;

use crate::dispatch::Reply;
use crate::state::{Caller, Server, Shape, hub_error};

/// Sessions of one page that are read at a time.
const AT_A_TIME: usize = 4;

impl Server {
    pub(crate) async fn list(
        &self,
        list: ListTasks,
        view: View,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        let after = list.page_token.as_deref().map(read_token).transpose()?;
        let page = match self.query(&list, after, caller).await? {
            Some(query) => self.hub.store().tasks(query).await,
            None => Ok(TaskPage::default()),
        };
        let page = page.map_err(|error| hub_error(HubError::Store(error)))?;
        let next = page.tasks.last().filter(|_| page.more);
        let next = next.map(|last| write_token(&last.place));
        let total = usize::try_from(page.total).unwrap_or(usize::MAX);
        let tasks = self.shown(&page.tasks, &list, view).await?;
        Ok(Reply::Value(reply::page(tasks, next, list.page_size, total)))
    }

    /// What the caller asks for, within what the caller may see. None: nothing at all.
    async fn query(
        &self,
        list: &ListTasks,
        after: Option<TaskPlace>,
        caller: &Caller,
    ) -> Result<Option<TaskQuery>, WireError> {
        let (session, principal) = match (&self.shape, &list.session) {
            (Shape::Shared(shared), Some(asked)) if asked != shared => return Ok(None),
            (Shape::Shared(shared), _) => (Some(shared.clone()), None),
            (Shape::Many, asked) => {
                let everybody = caller.principal.scopes.admin;
                let session = match asked {
                    Some(name) => Some(self.named_by(name, caller).await?),
                    None => None,
                };
                (session, (!everybody).then(|| caller.principal.name.to_string()))
            }
        };
        let state = match list.status {
            StatusFilter::Any => None,
            StatusFilter::Is(state) => Some(state),
            StatusFilter::Nothing => return Ok(None),
        };
        let (since, limit) = (list.since, list.page_size);
        Ok(Some(TaskQuery { session, principal, state, since, after, limit }))
    }

    /// The tasks of a page as they are now, in its order. One that has left the wanted state since
    /// the index was read is left out, like one whose session was deleted.
    async fn shown(
        &self,
        page: &[ListedTask],
        list: &ListTasks,
        view: View,
    ) -> Result<Vec<Value>, WireError> {
        let shown = Shown { history: list.history, artifacts: list.artifacts };
        let mut sessions: HashMap<&SessionId, Vec<&TaskId>> = HashMap::new();
        for listed in page {
            sessions.entry(&listed.session).or_default().push(&listed.place.task);
        }
        let mut reading = Vec::with_capacity(sessions.len());
        for (session, tasks) in sessions {
            reading.push(self.read(session, view, move |projector| -> Vec<(TaskId, Value)> {
                let wanted = |task: &&TaskId| {
                    let known = projector.tasks().get(task);
                    known.is_some_and(|known| list.status.admits(known.state))
                };
                let found = tasks.iter().copied().filter(wanted);
                found
                    .filter_map(|task| Some((task.clone(), projector.snapshot(task, shown)?)))
                    .collect()
            }));
        }
        let mut found: HashMap<TaskId, Value> = HashMap::new();
        let mut reading = futures::stream::iter(reading).buffer_unordered(AT_A_TIME);
        while let Some(read) = reading.next().await {
            match read {
                Ok(tasks) => found.extend(tasks),
                Err(StoreError::Unknown(_)) => {}
                // One damaged session must not hide all others; asked for, it says what is wrong.
                Err(error @ (StoreError::Corrupt { .. } | StoreError::Damaged { .. })) => {
                    tracing::error!(%error, "a session is left out of a list");
                }
                Err(error) => return Err(hub_error(HubError::Store(error))),
            }
        }
        Ok(page.iter().filter_map(|listed| found.remove(&listed.place.task)).collect())
    }

    /// One task as it is in the log, for a caller that may see it.
    pub(crate) async fn shown_by_log(
        &self,
        task: &TaskId,
        shown: Shown,
        view: View,
    ) -> Result<Value, WireError> {
        let found = self.hub.locate(task).await.map_err(hub_error)?;
        let session = found.ok_or(Condition::TaskNotFound)?;
        let read = self.read(&session, view, |projector| projector.snapshot(task, shown)).await;
        let read = read.map_err(|error| hub_error(HubError::Store(error)))?;
        read.ok_or_else(|| Condition::TaskNotFound.into())
    }

    /// Looks at a session's tasks as they are on disk: where somebody reads it already, in what is
    /// folded; otherwise in a fold of its log. Needs no lease, so it opens nothing.
    async fn read<T>(
        &self,
        session: &SessionId,
        view: View,
        look: impl FnOnce(&Projector) -> T,
    ) -> Result<T, StoreError> {
        let store = self.hub.store();
        if let Some(warm) = self.warm_projection(session, view) {
            let head = store.head(session).await?.unwrap_or_default();
            if warm.reach(head).await {
                return Ok(warm.look(look));
            }
        }
        let mut projector = Projector::new(session.clone(), view);
        hub::fold(store.as_ref(), session, |envelope| projector.fold(envelope)).await?;
        Ok(look(&projector))
    }
}

fn write_token(place: &TaskPlace) -> String {
    format!("{}-{}", place.updated.0, place.task)
}

fn read_token(text: &str) -> Result<TaskPlace, WireError> {
    // A moment before 1970 begins with the sign that also parts the two.
    let parts = text.char_indices().skip(1).find(|(_, sign)| *sign == '-');
    let parts = parts.and_then(|(at, _)| text.split_at_checked(at));
    let parts = parts.and_then(|(at, task)| Some((at.parse().ok()?, task.strip_prefix('-')?)));
    let (at, task) = parts.ok_or_else(|| {
        let why = "is not a token of this server".to_owned();
        WireError::Invalid(Violation { field: "pageToken".into(), why })
    })?;
    Ok(TaskPlace { updated: Millis(at), task: task.into() })
}
