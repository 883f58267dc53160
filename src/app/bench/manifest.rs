//! The manifest that a line of options means. `--dry-run` prints it, and `regatta run` takes it.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::{Map, Value, json};

use super::options;
use crate::cli::{BenchRequest, GpuSelection, ServedWord, TokenLength};
use crate::error::CommandError;
use base::spec::Quantity;
use plan::manifest::shipped;
use runner::store::{StateFolder, discard, replace};

/// The stage that measures.
pub(super) const STAGE: &str = "bench";

pub(super) const SIM: &str = "sim:";
/// The stage that makes the repository of a simulated server.
pub const REPOSITORY: &str = "repository";
/// Engine, repository and server of the simulator.
const SIMULATED: &str = include_str!("../../../templates/bench/simulated.yaml");
const USUAL_GPU: &str = "h200";
const USUAL_MODEL: &str = "llama2-70b";

/// A description of `sim:…` for display.
pub fn simulated(target: &str) -> Option<String> {
    let (gpu, model) = parts(target)?;
    Some(format!("{model} on one {}", gpu.to_uppercase()))
}

/// GPU and model of `sim:`, `sim:h100`, `sim:h100/llama2-70b`.
fn parts(target: &str) -> Option<(&str, &str)> {
    let rest = target.strip_prefix(SIM)?;
    let (gpu, model) = rest.split_once('/').unwrap_or((rest, ""));
    let gpu = if gpu.is_empty() { USUAL_GPU } else { gpu };
    Some((gpu, if model.is_empty() { USUAL_MODEL } else { model }))
}

pub fn text(request: &BenchRequest) -> Result<String, CommandError> {
    serde_yaml::to_string(&Value::Object(manifest(request)?)).map_err(|error| anyhow::Error::from(error).into())
}

/// Whether a text is a manifest as [`text`] writes it.
pub fn is_bench_manifest(text: &str) -> bool {
    let manifest: Value = serde_yaml::from_str(text).unwrap_or_default();
    let is_about_bench = manifest["about"].as_str().is_some_and(|about| about.starts_with("regatta bench "));
    manifest["regatta"] == 1 && manifest["name"] == STAGE && is_about_bench
}

/// The manifest of a request, key by key.
pub fn manifest(request: &BenchRequest) -> Result<Map<String, Value>, CommandError> {
    let mut stages = Map::new();
    let mut vars = Map::new();
    let target = match (request.args.serve, parts(&request.target)) {
        (Some(engine), _) => {
            stages.insert("server".to_owned(), server(engine, request));
            "{{ stages.server }}".to_owned()
        }
        (None, Some((gpu, model))) => {
            simulator(request, gpu, model, &mut vars, &mut stages)?;
            "{{ stages.simulator }}".to_owned()
        }
        (None, None) => request.target.clone(),
    };
    stages.insert(STAGE.to_owned(), json!({"bench": options::measurement(request, &target)?}));
    let mut manifest = Map::new();
    manifest.insert("regatta".to_owned(), json!(1));
    manifest.insert("name".to_owned(), json!(STAGE));
    manifest.insert("about".to_owned(), json!(format!("regatta bench {}", request.target)));
    if !vars.is_empty() {
        manifest.insert("vars".to_owned(), Value::Object(vars));
    }
    manifest.insert("stages".to_owned(), Value::Object(stages));
    Ok(manifest)
}

/// Of a length that is known.
fn longest(tokens: &TokenLength) -> u64 {
    let (mean, stddev) = (tokens.mean.known().copied(), tokens.stddev.known().copied());
    let most = u64::from(mean.unwrap_or_default()) + (stddev.unwrap_or_default() * 4.0).ceil() as u64;
    let max = tokens.max.as_ref().and_then(Quantity::known);
    max.map_or(most, |max| most.min(u64::from(*max)))
}

/// The stage that starts a server for the measurement.
fn server(engine: ServedWord, request: &BenchRequest) -> Value {
    let (args, program, model) = (&request.args, &request.program, request.target.as_str());
    let is_without_gpus = args.gpus == Some(GpuSelection::Count(0));
    let gpus = if is_without_gpus { 0 } else { args.tp * args.copies };
    if let Some(mut words) = command_line(engine, request) {
        words.extend(args.server_args.iter().cloned());
        return json!({"gpus": gpus, "serve": {"command": {"words": words, "ready": {"by": "health"}}}});
    }
    let mut keys = Map::from_iter([("model".to_owned(), json!(model))]);
    let (parallelism, value) = match engine {
        ServedWord::TrtllmServe => ("tensor_parallelism", json!(program.first())),
        _ => ("tensor_parallel_size", json!(program)),
    };
    if !program.is_empty() {
        keys.insert("program".to_owned(), value);
    }
    if args.tp > 1 {
        keys.insert(parallelism.to_owned(), json!(args.tp));
    }
    if !args.server_args.is_empty() {
        keys.insert("args".to_owned(), json!(args.server_args));
    }
    keys.insert("servers".to_owned(), json!(args.copies));
    json!({"gpus": gpus, "serve": { engine.action(): keys }})
}

/// How an engine is started that has no action of its own under `serve`.
fn command_line(engine: ServedWord, request: &BenchRequest) -> Option<Vec<String>> {
    let model = request.target.as_str();
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let tp = request.args.tp.to_string();
    let (usual, options) = match engine {
        ServedWord::Vllm | ServedWord::TrtllmServe => return None,
        ServedWord::Sglang => {
            (words(&["python3", "-m", "sglang.launch_server"]), words(&["--model-path", model, "--tp-size", &tp]))
        }
        // A file, or a name at Hugging Face.
        ServedWord::LlamaServer => {
            let is_file = Path::new(model).extension().is_some_and(|extension| extension == "gguf");
            (words(&["llama-server"]), words(&[if is_file { "-m" } else { "-hf" }, model]))
        }
    };
    let program = if request.program.is_empty() { usual } else { request.program.clone() };
    Some([program, options, words(&["--port", "{port}"])].concat())
}

