//! Every way in which a certificate or its key can be wrong, and the forms in which they are right.

use std::os::unix::fs::PermissionsExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P384_SHA384, PKCS_RSA_SHA256, RsaKeySize};

use super::validity::Der;
use super::*;

struct Stage {
    directory: tempfile::TempDir,
    key: KeyPair,
}

impl Stage {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap(), key: KeyPair::generate().unwrap() }
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        path
    }

    fn certificate(&self, from: i32, until: i32) -> String {
        certificate(&self.key, from, until)
    }

    fn load(&self, certificate: impl AsRef<[u8]>, key: impl AsRef<[u8]>) -> Result<Tls, String> {
        let certificate = self.write("cert.pem", certificate);
        let files = TlsFiles { certificate, key: self.write("key.pem", key) };
        let directory = self.directory.path().display().to_string();
        Tls::load(files).map_err(|error| error.to_string().replace(&directory, "DIR"))
    }
}

fn certificate(key: &KeyPair, from: i32, until: i32) -> String {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(from, 1, 2);
    params.not_after = rcgen::date_time_ymd(until, 1, 2);
    params.self_signed(key).unwrap().pem()
}

fn pem(name: &str, der: &[u8]) -> String {
    format!("-----BEGIN {name}-----\n{}\n-----END {name}-----\n", STANDARD.encode(der))
}

/// What PKCS#8 wraps: SEC1 or PKCS#1.
fn unwrapped(key: &KeyPair) -> Vec<u8> {
    let wrapped = key.serialize_der();
    let mut inside = Der(Der(&wrapped).take(0x30).unwrap());
    inside.take(0x02).unwrap();
    inside.take(0x30).unwrap();
    inside.take(0x04).unwrap().to_vec()
}

#[test]
fn keys_in_every_usual_form() {
    let stage = Stage::new();
    let good = stage.certificate(2020, 4000);
    let sec1 = pem("EC PRIVATE KEY", &unwrapped(&stage.key));
    assert!(stage.load(&good, stage.key.serialize_pem()).is_ok(), "PKCS#8");
    assert!(stage.load(&good, &sec1).is_ok(), "SEC1");
    let with_parameters = format!("{}{sec1}", pem("EC PARAMETERS", &[6, 1, 0]));
    assert!(stage.load(&good, with_parameters).is_ok(), "as openssl writes it");
    let rsa = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
    let pkcs1 = pem("RSA PRIVATE KEY", &unwrapped(&rsa));
    assert!(stage.load(certificate(&rsa, 2020, 4000), pkcs1).is_ok(), "PKCS#1");
    // The server's own first; remarks and what stands above it may follow.
    let chain = format!("# a remark\n{good}{}", certificate(&rsa, 2020, 4000));
    let tls = stage.load(chain, stage.key.serialize_pem()).unwrap();
    assert_eq!(tls.current.0.read().unwrap().cert.len(), 2);
}

