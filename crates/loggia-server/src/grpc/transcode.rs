//! Protocol buffers to JSON and back, by the protocol files.
//!
//! Depth and values are counted in the encoded message before anything is built. A `Struct` has only doubles; a whole
//! number becomes an integer in JSON, because clients mean integers.

use std::sync::LazyLock;

use bytes::{Buf, Bytes};
use loggia_wire::jsonrpc::VALUES_LIMIT;
use loggia_wire::{Condition, WireError};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, MethodDescriptor,
    SerializeOptions,
};
use serde_json::Value;

/// The compiled protocol files with their imports. Checked in, because compiling them would add a minute to the first
/// build; a test compares them with the sources.
pub const DESCRIPTORS: &[u8] = include_bytes!("../../proto/descriptors.bin");

/// The depth limit of protocol buffer readers. A JSON object inside of another takes three levels.
const DEPTH_LIMIT: usize = 100;

/// Levels of JSON that always stay below that limit.
const LEVELS: usize = 28;

/// Integers up to here are exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A test checks that the descriptors can be read.
static POOL: LazyLock<DescriptorPool> =
    LazyLock::new(|| DescriptorPool::decode(DESCRIPTORS).unwrap_or_default());

/// A method by the names of its service and its own.
pub fn method(of: &str, name: &str) -> Option<MethodDescriptor> {
    POOL.get_service_by_name(of)?.methods().find(|method| method.name() == name)
}

/// The names of a service's methods.
pub fn methods(of: &str) -> Vec<String> {
    let service = POOL.get_service_by_name(of);
    let methods = service.iter().flat_map(|service| service.methods());
    methods.map(|method| method.name().to_owned()).collect()
}

/// The JSON form of a message.
pub fn decode(descriptor: &MessageDescriptor, message: &[u8]) -> Result<Value, WireError> {
    let mut values = 0;
    count(descriptor, message, 0, &mut values).map_err(WireError::InvalidRequest)?;
    let decoded = DynamicMessage::decode(descriptor.clone(), message)
        .map_err(|_| WireError::InvalidRequest(MALFORMED))?;
    let mut json = decoded
        .serialize_with_options(serde_json::value::Serializer, &SerializeOptions::new())
        .map_err(|_| WireError::InvalidRequest("it contains a number that is not finite"))?;
    make_whole(&mut json);
    Ok(json)
}

/// The message of a JSON form.
pub fn encode(descriptor: &MessageDescriptor, json: &[u8]) -> Result<Bytes, WireError> {
    let failed = match serde_json::from_slice(json) {
        Ok(mut json) => {
            make_doubles(&mut json);
            let failed = match message(descriptor, &json) {
                Ok(message) => return Ok(message),
                Err(error) => error,
            };
            // JSON clients may nest deeper than protocol buffer readers allow.
            make_shallow(&mut json, 0);
            match message(descriptor, &json) {
                Ok(message) => return Ok(message),
                Err(_) => failed,
            }
        }
        Err(error) => error,
    };
    let name = descriptor.full_name();
    tracing::error!(error = %failed, name, "an answer does not fit the protocol file");
    Err(Condition::Internal.into())
}

fn message(descriptor: &MessageDescriptor, json: &Value) -> Result<Bytes, serde_json::Error> {
    // Cards have fields that the protocol file lacks; frames have none.
    let strict = descriptor.name() != "AgentCard";
    let options = DeserializeOptions::new().deny_unknown_fields(strict);
    let message = DynamicMessage::deserialize_with_options(descriptor.clone(), json, &options)?;
    Ok(message.encode_to_vec().into())
}

/// JSON numbers keep their digits. Protocol buffers have doubles; a number outside of their range becomes text.
fn make_doubles(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_u64().is_none() && number.as_i64().is_none() => {
            let double = number.as_f64().and_then(serde_json::Number::from_f64);
            *value = match double {
                Some(double) => Value::Number(double),
                None => Value::String(number.to_string()),
            };
        }
        Value::Array(items) => items.iter_mut().for_each(make_doubles),
        Value::Object(members) => members.values_mut().for_each(make_doubles),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Values below the last level become text.
fn make_shallow(value: &mut Value, level: usize) {
    if level == LEVELS && (value.is_object() || value.is_array()) {
        *value = Value::String(value.to_string());
    }
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| make_shallow(item, level + 1)),
        Value::Object(members) => {
            members.values_mut().for_each(|member| make_shallow(member, level + 1));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// `google.rpc.Status` from its JSON form.
pub fn status(json: &Value) -> Option<Bytes> {
    let descriptor = POOL.get_message_by_name("google.rpc.Status")?;
    encode(&descriptor, json.to_string().as_bytes()).ok()
}

const MALFORMED: &str = "it is not a message of this method";

/// Checks the limits of an encoded message without building it.
fn count(
    descriptor: &MessageDescriptor,
    mut message: &[u8],
    depth: usize,
    values: &mut usize,
) -> Result<(), &'static str> {
    if depth > DEPTH_LIMIT {
        return Err("it is nested too deeply");
    }
    while message.has_remaining() {
        *values += 1;
        if *values > VALUES_LIMIT {
            return Err("it holds too many values");
        }
        let (number, kind) = decode_key(&mut message).map_err(|_| MALFORMED)?;
        let length = match kind {
            WireType::Varint => {
                decode_varint(&mut message).map_err(|_| MALFORMED)?;
                continue;
            }
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => decode_varint(&mut message).map_err(|_| MALFORMED)?,
            // Groups: not used by these protocol files.
            WireType::StartGroup | WireType::EndGroup => return Err(MALFORMED),
        };
        let length = usize::try_from(length).map_err(|_| MALFORMED)?;
        let (inner, rest) = message.split_at_checked(length).ok_or(MALFORMED)?;
        message = rest;
        let field = descriptor.get_field(number).map(|field| field.kind());
        if let (WireType::LengthDelimited, Some(Kind::Message(below))) = (kind, field) {
            count(&below, inner, depth + 1, values)?;
        }
    }
    Ok(())
}

fn make_whole(value: &mut Value) {
    match value {
        Value::Number(number) => {
            let double = number.as_f64().filter(|_| number.is_f64());
            let whole = double.filter(|double| double.fract() == 0.0 && double.abs() <= EXACT);
            if let Some(whole) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and in range")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(make_whole),
        Value::Object(members) => members.values_mut().for_each(make_whole),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}
