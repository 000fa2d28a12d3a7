//! `/name`: shows or sets the session's name.

use loggia_core::SessionName;
use loggia_core::shell::quoted;
use loggia_session::{Turn, TurnOver};

use super::say;

pub async fn name(turn: &Turn, wanted: Option<&str>) -> Result<(), TurnOver> {
    let Some(wanted) = wanted else {
        let text = match &turn.context().name {
            Some(name) => SessionName::notice(name),
            None => "This session has no name: `/name NAME` gives it one.".to_owned(),
        };
        return say(turn, text).await;
    };
    let name = SessionName::parse(wanted).map_err(|error| TurnOver::Failed(error.to_string()))?;
    let resume = format!("`loggia --session {}` resumes it.", quoted(name.as_str()));
    let text = format!("{} {resume}", SessionName::notice(name.as_str()));
    turn.name(name).await?;
    say(turn, text).await
}
