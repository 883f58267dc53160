//! What a server reports about itself, its models and its metrics, and where servers are that stay up.

use crate::document::{Badge, Block, Cell, Document, Section, Table};
use crate::styler::{Styler, TextRole, cut};
use base::units::{counted, shell_word};
use serde::Serialize;
use serde_json::json;

/// A server, as it answered.
#[derive(Clone, Debug, Serialize)]
pub struct ServerStatus {
    pub address: String,
    pub live: bool,
    pub ready: bool,
    pub name: String,
    pub version: String,
    pub extensions: Vec<String>,
    pub models: Vec<ModelRow>,
}

/// A model in its repository.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModelRow {
    pub name: String,
    pub version: String,
    /// `READY`, `UNAVAILABLE`, …; empty where it was never loaded.
    pub state: String,
    pub reason: String,
    pub backend: Option<String>,
    pub decoupled: Option<bool>,
    pub max_batch_size: Option<i64>,
}

/// A model, with its tensors and the configuration that is in effect.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ModelDetails {
    pub name: String,
    pub versions: Vec<String>,
    pub platform: String,
    pub inputs: Vec<TensorFacts>,
    pub outputs: Vec<TensorFacts>,
    /// By the names of config.pbtxt.
    pub settings: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct TensorFacts {
    pub name: String,
    pub datatype: String,
    /// With the batch dimension where there is one; -1 is any size.
    pub shape: Vec<i64>,
    pub optional: bool,
}

/// One number of `/metrics`.
#[derive(Clone, Debug, Serialize)]
pub struct ServerMetricRow {
    pub family: String,
    pub help: String,
    pub kind: String,
    /// `model="m",version="1"`, with the part's name first where a family has parts.
    pub labels: String,
    pub value: String,
}

pub fn status(server: &ServerStatus) -> Document {
    let (role, word) = match (server.live, server.ready) {
        (true, true) => (TextRole::Good, "ready"),
        (true, false) => (TextRole::Warning, "live, not ready"),
        (false, _) => (TextRole::Bad, "not live"),
    };
    let row = |model: &ModelRow| {
        let (role, state) = match model.state.as_str() {
            "READY" => (TextRole::Good, "READY"),
            "" => (TextRole::Quiet, "not loaded"),
            other => (TextRole::Bad, other),
        };
        let answers = model.decoupled.map(|decoupled| if decoupled { "decoupled (stream)" } else { "one" });
        let version = Some(&model.version).filter(|version| !version.is_empty());
        let cell = |text: Option<String>| Cell::from(text.unwrap_or_else(|| "–".to_owned()));
        [
            Cell::name(&model.name),
            cell(version.cloned()),
            Cell::new(role, state),
            cell(model.backend.clone()),
            cell(answers.map(str::to_owned)),
            cell(model.max_batch_size.map(|size| size.to_string())),
            Cell::new(TextRole::Bad, &model.reason),
        ]
    };
    let heads = ["model", "version", "state", "backend", "answers", "max batch"];
    let extensions = (!server.extensions.is_empty()).then(|| format!("extensions: {}", server.extensions.join(", ")));
    let models = match server.models.as_slice() {
        [] => Block::plain("no models"),
        models => Block::table(Table::list(heads, models.iter().map(row))),
    };
    let badges = vec![Badge { role, text: format!("{}: {word}", server.address) }];
    let section = Section { badges, ..Section::new(format!("{} {}", server.name, server.version)) };
    Document::of_sections([section.with(extensions.map(Block::plain)).with([models])])
}

pub fn models(models: &[ModelDetails]) -> Document {
    let tensor = |side: &str, tensor: &TensorFacts| {
        let shape = format!("{:?}", tensor.shape);
        let remark = if tensor.optional { "optional" } else { "" };
        [
            Cell::quiet(side),
            Cell::name(&tensor.name),
            tensor.datatype.as_str().into(),
            shape.into(),
            Cell::quiet(remark),
        ]
    };
    let section = |model: &ModelDetails| {
        let inputs = model.inputs.iter().map(|input| tensor("in", input));
        let tensors = inputs.chain(model.outputs.iter().map(|output| tensor("out", output)));
        let settings = model.settings.iter().map(|(name, value)| [Cell::quiet(name), cut(value, 100).into()]);
        let about = format!("{}, versions {}", model.platform, model.versions.join(", "));
        Section { about, ..Section::new(&model.name) }.with([Block::list(tensors), Block::list(settings)])
    };
    Document::of_sections(models.iter().map(section))
}

/// Families one after the other; `all` counts all numbers, including those that were not requested.
pub fn metrics(rows: &[ServerMetricRow], all: usize) -> Document {
    let row = |metric: &ServerMetricRow| [Cell::name(&metric.labels), metric.value.as_str().into()];
    let family = |rows: &[ServerMetricRow]| {
        let about = format!("{}  {}", rows[0].kind, rows[0].help);
        Section { about, ..Section::new(&rows[0].family) }.with([Block::list(rows.iter().map(row))])
    };
    let part = if rows.len() < all { format!("{} of ", rows.len()) } else { String::new() };
    let count = Block::plain(format!("{part}{}, as the server counts", counted(all, "number")));
    let families = rows.chunk_by(|a, b| a.family == b.family).map(family);
    Document::of_sections(families.chain([Section::default().with([count])]))
}

