//! What a client may have cloned, and where the copy will be. Decided before anything is created.
//!
//! What must not be here: git, and the copy itself. It is made by the session's first turn.

use std::path::{Path, PathBuf};

use loggia_core::repository::{AllowedSources, RepositoryUrl, Scheme, clone_name, is_clone_name};
use loggia_core::{Repository, SessionId, Workspace};
use loggia_wire::{Condition, RepositoryFields, Violation, WireError};

use crate::state::Defaults;

/// Which repositories sessions may work in copies of.
#[derive(Debug, Clone)]
pub struct ClonePolicy {
    /// Where copies are kept.
    pub directory: PathBuf,
    pub sources: AllowedSources,
    /// How many there may be.
    pub count: u64,
}

impl ClonePolicy {
    /// The repository as it is going to be cloned, if it may be; `defaults` know what of this machine
    /// is served.
    pub(crate) fn admit(
        &self,
        repository: &Repository,
        fields: &RepositoryFields,
        defaults: &Defaults,
    ) -> Result<Repository, WireError> {
        let url = repository.address().map_err(|why| violation(&fields.url, why))?;
        self.sources.admit(&url).map_err(|why| violation(&fields.url, why))?;
        repository.named_revision().map_err(|why| violation(&fields.revision, why))?;
        let url = match url.scheme {
            Scheme::File => served(&url.path, fields, defaults)?,
            Scheme::Https | Scheme::Ssh | Scheme::Http | Scheme::Git => url,
        };
        Ok(Repository { url: url.to_string(), ..repository.clone() })
    }

    /// A place for the copy of a new session, as long as there is room for one more.
    pub(crate) fn place(
        &self,
        session: &SessionId,
        repository: Repository,
    ) -> Result<Workspace, WireError> {
        let refused = |why| WireError::from(Condition::WorkspaceRefused { why });
        if copies(&self.directory) >= self.count {
            return Err(Condition::ClonesFull.into());
        }
        let path = self.directory.join(clone_name(session));
        let path = path.to_str().ok_or(refused("its name is not valid UTF-8"))?.to_owned();
        Ok(Workspace::Clone { path, repository })
    }
}

/// A repository of this machine lies where clients may work anyway.
fn served(
    path: &str,
    fields: &RepositoryFields,
    defaults: &Defaults,
) -> Result<RepositoryUrl, WireError> {
    let refused = |why| violation(&fields.url, why);
    let found = Path::new(path).canonicalize().ok().filter(|path| path.is_dir());
    let found = found.filter(|path| defaults.closes(path).is_none());
    let outside =
        "must name a repository below the directories that are served, and none of Loggia's own";
    let found = found.ok_or_else(|| refused(outside))?;
    let text = found.to_str().map(|text| format!("file://{text}"));
    let text = text.ok_or_else(|| refused("must be valid UTF-8"))?;
    RepositoryUrl::parse(&text).map_err(refused)
}

/// What is made or left beside a copy has its name and an ending.
fn copies(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let whole = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_clone_name));
    whole.count() as u64
}

fn violation(field: &str, why: &str) -> WireError {
    WireError::Invalid(Violation { field: field.to_owned(), why: why.to_owned() })
}
