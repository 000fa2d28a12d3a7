//! Sessions in repository clones, as requested by clients.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::driver::Machine;
use crate::served::{EXTENSION, Served, text_message};

fn git(directory: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "init.defaultBranch=main", "-c", "user.name=A", "-c", "user.email=a@b"])
        .args(arguments)
        .current_dir(directory)
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// A repository below a served root.
fn origin(machine: &Machine) -> PathBuf {
    let path = machine.home().parent().unwrap().join("origins/repo.git");
    std::fs::create_dir_all(path.join("src")).unwrap();
    std::fs::write(path.join("src/lib.rs"), "fn one() {}\n").unwrap();
    git(&path, &["init", "-q"]);
    git(&path, &["add", "-A"]);
    git(&path, &["commit", "-q", "-m", "one"]);
    path.canonicalize().unwrap()
}

fn clones(machine: &Machine) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(machine.home().join("state/clones")) else {
        return Vec::new();
    };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn serve(machine: &Machine) -> Served {
    let root = machine.home().parent().unwrap().join("origins");
    std::fs::create_dir_all(&root).unwrap();
    let root = root.to_str().unwrap();
    Served::start(machine, &["serve", "--port", "0", "--root", root, "--approve", "all"])
}

fn message(text: &str, repository: Value) -> Value {
    let mut message = text_message(text);
    message["metadata"] = json!({ EXTENSION: { "repository": repository } });
    message
}

async fn send(served: &Served, message: Value) -> Value {
    let params = json!({ "message": message, "configuration": { "blocking": true } });
    served.call("message/send", params).await
}

fn part<'a>(task: &'a Value, name: &str) -> &'a Value {
    let artifacts = task["artifacts"].as_array().unwrap();
    let found = artifacts.iter().find(|artifact| artifact["name"] == name);
    &found.unwrap_or_else(|| panic!("no {name} in {task}"))["parts"][0]
}

#[tokio::test]
async fn a_client_has_a_repository_cloned_and_gets_the_changes() {
    let machine = Machine::new();
    machine.configure("[server.clones]\nschemes = ['file']\n");
    let origin = origin(&machine);
    let served = serve(&machine);
    let repository =
        json!({ "url": format!("file://{}", origin.display()), "target_directory": "src" });
    let mut first = message("write new.rs: fn new() {}", repository.clone());
    let answer = send(&served, first.clone()).await;
    let task = &answer["result"];
    assert_eq!(task["status"]["state"], "completed", "{answer}");
    let output = part(task, "output.txt")["text"].as_str().unwrap();
    assert!(output.contains("new.rs"), "{output}");
    let file = &part(task, "changes.patch")["file"];
    assert_eq!(
        (&file["name"], &file["mimeType"]),
        (&json!("changes.patch"), &json!("text/x-diff"))
    );
    assert!(file["bytes"].as_str().unwrap().len() > 100, "{file}");
    assert!(!origin.join("src/new.rs").exists());

    // Every dialect and stream shows the changes.
    let task_id = task["id"].clone();
    let newer = served.call("GetTask", json!({ "id": task_id })).await;
    let patch = part(&newer["result"], "changes.patch");
    assert_eq!(patch["mediaType"], "text/x-diff", "{patch}");
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "message/stream",
        "params": { "message": message("say streamed", repository.clone()) } });
    for request in [served.post(&body), served.post(&body).header("X-A2A-Extensions", EXTENSION)] {
        let events = served.stream(request, usize::MAX).await;
        let updates = events.iter().map(|event| &event.response["result"]["artifact"]["name"]);
        let names: Vec<_> = updates.filter_map(Value::as_str).collect();
        assert!(names.contains(&"output.txt") && names.contains(&"changes.patch"), "{names:?}");
    }

    // The session continues in its clone only.
    let session = task["contextId"].as_str().unwrap().to_owned();
    first["contextId"] = json!(session);
    assert_eq!(send(&served, first.clone()).await["result"]["status"]["state"], "completed");
    for other in [
        json!({ "url": format!("file://{}", origin.display()) }),
        json!({ "url": "https://example.org/x" }),
    ] {
        let mut differs = message("say x", other);
        differs["contextId"] = json!(session);
        let refused = send(&served, differs).await;
        assert_eq!(refused["error"]["data"]["reason"], "workspace-differs", "{refused}");
    }

    let doctor = machine.run(&["doctor"]);
    assert!(doctor.out.contains("3 of at most 64 in"), "{}", doctor.out);
    assert!(doctor.out.contains("from https, file; kept: days:7"), "{}", doctor.out);

    // Deleting the session deletes its clone.
    drop(served);
    assert!(clones(&machine).contains(&session));
    assert_eq!(machine.run(&["sessions", "delete", &session]).code, 0);
    assert!(!clones(&machine).iter().any(|name| name.starts_with(&session)));
    assert_eq!(clones(&machine).len(), 4, "{:?}", clones(&machine));

    // Clones that the configuration does not keep are removed at the start; other files stay.
    let other = machine.home().join("state/clones/notes.txt");
    std::fs::write(&other, "mine").unwrap();
    machine.configure("[server.clones]\nschemes = ['file']\nkeep = 'never'\n");
    let served = serve(&machine);
    let done = send(&served, message("write a.txt: a", repository)).await;
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    part(&done["result"], "changes.patch");
    assert_eq!(clones(&machine), ["notes.txt"]);
}

