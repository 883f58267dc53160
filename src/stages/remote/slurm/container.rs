//! A command in a container through pyxis: options of `srun` in front of it.

use std::ffi::OsString;

use plan::manifest::model::SlurmContainer;

/// The command as it runs inside the container that the stage's host names. `env` are the names of the variables that must
/// reach it regardless of its image.
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
