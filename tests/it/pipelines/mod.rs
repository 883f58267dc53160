//! The catalogue of the MLPerf flow: every workload planned for every system that was submitted, the commands of one system
//! of each workload run to their end with recorded stand-ins, and every workload run for real on a simulated system.
//!
//! `tests/golden/pipelines/WORKLOAD.txt` is what is planned, `WORKLOAD-SYSTEM.txt` what was called. After a change
//! `UPDATE=1 cargo test --test it pipelines` writes what is so now; read the difference.

mod called;
mod planned;
mod twins;

use std::fs;
use std::path::{Path, PathBuf};

use regatta::manifest::{GivenValues, Manifest, ManifestLibrary, load};
use regatta::plan::{Plan, expand};

pub const WORKLOADS: [&str; 6] =
    ["deepseek-r1", "gpt-oss-120b", "llama2-70b", "llama3.1-405b", "llama3.1-8b", "mixtral-8x7b"];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The systems of a workload, by name: files beside its pipeline.
fn systems(workload: &str) -> Vec<String> {
    let folder = root().join("manifests").join(workload);
    let files = fs::read_dir(folder).expect("the workload's folder").flatten();
    let mut names: Vec<String> =
        files.filter_map(|file| file.file_name().to_str()?.strip_suffix(".yaml").map(str::to_owned)).collect();
    names.retain(|name| name != "pipeline");
    names.sort();
    names
}

fn real(workload: &str) -> Vec<String> {
    systems(workload).into_iter().filter(|name| !name.starts_with("sim-")).collect()
}

/// A pipeline for a system, with everything that a person must give.
fn manifest(workload: &str, system: &str, params: &[(&str, &str)]) -> Manifest {
    let mut given = GivenValues::default();
    let mut give = |name: &str, value: &str| given.params.push((name.to_owned(), value.to_owned()));
    give("system", system);
    if !system.starts_with("sim-") {
        give("model_path", "/usr");
        let file = fs::read_to_string(root().join(format!("manifests/{workload}/{system}.yaml"))).expect("its file");
        if !file.contains("/v5.1.yaml") {
            give("image", "mlperf:1");
        }
        if file.contains("/v6.0.yaml") {
            give("trt_llm_rev", "0123456789abcdef0123456789abcdef01234567");
        }
    }
    for (name, value) in params {
        give(name, value);
    }
    load(&ManifestLibrary::new(root()), workload, &given).unwrap_or_else(|found| panic!("{workload} {system}: {found}"))
}

fn plan(workload: &str, system: &str, params: &[(&str, &str)]) -> Plan {
    expand(&manifest(workload, system, params)).unwrap_or_else(|found| panic!("{workload} {system}: {found}"))
}

/// Holds a text against a golden file, or writes it.
fn golden(name: &str, text: &str) {
    let path: PathBuf = root().join("tests/golden/pipelines").join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, text).expect("written");
    }
    let was = fs::read_to_string(&path).unwrap_or_default();
    pretty_assertions::assert_eq!(was, text, "not as in {}", path.display());
}