/// A30, A32: refused before anything is created, naming the wrong field.
#[tokio::test]
async fn hostile_addresses_are_refused_before_anything_is_created() {
    let machine = Machine::new();
    let origin = origin(&machine);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let served = serve(&machine);
    let mark = machine.file("PWNED");
    let mark = mark.display();
    let shapes = [
        format!("ext::sh -c touch% {mark}"),
        format!("--upload-pack=touch {mark}"),
        "-oProxyCommand=touch".to_owned(),
        "ssh://-oProxyCommand=x/y".to_owned(),
        "/etc".to_owned(),
        "https://u:p@h/x".to_owned(),
        "https://h/x\nfoo".to_owned(),
        "HTTPS::x".to_owned(),
        "https://2130706433/x".to_owned(),
    ];
    let policies = [
        "file:///etc".to_owned(),
        format!("file://{}", origin.display()),
        "git://h/x".to_owned(),
        "http://h/x".to_owned(),
        "ssh://git@h/x".to_owned(),
        format!("https://127.0.0.1:{port}/x.git"),
        format!("https://localhost:{port}/x.git"),
        "https://169.254.169.254/latest/meta-data".to_owned(),
        "https://[::ffff:10.0.0.1]/".to_owned() + "x",
    ];
    for url in shapes.iter().chain(&policies) {
        let refused = send(&served, message("say x", json!({ "url": url }))).await;
        assert_eq!(refused["error"]["code"], -32602, "{url}: {refused}");
        let text = refused["error"]["message"].as_str().unwrap();
        let field = format!("message.metadata[{EXTENSION}].repository.url");
        assert!(text.contains(&field) && !text.contains("u:p"), "{url}: {text}");
        // In the dialect of the client.
        let task = json!({ "id": "t", "context": { "repositoryUrl": url },
                           "message": { "parts": [{ "text": "say x" }] } });
        let refused = served.call("tasks/send", task).await;
        assert_eq!(refused["error"]["data"]["field"], "context.repositoryUrl", "{url}: {refused}");
    }
    let both = json!({ EXTENSION: { "repository": { "url": "https://h/x" },
        "workspace_path": machine.work() } });
    let mut given = text_message("say x");
    given["metadata"] = both;
    assert_eq!(send(&served, given).await["error"]["code"], -32602);
    assert!(listener.accept().is_err(), "somebody was connected to");
    assert!(!machine.file("PWNED").exists());
    assert_eq!(clones(&machine), Vec::<String>::new());
    assert_eq!(machine.sessions(), Vec::<String>::new());

    // A local repository must be below a served root.
    machine.configure("[server.clones]\nschemes = ['file']\ncount = 1\n");
    let served = serve(&machine);
    std::os::unix::fs::symlink("/etc", origin.with_file_name("out")).unwrap();
    let out = format!("file://{}/out", origin.parent().unwrap().display());
    for url in ["file:///etc", "file:///", "file:///proc/self/root/etc", &out] {
        let refused = send(&served, message("say x", json!({ "url": url }))).await;
        assert_eq!(refused["error"]["code"], -32602, "{url}: {refused}");
    }
    let url = format!("file://{}", origin.display());
    let done = send(&served, message("say x", json!({ "url": url }))).await;
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    let refused = send(&served, message("say x", json!({ "url": url }))).await;
    assert_eq!(refused["error"]["data"]["reason"], "clones-full", "{refused}");
    assert_eq!(machine.sessions().len(), 1);
}

