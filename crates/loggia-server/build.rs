//! Compiles the protocol files to descriptors. Nothing is generated and no other program is needed.

use std::error::Error;
use std::path::PathBuf;

use prost::Message;

const FILES: [&str; 5] = [
    "lf/a2a/v1/a2a.proto",
    "a2a/v1/a2a.proto",
    "grpc/health/v1/health.proto",
    "google/rpc/status.proto",
    "google/rpc/error_details.proto",
];

#[expect(clippy::disallowed_methods, reason = "this is how cargo says where to write")]
fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    let out = std::env::var_os("OUT_DIR").ok_or("cargo says where to write")?;
    std::fs::write(PathBuf::from(out).join("descriptors.bin"), descriptors.encode_to_vec())?;
    Ok(())
}
