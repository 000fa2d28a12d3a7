//! Tests the external programs: searched on `PATH` and started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use rustix::fs::{Access, access};
use tokio::process::Command;

use super::Check;
use crate::config::Environment;

/// Timeout of a test.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The search path, and the environment that commands get.
pub struct Programs {
    path: OsString,
    variables: Vec<(OsString, OsString)>,
}

impl Programs {
    pub fn new(environment: &Environment, pass: &[String]) -> Self {
        let path = environment.get_os("PATH").map(ToOwned::to_owned).unwrap_or_default();
        Self { path, variables: environment.child_environment(pass) }
    }

    /// Ignores relative entries: `.` on `PATH` would find a program in the project.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        std::env::split_paths(&self.path)
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(name))
            .find(|path| path.is_file() && access(path, Access::EXEC_OK).is_ok())
    }

    /// Runs a program. Returns its first output line, or why it failed.
    pub async fn ask(&self, program: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir("/")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let Output { status, stdout, stderr } = tokio::time::timeout(TIMEOUT, command.output())
            .await
            .map_err(|_| format!("no answer within {} seconds", TIMEOUT.as_secs()))?
            .map_err(|error| error.to_string())?;
        let first = |bytes: &[u8]| {
            let text = String::from_utf8_lossy(bytes).into_owned();
            text.lines().next().unwrap_or_default().trim().to_owned()
        };
        match status.success() {
            true => Ok(first(&stdout)),
            false => Err(format!("{status} {}", first(&stderr)).trim().to_owned()),
        }
    }
}

pub async fn git(programs: &Programs) -> Check {
    let Some(path) = programs.find("git") else {
        return Check::limited("git", "not found on PATH", "Install git to work in repositories.");
    };
    match programs.ask(&path, &["--version"]).await {
        Ok(version) => Check::works("git", format!("{version} ({})", path.display())),
        Err(reason) => Check::limited(
            "git",
            format!("{} does not run: {reason}", path.display()),
            "Repair or reinstall git.",
        ),
    }
}

pub async fn shell(programs: &Programs, configured: Option<&Path>) -> Check {
    // The same choice as `run_shell_command`: the configured shell, else bash, else sh.
    let shell = configured.map(Path::to_owned).or_else(|| programs.find("bash"));
    let shell = shell.unwrap_or_else(|| PathBuf::from("/bin/sh"));
    let shown = shell.display();
    match programs.ask(&shell, &["-c", "echo works"]).await {
        Ok(answer) if answer == "works" => Check::works("shell", format!("{shown} runs commands")),
        Ok(answer) => {
            let text = format!("{shown} is not a shell: `echo works` printed `{answer}`");
            Check::broken("shell", text, "Set `shell.program` to a POSIX shell, such as /bin/sh.")
        }
        Err(reason) => Check::broken(
            "shell",
            format!("{shown} does not run: {reason}"),
            "Set `shell.program` to a POSIX shell, such as /bin/sh.",
        ),
    }
}