/// Engine, repository and server of the simulator, with the shapes and tuning that are shipped.
fn simulator(
    request: &BenchRequest,
    gpu: &str,
    model: &str,
    vars: &mut Map<String, Value>,
    stages: &mut Map<String, Value>,
) -> Result<(), CommandError> {
    for path in [format!("manifests/quickstart/sim-{gpu}-x1.yaml"), format!("manifests/models/{model}.yaml")] {
        let Some((_, bytes)) = shipped().find(|(name, _)| *name == path) else {
            let names = |folder: &str, before: &str, after: &str| {
                let names = shipped().filter_map(|(name, _)| {
                    Some(name.strip_prefix(folder)?.strip_prefix(before)?.strip_suffix(after)?.to_owned())
                });
                names.collect::<Vec<_>>().join(", ")
            };
            return Err(CommandError::Usage(format!(
                "`{}`: the simulator knows the GPUs {} and the models {}",
                request.target,
                names("manifests/quickstart/", "sim-", "-x1.yaml"),
                names("manifests/models/", "", ".yaml"),
            )));
        };
        let example: Value = serde_yaml::from_slice(bytes).map_err(anyhow::Error::from)?;
        if let Some(example) = example["vars"].as_object() {
            vars.extend(example.clone());
        }
    }
    let [input, output] = [&request.input, &request.output].map(|tokens| tokens.as_ref().map_or(0, longest));
    if let Some(tuning) = vars.get_mut("tuning").and_then(Value::as_object_mut) {
        let mut widen = |key: &str, least: u64| {
            let now = tuning.get(key).and_then(Value::as_u64).unwrap_or(0);
            tuning.insert(key.to_owned(), json!(now.max(least)));
        };
        widen("max_input_len", input);
        widen("max_seq_len", input + output);
    }
    let mut simulated: Value = serde_yaml::from_str(SIMULATED).map_err(anyhow::Error::from)?;
    simulated[REPOSITORY]["repository"]["streaming"] = json!(request.streaming() != Some(false));
    stages.extend(simulated.as_object().cloned().unwrap_or_default());
    Ok(())
}

/// The newest are kept: a run needs its manifest until it is planned, and `regatta run` takes one that its journal
/// names. Older ones are of benchmarks long planned.
const KEPT: usize = 100;

const NAME: &str = "bench.yaml";

/// Writes the manifest into a folder of its content, so that two benchmarks that begin at once do not read each
/// other's.
pub fn write_file(home: &StateFolder, text: &str) -> anyhow::Result<PathBuf> {
    let path = home.bench_manifest(text.as_bytes()).join(NAME);
    let written = || -> anyhow::Result<()> {
        let folder = path.parent().unwrap_or(home.state());
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        // Also where it is there: it is the newest now.
        Ok(replace(&path, text.as_bytes())?)
    };
    // Another benchmark may just have removed an old folder of this content.
    written().or_else(|_| written())?;
    Ok(path)
}

/// Removes the older ones; `planned` removes what was compiled from one.
pub(super) fn remove_old(home: &StateFolder, planned: impl Fn(&Path)) {
    let items = fs::read_dir(home.bench_manifests()).into_iter().flatten().flatten();
    let mut folders: Vec<_> =
        items.filter_map(|item| Some((item.metadata().ok()?.modified().ok()?, item.path()))).collect();
    // Others are not Regatta's.
    folders.retain(|(_, folder)| folder.join(NAME).is_file());
    folders.sort_by_key(|(modified, _)| Reverse(*modified));
    for (_, folder) in folders.into_iter().skip(KEPT) {
        planned(&folder.join(NAME));
        // One that stays is removed by the next benchmark.
        let _ = discard(&folder);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::time::{Duration, SystemTime};

    use super::*;

    fn home(folder: &tempfile::TempDir) -> StateFolder {
        StateFolder::new(folder.path().to_owned(), folder.path().join(".regatta"))
    }

    #[test]
    fn each_text_is_read_back_as_it_was_written_whatever_is_written_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let [first, second] = ["rate: 1", "rate: 2"].map(|text| write_file(&home, text).unwrap());
        assert_eq!(fs::read_to_string(&first).unwrap(), "rate: 1");
        assert_eq!(fs::read_to_string(second).unwrap(), "rate: 2");
        assert_eq!(write_file(&home, "rate: 1").unwrap(), first);
        assert_eq!(fs::read_dir(home.bench_manifests()).unwrap().count(), 2);
    }

    #[test]
    fn the_oldest_go_with_what_was_compiled_from_them() {
        let folder = tempfile::tempdir().unwrap();
        let home = home(&folder);
        let paths: Vec<PathBuf> = (0..KEPT + 2).map(|n| write_file(&home, &n.to_string()).unwrap()).collect();
        for (n, path) in paths.iter().enumerate() {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(n as u64);
            fs::File::open(path.parent().unwrap()).unwrap().set_modified(time).unwrap();
        }
        // Written again: it is used again.
        write_file(&home, "0").unwrap();
        let gone = RefCell::new(Vec::new());
        remove_old(&home, |path| gone.borrow_mut().push(path.to_owned()));
        assert_eq!(*gone.borrow(), [paths[2].clone(), paths[1].clone()]);
        let left: Vec<&PathBuf> = paths.iter().filter(|path| path.exists()).collect();
        assert_eq!(left.len(), KEPT);
        assert!(left.contains(&&paths[0]));
    }
}
