//! The shipped table of models (`catalog.toml`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::protocol::ModelFacts;

type Catalog = BTreeMap<String, BTreeMap<String, ModelFacts>>;

/// A test reads the file, so it can be read.
static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| toml::from_str(include_str!("../catalog.toml")).unwrap_or_default());

/// The models of a vendor, by name.
pub fn models(vendor: &str) -> Vec<ModelFacts> {
    let models = CATALOG.get(vendor).into_iter().flatten();
    models.map(|(id, facts)| ModelFacts { id: id.clone(), ..facts.clone() }).collect()
}

pub fn model(vendor: &str, id: &str) -> Option<ModelFacts> {
    let facts = CATALOG.get(vendor)?.get(id)?;
    Some(ModelFacts { id: id.to_owned(), ..facts.clone() })
}

/// The shipped prices in dollars, with the full name of each model.
pub fn prices() -> impl Iterator<Item = (String, &'static [String; 3])> {
    CATALOG.iter().flat_map(|(vendor, models)| {
        models
            .iter()
            .filter_map(move |(id, facts)| Some((format!("{vendor}/{id}"), facts.price.as_ref()?)))
    })
}

/// Fills what a provider does not say with what the table says.
pub fn completed(vendor: Option<&str>, listed: ModelFacts) -> ModelFacts {
    let Some(known) = vendor.and_then(|vendor| model(vendor, &listed.id)) else { return listed };
    ModelFacts {
        window: listed.window.or(known.window),
        output: listed.output.or(known.output),
        efforts: listed.efforts.or(known.efforts),
        thinking: listed.thinking.or(known.thinking),
        price: listed.price.or(known.price),
        id: listed.id,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read_and_every_price_is_a_number() {
        let catalog: Catalog = toml::from_str(include_str!("../catalog.toml")).unwrap();
        assert!(catalog.len() >= 4);
        for (name, price) in prices() {
            for rate in price {
                assert!(loggia_core::Rate::parse(rate).is_ok(), "{name}: {rate}");
            }
        }
        for facts in catalog.values().flat_map(BTreeMap::values) {
            assert!(facts.window.is_some() && facts.price.is_some());
        }
    }
}
