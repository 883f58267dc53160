//! How the program is linked.

fn main() {
    println!("cargo::rerun-if-changed=src/build.rs");
    let is = |variable, value| std::env::var(variable).is_ok_and(|given| given == value);
    // Tests start the program thousands of times. At an address of its own, half of a start would be its relocation.
    if is("PROFILE", "debug") && is("CARGO_CFG_TARGET_OS", "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
