use super::*;
use crate::model::actions::tests::run;

fn transcript(prompt: &str, outcomes: &[&str]) -> String {
    run(actions, prompt, outcomes)
}

#[track_caller]
fn check(prompt: &str, outcomes: &[&str], expected: &str) {
    assert_eq!(transcript(prompt, outcomes), expected, "{prompt}");
}

#[test]
fn steps_without_calls_are_one_reply() {
    check("say hello you", &[], "text hello |you\nstop\n");
    check("say a\nsay b", &[], "text a|\\n\\n|b\nstop\n");
    check(
        "say a\nthink Why: because\nwait 300ms\nsay b",
        &[],
        "text a\nthought [Why] because\nwait 300ms\ntext \\n\\n|b\nstop\n",
    );
    check("say a\nfail on purpose\nsay b", &[], "text a\nfail Refused: on purpose\n");
}

#[test]
fn every_step_with_its_tool() {
    let cases = [
        ("run ls", r#"run_shell_command {"command":"ls"}"#, "ran `ls`:\\n|```\\n|out\\n|```"),
        ("write a: hi", r#"write_file {"content":"hi\n","path":"a"}"#, "wrote a: out"),
        (
            "edit a: b => c",
            r#"replace {"new_string":"c","old_string":"b","path":"a"}"#,
            "edited a: out",
        ),
        ("read a", r#"read_file {"path":"a"}"#, "read a:\\n|```\\n|out\\n|```"),
        ("list", r#"list_directory {"path":"."}"#, "listed .:\\n|```\\n|out\\n|```"),
        (
            "search x",
            r#"search_file_content {"pattern":"x"}"#,
            "searched for `x`:\\n|```\\n|out\\n|```",
        ),
        (
            "plan: a; b",
            r#"write_todos {"todos":[{"state":"pending","text":"a"},{"state":"pending","text":"b"}]}"#,
            "planned 2 steps",
        ),
        ("ask Why?", r#"ask_user {"question":"Why?"}"#, "asked `Why?`: out"),
        ("artifact n: hi", r#"publish_artifact {"name":"n","text":"hi"}"#, "published n: out"),
    ];
    for (prompt, call, report) in cases {
        let found = transcript(prompt, &["out"]);
        let found = found.replace(" |", " ");
        assert_eq!(found, format!("call {call}\nstop\n---\ntext {report}\nstop\n"), "{prompt}");
    }
}

#[test]
fn one_call_a_reply_and_no_step_twice() {
    check(
        "say a\nrun x\nsay b\nthink T: t\nrun y\nsay c",
        &["1", ""],
        "text a\n\
         call run_shell_command {\"command\":\"x\"}\n\
         stop\n\
         ---\n\
         text b\n\
         thought [T] t\n\
         call run_shell_command {\"command\":\"y\"}\n\
         stop\n\
         ---\n\
         text c|\\n\\n|ran |`x`:\\n|```\\n|1\\n|```\\n|\\n|ran |`y`: |no |output\n\
         stop\n",
    );
}

#[test]
fn an_answer_is_used_by_later_steps_only() {
    check(
        "say {answer}\nask Who?\nask {answer}?\nwrite {answer}.txt:\n```\nDear {answer}\n```\nsay {answer}",
        &["Ada\n", "Bob", "done"],
        "text {answer}\n\
         call ask_user {\"question\":\"Who?\"}\n\
         stop\n\
         ---\n\
         call ask_user {\"question\":\"Ada?\"}\n\
         stop\n\
         ---\n\
         call write_file {\"content\":\"Dear Bob\\n\",\"path\":\"Bob.txt\"}\n\
         stop\n\
         ---\n\
         text Bob|\\n\\n|asked |`Who?`: |Ada\\n|\\n|asked |`Ada?`: |Bob\\n|\\n|wrote |Bob.txt: |done\n\
         stop\n",
    );
}

#[test]
fn the_script_stops_at_a_failed_call() {
    let ending = |prompt: &str, outcomes: &[&str]| {
        let found = transcript(prompt, outcomes).replace('|', "");
        found.rsplit("---\n").next().unwrap_or_default().to_owned()
    };
    assert_eq!(
        ending("run a\n\nwrite b: c\nsay d\nrun e", &["1", "failed: disk full"]),
        "text ran `a`:\\n```\\n1\\n```\\n\\nLine 3, `write b: c`, failed: disk full\\n\\n\
         2 later steps were not done.\nstop\n"
    );
    assert_eq!(
        ending("run a\nsay b", &["cancelled: refused by [A2A]"]),
        "text Line 1, `run a`, was not done: refused\\n\\n1 later step was not done.\nstop\n"
    );
    assert_eq!(ending("run a", &["failed: no"]), "text Line 1, `run a`, failed: no\nstop\n");
}

#[test]
fn a_result_of_one_sentence_is_quoted() {
    let cases = [
        ("", "wrote a"),
        ("Wrote a (3 bytes)", "Wrote a (3 bytes)"),
        ("created", "wrote a: created"),
        ("created\n(changed)", "wrote a:\\n```\\ncreated\\n(changed)\\n```"),
    ];
    for (outcome, expected) in cases {
        let found = transcript("write a: b", &[outcome]).replace('|', "");
        assert!(found.ends_with(&format!("---\ntext {expected}\nstop\n")), "{found}");
    }
}

#[test]
fn a_result_is_bounded_and_cannot_close_its_fence() {
    let found = transcript("run a", &[&"x".repeat(5000)]);
    assert!(found.contains("(904 |more |bytes |are |not |repeated |here)"), "{found}");
    assert!(found.len() < 4500);
    let found = transcript("run a", &["a\n```\nb"]);
    assert!(found.contains("````\\n|a\\n|```\\n|b\\n|````"), "{found}");
}

#[test]
fn a_long_answer_used_often_stays_bounded() {
    let prompt = format!("ask Why?\nsay {}", "{answer}".repeat(100));
    let found = transcript(&prompt, &[&"x".repeat(1024 * 1024)]);
    assert!(found.len() < 9 * 1024 * 1024);
}

#[test]
fn a_prompt_with_a_line_not_understood_is_refused_whole() {
    check(
        "run a\nfrobnicate\nwait soon",
        &[],
        "fail Refused: Nothing was done. line 2: `frobnicate` does not start with an instruction I know. \
         line 3: `soon` is not a duration such as 300ms, 5s or 2m; the form is `wait DURATION`.\n",
    );
    let many = format!("say a{}", "\nx".repeat(7));
    assert!(transcript(&many, &[]).ends_with(" 2 more lines were not understood.\n"));
}

#[test]
fn a_prompt_without_any_step_gets_the_introduction() {
    let introduction = transcript("Fix the bug, please.", &[]).replace('|', "");
    assert!(introduction.starts_with("text I am the offline model, not a language model: "));
    for needed in ["`edit PATH: OLD => NEW`", "`model = \"...\"` in config.toml", "`scripted:FILE`"]
    {
        assert!(introduction.contains(needed), "{introduction}");
    }
    assert_eq!(transcript("", &[]).replace('|', ""), introduction);
    let almost = transcript("write hello.txt hi", &[]).replace('|', "");
    assert!(almost.starts_with("text line 1: a colon and a space are missing"), "{almost}");
    assert!(almost.contains("I am the offline model"), "{almost}");
}
