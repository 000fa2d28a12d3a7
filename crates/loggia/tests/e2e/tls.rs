//! `loggia attach https://…` through a reverse proxy, and the errors for untrusted certificates.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::authority::Authority;
use crate::driver::Machine;
use crate::screen::Screen;

const SIZE: (u16, u16) = (110, 40);
const READY: &str = "what shall I do?";

/// A TLS proxy in front of another port.
fn proxy(listener: TcpListener, behind: u16, authority: &Authority) {
    let certificate = CertificateDer::from_pem_file(authority.path("cert.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(authority.path("key.pem")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((plain, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                // A client that does not trust the certificate disconnects here.
                let Ok(mut outside) = acceptor.accept(plain).await else { return };
                let mut inside = TcpStream::connect(("127.0.0.1", behind)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
}

/// The error of a failed connection.
fn refused(machine: &Machine, url: &str, authority: &str) -> String {
    let environment = [("SSL_CERT_FILE", authority)];
    let mut screen = Screen::sized(machine, &["attach", url], &environment, SIZE);
    screen.sees("code 1");
    // Joined to one line, independent of the screen width.
    screen.shown().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_screen_is_attached_over_tls() {
    let machine = Machine::new();
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let outside = listener.local_addr().unwrap().port();
    let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let public = format!("https://localhost:{outside}");
    let arguments = ["--a2a-port", &inside.to_string(), "--public-url", &public];
    let mut home = Screen::sized(&machine, &arguments, &[], SIZE);
    home.sees(READY);
    let tests = Authority::new(&machine);
    proxy(listener, inside, &tests);
    let authority = &tests.file();

    let environment = [("SSL_CERT_FILE", authority.as_str())];
    let mut away =
        Screen::sized(&machine, &["attach", &public, "--name", "laptop"], &environment, SIZE);
    away.sees(READY);
    home.sees("with TUI:laptop");
    away.types("write a.txt: hi\r").sees("Allow Loggia to write a.txt?").sees("e change it first");
    away.types("y").sees("wrote a.txt");
    home.sees("wrote a.txt");
    assert_eq!(machine.read("a.txt").as_deref(), Some("hi\n"));
    away.types("\x04").sees("code 0").is_restored();

    // An unknown authority, a wrong name, and no TLS.
    let other = rcgen::generate_simple_self_signed(vec!["elsewhere".to_owned()]).unwrap();
    let stranger = machine.home().with_file_name("stranger.pem");
    std::fs::write(&stranger, other.cert.pem()).unwrap();
    let told = refused(&machine, &public, stranger.to_str().unwrap());
    assert!(told.contains("certificate is not trusted here"), "{told}");
    assert!(told.contains("SSL_CERT_FILE"), "{told}");
    let told = refused(&machine, &format!("wss://127.0.0.9:{outside}"), authority);
    assert!(told.contains("certificate is not trusted here"), "{told}");
    let told = refused(&machine, &format!("https://localhost:{inside}"), authority);
    assert!(told.contains("does not use TLS"), "{told}");
    home.types("\x04").sees("code 0");
}
