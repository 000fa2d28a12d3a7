//! Opens a model by its configured name. Only this module knows all models.

use std::path::Path;
use std::sync::Arc;

use super::Model;
use super::offline::{self, OfflineModel};
use super::scripted::{self, ScriptError, ScriptedModel};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelConfigError {
    #[error(
        "there is no model `{name}`: set `model` in config.toml to {}; this version has no real \
         providers yet",
        NAMES
    )]
    Unknown { name: String },
    #[error(
        "`{0}` needs a file after the colon, such as `{0}examples/tour.toml`",
        scripted::PREFIX
    )]
    NoFile,
    #[error(transparent)]
    Script(#[from] ScriptError),
}

/// The names of all models, for people.
pub const NAMES: &str = "`offline` or `scripted:FILE`";

/// `offline`, or `scripted:FILE` with the file relative to `directory`. Blocks on the file system.
pub fn open(name: &str, directory: &Path) -> Result<Arc<dyn Model>, ModelConfigError> {
    let name = name.trim();
    if name == offline::NAME {
        return Ok(Arc::new(OfflineModel));
    }
    match name.strip_prefix(scripted::PREFIX).map(str::trim) {
        Some("") => Err(ModelConfigError::NoFile),
        Some(file) => Ok(Arc::new(ScriptedModel::open(file, directory)?)),
        None => Err(ModelConfigError::Unknown { name: super::actions::start(name) }),
    }
}
