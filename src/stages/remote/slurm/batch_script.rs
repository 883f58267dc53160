//! The options of `sbatch` from the manifest's settings, and the script that the job runs.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use super::commands::PREFIX;
use base::files::Digest;
use base::spec::JobTimeLimit;
use base::units::shell_word;
use plan::manifest::model::{Slurm, SlurmContainer};

/// The user's flags. `gpus` is the total that the stage requests.
pub fn flags(slurm: &Slurm, gpus: u32) -> Vec<String> {
    let mut flags = Vec::new();
    let mut flag = |name: &str, value: Option<String>| flags.extend(value.map(|value| format!("--{name}={value}")));
    flag("account", slurm.account.clone());
    flag("partition", slurm.partition.clone());
    flag("qos", slurm.qos.clone());
    flag("reservation", slurm.reservation.clone());
    flag("time", slurm.time.as_ref().map(JobTimeLimit::sbatch));
    flag("nodes", slurm.nodes.map(|nodes| nodes.to_string()));
    flag("ntasks-per-node", slurm.tasks_per_node.map(|tasks| tasks.to_string()));
    flag("cpus-per-task", slurm.cpus_per_task.map(|cpus| cpus.to_string()));
    flag("gres", slurm.gres.clone());
    let per_node = (gpus > 0 && slurm.gres.is_none()).then(|| gpus.div_ceil(slurm.nodes.unwrap_or(1)));
    flag("gpus-per-node", slurm.gpus_per_node.or(per_node).map(|gpus| gpus.to_string()));
    flag("mem", slurm.mem.clone());
    flag("constraint", slurm.constraint.clone());
    flag("nodelist", slurm.nodelist.clone());
    flag("exclude", slurm.exclude.clone());
    if slurm.exclusive {
        flags.push("--exclusive".to_owned());
    }
    flags.extend(slurm.args.iter().cloned());
    flags
}

/// The script that runs on the first node. Everything that it needs may be missing there, and then it reports that: its
/// output is the only information the user gets.
pub fn script(program: &Path, folder: &Path, comment: &str) -> String {
    batch_script(program, &format!("folder={}", shell_word(&folder.to_string_lossy())), comment)
}

/// Like `script`, for an array: each element has a folder of its own.
pub fn array_script(program: &Path, folders: &[(u32, &Path)], comment: &str) -> String {
    let mut which = "case $SLURM_ARRAY_TASK_ID in\n".to_owned();
    for (element, folder) in folders {
        let _ = writeln!(which, "{element}) folder={};;", shell_word(&folder.to_string_lossy()));
    }
    which.push_str("*) echo \"regatta: there is no element $SLURM_ARRAY_TASK_ID\" >&2; exit 125;;\nesac");
    batch_script(program, &which, comment)
}

fn batch_script(program: &Path, folder: &str, comment: &str) -> String {
    let program = shell_word(&program.to_string_lossy());
    let mut text = "#!/bin/sh\n".to_owned();
    let _ = writeln!(text, "# {}", comment.replace('\n', " "));
    text.push_str(
        "# The warning that the time limit is near may come before a handler is installed.\n\
         trap '' USR2\n\
         # Defaults and the token for sbatch, which what runs here must not inherit.\n\
         for name in SLURM_JWT $(env | sed -n 's/^\\(SBATCH_[A-Z0-9_]*\\)=.*/\\1/p'); do unset \"$name\"; done\n",
    );
    let _ = writeln!(text, "program={program}\n{folder}");
    text.push_str(
        "if [ ! -d \"$folder\" ]; then echo \"regatta: $folder is not on $(hostname): the project folder must be \
        shared\" >&2; exit 125; fi\n\
         if [ ! -x \"$program\" ]; then echo \"regatta: $program is not on $(hostname): host.slurm.program names \
         another\" >&2; exit 127; fi\n\
         cd \"$folder\" && exec \"$program\" __job \"$folder\"\n",
    );
    text
}

/// A unique name that shows what the job is: a task, or a stage.
pub fn name(what: &str, salt: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let plain_text: String = what.chars().map(plain).take(60).collect();
    format!("{PREFIX}{plain_text}-{}", Digest::hash(salt.as_bytes()).short())
}

/// Whether [`name`] has made this from the salt.
pub fn is_name(text: &str, salt: &str) -> bool {
    let parts = text.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('-'));
    parts.is_some_and(|(what, _)| name(what, salt) == text)
}

/// This program, as the nodes find it.
pub fn program(slurm: &Slurm, project: &Path) -> std::io::Result<PathBuf> {
    match &slurm.program {
        Some(program) => Ok(project.join(program)),
        None => std::env::current_exe(),
    }
}

// A command in a container through pyxis: options of `srun` in front of it.

