//! The list of models.

use std::time::Duration;

use loggia_core::Effort;
use loggia_models::{Anthropic, Protocol};

use super::{answering, client};

#[tokio::test]
async fn the_vendor_lists_windows_limits_efforts_and_thinking() {
    let fakes = answering(Vec::new()).await;
    let listed = client(&fakes, Duration::from_secs(5)).models(&Anthropic::vendor()).await.unwrap();
    let of = |id: &str| listed.iter().find(|facts| facts.id == id).unwrap();
    let opus = of("claude-opus-5-5");
    assert_eq!((opus.window, opus.output), (Some(1_000_000), Some(128_000)));
    assert_eq!(opus.thinking.as_deref(), Some("adaptive"));
    assert_eq!(opus.efforts.as_deref().unwrap(), &Effort::ALL[2..]);
    let haiku = of("claude-haiku-5-5");
    assert_eq!(haiku.efforts.as_ref().unwrap().first(), Some(&Effort::None));
    let sonnet = of("claude-sonnet-4-5");
    assert_eq!(sonnet.thinking.as_deref(), Some("budget"));
    assert_eq!(sonnet.efforts.as_deref(), Some(Effort::ALL.as_slice()));
}

#[test]
fn gateways_list_names_and_retired_models_are_left_out() {
    let body = r#"{"object":"list","data":[{"id":"local","object":"model","created":1},
        {"id":"claude-2","lifecycle":"retired"},
        {"id":"x","capabilities":{"effort":{"supported":false,"xhigh":null},
         "thinking":{"supported":false,"types":{"between_tools":{"supported":true}}}}}]}"#;
    let listed = Anthropic::gateway().listed(body).unwrap();
    let [local, x] = listed.as_slice() else { panic!("{listed:?}") };
    assert_eq!((local.id.as_str(), local.window, &local.thinking), ("local", None, &None));
    assert_eq!(
        (x.efforts.as_deref(), x.thinking.as_deref()),
        (Some([].as_slice()), Some("between_tools"))
    );
    assert!(Anthropic::vendor().listed("{}").is_err());
}
