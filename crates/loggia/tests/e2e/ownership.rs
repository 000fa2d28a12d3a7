//! R22: one owner per session, across processes; whoever comes second is told who it is.

use std::io::{BufRead, BufReader};

use crate::driver::Machine;

#[test]
fn a_second_process_is_told_who_owns_the_session() {
    let machine = Machine::new();
    let mut owner = machine.start(&["run", "--output", "stream-json", "wait 60s"]);
    let mut lines = BufReader::new(owner.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("turn_started")));
    let session = machine.sessions().remove(0);
    let before = machine.log(&session);

    // Many at once: none of them gets in, each is told.
    let seconds: Vec<_> =
        (0..20).map(|_| machine.start(&["run", "--session", &session, "say me too"])).collect();
    for second in seconds {
        let ran = crate::driver::Ran::from(second.wait_with_output().unwrap());
        assert_eq!(ran.code, 1, "{}", ran.err);
        assert!(ran.err.contains(&format!("in use by process {}", owner.id())), "{}", ran.err);
    }
    assert_eq!(machine.run(&["sessions", "delete", &session]).code, 1);
    assert_eq!(machine.log(&session), before, "nobody else wrote");

    // Reading needs no ownership.
    assert_eq!(machine.run(&["sessions", "show", &session]).code, 0);

    // When the owner dies, exactly one of many takes over; the rest are told who.
    owner.kill().unwrap();
    owner.wait().unwrap();
    let heirs: Vec<_> = (0..20)
        .map(|_| machine.start(&["run", "--session", &session, "--output", "json", "wait 300ms"]))
        .collect();
    let codes: Vec<i32> = heirs
        .into_iter()
        .map(|heir| heir.wait_with_output().unwrap().status.code().unwrap())
        .collect();
    assert!(codes.contains(&0), "{codes:?}");
    assert!(codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
    let log = machine.log(&session);
    let turns = log
        .iter()
        .filter(|envelope| matches!(envelope.event, loggia_core::Event::PromptAccepted { .. }));
    assert_eq!(turns.count(), 1 + codes.iter().filter(|code| **code == 0).count());
    let dense = log.iter().enumerate().all(|(index, envelope)| envelope.seq.0 == index as u64 + 1);
    assert!(dense, "one log, no gaps");
}
