//! The file format of rules and steps, and the checks that turn them into a [`Rule`].
//!
//! The checks run while the file is deserialized, so that the parser of either format can report the
//! line and column of a wrong step.

use std::fmt;
use std::marker::PhantomData;
use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use loggia_core::Usage;
use regex::Regex;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::rule::{CallForm, Fires, Repeated, Rule, Step, When};
use crate::model::{ModelErrorKind, actions};

/// The most steps of one rule, including repeats.
const STEPS: u64 = 1_000_000;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileForm {
    pub rule: Vec<Rule>,
    /// The window of the model, in tokens.
    pub window: Option<NonZeroU64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleForm {
    prompt: Option<String>,
    contains: Option<String>,
    regex: Option<String>,
    steps: Vec<Repeated>,
}

impl TryFrom<RuleForm> for Rule {
    type Error = String;

    fn try_from(form: RuleForm) -> Result<Self, String> {
        let when = match (form.prompt, form.contains, form.regex) {
            (None, None, None) => When::Always,
            (Some(text), None, None) => When::Prompt(text),
            (None, Some(text), None) => When::Contains(text),
            (None, None, Some(text)) => When::Regex(
                Regex::new(&text).map_err(|error| format!("`regex` cannot be read: {error}"))?,
            ),
            _ => return Err("a rule has one of `prompt`, `contains` and `regex`".to_owned()),
        };
        let count = form.steps.iter().fold(0, |sum: u64, step| sum.saturating_add(step.count));
        if count > STEPS {
            return Err(format!("a rule has at most {STEPS} steps with its repeats, not {count}"));
        }
        Ok(Rule { when, steps: form.steps })
    }
}

/// All keys that a step may have. Valid combinations are checked later.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct StepForm {
    text: Option<String>,
    chunk: Option<NonZeroU32>,
    thought: Option<String>,
    subject: Option<String>,
    delay: Option<Wait>,
    call: Option<String>,
    input: Option<Input>,
    calls: Option<Vec<CallsForm>>,
    malformed: Option<String>,
    tool: Option<String>,
    usage: Option<UsageForm>,
    error: Option<String>,
    kind: Option<ModelErrorKind>,
    retry_after: Option<Wait>,
    attempts: Option<NonZeroU32>,
    cut: Option<bool>,
    panic: Option<String>,
    repeat: Option<NonZeroU32>,
    r#while: Option<String>,
    step: Option<Box<Repeated>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallsForm {
    tool: String,
    #[serde(default)]
    input: Input,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UsageForm {
    #[serde(default)]
    input: u64,
    #[serde(default)]
    output: u64,
    #[serde(default)]
    thought: u64,
    #[serde(default)]
    cached: u64,
}

impl TryFrom<StepForm> for Repeated {
    type Error = String;

    fn try_from(mut form: StepForm) -> Result<Self, String> {
        if let Some(times) = form.repeat.take() {
            let inner = form.step.take().ok_or("`repeat` needs a `step`")?;
            let count = inner.count.saturating_mul(u64::from(times.get()));
            let again = form.r#while.take().map(|text| Regex::new(&text)).transpose();
            let again = again.map_err(|error| format!("`while` cannot be read: {error}"))?;
            form.all_taken("repeat")?;
            if inner.again.is_some() || (again.is_some() && inner.count > 1) {
                return Err("`while` does not go with a repeat of repeats".to_owned());
            }
            if again.is_some() && !inner.step.ends_reply() {
                return Err("`while` checks a result: its `step` must call a tool".to_owned());
            }
            return Ok(Repeated { count, again, step: inner.step });
        }
        let (kind, step) = form.take_step()?;
        form.all_taken(kind)?;
        Ok(Repeated { count: 1, again: None, step })
    }
}

impl StepForm {
    /// The step of the first key, with the keys that belong to it.
    fn take_step(&mut self) -> Result<(&'static str, Step), String> {
        if let Some(text) = self.text.take() {
            let chunk = self.chunk.take().map(|size| size.get() as usize);
            Ok(("text", Step::Text { text, delay: self.take_delay(), chunk }))
        } else if let Some(text) = self.thought.take() {
            let subject = self.subject.take().unwrap_or_default();
            Ok(("thought", Step::Thought { subject, text, delay: self.take_delay() }))
        } else if let Some(tool) = self.call.take() {
            let input = self.input.take().unwrap_or_default().0;
            Ok(("call", Step::Calls(vec![CallForm { tool, input }])))
        } else if let Some(calls) = self.calls.take() {
            Ok(("calls", take_calls(calls)?))
        } else if let Some(text) = self.malformed.take() {
            let tool = self.tool.take().ok_or("`malformed` needs a `tool`")?;
            Ok(("malformed", Step::Malformed { tool, text }))
        } else if let Some(usage) = self.usage.take() {
            Ok(("usage", Step::Usage(usage.into())))
        } else if let Some(message) = self.error.take() {
            Ok(("error", self.take_error(message)))
        } else if let Some(cut) = self.cut.take() {
            if cut { Ok(("cut", Step::Cut)) } else { Err("`cut` can only be true".to_owned()) }
        } else if let Some(message) = self.panic.take() {
            Ok(("panic", Step::Panic(message)))
        } else if let Some(delay) = self.take_delay() {
            Ok(("delay", Step::Delay(delay)))
        } else {
            Err("a step needs one of `text`, `thought`, `call`, `calls`, `malformed`, `usage`, \
                 `error`, `cut`, `panic`, `delay` and `repeat`"
                .to_owned())
        }
    }

    fn take_delay(&mut self) -> Option<Duration> {
        self.delay.take().map(|wait| wait.0)
    }

    fn take_error(&mut self, message: String) -> Step {
        let kind = self.kind.take().unwrap_or(ModelErrorKind::Refused);
        let retry_after = self.retry_after.take().map(|wait| wait.0);
        let attempts = self.attempts.take();
        let fires = attempts.map_or(Fires::Always, |times| Fires::times(u64::from(times.get())));
        Step::Error { kind, message, retry_after, fires }
    }

    fn all_taken(&self, kind: &str) -> Result<(), String> {
        let keys = [
            ("text", self.text.is_some()),
            ("chunk", self.chunk.is_some()),
            ("thought", self.thought.is_some()),
            ("subject", self.subject.is_some()),
            ("delay", self.delay.is_some()),
            ("call", self.call.is_some()),
            ("input", self.input.is_some()),
            ("calls", self.calls.is_some()),
            ("malformed", self.malformed.is_some()),
            ("tool", self.tool.is_some()),
            ("usage", self.usage.is_some()),
            ("error", self.error.is_some()),
            ("kind", self.kind.is_some()),
            ("retry_after", self.retry_after.is_some()),
            ("attempts", self.attempts.is_some()),
            ("cut", self.cut.is_some()),
            ("panic", self.panic.is_some()),
            ("repeat", self.repeat.is_some()),
            ("while", self.r#while.is_some()),
            ("step", self.step.is_some()),
        ];
        match keys.iter().find(|(_, left)| *left) {
            Some((key, _)) => Err(format!("`{key}` does not go with `{kind}`")),
            None => Ok(()),
        }
    }
}

fn take_calls(calls: Vec<CallsForm>) -> Result<Step, String> {
    if calls.is_empty() {
        return Err("`calls` is empty".to_owned());
    }
    let calls = calls.into_iter().map(|form| CallForm { tool: form.tool, input: form.input.0 });
    Ok(Step::Calls(calls.collect()))
}

impl From<UsageForm> for Usage {
    fn from(form: UsageForm) -> Self {
        Usage {
            input_tokens: form.input,
            output_tokens: form.output,
            thought_tokens: form.thought,
            cached_tokens: form.cached,
            cache_write_tokens: 0,
        }
    }
}

struct Wait(Duration);

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WaitVisitor;

        impl Visitor<'_> for WaitVisitor {
            type Value = Wait;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a duration such as \"300ms\", \"5s\" or \"2m\"")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Wait, E> {
                actions::duration(text).map(Wait).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(WaitVisitor)
    }
}

/// The input of a call: JSON values in both file formats.
#[derive(Default)]
struct Input(Map<String, Value>);

impl TryFrom<Map<String, Value>> for Input {
    type Error = String;

    fn try_from(map: Map<String, Value>) -> Result<Self, String> {
        if map.values().any(holds_date) {
            return Err("a date in `input` must be in quotes: JSON has no dates".to_owned());
        }
        Ok(Input(map))
    }
}

/// Finds the marker that the TOML parser uses for a date in a generic value.
fn holds_date(value: &Value) -> bool {
    match value {
        Value::Object(map) => {
            map.contains_key("$__toml_private_datetime") || map.values().any(holds_date)
        }
        Value::Array(values) => values.iter().any(holds_date),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Deserializes a table as `Form` and checks it before returning, so that the error of a check has the
/// position of this table and not of the outer one.
struct CheckedVisitor<Form, Checked> {
    expected: &'static str,
    types: PhantomData<(Form, Checked)>,
}

impl<'de, Form, Checked> Visitor<'de> for CheckedVisitor<Form, Checked>
where
    Form: Deserialize<'de>,
    Checked: TryFrom<Form, Error = String>,
{
    type Value = Checked;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.expected)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Checked, A::Error> {
        let form = Form::deserialize(MapAccessDeserializer::new(map))?;
        Checked::try_from(form).map_err(A::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let types = PhantomData::<(RuleForm, Rule)>;
        deserializer.deserialize_map(CheckedVisitor { expected: "a rule", types })
    }
}

impl<'de> Deserialize<'de> for Repeated {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let types = PhantomData::<(StepForm, Repeated)>;
        deserializer.deserialize_map(CheckedVisitor { expected: "a step", types })
    }
}

impl<'de> Deserialize<'de> for Input {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let types = PhantomData::<(Map<String, Value>, Input)>;
        deserializer.deserialize_map(CheckedVisitor { expected: "a table", types })
    }
}
