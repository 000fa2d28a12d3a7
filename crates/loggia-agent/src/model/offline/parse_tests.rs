use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Each step as text, or the lines that were not understood.
fn shown(parsed: &ParsedPrompt) -> String {
    let problem = |problem: &Problem| format!("line {}: {}", problem.line, problem.reason);
    let lines: Vec<String> = match parsed {
        ParsedPrompt::Script(script) => {
            script.iter().map(|line| format!("{}| {}", line.line, line.step)).collect()
        }
        ParsedPrompt::Partial(problems) => problems.iter().map(problem).collect(),
        ParsedPrompt::NotUnderstood(problems) => {
            ["nothing".to_owned()].into_iter().chain(problems.iter().map(problem)).collect()
        }
    };
    lines.join("\n")
}

#[test]
fn steps() {
    let cases = [
        ("say hello  there ", "1| say hello  there"),
        ("  SAY hi\r\n\r\n\tRun ls -l | wc: x\r\n", "1| say hi\n3| run ls -l | wc: x"),
        ("think Parser: two ways: one", "1| think Parser: two ways: one"),
        ("write a.txt: hi", "1| write a.txt: hi"),
        ("write c:/a b.txt: hi: you", "1| write c:/a b.txt: hi: you"),
        (
            "write a:\n```rust\n  run x\n\n```\nsay ok",
            "1| write a:\n```\n  run x\n\n```\n6| say ok",
        ),
        ("write a:\n\n```\nx\n```", "1| write a: x"),
        ("write a:\n````\n```\n````", "1| write a:\n````\n```\n````"),
        ("write a:\n```\n```", "1| write a:\n```\n```"),
        ("edit a: x y => z", "1| edit a: x y => z"),
        ("edit a: x =>", "1| edit a: x => "),
        ("edit a: x=>y => x=>z", "1| edit a: x=>y => x=>z"),
        ("edit a:\n```\nx => y\n```\n```\nz\n```", "1| edit a:\n```\nx => y\n```\n```\nz\n```"),
        ("read a b", "1| read a b"),
        ("read @src/main.rs", "1| read src/main.rs"),
        ("read \"a b\"", "1| read a b"),
        ("write @\"a b\": x", "1| write a b: x"),
        ("read @", "1| read @"),
        ("list", "1| list ."),
        ("list src", "1| list src"),
        ("search fn .*\\(", "1| search fn .*\\("),
        ("plan: a; ;b ;", "1| plan: a; b"),
        ("ask which: a or b?", "1| ask which: a or b?"),
        ("artifact notes: hi", "1| artifact notes: hi"),
        ("artifact notes:\n```\nhi\n```", "1| artifact notes:\n```\nhi\n```"),
        (
            "wait 5s\nwait 2M",
            "line 2: `2M` is not a duration such as 300ms, 5s or 2m; the form is `wait DURATION`",
        ),
        ("wait 2m", "1| wait 120000ms"),
        ("fail on purpose", "1| fail on purpose"),
    ];
    for (prompt, expected) in cases {
        assert_eq!(shown(&parse(prompt)), expected, "{prompt:?}");
    }
}

#[test]
fn problems() {
    let form = |verb: &str| FORMS.iter().find(|form| form.verb == verb).unwrap().usage;
    let cases = [
        ("run", "something is missing after `run`", "run"),
        ("say: hi", "a space has to follow `say`, not a colon", "say"),
        ("plan the release", "a colon has to follow `plan`", "plan"),
        ("plan: ;", "the plan has no step", "plan"),
        ("think aloud", "a colon and a space are missing after the name", "think"),
        ("think aloud:", "a text is missing after the colon", "think"),
        ("write a:b", "a colon and a space are missing after the name", "write"),
        ("write : b", "a colon and a space are missing after the name", "write"),
        ("write a:", "neither a text after the colon nor a fenced block below it", "write"),
        ("write a:\n```\nx", "the fenced block is never closed", "write"),
        ("write a: ```", "the fenced block has to start on the line after the colon", "write"),
        ("edit a: b", "` => ` is missing between OLD and NEW", "edit"),
        ("edit a: => b", "` => ` is missing between OLD and NEW", "edit"),
        (
            "edit a: b => c => d",
            "` => ` occurs more than once: give OLD and NEW as two fenced blocks after the colon",
            "edit",
        ),
        ("edit a:\n```\n```\n```\nx\n```", "OLD is empty", "edit"),
    ];
    for (line, reason, verb) in cases {
        let prompt = format!("say hi\n{line}");
        let expected = format!("line 2: {reason}; the form is `{}`", form(verb));
        assert_eq!(shown(&parse(&prompt)), expected, "{prompt:?}");
    }
}

