//! Lists of tasks: the last changed first, in pages that stay correct while tasks change.
//!
//! The store's index decides which tasks a page shows. Only the sessions of the page are read, and none of them is opened,
//! so a list contains the tasks of other processes, too.

use std::collections::HashMap;

use futures::StreamExt;
use loggia_core::{Millis, SessionId, TaskId, TaskView};
use loggia_session::{HubError, ListedTask, StoreError, TaskPage, TaskPosition, TaskQuery};
use loggia_wire::{
    Condition, HistoryLength, ListTasks, Projector, StatusFilter, TaskDetail, View, Violation,
    WireError, reply,
};
use serde_json::Value;

use crate::dispatch::Reply;
use crate::guard::BytePermit;
use crate::state::{Caller, ServedSessions, Server, hub_error};
use crate::task_fold::TaskFold;

/// Sessions of one page that are read at once.
const AT_A_TIME: usize = 4;
/// The weight of one page, unless it is a single task. The page ends there, with a token for the next one.
const PAGE_BYTES: usize = 4 * 1024 * 1024;

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
        let total = usize::try_from(page.total).unwrap_or(usize::MAX);
        // Counted in full before reading: the size is not known yet.
        let counted = self.replies.acquire(&caller.principal.name, PAGE_BYTES).await;
        let counted = counted.ok_or(Condition::Busy)?;
        let (tasks, seen) = self.shown(&page.tasks, &list, view, caller, counted).await?;
        let more = page.more || seen < page.tasks.len();
        let last = seen.checked_sub(1).and_then(|last| page.tasks.get(last));
        let next = last.filter(|_| more).map(|last| write_token(&last.position));
        Ok(Reply::Value(reply::page(tasks, next, list.page_size, total)))
    }

    /// The query, restricted to the tasks that the caller may see. None if the list is empty in any case.
    async fn query(
        &self,
        list: &ListTasks,
        after: Option<TaskPosition>,
        caller: &Caller,
    ) -> Result<Option<TaskQuery>, WireError> {
        let (session, principal) = match (&self.sessions, &list.session) {
            (ServedSessions::Shared(shared), Some(asked)) if asked != shared => return Ok(None),
            (ServedSessions::Shared(shared), _) => (Some(shared.clone()), None),
            (ServedSessions::Many, asked) => {
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

    /// The tasks of a page as they are now, in its order, and how many of the page were looked at: not all of them if the
    /// page has reached its bytes. Leaves out tasks that have left the wanted state since the index was read, and tasks
    /// whose session was deleted.
    async fn shown(
        &self,
        page: &[ListedTask],
        list: &ListTasks,
        view: View,
        caller: &Caller,
        counted: BytePermit,
    ) -> Result<(Vec<Value>, usize), WireError> {
        let mut sessions: Vec<(&SessionId, Vec<TaskId>)> = Vec::new();
        for ListedTask { session, position, .. } in page {
            match sessions.iter_mut().find(|(known, _)| *known == session) {
                Some((_, tasks)) => tasks.push(position.task.clone()),
                None => sessions.push((session, vec![position.task.clone()])),
            }
        }
        let mut reading = Vec::with_capacity(sessions.len());
        for (session, tasks) in sessions {
            reading.push(self.read(Part { session, tasks, list, view, byte_limit: PAGE_BYTES }));
        }
        let mut reading = futures::stream::iter(reading).buffered(AT_A_TIME);
        let mut found: HashMap<TaskId, Found> = HashMap::new();
        let (mut tasks, mut bytes_left) = (Vec::new(), PAGE_BYTES);
        for (index, ListedTask { session, position, .. }) in page.iter().enumerate() {
            // In the order of the page, so that little is read ahead.
            while !found.contains_key(&position.task)
                && let Some(read) = reading.next().await
            {
                found.extend(left_out(read)?);
            }
            match found.remove(&position.task) {
                Some(Found::Task(weight, task)) if weight <= bytes_left || tasks.is_empty() => {
                    bytes_left = bytes_left.saturating_sub(weight);
                    tasks.push(task);
                }
                // Larger than a page: shown alone.
                Some(Found::TooLarge(weight)) if tasks.is_empty() => {
                    // Released first, or this request would wait for itself.
                    drop((reading, counted));
                    self.count_reply(weight, caller).await?;
                    let (tasks, byte_limit) = (vec![position.task.clone()], usize::MAX);
                    let part = Part { session, tasks, list, view, byte_limit };
                    let read = left_out(self.read(part).await)?;
                    let task = read.into_iter().find_map(|(_, found)| match found {
                        Found::Task(_, task) => Some(task),
                        Found::TooLarge(_) => None,
                    });
                    return Ok((task.into_iter().collect(), index + 1));
                }
                Some(Found::Task(..) | Found::TooLarge(_)) => {
                    caller.load.hold_reply(counted);
                    return Ok((tasks, index));
                }
                None => {}
            }
        }
        caller.load.hold_reply(counted);
        Ok((tasks, page.len()))
    }

    /// Reads some tasks of a session from its projection if there is one, otherwise from the store. Opens no session.
    /// For tasks beyond the byte limit, only the size is returned.
    async fn read(&self, part: Part<'_>) -> Result<Vec<(TaskId, Found)>, StoreError> {
        let store = self.hub.store();
        if let Some(projection) = self.projections.existing(part.session, part.view) {
            let head = store.head(part.session).await?.unwrap_or_default();
            if projection.reach(head).await
                && let Some(found) = projection.with_projector(|projector| part.found_in(projector))
            {
                return Ok(found);
            }
        }
        let first = self.fold(&part).await?;
        if !first.is_incomplete() {
            return Ok(part.tasks_of(first.projector(), |task| first.weight(task)));
        }
        // Read again for the tasks that fit.
        let mut bytes_left = part.byte_limit;
        let fits = |task: &&TaskId| {
            let weight = first.weight(task);
            let fits = weight <= bytes_left;
            bytes_left = if fits { bytes_left - weight } else { 0 };
            fits
        };
        let fitting: Vec<TaskId> = part.tasks.iter().take_while(fits).cloned().collect();
        let too_large = part.tasks.iter().skip(fitting.len());
        let too_large =
            too_large.map(|task| (task.clone(), Found::TooLarge(first.weight(task)))).collect();
        let mut found: Vec<(TaskId, Found)> = too_large;
        if !fitting.is_empty() {
            let part = Part { tasks: fitting, ..part };
            let second = self.fold(&part).await?;
            found.extend(part.tasks_of(second.projector(), |task| second.weight(task)));
        }
        Ok(found)
    }

    async fn fold(&self, part: &Part<'_>) -> Result<TaskFold, StoreError> {
        let fold = TaskFold::new(part.session, part.view, part.tasks.clone(), part.byte_limit);
        let fold = fold.without_prompts(part.has_no_history());
        fold.read(self.hub.store().as_ref(), part.session).await
    }
}

/// Leaves out the tasks of a deleted session.
fn left_out(
    read: Result<Vec<(TaskId, Found)>, StoreError>,
) -> Result<Vec<(TaskId, Found)>, WireError> {
    match read {
        Ok(found) => Ok(found),
        Err(StoreError::Unknown(_)) => Ok(Vec::new()),
        Err(error) => Err(hub_error(HubError::Store(error))),
    }
}

/// Tasks of one session on a page, in its order.
struct Part<'a> {
    session: &'a SessionId,
    tasks: Vec<TaskId>,
    list: &'a ListTasks,
    view: View,
    /// Bytes that they may take together.
    byte_limit: usize,
}

/// A task, or its weight if it did not fit.
enum Found {
    Task(usize, Value),
    TooLarge(usize),
}

impl Part<'_> {
    fn has_no_history(&self) -> bool {
        self.list.history == HistoryLength::Last(0) && self.view.writes_without_history()
    }

    /// In a projection. None if it does not hold all contents of the tasks.
    fn found_in(&self, projector: &Projector) -> Option<Vec<(TaskId, Found)>> {
        let view = |task: &TaskId| projector.tasks().get(task);
        if self.tasks.iter().filter_map(view).any(|view| view.trimmed) {
            return None;
        }
        Some(self.tasks_of(projector, |task| view(task).map_or(0, TaskView::approx_bytes)))
    }

    fn tasks_of(
        &self,
        projector: &Projector,
        weight: impl Fn(&TaskId) -> usize,
    ) -> Vec<(TaskId, Found)> {
        let shown = TaskDetail { history: self.list.history, artifacts: self.list.artifacts };
        let known = |task: &&TaskId| {
            let known = projector.tasks().get(task);
            known.is_some_and(|known| self.list.status.admits(known.state))
        };
        let mut bytes_left = Some(self.byte_limit);
        let found = self.tasks.iter().filter(known).filter_map(|task| {
            let weight = weight(task);
            bytes_left = bytes_left.and_then(|bytes_left| bytes_left.checked_sub(weight));
            let found = match bytes_left {
                Some(_) => Found::Task(weight, projector.snapshot(task, shown)?),
                None => Found::TooLarge(weight),
            };
            Some((task.clone(), found))
        });
        found.collect()
    }
}

fn write_token(position: &TaskPosition) -> String {
    format!("{}-{}", position.updated.0, position.task)
}

fn read_token(text: &str) -> Result<TaskPosition, WireError> {
    // A time before 1970 starts with the sign that also separates the two.
    let parts = text.char_indices().skip(1).find(|(_, sign)| *sign == '-');
    let parts = parts.and_then(|(at, _)| text.split_at_checked(at));
    let parts = parts.and_then(|(at, task)| Some((at.parse().ok()?, task.strip_prefix('-')?)));
    let (at, task) = parts.ok_or_else(|| {
        let why = "is not a token of this server".to_owned();
        WireError::Invalid(Violation { field: "pageToken".into(), why })
    })?;
    Ok(TaskPosition { updated: Millis(at), task: task.into() })
}
