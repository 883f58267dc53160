//! Results in a notebook, read by the packages that people use.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::python_packages::python;
use crate::world::World;

fn chapter() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/manual/guides/notebook")
}

/// A world with the folder of the chapter.
fn world() -> World {
    let world = World::new();
    let from = chapter().with_extension("in");
    fs::create_dir(world.path("measured")).unwrap();
    for name in ["measured/result.json", "measured/requests.jsonl", "sweep.json"] {
        fs::copy(from.join(name), world.path(name)).unwrap();
    }
    world
}

fn printed(world: &World, code: &str) -> String {
    let done = python().args(["-c", code]).current_dir(world.path("")).output();
    let done = done.expect("python3");
    let (out, err) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{out}\n{err}");
    out.into_owned()
}

/// Ends Python without taking it down: on a busy machine pyarrow's threads are sometimes not done then, and abort it.
const LEAVE: &str = "import os, sys; sys.stdout.flush(); os._exit(0)";

#[test]
#[ignore = "needs Python, pip and the network"]
fn the_cell_of_the_chapter_runs() {
    let world = world();
    let text = fs::read_to_string(chapter().with_extension("md")).unwrap();
    let cell = text.split("```python\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let shown = printed(&world, &format!("{cell}\n{LEAVE}"));
    // As the result itself has it, to the digit that both percentile rules share.
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    let count = result["counts"]["ok"].as_u64().unwrap();
    assert!(shown.contains(&format!("over {count} requests")), "{shown}");
    let p50: f64 = shown.strip_prefix("TTFT p50 ").and_then(|rest| rest.split(' ').next()).unwrap().parse().unwrap();
    let own = result["latency"]["ttft"]["p50"].as_f64().unwrap();
    assert!((p50 - own).abs() < 0.1 * own, "{p50} {own}");
    assert!(shown.contains("output_tokens_per_s") && shown.contains("valid"), "{shown}");
}

/// The cell of the chapter, without an account: the run is in the file that `wandb sync` uploads.
#[test]
#[ignore = "needs Python, pip and the network"]
fn the_cell_for_weights_and_biases_writes_an_offline_run() {
    let world = world();
    let text = fs::read_to_string(chapter().with_extension("md")).unwrap();
    let cell = text.split("```python\n").nth(2).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(cell.contains("wandb.init("), "{cell}");
    printed(&world, cell);
    let run = fs::read_dir(world.path("wandb")).unwrap().flatten().map(|item| item.path());
    let run =
        run.into_iter().find(|path| path.file_name().unwrap().to_string_lossy().starts_with("offline-run-")).unwrap();
    let files: Vec<PathBuf> = fs::read_dir(&run).unwrap().flatten().map(|item| item.path()).collect();
    let written = files.iter().find(|path| path.extension().is_some_and(|kind| kind == "wandb")).unwrap();
    let bytes = fs::read(written).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|window| window == text.as_bytes());
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    let p99 = result["latency"]["ttft"]["p99"].to_string();
    for text in ["ttft_p99_ms", p99.as_str(), "sweep/tokens_per_s_per_user", "valid_with_warnings"] {
        assert!(has(text), "{text} is not in {}", written.display());
    }
}

