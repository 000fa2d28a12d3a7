//! A table of addresses that clients may send, and laws over arbitrary ones.

use super::*;

/// Addresses that git, a shell, a name server or a person could misread.
#[test]
fn hostile_addresses_are_refused() {
    let hostile = [
        "ext::sh -c touch% PWNED",
        "ext::sh%20-c%20touch",
        "--upload-pack=touch PWNED",
        "--upload-pack=touch",
        "-oProxyCommand=touch",
        "ssh://-oProxyCommand=x/y",
        "ssh://-oProxyCommand@h/y",
        "ssh://u:p@h/y",
        "ssh://u;x@h/y",
        "/etc",
        "../x",
        "x",
        "git@host:path",
        "host:path",
        "https://u:p@h/x",
        "https://u@h/x",
        "https://@h/x",
        "https://h/x\nfoo",
        "https://h/x\rfoo",
        "https://h/x\0",
        "https://h/x y",
        "https://h/\u{e9}",
        "https://h\u{3002}x/y",
        "HTTPS::x",
        "https::https://h/x",
        "HTTPS://h/x",
        "https:/h/x",
        "https:///x",
        "https://h",
        "https://h/",
        "https://h/x?token=1",
        "https://h/x#y",
        "https://h\\@evil/x",
        "https://h/a/../../b",
        "https://h:0/x",
        "https://h:65536/x",
        "https://h:/x",
        "https://h:+1/x",
        "https://h:22:33/x",
        "https://2130706433/x",
        "https://0x7f000001/x",
        "https://0x7f.1/x",
        "https://127.1/x",
        "https://0177.0.0.1/x",
        "https://127.0.0.1./x",
        "https://1.2.3.4.5/x",
        "https://[::1/x",
        "https://[::1]x/y",
        "https://[fe80::1%25eth0]/y",
        "https://h_x/y",
        "https://-h/y",
        "https://h-/y",
        "https://h..x/y",
        "https://.h/y",
        "https://h./y",
        "file://etc",
        "file://host/etc",
        "file:///",
        "file:///a/../b",
        "file:///a%2e",
        "ftp://h/x",
        "ftps://h/x",
        "javascript://h/x",
        "fd::3",
        "",
    ];
    for text in hostile {
        let found = RepositoryUrl::parse(text);
        assert!(found.is_err(), "{text:?} is {found:?}");
    }
    assert!(RepositoryUrl::parse(&format!("https://h/{}", "x".repeat(2048))).is_err());
}

#[test]
fn plain_addresses_are_parsed() {
    let table = [
        ("https://github.com/someuser/somerepo", "github.com", 443),
        ("https://example.org:8443/x.git", "example.org", 8443),
        ("https://[2001:db8::1]:9/x", "[2001:db8::1]", 9),
        ("https://10.0.0.1/x", "10.0.0.1", 443),
        ("ssh://git@example.org/x.git", "example.org", 22),
        ("ssh://example.org:2222/~me/x", "example.org", 2222),
        ("git://127.0.0.1/x", "127.0.0.1", 9418),
        ("http://localhost:8080/a/b.git", "localhost", 8080),
        ("https://xn--bcher-kva.example/x", "xn--bcher-kva.example", 443),
    ];
    for (text, host, port) in table {
        let url = RepositoryUrl::parse(text).unwrap();
        assert_eq!(url.to_string(), text);
        assert_eq!(url.host.as_ref().unwrap().to_string(), host, "{text}");
        assert_eq!(url.port(), port, "{text}");
    }
    let file = RepositoryUrl::parse("file:///srv/git/x.git").unwrap();
    assert_eq!((file.host, file.path.as_str()), (None, "/srv/git/x.git"));
}

