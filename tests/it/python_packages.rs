//! A Python with the packages that write and read files of other tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

const PACKAGES: [&str; 4] = ["pandas==2.3.3", "pyarrow==22.0.0", "opentelemetry-proto==1.45.2", "wandb==0.31.0"];

/// Installed once, into the build folder.
pub fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-packages");
        let (program, done) = (folder.join("bin/python"), folder.join("installed"));
        let list = PACKAGES.join(" ");
        if fs::read_to_string(&done).is_ok_and(|installed| installed == list) {
            return program;
        }
        let run = |command: &mut Command| {
            let output = command.output().expect("it starts");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        };
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder));
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        run(Command::new(&program).args(pip).args(PACKAGES));
        fs::write(&done, list).expect("written");
        program
    })
}

/// A command that runs it.
pub fn python() -> Command {
    Command::new(program())
}
