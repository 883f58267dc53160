//! `triton import`, `triton start`, `triton profile` … of triton_cli.

use crate::command_line::{
    RunLine, RunSetting, TranslationBuilder, TranslationError, TranslationKind, TranslationResult, host_and_port,
    tool_table,
};
use crate::genai_perf;

tool_table!(TABLE, ["triton-cli"], []);

pub(crate) fn translate(words: &[String]) -> TranslationResult {
    let Some((command, rest)) = words.split_first() else {
        return Err(TranslationError::new("`triton` alone does nothing"));
    };
    if command == "profile" {
        return genai_perf::translate("triton profile", genai_perf::Subcommand::Profile, rest);
    }
    let mut builder = TranslationBuilder::default();
    let line = TABLE.read_as(TABLE.program, rest, &mut builder);
    line.has_options_only(&format!("triton {command}"), &mut builder);
    let triton_command = |what: &str| {
        let port = line.value("--port").unwrap_or("8001");
        let server = host_and_port(line.value("--url").unwrap_or("localhost"), port);
        let mut command = vec!["regatta".to_owned(), "triton".to_owned(), what.to_owned(), server];
        command.extend(line.value("--model").map(str::to_owned));
        if let Some(prompt) = line.value("--prompt") {
            command.extend(["--text".to_owned(), prompt.to_owned()]);
        }
        TranslationKind::Commands(vec![command])
    };
    let means = match command.as_str() {
        "import" | "start" => {
            let mut run = RunLine::default();
            let model = line.value("--model").unwrap_or("gpt2");
            run.manifests.push(model.to_owned());
            let is_import = command == "import";
            let service = match (line.value("--backend"), line.value("--frontend")) {
                (_, Some("openai")) => Some("openai-chat"),
                (Some("tensorrtllm"), _) => Some("triton-trtllm"),
                // An import without a backend is vLLM's.
                (backend, _) => (is_import || backend.is_some()).then_some("triton-vllm"),
            };
            if let Some(service) = service {
                run.settings.push(RunSetting::new("service", service, format!("triton {command}")));
            }
            if is_import {
                let trtllm = service == Some("triton-trtllm");
                run.until.push(if trtllm { "generate_triton_config" } else { "generate_vllm_config" }.to_owned());
            } else {
                run.serves = true;
                builder.note("`service=…` selects the server; `triton start` takes it from the model repository");
            }
            for option in &TABLE.options {
                let Some(row) = TABLE.row(option.names[0]).filter(|row| row.computes.is_none()) else { continue };
                if let Some(value) = line.value(option.names[0]) {
                    builder.push_untranslated(format!("{} {value}", option.names[0]), row.reason());
                }
            }
            TranslationKind::Run(run)
        }
        "infer" => triton_command("infer"),
        "metrics" => triton_command("metrics"),
        "config" => triton_command("config"),
        "status" => triton_command("status"),
        "list" => TranslationKind::Commands(vec![["regatta", "list"].map(str::to_owned).to_vec()]),
        "remove" => {
            builder
                .push_untranslated("triton remove", "outputs are named by their keys; `regatta gc` removes old ones");
            TranslationKind::Commands(Vec::new())
        }
        other => {
            builder.push_error(format!("`triton {other}` is not supported"));
            TranslationKind::Commands(Vec::new())
        }
    };
    builder.finish("triton", means)
}
