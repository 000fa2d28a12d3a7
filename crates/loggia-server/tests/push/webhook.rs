//! A webhook on a real socket that records its requests and gives scripted replies.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// How long a test waits.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
pub enum Answer {
    Status(u16),
    /// With a header.
    With(u16, &'static str, String),
    Hang,
    /// 200, and a body that never ends.
    EndlessBody,
}

#[derive(Debug, Clone)]
pub struct Call {
    pub headers: HeaderMap,
    pub body: Value,
    /// The same, byte for byte.
    pub raw: Vec<u8>,
    /// The status of the reply.
    pub status: u16,
}

impl Call {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default()
    }

    /// The task state in the payload of either version.
    pub fn state(&self) -> String {
        let body = &self.body;
        let places = [
            &body["status"]["state"],
            &body["task"]["status"]["state"],
            &body["statusUpdate"]["status"]["state"],
        ];
        let found = places.into_iter().find_map(Value::as_str);
        found.unwrap_or("artifact").to_owned()
    }
}

#[derive(Clone)]
pub struct Webhook {
    pub port: u16,
    calls: watch::Sender<Vec<Call>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    _serving: Arc<AbortOnDropHandle<()>>,
}

impl Webhook {
    pub async fn start() -> Self {
        Self::answering([], Answer::Status(200)).await
    }

    /// Gives these answers, then `always`.
    pub async fn answering(answers: impl IntoIterator<Item = Answer>, always: Answer) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = watch::Sender::new(Vec::new());
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let state = (calls.clone(), answers.clone(), always);
        let router = Router::new().fallback(take).with_state(state);
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let serving = Arc::new(AbortOnDropHandle::new(serving));
        Self { port, calls, answers, _serving: serving }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/hook", self.port)
    }

    /// Gives these answers next.
    pub fn answer_next(&self, answers: impl IntoIterator<Item = Answer>) {
        self.answers.lock().unwrap().extend(answers);
    }

    pub fn calls(&self) -> Vec<Call> {
        self.calls.borrow().clone()
    }

    /// The accepted requests.
    pub fn taken(&self) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.status == 200).collect()
    }

    pub async fn until(&self, fits: impl Fn(&[Call]) -> bool) -> Vec<Call> {
        let mut calls = self.calls.subscribe();
        let waited = tokio::time::timeout(TEST_TIMEOUT, calls.wait_for(|calls| fits(calls))).await;
        match waited {
            Ok(calls) => calls.unwrap().clone(),
            Err(_) => panic!("the expected calls did not come: {:#?}", self.calls()),
        }
    }

    /// Waits until it has accepted a finished task.
    pub async fn until_over(&self) -> Vec<Call> {
        let over = |call: &Call| {
            let state = call.state().to_lowercase();
            call.status == 200
                && ["completed", "failed", "canceled"].iter().any(|word| state.ends_with(word))
        };
        self.until(|calls| calls.iter().any(over)).await;
        self.taken()
    }
}

type WebhookState = (watch::Sender<Vec<Call>>, Arc<Mutex<VecDeque<Answer>>>, Answer);

async fn take(
    State((calls, answers, always)): State<WebhookState>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let answer = answers.lock().unwrap().pop_front().unwrap_or(always);
    let mut response = Response::new(Body::empty());
    let status = match &answer {
        Answer::Status(status) => *status,
        Answer::With(status, name, value) => {
            response.headers_mut().insert(*name, value.parse().unwrap());
            *status
        }
        Answer::Hang => 0,
        Answer::EndlessBody => {
            let endless =
                futures::stream::repeat(Ok::<_, std::convert::Infallible>("words words words"));
            *response.body_mut() = Body::from_stream(endless);
            200
        }
    };
    let (raw, body) = (body.to_vec(), serde_json::from_slice(&body).unwrap());
    let call = Call { headers, body, raw, status };
    calls.send_modify(|calls| calls.push(call));
    if status == 0 {
        std::future::pending::<()>().await;
    }
    *response.status_mut() = status.try_into().unwrap();
    response
}
