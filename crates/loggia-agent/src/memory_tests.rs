use super::*;

struct Notes {
    directory: tempfile::TempDir,
}

impl Notes {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("w")).unwrap();
        Self { directory }
    }

    fn put(&self, name: &str, text: impl AsRef<[u8]>) -> &Self {
        std::fs::write(self.directory.path().join(name), text).unwrap();
        self
    }

    fn read(&self) -> Memory {
        let workspace = Workspace::open(&self.directory.path().join("w")).unwrap();
        Memory::read(&workspace, Some(&self.user()))
    }

    fn user(&self) -> std::path::PathBuf {
        self.directory.path().join("user.md")
    }
}

#[test]
fn without_files_there_are_no_notes() {
    let notes = Notes::new();
    let memory = notes.read();
    assert_eq!(memory.block(), None);
    assert_eq!(memory.warning(), None);
    assert_eq!(
        memory.list(),
        format!(
            "{}: missing\nAGENTS.md: missing\nGEMINI.md: missing\nCLAUDE.md: missing",
            super::USER_FILE
        )
    );
}

#[test]
fn the_users_notes_come_first_and_equal_files_are_used_once() {
    let notes = Notes::new();
    notes.put("user.md", "I like tea.\n").put("w/AGENTS.md", "# Here\n\nRun make.\n");
    notes.put("w/GEMINI.md", " \n").put("w/CLAUDE.md", "# Here\n\nRun make.\n");
    let memory = notes.read();
    assert_eq!(
        memory.block().unwrap(),
        format!(
            "{HEADING}\n\n--- {} ---\nI like tea.\n\n--- AGENTS.md ---\n# Here\n\nRun make.",
            super::USER_FILE
        )
    );
    let list = memory.list();
    assert!(list.contains("GEMINI.md: empty\nCLAUDE.md: the same as AGENTS.md"), "{list}");
    assert_eq!(memory.warning(), None);
}

#[test]
fn long_notes_are_cut_with_a_warning() {
    let notes = Notes::new();
    notes.put("w/AGENTS.md", "ä".repeat(LIMIT)).put("w/CLAUDE.md", "more");
    let memory = notes.read();
    assert!(memory.block().unwrap().len() < LIMIT + 1024);
    let list = memory.list();
    assert!(list.contains("AGENTS.md: 32768 of 65536 bytes (the limit is 32768)"), "{list}");
    assert!(list.contains("CLAUDE.md: 0 of 4 bytes"), "{list}");
    let warning = memory.warning().unwrap();
    assert!(warning.contains("cut short in AGENTS.md, CLAUDE.md"), "{warning}");
}

#[test]
fn unreadable_notes_are_reported() {
    let notes = Notes::new();
    notes.put("secret", "top secret").put("w/GEMINI.md", [0xff, 0xfe, 0x00]);
    std::os::unix::fs::symlink("../secret", notes.directory.path().join("w/AGENTS.md")).unwrap();
    std::fs::create_dir(notes.directory.path().join("w/CLAUDE.md")).unwrap();
    std::fs::create_dir(notes.user()).unwrap();
    let memory = notes.read();
    assert_eq!(memory.block(), None);
    let list = memory.list();
    assert!(list.contains("AGENTS.md: unreadable, `AGENTS.md` leads outside"), "{list}");
    assert!(list.contains("GEMINI.md: unreadable, it is not UTF-8 text"), "{list}");
    assert!(list.contains("CLAUDE.md: unreadable"), "{list}");
    assert!(list.contains("configuration directory: unreadable, it is not a file"), "{list}");
    assert!(memory.warning().is_some());
    notes.put("w/big", vec![b'x'; 1024 * 1024 + 1]);
    std::fs::rename(
        notes.directory.path().join("w/big"),
        notes.directory.path().join("w/GEMINI.md"),
    )
    .unwrap();
    assert!(notes.read().list().contains("the limit is 1048576"), "{}", notes.read().list());
}