/// A remote that accepts the first connection and never replies; `git daemon` for all others.
fn remote(root: &Path) -> (u16, mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (connected, first) = mpsc::sync_channel(1);
    let root = root.to_owned();
    std::thread::spawn(move || {
        let held = listener.accept().unwrap();
        connected.send(()).unwrap();
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            Command::new("git")
                .args(["daemon", "--inetd", "--export-all"])
                .arg(format!("--base-path={}", root.display()))
                .stdin(Stdio::from(OwnedFd::from(stream.try_clone().unwrap())))
                .stdout(Stdio::from(OwnedFd::from(stream)))
                .status()
                .unwrap();
        }
        drop(held);
    });
    (port, first)
}

fn processes(part: &str) -> usize {
    let lines = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).ok()?;
        Some(String::from_utf8_lossy(&line).into_owned())
    });
    lines.filter(|line| line.contains(part)).count()
}

/// Killed during a clone: its processes die too, the incomplete clone is removed, and the next turn
/// clones exactly once more.
#[tokio::test]
async fn killed_in_the_middle_of_a_clone() {
    let machine = Machine::new();
    machine.configure("[server.clones]\nschemes = ['git']\n");
    let origin = origin(&machine);
    let (port, first) = remote(origin.parent().unwrap());
    let url = format!("git://127.0.0.1:{port}/repo.git");
    let served = serve(&machine);
    let mut asked = message("say there", json!({ "url": url }));
    asked["contextId"] = json!("mine/../mine");
    let params = json!({ "message": asked, "configuration": { "blocking": false } });
    let begun = served.call("message/send", params).await;
    let task = begun["result"]["id"].clone();
    first.recv_timeout(Duration::from_secs(20)).unwrap();
    assert!(processes(&url) > 0);
    assert!(clones(&machine).iter().all(|name| name.ends_with(".new")), "{:?}", clones(&machine));
    assert_eq!(clones(&machine).len(), 1);
    drop(served); // SIGKILL
    let begun = std::time::Instant::now();
    while processes(&url) > 0 {
        assert!(begun.elapsed() < Duration::from_secs(5), "git outlives Loggia");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let served = serve(&machine);
    let cut = served.call("tasks/get", json!({ "id": task })).await;
    assert_eq!(cut["result"]["status"]["state"], "failed", "{cut}");
    assert_eq!(clones(&machine), Vec::<String>::new(), "what was left is gone");
    let done = send(&served, asked.clone()).await;
    assert_eq!(done["result"]["status"]["state"], "completed", "{done}");
    let names = clones(&machine);
    assert!(names.len() == 2 && names.iter().all(|name| name.starts_with("named-")), "{names:?}");
    drop(served); // SIGKILL
    std::fs::remove_dir_all(&origin).unwrap();
    let served = serve(&machine);
    let done = send(&served, asked).await;
    assert_eq!(done["result"]["status"]["state"], "completed", "it was there: {done}");
}
