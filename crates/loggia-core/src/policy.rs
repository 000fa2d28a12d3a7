//! Decides whether a call may run, by mode and rules and by what the call can change.
//!
//! Deny rules come first, then the mode, then remembered rules; every other call is asked about. An
//! allow rule for commands applies only to lines that the [`ShellParser`] could read.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::approval::{Choice, ChoiceId, Risk};
use crate::call::{Access, Details};
use crate::id::RuleId;
use crate::shell::{CommandPattern, Denial, ShellParser};

/// Which calls are allowed without asking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Edits and commands are asked about.
    #[default]
    Ask,
    /// File edits are allowed, commands are asked about.
    Edits,
    /// Everything is allowed.
    All,
    /// Read only: changes are refused.
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

    /// Orders modes by how much they allow.
    pub fn permissiveness(self) -> u8 {
        match self {
            Mode::Plan => 0,
            Mode::Ask => 1,
            Mode::Edits => 2,
            Mode::All => 3,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    pub id: RuleId,
    pub matcher: Matcher,
    pub allow: bool,
    pub scope: RuleLifetime,
    /// The directory in which a command rule allows, as a real path; None: the workspace's root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
    /// The guest that granted it. It then applies to that guest's prompts only. None: the owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Arc<str>>,
}

impl Rule {
    /// Whether it applies to calls for a prompt of this guest; None: a prompt of the owner.
    pub fn applies_to(&self, guest: Option<&str>) -> bool {
        self.principal.is_none() || self.principal.as_deref() == guest
    }

    /// Whether this guest may see and revoke it. The owner (None) may see and revoke all.
    pub fn is_open_to(&self, guest: Option<&str>) -> bool {
        guest.is_none() || self.principal.as_deref() == guest
    }

    fn applies_in(&self, directory: &str, root: &str) -> bool {
        self.directory.as_deref().unwrap_or(root) == directory
    }

    /// Describes the rule for people. `root` is the workspace.
    pub fn describe(&self, root: &str) -> String {
        let Matcher::Command(_) = self.matcher else { return self.matcher.to_string() };
        if !self.allow {
            return self.matcher.to_string();
        }
        let directory = self.directory.as_deref().filter(|directory| *directory != root);
        match directory {
            None => format!("{} in the workspace's root", self.matcher),
            Some(directory) => {
                let below = directory.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
                format!("{} in {}", self.matcher, below.unwrap_or(directory))
            }
        }
    }
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

/// How long a rule lives, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleLifetime {
    Session,
    /// Remembered for the workspace until revoked.
    Project,
    /// Written by a person in a configuration file.
    Configured,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// The text names the mode or rule that allowed it; the id is that of the rule.
    Allow(String, Option<RuleId>),
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

/// The rules of the settings, then those of the session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Policy {
    pub mode: Mode,
    pub rules: Vec<Rule>,
    /// The workspace's root.
    pub root: String,
}

impl Policy {
    /// Judges a call for a prompt of this guest (None: of the owner).
    pub fn judge(
        &self,
        tool: &str,
        access: Access,
        details: &Details,
        guest: Option<&str>,
        shell: &dyn ShellParser,
    ) -> Verdict {
        if let Some(why) = self.forbids(tool, details, shell) {
            return Verdict::Deny(why);
        }
        match (access, self.mode) {
            (Access::Read | Access::Session, _) => {
                Verdict::Allow("reading is always allowed".into(), None)
            }
            (Access::Ask, _) => Verdict::Ask(Risk::Normal),
            (Access::Edit | Access::Execute | Access::Other, Mode::Plan) => {
                Verdict::Deny("plan mode is read-only: nothing was changed".into())
            }
            (Access::Edit | Access::Execute | Access::Other, Mode::All) => {
                Verdict::Allow("mode all".into(), None)
            }
            (Access::Edit | Access::Execute | Access::Other, _) if is_protected(details) => {
                Verdict::Ask(Risk::High)
            }
            (Access::Edit, Mode::Edits) => Verdict::Allow("mode edits".into(), None),
            (Access::Edit | Access::Execute | Access::Other, Mode::Ask | Mode::Edits) => {
                self.by_rule(tool, details, guest, shell).unwrap_or(Verdict::Ask(Risk::Normal))
            }
        }
    }

    /// The reason if a deny rule applies. Deny rules apply to everyone, in every mode.
    pub fn forbids(
        &self,
        tool: &str,
        details: &Details,
        shell: &dyn ShellParser,
    ) -> Option<String> {
        let denying = self.rules.iter().filter(|rule| !rule.allow);
        let found = denying.filter_map(|rule| Some((rule, denies(rule, tool, details, shell)?)));
        let (rule, denial) = found.max_by_key(|(_, denial)| *denial)?;
        let why = format!("a rule forbids it: {}", rule.matcher);
        Some(match denial {
            Denial::Named => why,
            Denial::Possible => format!(
                "{why}. The line could run that: some of its words are only known once the shell \
                 expands them. Write every command in plain words"
            ),
        })
    }

    fn by_rule(
        &self,
        tool: &str,
        details: &Details,
        guest: Option<&str>,
        shell: &dyn ShellParser,
    ) -> Option<Verdict> {
        let allows = |wanted: &dyn Fn(&Rule) -> bool| {
            self.rules.iter().find(|rule| rule.allow && rule.applies_to(guest) && wanted(rule))
        };
        let rule = match details {
            Details::Execute { command, directory } => {
                let commands = shell.plain_commands(command)?;
                let mut last = None;
                for plain in &commands {
                    last = Some(allows(&|rule| {
                        let fits = matches!(&rule.matcher, Matcher::Command(pattern) if pattern.matches(plain));
                        fits && rule.applies_in(directory, &self.root)
                    })?);
                }
                last?
            }
            Details::Edit(_) => allows(&|rule| rule.matcher == Matcher::Edits)?,
            Details::Mcp { .. } | Details::Generic { .. } => {
                allows(&|rule| matches!(&rule.matcher, Matcher::Tool(name) if name == tool))?
            }
            Details::Question { .. } => return None,
        };
        let why = format!("rule {}: {}", rule.id, rule.matcher);
        Some(Verdict::Allow(why, Some(rule.id.clone())))
    }
}

fn denies(rule: &Rule, tool: &str, details: &Details, shell: &dyn ShellParser) -> Option<Denial> {
    match (&rule.matcher, details) {
        (Matcher::Command(pattern), Details::Execute { command, .. }) => {
            shell.denies(command, pattern)
        }
        (Matcher::Edits, Details::Edit(_)) => Some(Denial::Named),
        (Matcher::Tool(name), _) => (name == tool).then_some(Denial::Named),
        (Matcher::Command(_) | Matcher::Edits, _) => None,
    }
}

fn is_protected(details: &Details) -> bool {
    matches!(details, Details::Edit(diff) if diff.protected)
}

/// The rule that "always" would add for this call. None if no rule is safe: for a shell line that is
/// not one plain command, a protected file, or a question.
pub fn rule_for(tool: &str, details: &Details, shell: &dyn ShellParser) -> Option<Matcher> {
    match details {
        Details::Execute { command, .. } => match shell.plain_commands(command)?.as_slice() {
            [only] => Some(Matcher::Command(CommandPattern::exact(only))),
            _ => None,
        },
        Details::Edit(diff) if diff.protected => None,
        Details::Edit(_) => Some(Matcher::Edits),
        Details::Mcp { .. } | Details::Generic { .. } => Some(Matcher::Tool(tool.to_owned())),
        Details::Question { .. } => None,
    }
}

/// The answers offered for a call. An "always" answer names exactly the rule that it adds.
pub fn choices(tool: &str, details: &Details, risk: Risk, shell: &dyn ShellParser) -> Vec<Choice> {
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
        && let Some(matcher) = rule_for(tool, details, shell)
    {
        let (session, project) = match &matcher {
            // The rule applies in the directory that the question shows.
            Matcher::Command(_) => {
                ("in this directory for this session", "always in this directory")
            }
            Matcher::Edits | Matcher::Tool(_) => ("for this session", "always in this project"),
        };
        offered.push(choice(ChoiceId::PROCEED_ALWAYS, format!("Allow {matcher} {session}")));
        offered
            .push(choice(ChoiceId::PROCEED_ALWAYS_PROJECT, format!("Allow {matcher} {project}")));
    }
    offered.push(choice(ChoiceId::CANCEL, "Refuse".into()));
    offered
}
