//! Every store under the same contract.

mod memory {
    use std::sync::Arc;

    use loggia_session::{MemoryStore, Store};

    loggia_testkit::store_contract!((Arc::new(MemoryStore::default()) as Arc<dyn Store>, ()));
}

mod sqlite {
    use std::sync::Arc;

    use loggia_session::Store;
    use loggia_testkit::client;

    loggia_testkit::store_contract!({
        let directory = client::directory();
        (client::sqlite(directory.path()) as Arc<dyn Store>, directory)
    });
}
