//! Which repositories a client may have cloned, and where the clone will be. Decided before the session is created.
//!
//! Not here: git, and the clone itself, which the session's first turn makes.

use std::path::{Path, PathBuf};

use loggia_core::repository::{AllowedSources, RepositoryUrl, Scheme, clone_name, is_clone_name};
use loggia_core::{Repository, SessionId, Workspace};
use loggia_wire::{Condition, RepositoryFields, Violation, WireError};

use crate::state::Defaults;

/// Which repositories may be cloned.
#[derive(Debug, Clone)]
pub struct ClonePolicy {
    /// Where clones are kept.
    pub directory: PathBuf,
    pub sources: AllowedSources,
    /// How many clones there may be.
    pub count: u64,
}

impl ClonePolicy {
    /// The repository as it will be cloned, if it may be. `defaults` says which directories of this machine are served.
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

    /// The workspace of a new session, unless there are too many clones.
    pub(crate) fn workspace(
        &self,
        session: &SessionId,
        repository: Repository,
    ) -> Result<Workspace, WireError> {
        let refused = |why| WireError::from(Condition::WorkspaceRefused { why });
        if clone_count(&self.directory) >= self.count {
            return Err(Condition::ClonesFull.into());
        }
        let path = self.directory.join(clone_name(session));
        let path = path.to_str().ok_or(refused("its name is not valid UTF-8"))?.to_owned();
        Ok(Workspace::Clone { path, repository })
    }
}

/// A local repository must be in a directory where clients may work.
fn served(
    path: &str,
    fields: &RepositoryFields,
    defaults: &Defaults,
) -> Result<RepositoryUrl, WireError> {
    let refused = |why| violation(&fields.url, why);
    let found = Path::new(path).canonicalize().ok().filter(|path| path.is_dir());
    let found = found.filter(|path| defaults.why_refused(path).is_none());
    let outside = "must name a repository below the served directories, and none of Loggia's own";
    let found = found.ok_or_else(|| refused(outside))?;
    let text = found.to_str().map(|text| format!("file://{text}"));
    let text = text.ok_or_else(|| refused("must be valid UTF-8"))?;
    RepositoryUrl::parse(&text).map_err(refused)
}

/// Temporary directories beside a clone have its name and a suffix, and are not counted.
fn clone_count(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let whole = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_clone_name));
    whole.count() as u64
}

fn violation(field: &str, why: &str) -> WireError {
    WireError::Invalid(Violation { field: field.to_owned(), why: why.to_owned() })
}
