use super::*;

#[test]
fn mistakes_name_their_place_and_a_next_step() {
    let unknown = "docs/reference/configuration.md lists the keys; remove it";
    let cases: &[(&str, usize, &str)] = &[
        ("modle = 'x'", 1, "there is no key `modle`; did you mean `model`?"),
        ("\n\nfoo = 1", 3, &format!("there is no key `foo`; {unknown}")),
        ("[limit]\nreplies = 1", 1, "there is no key `limit`; did you mean `limits`?"),
        (
            "[limits]\nreplys = 1",
            2,
            "there is no key `limits.replys`; did you mean `limits.replies`?",
        ),
        ("allow = ['ls']", 1, "there is no key `allow`; did you mean `commands.allow`?"),
        ("[commands]\nmodel = 'x'", 2, "there is no key `commands.model`; did you mean `model`?"),
        ("\"limits.replies\" = 1", 1, &format!("there is no key `limits.replies`; {unknown}")),
        ("[model.x]\ny = 1", 1, "model: write a text in quotes here, not a table"),
        ("model = 5", 1, "model: write a text in quotes here, not a whole number"),
        ("model = ' '", 1, "model: write the name of a model, such as `offline`"),
        ("mode = true", 1, "mode: write a text in quotes here, not true or false"),
        (
            "mode = 'yolo'",
            1,
            "mode: there is no mode `yolo`: write `ask`, `edits`, `all` or `plan`",
        ),
        ("[tui]\nkeys = 'emacs'", 2, "tui.keys: there are no `emacs` keys: write `plain` or `vim`"),
        (
            "[tui]\ntheme = 'solarized'",
            2,
            "tui.theme: there is no theme `solarized`: write `auto`, `light` or `dark`",
        ),
        (
            "[prices]\ncurrency = '1'",
            2,
            "prices.currency: write the sign or the short name of a currency, such as `USD`",
        ),
        ("[prices.m]\ninput = 3", 1, "prices.\"m\": write both `input` and `output`"),
        (
            "[prices.m]\ninput = '3'\noutput = 1",
            2,
            "prices.\"m\": write the price of a million tokens, such as 3.00",
        ),
        (
            "[prices.m]\ninput = -3.0\noutput = 1",
            2,
            "prices.\"m\": write the price of a million tokens, such as 3.00",
        ),
        (
            "[prices.m]\ninput = 1e3\noutput = 1",
            2,
            "prices.\"m\": write the price of a million tokens, such as 3.00",
        ),
        (
            "[prices.m]\ninput = 0.0000001\noutput = 1",
            2,
            "prices.\"m\": write at most six decimal places",
        ),
        (
            "[prices.m]\ninput = 1\noutput = 9999999",
            3,
            "prices.\"m\": the price is too high: write less than a million",
        ),
        (
            "[prices.m]\ninput = 1\noutput = 1\nthought = 2",
            4,
            "prices.\"m\": there is no key `thought`; there are `input`, `output` and `cached_input`",
        ),
        ("[prices]\nm = 3", 2, "there is no key `prices.m`; "),
        ("limits = 3", 1, "limits: write a table of keys here, not a whole number"),
        ("[limits]\n\nreplies = '3'", 3, "limits.replies: write a whole number here, not a text"),
        ("[limits]\nreplies = 0", 2, "limits.replies: write a whole number from 1 to 4294967295"),
        ("[limits]\nreplies = -1", 2, "limits.replies: write a whole number from 1 to 4294967295"),
        (
            "[limits]\ncalls = 4294967296",
            2,
            "limits.calls: write a whole number from 1 to 4294967295",
        ),
        (
            "[limits]\ncall_seconds = 9.5",
            2,
            "limits.call_seconds: write a whole number here, not a number with a fraction",
        ),
        (
            "[limits]\nturn_seconds = 99999999999",
            2,
            "limits.turn_seconds: write a whole number from 1 to 31622400",
        ),
        (
            "[commands]\nallow = 'ls'",
            2,
            "commands.allow: write a list such as [\"one\", \"two\"] here, not a text",
        ),
        (
            "[commands]\nallow = [\n'ls',\n3]",
            4,
            "commands.allow: write texts in quotes here, not a whole number",
        ),
        (
            "[commands]\nallow = [\n  'ls',\n  'git status; rm -rf ~']",
            4,
            "commands.allow: `git status; rm -rf ~` cannot be a rule: it uses an expansion; write \
             one plain command such as `git status`, or `cargo test *` for any further words",
        ),
        (
            "[commands]\nallow = ['sudo *']",
            2,
            "commands.allow: `sudo *` cannot be a rule: it starts with a command that changes the \
             shell or runs other commands; write one plain command such as `git status`, or \
             `cargo test *` for any further words",
        ),
        (
            "[commands]\ndeny = ['rm $HOME']",
            2,
            "commands.deny: `rm $HOME` cannot be a rule: it uses an expansion; write the words of \
             one command, such as `sudo *`",
        ),
        (
            "[commands]\ndeny = ['']",
            2,
            "commands.deny: `` cannot be a rule: it names no command; write the words of one \
             command, such as `sudo *`",
        ),
        (
            "[shell]\nprogram = 'bash'",
            2,
            "shell.program: `bash` is not a full path: write one, such as `/bin/bash`",
        ),
        (
            "[shell]\npass_env = ['LD_PRELOAD']",
            2,
            "shell.pass_env: `LD_PRELOAD` is never passed to commands: it would run code in each \
             of them, or is Loggia's own; take it off the list",
        ),
        (
            "[shell]\npass_env = ['AWS_*']",
            2,
            "shell.pass_env: `AWS_*` is not the name of a variable: write each name in full",
        ),
        (
            "[server]\nwebhook_hosts = ['hooks.lan:8080']",
            2,
            "server.webhook_hosts: `hooks.lan:8080` is not a valid host: write a name or an address, such \
             as `hooks.lan`",
        ),
        (
            "[shell]\npass_env = ['OPENAI_API_KEY']",
            2,
            "shell.pass_env: `OPENAI_API_KEY` is never passed to commands: it holds the key of a model",
        ),
        ("effort = 'huge'", 1, "effort: there is no effort `huge`: write `none`, `minimal`, `low`"),
        ("providers = 1", 1, "providers: write a table of keys here, not a whole number"),
        ("[providers]\nx = 1", 2, "providers: write a table for each provider here, not a whole"),
        ("[providers.x]\nkind = 'chat'", 1, "providers.x: write its `base_url`, such as"),
        (
            "[providers.offline]\nbase_url = 'http://x'",
            1,
            "providers.offline: its name has lower-case",
        ),
        ("[providers.X]\nbase_url = 'http://x'", 1, "providers.X: its name has lower-case letters"),
        (
            "[providers.x]\nbase_url = 'http://a:b@c/'",
            2,
            "providers.x: base_url: the address must not",
        ),
        (
            "[providers.x]\nbase_url = 'ftp://c'",
            2,
            "providers.x: base_url: `ftp://c` is not an address",
        ),
        (
            "[providers.openai]\nkey_env = 'PATH'",
            2,
            "providers.openai: key_env: `PATH` is passed to every",
        ),
        (
            "[providers.openai]\nkind = 'mine'",
            2,
            "providers.openai: kind: there is no `mine`: write one of",
        ),
        (
            "[providers.vllm]\ndialect = 'mine'",
            2,
            "providers.vllm: dialect: there is no `mine`: write",
        ),
        (
            "[providers.vllm]\nwindow = 0",
            2,
            "providers.vllm: window: write a whole number from 1 to",
        ),
        (
            "[providers.vllm]\nheaders = { a = 1 }",
            2,
            "providers.vllm: headers: write a table of texts",
        ),
        (
            "[providers.vllm]\nauht = 'x'",
            2,
            "providers.vllm: there is no key `auht`; there are `kind`",
        ),
        ("model = 'a'\nmodel = 'b'", 2, "this is not valid TOML: duplicate key"),
        ("model = \"\u{1b}[2J\"", 1, "this is not valid TOML: invalid basic string"),
    ];
    for (text, line, wanted) in cases {
        let machine = Machine::new().user(text);
        let refusal = machine.refusal();
        let wanted = format!("ROOT/home/config/config.toml:{line}: {wanted}");
        assert!(refusal.starts_with(&wanted), "\n{text}\n{refusal}\n{wanted}");
        assert!(!refusal.contains(char::is_control));
        // A trusted project file is checked in the same way.
        let project = Machine::new().project(text).trusted().refusal();
        assert!(project.starts_with("WORKSPACE/.loggia/config.toml:"), "{project}");
    }
}