/// One server that is up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct EndpointRow {
    pub task: String,
    /// Its number among those of its task.
    pub server: usize,
    /// What its machine is called, where a manifest names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// `host:port`, absent where it does not speak that.
    pub grpc: Option<String>,
    pub http: Option<String>,
    pub metrics: Option<String>,
    pub model: Option<String>,
    /// The target for `regatta bench`.
    pub bench: String,
}

impl EndpointRow {
    fn bench_command(&self) -> String {
        let model = self.model.as_ref().map(|model| format!(" --model {}", shell_word(model))).unwrap_or_default();
        format!("regatta bench {}{model}", shell_word(&self.bench))
    }
}

/// A table, and below it a benchmark of the first one as a command to paste. Without color: it is often copied.
pub fn endpoints_text(servers: &[EndpointRow]) -> String {
    let row = |one: &EndpointRow| {
        let host = one.host.as_ref().map(|host| format!(" on {host}")).unwrap_or_default();
        let addresses = [&one.grpc, &one.http, &one.metrics].map(|address| address.as_deref().unwrap_or("-"));
        [one.task.as_str(), &format!("{}{host}", one.server)].into_iter().chain(addresses).map(Cell::from).collect()
    };
    let heads = ["STAGE", "SERVER", "GRPC", "HTTP", "METRICS"];
    let table = Table::list(heads, servers.iter().map(row).collect::<Vec<Vec<Cell>>>());
    let command = servers.first().map(|first| format!("{}\n", first.bench_command())).unwrap_or_default();
    table.terminal(Styler::OFF, "") + &command
}

/// One line: `{"servers": […]}`.
pub fn endpoints_json(servers: &[EndpointRow]) -> String {
    format!("{}\n", json!({ "servers": servers }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_shown_with_what_is_wrong_with_its_models() {
        let model = |name: &str, state: &str, reason: &str, decoupled: Option<bool>| ModelRow {
            name: name.to_owned(),
            version: if decoupled == Some(true) { "1".to_owned() } else { String::new() },
            state: state.to_owned(),
            reason: reason.to_owned(),
            backend: decoupled.map(|_| "tensorrtllm".to_owned()),
            decoupled,
            max_batch_size: decoupled.map(|_| 64),
        };
        let server = ServerStatus {
            address: "h:8001".to_owned(),
            live: true,
            ready: true,
            name: "triton".to_owned(),
            version: "2.51.0".to_owned(),
            extensions: vec!["statistics".to_owned(), "trace".to_owned()],
            models: vec![
                model("tensorrt_llm", "READY", "", Some(true)),
                model("ensemble", "UNAVAILABLE", "no version is available", None),
                model("other", "", "", None),
            ],
        };
        insta::assert_snapshot!(status(&server).terminal(Styler::OFF), @r"
        triton 2.51.0  h:8001: ready
          extensions: statistics, trace
          model         version  state        backend      answers             max batch
          tensorrt_llm  1        READY        tensorrtllm  decoupled (stream)  64
          ensemble      –        UNAVAILABLE  –            –                   –          no version is available
          other         –        not loaded   –            –                   –
        ");
    }

    #[test]
    fn numbers_stand_below_their_family() {
        let row = |family: &str, labels: &str, value: &str| ServerMetricRow {
            family: family.to_owned(),
            help: "What it is".to_owned(),
            kind: "counter".to_owned(),
            labels: labels.to_owned(),
            value: value.to_owned(),
        };
        let rows = [row("a", "model=\"m\"", "12"), row("a", "model=\"long\"", "4"), row("b", "", "1")];
        insta::assert_snapshot!(metrics(&rows, 7).terminal(Styler::OFF), @r#"
        a  counter  What it is
          model="m"     12
          model="long"  4

        b  counter  What it is
            1
        3 of 7 numbers, as the server counts
        "#);
    }

    #[test]
    fn every_server_has_a_row_and_the_first_a_command() {
        let triton = |server: usize| EndpointRow {
            task: "triton/offline".to_owned(),
            server,
            grpc: Some(format!("127.0.0.1:800{}", server + 1)),
            model: Some("tensorrt_llm".to_owned()),
            bench: format!("127.0.0.1:800{}", server + 1),
            ..EndpointRow::default()
        };
        let openai = EndpointRow {
            task: "api".to_owned(),
            host: Some("node-a".to_owned()),
            http: Some("node-a:8000".to_owned()),
            bench: "openai://node-a:8000".to_owned(),
            ..EndpointRow::default()
        };
        insta::assert_snapshot!(endpoints_text(&[triton(0), triton(1), openai.clone()]), @r"
        STAGE           SERVER       GRPC            HTTP         METRICS
        triton/offline  0            127.0.0.1:8001  -            -
        triton/offline  1            127.0.0.1:8002  -            -
        api             0 on node-a  -               node-a:8000  -
        regatta bench 127.0.0.1:8001 --model tensorrt_llm
        ");
        assert!(endpoints_text(&[openai]).ends_with("\nregatta bench openai://node-a:8000\n"));
        assert_eq!(endpoints_json(&[triton(0)]).lines().count(), 1);
    }
}
