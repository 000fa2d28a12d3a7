use super::*;
use crate::model::actions::tests::run;

fn transcript(script: &str, prompt: &str, outcomes: &[&str]) -> String {
    let model = ScriptedModel::parse("test.toml", script).unwrap_or_else(|error| panic!("{error}"));
    run(|request| model.actions(request), prompt, outcomes)
}

/// One rule for every prompt.
fn steps(steps: &str, outcomes: &[&str]) -> String {
    transcript(&format!("[[rule]]\nsteps = [{steps}]"), "go", outcomes)
}

#[test]
fn every_step() {
    let cases = [
        ("", "stop\n"),
        (r#"{text="hello"}, {text=" you"}"#, "text hello| you\nstop\n"),
        (r#"{text="aébcd", chunk=2}"#, "text aé|bc|d\nstop\n"),
        (r#"{text="abc", chunk=2, delay="20ms"}"#, "wait 20ms\ntext ab\nwait 20ms\ntext c\nstop\n"),
        (r#"{text=""}"#, "stop\n"),
        (r#"{thought="t", subject="s"}, {thought="u"}"#, "thought [s] t\nthought [] u\nstop\n"),
        (r#"{thought="t", delay="1s"}"#, "wait 1s\nthought [] t\nstop\n"),
        (r#"{usage={input=3, output=4, cached=1}}"#, "usage 3 4 0 1\nstop\n"),
        (r#"{delay="1m"}"#, "wait 60s\nstop\n"),
        (r#"{error="no"}, {text="a"}"#, "fail Refused: no\n"),
        (
            r#"{error="busy", kind="rate_limited", retry_after="2s"}"#,
            "fail RateLimited: busy (after 2s)\n",
        ),
        (r#"{error="x", kind="context_too_long"}"#, "fail ContextTooLong: x\n"),
        (r#"{text="a"}, {cut=true}"#, "text a\ncut\n"),
        (r#"{panic="boom"}"#, "panic boom\n"),
        (r#"{repeat=3, step={repeat=2, step={text="x"}}}"#, "text x|x|x|x|x|x\nstop\n"),
    ];
    for (script, expected) in cases {
        assert_eq!(steps(script, &[]), expected, "{script}");
    }
}

#[test]
fn a_call_ends_the_reply() {
    assert_eq!(
        steps(
            r#"{text="a"}, {call="t", input={n=1, f=1.5, deep=[{x="$result"}]}}, {text="b $result"},
               {calls=[{tool="u"}, {tool="v", input={}}]}, {malformed="{not", tool="w"},
               {text="$result"}"#,
            &["one", "two", "failed: three", "failed: four"],
        ),
        "text a\n\
         call t {\"deep\":[{\"x\":\"\"}],\"f\":1.5,\"n\":1}\n\
         stop\n\
         ---\n\
         text b one\n\
         call u {}\n\
         call v {}\n\
         stop\n\
         ---\n\
         call w !{not\n\
         stop\n\
         ---\n\
         text four\n\
         stop\n"
    );
}

#[test]
fn each_repeat_of_a_call_is_a_reply() {
    assert_eq!(
        steps(
            r#"{text="a"}, {repeat=2, step={call="t"}}, {text="b"}, {repeat=2, step={call="u"}}"#,
            &["1", "2", "3", "4"],
        ),
        "text a\ncall t {}\nstop\n---\ncall t {}\nstop\n---\ntext b\ncall u {}\nstop\n---\n\
         call u {}\nstop\n---\nstop\n"
    );
}

#[test]
fn a_call_is_repeated_while_its_result_matches() {
    let script = r#"{repeat=3, while="more", step={call="ask_user"}}, {text="done: $result"}"#;
    let asked = "call ask_user {}\nstop\n---\n";
    let cases: [(&[&str], usize); 4] = [
        (&["enough"], 1),
        (&["more", "enough"], 2),
        (&["more", "more", "enough"], 3),
        // The number is the limit.
        (&["more", "more", "more"], 3),
    ];
    for (outcomes, times) in cases {
        let last = outcomes.last().unwrap();
        let expected = format!("{}text done: {last}\nstop\n", asked.repeat(times));
        assert_eq!(steps(script, outcomes), expected, "{outcomes:?}");
    }
}

#[test]
fn rules_apply_in_order() {
    let script = r#"
        [[rule]]
        prompt = " hello "
        steps = [{text = "literal"}]
        [[rule]]
        contains = "file"
        steps = [{text = "contains $1"}]
        [[rule]]
        regex = '^add (\d+) (?:and|to) (?P<second>\d+)(x)?$'
        steps = [{text = "$1+${second}=$0 [$3] $4 ${none} $second $$1 ${1}0 $", chunk = 99},
                 {thought = "$1", subject = "${second}"},
                 {call = "t$1", input = {"$1" = "$1", list = ["${second}", 3]}},
                 {error = "$1 $result"}]
    "#;
    let cases = [
        ("hello", "text literal\nstop\n"),
        ("hello file", "text contains $1\nstop\n"),
        (
            " add 4 and 5\n",
            "text 4+5=add 4 and 5 [] $4 ${none} $second $1 40 $\n\
             thought [5] 4\n\
             call t4 {\"$1\":\"4\",\"list\":[\"5\",3]}\n\
             stop\n---\nfail Refused: 4 $1\n",
        ),
        ("else", "text No rule of `test.toml` matches this prompt.\nstop\n"),
    ];
    for (prompt, expected) in cases {
        assert_eq!(transcript(script, prompt, &["$1"]), expected, "{prompt}");
    }
}

#[test]
fn a_result_is_bounded() {
    let found = steps(r#"{call="t"}, {text="$result"}"#, &[&"é".repeat(4000)]);
    assert!(found.ends_with(&format!("text {}\nstop\n", "é".repeat(2048))));
}

#[test]
fn the_window_comes_from_the_file() {
    let rule = "[[rule]]\nsteps = []\n";
    let window = |text: &str| ScriptedModel::parse("x.toml", text).map(|model| model.window());
    assert_eq!(window(rule), Ok(None));
    assert_eq!(window(&format!("window = 8000\n{rule}")), Ok(Some(8000)));
    let wrong = window(&format!("window = 0\n{rule}")).unwrap_err().to_string();
    assert!(wrong.starts_with("x.toml:1:10: invalid value: integer `0`"), "{wrong}");
}

#[test]
fn an_error_with_attempts_passes_after_them_and_starts_again() {
    let script = r#"
        [[rule]]
        steps = [{text="a"}, {error="busy", kind="overloaded", attempts=2}, {text="b"}]
    "#;
    let model = ScriptedModel::parse("x.toml", script).unwrap();
    let found: Vec<String> =
        (0..6).map(|_| run(|request| model.actions(request), "go", &[])).collect();
    let (fails, passes) = ("text a\nfail Overloaded: busy\n", "text a|b\nstop\n");
    assert_eq!(found, [fails, fails, passes, fails, fails, passes]);
}

#[test]
fn an_invalid_file_is_refused_with_its_position() {
    let one_of = "a step needs one of `text`, `thought`, `call`, `calls`, `malformed`, `usage`, \
                  `error`, `cut`, `panic`, `delay` and `repeat`";
    let cases = [
        ("x.toml", "[[rule]]\nsteps = [\n  {txet = \"a\"},\n]", "x.toml:3:4: unknown field `txet`"),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {text = 1},\n]",
            "x.toml:3:11: invalid type: integer `1`",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {text = \"a\", input = {}},\n]",
            "x.toml:3:3: `input` does not go with `text`",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {text = \"a\", call = \"b\"},\n]",
            "x.toml:3:3: `call` does not go with `text`",
        ),
        ("x.toml", "[[rule]]\nsteps = [\n  {},\n]", &format!("x.toml:3:3: {one_of}")),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {delay = \"soon\"},\n]",
            "x.toml:3:12: `soon` is not a duration",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {repeat = 2},\n]",
            "x.toml:3:3: `repeat` needs a `step`",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {repeat = 2, while = \"(\", step = {call = \"t\"}},\n]",
            "x.toml:3:3: `while` cannot be read",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {repeat = 2, while = \"a\", step = {text = \"t\"}},\n]",
            "x.toml:3:3: `while` checks a result",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {while = \"a\", call = \"t\"},\n]",
            "x.toml:3:3: `while` does not go with `call`",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {repeat = 2, step = {repeat = 2, while = \"a\", step = {call = \"t\"}}},\n]",
            "x.toml:3:3: `while` does not go with a repeat of repeats",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {repeat = 0, step = {cut = true}},\n]",
            "x.toml:3:13: invalid value: integer `0`",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {repeat = 2, step = {cut = false}},\n]",
            "x.toml:3:23: `cut` can only be true",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [\n  {call = \"t\", input = {when = 2020-01-01}},\n]",
            "x.toml:3:24: a date in `input` must be in quotes",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [{error = \"e\", kind = \"odd\"}]",
            "x.toml:2:31: unknown variant `odd`",
        ),
        (
            "x.toml",
            "[[rule]]\nsteps = [{malformed = \"e\"}]",
            "x.toml:2:10: `malformed` needs a `tool`",
        ),
        ("x.toml", "[[rule]]\nsteps = [{calls = []}]", "x.toml:2:10: `calls` is empty"),
        ("x.toml", "[[rule]]\nregex = \"(\"\nsteps = []", "x.toml:1:1: `regex` cannot be read"),
        (
            "x.toml",
            "[[rule]]\nprompt = \"a\"\nregex = \"b\"\nsteps = []",
            "x.toml:1:1: a rule has one of",
        ),
        ("x.toml", "[[rule]]\nprompt = \"a\"", "x.toml:1:1: missing field `steps`"),
        (
            "x.toml",
            "[[rule]]\nsteps = [{repeat = 1000, step = {repeat = 1001, step = {cut = true}}}]",
            "x.toml:1:1: a rule has at most 1000000 steps with its repeats, not 1001000",
        ),
        ("x.toml", "[[rules]]", "x.toml:1:3: unknown field `rules`"),
        ("x.toml", "rule = []", "x.toml: the script has no rule"),
        ("x.toml", "[[rule", "x.toml:1:7: "),
        (
            "x.json",
            "{\"rule\": [\n {\"steps\": [{\"txet\": 1}]}]}",
            "x.json:2:19: unknown field `txet`",
        ),
        (
            "x.json",
            "{\"rule\": [\n {\"steps\": [{\"text\": 1}]}]}",
            "x.json:2:22: invalid type: integer `1`, expected a string",
        ),
        ("x.json", "{\"rule\": [\n {\"steps\": [{}]}]}", &format!("x.json:2:14: {one_of}")),
        ("x.json", "{", "x.json:1:1: EOF while parsing an object"),
        ("x.yaml", "", "x.yaml: a script's name ends in .toml or .json"),
    ];
    for (file, text, expected) in cases {
        match ScriptedModel::parse(file, text) {
            Ok(_) => panic!("read: {text}"),
            Err(error) => {
                let found = error.to_string();
                assert!(
                    found.starts_with(expected),
                    "{text}\n   found: {found}\nexpected: {expected}"
                );
            }
        }
    }
}

#[test]
fn a_million_steps_cost_nothing_before_they_are_performed() {
    let script = "[[rule]]\nsteps = [{repeat=999999, step={text=\"x\"}}, {call=\"t\"}]";
    let model = ScriptedModel::parse("x.toml", script).unwrap();
    let request = ModelRequest {
        purpose: Purpose::Turn,
        instructions: "".into(),
        effort: None,
        cache_key: "".into(),
        messages: Vec::new(),
        tools: [].into(),
    };
    assert_eq!(model.actions(&request).count(), 1_000_000 + 2);
}

#[test]
fn a_file_nested_too_deeply_is_refused() {
    let deep = |open: &str, close: &str| format!("{}{}", open.repeat(5000), close.repeat(5000));
    let toml = format!("[[rule]]\nsteps = [{}]", deep("{repeat=1, step=", "}"));
    assert!(ScriptedModel::parse("x.toml", &toml).is_err());
    let json = format!("{{\"rule\":[{{\"steps\":[{}]}}]}}", deep("{\"repeat\":1,\"step\":", "}"));
    assert!(ScriptedModel::parse("x.json", &json).is_err());
}
