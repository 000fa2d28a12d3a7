//! The SQLite store under the contract of every store.

use std::sync::Arc;

use loggia_session::Store;
use loggia_testkit::client;

loggia_testkit::store_contract!({
    let directory = client::directory();
    (client::sqlite(directory.path()) as Arc<dyn Store>, directory)
});
