//! `list_directory`: the entries of one directory.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loggia_core::{Access, Output};
use rustix::fs::{AtFlags, Dir, FileType, readlinkat, statat};

use super::input::input;
use super::text::{Lines, counted, one_line};
use super::typed::{Call, TypedTool};
use super::{Preview, ToolError, ToolResult};
use crate::workspace::Workspace;

/// Entries that are read.
const ENTRIES: usize = 200_000;
const TIME: Duration = Duration::from_secs(10);
/// Entries that are shown.
const SHOWN: usize = 2000;
const SHOWN_BYTES: usize = 256 * 1024;

input! {
    pub(super) struct Input {
        /// The directory, relative to the workspace. Default: the workspace itself.
        path: Option<String>,
    }
}

pub(super) struct ListDirectory;

impl TypedTool for ListDirectory {
    const NAME: &'static str = "list_directory";
    const DESCRIPTION: &'static str =
        "Lists a directory: names, sizes, a slash after each directory.";
    const ACCESS: Access = Access::Read;
    type Input = Input;

    async fn preview(&self, input: Input, workspace: &Arc<Workspace>) -> ToolResult<Preview> {
        Ok(Preview::plain(format!("list {}", workspace.locate_or_root(input.path.as_deref())?)))
    }

    async fn run(&self, input: Input, call: Call<'_>) -> ToolResult<Output> {
        call.read(move |workspace| list(workspace, &input)).await.map(Output::text)
    }
}

/// The directory's entries, sorted by name, one per line.
fn list(workspace: &Workspace, input: &Input) -> ToolResult<String> {
    let path = workspace.locate_or_root(input.path.as_deref())?;
    let directory = workspace.open_directory(&path)?;
    let failed = |errno: rustix::io::Errno| ToolError::new("io", format!("`{path}`: {errno}"));
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
        return Ok(format!("[{path} is empty]"));
    }
    names.sort();
    let mut lines = Lines::new(SHOWN, SHOWN_BYTES);
    for name in &names {
        let shown = one_line(OsStr::from_bytes(name.to_bytes()));
        // The entry was removed after it was read.
        let Ok(stat) = statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
        let line = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => format!("{shown}/"),
            FileType::RegularFile => format!("{shown} ({})", counted_bytes(stat.st_size)),
            FileType::Symlink => {
                let target = readlinkat(&directory, name, Vec::new()).unwrap_or_default();
                format!("{shown} -> {}", one_line(OsStr::from_bytes(target.to_bytes())))
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
