//! The table of errors, in four dialects.

use loggia_core::{Millis, Origin, Refusal, Surface};
use loggia_wire::refuse::Forbidden;
use loggia_wire::{A2aVersion, Condition, View, Violation, WireError};
use serde_json::json;

fn all() -> Vec<(&'static str, WireError)> {
    let by = Origin { principal: Some("ann".into()), ..Origin::new(Surface::Web, "tab-1") };
    let at = Millis(1_767_225_600_000);
    let refused = |refusal: Refusal| WireError::Refused(refusal);
    let condition = |condition: Condition| WireError::Condition(condition);
    vec![
        ("parse", WireError::Parse("it is malformed")),
        ("invalid request", WireError::InvalidRequest("a request must be an object")),
        ("method", WireError::MethodNotFound),
        (
            "params",
            WireError::Invalid(Violation {
                field: "message.parts".into(),
                why: "must contain at least one part".into(),
            }),
        ),
        ("version", WireError::VersionNotSupported),
        ("other version", WireError::OtherVersion { of: A2aVersion::V03, named: A2aVersion::V1 }),
        (
            "already answered",
            refused(Refusal::AlreadyAnswered { choice: "proceed_once".into(), by: by.clone(), at }),
        ),
        ("reply too late", refused(Refusal::ReplyTooLate { choice: "answer".into(), by, at })),
        ("withdrawn", refused(Refusal::Withdrawn { why: "cancelled by web:ann".into(), at })),
        ("unknown question", refused(Refusal::UnknownQuestion)),
        ("mixed question", refused(Refusal::MixedQuestion)),
        (
            "not a choice",
            refused(Refusal::NotAChoice {
                given: "yes".into(),
                offered: vec!["proceed_once".into(), "cancel".into()],
            }),
        ),
        ("unfit edit", refused(Refusal::UnfitEdit { why: "a refusal changes nothing".into() })),
        ("details changed", refused(Refusal::DetailsChanged)),
        ("unknown task", refused(Refusal::UnknownTask)),
        ("task exists", refused(Refusal::TaskExists)),
        ("task over", refused(Refusal::TaskOver)),
        ("nothing to cancel", refused(Refusal::NothingToCancel)),
        (
            "queue full",
            refused(Refusal::QueueFull { queued: 32, bound: loggia_core::QueueBound::Prompts }),
        ),
        ("session closed", refused(Refusal::SessionClosed)),
        ("stale turn", refused(Refusal::StaleTurn)),
        ("task not found", condition(Condition::TaskNotFound)),
        ("unknown context", condition(Condition::UnknownContext)),
        ("context mismatch", condition(Condition::ContextMismatch)),
        ("question elsewhere", condition(Condition::QuestionElsewhere)),
        ("nothing to follow", condition(Condition::NothingToFollow)),
        ("busy", condition(Condition::Busy)),
        ("held elsewhere", condition(Condition::HeldElsewhere)),
        ("storage", condition(Condition::Storage)),
        ("storage damaged", condition(Condition::StorageDamaged)),
        ("unauthenticated", condition(Condition::Unauthenticated)),
        ("tool descendant", condition(Condition::Forbidden(Forbidden::ToolDescendant))),
        ("body too large", condition(Condition::BodyTooLarge { limit: 10 * 1024 * 1024 })),
        ("not json", condition(Condition::NotJson)),
        ("workspace differs", condition(Condition::WorkspaceDiffers)),
        ("push not supported", condition(Condition::PushNotSupported)),
        ("push target", condition(Condition::PushTargetRefused { why: "it is a private address" })),
        ("webhooks", condition(Condition::TooManyWebhooks { why: "delete one" })),
        ("unknown push config", condition(Condition::UnknownPushConfig)),
        ("extended card", condition(Condition::ExtendedCardNotConfigured)),
        ("extension required", condition(Condition::ExtensionRequired)),
        (
            "unknown command",
            condition(Condition::UnknownCommand { why: "there is no command `/x`".into() }),
        ),
        ("hook failed", condition(Condition::HookFailed)),
        ("internal", condition(Condition::Internal)),
    ]
}

/// One snapshot that reads like the error section of the documents.
#[test]
fn the_table() {
    let mut text = String::new();
    for (name, error) in all() {
        text.push_str(&format!("{name}\n"));
        for (view, label) in [
            (View::A2A_03, "0.3"),
            (View::A2A_1, "1.0"),
            (View::LEGACY, "0.1"),
            (View::SDLC, "sdlc"),
        ] {
            let (shown, status) = (view.refuse(&error), view.status(&error));
            let body = serde_json::to_value(&shown).unwrap();
            let beside = match view {
                // These two have no gRPC.
                View::LEGACY | View::SDLC => format!("http {}", shown.http),
                _ => format!("http {}  grpc {}", status.http, status.rpc.name()),
            };
            let body = super::transcript::compact(&body, 16);
            text.push_str(&format!("  {label}  {beside}  {body}\n"));
        }
        text.push('\n');
    }
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../transcripts");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!("refusals", text));
}

#[test]
fn a_late_answer_names_the_first_one() {
    let (_, error) = all().into_iter().find(|(name, _)| *name == "already answered").unwrap();
    let shown = View::A2A_03.refuse(&error);
    assert_eq!(shown.code, -32602);
    let data = json!({
        "reason": "already-answered", "choice": "proceed_once", "by": "web:ann",
        "at": "2026-01-01T00:00:00.000Z",
    });
    assert_eq!(shown.data, Some(data));
    let shown = View::A2A_1.refuse(&error).data.unwrap();
    assert_eq!(shown[0]["@type"], "type.googleapis.com/google.rpc.ErrorInfo");
    assert_eq!(shown[0]["reason"], "ALREADY_ANSWERED");
    assert_eq!(shown[0]["metadata"]["by"], "web:ann");
}

/// Every code of A2A 1.0.1 has its name.
#[test]
fn codes_of_the_protocol_have_its_names() {
    for (name, error) in all() {
        let shown = View::A2A_1.refuse(&error);
        if (-32010..=-32001).contains(&shown.code) {
            let info = &shown.data.unwrap()[0];
            assert_eq!(info["domain"], "a2a-protocol.org", "{name}");
            let expected = match shown.code {
                -32001 => "TASK_NOT_FOUND",
                -32002 => "TASK_NOT_CANCELABLE",
                -32003 => "PUSH_NOTIFICATION_NOT_SUPPORTED",
                -32004 => "UNSUPPORTED_OPERATION",
                -32005 => "CONTENT_TYPE_NOT_SUPPORTED",
                -32007 => "EXTENDED_AGENT_CARD_NOT_CONFIGURED",
                -32008 => "EXTENSION_SUPPORT_REQUIRED",
                -32009 => "VERSION_NOT_SUPPORTED",
                other => panic!("{other}"),
            };
            assert_eq!(info["reason"], expected, "{name}");
        }
    }
}
