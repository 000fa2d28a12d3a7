//! The table of addresses, the forms in which people hide them, and a law over all of them.

use super::*;

#[test]
fn which_addresses_are_public() {
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "93.184.216.34",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "168.63.129.15",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "2001:4860:4860::8888",
    ];
    let not_public = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.250",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:8.8.8.8",
        "::127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::a00:1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2001:20::1",
        "2002:7f00:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    for text in public {
        assert!(is_public(text.parse().unwrap()), "{text}");
    }
    for text in not_public {
        assert!(!is_public(text.parse().unwrap()), "{text}");
    }
}

#[test]
fn which_urls_may_be_called() {
    let read = |text: &str| {
        Target::read(text, &[4000], &AllowedPrivateHosts::default(), "local:0")
            .map(|target| target.host)
    };
    let name = |name: &str| Ok(Host::Name(name.to_owned()));
    let no_address = Err("it is not a public address");
    let insecure = Err("it must begin with https://, except on localhost");
    let cases = [
        ("https://hooks.example.com/a?b=c", name("hooks.example.com")),
        ("https://hooks.example.com:8443/", name("hooks.example.com")),
        ("https://1.1.1.1/", Ok(Host::Address("1.1.1.1".parse().unwrap()))),
        (
            "https://[2606:4700:4700::1111]/",
            Ok(Host::Address("2606:4700:4700::1111".parse().unwrap())),
        ),
        ("http://localhost:9/x", Ok(Host::Loopback)),
        ("http://LOCALHOST:9/x", Ok(Host::Loopback)),
        ("https://localhost:9/x", Ok(Host::Loopback)),
        ("http://127.0.0.1:9/", Ok(Host::Loopback)),
        ("http://127.9.9.9:9/", Ok(Host::Loopback)),
        ("http://[::1]:9/", Ok(Host::Loopback)),
        // The same address in the forms that slip past a look at the text.
        ("http://2130706433:9/", Ok(Host::Loopback)),
        ("http://0x7f000001:9/", Ok(Host::Loopback)),
        ("http://0177.1:9/", Ok(Host::Loopback)),
        ("https://0xa9fea9fe/", no_address.clone()),
        ("https://2852039166/", no_address.clone()),
        ("https://0.0.0.0/", no_address.clone()),
        ("http://0:9/", no_address.clone()),
        ("http://[::ffff:127.0.0.1]:9/", no_address.clone()),
        ("https://[::ffff:10.0.0.1]/", no_address.clone()),
        ("https://[64:ff9b::a00:1]/", no_address.clone()),
        ("https://[fe80::1]/", no_address.clone()),
        ("https://169.254.169.254/latest/meta-data", no_address.clone()),
        ("https://10.0.0.1/", no_address.clone()),
        ("http://1.1.1.1/", insecure.clone()),
        ("http://hooks.example.com/", insecure.clone()),
        ("http://metadata.google.internal/", insecure.clone()),
        // Names are looked up; these are not the loopback's own.
        ("https://localhost.example.com/", name("localhost.example.com")),
        ("https://localhost./", Ok(Host::Loopback)),
        ("http://localhost:4000/", Err("it is this server itself")),
        ("http://127.0.0.1:4000/", Err("it is this server itself")),
        ("http://[::1]:4000/", Err("it is this server itself")),
        ("http://127.0.0.1:0/", Err("there is no port 0")),
        ("https://hooks.example.com:0/", Err("there is no port 0")),
        (
            "https://me:secret@hooks.example.com/",
            Err("it must not contain a user name or a password"),
        ),
        ("https://me@hooks.example.com/", Err("it must not contain a user name or a password")),
        ("file:///etc/passwd", Err("it must begin with https://")),
        ("gopher://hooks.example.com/", Err("it must begin with https://")),
        ("unix:/run/docker.sock", Err("it must begin with https://")),
        ("hooks.example.com/a", Err("it is not a URL")),
        ("https://", Err("it is not a URL")),
        ("", Err("it is not a URL")),
    ];
    for (text, wanted) in cases {
        assert_eq!(read(text), wanted, "{text}");
    }
}

#[test]
fn every_address_of_a_name_is_checked() {
    let check =
        |name: &str, addresses| super::check(name, addresses, &AllowedPrivateHosts::default());
    let parse = |texts: &[&str]| -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let public = parse(&["1.1.1.1", "2606:4700:4700::1111"]);
    assert_eq!(check("hooks.example", public.clone()), Ok(public));
    let refused = Err("its name resolves to an address that is not public");
    assert_eq!(check("hooks.example", parse(&["1.1.1.1", "10.0.0.1"])), refused);
    assert_eq!(check("hooks.example", parse(&["127.0.0.1"])), refused);
    assert_eq!(check("localtest", parse(&["::1"])), refused);
    assert_eq!(check("hooks.example", Vec::new()), Err("its name has no address"));
    // `localhost` is never resolved.
    assert_eq!(check("localhost", parse(&["10.0.0.1"])), Ok(parse(&["127.0.0.1", "::1"])));
}

#[test]
fn a_named_host_may_be_private_and_nothing_worse() {
    let named = ["Hooks.LAN", "10.1.2.3", "fd00::7", "127.0.0.1", "100.100.100.200"];
    let private = AllowedPrivateHosts::new(&named.map(str::to_owned));
    let at = |text: &str| check("hooks.lan", vec![text.parse().unwrap()], &private).is_ok();
    for text in ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "fd00::7", "1.1.1.1"] {
        assert!(at(text), "{text}");
        let other = check("other.lan", vec![text.parse().unwrap()], &private);
        assert_eq!(other.is_ok(), text == "1.1.1.1", "{text}");
    }
    for text in ["127.0.0.1", "::1", "169.254.169.254", "fe80::1", "0.0.0.0", "224.0.0.1"] {
        assert!(!at(text), "{text}");
    }
    for text in ["100.100.100.200", "fd00:ec2::254", "168.63.129.16", "::ffff:10.0.0.1"] {
        assert!(!at(text), "{text}");
    }
    let reads = |text: &str| Target::read(text, &[4000], &private, "local:0").is_ok();
    assert!(
        reads("http://hooks.lan/") && reads("http://10.1.2.3:8080/") && reads("http://[fd00::7]/")
    );
    assert!(!reads("http://other.lan/") && !reads("https://10.1.2.4/"));
    assert!(!reads("https://100.100.100.200/") && !reads("http://127.0.0.1:4000/"));
}

#[test]
fn people_are_shown_no_path() {
    let shown = origin("https://hooks.example.com/t0ken?key=s3cret#x");
    assert_eq!(shown, "https://hooks.example.com");
    assert_eq!(origin("no address, but a s3cret"), "?");
}
