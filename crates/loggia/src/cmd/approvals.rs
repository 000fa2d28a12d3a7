//! `loggia approvals`: lists and revokes the permanent approvals of this project.

use std::io::Write;
use std::process::ExitCode;

use loggia_session::hub;

use super::require_person::require_person;
use crate::cli::ApprovalsCommand;
use crate::compose::App;
use crate::exit::UsageError;
use crate::style::one_line;

pub async fn run(command: ApprovalsCommand, app: &App) -> anyhow::Result<ExitCode> {
    let store = app.open_store()?;
    let workspace = app.workspace_text()?;
    let rules = hub::project_rules(store.as_ref(), &workspace).await?;
    match command {
        ApprovalsCommand::List if rules.is_empty() => {
            let workspace = one_line(&workspace);
            writeln!(std::io::stderr(), "No permanent approvals in {workspace}.")?;
        }
        ApprovalsCommand::List => {
            for rule in &rules {
                writeln!(
                    std::io::stdout(),
                    "{}  {}",
                    one_line(rule.id.as_str()),
                    one_line(&rule.describe(&workspace))
                )?;
            }
        }
        ApprovalsCommand::Revoke { rules: wanted } => {
            require_person("change what is always allowed")?;
            for id in wanted {
                let Some(rule) = rules.iter().find(|rule| rule.id.as_str() == id) else {
                    let why = format!(
                        "there is no rule `{id}` in this project: see `loggia approvals list`"
                    );
                    return Err(UsageError(why).into());
                };
                hub::forget_rule(store.as_ref(), &workspace, &id).await?;
                writeln!(std::io::stdout(), "revoked: {}", one_line(&rule.describe(&workspace)))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
