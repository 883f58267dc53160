//! `include_dir!` does not see files that come or go by itself.

fn main() {
    for folder in ["manifests", "templates", "schemas", "tests/manual/reference/examples"] {
        println!("cargo::rerun-if-changed=../../{folder}");
    }
}
