use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct TestDirectories {
    root: tempfile::TempDir,
    trust: Trust,
}

impl TestDirectories {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let data = root.path().join("data");
        Self { trust: Trust { data }, root }
    }

    fn directory(&self, name: &str) -> PathBuf {
        let path = self.root.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path.canonicalize().unwrap()
    }
}

#[test]
fn trust_is_for_exactly_one_directory() {
    let test = TestDirectories::new();
    let project = test.directory("project");
    let (inner, beside) = (test.directory("project/inner"), test.directory("project2"));
    assert!(!test.trust.is_trusted(&project).unwrap());
    assert_eq!(test.trust.trust(&project).unwrap(), project);
    test.trust.trust(&project).unwrap();
    assert_eq!(test.trust.list().unwrap(), std::slice::from_ref(&project));
    assert!(test.trust.is_trusted(&project).unwrap());
    for other in [&inner, &beside, &test.root.path().to_owned()] {
        assert!(!test.trust.is_trusted(other).unwrap(), "{}", other.display());
    }
    assert_eq!(test.trust.revoke(&project).unwrap(), TrustState::Trusted);
    assert_eq!(test.trust.revoke(&project).unwrap(), TrustState::Nothing);
    assert!(!test.trust.is_trusted(&project).unwrap());
}

/// The last decision wins and removes the directory from the other list.
#[test]
fn a_directory_is_trusted_or_refused_or_neither() {
    let test = TestDirectories::new();
    let project = test.directory("project");
    let said = || {
        let trusted = test.trust.is_trusted(&project).unwrap();
        (trusted, test.trust.is_refused(&project).unwrap())
    };
    test.trust.refuse(&project).unwrap();
    test.trust.refuse(&project).unwrap();
    assert_eq!(said(), (false, true));
    assert_eq!(test.trust.refused().unwrap(), std::slice::from_ref(&project));
    test.trust.trust(&project).unwrap();
    assert_eq!(said(), (true, false));
    test.trust.refuse(&project).unwrap();
    assert_eq!(said(), (false, true));
    assert_eq!(test.trust.revoke(&project).unwrap(), TrustState::Refused);
    assert_eq!(said(), (false, false));
}

#[test]
fn a_link_stands_for_the_directory_behind_it() {
    let test = TestDirectories::new();
    let project = test.directory("project");
    let link = test.root.path().join("link");
    symlink(&project, &link).unwrap();
    test.trust.trust(&link).unwrap();
    assert!(test.trust.is_trusted(&project).unwrap());
    // A link to another directory is not trusted.
    std::fs::remove_file(&link).unwrap();
    symlink(test.directory("hostile"), &link).unwrap();
    assert!(!test.trust.is_trusted(&link).unwrap());
}

#[test]
fn a_directory_that_is_gone_can_be_revoked() {
    let test = TestDirectories::new();
    let project = test.directory("project");
    test.trust.trust(&project).unwrap();
    std::fs::remove_dir(&project).unwrap();
    assert!(!test.trust.is_trusted(&project).unwrap());
    assert_eq!(test.trust.revoke(&project).unwrap(), TrustState::Trusted);
    assert!(test.trust.list().unwrap().is_empty());
}

#[test]
fn invalid_directories_cannot_be_trusted() {
    let test = TestDirectories::new();
    let file = test.directory("d").join("file");
    std::fs::write(&file, "").unwrap();
    assert!(test.trust.trust(&file).unwrap_err().to_string().contains("only a directory"));
    assert!(test.trust.trust(&test.root.path().join("none")).is_err());
    let two_lines = test.directory("a\n/etc");
    assert!(test.trust.trust(&two_lines).unwrap_err().to_string().contains("line break"));
    assert!(test.trust.list().unwrap().is_empty());
}

#[test]
fn the_list_is_private_and_counts_only_while_it_is() {
    let test = TestDirectories::new();
    let project = test.directory("project");
    test.trust.trust(&project).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&test.trust.file()), 0o600);
    assert_eq!(mode(&test.trust.data), 0o700);
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(test.trust.file(), open).unwrap();
    let refused = test.trust.is_trusted(&project).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}

#[test]
fn two_at_once_lose_nothing() {
    let test = TestDirectories::new();
    let projects: Vec<_> =
        (0..16).map(|number| test.directory(&format!("project{number}"))).collect();
    std::thread::scope(|scope| {
        for project in &projects {
            scope.spawn(|| test.trust.trust(project).unwrap());
        }
    });
    assert_eq!(test.trust.list().unwrap().len(), projects.len());
}
