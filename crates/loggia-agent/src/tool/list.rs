//! `list_directory`: what is in one directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use loggia_core::{Access, Output};
use loggia_session::Permit;
use rustix::fs::{AtFlags, Dir, FileType, readlinkat, statat};
use serde::Deserialize;
use serde_json::Value;

use super::input::{self, Field, Kind};
use super::text::{Lines, counted, listed};
use super::{Preview, Tool, ToolError, ToolSpec, reading};
use crate::workspace::Workspace;

/// Names that are read at all.
const ENTRIES: usize = 200_000;
const TIME: Duration = Duration::from_secs(10);
/// Names that are shown.
const SHOWN: usize = 2000;
const SHOWN_BYTES: usize = 256 * 1024;

const FIELDS: &[Field] = &[Field::optional(
    "path",
    Kind::Text,
    "The directory, relative to the workspace; the workspace itself unless told.",
)];

#[derive(Deserialize)]
struct Input {
    path: Option<String>,
}

pub(super) struct ListDirectory;

impl Tool for ListDirectory {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_directory".into(),
            description: "Lists a directory: names, sizes, a slash after directories.".into(),
            parameters: input::schema(FIELDS),
            access: Access::Read,
        }
    }

    fn preview<'a>(
        &'a self,
        input: &'a Value,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Preview, ToolError>> {
        Box::pin(async move {
            let input: Input = input::read(FIELDS, input)?;
            let place = workspace.locate(input.path.as_deref().unwrap_or("."))?;
            Ok(Preview::plain(format!("list {place}")))
        })
    }

    fn run<'a>(
        &'a self,
        permit: &'a mut Permit,
        workspace: &'a Arc<Workspace>,
    ) -> BoxFuture<'a, Result<Output, ToolError>> {
        Box::pin(async move {
            let input: Input = input::read(FIELDS, permit.input())?;
            let workspace = Arc::clone(workspace);
            let path = input.path.unwrap_or_else(|| ".".into());
            let text = reading(permit.stop(), move || listing(&workspace, &path));
            Ok(Output::text(text.await?))
        })
    }
}

/// The directory's entries by name, one a line.
pub fn listing(workspace: &Workspace, path: &str) -> Result<String, ToolError> {
    let place = workspace.locate(path)?;
    let directory = workspace.open_directory(&place)?;
    let failed = |errno: rustix::io::Errno| ToolError::new("io", format!("`{place}`: {errno}"));
    let deadline = Instant::now() + TIME;
    let mut names = Vec::new();
    let mut remarks = Vec::new();
    for entry in Dir::read_from(&directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if entry.file_name() == c"." || entry.file_name() == c".." {
            continue;
        }
        if names.len() == ENTRIES || Instant::now() > deadline {
            remarks.push(format!("there are more than {} entries", names.len()));
            break;
        }
        names.push(entry.file_name().to_owned());
    }
    if names.is_empty() {
        return Ok(format!("[{place} is empty]"));
    }
    names.sort();
    let mut lines = Lines::new(SHOWN, SHOWN_BYTES);
    for name in &names {
        let shown = listed(OsStr::from_bytes(name.to_bytes()));
        // Gone since it was read: nothing to say about it.
        let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let line = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => format!("{shown}/"),
            FileType::RegularFile => format!("{shown} ({})", counted_bytes(stat.st_size)),
            FileType::Symlink => {
                let target = readlinkat(&directory, name, Vec::new()).unwrap_or_default();
                format!("{shown} -> {}", listed(OsStr::from_bytes(target.to_bytes())))
            }
            FileType::Fifo => format!("{shown} (a named pipe)"),
            FileType::Socket => format!("{shown} (a socket)"),
            FileType::CharacterDevice | FileType::BlockDevice => format!("{shown} (a device)"),
            FileType::Unknown => shown,
        };
        if !lines.push(&line) {
            break;
        }
    }
    if lines.cut {
        remarks.push(format!("{} of {} entries are shown", lines.count(), names.len()));
    }
    Ok(lines.finish(&remarks))
}

fn counted_bytes(size: i64) -> String {
    counted(usize::try_from(size).unwrap_or_default(), "byte")
}
