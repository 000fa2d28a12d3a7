//! Opens a model by its configured name: a built-in one, or one of a provider. Only this module knows all
//! models.

use std::path::Path;
use std::sync::Arc;

use loggia_models::Providers;

use super::Model;
use super::offline::{self, OfflineModel};
use super::scripted::{self, ScriptError, ScriptedModel};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    #[error(
        "`{0}` needs a file after the colon, such as `{0}examples/tour.toml`",
        scripted::PREFIX
    )]
    NoFile,
    #[error(transparent)]
    Script(#[from] ScriptError),
    /// The provider is unknown, has no key, or cannot be reached as configured.
    #[error("{why}")]
    Provider { why: String },
}

/// The names of all models, for people.
pub const NAMES: &str = "`PROVIDER/MODEL`, `offline` or `scripted:FILE`";

/// `offline`, or `scripted:FILE` with the file relative to `directory`. None: the name is of another model.
/// Blocks on the file system.
pub fn built_in(name: &str, directory: &Path) -> Option<Result<Arc<dyn Model>, ModelConfigError>> {
    let name = name.trim();
    if name == offline::NAME {
        return Some(Ok(Arc::new(OfflineModel)));
    }
    Some(match name.strip_prefix(scripted::PREFIX).map(str::trim)? {
        "" => Err(ModelConfigError::NoFile),
        file => match ScriptedModel::open(file, directory) {
            Ok(model) => Ok(Arc::new(model)),
            Err(error) => Err(error.into()),
        },
    })
}

/// Opens a model. The first one of a provider may ask the provider about it.
pub async fn open(
    name: &str,
    directory: &Path,
    providers: &Providers,
) -> Result<Arc<dyn Model>, ModelConfigError> {
    if let Some(built_in) = built_in(name, directory) {
        return built_in;
    }
    match providers.open(name.trim()).await {
        Ok(model) => Ok(Arc::new(model)),
        Err(error) => Err(ModelConfigError::Provider { why: error.message }),
    }
}

/// Whether a model with this name can be opened, without the network. Blocks on the file system.
pub fn check(name: &str, directory: &Path, providers: &Providers) -> Result<(), ModelConfigError> {
    match built_in(name, directory) {
        Some(opened) => opened.map(drop),
        None => providers
            .check(name.trim())
            .map_err(|error| ModelConfigError::Provider { why: error.message }),
    }
}

/// The name with an absolute path, so that a session can be resumed from another directory.
pub fn absolute(name: &str, directory: &Path) -> String {
    let name = name.trim();
    match name.strip_prefix(scripted::PREFIX).map(str::trim) {
        Some(path) if !path.is_empty() => {
            format!("{}{}", scripted::PREFIX, directory.join(path).display())
        }
        _ => name.to_owned(),
    }
}
