//! TensorRT-LLM's own programs that make a checkpoint, an engine, or a data set: each line is a `shell` stage with its
//! exact arguments, whose output folder takes the place of the one that the line names.

use serde_json::{Map, Value, json};

use crate::command_line::{Env, Opt, TranslationBuilder, TranslationResult, flag, one, read_known, tool_table};
use base::spec::Quantity;
use base::units::shell_word;

/// A program's line as a `shell` stage. What it reads are inputs, so that the stage runs again when they change; the
/// folder that it writes is the stage's. All other options are the program's own, and stay as they are.
struct ProgramLine<'a> {
    program: Vec<String>,
    arguments: &'a [String],
    /// Options with a file or folder that is read, and the input's name.
    reads: &'a [(&'a str, &'a str)],
    writes: &'a str,
}

impl ProgramLine<'_> {
    /// `--x v` and `--x=v`; the last one counts.
    fn value(&self, option: &str) -> Option<&str> {
        let mut last = None;
        for (at, word) in self.arguments.iter().enumerate() {
            match word.split_once('=') {
                Some((name, value)) if name == option => last = Some(value),
                _ if word == option => last = self.arguments.get(at + 1).map(String::as_str),
                _ => {}
            }
        }
        last
    }

    /// The product of numbers that options give, 1 for each that is not given.
    fn product(&self, options: &[&str]) -> Quantity<u64> {
        let numbers = options.iter().filter_map(|option| self.value(option)?.parse::<Quantity<u64>>().ok());
        numbers.fold(Quantity::Known(1), |product, number| product.times(number.map(|number| number.max(1))))
    }

    /// `path` makes a path absolute that is relative to the folder of the line.
    fn stage(
        &self,
        name: &str,
        gpus: Option<Quantity<u64>>,
        env: &Env,
        path: &dyn Fn(&str) -> String,
        builder: &mut TranslationBuilder,
    ) -> Value {
        let mut words = self.program.clone();
        let mut inputs = Map::new();
        let mut arguments = self.arguments.iter();
        let mut written = None;
        while let Some(word) = arguments.next() {
            let (option, attached) = match word.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let read = self.reads.iter().find(|(known, _)| *known == option);
            if option != self.writes && read.is_none() {
                words.push(word.clone());
                continue;
            }
            let Some(value) = attached.or_else(|| arguments.next().cloned()) else {
                builder.push_error(format!("`{option}` needs a value"));
                continue;
            };
            words.push(option.to_owned());
            if let Some((_, input)) = read {
                inputs.insert((*input).to_owned(), json!(path(&value)));
                words.push(format!("{{{{ inputs.{input} }}}}"));
            } else {
                written = Some(path(&value));
                // A stage runs in its output folder.
                words.push(".".to_owned());
            }
        }
        match written {
            Some(folder) => builder.produces(&folder, format!("{{{{ stages.{name}.out }}}}")),
            None => words.extend([self.writes.to_owned(), ".".to_owned()]),
        }
        Value::Object(env.stage(gpus, inputs, "shell", json!(words)))
    }
}

/// `convert_checkpoint.py` and `quantize.py` of TensorRT-LLM's examples. Each model's script has options of its own.
/// `script` is its path.
pub(crate) fn convert_checkpoint(
    env: &Env,
    script: &str,
    arguments: &[String],
    path: &dyn Fn(&str) -> String,
) -> TranslationResult {
    let is_quantize = script.ends_with("quantize.py");
    let (tool, name) =
        if is_quantize { ("quantize.py", "quantize") } else { ("convert_checkpoint.py", "convert_checkpoint") };
    let mut builder = TranslationBuilder::default();
    let line = ProgramLine {
        program: vec!["python3".to_owned(), script.to_owned()],
        arguments,
        reads: &[("--model_dir", "model"), ("--meta_ckpt_dir", "model")],
        writes: "--output_dir",
    };
    // Quantization runs the model; a conversion only reads and writes it.
    let gpus = is_quantize.then(|| line.product(&["--tp_size", "--pp_size"]));
    let stage = line.stage(name, gpus, env, path, &mut builder);
    if !script.starts_with(['/', '{']) {
        builder.note(format!(
            "`{script}` is where the stage runs only with its whole path, or with its image as `container`"
        ));
    }
    builder.note("the model's folder is an input: write where it is on this machine");
    builder.finish_manifest(tool, name, [(name, stage)])
}

