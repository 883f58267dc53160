//! What this machine is, as far as a result depends on it: programs by their versions, GPUs, driver. For records and lock files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::needs::Needs;
use super::{gpus, tools};
use base::files::{read_bytes, read_text};
use exec::process::probe;

/// How long Python may take to look into the list of what is installed.
const LIMIT: Duration = Duration::from_secs(20);
/// Programs of TensorRT-LLM's package: they are scripts of the Python that has it.
const OF_TRTLLM: [&str; 4] = ["trtllm-build", "trtllm-serve", "trtllm-bench", "trtllm-llmapi-launch"];

/// Name → the version that the program, or a file beside it, reports. Programs without a version are left out.
pub fn versions(needs: &Needs, project: &Path) -> BTreeMap<String, String> {
    let programs = needs.programs.keys().chain(needs.containers.keys());
    programs.filter_map(|program| Some((name(program).to_owned(), version(program, project)?))).collect()
}

/// `arch`; where GPUs are leased here also `GPUs`, `driver` and `CUDA`.
pub fn machine(needs: &Needs) -> BTreeMap<String, String> {
    let mut all = BTreeMap::from([("arch".to_owned(), std::env::consts::ARCH.to_owned())]);
    if needs.gpus > 0 {
        all.extend(gpus::facts());
    }
    all
}

fn name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

fn version(program: &str, project: &Path) -> Option<String> {
    let path = found(program, project)?;
    if OF_TRTLLM.contains(&name(program)) {
        return of_package(&path, "tensorrt_llm");
    }
    if name(program) == "vllm" {
        return of_package(&path, "vllm");
    }
    if name(program) == "tritonserver" {
        // bin/tritonserver, and beside bin its version.
        let folder = fs::canonicalize(&path).ok()?.parent()?.parent()?.to_owned();
        let text = read_text(folder.join("TRITON_VERSION")).ok()?;
        return Some(text.trim().to_owned());
    }
    let line = tools::version_of(&path.display().to_string(), name(program))?;
    // `pip 24.0 from /usr/lib/…`: the path is specific to the machine.
    let words = line.split_whitespace().take_while(|word| !word.starts_with('/')).collect::<Vec<_>>().join(" ");
    Some(words.trim_end_matches(" from").to_owned())
}

/// The path of a program by its name.
fn found(program: &str, project: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(project.join(program)).filter(|path| path.is_file());
    }
    which::which(program).ok()
}

/// The version of the package, of the Python that a script names in its first line. The package is not imported.
fn of_package(script: &Path, package: &str) -> Option<String> {
    let text = read_bytes(script).ok()?;
    let first = text.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(first).ok()?.strip_prefix("#!")?.trim();
    let python: Vec<&str> = line.split_whitespace().collect();
    if !python.last()?.contains("python") {
        return None;
    }
    installed(&python, package)
}

/// The version of the package behind a program: a Python that runs a module, or a script of it.
pub fn package_version(program: &[String], package: &str, project: &Path) -> Option<String> {
    let path = found(program.first()?, project)?;
    if name(&path.to_string_lossy()).starts_with("python") {
        return installed(&[&path.to_string_lossy()], package);
    }
    of_package(&path, package)
}

fn installed(python: &[&str], package: &str) -> Option<String> {
    let script = format!("import importlib.metadata as m; print(m.version('{package}'))");
    let output = probe(python.iter().copied().chain(["-c", &script]), LIMIT).successful_output()?;
    Some(output.trim().to_owned()).filter(|version| version.starts_with(|c: char| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn script(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn programs_tell_their_versions_in_the_way_each_does() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        script(&at("tools/cmake"), "#!/bin/sh\necho 'cmake version 3.30.1 from /opt/cmake'\n");
        script(&at("triton/bin/tritonserver"), "");
        fs::write(at("triton/TRITON_VERSION"), "2.51.0\n").unwrap();
        script(&at("python3.12"), "#!/bin/sh\ncase \"$2\" in *importlib*) echo 0.21.0;; esac\n");
        let python = at("python3.12");
        script(&at("venv/trtllm-build"), &format!("#!{}\nimport sys\n", python.display()));
        script(&at("venv/trtllm-serve"), "#!/bin/sh\n");
        let programs = ["tools/cmake", "triton/bin/tritonserver", "venv/trtllm-build", "venv/trtllm-serve", "no/git"];
        let programs = programs.map(|name| (name.to_owned(), vec!["t".to_owned()]));
        let needs = Needs { programs: programs.into_iter().collect(), ..Needs::default() };
        let expected = [("cmake", "cmake version 3.30.1"), ("tritonserver", "2.51.0"), ("trtllm-build", "0.21.0")];
        let expected: BTreeMap<String, String> =
            expected.into_iter().map(|(name, version)| (name.to_owned(), version.to_owned())).collect();
        assert_eq!(versions(&needs, folder.path()), expected);
    }
}
