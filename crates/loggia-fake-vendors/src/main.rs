//! `loggia-fake-vendors SCRIPT.json [PORT]`: serves the fakes until it is ended, for clients in other languages.
//! Prints the base URL, then one line of JSON for each request.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use loggia_fake_vendors::{Answer, Asked, FakeVendors, Rule};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let (Some(file), port) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: loggia-fake-vendors SCRIPT.json [PORT]");
        return ExitCode::from(2);
    };
    let rules = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    let rules = rules.and_then(|text| {
        serde_json::from_str::<Vec<Rule>>(&text).map_err(|error| error.to_string())
    });
    let port = port.map_or(Ok(0), |port| port.parse::<u16>().map_err(|error| error.to_string()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let served = match (rules, port, runtime) {
        (Ok(rules), Ok(port), Ok(runtime)) => runtime.block_on(serve(rules, port)),
        (Err(error), _, _) => Err(format!("{file}: {error}")),
        (_, Err(error), _) => Err(format!("the port: {error}")),
        (_, _, Err(error)) => Err(error.to_string()),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(rules: Vec<Rule>, port: u16) -> Result<(), String> {
    let script = Arc::new(move |asked: &Asked| {
        let rule = rules.iter().find(|rule| rule.fits(asked));
        rule.map_or_else(|| Answer::text("The script has no answer."), |rule| rule.answer.clone())
    });
    let fakes = FakeVendors::start_on(port, script).await.map_err(|error| error.to_string())?;
    let mut out = std::io::stdout();
    let printed = writeln!(out, "http://127.0.0.1:{}", fakes.port()).and_then(|()| out.flush());
    printed.map_err(|error| error.to_string())?;
    let mut shown = 0;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        for recorded in fakes.recorded().into_iter().skip(shown) {
            shown += 1;
            let line = serde_json::json!({
                "vendor": recorded.vendor, "method": recorded.method, "path": recorded.path,
                "status": recorded.status, "refusal": recorded.refusal, "body": recorded.body,
                "headers": recorded.headers,
            });
            let printed = writeln!(out, "{line}").and_then(|()| out.flush());
            printed.map_err(|error| error.to_string())?;
        }
    }
}
