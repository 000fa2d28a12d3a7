//! A JSON object that keeps the order of its keys and the text of its values, so that a vendor gets back
//! exactly what it sent. Reading is lenient: a field of another type than expected counts as missing.
//!
//! Not here: any vendor's names.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// None if the text is not a JSON object.
    pub fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    pub fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_ref())
    }

    /// The field, if it has this type.
    pub fn read<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.get(name)?.get()).ok()
    }

    /// A field of nested objects: `meta.n_ctx`.
    pub fn read_at<T: DeserializeOwned>(&self, path: &str) -> Option<T> {
        match path.split_once('.') {
            Some((name, rest)) => self.read::<Fields>(name)?.read_at(rest),
            None => self.read(path),
        }
    }

    pub fn text(&self, name: &str) -> Option<String> {
        self.read(name)
    }

    /// Sets a field where it stands, or at the end.
    pub fn set(&mut self, name: &str, value: &(impl Serialize + ?Sized)) {
        let value = raw(value);
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// Sets all fields of the other object.
    pub fn extend(&mut self, other: Fields) {
        for (name, value) in other.0 {
            self.set(&name, &value);
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_ref()))
    }

    pub fn to_text(&self) -> String {
        raw(self).get().to_owned()
    }
}

/// Maps with text as keys, texts, numbers and lists of them can always be written as JSON.
pub fn raw(value: &(impl Serialize + ?Sized)) -> Box<RawValue> {
    to_raw_value(value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Vec::new();
        while let Some(field) = map.next_entry()? {
            fields.push(field);
        }
        Ok(Fields(fields))
    }
}
