//! A terminal interface whose host panics on `/share`, for the test of the panic hook.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "it panics on purpose")]

use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::BoxFuture;
use loggia_core::{CustomCommands, Millis, Origin, Prices, Surface};
use loggia_session::LocalClient;
use loggia_testkit::client::{create, memory_hub};
use loggia_testkit::{Act, ScriptAgent};
use loggia_tui::theme::Theme;
use loggia_tui::{ConnectedClient, Host, Preview, ShareFacts, Start};
use tokio::sync::watch;

struct Clumsy(watch::Sender<Vec<ConnectedClient>>);

impl Host for Clumsy {
    fn files(&self, _found: &mut dyn FnMut(String) -> ControlFlow<()>) {}

    fn commands(&self) -> CustomCommands {
        CustomCommands::default()
    }

    fn history(&self) -> Vec<String> {
        Vec::new()
    }

    fn remember(&self, _text: &str) {}

    fn sessions(&self) -> BoxFuture<'_, Result<Vec<Preview>, String>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn open_session<'a>(
        &'a self,
        _session: &'a loggia_core::SessionId,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }

    fn share(&self) -> ShareFacts {
        panic!("on purpose")
    }

    fn share_on(&self, _port: Option<u16>) -> BoxFuture<'_, Result<ShareFacts, String>> {
        Box::pin(async { Err("not here".to_owned()) })
    }

    fn invite<'a>(&'a self, _scopes: &'a str) -> BoxFuture<'a, Result<ShareFacts, String>> {
        Box::pin(async { Err("not here".to_owned()) })
    }

    fn presence(&self) -> watch::Receiver<Vec<ConnectedClient>> {
        self.0.subscribe()
    }

    fn connection_problem(&self) -> watch::Receiver<String> {
        watch::channel(String::new()).1
    }

    fn edit(&self, _name: &str, _text: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Its turns panic too, on a thread of the session, which must not affect the interface.
        let hub = memory_hub(ScriptAgent::doing([Act::Panic("in a turn".into())]));
        let handle = create(&hub).await;
        let me = Origin::new(Surface::Tui, "me");
        let start = Start {
            me: me.clone(),
            head: handle.head(),
            opened: Millis(0),
            history: Vec::new(),
            fullscreen: false,
            vim: false,
            size: (80, 24),
            reflows: false,
            theme: Theme::default(),
            prices: Prices::default(),
            asks_background: false,
        };
        let client = Arc::new(LocalClient::new(handle, me));
        let host = Arc::new(Clumsy(watch::channel(Vec::new()).0));
        loggia_tui::run(client, host, start).await.unwrap();
    });
}
