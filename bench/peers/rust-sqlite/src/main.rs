//! The trivial agent on a2a-protocol-server with its SQLite task store: `peer-sqlite PORT`.
//!
//! The store has its own defaults: `tasks.db` in the current directory, WAL, `synchronous=NORMAL`.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;

use a2a_protocol_server::store::SqliteTaskStore;
use a2a_protocol_server::streaming::EventQueueWriter;
use a2a_protocol_server::{
    AgentExecutor, EventEmitter, JsonRpcDispatcher, RequestContext, RequestHandlerBuilder, serve,
};
use a2a_protocol_types::error::A2aResult;
use a2a_protocol_types::{AgentCard, AgentInterface, AgentSkill, Part, TaskState};
use tokio::sync::watch;

struct Agent {
    released: watch::Sender<bool>,
}

impl AgentExecutor for Agent {
    fn execute<'a>(
        &'a self,
        context: &'a RequestContext,
        queue: &'a dyn EventQueueWriter,
    ) -> Pin<Box<dyn Future<Output = A2aResult<()>> + Send + 'a>> {
        Box::pin(async move {
            let emit = EventEmitter::new(context, queue);
            emit.status(TaskState::Working).await?;
            let text = context.message.text().unwrap_or("");
            match text.split(' ').collect::<Vec<_>>().as_slice() {
                ["burst", count] => {
                    // The sender lives as long as the agent, so the wait cannot fail.
                    let _ = self.released.subscribe().wait_for(|released| *released).await;
                    for number in 0..count.parse().unwrap_or(0) {
                        let parts = vec![Part::text(format!("line {number}"))];
                        emit.artifact(&format!("line-{number}"), parts, None, Some(true)).await?;
                    }
                }
                ["release"] => drop(self.released.send_replace(true)),
                _ => emit.artifact("answer", vec![Part::text("hi")], None, Some(true)).await?,
            }
            emit.status(TaskState::Completed).await
        })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).and_then(|port| port.parse().ok()).unwrap_or(0);
    let url = format!("http://127.0.0.1:{port}/");
    let card = AgentCard::new("peer", "1.0.0", AgentInterface::jsonrpc(url))
        .with_description("The trivial agent.")
        .with_streaming(true)
        .with_skill(AgentSkill::new("say", "Say", "Says hi.").with_tags(["say"]));
    let agent = Agent { released: watch::channel(false).0 };
    let store = SqliteTaskStore::with_migrations("sqlite:tasks.db").await?;
    let handler =
        RequestHandlerBuilder::new(agent).with_agent_card(card).with_task_store(store).build()?;
    serve(("127.0.0.1", port), JsonRpcDispatcher::new(Arc::new(handler))).await?;
    Ok(())
}
