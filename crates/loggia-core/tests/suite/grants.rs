//! Granting and revoking rules: by whom, for which prompts, and in which directory.

use loggia_core::{
    Amendment, Authority, ChoiceId, Command, Details, Envelope, Event, Matcher, Mode, Origin,
    Output, Policy, Proposal, Refusal, Rule, RuleLifetime, Session, TaskChoice, Verdict,
};
use loggia_shell::{Parser, parse_pattern};

use super::scenarios::script::{Script, browser, ide, shell, tui};

/// A process of the same user, without a credential.
fn local() -> Origin {
    Origin { principal: Some("local:1000".into()), ..ide() }
}

fn shell_in(command: &str, directory: &str) -> Proposal {
    let details = Details::Execute { command: command.into(), directory: directory.into() };
    Proposal { details, ..shell(command) }
}

fn configured(command: &str) -> Rule {
    Rule {
        id: "config-1".into(),
        matcher: Matcher::Command(parse_pattern(command).unwrap()),
        allow: true,
        scope: RuleLifetime::Configured,
        directory: None,
        principal: None,
    }
}

fn is_asked(script: &Script, call: &str) -> bool {
    script.session.open_approvals().any(|(open, _)| open.id.as_str() == call)
}

/// Runs prompts with one call each, and tells whether the call is asked about.
struct Calls {
    script: Script,
    count: usize,
}

impl Calls {
    fn new(rules: Vec<Rule>) -> Self {
        Self { script: Script::open(Mode::Ask, rules), count: 0 }
    }

    /// The call that a new turn of this origin proposes; the turn stays open.
    fn propose(&mut self, by: Origin, proposal: Proposal) -> (String, bool) {
        self.count += 1;
        let (prompt, call) = (format!("prompt-{}", self.count), format!("call-{}", self.count));
        self.script.prompt(by, &prompt, TaskChoice::New, "do it");
        self.script.propose("message", &call, proposal);
        let asked = is_asked(&self.script, &call);
        (call, asked)
    }

    /// The same, and ends the turn.
    fn asks(&mut self, by: Origin, proposal: Proposal) -> bool {
        let (call, asked) = self.propose(by, proposal);
        if asked {
            self.script.answer(tui(), &call, ChoiceId::CANCEL, None);
        } else {
            self.script.succeed(&call, Output::text("done"));
        }
        self.script.finish();
        asked
    }

    fn grant(&mut self, by: Origin, answered_by: Origin, choice: &str, proposal: Proposal) {
        let (call, asked) = self.propose(by, proposal);
        assert!(asked);
        self.script.answer(answered_by, &call, choice, None);
        self.script.succeed(&call, Output::text("done"));
        self.script.finish();
    }
}

#[test]
fn a_configured_rule_holds_in_the_root_only() {
    let mut calls = Calls::new(vec![configured("git status")]);
    assert!(!calls.asks(tui(), shell_in("git status", "/work/project")));
    for directory in ["/work/project/sub", "/work/projects", "/work", "/", "", "/work/project/."] {
        assert!(calls.asks(tui(), shell_in("git status", directory)), "{directory}");
    }
}

/// A call that would run more than its details show: no rule allows it, and none can be added.
#[test]
fn a_rule_does_not_allow_what_needs_a_person() {
    let mut calls = Calls::new(vec![configured("git status")]);
    let proposal = Proposal { needs_person: true, ..shell_in("git status", "/work/project") };
    let (_, asked) = calls.propose(tui(), proposal);
    assert!(asked);
    let (_, approval) = calls.script.session.open_approvals().next().unwrap();
    let ids: Vec<&str> = approval.choices.iter().map(|choice| choice.id.0.as_str()).collect();
    assert_eq!(ids, [ChoiceId::PROCEED_ONCE, ChoiceId::CANCEL]);
}

#[test]
fn a_granted_rule_holds_in_its_directory_only() {
    for choice in [ChoiceId::PROCEED_ALWAYS, ChoiceId::PROCEED_ALWAYS_PROJECT] {
        let mut calls = Calls::new(Vec::new());
        calls.grant(tui(), tui(), choice, shell_in("git status", "/work/project/sub"));
        assert!(!calls.asks(tui(), shell_in("git status", "/work/project/sub")));
        assert!(calls.asks(tui(), shell_in("git status", "/work/project")));
        assert!(calls.asks(tui(), shell_in("git status", "/work/project/sub/deeper")));
    }
}

#[test]
fn a_rule_of_an_older_version_means_the_root() {
    let text = r#"{"id":"r","matcher":{"type":"command","pattern":{"words":["git","status"],"open":false}},"allow":true,"scope":"project"}"#;
    let rule: Rule = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&rule).unwrap(), text, "and is written as it was");
    let mut calls = Calls::new(vec![rule]);
    assert!(!calls.asks(tui(), shell_in("git status", "/work/project")));
    assert!(calls.asks(tui(), shell_in("git status", "/work/project/sub")));
}

#[test]
fn a_question_says_that_a_command_is_granted_for_its_directory() {
    let mut calls = Calls::new(Vec::new());
    let (_, asked) = calls.propose(tui(), shell("git status"));
    assert!(asked);
    let (_, approval) = calls.script.session.open_approvals().next().unwrap();
    let names: Vec<&str> = approval.choices.iter().map(|choice| choice.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "Allow once",
            "Allow command `git status` in this directory for this session",
            "Allow command `git status` always in this directory",
            "Refuse",
        ]
    );
}

