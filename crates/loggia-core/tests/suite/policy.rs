//! Verdicts of the policy: a table, and laws about what no rule can allow.

use std::collections::HashSet;

use loggia_core::policy::choices;
use loggia_core::shell::CommandPattern;
use loggia_core::{
    Access, Authority, ChoiceId, Details, Event, FileDiff, KnownChoice, Matcher, Mode, Policy,
    Risk, Rule, RuleLifetime, Session, Verdict,
};
use loggia_shell::{Parser, parse_pattern, plain_commands};
use proptest::prelude::*;
use proptest::sample::select;

use super::generate::{details, histories, rules};
use super::laws::config;

const ROOT: &str = "/work/project";
const MODES: [Mode; 4] = [Mode::Ask, Mode::Edits, Mode::All, Mode::Plan];

/// The call, the rule, and the verdict in each mode. `ask!` is a question of high risk: "always" is not
/// offered.
const TABLE: &str = "
    call                 rule                   ask     edits   all     plan

    read a file          -                      allow   allow   allow   allow
    read a file          deny tool              deny    deny    deny    deny
    read a file          deny edits             allow   allow   allow   allow
    update the plan      -                      allow   allow   allow   allow

    edit a file          -                      ask     allow   allow   deny
    edit a file          allow edits            allow   allow   allow   deny
    edit a file          allow tool             ask     allow   allow   deny
    edit a file          allow git log          ask     allow   allow   deny
    edit a file          deny edits             deny    deny    deny    deny
    edit a file          deny tool              deny    deny    deny    deny
    edit a file          deny git log           ask     allow   allow   deny
    edit a file          allow+deny edits       deny    deny    deny    deny

    edit a hook          -                      ask!    ask!    allow   deny
    edit a hook          allow edits            ask!    ask!    allow   deny
    edit a hook          deny edits             deny    deny    deny    deny
    mcp edits a hook     -                      ask!    ask!    allow   deny
    mcp edits a hook     allow edits            ask!    ask!    allow   deny

    run git log          -                      ask     ask     allow   deny
    run git log          allow git log          allow   allow   allow   deny
    run git log          allow git *            allow   allow   allow   deny
    run git log          allow git log -p       ask     ask     allow   deny
    run git log          allow edits            ask     ask     allow   deny
    run git log          allow tool             ask     ask     allow   deny
    run git log          deny git log           deny    deny    deny    deny
    run git log          deny git *             deny    deny    deny    deny
    run git log          deny git push          ask     ask     allow   deny
    run git log          allow+deny git log     deny    deny    deny    deny
    run two commands     allow git log          ask     ask     allow   deny
    run two commands     allow git *            allow   allow   allow   deny
    run two commands     deny git push          deny    deny    deny    deny
    run a script         allow git *            ask     ask     allow   deny
    run a script         deny git push          deny    deny    deny    deny

    call mcp             -                      ask     ask     allow   deny
    call mcp             allow tool             allow   allow   allow   deny
    call mcp             allow another tool     ask     ask     allow   deny
    call mcp             allow edits            ask     ask     allow   deny
    call mcp             deny tool              deny    deny    deny    deny

    ask a person         -                      ask     ask     ask     ask
    ask a person         allow tool             ask     ask     ask     ask
    ask a person         deny tool              deny    deny    deny    deny
";

fn call(name: &str) -> (Access, Details) {
    let execute = |command: &str| {
        let directory = ROOT.into();
        (Access::Execute, Details::Execute { command: command.into(), directory })
    };
    let edit = |path: &str| Details::Edit(FileDiff::between(path, path, Some("old"), "new"));
    match name {
        "read a file" => (Access::Read, Details::Generic { text: "src/main.rs".into() }),
        "update the plan" => (Access::Session, Details::Generic { text: "a plan".into() }),
        "edit a file" => (Access::Edit, edit("src/main.rs")),
        "edit a hook" => (Access::Edit, edit(".git/hooks/pre-commit")),
        "mcp edits a hook" => (Access::Other, edit(".git/hooks/pre-commit")),
        "run git log" => execute("git log"),
        "run two commands" => execute("git log && git push"),
        "run a script" => execute("for i in 1 2; do git push; done"),
        "call mcp" => (Access::Other, Details::Mcp { server: "a".into(), tool: "b".into() }),
        "ask a person" => {
            (Access::Ask, Details::Question { text: "which?".into(), options: Vec::new() })
        }
        unknown => panic!("no such call: {unknown}"),
    }
}

