//! A12, A13: Loggia's own directories cannot be a workspace and are closed to tools, wherever they
//! are.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::driver::{Machine, Ran};
use crate::oauth::register;
use crate::served::{EXTENSION, Served, text_message};

/// The parent of the workspace and Loggia's directories, like a user's home.
fn above(machine: &Machine) -> PathBuf {
    machine.home().parent().unwrap().canonicalize().unwrap()
}

fn git(directory: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=t", "-c", "user.email=t@example.org"]).args(arguments);
    let status = command.env("GIT_CONFIG_GLOBAL", "/dev/null").current_dir(directory).status();
    assert!(status.unwrap().success(), "git {arguments:?}");
}

#[test]
fn a_home_is_worked_in_without_loggias_own_files() {
    let machine = Machine::new();
    let setting = "# kept\nmode = 'ask'\n";
    machine.configure(setting);
    let run = |prompt: &str| {
        let mut command = machine.command(&["run", "--approve", "edits", prompt]);
        Ran::from(command.current_dir(above(&machine)).output().unwrap())
    };
    for prompt in [
        "write home/config/config.toml: mode = 'all'",
        "edit home/config/config.toml: ask => all",
        "write home/state/new.txt: x",
        "read home/config/config.toml",
        "list home/data",
    ] {
        let ran = run(prompt);
        assert!(ran.out.contains("one of Loggia's own files"), "{prompt}: {}{}", ran.out, ran.err);
        assert!(
            ran.err.contains("Loggia's own files are inside the workspace"),
            "{prompt}: {}",
            ran.err
        );
    }
    let found = run("search kept");
    assert!(!found.out.contains("config.toml"), "{}", found.out);
    let kept = std::fs::read_to_string(machine.home().join("config/config.toml")).unwrap();
    assert_eq!(kept, setting);
    assert!(!machine.home().join("state/new.txt").exists());
    // Everything else works as usual; shell configuration needs an approval, so it is refused here.
    assert_eq!(run("write notes.txt: x").code, 0);
    assert!(above(&machine).join("notes.txt").exists());
    run("write .zshenv: x");
    assert!(!above(&machine).join(".zshenv").exists());
}

#[tokio::test]
async fn a_client_does_not_get_at_the_copy_of_another() {
    let machine = Machine::new();
    machine.configure("[server.clones]\nschemes = ['file']\n");
    let (root, said) = (above(&machine), above(&machine).join("said"));
    let origin = root.join("origins/repo");
    std::fs::create_dir_all(&origin).unwrap();
    std::fs::write(origin.join("secret.txt"), "of bob\n").unwrap();
    git(&origin, &["init", "-q"]);
    git(&origin, &["add", "-A"]);
    git(&origin, &["commit", "-q", "-m", "one"]);
    let (ann, bob) = (register(&machine, "ann", &[]), register(&machine, "bob", &[]));
    let mut command = machine.command(&["serve", "--port", "0", "--root", root.to_str().unwrap()]);
    command.stderr(File::create(&said).unwrap());
    let served = Served::spawn(command);
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("Loggia's own files are inside the workspace"), "{said}");
    let (ann, bob) = (ann.token(&served).await, bob.token(&served).await);
    let send = async |token: &str, text: &str, settings: Value| {
        let mut message = text_message(text);
        message["metadata"] = json!({ EXTENSION: settings });
        let params = json!({ "message": message, "configuration": { "blocking": true } });
        served.call_as(token, "/", "message/send", params).await
    };
    let url = format!("file://{}", origin.display());
    let repository = |more: Value| {
        let mut repository = json!({ "url": url });
        repository.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({ "repository": repository })
    };
    let cloned = send(&bob, "read secret.txt", repository(json!({}))).await;
    assert!(cloned.to_string().contains("of bob"), "its own copy is bob's to read: {cloned}");
    let clones = machine.home().join("state/clones");
    let copy = clones.join(cloned["result"]["contextId"].as_str().unwrap());
    let copy = copy.canonicalize().unwrap();
    assert!(copy.join("secret.txt").exists(), "{copy:?}");

    let own = [machine.home().join("config"), machine.data(), clones.clone(), copy.clone()];
    for path in own.iter().chain([&origin.join(".git")]) {
        let refused = send(&ann, "list", json!({ "workspace_path": path })).await;
        let reason = &refused["error"]["data"]["reason"];
        assert_eq!(reason, "workspace-refused", "{path:?}: {refused}");
    }
    let stolen = json!({ "repository": { "url": format!("file://{}", copy.display()) } });
    let refused = send(&ann, "list", stolen).await;
    let field = format!("message.metadata[{EXTENSION}].repository.url");
    assert_eq!(refused["error"]["data"]["field"], field, "{refused}");
    let inside = copy.strip_prefix(&root).unwrap();
    for prompt in [
        format!("read {}/secret.txt", inside.display()),
        "list home/state/clones".to_owned(),
        "read home/config/config.toml".to_owned(),
    ] {
        let told = send(&ann, &prompt, json!({ "workspace_path": root })).await.to_string();
        assert!(told.contains("one of Loggia's own files"), "{prompt}: {told}");
        assert!(!told.contains("of bob"), "{prompt}: {told}");
    }
    let target = repository(json!({ "target_directory": ".git" }));
    let failed = send(&ann, "write hooks/post-checkout: x", target).await;
    assert_eq!(failed["result"]["status"]["state"], "failed", "{failed}");
    assert!(failed.to_string().contains("is git's own"), "{failed}");
}