#[test]
fn an_unusable_file_is_named_with_the_reason() {
    let stage = Stage::new();
    let good = stage.certificate(2020, 4000);
    let key = stage.key.serialize_pem();
    let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).unwrap();
    let reversed = format!("{}{good}", certificate(&other, 2020, 4000));
    let cut: String = good.lines().take(3).map(|line| format!("{line}\n")).collect();
    let garbled = good.replacen("MII", "M!!", 1);
    let encrypted = pem("ENCRYPTED PRIVATE KEY", &[1, 2, 3]);
    let no_key = pem("PRIVATE KEY", &[0x30, 0x03, 0x02, 0x01, 0x00]);
    let huge = "#".repeat(2 << 20);
    let table: &[(&str, &str, &str)] = &[
        ("", &key, "the certificate DIR/cert.pem holds no certificate"),
        ("no PEM at all", &key, "the certificate DIR/cert.pem holds no certificate"),
        (&key, &key, "the certificate DIR/cert.pem is a key: are --tls-cert and --tls-key swapped"),
        (&cut, &key, "the certificate DIR/cert.pem is not valid PEM: its last part has no end"),
        (&garbled, &key, "the certificate DIR/cert.pem is not valid PEM: it is not base64"),
        (&pem("CERTIFICATE", b"\x30\x00"), &key, "the certificate DIR/cert.pem cannot be used"),
        (&pem("CERTIFICATE", b"hello"), &key, "the certificate DIR/cert.pem cannot be used"),
        (&huge, &key, "the certificate DIR/cert.pem is larger than"),
        (
            &stage.certificate(2001, 2002),
            &key,
            "cert.pem expired on 2002-01-02T00:00:00 UTC: renew",
        ),
        (&stage.certificate(3001, 4002), &key, "cert.pem is not valid before 3001-01-02T00:00:00"),
        (&good, "", "the key DIR/key.pem holds no key: it has to be PEM, in PKCS#8, SEC1"),
        (
            &good,
            &good,
            "the key DIR/key.pem is a certificate: are --tls-cert and --tls-key swapped",
        ),
        (&good, &encrypted, "the key DIR/key.pem needs a passphrase"),
        (&good, &no_key, "the key DIR/key.pem cannot be used"),
        (&good, &other.serialize_pem(), "the key DIR/key.pem does not belong to the first cert"),
        (
            &reversed,
            &key,
            "the key DIR/key.pem does not belong to the first certificate of DIR/cert",
        ),
    ];
    for (certificate, key, expected) in table {
        let why = stage.load(certificate, key).unwrap_err();
        assert!(why.contains(expected), "{why}\nexpected: {expected}");
        assert!(!why.contains("PRIVATE") && why.len() < 300, "{why}");
    }
}

#[test]
fn files_that_are_none_and_keys_that_others_may_read() {
    let stage = Stage::new();
    let files = TlsFiles {
        certificate: stage.write("cert.pem", stage.certificate(2020, 4000)),
        key: stage.write("key.pem", stage.key.serialize_pem()),
    };
    let refused = |files: &TlsFiles| Tls::load(files.clone()).unwrap_err().to_string();
    let missing = TlsFiles { key: stage.directory.path().join("none"), ..files.clone() };
    assert!(refused(&missing).contains("none cannot be read: No such file"));
    let folder = TlsFiles { certificate: stage.directory.path().to_owned(), ..files.clone() };
    assert!(refused(&folder).ends_with("is not a regular file"));
    let fifo = stage.directory.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(refused(&TlsFiles { key: fifo, ..files.clone() }).ends_with("is not a regular file"));
    for mode in [0o640, 0o604, 0o644, 0o660, 0o602] {
        std::fs::set_permissions(&files.key, PermissionsExt::from_mode(mode)).unwrap();
        let why = refused(&files);
        let told = format!("(mode {mode:03o}): run `chmod 600 {}`", files.key.display());
        assert!(why.starts_with("others may use the key") && why.ends_with(&told), "{why}");
    }
    for mode in [0o400, 0o600, 0o700] {
        std::fs::set_permissions(&files.key, PermissionsExt::from_mode(mode)).unwrap();
        Tls::load(files.clone()).unwrap();
    }
    // Tools that renew certificates leave links.
    let link = stage.directory.path().join("link");
    std::os::unix::fs::symlink(&files.key, &link).unwrap();
    Tls::load(TlsFiles { key: link, ..files }).unwrap();
}

/// Read once a change has kept still, whatever comes of it, and not again.
#[test]
fn a_change_is_read_when_it_has_kept_still() {
    let stamp = |number: i64| Stamp([Some([number; 7]), None]);
    let mut watched = Watched { judged: stamp(1), last: stamp(1) };
    let looks = [1, 1, 2, 3, 3, 3, 1, 4, 1, 1, 1];
    let read = looks.map(|number| watched.look(stamp(number)));
    let expected = [false, false, false, false, true, false, false, false, false, true, false];
    assert_eq!(read, expected);
}