fn rules_named(name: &str) -> Vec<Rule> {
    let Some((verb, what)) = name.split_once(' ') else {
        return Vec::new();
    };
    let matcher = match what {
        "edits" => Matcher::Edits,
        "tool" => Matcher::Tool("the_tool".into()),
        "another tool" => Matcher::Tool("another_tool".into()),
        command => Matcher::Command(parse_pattern(command).unwrap()),
    };
    let rule = |allow: bool| Rule {
        id: "rule".into(),
        matcher: matcher.clone(),
        allow,
        scope: RuleLifetime::Configured,
        directory: None,
        principal: None,
    };
    match verb {
        "allow" => vec![rule(true)],
        "deny" => vec![rule(false)],
        "allow+deny" => vec![rule(true), rule(false)],
        unknown => panic!("no such rule: {unknown}"),
    }
}

fn word(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Allow(..) => "allow",
        Verdict::Ask(Risk::Normal) => "ask",
        Verdict::Ask(Risk::High) => "ask!",
        Verdict::Deny(_) => "deny",
    }
}

#[test]
fn the_table_of_calls_and_rules_and_modes() {
    let (mut rows, mut wrong) = (0, Vec::new());
    for line in TABLE.lines().skip(2).map(str::trim).filter(|line| !line.is_empty()) {
        let mut columns = line.split("  ").map(str::trim).filter(|column| !column.is_empty());
        let (name, rule) = (columns.next().unwrap(), columns.next().unwrap());
        let expected: Vec<&str> = columns.collect();
        let (access, details) = call(name);
        let found = MODES.map(|mode| {
            word(
                &Policy { mode, rules: rules_named(rule), root: ROOT.into() }
                    .judge("the_tool", access, &details, None, &Parser),
            )
        });
        if found != expected[..] {
            wrong.push(format!("{name}, {rule}: {found:?}"));
        }
        rows += 1;
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(rows, 40);
}

#[test]
fn always_is_not_offered_at_high_risk() {
    for name in ["edit a hook", "run two commands", "run a script", "ask a person"] {
        let (access, details) = call(name);
        let Verdict::Ask(risk) =
            Policy::default().judge("the_tool", access, &details, None, &Parser)
        else {
            panic!("{name} does not ask");
        };
        let offered = choices("the_tool", &details, risk, &Parser);
        let always = [ChoiceId::PROCEED_ALWAYS, ChoiceId::PROCEED_ALWAYS_PROJECT];
        assert!(offered.iter().all(|choice| !always.contains(&choice.id.0.as_str())), "{name}");
        assert!(offered.iter().any(|choice| choice.id.0 == ChoiceId::CANCEL), "{name}");
    }
}

#[test]
fn every_offered_choice_is_known_or_an_option() {
    let mut seen = Vec::new();
    for name in ["run git log", "edit a file", "call mcp", "ask a person"] {
        let (_, details) = call(name);
        for choice in choices("the_tool", &details, Risk::Normal, &Parser) {
            assert!(choice.id.known().is_some() || choice.id.0.starts_with("option_"), "{name}");
            seen.extend(choice.id.known());
        }
    }
    for choice in KnownChoice::ALL {
        assert_eq!(KnownChoice::from_id(choice.id()), Some(choice));
        assert!(seen.contains(&choice), "{choice:?} is never offered");
    }
    let keys: HashSet<_> = KnownChoice::ALL.iter().filter_map(|it| it.word_and_key()).collect();
    let (words, letters): (HashSet<_>, HashSet<_>) = keys.iter().copied().unzip();
    assert_eq!((words.len(), letters.len()), (keys.len(), keys.len()), "{keys:?}");
}

/// Pieces of command lines, most of them harmless alone.
fn lines() -> impl Strategy<Value = String> {
    let piece = select(vec![
        "git", "log", "ls", "a.txt", "-n", "3", " ", " ", " ", "\t", ";", "&&", "||", "|", "&",
        ">", "<", "$(", ")", "`", "$HOME", "${IFS}", "'", "\"", "\\", "*", "?", "[a]", "{a,b}",
        "~", "!", "#", "=", "A=1", "env", "sudo", "if", "(", "\n", "\r", "\u{200b}", "\u{202e}",
        "日", "%1", "<<", "\0",
    ]);
    prop_oneof![
        8 => prop::collection::vec(piece, 1..10).prop_map(|pieces| pieces.concat()),
        1 => any::<String>(),
    ]
}

/// Rules that allow as much as possible, invalid ones included.
fn generous(line: &str) -> Vec<Rule> {
    let rule = |matcher| Rule {
        id: "rule".into(),
        matcher,
        allow: true,
        scope: RuleLifetime::Session,
        directory: None,
        principal: None,
    };
    let words = line.split_whitespace();
    let mut patterns: Vec<Vec<String>> = words.map(|word| vec![word.to_owned()]).collect();
    patterns.extend(["git", "ls", "log", "a.txt", "", " "].map(|word| vec![word.to_owned()]));
    patterns.push(vec![line.to_owned()]);
    patterns.push(line.split(' ').map(str::to_owned).collect());
    patterns.push(Vec::new());
    let open = patterns.into_iter().map(|words| CommandPattern { words, open: true });
    let commands = open.map(|pattern| rule(Matcher::Command(pattern)));
    commands.chain([rule(Matcher::Edits), rule(Matcher::Tool("shell".into()))]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..config() })]

    #[test]
    fn no_line_that_is_not_plain_is_allowed_by_any_rule(
        line in lines(),
        mode in select(vec![Mode::Ask, Mode::Edits]),
    ) {
        let details = Details::Execute { command: line.clone(), directory: "/work".into() };
        let judge =
            |rules| Policy { mode, rules, root: "/work".into() }.judge("shell", Access::Execute, &details, None, &Parser);
        match plain_commands(&line) {
            Err(_) => prop_assert_eq!(judge(generous(&line)), Verdict::Ask(Risk::Normal)),
            Ok(commands) => {
                let exact = commands.iter().map(|command| Rule {
                    id: "rule".into(),
                    matcher: Matcher::Command(CommandPattern::exact(command)),
                    allow: true,
                    scope: RuleLifetime::Session,
                    directory: None,
                    principal: None,
                });
                let exact: Vec<Rule> = exact.collect();
                prop_assert_eq!(word(&judge(exact.clone())), "allow");
                let others: Vec<Rule> =
                    exact.iter().filter(|rule| rule.matcher != exact[0].matcher).cloned().collect();
                prop_assert_eq!(word(&judge(others)), "ask");
            }
        }
    }

    #[test]
    fn a_denying_rule_wins_over_every_other_rule_and_every_mode(
        (access, details) in details(),
        mode in select(MODES.to_vec()),
        mut rules in prop::collection::vec(rules(), 0..6),
        position in any::<prop::sample::Index>(),
    ) {
        let matcher = match &details {
            Details::Edit(_) => Matcher::Edits,
            _ => Matcher::Tool("the_tool".into()),
        };
        let denying = Rule { id: "no".into(), matcher, allow: false, scope: RuleLifetime::Configured, directory: None, principal: None };
        rules.insert(position.index(rules.len() + 1), denying);
        let verdict = Policy { mode, rules, root: ROOT.into() }.judge("the_tool", access, &details, None, &Parser);
        prop_assert_eq!(word(&verdict), "deny");
    }

    #[test]
    fn a_protected_file_always_asks_where_anything_asks(
        (path, above) in select(vec![
            (".git/hooks/pre-push", "/w"),
            (".GitHub/ci.yml", "/w"),
            ("sub/.envrc", "/w"),
            (".loggia/x", "/w"),
            ("hooks/pre-push", "/w/.git"),
        ]),
        mode in select(vec![Mode::Ask, Mode::Edits]),
        access in select(vec![Access::Edit, Access::Execute, Access::Other]),
        mut rules in prop::collection::vec(rules(), 0..6),
    ) {
        rules.retain(|rule| rule.allow);
        let absolute = format!("{above}/{path}");
        let details = Details::Edit(FileDiff::between(path, &absolute, None, "new"));
        let verdict = Policy { mode, rules, root: ROOT.into() }.judge("the_tool", access, &details, None, &Parser);
        prop_assert_eq!(verdict, Verdict::Ask(Risk::High));
    }
}

proptest! {
    #![proptest_config(config())]

    /// Deny rules override a person's approval: a call that would be denied with its edit and with the
    /// current rules does not start.
    #[test]
    fn what_the_policy_denies_never_starts(world in histories()) {
        let mut session = Session::default();
        for envelope in &world.log {
            if let Event::CallStarted { call, authority } = &envelope.event {
                let open = session.open_call(call).unwrap();
                let forbidden = session.policy().forbids(&open.tool, &open.details, &Parser);
                prop_assert_eq!(forbidden, None, "{} runs {:?}", call, open.details);
                // Typed lines are allowed in every mode.
                if matches!(authority, Authority::Typed { .. }) {
                    session.apply(envelope);
                    continue;
                }
                let verdict = session.policy().judge(&open.tool, open.access, &open.details, None, &Parser);
                prop_assert_ne!(word(&verdict), "deny", "{} runs {:?}", call, open.details);
            }
            session.apply(envelope);
        }
    }
}