#[test]
fn mistakes_in_variables_name_the_variable() {
    let cases = [
        ("LOGGIA_MODE", "yolo", "LOGGIA_MODE: there is no mode `yolo`"),
        ("LOGGIA_LIMITS_CALLS", "many", "LOGGIA_LIMITS_CALLS: write a whole number from 1"),
        ("LOGGIA_SHELL_PASS_ENV", "A,BASH_ENV", "LOGGIA_SHELL_PASS_ENV: `BASH_ENV` is never"),
        ("LOGGIA_SHELL_PROGRAM", "./sh", "LOGGIA_SHELL_PROGRAM: `./sh` is not a full path"),
        ("LOGGIA_CONFIG", "here.toml", "LOGGIA_CONFIG is `here.toml`: write a full path"),
        ("LOGGIA_CONFIG", "/nowhere/x.toml", "/nowhere/x.toml: cannot be read: No such file"),
    ];
    for (name, value, wanted) in cases {
        let refusal = Machine::with_environment(&[(name, value)]).refusal();
        assert!(refusal.starts_with(wanted), "{refusal}");
    }
    let machine = Machine::with_environment(&[("LOGGIA_MODEl", "x"), ("LOGGIA_TOKEN", "secret")]);
    let wanted = "The environment variable LOGGIA_MODEl is unknown; did you mean LOGGIA_MODEL?";
    assert_eq!(machine.notices(), [wanted]);
}
