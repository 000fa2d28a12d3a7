//! The trivial agent on the official Rust SDK (a2a-server-lf): `peer PORT`.

use std::sync::Arc;

use a2a::{
    A2AError, AgentCapabilities, AgentCard, AgentInterface, Artifact, Part, StreamResponse, Task,
    TaskArtifactUpdateEvent, TaskState, TaskStatus, TaskStatusUpdateEvent,
};
use a2a_server::agent_card::agent_card_router;
use a2a_server::jsonrpc::jsonrpc_router;
use a2a_server::{
    AgentExecutor, DefaultRequestHandler, ExecutorContext, InMemoryTaskStore, StaticAgentCard,
};
use axum::serve::ListenerExt;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

type Events = BoxStream<'static, Result<StreamResponse, A2AError>>;

struct Agent {
    released: watch::Sender<bool>,
}

/// The ids that every event of a task carries.
#[derive(Clone)]
struct Ids {
    task: String,
    context: String,
}

impl Ids {
    fn status(&self, state: TaskState) -> StreamResponse {
        StreamResponse::StatusUpdate(TaskStatusUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            status: TaskStatus { state, message: None, timestamp: None },
            metadata: None,
        })
    }

    fn artifact(&self, id: String, text: String) -> StreamResponse {
        StreamResponse::ArtifactUpdate(TaskArtifactUpdateEvent {
            task_id: self.task.clone(),
            context_id: self.context.clone(),
            artifact: Artifact {
                artifact_id: id,
                name: None,
                description: None,
                parts: vec![Part::text(text)],
                metadata: None,
                extensions: None,
            },
            append: None,
            last_chunk: Some(true),
            metadata: None,
        })
    }
}

#[async_trait::async_trait]
impl AgentExecutor for Agent {
    fn execute(&self, context: ExecutorContext) -> Events {
        let ids = Ids { task: context.task_id.clone(), context: context.context_id.clone() };
        let text = context.message.as_ref().and_then(|message| message.text()).unwrap_or("");
        let words: Vec<&str> = text.split(' ').collect();
        let begin = [
            StreamResponse::Task(Task {
                id: ids.task.clone(),
                context_id: ids.context.clone(),
                status: TaskStatus { state: TaskState::Submitted, message: None, timestamp: None },
                artifacts: None,
                history: context.message.clone().map(|message| vec![message]),
                metadata: None,
            }),
            ids.status(TaskState::Working),
        ];
        let begin = stream::iter(begin).map(Ok);
        let end = stream::iter([Ok(ids.status(TaskState::Completed))]);
        match words.as_slice() {
            ["burst", count] => {
                let count: usize = count.parse().unwrap_or(0);
                let mut released = self.released.subscribe();
                let lines = stream::once(async move {
                    // The sender lives as long as the agent.
                    let _ = released.wait_for(|released| *released).await;
                    let line = move |number| ids.artifact(number_id(number), line_text(number));
                    stream::iter((0..count).map(line)).map(Ok)
                });
                begin.chain(lines.flatten()).chain(end).boxed()
            }
            ["release"] => {
                self.released.send_replace(true);
                begin.chain(end).boxed()
            }
            _ => {
                let answer = ids.artifact("answer".to_owned(), "hi".to_owned());
                begin.chain(stream::iter([Ok(answer)])).chain(end).boxed()
            }
        }
    }

    fn cancel(&self, context: ExecutorContext) -> Events {
        let ids = Ids { task: context.task_id, context: context.context_id };
        stream::iter([Ok(ids.status(TaskState::Canceled))]).boxed()
    }
}

fn number_id(number: usize) -> String {
    format!("line-{number}")
}

fn line_text(number: usize) -> String {
    format!("line {number}")
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let capabilities = AgentCapabilities { streaming: Some(true), ..AgentCapabilities::default() };
    let card = AgentCard {
        name: "peer".to_owned(),
        description: "The trivial agent.".to_owned(),
        version: "1.0.0".to_owned(),
        supported_interfaces: vec![AgentInterface::new(
            format!("http://127.0.0.1:{port}/"),
            "JSONRPC",
        )],
        capabilities: capabilities.clone(),
        default_input_modes: vec!["text/plain".to_owned()],
        default_output_modes: vec!["text/plain".to_owned()],
        skills: Vec::new(),
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: None,
        security_requirements: None,
        signatures: None,
    };
    let agent = Agent { released: watch::channel(false).0 };
    let requests =
        DefaultRequestHandler::new(agent, InMemoryTaskStore::new()).with_capabilities(capabilities);
    let router = jsonrpc_router(Arc::new(requests))
        .merge(agent_card_router(Arc::new(StaticAgentCard::new(card))));
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    // Without it a stream's events wait for the client's acknowledgements: 40 ms for the first.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router).await
}