/// Tokens, keys and credentials are closed under every path and name.
#[tokio::test(flavor = "multi_thread")]
async fn secrets_below_a_root_are_not_for_tools() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let machine = Machine::new();
    let secret = |name: &str| {
        let path = machine.write(name, "bob:0123456789abcdef0123456789abcdef\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    };
    secret("secrets/tokens");
    let credential = secret("secrets/credential");
    symlink("secrets", machine.file("link")).unwrap();
    std::fs::hard_link(machine.file("secrets/tokens"), machine.file("second")).unwrap();
    machine.configure(&format!(
        "[server.clones]\ncredentials = ['git.example.org={}']\n",
        credential.display()
    ));
    let said = machine.home().join("said");
    let mut command =
        machine.command(&["serve", "--port", "0", "--token-file", "link/../secrets/tokens"]);
    command.stderr(File::create(&said).unwrap());
    let served = Served::spawn(command);
    for name in ["secrets/tokens", "link/tokens", "second", "secrets/credential"] {
        for prompt in [format!("read {name}"), format!("edit {name}: bob => eve")] {
            let params =
                json!({ "message": text_message(&prompt), "configuration": { "blocking": true } });
            let answer = served.call("message/send", params).await.to_string();
            assert!(answer.contains("one of Loggia's own files"), "{prompt}: {answer}");
            assert!(!answer.contains("0123456789abcdef"), "{prompt}: {answer}");
        }
    }
    let params = json!({ "message": text_message("search 0123456789"), "configuration": { "blocking": true } });
    let answer = served.call("message/send", params).await.to_string();
    assert!(!answer.contains("abcdef0123456789abcdef"), "{answer}");
    let said = std::fs::read_to_string(said).unwrap();
    assert!(said.contains("secrets/tokens"), "{said}");
}

/// A file that one server got by a flag or a variable is closed to the other processes of its user, also
/// to one that runs already.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_one_server_is_closed_to_every_process() {
    use std::os::unix::fs::PermissionsExt;
    let machine = Machine::new();
    let running = Served::start(&machine, &["serve", "--port", "0"]);
    let read = async |name: &str| {
        let message = text_message(&format!("read {name}"));
        let params = json!({ "message": message, "configuration": { "blocking": true } });
        running.call("message/send", params).await.to_string()
    };
    let secret = |name: &str, text: &str| {
        let path = machine.write(name, text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    };
    secret("tokens", "bob:0123456789abcdef0123456789abcdef\n");
    let authority = crate::authority::Authority::new(&machine);
    for name in ["cert.pem", "key.pem"] {
        secret(name, &std::fs::read_to_string(authority.path(name)).unwrap());
    }
    secret("credential", "user:0123456789abcdef\n");
    let all = ["tokens", "key.pem", "credential"];
    for name in all {
        assert!(!read(name).await.contains("one of Loggia's own files"), "{name}: not named yet");
    }
    let flags = ["--token-file", "tokens", "--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let mut command = machine.command(&[&["serve", "--port", "0"][..], &flags].concat());
    let credential = format!("git.example.org={}", machine.file("credential").display());
    command.env("LOGGIA_SERVER_CLONES_CREDENTIALS", credential);
    drop(Served::spawn(command));
    for name in all {
        let ran = machine.run(&["run", &format!("read {name}")]);
        assert!(ran.out.contains("one of Loggia's own files"), "{name}: {}{}", ran.out, ran.err);
        let answer = read(name).await;
        assert!(answer.contains("one of Loggia's own files"), "{name}: {answer}");
    }
    // A directory that was named by mistake closes nothing.
    machine.command(&["serve", "--port", "0", "--token-file", "."]).output().unwrap();
    machine.write("note", "hello");
    let ran = machine.run(&["run", "read note"]);
    assert!(ran.out.contains("hello"), "{}{}", ran.out, ran.err);
}

/// Certificates are renewed by replacing a link: its new target is closed too.
#[tokio::test]
async fn a_secret_that_was_replaced_through_a_link_is_closed() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let machine = Machine::new();
    for name in ["first", "second"] {
        let path = machine.write(name, "bob:0123456789abcdef0123456789abcdef\n");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
    let link = machine.file("credential");
    symlink("first", &link).unwrap();
    let configured = format!("credentials = ['git.example.org={}']\n", link.display());
    machine.configure(&format!("[server.clones]\n{configured}"));
    let served = Served::start(&machine, &["serve", "--port", "0"]);
    std::fs::remove_file(&link).unwrap();
    symlink("second", &link).unwrap();
    for prompt in ["read credential", "read second", "search 0123456789"] {
        let params =
            json!({ "message": text_message(prompt), "configuration": { "blocking": true } });
        let answer = served.call("message/send", params).await.to_string();
        assert!(!answer.contains("abcdef0123456789abcdef"), "{prompt}: {answer}");
    }
}