#[test]
fn a_call_that_passes_by_a_rule_says_which() {
    let policy = Policy {
        mode: Mode::Ask,
        rules: vec![configured("git status")],
        root: "/work/project".into(),
    };
    let judge = |policy: &Policy| {
        let Proposal { tool, access, details, .. } = shell("git status");
        policy.judge(&tool, access, &details, None, &Parser)
    };
    let Verdict::Allow(_, Some(rule)) = judge(&policy) else { panic!("it asks") };
    assert_eq!(rule.as_str(), "config-1");
    let all = Policy { mode: Mode::All, ..policy };
    assert!(matches!(judge(&all), Verdict::Allow(_, None)));
    // Authorities of older versions have no rule id.
    let old = r#"{"type":"rule","rule":"mode all"}"#;
    let authority: Authority = serde_json::from_str(old).unwrap();
    assert_eq!(authority, Authority::Rule { rule: "mode all".into(), id: None });
}

#[test]
fn only_the_owner_grants_for_the_project() {
    let mut calls = Calls::new(Vec::new());
    let (call, _) = calls.propose(ide(), shell("git status"));
    let refused = calls.script.refused(ide(), &call, ChoiceId::PROCEED_ALWAYS_PROJECT);
    let instead = ["proceed_once", "proceed_always", "cancel"].map(str::to_owned).to_vec();
    assert_eq!(
        refused.to_string(),
        "`proceed_always_project` is only for the user who runs Loggia: choose one of \
         proceed_once, proceed_always, cancel instead"
    );
    assert_eq!(refused, Refusal::OwnerOnly { given: "proceed_always_project".into(), instead });
    assert!(is_asked(&calls.script, &call), "the question stays open");
    calls.script.answer(local(), &call, ChoiceId::PROCEED_ALWAYS_PROJECT, None);
    assert_eq!(calls.script.session.policy().rules[0].scope, RuleLifetime::Project);
}

#[test]
fn a_guests_rule_holds_for_its_own_prompts() {
    let mut calls = Calls::new(Vec::new());
    calls.grant(ide(), ide(), ChoiceId::PROCEED_ALWAYS, shell("git status"));
    assert!(!calls.asks(ide(), shell("git status")));
    for other in [tui(), local(), browser()] {
        assert!(calls.asks(other.clone(), shell("git status")), "{other}");
    }
}

/// A guest's answer to another client's question applies to its own prompts only.
#[test]
fn a_guests_answer_to_another_clients_question_is_for_its_own_prompts() {
    let mut calls = Calls::new(Vec::new());
    calls.grant(tui(), ide(), ChoiceId::PROCEED_ALWAYS, shell("git status"));
    assert!(calls.asks(tui(), shell("git status")));
    assert!(!calls.asks(ide(), shell("git status")));
}

#[test]
fn the_owners_rule_holds_for_everybody() {
    for owner in [tui(), local()] {
        let mut calls = Calls::new(Vec::new());
        calls.grant(ide(), owner, ChoiceId::PROCEED_ALWAYS, shell("git status"));
        for by in [tui(), local(), ide(), browser()] {
            assert!(!calls.asks(by.clone(), shell("git status")), "{by}");
        }
    }
}

/// Older logs have the principal only in the envelope.
#[test]
fn a_rule_in_an_older_log_belongs_to_the_guest_that_granted_it() {
    let mut calls = Calls::new(Vec::new());
    calls.grant(ide(), ide(), ChoiceId::PROCEED_ALWAYS, shell("git status"));
    let mut session = Session::default();
    for line in calls.script.to_jsonl().lines() {
        let line = line.replace(r#","principal":"ada"}}"#, "}}");
        let envelope: Envelope = serde_json::from_str(&line).unwrap();
        if let Event::PolicyAmended { amendment: Amendment::Added { rule } } = &envelope.event {
            assert_eq!(rule.principal, None, "{line}");
        }
        session.apply(&envelope);
    }
    assert_eq!(session.policy().rules[0].principal.as_deref(), Some("ada"));
}

#[test]
fn a_guest_revokes_its_own_rules_only() {
    let mut calls = Calls::new(vec![configured("git log")]);
    calls.grant(tui(), tui(), ChoiceId::PROCEED_ALWAYS, shell("git status"));
    calls.grant(ide(), ide(), ChoiceId::PROCEED_ALWAYS, shell("git diff"));
    let rules = calls.script.session.policy().rules.clone();
    let [_, owners, guests] = rules.as_slice() else { panic!("{rules:?}") };
    let revoke =
        |rule: &Rule| Command::Amend { amendment: Amendment::Revoked { rule: rule.id.clone() } };
    for (by, rule) in [(ide(), &rules[0]), (ide(), owners), (browser(), guests)] {
        let refused = calls.script.refused_command(by.clone(), revoke(rule));
        assert_eq!(refused, Refusal::UnknownRule, "{by}");
    }
    calls.script.submit(ide(), revoke(guests));
    assert!(calls.asks(ide(), shell("git diff")));
    calls.script.submit(local(), revoke(owners));
    assert!(calls.asks(tui(), shell("git status")));
}
