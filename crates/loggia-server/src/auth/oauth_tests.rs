use std::net::IpAddr;

use loggia_session::MemoryStore;

use super::*;
use crate::auth::Grant;

const LOCAL: PeerIdentity = PeerIdentity::Local { uid: 1000, pid: 1, program: String::new() };

fn stage(sample: SampleClient) -> (Clients, Arc<OAuth>) {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    (Clients::new(store.clone()), Arc::new(OAuth::new(store, sample).unwrap()))
}

fn asked(client: &str, secret: &str, scopes: Option<Scopes>) -> TokenRequest {
    TokenRequest { client: client.to_owned(), secret: Secret::new(secret.to_owned()), scopes }
}

fn somewhere(number: u8) -> Source {
    Source::Address(IpAddr::from([192, 0, 2, number]))
}

async fn checked(oauth: &Arc<OAuth>, token: &str) -> CredentialCheck {
    let request = axum::http::Request::builder().header("authorization", format!("Bearer {token}"));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    oauth.check(&parts).await
}

#[tokio::test]
async fn a_token_is_its_client_and_no_more_than_it_was_asked_for() {
    let (clients, oauth) = stage(SampleClient::Off);
    let secret = clients.add("ann", Scopes::CLIENT, Grant::Edits).await.unwrap();
    let secret = secret.reveal();
    for (scopes, wanted) in [(None, Scopes::CLIENT), (Some(Scopes::REGISTERED), Scopes::REGISTERED)]
    {
        let issued = oauth.issue(asked("ann", secret, scopes), somewhere(1), &LOCAL).await;
        let Ok(Issued { token, .. }) = issued else { panic!("no token") };
        let CredentialCheck::Accepted(principal) = checked(&oauth, &token).await else {
            panic!("not accepted")
        };
        assert_eq!((principal.label(), principal.scopes), ("client:ann", wanted));
        assert!(principal.name.starts_with("client:ann~"), "{}", principal.name);
        assert_eq!(principal.grant, Grant::Edits);
        assert_eq!(checked(&oauth, &format!("{token}x")).await, CredentialCheck::Unknown);
    }
    let wide = oauth.issue(asked("ann", secret, Some(Scopes::ALL)), somewhere(1), &LOCAL).await;
    assert_eq!(wide.err(), Some(Denied::Scope));
}

/// A09: distributed guessing is slowed down, and its victim is not locked out.
#[tokio::test]
async fn attempts_at_one_client_are_counted_wherever_they_come_from() {
    let (clients, oauth) = stage(SampleClient::Off);
    let secret = clients.add("ann", Scopes::CLIENT, Grant::None).await.unwrap();
    let attempt = async |client: &str, secret: &str, from: u8| {
        oauth.issue(asked(client, secret, None), somewhere(from), &LOCAL).await.map(drop)
    };
    assert_eq!(attempt("ann", secret.reveal(), 1).await, Ok(()));
    for from in 0..20 {
        assert_eq!(attempt("ann", "wrong", 100 + from).await, Err(Denied::Client), "{from}");
    }
    assert!(matches!(attempt("ann", "wrong", 200).await, Err(Denied::Wait(_))));
    assert!(matches!(attempt("ann", secret.reveal(), 201).await, Err(Denied::Wait(_))));
    assert_eq!(attempt("ann", secret.reveal(), 1).await, Ok(()), "from where it was before");
    assert_eq!(attempt("bob", "wrong", 202).await, Err(Denied::Client), "others are not concerned");
}

/// A09: guessing from a source slows down new clients there, but not clients that have succeeded there: for
/// them only their own failures count.
#[tokio::test]
async fn a_client_is_not_locked_out_by_another_at_the_same_place() {
    let (clients, oauth) = stage(SampleClient::Off);
    let secret = clients.add("good", Scopes::CLIENT, Grant::None).await.unwrap();
    let here = somewhere(1);
    let issued = oauth.issue(asked("good", secret.reveal(), None), here.clone(), &LOCAL).await;
    assert!(issued.is_ok());
    let mut at = Instant::now();
    for second in 0..90 {
        if oauth.may_try("bad", &here, at).is_ok() {
            oauth.failed("bad".to_owned(), here.clone(), at);
        }
        assert_eq!(oauth.may_try("good", &here, at), Ok(()), "after {second} s");
        at += Duration::from_secs(1);
    }
    assert!(oauth.may_try("new", &here, at).is_err(), "guessing is slow");
    // Guesses at its own name are as slow as any.
    for attempt in 0..5 {
        assert_eq!(oauth.may_try("good", &here, at), Ok(()), "{attempt}");
        oauth.failed("good".to_owned(), here.clone(), at);
    }
    for wait in [1, 2, 4, 8, 16, 32, 60, 60] {
        let wait = Duration::from_secs(wait);
        assert_eq!(oauth.may_try("good", &here, at), Err(wait));
        at += wait;
        assert_eq!(oauth.may_try("good", &here, at), Ok(()));
        oauth.failed("good".to_owned(), here.clone(), at);
    }
}

/// A08: the sample's secret is public, so only the user's own processes can use it.
#[tokio::test]
async fn the_sample_is_for_its_user_alone() {
    let (name, secret) = SAMPLE;
    let other = PeerIdentity::OtherUser { uid: 65_534 };
    let rows = [
        (SampleClient::Off, LOCAL, false),
        (SampleClient::On, LOCAL, true),
        (SampleClient::On, other, false),
        (SampleClient::On, PeerIdentity::Unknown, false),
    ];
    for (sample, identity, given) in rows {
        let (_, oauth) = stage(sample);
        let issued = oauth.issue(asked(name, secret, None), somewhere(1), &identity).await;
        assert_eq!(issued.is_ok(), given, "{sample:?} {identity:?}");
    }
}