/// The command as it runs inside the container that the stage's host names. `env` are the names of the variables that
/// must reach it regardless of its image.
pub fn srun_container_argv(
    container: &SlurmContainer,
    project: &std::path::Path,
    out: &std::path::Path,
    argv: Vec<OsString>,
    env: &[String],
) -> Vec<OsString> {
    let here = |path: &std::path::Path| format!("{0}:{0}", path.display());
    let mut mounts = vec![here(project)];
    // The state folder may be elsewhere.
    if !out.starts_with(project) {
        mounts.extend(out.parent().map(here));
    }
    mounts.extend(container.mounts.iter().cloned());
    let mut words: Vec<OsString> = ["srun", "--nodes=1", "--ntasks=1", "--export=ALL"].map(OsString::from).to_vec();
    words.push(format!("--container-image={}", container.image).into());
    words.push(format!("--container-mounts={}", mounts.join(",")).into());
    words.push(format!("--container-workdir={}", out.display()).into());
    if !env.is_empty() {
        words.push(format!("--container-env={}", env.join(",")).into());
    }
    words.extend(container.args.iter().map(OsString::from));
    words.extend(argv);
    words
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_word_of_the_manifest_has_its_flag() {
        let slurm: Slurm = serde_json::from_value(serde_json::json!({
            "account": "acc", "partition": "gpu", "qos": "high", "reservation": "r", "time": "90m", "nodes": 2,
            "tasks_per_node": 8, "cpus_per_task": 4, "mem": "0", "constraint": "h100", "nodelist": "n[1-2]",
            "exclude": "n3", "exclusive": true, "args": ["--comment=x"],
        }))
        .unwrap();
        insta::assert_snapshot!(flags(&slurm, 16).join(" "), @"--account=acc --partition=gpu --qos=high \
            --reservation=r --time=90 --nodes=2 --ntasks-per-node=8 --cpus-per-task=4 --gpus-per-node=8 --mem=0 \
            --constraint=h100 --nodelist=n[1-2] --exclude=n3 --exclusive --comment=x");
        assert_eq!(flags(&Slurm::default(), 0), [""; 0], "the cluster's own defaults");
        let gres = Slurm { gres: Some("gpu:h100:8".to_owned()), ..Slurm::default() };
        assert_eq!(flags(&gres, 8), ["--gres=gpu:h100:8"]);
    }

    #[test]
    fn the_script_is_this() {
        let text = script(Path::new("/opt/it's/regatta"), Path::new("/p/.regatta/jobs/k-0"), "build of p");
        insta::assert_snapshot!(text.replace("; then ", ";\nthen "), @r#"
        #!/bin/sh
        # build of p
        # The warning that the time limit is near may come before a handler is installed.
        trap '' USR2
        # Defaults and the token for sbatch, which what runs here must not inherit.
        for name in SLURM_JWT $(env | sed -n 's/^\(SBATCH_[A-Z0-9_]*\)=.*/\1/p'); do unset "$name"; done
        program='/opt/it'\''s/regatta'
        folder=/p/.regatta/jobs/k-0
        if [ ! -d "$folder" ];
        then echo "regatta: $folder is not on $(hostname): the project folder must be shared" >&2; exit 125; fi
        if [ ! -x "$program" ];
        then echo "regatta: $program is not on $(hostname): host.slurm.program names another" >&2; exit 127; fi
        cd "$folder" && exec "$program" __job "$folder"
        "#);
        let folders = [(0, Path::new("/p/.regatta/jobs/k-0")), (7, Path::new("/p/.regatta/jobs/l-0"))];
        let text = array_script(Path::new("/opt/regatta"), &folders, "build of p");
        let middle: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("case")).take(5).collect();
        insta::assert_snapshot!(middle.join("\n"), @r#"
        case $SLURM_ARRAY_TASK_ID in
        0) folder=/p/.regatta/jobs/k-0;;
        7) folder=/p/.regatta/jobs/l-0;;
        *) echo "regatta: there is no element $SLURM_ARRAY_TASK_ID" >&2; exit 125;;
        esac
        "#);
    }

    #[test]
    fn the_project_is_mounted_where_it_is_and_no_value_is_among_the_words() {
        let container = SlurmContainer {
            image: "nvcr.io#nvidia/tritonserver:24.12".to_owned(),
            mounts: vec!["/models:/models:ro".to_owned()],
            args: vec!["--no-container-mount-home".to_owned()],
        };
        let argv = vec!["/bin/sh".into(), "-c".into(), "echo hi".into()];
        let env = ["OUT".to_owned(), "HF_TOKEN".to_owned()];
        let words = srun_container_argv(&container, Path::new("/p"), Path::new("/p/.regatta/out/k-0"), argv, &env);
        let words: Vec<_> = words.into_iter().map(|word| word.into_string().unwrap()).collect();
        insta::assert_snapshot!(words.join("\n"), @r"
        srun
        --nodes=1
        --ntasks=1
        --export=ALL
        --container-image=nvcr.io#nvidia/tritonserver:24.12
        --container-mounts=/p:/p,/models:/models:ro
        --container-workdir=/p/.regatta/out/k-0
        --container-env=OUT,HF_TOKEN
        --no-container-mount-home
        /bin/sh
        -c
        echo hi
        ");
    }
}
