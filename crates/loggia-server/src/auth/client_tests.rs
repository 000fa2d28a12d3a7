use loggia_session::MemoryStore;

use super::*;
use crate::auth::secret::Checker;

fn clients() -> Clients {
    Clients::new(Arc::new(MemoryStore::default()))
}

async fn opens(clients: &Clients, name: &str, secret: &Secret) -> bool {
    let kept = clients.find(name).await.unwrap().map(|client| client.secret);
    let secret = Secret::new(secret.reveal().to_owned());
    Checker::new().unwrap().fits(kept, secret).await.unwrap()
}

#[tokio::test]
async fn a_client_is_added_rotated_and_revoked() {
    let clients = clients();
    let first = clients.add("ann", Scopes::REGISTERED, Grant::Edits).await.unwrap();
    let added = clients.find("ann").await.unwrap().unwrap();
    assert_eq!((added.scopes, added.grant), (Scopes::REGISTERED, Grant::Edits));
    assert!(opens(&clients, "ann", &first).await);
    let second = clients.rotate("ann").await.unwrap();
    let rotated = clients.find("ann").await.unwrap().unwrap();
    assert!(rotated.serial != added.serial && rotated.created == added.created);
    assert_eq!((rotated.scopes, rotated.grant), (added.scopes, added.grant), "only the secret");
    assert!(opens(&clients, "ann", &second).await && !opens(&clients, "ann", &first).await);
    clients.revoke("ann").await.unwrap();
    assert!(!opens(&clients, "ann", &second).await);
    assert!(clients.list().await.unwrap().is_empty());
    clients.add("ann", Scopes::ALL, Grant::None).await.unwrap();
    let again = clients.find("ann").await.unwrap().unwrap();
    assert!(![added.serial, rotated.serial].contains(&again.serial), "old tokens stay dead");
}

#[tokio::test]
async fn invalid_changes_are_explained() {
    let clients = clients();
    clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
    let long = "x".repeat(65);
    for name in ["", "a b", "a:b", "a/b", "ä", "a\n", &long] {
        let refused = clients.add(name, Scopes::REGISTERED, Grant::None).await;
        assert!(matches!(refused, Err(ClientError::Name)), "{name:?}");
    }
    let refused = async |name: &str, scopes| {
        clients.add(name, scopes, Grant::None).await.map(drop).unwrap_err().to_string()
    };
    assert!(refused("ann", Scopes::ALL).await.contains("loggia clients rotate ann"));
    assert!(refused(SAMPLE.0, Scopes::ALL).await.contains("sample"));
    assert!(refused("bob", Scopes::default()).await.contains("--scope"));
    for gone in [clients.rotate("bob").await.map(drop), clients.revoke("bob").await] {
        assert!(matches!(gone, Err(ClientError::Unknown(_))));
    }
}

/// A revocation wins over concurrent rotations.
#[tokio::test]
async fn two_processes_do_not_undo_each_other() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::default());
    let clients = Clients::new(store.clone());
    clients.add("ann", Scopes::REGISTERED, Grant::None).await.unwrap();
    let look = store.document(CLIENTS, "ann").await.unwrap();
    let seen = look.as_deref().and_then(read).unwrap();
    clients.revoke("ann").await.unwrap();
    // A concurrent change does not restore it.
    let stale = Client { changed: now(), ..seen };
    let back = store.replace(look, document("ann", Some(&stale)).unwrap()).await.unwrap();
    assert!(!back && clients.find("ann").await.unwrap().is_none());
    let adding = (0..8).map(|_| clients.add("bob", Scopes::ALL, Grant::None));
    let added = futures::future::join_all(adding).await;
    assert_eq!(added.iter().filter(|added| added.is_ok()).count(), 1);
}

#[tokio::test]
async fn a_device_name_is_cleaned_and_numbered() {
    let clients = clients();
    clients.add("ci", Scopes::REGISTERED, Grant::None).await.unwrap();
    let later = Millis(now().0 + 60_000);
    let long = "x".repeat(900);
    for (said, called) in [
        ("phone", "phone"),
        ("phone", "phone-2"),
        ("phone", "phone-3"),
        ("ci", "ci-2"),
        ("Ann's \u{1b}[31mPhone\u{202e}~", "Ann-s-31mPhone"),
        ("", "device"),
        ("\u{4f60}\u{597d}", "device-2"),
        (&long, &"x".repeat(40)),
        (SAMPLE.0, &format!("{}-2", SAMPLE.0)),
    ] {
        let (client, secret) = clients.add_device(said, Scopes::CLIENT, later).await.unwrap();
        assert_eq!(client.name, called, "{said:?}");
        assert!(is_name(&client.name) && opens(&clients, called, &secret).await);
    }
}

#[tokio::test]
async fn an_expired_device_frees_its_name() {
    let clients = clients();
    let over = now();
    let (first, _) = clients.add_device("phone", Scopes::CLIENT, over).await.unwrap();
    assert!(clients.find("phone").await.unwrap().is_none());
    assert!(clients.list().await.unwrap().is_empty());
    for error in [clients.revoke("phone").await.err(), clients.rotate("phone").await.err()] {
        assert!(matches!(error, Some(ClientError::Unknown(_))));
    }
    clients.add("phone", Scopes::REGISTERED, Grant::None).await.unwrap();
    let second = clients.find("phone").await.unwrap().unwrap();
    assert!(second.principal() != first.principal() && second.until.is_none());
}
