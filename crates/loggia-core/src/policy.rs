//! May this call run? Rules and modes, in one place, by what a call touches.
//!
//! Deny beats everything, a person's mode comes next, remembered rules after that, and whatever is
//! left is asked. A command rule speaks for a parsed command line only ([`crate::shell`]).

use serde::{Deserialize, Serialize};

use crate::approval::{Choice, ChoiceId, Risk};
use crate::call::{Access, Details};
use crate::id::RuleId;
use crate::shell::{self, CommandPattern};

/// How much passes without a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Edits and commands ask.
    #[default]
    Ask,
    /// File edits pass, commands ask.
    Edits,
    /// Everything passes.
    All,
    /// Read only: whatever changes something is refused.
    Plan,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Ask => "ask",
            Mode::Edits => "edits",
            Mode::All => "all",
            Mode::Plan => "plan",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub id: RuleId,
    pub matcher: Matcher,
    pub allow: bool,
    pub scope: Scope,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", content = "pattern", rename_all = "snake_case")]
pub enum Matcher {
    Command(CommandPattern),
    /// Every edit in the workspace, protected files excepted.
    Edits,
    /// One tool of kind [`Access::Other`], by its full name.
    Tool(String),
}

/// How long a rule lives, and where it came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    Session,
    /// Remembered for the workspace until revoked.
    Project,
    /// Written by a person in a configuration file.
    Configured,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The text names the mode or rule that let it pass.
    Allow(String),
    Ask(Risk),
    Deny(String),
}

impl std::fmt::Display for Matcher {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Matcher::Command(pattern) => write!(out, "command `{pattern}`"),
            Matcher::Edits => out.write_str("file edits"),
            Matcher::Tool(name) => write!(out, "tool {name}"),
        }
    }
}

/// The rules in force: the settings' rules, then the session's own.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    pub mode: Mode,
    pub rules: Vec<Rule>,
}

impl Policy {
    pub fn judge(&self, tool: &str, access: Access, details: &Details) -> Verdict {
        if let Some(why) = self.forbids(tool, details) {
            return Verdict::Deny(why);
        }
        match (access, self.mode) {
            (Access::Read | Access::Session, _) => {
                Verdict::Allow("reading is always allowed".into())
            }
            (Access::Ask, _) => Verdict::Ask(Risk::Normal),
            (Access::Edit | Access::Execute | Access::Other, Mode::Plan) => {
                Verdict::Deny("plan mode is read-only: nothing was changed".into())
            }
            (Access::Edit | Access::Execute | Access::Other, Mode::All) => {
                Verdict::Allow("mode all".into())
            }
            (Access::Edit | Access::Execute | Access::Other, _) if is_protected(details) => {
                Verdict::Ask(Risk::High)
            }
            (Access::Edit, Mode::Edits) => Verdict::Allow("mode edits".into()),
            (Access::Edit | Access::Execute | Access::Other, Mode::Ask | Mode::Edits) => {
                self.by_rule(tool, details).unwrap_or(Verdict::Ask(Risk::Normal))
            }
        }
    }

    /// Why a rule forbids it, whoever wants it and in whatever mode.
    pub fn forbids(&self, tool: &str, details: &Details) -> Option<String> {
        let rule = self.rules.iter().find(|rule| !rule.allow && denies(rule, tool, details))?;
        Some(format!("a rule forbids it: {}", rule.matcher))
    }

    fn by_rule(&self, tool: &str, details: &Details) -> Option<Verdict> {
        let allows = |wanted: &dyn Fn(&Matcher) -> bool| {
            self.rules.iter().find(|rule| rule.allow && wanted(&rule.matcher))
        };
        let rule = match details {
            Details::Execute { command, .. } => {
                let commands = shell::plain_commands(command).ok()?;
                let mut last = None;
                for plain in &commands {
                    last = Some(allows(
                        &|matcher| matches!(matcher, Matcher::Command(pattern) if pattern.matches(plain)),
                    )?);
                }
                last?
            }
            Details::Edit(_) => allows(&|matcher| *matcher == Matcher::Edits)?,
            Details::Mcp { .. } | Details::Generic { .. } => {
                allows(&|matcher| matches!(matcher, Matcher::Tool(name) if name == tool))?
            }
            Details::Question { .. } => return None,
        };
        Some(Verdict::Allow(format!("rule {}: {}", rule.id, rule.matcher)))
    }
}

fn denies(rule: &Rule, tool: &str, details: &Details) -> bool {
    match (&rule.matcher, details) {
        (Matcher::Command(pattern), Details::Execute { command, .. }) => {
            shell::mentions(command, pattern)
        }
        (Matcher::Edits, Details::Edit(_)) => true,
        (Matcher::Tool(name), _) => name == tool,
        (Matcher::Command(_) | Matcher::Edits, _) => false,
    }
}

fn is_protected(details: &Details) -> bool {
    matches!(details, Details::Edit(diff) if diff.protected)
}

/// What "always" would remember for this call, or None where nothing safe can be remembered: a
/// command line that is not one plain command, a protected file, a question.
pub fn rule_for(tool: &str, details: &Details) -> Option<Matcher> {
    match details {
        Details::Execute { command, .. } => match shell::plain_commands(command).ok()?.as_slice() {
            [only] => Some(Matcher::Command(CommandPattern::exact(only))),
            _ => None,
        },
        Details::Edit(diff) if diff.protected => None,
        Details::Edit(_) => Some(Matcher::Edits),
        Details::Mcp { .. } | Details::Generic { .. } => Some(Matcher::Tool(tool.to_owned())),
        Details::Question { .. } => None,
    }
}

/// The answers offered for a call. The rule named is the rule that would be stored.
pub fn choices(tool: &str, details: &Details, risk: Risk) -> Vec<Choice> {
    let choice = |id: &str, name: String| Choice { id: id.into(), name, description: None };
    if let Details::Question { options, .. } = details {
        let mut offered: Vec<Choice> = options
            .iter()
            .enumerate()
            .map(|(index, option)| choice(&format!("option_{}", index + 1), option.clone()))
            .collect();
        offered.push(choice(ChoiceId::ANSWER, "Answer in words".into()));
        offered.push(choice(ChoiceId::CANCEL, "Do not answer".into()));
        return offered;
    }
    let mut offered = vec![choice(ChoiceId::PROCEED_ONCE, "Allow once".into())];
    if risk == Risk::Normal
        && let Some(matcher) = rule_for(tool, details)
    {
        offered.push(choice(ChoiceId::PROCEED_ALWAYS, format!("Allow {matcher} for this session")));
        offered.push(choice(
            ChoiceId::PROCEED_ALWAYS_PROJECT,
            format!("Allow {matcher} always in this project"),
        ));
    }
    offered.push(choice(ChoiceId::CANCEL, "Refuse".into()));
    offered
}

/// Files that configure git, Loggia, editors, shells or CI: changing one is never routine.
pub fn protects(path: &str) -> bool {
    const NAMES: &[&str] = &[
        ".git",
        ".loggia",
        ".vscode",
        ".idea",
        ".mcp.json",
        ".claude",
        ".codex",
        ".gemini",
        ".opencode",
        ".github",
        ".gitlab-ci.yml",
        ".circleci",
        ".bashrc",
        ".bash_profile",
        ".profile",
        ".zshrc",
        ".zprofile",
        ".envrc",
        ".gitmodules",
        ".gitattributes",
        ".husky",
    ];
    path.split('/').any(|part| NAMES.iter().any(|name| part.eq_ignore_ascii_case(name)))
}
