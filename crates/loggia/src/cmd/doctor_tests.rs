use loggia_agent::guard::Probe;

use super::storage::{StorageKind, kind, size};
use super::*;

fn environment(variables: &[(&str, &str)]) -> crate::config::Environment {
    crate::config::Environment::from(
        variables.iter().map(|(name, value)| (name.into(), value.into())),
    )
}

#[test]
fn a_row_says_what_was_seen_and_what_to_do() {
    let checks = [
        Check::works("model", "offline can be opened"),
        Check::limited("git", "not found on PATH", "Install git."),
        Check::broken("database", "x\u{1b}[2J is damaged", "Keep a copy."),
    ];
    let plain = Style::detect(&environment(&[]), false);
    assert_eq!(
        text(&checks, &plain),
        "ok       model     offline can be opened\n\
         limited  git       not found on PATH\n                   Install git.\n\
         broken   database  x\\u{1b}[2J is damaged\n                   Keep a copy.\n\n\
         One thing that Loggia needs is broken.\n"
    );
    assert!(text(&checks[..2], &plain).ends_with("\nLoggia can work here.\n"));
}

/// The text reports only what the probe observed.
#[test]
fn isolation_is_told_as_it_is() {
    let verdicts = |probe: Probe| -> Vec<CheckResult> {
        isolation::guarded(probe).iter().map(|check| check.verdict).collect()
    };
    let (works, limited) = (CheckResult::Works, CheckResult::Limited);
    let nothing = Probe::default();
    let all = Probe {
        pid_namespace: true,
        user_namespace: true,
        own_proc: true,
        cgroup_pids: true,
        cgroup_memory: true,
        rlimit_processes: true,
    };
    assert_eq!(verdicts(nothing), [limited; 4]);
    assert_eq!(verdicts(all), [works; 4]);
    let cases = [
        (Probe { pid_namespace: true, ..nothing }, [works, limited, limited, limited]),
        (Probe { own_proc: true, ..nothing }, [limited, works, limited, limited]),
        (Probe { cgroup_pids: true, ..nothing }, [limited, limited, works, limited]),
        (Probe { rlimit_processes: true, ..nothing }, [limited, limited, works, limited]),
        (Probe { cgroup_memory: true, ..nothing }, [limited, limited, limited, works]),
    ];
    for (probe, wanted) in cases {
        assert_eq!(verdicts(probe), wanted, "{probe:?}");
    }
}

#[test]
fn a_sandbox_that_is_not_used_is_not_praised() {
    let seen = isolation::sandboxed(Some("bubblewrap 0.8.0"), Some(true));
    assert_eq!(seen.verdict, CheckResult::Limited);
    assert_eq!(
        seen.text,
        "commands may reach every file and network that you can (bubblewrap 0.8.0 is installed, \
         the kernel has Landlock; this version uses neither)"
    );
    assert_eq!(isolation::sandboxed(None, None).verdict, CheckResult::Limited);
}

#[test]
fn file_systems_are_known_by_their_place() {
    let cases = [
        (0xef53, Some(("ext2/3/4", StorageKind::Local))),
        (0x0102_1994, Some(("tmpfs", StorageKind::Memory))),
        (0x6969, Some(("NFS", StorageKind::Network))),
        (0xff53_4d42, Some(("SMB", StorageKind::Network))),
        // The same magic number in a signed field of 32 bits.
        (0xffff_ffff_ff53_4d42, Some(("SMB", StorageKind::Network))),
        (0x1234, None),
    ];
    for (magic, wanted) in cases {
        assert_eq!(kind(magic), wanted, "{magic:#x}");
    }
    let sizes = [(0, "0.0 KiB"), (5 << 20, "5.0 MiB"), (3 << 29, "1.5 GiB"), (2 << 40, "2.0 TiB")];
    for (bytes, wanted) in sizes {
        assert_eq!(size(bytes), wanted);
    }
}

#[test]
fn programs_are_found_by_full_paths_only() {
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("git");
    std::fs::write(&program, "#!/bin/sh\n").unwrap();
    let find =
        |path: &str| program::Programs::new(&environment(&[("PATH", path)]), &[]).find("git");
    let here = directory.path().to_str().unwrap();
    assert_eq!(find(here), None, "not executable");
    std::fs::set_permissions(&program, std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    assert_eq!(find(here), Some(program.clone()));
    assert_eq!(find(&format!(".:relative::{here}")), Some(program));
    assert_eq!(find("."), None);
    assert_eq!(find(""), None);
}