#[test]
fn allowed_addresses() {
    let list = |hosts: &[&str]| hosts.iter().map(|host| (*host).to_owned()).collect();
    let default = AllowedSources::default();
    let some = AllowedSources {
        hosts: list(&["a.example", "b.example:8443"]),
        ..AllowedSources::default()
    };
    let every = AllowedSources { schemes: Scheme::ALL.to_vec(), ..AllowedSources::default() };
    let inside = AllowedSources {
        private_hosts: list(&["git.corp", "[::1]:9"]),
        ..AllowedSources::default()
    };
    let table = [
        (&default, "https://a.example/x", true),
        (&default, "http://a.example/x", false),
        (&default, "ssh://git@a.example/x", false),
        (&default, "git://a.example/x", false),
        (&default, "file:///etc", false),
        (&default, "https://127.0.0.1:8443/x.git", false),
        (&default, "https://169.254.169.254/latest", false),
        (&default, "https://[::ffff:10.0.0.1]/x", false),
        (&default, "https://[::1]/x", false),
        (&default, "https://localhost/x", false),
        (&default, "https://x.localhost/x", false),
        (&default, "https://1.1.1.1/x", true),
        (&some, "https://A.EXAMPLE/x", true),
        (&some, "https://b.example/x", false),
        (&some, "https://b.example:8443/x", true),
        (&some, "https://c.example/x", false),
        (&every, "ssh://git@a.example/x", true),
        (&every, "file:///srv/x", true),
        (&every, "http://a.example/x", false),
        (&every, "git://1.1.1.1/x", false),
        (&every, "http://127.0.0.1:1/x", true),
        (&every, "git://localhost/x", true),
        (&every, "https://127.0.0.1/x", false),
        (&inside, "https://git.corp/x", true),
        (&inside, "https://[::1]:9/x", true),
        (&inside, "https://[::1]/x", false),
    ];
    for (sources, text, allowed) in table {
        let url = RepositoryUrl::parse(text).unwrap();
        assert_eq!(sources.admit(&url).is_ok(), allowed, "{text}: {:?}", sources.admit(&url));
    }
    let named = |text| RepositoryUrl::parse(text).unwrap();
    let [inner, outer] = ["10.1.2.3", "1.1.1.1"].map(|text| text.parse::<IpAddr>().unwrap());
    assert!(default.admit_address(&named("https://a.example/x"), outer).is_ok());
    assert!(default.admit_address(&named("https://a.example/x"), inner).is_err());
    assert!(inside.admit_address(&named("https://git.corp/x"), inner).is_ok());
    assert!(every.admit_address(&named("http://localhost/x"), outer).is_err());
}

#[test]
fn revisions_are_names_or_whole_commits() {
    let commit = "0123456789abcdef0123456789abcdef01234567";
    assert_eq!(Revision::parse(commit), Ok(Revision::Commit(commit)));
    for name in ["main", "v1.0", "feature/x", "0123abc", "a@b", "release-2"] {
        assert_eq!(Revision::parse(name), Ok(Revision::Name(name)));
    }
    let long = "x".repeat(257);
    for bad in [
        "",
        "-b",
        "--upload-pack=x",
        "a b",
        "a\nb",
        "a..b",
        "a~1",
        "a^",
        "a:b",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "@",
        "@{1}",
        "/a",
        "a/",
        "a//b",
        ".a",
        "a/.b",
        "a.lock",
        "a.",
        "\u{e9}",
        &long,
    ] {
        assert!(Revision::parse(bad).is_err(), "{bad:?}");
    }
}

/// For any session id, the clone directory is below the directory of clones, and its name is unique.
#[test]
fn every_session_has_its_own_directory() {
    let ours = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_eq!(clone_name(&SessionId::from(ours)), ours);
    let forms = [
        "..",
        "../../etc",
        "/etc",
        "a/b",
        "",
        ".",
        "x",
        "\0",
        &ours.to_uppercase(),
        "01890a5d-ac96-774b-bcce-b302099a805g",
        "01890a5dxac96-774b-bcce-b302099a8057",
    ];
    let mut names: Vec<String> =
        forms.iter().map(|form| clone_name(&SessionId::from(*form))).collect();
    // A session id that equals the directory of another session.
    names.push(clone_name(&SessionId::from(names[0].as_str())));
    for name in &names {
        let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
        assert!(name.starts_with("named-") && name.chars().all(plain), "{name}");
        assert!(is_clone_name(name), "{name}");
    }
    assert!(is_clone_name(ours));
    assert!(!["projects", "named-", "named-x", "", ".."].into_iter().any(is_clone_name));
    let count = names.len();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), count);
}

proptest::proptest! {
    #[test]
    fn a_parsed_address_is_displayed_unchanged(text in "[a-z]{2,5}://[!-~]{1,40}") {
        if let Ok(url) = RepositoryUrl::parse(&text) {
            let host = |text: &str| text.split('/').nth(2).unwrap_or_default().to_lowercase();
            // Capital letters in names and unusual forms of addresses are normalized.
            let again = RepositoryUrl::parse(&url.to_string());
            proptest::prop_assert_eq!(again.as_ref(), Ok(&url));
            proptest::prop_assert!(!host(&text).contains('@') || url.scheme == Scheme::Ssh);
            proptest::prop_assert!(!text.contains(|letter: char| letter.is_control()));
        }
    }
}
