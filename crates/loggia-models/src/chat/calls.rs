//! Puts together the calls of a reply, which arrive in pieces.

use std::sync::Arc;

use crate::fields::Fields;
use crate::fragments::parse_input;
use crate::request::Delta;

#[derive(Debug, Default)]
pub struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    id: String,
    name: String,
    arguments: String,
    /// Everything else that the server sent about the call, such as a signature.
    more: Fields,
    more_of_function: Fields,
}

impl Calls {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn take(&mut self, mut piece: Fields) {
        let index = piece.read::<u64>("index");
        let id = piece.text("id").unwrap_or_default();
        let mut function = piece.read::<Fields>("function").unwrap_or_default();
        let name = function.text("name").unwrap_or_default();
        // Some servers send arguments as an object, and not as text.
        let arguments = function.text("arguments").or_else(|| {
            let object = function.read::<Fields>("arguments")?;
            Some(object.to_text())
        });
        ["index", "id", "function"].into_iter().for_each(|known| piece.remove(known));
        ["name", "arguments"].into_iter().for_each(|known| function.remove(known));
        let Some(call) = self.of(index, &id, &name) else { return };
        if call.id.is_empty() {
            call.id = id;
        }
        // Some servers repeat the name in every piece.
        if call.name.is_empty() {
            call.name = name;
        }
        call.arguments.push_str(&arguments.unwrap_or_default());
        call.more.extend(piece);
        call.more_of_function.extend(function);
    }

    /// The call that a piece belongs to. The index says it; but some servers leave it out, or send 0 for
    /// every call, and then another id begins another call.
    fn of(&mut self, index: Option<u64>, id: &str, name: &str) -> Option<&mut Call> {
        let known = match index {
            Some(_) => self.0.iter().rposition(|call| call.index == index),
            None => self.0.len().checked_sub(1),
        };
        let begins = known.and_then(|at| self.0.get(at)).is_none_or(|call| {
            let other_id = !id.is_empty() && !call.id.is_empty() && call.id != id;
            other_id && !name.is_empty() || index.is_none() && id.is_empty() && !name.is_empty()
        });
        if begins {
            self.0.push(Call { index, ..Call::default() });
            return self.0.last_mut();
        }
        self.0.get_mut(known?)
    }

    /// The complete calls. `reply` makes the ids of calls without one.
    pub fn finish(self, reply: &str) -> impl Iterator<Item = Delta> {
        self.0.into_iter().enumerate().map(move |(at, call)| {
            let id = match call.id.is_empty() {
                true => format!("call_{reply}_{at}"),
                false => call.id,
            };
            let mut function = Fields::default();
            function.set("name", &call.name);
            function.set("arguments", &call.arguments);
            function.extend(call.more_of_function);
            let mut item = Fields::default();
            item.set("id", &id);
            item.set("type", "function");
            item.set("function", &function);
            item.extend(call.more);
            Delta::Call {
                tool: call.name,
                input: parse_input(&call.arguments),
                item: Some(Arc::from(item.to_text())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_calls_find_their_call() {
        let check = |pieces: &[&str], wanted: &[&str]| {
            let mut calls = Calls::default();
            pieces.iter().for_each(|piece| calls.take(Fields::parse(piece).unwrap()));
            let items = calls.finish("r").map(|delta| match delta {
                Delta::Call { item, .. } => item.unwrap().to_string(),
                other => panic!("{other:?}"),
            });
            assert_eq!(items.collect::<Vec<_>>(), wanted, "{pieces:?}");
        };
        let a = r#"{"id":"a","type":"function","function":{"name":"x","arguments":"{}"}}"#;
        let b = r#"{"id":"b","type":"function","function":{"name":"y","arguments":"[1]"}}"#;
        // By index, and interleaved.
        check(
            &[
                r#"{"index":0,"id":"a","type":"function","function":{"name":"x","arguments":""}}"#,
                r#"{"index":1,"id":"b","type":"function","function":{"name":"y","arguments":"["}}"#,
                r#"{"index":0,"function":{"arguments":"{}"}}"#,
                r#"{"index":1,"function":{"arguments":"1]"}}"#,
            ],
            &[a, b],
        );
        // Every call has the index 0.
        check(
            &[
                r#"{"index":0,"id":"a","function":{"name":"x","arguments":"{}"}}"#,
                r#"{"index":0,"id":"b","function":{"name":"y","arguments":"[1]"}}"#,
            ],
            &[a, b],
        );
        // No index, a repeated name and id, arguments as an object.
        check(
            &[
                r#"{"id":"a","function":{"name":"x","arguments":"{"}}"#,
                r#"{"id":"a","function":{"name":"x","arguments":"}"}}"#,
            ],
            &[a],
        );
        check(
            &[r#"{"function":{"name":"x","arguments":{"z":1,"a":2}}}"#],
            &[
                r#"{"id":"call_r_0","type":"function","function":{"name":"x","arguments":"{\"z\":1,\"a\":2}"}}"#,
            ],
        );
        // What is not known comes back.
        check(
            &[
                r#"{"index":0,"id":"a","type":"function","extra_content":{"google":{"thought_signature":"S"}},"function":{"name":"x","arguments":"{}","strict":true}}"#,
            ],
            &[
                r#"{"id":"a","type":"function","function":{"name":"x","arguments":"{}","strict":true},"extra_content":{"google":{"thought_signature":"S"}}}"#,
            ],
        );
    }
}
