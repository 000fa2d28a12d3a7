//! The settings that a client asks for its session: the workspace, the mode, the tools. Applied within policy; the client
//! is told which ones were not applied.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loggia_core::{
    Command, Effort, Level, Mode, ModelName, Repository, SessionId, Settings, Workspace,
};
use loggia_session::SessionHandle;
use loggia_wire::{AgentSettings, Condition, WireError};

use crate::clones::ClonePolicy;
use crate::dispatch::submit;
use crate::mode;
use crate::state::{Caller, Defaults, Server, submit_error};

impl Defaults {
    /// Why clients may not work in a directory, which is a canonical path.
    pub(crate) fn why_refused(&self, path: &Path) -> Option<&'static str> {
        let outside = !self.roots.iter().any(|root| path.starts_with(root));
        let own = self.reserved_dirs.iter().any(|reserved| path.starts_with(reserved));
        let (outside, own) = (
            outside.then_some("it is outside of the served directories"),
            own.then_some("Loggia keeps its own files there"),
        );
        outside.or(own)
    }
}

impl Server {
    /// The directory a session works in: the requested one, if it is below an allowed root.
    pub(crate) fn workspace(&self, asked: Option<&AgentSettings>) -> Result<String, WireError> {
        let refused = |why| WireError::from(Condition::WorkspaceRefused { why });
        let path = match asked.and_then(|asked| asked.workspace_path.as_deref()) {
            None => self.defaults.workspace.clone(),
            Some(path) => {
                let path = Path::new(path).canonicalize();
                let path = path.ok().filter(|path| path.is_dir());
                let path = path.ok_or(refused("it is not a directory on this machine"))?;
                if let Some(why) = self.defaults.why_refused(&path) {
                    return Err(refused(why));
                }
                if path.components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git")) {
                    return Err(refused("it is inside a .git directory"));
                }
                path
            }
        };
        path.to_str().map(str::to_owned).ok_or(refused("its name is not valid UTF-8"))
    }

    /// Applies a client's settings to its new session, except for a lower mode ([`Self::lower_mode`]). Returns what to tell the client about those that were not applied.
    pub(crate) fn configure(
        &self,
        settings: &mut Settings,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<Vec<String>, WireError> {
        let mut notices = Vec::new();
        settings.mode = mode::of_principal(settings.mode, &caller.principal);
        // No other client sees the session, so a client without this scope cannot be asked.
        settings.unattended = !caller.principal.scopes.approve;
        let Some(asked) = asked else { return Ok(notices) };
        settings.unattended |= asked.unattended;
        if asked.auto_execute == Some(true) && settings.mode != Mode::All {
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
        notices.extend(mcp_notice(asked));
        notices.extend(self.choose_model(settings, asked));
        Ok(notices)
    }

    /// Applies the model and the effort. Returns what to tell the client if they cannot be had.
    fn choose_model(&self, settings: &mut Settings, asked: &AgentSettings) -> Vec<String> {
        let mut notices = Vec::new();
        if let Some(name) = &asked.model {
            match (self.defaults.model_check)(name) {
                Ok(()) => settings.model = ModelName(name.clone()),
                Err(why) => {
                    notices.push(format!("{why}; this session uses {}", settings.model));
                }
            }
        }
        if let Some(name) = &asked.effort {
            match Effort::from_name(name) {
                Some(effort) => settings.effort = Some(effort),
                None => {
                    let levels = Effort::ALL.map(Effort::name).join(", ");
                    notices.push(format!("effort is not one of {levels}: it is not applied"));
                }
            }
        }
        notices
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

    /// Checks a message's settings against an existing session, and lowers the mode if asked to. A session never gets more
    /// than it was opened with; a notice tells the client.
    pub(crate) async fn apply_to_existing(
        &self,
        handle: &SessionHandle,
        asked: Option<&AgentSettings>,
        caller: &Caller,
    ) -> Result<(), WireError> {
        self.check_workspace(handle, asked).await?;
        let Some(asked) = asked else { return Ok(()) };
        let tools = self.allowed_tools(asked)?;
        let of =
            |session: &loggia_core::Session| session.opened().map(|opened| opened.settings.clone());
        let Some(settings) = handle.inspect(of).await.map_err(submit_error)? else { return Ok(()) };
        let mut notices: Vec<String> = mcp_notice(asked).into_iter().collect();
        if asked.auto_execute == Some(true) && settings.mode != Mode::All {
            notices.push(
                "autoExecute cannot be turned on for an existing session: calls still ask".into(),
            );
        }
        let sorted = |tools: &Vec<String>| tools.iter().cloned().collect::<BTreeSet<_>>();
        if tools.is_some() && settings.tools.as_ref().map(sorted) != tools.map(sorted) {
            notices.push(
                "allowed_tools is for a session's first message: this session keeps its tools"
                    .into(),
            );
        }
        let other_model = asked.model.as_ref().is_some_and(|name| *name != settings.model.0);
        let other_effort = asked
            .effort
            .as_deref()
            .is_some_and(|name| settings.effort.map(Effort::name) != Some(name));
        if other_model || other_effort {
            notices.push(
                "model and effort are for a session's first message: /model and /effort change them"
                    .into(),
            );
        }
        if !notices.is_empty() {
            // With the client's origin: the notice belongs to this client's message, not to the running turn.
            let notice = Command::Notice { level: Level::Warning, text: notices.join(". ") };
            submit(handle, notice, caller).await?;
        }
        Box::pin(self.lower_mode(handle, asked, caller)).await
    }

    /// Lowers the mode of a session if its client asks for that. A change of its own also in a new session, so that the
    /// client is told.
    pub(crate) async fn lower_mode(
        &self,
        handle: &SessionHandle,
        asked: &AgentSettings,
        caller: &Caller,
    ) -> Result<(), WireError> {
        // The mode of a shared session is not changed by a client.
        if asked.auto_execute != Some(false) || !self.serves_many_sessions() {
            return Ok(());
        }
        let of =
            |session: &loggia_core::Session| session.opened().map(|opened| opened.settings.clone());
        let Some(settings) = handle.inspect(of).await.map_err(submit_error)? else { return Ok(()) };
        let mode = asking(mode::of_principal(self.defaults.settings.mode, &caller.principal));
        if mode.permissiveness() < settings.mode.permissiveness() {
            let command = Command::Configure { settings: Settings { mode, ..settings } };
            handle.submit(command, caller.origin.clone()).await.map_err(submit_error)?;
        }
        Ok(())
    }

    /// Fails if the message asks for another workspace than the session's.
    async fn check_workspace(
        &self,
        handle: &SessionHandle,
        settings: Option<&AgentSettings>,
    ) -> Result<(), WireError> {
        if let Some(repository) = self.repository(settings)? {
            let of = |session: &loggia_core::Session| {
                session.opened().and_then(|opened| opened.workspace.repository().cloned())
            };
            let same = handle.inspect(of).await.map_err(submit_error)? == Some(repository);
            return if same { Ok(()) } else { Err(Condition::WorkspaceDiffers.into()) };
        }
        let Some(path) = settings.and_then(|settings| settings.workspace_path.as_deref()) else {
            return Ok(());
        };
        let at = handle
            .inspect(|session| session.opened().map(|opened| opened.workspace.path().to_owned()))
            .await
            .map_err(submit_error)?;
        let same = at.is_some_and(|at| {
            Path::new(path).canonicalize().is_ok_and(|path| path == Path::new(&at))
        });
        if same { Ok(()) } else { Err(Condition::WorkspaceDiffers.into()) }
    }

    /// Where a new session works.
    pub(crate) fn workspace_choice(
        &self,
        asked: Option<&AgentSettings>,
    ) -> Result<WorkspaceChoice<'_>, WireError> {
        match (self.repository(asked)?, &self.clones) {
            (Some(repository), Some(clones)) => Ok(WorkspaceChoice::Clone(repository, clones)),
            (Some(_), None) | (None, _) => Ok(WorkspaceChoice::Directory(self.workspace(asked)?)),
        }
    }

    /// The directory of a new session; None for a clone.
    pub(crate) fn directory_of(
        &self,
        asked: Option<&AgentSettings>,
    ) -> Result<Option<PathBuf>, WireError> {
        Ok(match self.workspace_choice(asked)? {
            WorkspaceChoice::Directory(path) => Some(path.into()),
            WorkspaceChoice::Clone(..) => None,
        })
    }

    /// The repository that a client asks for, if it may be cloned.
    fn repository(&self, asked: Option<&AgentSettings>) -> Result<Option<Repository>, WireError> {
        let Some(asked) = asked else { return Ok(None) };
        let Some(repository) = &asked.repository else { return Ok(None) };
        let refused = |why| WireError::from(Condition::WorkspaceRefused { why });
        if asked.workspace_path.is_some() {
            return Err(refused("name a directory or a repository, not both"));
        }
        let clones =
            self.clones.as_ref().ok_or(refused("this server does not clone repositories"))?;
        clones.admit(repository, &asked.repository_fields, &self.defaults).map(Some)
    }
}

/// Where a session works.
pub(crate) enum WorkspaceChoice<'a> {
    Directory(String),
    Clone(Repository, &'a ClonePolicy),
}

impl WorkspaceChoice<'_> {
    pub(crate) fn workspace(&self, session: &SessionId) -> Result<Workspace, WireError> {
        match self {
            WorkspaceChoice::Directory(path) => Ok(Workspace::Local { path: path.clone() }),
            WorkspaceChoice::Clone(repository, clones) => {
                clones.workspace(session, repository.clone())
            }
        }
    }
}

/// The mode of a client that wants to be asked: anything but `All`.
fn asking(mode: Mode) -> Mode {
    if mode == Mode::All { Mode::Ask } else { mode }
}

fn mcp_notice(asked: &AgentSettings) -> Option<String> {
    let servers = asked.mcp_servers.as_ref()?;
    let none = servers.as_object().is_some_and(serde_json::Map::is_empty);
    (!none).then(|| "MCP servers are not used by this version".to_owned())
}