/// A new client of an old name is another principal.
#[tokio::test]
async fn a_name_that_is_given_again_owns_nothing_of_the_first() {
    let (clients, oauth) = stage(SampleClient::Off);
    let owner = async |secret: &Secret| {
        let issued = oauth.issue(asked("ann", secret.reveal(), None), somewhere(1), &LOCAL).await;
        let Ok(Issued { token, .. }) = issued else { panic!("no token") };
        let CredentialCheck::Accepted(principal) = checked(&oauth, &token).await else {
            panic!("not accepted")
        };
        principal.name
    };
    let first = owner(&clients.add("ann", Scopes::CLIENT, Grant::None).await.unwrap()).await;
    let rotated = owner(&clients.rotate("ann").await.unwrap()).await;
    assert_eq!(rotated, first, "a new secret is the same client");
    assert!(oauth.still_knows(&first).await.unwrap());
    clients.revoke("ann").await.unwrap();
    assert!(!oauth.still_knows(&first).await.unwrap());
    let second = owner(&clients.add("ann", Scopes::CLIENT, Grant::None).await.unwrap()).await;
    assert_ne!(second, first);
    assert!(!oauth.still_knows(&first).await.unwrap(), "webhooks of the first stay silent");
    assert!(oauth.still_knows(&second).await.unwrap());
}

/// A client of a version without ids keeps its sessions, and the next client of its name does not get them.
#[tokio::test]
async fn a_client_of_an_earlier_version_keeps_its_principal() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let clients = Clients::new(store.clone());
    let secret = clients.add("ann", Scopes::CLIENT, Grant::None).await.unwrap();
    let text = store.document("oauth-clients", "ann").await.unwrap().unwrap();
    let mut written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(written.as_object_mut().unwrap().remove("id").is_some());
    let old = loggia_session::Document {
        collection: "oauth-clients".to_owned(),
        key: "ann".to_owned(),
        value: Some(written.to_string()),
    };
    assert!(store.replace(Some(text), old).await.unwrap());
    let oauth = Arc::new(OAuth::new(store, SampleClient::Off).unwrap());
    let issued = oauth.issue(asked("ann", secret.reveal(), None), somewhere(1), &LOCAL).await;
    let Ok(Issued { token, .. }) = issued else { panic!("no token") };
    let CredentialCheck::Accepted(principal) = checked(&oauth, &token).await else {
        panic!("not accepted")
    };
    assert_eq!(&*principal.name, "client:ann");
    assert!(oauth.still_knows("client:ann").await.unwrap());
    clients.rotate("ann").await.unwrap();
    assert!(oauth.still_knows("client:ann").await.unwrap());
    clients.revoke("ann").await.unwrap();
    clients.add("ann", Scopes::CLIENT, Grant::None).await.unwrap();
    assert!(!oauth.still_knows("client:ann").await.unwrap());
}

fn new<'a>(code: &'a str, device: &'a str) -> PairingRequest<'a> {
    PairingRequest { code, device, scopes: None }
}

/// A device becomes a client with its own principal, expiry and secret.
#[tokio::test]
async fn a_code_makes_a_client_of_its_own() {
    let (clients, oauth) = stage(SampleClient::Off);
    assert!(!oauth.has_clients().await.unwrap());
    let code = oauth.offer(Scopes::CLIENT).await.unwrap().reveal();
    let paired = oauth.redeem(new(&code, "Ann's phone"), somewhere(1)).await;
    let Ok(Paired { issued, client, secret }) = paired else { panic!("not paired") };
    assert_eq!((client.name.as_str(), client.scopes), ("Ann-s-phone", Scopes::CLIENT));
    let CredentialCheck::Accepted(principal) = checked(&oauth, &issued.token).await else {
        panic!("not accepted")
    };
    assert_eq!((&*principal.name, principal.scopes), (client.principal().as_str(), Scopes::CLIENT));
    assert_eq!(principal.grant, Grant::None);
    let day = client.until.unwrap().0 - client.created.0;
    assert!((23 * 3_600_000..=24 * 3_600_000).contains(&day), "{day}");
    // It gets its next token by its secret.
    let asked = asked("Ann-s-phone", secret.reveal(), None);
    assert!(oauth.issue(asked, somewhere(1), &LOCAL).await.is_ok());
    let again = oauth.redeem(new(&code, "Eve"), somewhere(2)).await;
    assert_eq!(again.err(), Some(Denied::Code), "used");
    clients.revoke("Ann-s-phone").await.unwrap();
    assert_eq!(checked(&oauth, &issued.token).await, CredentialCheck::Expired);
}

/// A09: guesses from one source are slow, whether there is a code or not, and guesses from many sources
/// invalidate the code.
#[tokio::test]
async fn codes_are_guessed_at_slowly_and_not_often() {
    let (_, oauth) = stage(SampleClient::Off);
    let attempt = async |code: &str, from: u8| {
        oauth.redeem(new(code, "Eve"), somewhere(from)).await.map(drop)
    };
    for _ in 0..5 {
        assert_eq!(attempt("0000-0000", 1).await, Err(Denied::Code), "there is none");
    }
    let code = oauth.offer(Scopes::CLIENT).await.unwrap().reveal();
    assert!(matches!(attempt(&code, 1).await, Err(Denied::Wait(_))), "also with the right one");
    let wrong = if code == "0000-0000" { "0000-0001" } else { "0000-0000" };
    for from in 0..5 {
        assert_eq!(attempt(wrong, 100 + from).await, Err(Denied::Code));
    }
    assert_eq!(attempt(&code, 200).await, Err(Denied::Code), "five are enough");
    assert!(!oauth.has_clients().await.unwrap());
}
