//! The compiled protocol files match their sources.

use loggia_server::grpc::transcode::DESCRIPTORS;
use prost::Message;

const FILES: [&str; 5] = [
    "lf/a2a/v1/a2a.proto",
    "a2a/v1/a2a.proto",
    "grpc/health/v1/health.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
];

/// After a change of a file, `UPDATE_DESCRIPTORS=1` writes them again.
#[test]
fn match_their_sources() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let compiled = protox::compile(FILES, [&folder]).unwrap().encode_to_vec();
    if std::env::var_os("UPDATE_DESCRIPTORS").is_some() {
        std::fs::write(folder.join("descriptors.bin"), &compiled).unwrap();
        return;
    }
    assert!(compiled == DESCRIPTORS, "run this test with UPDATE_DESCRIPTORS=1");
}
