use super::*;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
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
fn nothing_is_remembered_where_there_is_nothing() {
    let place = Place::new();
    let memory = place.read();
    assert_eq!(memory.block(), None);
    assert_eq!(memory.warning(), None);
    let user = place.user();
    let workspace = Workspace::open(&place.directory.path().join("w")).unwrap();
    assert!(Memory::is_absent(&workspace, Some(&user)));
    for name in ["user.md", "w/CLAUDE.md"] {
        place.put(name, "note");
        assert!(!Memory::is_absent(&workspace, Some(&user)), "{name}");
        std::fs::remove_file(place.directory.path().join(name)).unwrap();
    }
    assert_eq!(
        memory.list(),
        format!(
            "{}: not there\nAGENTS.md: not there\nGEMINI.md: not there\nCLAUDE.md: not there",
            super::USERS
        )
    );
}

#[test]
fn the_users_notes_come_first_and_equal_files_count_once() {
    let place = Place::new();
    place.put("user.md", "I like tea.\n").put("w/AGENTS.md", "# Here\n\nRun make.\n");
    place.put("w/GEMINI.md", " \n").put("w/CLAUDE.md", "# Here\n\nRun make.\n");
    let memory = place.read();
    assert_eq!(
        memory.block().unwrap(),
        format!(
            "{HEADING}\n\n--- {} ---\nI like tea.\n\n--- AGENTS.md ---\n# Here\n\nRun make.",
            super::USERS
        )
    );
    let list = memory.list();
    assert!(list.contains("GEMINI.md: empty\nCLAUDE.md: the same as AGENTS.md"), "{list}");
    assert_eq!(memory.warning(), None);
}

#[test]
fn memory_is_bounded_and_says_so() {
    let place = Place::new();
    place.put("w/AGENTS.md", "ä".repeat(LIMIT)).put("w/CLAUDE.md", "more");
    let memory = place.read();
    assert!(memory.block().unwrap().len() < LIMIT + 1024);
    let list = memory.list();
    assert!(list.contains("AGENTS.md: 32768 of 65536 bytes (the limit is 32768)"), "{list}");
    assert!(list.contains("CLAUDE.md: 0 of 4 bytes"), "{list}");
    let warning = memory.warning().unwrap();
    assert!(warning.contains("cut short in AGENTS.md, CLAUDE.md"), "{warning}");
}

#[test]
fn what_is_no_note_is_not_read() {
    let place = Place::new();
    place.put("secret", "top secret").put("w/GEMINI.md", [0xff, 0xfe, 0x00]);
    std::os::unix::fs::symlink("../secret", place.directory.path().join("w/AGENTS.md")).unwrap();
    std::fs::create_dir(place.directory.path().join("w/CLAUDE.md")).unwrap();
    std::fs::create_dir(place.user()).unwrap();
    let memory = place.read();
    assert_eq!(memory.block(), None);
    let list = memory.list();
    assert!(list.contains("AGENTS.md: not read, `AGENTS.md` leads outside"), "{list}");
    assert!(list.contains("GEMINI.md: not read, it is not UTF-8 text"), "{list}");
    assert!(list.contains("CLAUDE.md: not read"), "{list}");
    assert!(list.contains("configuration directory: not read, it is not a file"), "{list}");
    assert!(memory.warning().is_some());
    place.put("w/big", vec![b'x'; 1024 * 1024 + 1]);
    std::fs::rename(
        place.directory.path().join("w/big"),
        place.directory.path().join("w/GEMINI.md"),
    )
    .unwrap();
    assert!(place.read().list().contains("at most 1048576 are handled"), "{}", place.read().list());
}