#[test]
fn lines_that_are_not_steps() {
    let cases = [
        ("", "nothing"),
        (" \n\n", "nothing"),
        (
            "Please fix it.",
            "nothing\nline 1: `Please fix it.` does not start with an instruction I know",
        ),
        ("saying hi\nsay hi", "line 1: `saying hi` does not start with an instruction I know"),
        ("say-so\nsay hi", "line 1: `say-so` does not start with an instruction I know"),
        // The lines of a stray block are not instructions.
        (
            "say hi\n```\nrun rm -rf .\n```\nsay ho\nhm",
            "line 2: a fenced block belongs after `write PATH:`, `edit PATH:` or `artifact NAME:`\n\
             line 6: `hm` does not start with an instruction I know",
        ),
        (
            "Look:\n```\nrun x",
            "nothing\nline 1: `Look:` does not start with an instruction I know\nline 2: a fenced block belongs \
             after `write PATH:`, `edit PATH:` or `artifact NAME:`",
        ),
    ];
    for (prompt, expected) in cases {
        assert_eq!(shown(&parse(prompt)), expected, "{prompt:?}");
    }
}

/// A text on one line without surrounding space.
fn line() -> impl Strategy<Value = String> {
    "[a-z`{}=>:;éß\u{1f600} ]{1,20}".prop_map(|text| format!("x{}", text.trim_end()))
}

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9./é][a-z :]{0,8}[a-z]".prop_map(|name| name.replace(": ", ":x"))
}

fn block() -> impl Strategy<Value = String> {
    "([ -~é]{0,12}\n){0,4}"
}

fn call() -> impl Strategy<Value = CallStep> {
    let content = prop_oneof![block(), line().prop_map(|line| line + "\n")];
    let artifact = prop_oneof![block(), line()];
    let todo = line().prop_map(|step| step.replace(';', ","));
    let part = || line().prop_map(|text| text.replace("=>", "="));
    prop_oneof![
        line().prop_map(|command| CallStep::Run { command }),
        (name(), content).prop_map(|(path, content)| CallStep::Write { path, content }),
        (name(), part(), prop_oneof![part(), Just(String::new())])
            .prop_map(|(path, old, new)| CallStep::Edit { path, old, new }),
        (name(), block(), block()).prop_map(|(path, old, new)| CallStep::Edit {
            path,
            old: format!("x\n{old}"),
            new
        }),
        name().prop_map(|path| CallStep::Read { path }),
        name().prop_map(|path| CallStep::List { path }),
        line().prop_map(|pattern| CallStep::Search { pattern }),
        proptest::collection::vec(todo, 1..4).prop_map(|todos| CallStep::Plan { todos }),
        line().prop_map(|question| CallStep::Ask { question }),
        (name(), artifact).prop_map(|(name, text)| CallStep::Artifact { name, text }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        line().prop_map(Step::Say),
        (name(), line()).prop_map(|(subject, text)| Step::Think { subject, text }),
        (0..3_600_000_u64).prop_map(|millis| Step::Wait(Duration::from_millis(millis))),
        line().prop_map(Step::Fail),
        call().prop_map(Step::Call),
    ]
}

proptest! {
    #[test]
    fn any_text_is_parsed(prompt in any::<String>()) {
        let _reading = parse(&prompt);
    }

    #[test]
    fn any_text_like_a_script_is_parsed(
        prompt in "((say|write|edit|plan|think|artifact|wait)?(:| )?[a: =>;`\n]{0,9}\n?){0,12}"
    ) {
        if let ParsedPrompt::Script(script) = parse(&prompt) {
            // Parsed steps are written and parsed again without a change.
            let written: Vec<String> = script.iter().map(|line| line.step.to_string()).collect();
            let steps = |script: Vec<Instruction>| -> Vec<Step> {
                script.into_iter().map(|line| line.step).collect()
            };
            let ParsedPrompt::Script(again) = parse(&written.join("\n")) else {
                return Err(TestCaseError::fail(format!("{written:?} is not read again")));
            };
            prop_assert_eq!(steps(again), steps(script));
        }
    }

    #[test]
    fn written_steps_are_parsed_back(steps in proptest::collection::vec(step(), 1..6)) {
        let prompt: Vec<String> = steps.iter().map(Step::to_string).collect();
        let prompt = prompt.join("\n");
        match parse(&prompt) {
            ParsedPrompt::Script(script) => {
                let found: Vec<Step> = script.into_iter().map(|line| line.step).collect();
                prop_assert_eq!(found, steps);
            }
            other => prop_assert!(false, "{prompt}\n{other:?}"),
        }
    }
}
