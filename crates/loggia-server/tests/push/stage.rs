//! A server without its guard: requests are decoded and dispatched as the transports do it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use loggia_core::{AgentName, Mode, Origin, SessionId, Surface};
use loggia_server::auth::{OAuth, Principal, SampleClient, Scopes};
use loggia_server::dispatch::Reply;
use loggia_server::push::PushOptions;
use loggia_server::push::resolver::Lookup;
use loggia_server::state::{Caller, Defaults, ServedSessions, Server};
use loggia_session::{Agent, Hub, MemoryStore, SessionHandle, Store};
use loggia_testkit::{Act, ScriptAgent, client};
use loggia_wire::jsonrpc::Body;
use loggia_wire::legacy::{self, DecodeOptions};
use loggia_wire::{Call, CardFacts, Delivery, Extension, Id, View, decode, jsonrpc};
use serde_json::{Value, json};

pub struct Stage {
    pub store: Arc<dyn Store>,
    pub hub: Arc<Hub>,
    pub server: Arc<Server>,
}

/// Short delays and a long timeout.
pub fn options() -> PushOptions {
    PushOptions {
        time: Duration::from_secs(60),
        first_delay: Duration::from_millis(2),
        longest_delay: Duration::from_millis(20),
        lookup: Arc::new(Names::default()),
        // These webhooks are on loopback, and their clients are not local users.
        private_hosts: vec!["localhost".to_owned()],
        ..PushOptions::default()
    }
}

impl Stage {
    pub fn new(agent: Arc<dyn Agent>) -> Self {
        Self::with(Arc::new(MemoryStore::default()), agent, options())
    }

    pub fn doing(acts: impl IntoIterator<Item = Act>) -> Self {
        Self::new(ScriptAgent::doing(acts))
    }

    pub fn with(store: Arc<dyn Store>, agent: Arc<dyn Agent>, options: PushOptions) -> Self {
        let hub = Arc::new(client::hub(store.clone(), agent));
        let defaults = Defaults {
            settings: client::settings(Mode::Ask),
            workspace: PathBuf::from("/"),
            roots: vec![PathBuf::from("/")],
            reserved_dirs: Vec::new(),
            agent: AgentName("script".into()),
            tools: Vec::new(),
            auto_execute: false,
            model_check: Arc::new(|_| Ok(())),
        };
        let oauth = Arc::new(OAuth::new(store.clone(), SampleClient::Off).unwrap());
        let server = Server::new(hub.clone(), ServedSessions::Many, defaults, facts());
        let server = server.with_push(options).with_oauth(oauth);
        Self { store, hub, server: Arc::new(server) }
    }

    /// A graceful stop.
    pub async fn stop(self) {
        self.server.stop_push().await;
        self.hub.stop().await;
    }

    pub async fn ask(&self, who: &str, method: &str, params: Value) -> Result<Reply, Value> {
        self.ask_with(who, method, params, Extension::Off).await
    }

    pub async fn ask_with(
        &self,
        who: &str,
        method: &str,
        params: Value,
        extension: Extension,
    ) -> Result<Reply, Value> {
        self.ask_of(&caller(who), method, params, extension).await
    }

    pub async fn ask_as(
        &self,
        caller: &Caller,
        method: &str,
        params: Value,
    ) -> Result<Reply, Value> {
        self.ask_of(caller, method, params, Extension::Off).await
    }

    async fn ask_of(
        &self,
        caller: &Caller,
        method: &str,
        params: Value,
        extension: Extension,
    ) -> Result<Reply, Value> {
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let Ok(Body::One(call)) = jsonrpc::parse(request.to_string().as_bytes(), None) else {
            panic!("{request}");
        };
        let view = View::of_call(method, None);
        let asked = match decode(&call, None, extension) {
            Ok(asked) => self.server.ask(asked, caller, None).await,
            Err(error) => Err(error),
        };
        asked.map_err(|error| serde_json::to_value(view.refuse(&error)).unwrap())
    }

    /// A request of the task service.
    pub async fn task_of(&self, who: &str, method: &str, params: Value) -> Result<Value, Value> {
        let call = Call { id: Id::NULL, method: method.to_owned(), params };
        let reading =
            DecodeOptions { ids: legacy::TaskIds::OfClient(who), send: Delivery::WhenSettled };
        let asked = match legacy::decode(&call, reading) {
            Ok(asked) => self.server.ask(asked, &caller(who), None).await,
            Err(error) => Err(error),
        };
        match asked {
            Ok(Reply::Value(value)) => Ok(value),
            Ok(Reply::Frame(_) | Reply::Frames(_)) => panic!("{method} streams"),
            Err(error) => Err(serde_json::to_value(View::LEGACY.refuse(&error)).unwrap()),
        }
    }

    /// The value that a request returns.
    pub async fn call(&self, method: &str, params: Value) -> Value {
        match self.ask("ann", method, params).await {
            Ok(Reply::Value(value)) => value,
            Ok(Reply::Frame(_) | Reply::Frames(_)) => panic!("{method} streams"),
            Err(error) => panic!("{method}: {error}"),
        }
    }

    pub async fn refused(&self, method: &str, params: Value) -> Value {
        match self.ask("ann", method, params).await {
            Ok(_) => panic!("{method} is not refused"),
            Err(error) => error,
        }
    }

    /// Sends a 1.0 message with a webhook without waiting; returns the task.
    pub async fn send1(&self, text: &str, config: Value) -> Value {
        let params = send1(text, config);
        self.call("SendMessage", params).await["task"].clone()
    }

    pub async fn session(&self, task: &Value) -> SessionHandle {
        let id = SessionId::from(task["contextId"].as_str().unwrap());
        self.hub.open(&id).await.unwrap()
    }
}

pub fn send1(text: &str, config: Value) -> Value {
    json!({
        "message": { "role": "ROLE_USER", "messageId": "m", "parts": [{ "text": text }] },
        "configuration": { "returnImmediately": true, "taskPushNotificationConfig": config },
    })
}

pub fn send03(text: &str, config: Value) -> Value {
    json!({
        "message": {
            "kind": "message", "role": "user", "messageId": "m",
            "parts": [{ "kind": "text", "text": text }],
        },
        "configuration": { "blocking": false, "pushNotificationConfig": config },
    })
}

pub fn caller(name: &str) -> Caller {
    let mut origin = Origin::new(Surface::A2a, name);
    origin.principal = Some(name.into());
    let principal = Principal { local: true, ..Principal::new(name).may(Scopes::CLIENT) };
    Caller::new(principal, origin)
}

fn facts() -> CardFacts {
    CardFacts { public_url: "http://localhost:1".into(), streaming: true, ..CardFacts::default() }
}

/// A resolver with given answers in turn; the last one repeats.
#[derive(Default)]
pub struct Names(Mutex<HashMap<String, Vec<Vec<IpAddr>>>>);

impl Names {
    pub fn answering(self, name: &str, answers: &[&[&str]]) -> Self {
        let parse = |texts: &&[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        self.0.lock().unwrap().insert(name.to_owned(), answers.iter().map(parse).collect());
        self
    }
}

impl Lookup for Names {
    fn lookup<'a>(&'a self, name: &'a str) -> BoxFuture<'a, std::io::Result<Vec<IpAddr>>> {
        let mut names = self.0.lock().unwrap();
        let found = names.get_mut(name).map(|answers| match answers.len() {
            1 => answers[0].clone(),
            _ => answers.remove(0),
        });
        let found = found.ok_or_else(|| std::io::Error::other("there is no such name"));
        Box::pin(std::future::ready(found))
    }
}
