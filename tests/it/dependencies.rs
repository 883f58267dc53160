//! What the program is made of may be in it: licenses, sources and crates that are banned, by the lists of `.deny.toml`.
//!
//! cargo-deny reads the same lists and looks at more; it takes minutes to build, and this a second.

use std::process::Command;

use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};
use toml::Table;

/// The dependencies of the program on the platforms in `.deny.toml`, as `cargo metadata` has them: without those of other platforms and of
/// tests.
fn packages(rules: &Table) -> Vec<Value> {
    let mut command = Command::new(env!("CARGO"));
    command
        .args(["metadata", "--locked", "--offline", "--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    for platform in texts(&rules["graph"]["targets"]) {
        command.args(["--filter-platform", &platform]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let mut used = vec![&metadata["resolve"]["root"]];
    let mut next = 0;
    while let Some(id) = used.get(next) {
        let node = nodes.iter().find(|node| node["id"] == **id).unwrap();
        let of_program = |one: &&Value| one["dep_kinds"].as_array().unwrap().iter().any(|one| one["kind"] != "dev");
        for dependency in node["deps"].as_array().unwrap().iter().filter(of_program) {
            if !used.contains(&&dependency["pkg"]) {
                used.push(&dependency["pkg"]);
            }
        }
        next += 1;
    }
    let used: Vec<Value> = used.into_iter().cloned().collect();
    let Value::Array(mut packages) = metadata["packages"].take() else { panic!("no packages") };
    packages.retain(|package| used.contains(&package["id"]));
    packages
}

fn rules() -> Table {
    std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/.deny.toml")).unwrap().parse().unwrap()
}

fn texts(list: &toml::Value) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
}

/// Why a dependency may not be in it.
fn objection(package: &Value, allowed: &[Licensee], banned: &[String]) -> Option<String> {
    let text = |key: &str| package[key].as_str();
    if text("source").is_some_and(|source| source != "registry+https://github.com/rust-lang/crates.io-index") {
        return Some("is not from crates.io".to_owned());
    }
    if banned.iter().any(|name| text("name") == Some(name)) {
        return Some("is banned".to_owned());
    }
    let Some(license) = text("license") else { return Some("names no license".to_owned()) };
    let expression = match Expression::parse_mode(license, ParseMode::LAX) {
        Ok(expression) => expression,
        Err(error) => return Some(format!("has a license that cannot be read: {error}")),
    };
    let is_allowed = expression.evaluate(|requirement| allowed.iter().any(|one| one.satisfies(requirement)));
    (!is_allowed).then(|| format!("is under `{license}`"))
}

fn objections(packages: &[Value], rules: &Table) -> Vec<String> {
    let allowed: Vec<Licensee> =
        texts(&rules["licenses"]["allow"]).iter().map(|name| Licensee::parse(name).unwrap()).collect();
    let banned: Vec<String> =
        rules["bans"]["deny"].as_array().unwrap().iter().map(|one| one["crate"].as_str().unwrap().to_owned()).collect();
    let of = |package: &Value| {
        let why = objection(package, &allowed, &banned)?;
        Some(format!("{} {why}", package["name"].as_str().unwrap_or_default()))
    };
    packages.iter().filter_map(of).collect()
}

#[test]
#[ignore = "needs the dependencies of all platforms: `cargo fetch --locked`"]
fn every_dependency_has_a_license_a_source_and_a_name_that_are_allowed() {
    let rules = rules();
    let packages = packages(&rules);
    assert!(packages.len() > 200, "{} packages", packages.len());
    assert_eq!(objections(&packages, &rules), Vec::<String>::new());
    // Crates of the workspace are of no version, and of no source.
    let own = packages.iter().filter(|package| package["source"].is_null());
    let any_version: Vec<_> = own
        .flat_map(|package| package["dependencies"].as_array().unwrap())
        .filter(|one| one["req"] == "*" && one["path"].is_null())
        .map(|one| &one["name"])
        .collect();
    assert!(any_version.is_empty(), "of any version: {any_version:?}");
}

#[test]
fn what_is_not_allowed_is_named_with_why() {
    let package = |name: &str, source: &str, license: Option<&str>| serde_json::json!({ "name": name, "source": source, "license": license });
    let index = "registry+https://github.com/rust-lang/crates.io-index";
    let packages = [
        package("good", index, Some("MIT/Apache-2.0")),
        package("either", index, Some("GPL-3.0-only OR MIT")),
        package("copyleft", index, Some("MIT AND GPL-3.0-only")),
        package("silent", index, None),
        package("serde_yml", index, Some("MIT")),
        package("fork", "git+https://github.com/a/b", Some("MIT")),
    ];
    assert_eq!(
        objections(&packages, &rules()),
        [
            "copyleft is under `MIT AND GPL-3.0-only`",
            "silent names no license",
            "serde_yml is banned",
            "fork is not from crates.io"
        ]
    );
}
