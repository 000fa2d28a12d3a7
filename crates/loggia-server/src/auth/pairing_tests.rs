//! Laws of one-time codes.

use std::collections::BTreeSet;

use loggia_session::MemoryStore;
use loggia_testkit::client;
use proptest::prelude::*;

use super::*;

const NOW: Millis = Millis(1_000_000);
const LIFE: i64 = 300_000;

fn store() -> Arc<dyn Store> {
    Arc::new(MemoryStore::default())
}

fn here(store: &Arc<dyn Store>) -> Pairing {
    Pairing::here(store.clone()).unwrap()
}

async fn redeemed(pairing: &Pairing, typed: &str, at: Millis) -> Option<Scopes> {
    pairing.redeem(typed, None, at).await.ok()
}

/// A well-formed code that is not this one.
fn other_than(code: &Code) -> String {
    let letters = code.0.reveal().chars();
    letters.map(|letter| if letter == 'Z' { 'Y' } else { 'Z' }).collect()
}

#[tokio::test]
async fn a_code_works_once_and_for_its_scopes() {
    let store = store();
    let pairing = here(&store);
    let code = pairing.offer(Scopes::CLIENT, NOW).await.unwrap();
    let shown = code.reveal();
    assert_eq!(shown.len(), 9);
    let asked = |scopes| pairing.redeem(&shown, Some(scopes), NOW);
    for more in [Scopes::ALL, Scopes::default()] {
        assert!(matches!(asked(more).await, Err(RedeemError::Scope)), "and it stays");
    }
    assert_eq!(asked(Scopes::REGISTERED).await.unwrap(), Scopes::REGISTERED);
    assert!(matches!(asked(Scopes::REGISTERED).await, Err(RedeemError::Wrong)));
    assert!(store.documents(CODES, "").await.unwrap().is_empty());
}

#[tokio::test]
async fn a_code_ends() {
    let set_back = [(-30_000, true), (-30_001, false)];
    let rows = [(0, true), (LIFE - 1, true), (LIFE, false), (LIFE + 1, false)];
    let rows = rows.into_iter().chain(set_back);
    for (later, valid) in rows {
        let pairing = here(&store());
        let code = pairing.offer(Scopes::CLIENT, NOW).await.unwrap();
        let found = redeemed(&pairing, &code.reveal(), Millis(NOW.0 + later)).await;
        assert_eq!(found.is_some(), valid, "after {later} ms");
    }
    let pairing = here(&store());
    let [first, second] = [(); 2].map(|()| pairing.offer(Scopes::CLIENT, NOW));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!(redeemed(&pairing, &first.reveal(), NOW).await, None, "there is another one");
    pairing.withdraw().await.unwrap();
    assert_eq!(redeemed(&pairing, &second.reveal(), NOW).await, None, "withdrawn");
    pairing.withdraw().await.unwrap();
}

/// Five wrong guesses invalidate a code.
#[tokio::test]
async fn five_wrong_guesses_from_any_source_invalidate_a_code() {
    for (guesses, alive) in [(0, true), (4, true), (5, false), (50, false)] {
        let store = store();
        let (pairing, command) = (here(&store), Pairing::anywhere(store.clone()));
        let own = pairing.offer(Scopes::CLIENT, NOW).await.unwrap();
        let everywhere = command.offer(Scopes::REGISTERED, NOW).await.unwrap();
        let wrong = loop {
            // Wrong for both codes.
            let wrong = Code::fresh().unwrap().reveal();
            if wrong != own.reveal() && wrong != everywhere.reveal() {
                break wrong;
            }
        };
        for _ in 0..guesses {
            assert_eq!(redeemed(&pairing, &wrong, NOW).await, None);
        }
        for (code, gives) in [(own, Scopes::CLIENT), (everywhere, Scopes::REGISTERED)] {
            let found = redeemed(&pairing, &code.reveal(), NOW).await;
            assert_eq!(found, alive.then_some(gives), "after {guesses}");
        }
    }
    // Text that cannot be a code does not count.
    let pairing = here(&store());
    let code = pairing.offer(Scopes::CLIENT, NOW).await.unwrap();
    let shown = code.reveal();
    for slip in
        ["", "x", "ABCD-EFG", &format!("{shown}0"), "ÄÖÜß-ÄÖÜß", "UUUU-UUUU", &"0".repeat(99)]
    {
        assert_eq!(redeemed(&pairing, slip, NOW).await, None, "{slip}");
    }
    assert!(redeemed(&pairing, &shown, NOW).await.is_some());
}

