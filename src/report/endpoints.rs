//! Where servers are that stay up: the output of `regatta serve`.

use serde::Serialize;
use serde_json::json;

use super::terminal::{Styler, TextRole, clean, table};
use base::units::shell_word;

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
    let row = |cells: [&str; 5]| cells.map(|text| (TextRole::Plain, clean(text))).to_vec();
    let mut rows = vec![row(["STAGE", "SERVER", "GRPC", "HTTP", "METRICS"])];
    rows.extend(servers.iter().map(|one| {
        let server = match &one.host {
            Some(host) => format!("{} on {host}", one.server),
            None => one.server.to_string(),
        };
        let address = |address: &Option<String>| address.clone().unwrap_or_else(|| "-".to_owned());
        row([&one.task, &server, &address(&one.grpc), &address(&one.http), &address(&one.metrics)])
    }));
    let mut text = table(Styler::OFF, "", &rows);
    if let Some(first) = servers.first() {
        text.push_str(&first.bench_command());
        text.push('\n');
    }
    text
}

/// One line: `{"servers": […]}`.
pub fn endpoints_json(servers: &[EndpointRow]) -> String {
    format!("{}\n", json!({ "servers": servers }))
}

#[cfg(test)]
mod tests {
    use super::*;

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
