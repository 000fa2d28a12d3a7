//! The store in memory under the contract of every store.

use std::sync::Arc;

use loggia_session::{MemoryStore, Store};

loggia_testkit::store_contract!((Arc::new(MemoryStore::default()) as Arc<dyn Store>, ()));
