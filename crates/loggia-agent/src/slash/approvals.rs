//! `/approvals`: lists and revokes rules.

use loggia_core::origin::PRINCIPAL_SEPARATOR;
use loggia_core::{Rule, RuleLifetime};
use loggia_session::{Turn, TurnOver};

use super::say;

pub async fn list(turn: &Turn) -> Result<(), TurnOver> {
    let rules = rules(turn).await?;
    let mode = turn.context().settings.approvals();
    if rules.is_empty() {
        let text = format!("No rule is in force here; the mode is {mode}.");
        return say(turn, text).await;
    }
    let root = turn.context().workspace.path();
    let lines: Vec<String> = rules.iter().map(|rule| line(rule, root)).collect();
    let text = format!(
        "{}\n\nThe mode is {mode}. `/approvals revoke RULE` revokes a rule.",
        lines.join("\n")
    );
    say(turn, text).await
}

pub async fn revoke(turn: &Turn, id: &str) -> Result<(), TurnOver> {
    let rules = rules(turn).await?;
    let exact = rules.iter().find(|rule| rule.id.as_str() == id);
    let mut prefixed = rules.iter().filter(|rule| rule.id.as_str().starts_with(id));
    let rule = match (exact, prefixed.next(), prefixed.next()) {
        (Some(rule), _, _) | (None, Some(rule), None) => rule,
        (None, Some(_), Some(_)) => {
            return failed(format!("more than one rule begins with `{id}`: give more of the id"));
        }
        (None, None, _) => {
            return failed(format!("there is no rule `{id}`: see `/approvals list`"));
        }
    };
    if rule.scope == RuleLifetime::Configured {
        return failed(format!(
            "{} is in the configuration: change it there (`loggia config`)",
            rule.matcher
        ));
    }
    turn.revoke(rule.id.clone()).await?;
    let text = match rule.allow {
        true => {
            let what = rule.describe(turn.context().workspace.path());
            format!("Revoked: {what}. It needs approval again.")
        }
        false => format!("Revoked: {} is no longer forbidden.", rule.matcher),
    };
    say(turn, text).await
}

fn failed(why: String) -> Result<(), TurnOver> {
    Err(TurnOver::Failed(why))
}

/// The rules in force. A guest gets only the rules that it granted itself.
async fn rules(turn: &Turn) -> Result<Vec<Rule>, TurnOver> {
    let mut rules = turn.rules().await?;
    let guest = turn.context().guest.as_deref();
    rules.retain(|rule| rule.is_open_to(guest));
    Ok(rules)
}

fn line(rule: &Rule, root: &str) -> String {
    let what = if rule.allow { "allow" } else { "forbid" };
    let scope = match rule.scope {
        RuleLifetime::Session => "for this session",
        RuleLifetime::Project => "always in this workspace",
        RuleLifetime::Configured => "from the configuration",
    };
    let whose =
        match rule.principal.as_deref().and_then(|name| name.split(PRINCIPAL_SEPARATOR).next()) {
            Some(name) => format!(", for prompts of {name}"),
            None => String::new(),
        };
    format!("- `{}`: {what} {}, {scope}{whose}", rule.id, rule.describe(root))
}
