//! The routes of the SDLC agent server, as documented and as shipped. Where the two differ on one path, one answer serves
//! both: see `docs/protocols/sdlc.md`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use loggia_core::{Surface, TaskId};
use loggia_wire::{
    Condition, DecodedRequest, FrameId, HistoryLength, Intent, ListTasks, RunSlash, StatusFilter,
    Violation, WireError, sdlc,
};
use serde::Deserialize;
use serde_json::Value;

use super::sse::EventFormat;
use super::{BODY_LIMIT, routes, sse};
use crate::dispatch::Reply;
use crate::serve::Stopping;
use crate::state::{Caller, Server};

/// Tasks on a page by default, and at most.
const PAGE: usize = 50;
const LONGEST_PAGE: usize = 100;
const NEXT_PAGE: &str = "x-next-page-token";

/// Whether this module serves a path.
pub(super) fn is_route(method: &Method, path: &str) -> bool {
    let fixed = ["/tasks/metadata", "/message/stream", "/executeCommand", "/listCommands"];
    let task = path.strip_prefix("/tasks/").and_then(|rest| rest.strip_suffix("/metadata"));
    let open = path == "/tasks" && *method == Method::POST;
    open || fixed.contains(&path) || task.is_some_and(|task| !task.contains('/'))
}

type RouteResult = Result<Response, WireError>;

pub async fn open_task(State(server): State<Arc<Server>>, request: Request) -> Response {
    answered(async {
        let (caller, bytes) = read(&server, request).await?;
        let open = sdlc::decode::open_task(&bytes)?;
        let task = ask(&server, Intent::OpenTask(open), &caller).await?;
        let id = task["id"].as_str().unwrap_or_default();
        let mut response = json(StatusCode::CREATED, &Value::from(id));
        let at = HeaderValue::try_from(format!("/tasks/{id}/metadata"));
        response.headers_mut().extend(at.ok().map(|at| (header::LOCATION, at)));
        Ok(response)
    })
    .await
}

pub async fn metadata(
    State(server): State<Arc<Server>>,
    Path(task): Path<String>,
    request: Request,
) -> Response {
    let caller = caller(&request);
    answered(async {
        let caller = caller?;
        let task = TaskId::from(task.as_str());
        let get = Intent::GetTask { task, history: HistoryLength::Last(0) };
        let task = ask(&server, get, &caller).await?;
        let metadata = sdlc::metadata(task, &server.defaults.tools);
        Ok(json(StatusCode::OK, &sdlc::metadata_of_one(&metadata)))
    })
    .await
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Page {
    page_size: Option<usize>,
    page_token: Option<String>,
}

/// A page of tasks as an array. A header has the token of the next page.
pub async fn all_metadata(
    State(server): State<Arc<Server>>,
    page: Result<Query<Page>, QueryRejection>,
    request: Request,
) -> Response {
    let caller = caller(&request);
    answered(async {
        let caller = caller?;
        let Query(page) = page.map_err(|_| {
            let why = "must be a number".to_owned();
            WireError::Invalid(Violation { field: "pageSize".into(), why })
        })?;
        let first = page.page_token.is_none();
        let list = Intent::ListTasks(ListTasks {
            session: None,
            status: StatusFilter::Any,
            page_size: page.page_size.unwrap_or(PAGE).clamp(1, LONGEST_PAGE),
            page_token: page.page_token,
            history: HistoryLength::Last(0),
            artifacts: false,
            since: None,
        });
        let mut found = ask(&server, list, &caller).await?;
        let tasks = match found["tasks"].take() {
            Value::Array(tasks) => tasks,
            _ => Vec::new(),
        };
        if tasks.is_empty() && first {
            return Ok(StatusCode::NO_CONTENT.into_response());
        }
        let tools = &server.defaults.tools;
        let tasks: Vec<Value> = tasks.into_iter().map(|task| sdlc::metadata(task, tools)).collect();
        let mut response = json(StatusCode::OK, &Value::from(tasks));
        let next = found["nextPageToken"].as_str().filter(|next| !next.is_empty());
        if let Some(Ok(next)) = next.map(HeaderValue::from_str) {
            response.headers_mut().insert(NEXT_PAGE, next);
        }
        Ok(response)
    })
    .await
}

pub async fn message(State(server): State<Arc<Server>>, request: Request) -> Response {
    answered(async {
        let resume = request.headers().get("last-event-id");
        let resume = resume.and_then(|id| id.to_str().ok()?.parse::<FrameId>().ok());
        let stopping = request.extensions().get::<Stopping>().cloned();
        let stopping = stopping.ok_or(Condition::Internal)?;
        let (caller, bytes) = read(&server, request).await?;
        let sdlc::decode::Message { asked, at } = sdlc::decode::message(&bytes)?;
        drop(bytes);
        let permit = server.stream_permit(&asked, &caller)?;
        let answer = server.ask(asked, &caller, resume).await;
        match answer.map_err(|error| sdlc::in_its_words(error, at))? {
            Reply::Frames(frames) => {
                let lifetime = caller.principal.lifetime;
                let (format, view) = (EventFormat::Events, routes::SDLC);
                Ok(sse::respond(format, view, frames, stopping, lifetime, permit))
            }
            Reply::Frame(value) => Ok(sse::once(&EventFormat::Events, &value)),
            Reply::Value(_) => Err(Condition::Internal.into()),
        }
    })
    .await
}

pub async fn execute(State(server): State<Arc<Server>>, request: Request) -> Response {
    answered(async {
        let (caller, bytes) = read(&server, request).await?;
        let run: RunSlash = sdlc::decode::command(&bytes)?;
        let said = ask(&server, Intent::RunSlash(run), &caller).await?;
        Ok(json(StatusCode::OK, &said))
    })
    .await
}

pub async fn commands(State(server): State<Arc<Server>>, request: Request) -> Response {
    let caller = caller(&request);
    answered(async {
        let caller = caller?;
        let tree = ask(&server, Intent::ListSlash { session: None }, &caller).await?;
        Ok(json(StatusCode::OK, &tree))
    })
    .await
}

async fn answered(answer: impl Future<Output = RouteResult>) -> Response {
    answer.await.unwrap_or_else(|error| {
        let (status, body) = sdlc::error(&error);
        json(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), &body)
    })
}

async fn ask(server: &Server, intent: Intent, caller: &Caller) -> Result<Value, WireError> {
    let asked = DecodedRequest { view: routes::SDLC, intent };
    match server.ask(asked, caller, None).await? {
        Reply::Value(value) => Ok(value),
        Reply::Frame(_) | Reply::Frames(_) => Err(Condition::Internal.into()),
    }
}

fn caller(request: &Request) -> Result<Caller, WireError> {
    let caller = super::caller_on(request, Surface::Sdlc);
    caller.ok_or_else(|| Condition::Unauthenticated.into())
}

async fn read(server: &Server, request: Request) -> Result<(Caller, Bytes), WireError> {
    let caller = caller(&request)?;
    let body = server.read_body(request.into_body(), &caller).await;
    let body = body.map_err(|rejection| match rejection.status {
        StatusCode::PAYLOAD_TOO_LARGE => {
            WireError::from(Condition::BodyTooLarge { limit: BODY_LIMIT })
        }
        StatusCode::SERVICE_UNAVAILABLE => Condition::Busy.into(),
        _ => WireError::Parse("the body is incomplete"),
    })?;
    Ok((caller, body))
}

fn json(status: StatusCode, value: &Value) -> Response {
    let mut response = Response::new(Body::from(value.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
