//! The extended card: how sessions are set up, for a caller that may read them. Who asks was settled
//! before; what is public stays in the card itself. And what both cards say of getting in.

use loggia_core::SessionId;
use loggia_wire::card::AuthScheme;
use loggia_wire::{CardFacts, CardKind, Condition, Dialect, Extended, WireError, extended_card};

use crate::auth::SCOPES;
use crate::dispatch::Reply;
use crate::state::{Caller, Server, Shape, submit_error};

impl Server {
    pub(crate) async fn extended_card(
        &self,
        dialect: Dialect,
        caller: &Caller,
    ) -> Result<Reply, WireError> {
        if !self.facts.extended_card {
            return Err(Condition::ExtendedCardNotSupported.into());
        }
        let extended = match &self.shape {
            Shape::Shared(session) => self.setup_of(session, caller).await?,
            Shape::Many => self.setup_of_new_sessions(caller),
        };
        let kind = match dialect {
            Dialect::A2a03 | Dialect::Legacy | Dialect::Sdlc | Dialect::Coder => CardKind::A2a03,
            Dialect::Proto03 => CardKind::Proto03,
            Dialect::A2a1 => CardKind::A2a1,
        };
        Ok(Reply::Value(extended_card(&self.card_facts().await, &extended, kind)))
    }

    /// What the cards say now: clients may be registered while the server runs.
    pub async fn card_facts(&self) -> CardFacts {
        let mut facts = self.facts.clone();
        let known = match &self.oauth {
            Some(oauth) => oauth.is_in_use().await,
            None => false,
        };
        if known {
            if facts.auth.is_empty() {
                facts.auth.push(AuthScheme::Nothing);
            }
            let word = |(name, allows): (&str, &str)| (name.to_owned(), allows.to_owned());
            facts.auth.push(AuthScheme::ClientCredentials {
                token_url: format!("{}{}", facts.public_url, crate::http::TOKEN),
                scopes: SCOPES.map(word).to_vec(),
                needed: vec!["read".to_owned(), "prompt".to_owned()],
            });
        }
        facts
    }

    /// As it is now, which may differ from how it began.
    async fn setup_of(&self, id: &SessionId, caller: &Caller) -> Result<Extended, WireError> {
        let handle = self.session(id, caller).await?;
        let session = Some(id.clone());
        let look = move |state: &loggia_core::Session| {
            let opened = state.opened()?;
            let settings = &opened.settings;
            Some(Extended {
                session,
                workspace: opened.workspace.path().to_owned(),
                roots: Vec::new(),
                mode: settings.mode,
                model: settings.model.clone(),
                tools: settings.tools.clone(),
            })
        };
        let looked = handle.inspect(look).await.map_err(submit_error)?;
        looked.ok_or_else(|| Condition::Internal.into())
    }

    fn setup_of_new_sessions(&self, caller: &Caller) -> Extended {
        let settings = &self.defaults.settings;
        let shown = |path: &std::path::PathBuf| path.display().to_string();
        // Of use only to somebody who may open a session there.
        let roots = match caller.principal.scopes.prompt {
            true => self.defaults.roots.iter().map(shown).collect(),
            false => Vec::new(),
        };
        Extended {
            session: None,
            workspace: shown(&self.defaults.workspace),
            roots,
            mode: settings.mode,
            model: settings.model.clone(),
            tools: settings.tools.clone(),
        }
    }
}
