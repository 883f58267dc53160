//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    let is = |variable, value| std::env::var(variable).is_ok_and(|given| given == value);
    // Tests start the program thousands of times. A position-independent debug build spends half of its start on
    // relocations.
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
