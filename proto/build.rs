//! Turns the three interface files into Rust, without `protoc`, and keeps their descriptors for the text format.

use std::error::Error;
use std::path::PathBuf;
use std::{env, fs};

use protox::prost::Message;

const FILES: [&str; 3] =
    ["../../proto/grpc_service.proto", "../../proto/model_config.proto", "../../proto/health.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    for file in FILES {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(FILES, ["../../proto"])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec())?;
    tonic_prost_build::configure()
        // Tensor bytes are shared, not copied, on their way in and out.
        .bytes(".inference.ModelInferRequest.raw_input_contents")
        .bytes(".inference.ModelInferResponse.raw_output_contents")
        // The same file gives the same bytes: maps are ordered.
        .btree_map(".inference")
        // A server answers Unimplemented to what it does not have, as Triton does without an extension.
        .generate_default_stubs(true)
        .build_client(true)
        .build_server(true)
        .compile_fds(descriptors)?;
    Ok(())
}
