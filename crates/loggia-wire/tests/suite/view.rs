//! What a server asks about a protocol.

use loggia_wire::{Delivery, View, WireError};

/// A webhook remembers its view by these names, so they must not change.
#[test]
fn a_view_is_found_by_its_version() {
    let table = [("0.1", View::LEGACY), ("0.3", View::A2A_03), ("1.0", View::A2A_1)];
    for (version, view) in table {
        assert_eq!(view.version(), version);
        assert_eq!(View::of_version(version, false), Some(view));
        let extended = View::of_version(version, true).unwrap();
        assert!(extended.has_extension() && extended.version() == version);
    }
    assert_eq!(View::of_version("1.1", false), None);
    assert_eq!([View::PROTO_03, View::SDLC, View::CODER].map(View::version), ["0.3"; 3]);
}

#[test]
fn a_delivery_that_the_client_did_not_name() {
    for view in View::all() {
        let default = if view == View::CODER { Delivery::WhenSettled } else { Delivery::AtOnce };
        assert_eq!(view.delivery(Delivery::Unsaid), default, "{view:?}");
        assert_eq!(view.delivery(Delivery::Stream), Delivery::Stream, "{view:?}");
    }
}

/// A request that was rejected before it was read has the same reason in every form.
#[test]
fn a_rejection_in_every_form() {
    let v03 = View::A2A_03.rejected_call(401, "token-needed", "No.");
    assert_eq!(v03.data.unwrap()["reason"], "token-needed");
    let v1 = View::A2A_1.rejected_call(401, "token-needed", "No.");
    assert_eq!(v1.data.unwrap()[0]["reason"], "TOKEN_NEEDED");
    assert_eq!((v03.code, v1.code), (-32000, -32000));
    for view in View::all() {
        assert_eq!(view.rejection(401, "token-needed", "No.").rpc.name(), "UNAUTHENTICATED");
        let body = view.stream_error(&WireError::MethodNotFound).to_string();
        assert!(body.contains("Method not found"), "{view:?} {body}");
    }
}