/// `trtllm-build`: checkpoint → engine.
pub(crate) fn trtllm_build(env: &Env, arguments: &[String], path: &dyn Fn(&str) -> String) -> TranslationResult {
    const TOOL: &str = "trtllm-build";
    const STAGE: &str = "trtllm_build";
    let mut builder = TranslationBuilder::default();
    let line = ProgramLine {
        program: vec![TOOL.to_owned()],
        arguments,
        reads: &[
            ("--checkpoint_dir", "checkpoint"),
            ("--model_config", "model_config"),
            ("--build_config", "build_config"),
        ],
        writes: "--output_dir",
    };
    // Each worker builds one rank after the other on a GPU of its own.
    let gpus = line.product(&["--workers"]);
    let stage = line.stage(STAGE, Some(gpus), env, path, &mut builder);
    builder.note(
        "an `engine` stage makes checkpoint and engine in one, and knows their flags: `regatta explain stages.engine`",
    );
    builder.finish_manifest(TOOL, "engine", [(STAGE, stage)])
}

// What is only read of the line.
tool_table!(PREPARE_DATASET, ["prepare-dataset"], []);

/// Where the file goes, which is another place here.
pub(crate) static OUTPUT: &[Opt] = &[one(&["--output"]), flag(&["--stdout"])];

/// `prepare_dataset.py`: a file of requests → a stage that writes it. `path` is the script's; `written_to` is the file
/// that its output is redirected to.
pub(crate) fn prepare_dataset(path: &str, words: &[String], written_to: Option<&str>) -> TranslationResult {
    const TOOL: &str = "prepare_dataset.py";
    const NAME: &str = "prepare_dataset";
    const FILE: &str = "dataset.jsonl";
    let mut builder = TranslationBuilder::default();
    let (places, others) = read_known(TOOL, OUTPUT, words, &mut builder);
    let (line, _) = PREPARE_DATASET.read_known(words, &mut builder);
    let mut inputs = Map::new();
    let script = if path.starts_with(['/', '{']) {
        path.to_owned()
    } else {
        // The stage runs in a folder of its own.
        inputs.insert("script".to_owned(), json!(path));
        "{{ inputs.script }}".to_owned()
    };
    // One request a line is what trtllm-bench reads; with --output it writes another form.
    let mut command = vec!["python3".to_owned(), script, "--stdout".to_owned()];
    command.extend(others);
    let command: Vec<String> =
        command.iter().map(|word| if word.contains("{{") { format!("'{word}'") } else { shell_word(word) }).collect();
    let command = json!(["sh", "-c", format!("{} > {FILE}", command.join(" "))]);
    let mut stage = Env::default().stage(None, inputs, "shell", command);
    stage.insert("outputs".to_owned(), json!([FILE]));
    if let Some(file) = places.value("--output").or(written_to) {
        builder.produces(file, format!("{{{{ stages.{NAME}.out }}}}/{FILE}"));
        builder.note(format!("{file} is {FILE} in the stage's output folder"));
    }
    let number = |name: &str| line.value(name);
    if let (Some(input), Some(output)) = (number("--input-mean"), number("--output-mean")) {
        let requests = number("--num-requests").map(|n| format!(" --requests {n}")).unwrap_or_default();
        let deviation = |name: &str, option: &str| {
            number(name).filter(|text| *text != "0").map(|text| format!(" {option} {text}")).unwrap_or_default()
        };
        builder.note(format!(
            "against a server no file is needed: `regatta bench TARGET --input-tokens {input}{} --output-tokens \
                {output}{}{requests}` generates the same requests",
            deviation("--input-stdev", "--input-tokens-stddev"),
            deviation("--output-stdev", "--output-tokens-stddev"),
        ));
    }
    builder.finish_manifest(TOOL, "prepare-dataset", [(NAME, Value::Object(stage))])
}