/// The wheel of a release, around this program: installed, it has the program and a module that reads its results.
#[test]
#[ignore = "needs Python, pip and the network"]
fn the_wheel_has_the_program_and_a_module_for_pandas() {
    let world = World::new();
    // Without what a debugger reads: that is most of the program.
    let program = world.path("program");
    let strip = Command::new("strip").arg("-o").arg(&program).arg(env!("CARGO_BIN_EXE_regatta")).status();
    assert!(strip.expect("strip").success());
    let wheel = wheel(&program, &world.path(""));
    // A Python that has neither, with pandas from the one of the other tests.
    let run = |command: &mut Command| {
        let output = command.env("PATH", "/usr/bin:/bin").current_dir(world.path("")).output().expect("it starts");
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{command:?}: {text}");
        text
    };
    run(Command::new("python3").args(["-m", "venv", "fresh"]));
    let fresh = world.path("fresh/bin/python");
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"];
    run(Command::new(&fresh).args(pip).arg(&wheel));
    assert!(run(Command::new(world.path("fresh/bin/regatta")).arg("--version")).starts_with("regatta "));
    assert!(run(Command::new(&fresh).args(["-m", "regatta", "--version"])).starts_with("regatta "));
    let packages = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let packages = run(python().args(["-c", packages])).trim().to_owned();
    let code = format!(
        "import sys\nimport regatta\nassert 'pandas' not in sys.modules\nsys.path.append('{packages}')\n\
         run = regatta.bench('sim:', rate=20, n=20, osl=4, seed=[3], q=True, dry_run=False, out='measured')\n\
         again = regatta.load('measured')\nsweep = regatta.bench('sim:', c='1,2', n=10, osl=4)\n\
         try:\n    regatta.bench('sim:', rte=1)\nexcept regatta.Error as error:\n    print(error.code, error)\n\
         print(run.verdict, len(again.requests), run.metrics.loc['ttft', 'unit'], list(sweep.points['level.users']))\n\
         print(len(sweep.requests), sweep.metrics.index.get_level_values('metric').unique().tolist()[0], {PEAK})\n{LEAVE}"
    );
    let shown = run(Command::new(&fresh).args(["-c", &code]));
    assert!(shown.contains("2 error: ") && shown.contains("--rate"), "{shown}");
    let result: Value = serde_json::from_str(&world.read("measured/result.json")).unwrap();
    let verdict = result["verdict"].as_str().unwrap();
    assert!(shown.contains(&format!("{verdict} 20 ms [1, 2]\n20 ttft ")), "{shown}");
    let p50 = result["latency"]["ttft"]["p50"].to_string();
    assert!(shown.contains(&p50), "{p50}: {shown}");
}

/// A number of the metrics, as Python prints it.
const PEAK: &str = "run.metrics.loc['ttft', 'p50']";

/// The same program gives the same bytes, and every file of the wheel is in its list with its digest.
#[test]
#[ignore = "needs Python, pip and the network"]
fn a_wheel_is_reproducible_and_names_the_glibc_that_it_needs() {
    let world = World::new();
    world.file("program", "\u{7f}ELF GLIBC_2.4 GLIBC_2.28 GLIBC_2.17").file("a/.keep", "").file("b/.keep", "");
    let (first, second) =
        (wheel(&world.path("program"), &world.path("a")), wheel(&world.path("program"), &world.path("b")));
    assert_eq!(fs::read(&first).unwrap(), fs::read(&second).unwrap());
    assert!(first.to_str().unwrap().ends_with("-py3-none-manylinux_2_28_x86_64.whl"), "{}", first.display());
    let code = "import base64, csv, hashlib, sys, zipfile\narchive = zipfile.ZipFile(sys.argv[1])\n\
        names = archive.namelist()\nrecord = next(name for name in names if name.endswith('/RECORD'))\n\
        rows = {row[0]: row[1:] for row in csv.reader(archive.read(record).decode().splitlines())}\n\
        assert sorted(rows) == sorted(names), rows\n\
        for name, (digest, size) in rows.items():\n    data = archive.read(name)\n    \
        expected = 'sha256=' + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip('=')\n    \
        assert name == record or (digest, int(size)) == (expected, len(data)), name\n\
        modes = {name: archive.getinfo(name).external_attr >> 16 for name in names}\n\
        assert [oct(mode) for name, mode in modes.items() if name.endswith('/scripts/regatta')] == ['0o100755'], modes";
    let checked = python().arg("-c").arg(code).arg(&first).output().expect("python3");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
}

/// What `tests/release/wheel` makes of a program.
fn wheel(program: &Path, folder: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/release/wheel");
    let made = Command::new(script).arg(program).args(["x86_64", env!("CARGO_PKG_VERSION")]).arg(folder).output();
    let made = made.expect("python3");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8_lossy(&made.stdout).trim().into()
}
