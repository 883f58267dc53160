//! Settings of a `bench` that only some protocols have: with a protocol that lacks them they are an error, and so is a target of another
//! protocol.

use super::StageChecker;
use super::load_keys::are_written_together;
use crate::manifest::model::{Bench, USUAL_END_ID};
use crate::manifest::{Node, Targets, targets};
use crate::spec::{Interface, Protocol, UnsendableSetting};

const SET_HTTP: &str = "set a `protocol` over HTTP: generate, openai-chat, openai-completions";

impl StageChecker<'_> {
    /// `written`: the stage before its texts were rendered.
    pub(super) fn protocol(&mut self, bench: &Bench, written: &Node) {
        let parsed = targets(&bench.target).unwrap_or_default();
        let protocol = parsed.protocol(bench.protocol);
        for setting in bench.request.unsendable(protocol) {
            let path: Vec<&str> = ["bench", "request"].into_iter().chain(setting.key.split('.')).collect();
            let hint = Some(hint_of(setting, protocol));
            self.at_key(&path, &setting.to_string(), "this protocol cannot send it", hint);
        }
        let is_other = self.contradicts_target(bench, protocol);
        if protocol == Protocol::Kserve && !is_other {
            self.http_only(bench, &parsed);
        }
        self.end_id(bench, protocol, written);
        if bench.endpoint.as_ref().is_some_and(|path| !path.starts_with('/')) {
            let hint = bench.endpoint.as_ref().map(|path| format!("write `/{path}`"));
            self.push_error(&["bench", "endpoint"], "must begin with `/`", "a path on the server", hint);
        }
        self.tls(bench, &parsed);
    }

    /// A scheme stands for a protocol.
    fn contradicts_target(&mut self, bench: &Bench, protocol: Protocol) -> bool {
        let Some((scheme, _)) = bench.target.split_once("://") else { return false };
        let is_other = match scheme {
            "openai" => !protocol.is_openai(),
            "grpc" => protocol != Protocol::Kserve,
            _ => false,
        };
        if is_other {
            let label = format!("the target is `{scheme}://`");
            let hint = Some("remove `protocol`, or write the target as `host:port`".to_owned());
            self.push_error(&["bench", "protocol"], "contradicts the target", &label, hint);
        }
        is_other
    }

    /// Over gRPC.
    fn http_only(&mut self, bench: &Bench, parsed: &Targets) {
        for (is_set, key) in [
            (bench.endpoint.is_some(), "endpoint"),
            (!bench.extra.is_empty(), "extra"),
            (bench.api_key_env.is_some(), "api_key_env"),
        ] {
            if is_set {
                self.at_key(&["bench", key], "is for protocols over HTTP", "this is gRPC", Some(SET_HTTP.to_owned()));
            }
        }
        if let Some(path) = parsed.path.as_ref().or(parsed.prefix.as_ref()) {
            let label = format!("gRPC has no path `{path}`");
            self.push_error(&["bench", "target"], "is for protocols over HTTP", &label, Some(SET_HTTP.to_owned()));
        }
    }

    /// OpenAI's servers have their own end token. Where prompts are drawn as token ids, this one is in none of them.
    fn end_id(&mut self, bench: &Bench, protocol: Protocol, written: &Node) {
        let draws_ids = protocol == Protocol::OpenaiCompletions && bench.request.interface == Some(Interface::TokenIds);
        let decisive = if bench.protocol.is_some() { "protocol" } else { "target" };
        if protocol.is_openai()
            && !draws_ids
            // The usual one changes nothing.
            && bench.end_id != USUAL_END_ID
            && are_written_together(written, decisive, "end_id")
        {
            let hint = Some("remove it, or set `protocol` to kserve or generate".to_owned());
            self.at_key(&["bench", "end_id"], "has no effect", "the server has its own end token", hint);
        }
    }

    fn tls(&mut self, bench: &Bench, parsed: &Targets) {
        let Some(tls) = &bench.tls else { return };
        if bench.target.starts_with("http://") {
            let hint = Some("write `https://` in the target, or leave `tls` out".to_owned());
            self.push_error(&["bench", "tls"], "contradicts the target", "`http://` is without TLS", hint);
        } else if parsed.protocol(bench.protocol) == Protocol::Kserve && !parsed.is_secure {
            self.push_error(&["bench", "tls"], "is for protocols over HTTP", "this is gRPC", Some(SET_HTTP.to_owned()));
        }
        if tls.client_cert.is_some() != tls.client_key.is_some() {
            let hint = Some("name both `client_cert` and `client_key`".to_owned());
            self.push_error(&["bench", "tls"], "has one half of our certificate", "a certificate needs its key", hint);
        }
        if tls.insecure && tls.ca.is_some() {
            let hint = Some("leave `insecure` out".to_owned());
            self.push_error(
                &["bench", "tls"],
                "sets authorities, although any certificate is trusted",
                "`ca` would mean nothing",
                hint,
            );
        }
    }
}

/// What to do about a setting that cannot be sent.
fn hint_of(setting: UnsendableSetting, protocol: Protocol) -> String {
    match setting.key {
        "stop_words.ids" => "use `texts`".to_owned(),
        "bad_words.ids" if protocol == Protocol::Generate => "use `texts`".to_owned(),
        "cancel.by" => "use `by: rpc`".to_owned(),
        "length_field" => "remove it".to_owned(),
        "interface" => "remove it, or set `protocol: openai-completions`".to_owned(),
        _ if protocol == Protocol::Kserve => "remove it".to_owned(),
        _ => "remove it; fields of the server's own are sent with `extra`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::manifest::{GivenValues, ManifestLibrary, load};
    use crate::plan::expand;

    fn is_good(bench: &str) -> bool {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "regatta: 1\nname: m\nvars: {{ chat: openai-chat, offline: offline }}\nstages:\n  measure:\n    bench: {{ target: 'localhost:8000', \
             stop: {{ requests: 9 }}, input_tokens: {{ fixed: 1 }}, output_tokens: {{ fixed: 1 }}, {bench} }}\n"
        );
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let manifest = load(&ManifestLibrary::new(folder.path()), "m.yaml", &GivenValues::default());
        expand(&manifest.unwrap_or_else(|wrong| panic!("{wrong:?}"))).is_ok()
    }

    #[test]
    fn a_key_beside_an_expression_may_be_for_another_protocol_or_scenario() {
        assert!(is_good("protocol: '{{ chat }}', scenario: '{{ offline }}', end_id: 7, arrivals: constant"));
        assert!(!is_good("protocol: openai-chat, scenario: '{{ offline }}', end_id: 7"));
        assert!(!is_good("protocol: '{{ chat }}', scenario: offline, arrivals: constant"));
        // What a request cannot carry is an error however it is written.
        assert!(!is_good("protocol: '{{ chat }}', scenario: offline, request: { end_id: '{{ 7 }}' }"));
        assert!(is_good("protocol: '{{ chat }}', scenario: offline, request: { end_id: '{{ none }}' }"));
    }

    #[test]
    fn usual_values_are_good_with_every_protocol() {
        for protocol in ["kserve", "generate", "openai-chat", "openai-completions"] {
            let usual = "end_id: 2, stream: per_request, triton_num_clients_per_frontend: 2, extra: {}, request: { beam_width: 1, batch: 1 }";
            assert!(is_good(&format!("protocol: {protocol}, scenario: offline, {usual}")), "{protocol}");
        }
    }
}
