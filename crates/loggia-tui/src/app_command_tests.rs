//! Slash commands in the composer: handled here, sent to the session, or explained.

use super::*;

/// The effects of every typed command.
fn happens_with_every_command(effect: &Effect) -> bool {
    matches!(effect, Effect::Remember(_) | Effect::LoadCommands)
}

#[test]
fn commands_of_this_screen_are_done_here_and_others_are_sent() {
    let settings = |mode| {
        let settings = Harness::new().model.facts.settings.unwrap();
        Effect::Configure(Settings { mode, ..settings })
    };
    let cases = [
        ("/quit\n", Some(Effect::Leave(Exit::Asked))),
        ("/share\n", Some(Effect::LoadShare)),
        ("/share 1234\n", Some(Effect::ShareOn(Some(1234)))),
        ("/share off\n", Some(Effect::ShareOn(None))),
        ("/share off now\n", None),
        ("/share code\n", Some(Effect::Invite(String::new()))),
        ("/share code read, prompt\n", Some(Effect::Invite("read, prompt".into()))),
        ("/share me\n", None),
        ("/resume\n", Some(Effect::LoadSessions)),
        ("/mode plan\n", Some(settings(Mode::Plan))),
        ("/Mode EDITS\n", Some(settings(Mode::Edits))),
        ("/mode nonsense\n", None),
        ("/mode\n", None),
        ("/Share\n", Some(Effect::LoadShare)),
        ("/quit now\n", None),
        ("/vim on\n", None),
        ("/model bogus\n", Some(Effect::Prompt("/model bogus".into()))),
        ("/effort high\n", Some(Effect::Prompt("/effort high".into()))),
        ("/help mode\n", Some(Effect::Prompt("/help mode".into()))),
        ("/compact \n", Some(Effect::Prompt("/compact ".into()))),
        ("/unknown\n", Some(Effect::Prompt("/unknown".into()))),
        ("/usr/bin/x is a path\n", Some(Effect::Prompt("/usr/bin/x is a path".into()))),
    ];
    for (typed, wanted) in cases {
        let effects = Harness::new().types(typed);
        let done: Vec<Effect> =
            effects.into_iter().filter(|effect| !happens_with_every_command(effect)).collect();
        assert_eq!(done, wanted.into_iter().collect::<Vec<_>>(), "{typed:?}");
    }
}

#[test]
fn a_command_that_was_meant_otherwise_is_explained_here() {
    for (typed, said) in [
        ("/mode\n", "the mode is `ask`: /mode ask, edits, plan or all"),
        ("/mode bogus\n", "there is no mode `bogus`: /mode ask, edits, plan or all"),
        ("/quit now\n", "`/quit` takes no argument, but got `now`"),
        ("/VIM on\n", "`/vim` takes no argument, but got `on`"),
    ] {
        let mut harness = Harness::new();
        let effects = harness.types(typed);
        assert!(effects.iter().all(happens_with_every_command), "{typed}: {effects:?}");
        assert_eq!(harness.remark(), said, "{typed}");
    }
}

/// The session lists its commands, and the interface adds its own.
#[test]
fn a_command_that_does_not_exist_is_answered_with_those_of_the_screen_as_well() {
    let loggia_core::slash::PromptKind::Mistake(error) = loggia_core::slash::read("/modle edits")
    else {
        panic!("it is none")
    };
    // A mistake of another client is explained on its own screen.
    for (origin, here) in [(me(), true), (Origin::new(Surface::A2a, "phone"), false)] {
        let mut harness = Harness::new();
        harness.turn_for(origin, "/modle edits");
        let outcome = loggia_core::TurnOutcome::failed(error.to_string());
        harness.event(Origin::agent(), Event::TurnEnded { turn: "u".into(), outcome });
        assert_eq!(harness.remark().contains("/quit, /mode"), here, "{}", harness.remark());
    }
}