/// The first request wins, and a guess that is not counted is not answered; with a store that lets others write
/// between a read and a write.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_at_once_one_gets_in_and_every_guess_counts() {
    let directory = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = client::sqlite(directory.path());
    for _ in 0..5 {
        let pairing = Arc::new(here(&store));
        let code = Pairing::anywhere(store.clone()).offer(Scopes::CLIENT, NOW).await.unwrap();
        let servers = [pairing, Arc::new(here(&store))];
        let all = (0..16).map(|number| {
            let (pairing, typed) = (servers[number % 2].clone(), code.reveal());
            tokio::spawn(async move { redeemed(&pairing, &typed, NOW).await.is_some() })
        });
        let got = futures::future::join_all(all).await;
        let winners = got.into_iter().filter(|got| *got.as_ref().unwrap()).count();
        assert_eq!(winners, 1);

        let pairing = servers[0].clone();
        let code = pairing.offer(Scopes::CLIENT, NOW).await.unwrap();
        let all = (0..8).map(|_| {
            let (pairing, wrong) = (pairing.clone(), other_than(&code));
            tokio::spawn(async move { pairing.redeem(&wrong, None, NOW).await })
        });
        let answered = futures::future::join_all(all).await;
        let wrong =
            |answer: &Result<Scopes, RedeemError>| matches!(answer, Err(RedeemError::Wrong));
        let answered = answered.iter().filter(|answer| wrong(answer.as_ref().unwrap())).count();
        assert!(answered >= 5, "{answered}");
        assert_eq!(redeemed(&pairing, &code.reveal(), NOW).await, None, "{answered} wrong ones");
    }
}

/// The code of a killed server is accepted by no other server.
#[tokio::test]
async fn a_code_of_one_server_is_no_others() {
    let store = store();
    let (first, second) = (here(&store), here(&store));
    let code = first.offer(Scopes::CLIENT, NOW).await.unwrap();
    assert_eq!(redeemed(&second, &code.reveal(), NOW).await, None);
    assert!(redeemed(&first, &code.reveal(), NOW).await.is_some(), "no guess at the first one's");
    let later = Millis(NOW.0 + LIFE);
    first.offer(Scopes::CLIENT, NOW).await.unwrap();
    second.offer(Scopes::CLIENT, later).await.unwrap();
    let left = store.documents(CODES, "").await.unwrap();
    assert_eq!(left.len(), 1, "what ended is swept");
}

#[tokio::test]
async fn some_codes_are_not_made() {
    let pairing = here(&store());
    let made = |scopes| pairing.offer(scopes, NOW);
    assert!(matches!(made(Scopes::default()).await, Err(PairingError::NoScope)));
    assert!(matches!(made(Scopes::ALL).await, Err(PairingError::Admin)));
}

#[tokio::test]
async fn the_store_contains_no_code() {
    let store = store();
    let code = here(&store).offer(Scopes::CLIENT, NOW).await.unwrap();
    let stored = store.documents(CODES, "").await.unwrap();
    let stored = format!("{stored:?}");
    assert!(!stored.contains(&code.reveal()) && !stored.contains(code.0.reveal()), "{stored}");
}

#[test]
fn codes_are_random() {
    let codes: BTreeSet<String> = (0..500).map(|_| Code::fresh().unwrap().reveal()).collect();
    assert_eq!(codes.len(), 500);
    for place in (0..9).filter(|place| *place != 4) {
        let letters: BTreeSet<u8> = codes.iter().map(|code| code.as_bytes()[place]).collect();
        assert_eq!(letters.len(), 32, "at {place}");
    }
}

proptest! {
    /// Every way of typing it.
    #[test]
    fn a_code_is_read_as_it_is_meant(
        code in "[0-9A-HJKMNP-TV-Z]{8}",
        gaps in prop::collection::vec(0..9usize, 0..4),
        small in any::<bool>(),
        alike in any::<bool>(),
    ) {
        let mut typed = if small { code.to_lowercase() } else { code.clone() };
        if alike {
            typed = typed.replace('0', "o").replace('1', "l");
        }
        for gap in gaps {
            typed.insert(gap.min(typed.len()), if gap % 2 == 0 { '-' } else { ' ' });
        }
        let read = Code::read(&typed).map(|code| code.0.reveal().to_owned());
        prop_assert_eq!(read, Some(code));
    }

    #[test]
    fn nothing_makes_it_fail_otherwise(typed in "\\PC{0,40}") {
        if let Some(code) = Code::read(&typed) {
            prop_assert_eq!(code.0.reveal().len(), LENGTH);
        }
    }
}
