use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

struct Place {
    root: tempfile::TempDir,
    trust: Trust,
}

impl Place {
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
    let place = Place::new();
    let project = place.directory("project");
    let (inner, beside) = (place.directory("project/inner"), place.directory("project2"));
    assert!(!place.trust.is_trusted(&project).unwrap());
    assert_eq!(place.trust.trust(&project).unwrap(), project);
    place.trust.trust(&project).unwrap();
    assert_eq!(place.trust.list().unwrap(), std::slice::from_ref(&project));
    assert!(place.trust.is_trusted(&project).unwrap());
    for other in [&inner, &beside, &place.root.path().to_owned()] {
        assert!(!place.trust.is_trusted(other).unwrap(), "{}", other.display());
    }
    assert_eq!(place.trust.revoke(&project).unwrap(), Said::Trusted);
    assert_eq!(place.trust.revoke(&project).unwrap(), Said::Nothing);
    assert!(!place.trust.is_trusted(&project).unwrap());
}

/// The last decision wins and removes the directory from the other list.
#[test]
fn a_directory_is_trusted_or_refused_or_neither() {
    let place = Place::new();
    let project = place.directory("project");
    let said = || {
        let trusted = place.trust.is_trusted(&project).unwrap();
        (trusted, place.trust.is_refused(&project).unwrap())
    };
    place.trust.refuse(&project).unwrap();
    place.trust.refuse(&project).unwrap();
    assert_eq!(said(), (false, true));
    assert_eq!(place.trust.refused().unwrap(), std::slice::from_ref(&project));
    place.trust.trust(&project).unwrap();
    assert_eq!(said(), (true, false));
    place.trust.refuse(&project).unwrap();
    assert_eq!(said(), (false, true));
    assert_eq!(place.trust.revoke(&project).unwrap(), Said::Refused);
    assert_eq!(said(), (false, false));
}

#[test]
fn a_link_stands_for_the_directory_behind_it() {
    let place = Place::new();
    let project = place.directory("project");
    let link = place.root.path().join("link");
    symlink(&project, &link).unwrap();
    place.trust.trust(&link).unwrap();
    assert!(place.trust.is_trusted(&project).unwrap());
    // A link to another directory is not trusted.
    std::fs::remove_file(&link).unwrap();
    symlink(place.directory("hostile"), &link).unwrap();
    assert!(!place.trust.is_trusted(&link).unwrap());
}

#[test]
fn a_directory_that_is_gone_can_be_revoked() {
    let place = Place::new();
    let project = place.directory("project");
    place.trust.trust(&project).unwrap();
    std::fs::remove_dir(&project).unwrap();
    assert!(!place.trust.is_trusted(&project).unwrap());
    assert_eq!(place.trust.revoke(&project).unwrap(), Said::Trusted);
    assert!(place.trust.list().unwrap().is_empty());
}

#[test]
fn what_cannot_be_trusted_is_refused() {
    let place = Place::new();
    let file = place.directory("d").join("file");
    std::fs::write(&file, "").unwrap();
    assert!(place.trust.trust(&file).unwrap_err().to_string().contains("only a directory"));
    assert!(place.trust.trust(&place.root.path().join("none")).is_err());
    let two_lines = place.directory("a\n/etc");
    assert!(place.trust.trust(&two_lines).unwrap_err().to_string().contains("line break"));
    assert!(place.trust.list().unwrap().is_empty());
}

#[test]
fn the_list_is_private_and_counts_only_while_it_is() {
    let place = Place::new();
    let project = place.directory("project");
    place.trust.trust(&project).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&place.trust.file()), 0o600);
    assert_eq!(mode(&place.trust.data), 0o700);
    let open = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(place.trust.file(), open).unwrap();
    let refused = place.trust.is_trusted(&project).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}

#[test]
fn two_at_once_lose_nothing() {
    let place = Place::new();
    let projects: Vec<_> =
        (0..16).map(|number| place.directory(&format!("project{number}"))).collect();
    std::thread::scope(|scope| {
        for project in &projects {
            scope.spawn(|| place.trust.trust(project).unwrap());
        }
    });
    assert_eq!(place.trust.list().unwrap().len(), projects.len());
}
