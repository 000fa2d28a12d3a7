//! What a client wishes for its session, and what it gets: where it works, and what passes without a
//! question. Within policy; what a client is not given is said.

use std::collections::BTreeSet;
use std::path::Path;

use loggia_core::{Command, Level, Mode, Settings};
use loggia_session::SessionHandle;
use loggia_wire::{AgentSettings, Condition, WireError};

use crate::dispatch::submit;
use crate::grant;
use crate::state::{Caller, Defaults, Server, submit_error};

impl Defaults {
    /// Why clients may not work in a directory. The path is free of links.
    pub(crate) fn closes(&self, path: &Path) -> Option<&'static str> {
        let outside = !self.roots.iter().any(|root| path.starts_with(root));
        let own = self.walls.iter().any(|wall| path.starts_with(wall));
        let (outside, own) = (
            outside.then_some("it lies outside the directories that are served"),
            own.then_some("Loggia keeps its own files there"),
        );
        outside.or(own)
    }
}

impl Server {
    /// The directory a session works in: the client's wish, if it lies below an allowed root.
    pub(crate) fn workspace(&self, asked: Option<&AgentSettings>) -> Result<String, WireError> {
        let refused = |why| WireError::from(Condition::WorkspaceRefused { why });
        let path = match asked.and_then(|asked| asked.workspace_path.as_deref()) {
            None => self.defaults.workspace.clone(),
            Some(path) => {
                let path = Path::new(path).canonicalize();
                let path = path.ok().filter(|path| path.is_dir());
                let path = path.ok_or(refused("it is no directory here"))?;
                if let Some(why) = self.defaults.closes(&path) {
                    return Err(refused(why));
                }
                if path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
                    return Err(refused("it is git's own"));
                }
                path
            }
        };
        path.to_str().map(str::to_owned).ok_or(refused("its name is not valid UTF-8"))
    }

    /// Takes a client's wishes into the settings of a session that is to be its own.
    pub(crate) fn configure(
        &self,
        settings: &mut Settings,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<Vec<String>, WireError> {
        let mut notices = Vec::new();
        settings.mode = grant::mode(settings.mode, &caller.principal);
        // Nobody else sees the session: who may not answer would be asked in vain.
        settings.unattended = !caller.principal.scopes.approve;
        let Some(asked) = asked else { return Ok(notices) };
        settings.unattended |= asked.unattended;
        if asked.auto_execute == Some(false) {
            settings.mode = asking(settings.mode);
        }
        if asked.auto_execute == Some(true) {
            match self.defaults.auto_execute {
                true => settings.mode = Mode::All,
                false => {
                    notices.push("autoExecute is not allowed here: calls still ask".to_owned())
                }
            }
        }
        if let Some(tools) = self.allowed_tools(asked)? {
            settings.tools = Some(tools.clone());
        }
        notices.extend(without_servers(asked));
        Ok(notices)
    }

    fn allowed_tools<'a>(
        &self,
        asked: &'a AgentSettings,
    ) -> Result<Option<&'a Vec<String>>, WireError> {
        let Some(tools) = &asked.allowed_tools else { return Ok(None) };
        let known = |name: &String| self.defaults.tools.iter().any(|tool| tool.name == *name);
        match tools.iter().all(known) {
            true => Ok(Some(tools)),
            false => {
                let setting = "allowed_tools names an unknown tool";
                Err(Condition::SettingRefused { setting }.into())
            }
        }
    }

    /// Whether a message fits a session that there is already, and takes back what it wants taken
    /// back: calls ask again. A session is not given more than it was opened with, which is said.
    pub(crate) async fn fit(
        &self,
        handle: &SessionHandle,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<(), WireError> {
        self.same_workspace(handle, asked).await?;
        let Some(asked) = asked else { return Ok(()) };
        let tools = self.allowed_tools(asked)?;
        let of =
            |session: &loggia_core::Session| session.opened().map(|opened| opened.settings.clone());
        let Some(settings) = handle.inspect(of).await.map_err(submit_error)? else { return Ok(()) };
        let mut notices: Vec<String> = without_servers(asked).into_iter().collect();
        if asked.auto_execute == Some(true) && settings.mode != Mode::All {
            notices.push(
                "autoExecute is not given to a session that there is: calls still ask".into(),
            );
        }
        let sorted = |tools: &Vec<String>| tools.iter().cloned().collect::<BTreeSet<_>>();
        if tools.is_some() && settings.tools.as_ref().map(sorted) != tools.map(sorted) {
            notices.push(
                "allowed_tools is for a session's first message: this one keeps its tools".into(),
            );
        }
        if !notices.is_empty() {
            // By the client: it is for whoever asked, not for whoever is being worked for now.
            let notice = Command::Notice { level: Level::Warning, text: notices.join(". ") };
            submit(handle, notice, caller).await?;
        }
        // What passes in a session that people share is theirs to say.
        let lowers = asked.auto_execute == Some(false) && self.is_many();
        let mode = asking(grant::mode(self.defaults.settings.mode, &caller.principal));
        if lowers && mode.freedom() < settings.mode.freedom() {
            let command = Command::Configure { settings: Settings { mode, ..settings } };
            handle.submit(command, caller.origin.clone()).await.map_err(submit_error)?;
        }
        Ok(())
    }
}

/// The mode of a client that wants to be asked: whatever the server's own, not everything passes.
fn asking(mode: Mode) -> Mode {
    if mode == Mode::All { Mode::Ask } else { mode }
}

fn without_servers(asked: &AgentSettings) -> Option<String> {
    let servers = asked.mcp_servers.as_ref()?;
    let none = servers.as_object().is_some_and(serde_json::Map::is_empty);
    (!none).then(|| "MCP servers are not used by this version".to_owned())
}
