//! Settings of a `bench` that only some protocols have: with a protocol that lacks them they are an error, and so is a
//! target of another protocol.

use serde_json::json;

use super::load::are_written_together;
use super::{StageChecker, faults};
use crate::manifest::model::{Bench, USUAL_END_ID};
use crate::manifest::{Node, Targets, targets};
use base::spec::{Interface, Protocol, Request, UnsendableSetting};

const SET_HTTP: &str = "set a `protocol` over HTTP: generate, openai-chat, openai-completions";
const SET_FOR_ONE: &str =
    "set it only for protocols that have it: `'{{ … if protocol == … else none }}'`, with what `protocol` is read from";

impl StageChecker<'_> {
    /// `written`: the stage before its texts were rendered.
    pub(super) fn protocol(&mut self, bench: &Bench, written: &Node) {
        let parsed = targets(&bench.target).unwrap_or_default();
        let protocol = parsed.protocol(bench.protocol);
        let decisive =
            if bench.protocol.is_some() || has_expression(written, "protocol") { "protocol" } else { "target" };
        let is_computed = has_expression(written, decisive);
        for setting in bench.request.unsendable(protocol) {
            let path: Vec<&str> = ["bench", "request"].into_iter().chain(setting.key.split('.')).collect();
            let hint = if is_computed { SET_FOR_ONE.to_owned() } else { hint_of(setting, protocol, &bench.request) };
            self.key_fault(&path, &setting.to_string(), "this protocol cannot send it").hint(hint);
        }
        let is_other = self.contradicts_target(bench, protocol);
        if protocol == Protocol::Kserve && !is_other {
            self.http_only(bench, &parsed, |key| are_written_together(written, decisive, key));
        }
        if protocol.is_openai() {
            self.own_members(bench);
        }
        self.end_id(bench, protocol, |key| are_written_together(written, decisive, key));
        if let Some(path) = bench.endpoint.as_ref().filter(|path| !path.starts_with('/')) {
            self.fault(&["bench", "endpoint"], "must begin with `/`", "a path on the server")
                .hint(format!("write `/{path}`"));
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
            self.fault(&["bench", "protocol"], "contradicts the target", &label)
                .hint("remove `protocol`, or write the target as `host:port`");
        }
        is_other
    }

    /// Over gRPC, which sends none of these: beside an expression, or in another file, a key may be for another
    /// protocol.
    fn http_only(&mut self, bench: &Bench, parsed: &Targets, is_meant: impl Fn(&str) -> bool) {
        for (is_set, key) in [
            (bench.endpoint.is_some(), "endpoint"),
            (!bench.extra.is_empty(), "extra"),
            (bench.api_key_env.is_some(), "api_key_env"),
        ] {
            if is_set && is_meant(key) {
                self.key_fault(&["bench", key], "is for protocols over HTTP", "this is gRPC").hint(SET_HTTP);
            }
        }
        if let Some(path) = parsed.path.as_ref().or(parsed.prefix.as_ref()) {
            let label = format!("gRPC has no path `{path}`");
            self.fault(&["bench", "target"], "is for protocols over HTTP", &label).hint(SET_HTTP);
        } else if parsed.is_secure {
            let label = "this is gRPC, which is supported without TLS only";
            let hint = match bench.protocol {
                Some(_) => SET_HTTP.to_owned(),
                None => format!("{SET_HTTP}; `https://…/v1` is openai-chat"),
            };
            self.fault(&["bench", "target"], "is for protocols over HTTP", label).hint(hint);
        }
    }

    /// Members of a body that say what is measured: results name the model of the benchmark, and expect its stream. A
    /// line's own prompts (`messages`, `prompt`) are allowed.
    fn own_members(&mut self, bench: &Bench) {
        let (model, streams) = (json!(bench.model), json!(bench.request.streaming.unwrap_or(true)));
        for (name, sent, hint) in [("model", model, "set `model`"), ("stream", streams, "set `request.streaming`")] {
            if bench.extra.get(name).is_some_and(|value| *value != sent) {
                let label = "results would be of other requests than they report";
                self.key_fault(&["bench", "extra", name], "is set by the benchmark", label).hint(hint);
            }
        }
    }

    /// OpenAI's servers have their own end token. Where prompts are drawn as token ids, this one is in none of them.
    fn end_id(&mut self, bench: &Bench, protocol: Protocol, is_meant: impl Fn(&str) -> bool) {
        let draws_ids = protocol == Protocol::OpenaiCompletions && bench.request.interface == Some(Interface::TokenIds);
        if protocol.is_openai()
            && !draws_ids
            // The usual one changes nothing.
            && bench.end_id != USUAL_END_ID
            && is_meant("end_id")
        {
            self.key_fault(&["bench", "end_id"], "has no effect", "the server has its own end token")
                .hint("remove it, or set `protocol` to kserve or generate");
        }
    }

    fn tls(&mut self, bench: &Bench, parsed: &Targets) {
        let Some(tls) = &bench.tls else { return };
        let is_http = bench.target.starts_with("http://");
        faults! { self;
            ["bench", "tls"], is_http, "contradicts the target", "`http://` is without TLS",
                "write `https://` in the target, or leave `tls` out";
            ["bench", "tls"],
                !is_http && parsed.protocol(bench.protocol) == Protocol::Kserve && !parsed.is_secure,
                "is for protocols over HTTP", "this is gRPC", SET_HTTP;
            ["bench", "tls"], tls.client_cert.is_some() != tls.client_key.is_some(),
                "has only half of the client certificate", "a certificate needs its key",
                "name both `client_cert` and `client_key`";
            ["bench", "tls"], tls.insecure && tls.ca.is_some(), "sets authorities, although any certificate is trusted",
                "`ca` would mean nothing", "leave `insecure` out";
        }
    }
}

fn has_expression(stage: &Node, key: &str) -> bool {
    stage.entry(&["bench", key]).is_some_and(|entry| entry.node.has_template())
}

/// What to do about a setting that cannot be sent.
fn hint_of(setting: UnsendableSetting, protocol: Protocol, request: &Request) -> String {
    match setting.key {
        // Texts do not fit token ids.
        "stop_words.ids" | "bad_words.ids"
            if request.interface == Some(Interface::TokenIds) && protocol != Protocol::OpenaiChat =>
        {
            "remove it".to_owned()
        }
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
    use crate::expand;
    use crate::manifest::{GivenValues, ManifestLibrary, load};
    use base::diag::Diagnostics;

    fn is_good(bench: &str) -> bool {
        errors(&format!("target: 'localhost:8000', {bench}")).is_empty()
    }

    /// Each with its hint.
    fn errors(bench: &str) -> Vec<(String, String)> {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "regatta: 1\nname: m\nvars: {{ chat: openai-chat, rpc: kserve, offline: offline }}\nstages:\n  \
             measure:\n    bench: {{ \
             stop: {{ requests: 9 }}, input_tokens: {{ fixed: 1 }}, output_tokens: {{ fixed: 1 }}, {bench} }}\n"
        );
        std::fs::write(folder.path().join("m.yaml"), text).unwrap();
        let manifest = load(&ManifestLibrary::new(folder.path()), "m.yaml", &GivenValues::default());
        let expanded = expand(&manifest.unwrap_or_else(|wrong| panic!("{wrong:?}")));
        let errors = expanded.err().map(Diagnostics::into_list).unwrap_or_default();
        errors.into_iter().map(|one| (one.message, one.hints.concat())).collect()
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
    fn what_grpc_does_not_send_may_stand_beside_a_protocol_or_a_target_that_is_computed() {
        for setting in ["extra: { user: me }", "api_key_env: NOT_SET", "endpoint: /v1/other"] {
            let errors_with = |begin: &str| errors(&format!("{begin}, scenario: offline, {setting}"));
            assert!(errors_with("target: 'localhost:8000', protocol: '{{ rpc }}'").is_empty(), "{setting}");
            assert!(errors_with("target: '{{ \"localhost:8000\" }}'").is_empty(), "{setting}");
            for written in ["target: 'localhost:8000'", "target: '{{ \"localhost:8000\" }}', protocol: kserve"] {
                let [(message, _)] = &errors_with(written)[..] else { panic!("{setting} beside {written}") };
                assert!(message.ends_with("is for protocols over HTTP"), "{message}");
            }
        }
        let of_request = "scenario: offline, request: { length_penalty: 2 }";
        let hint = |bench: &str| errors(&format!("target: 'localhost:8000', {bench}, {of_request}")).remove(0).1;
        assert_eq!(hint("protocol: '{{ chat }}'"), super::SET_FOR_ONE);
        assert!(hint("protocol: openai-chat").starts_with("remove it"));
    }

    #[test]
    fn tls_over_grpc_is_an_error_of_the_target() {
        let reported = errors("target: 'https://host:8000', scenario: offline");
        let [(message, hint)] = &reported[..] else { panic!("{reported:?}") };
        assert_eq!(message, "`stages.measure.bench.target` is for protocols over HTTP");
        assert!(hint.ends_with("`https://…/v1` is openai-chat"), "{hint}");
        assert_eq!(errors("target: 'https://host:8000', scenario: offline, protocol: kserve").len(), 1);
        assert!(errors("target: 'https://host:8000', scenario: offline, protocol: generate").is_empty());
        assert!(errors("target: 'https://host:8000/v1', scenario: offline").is_empty());
    }

    #[test]
    fn the_hint_for_words_fits_token_ids() {
        let hint = |request: &str| {
            let bench = "target: 'localhost:8000', protocol: openai-completions, scenario: offline";
            errors(&format!("{bench}, request: {{ {request} }}")).remove(0).1
        };
        assert_eq!(hint("interface: token_ids, stop_words: { ids: [[3]] }"), "remove it");
        assert_eq!(hint("stop_words: { ids: [[3]] }"), "use `texts`");
    }

    #[test]
    fn a_cancel_may_be_reached_where_extra_sets_the_length() {
        let cancel = |extra: &str| {
            is_good(&format!(
                "protocol: openai-chat, scenario: offline, extra: {{ {extra} }}, request: {{ cancel: {{ \
                 after_tokens: 3 }} }}"
            ))
        };
        for extra in ["n: 4", "max_tokens: null", "max_completion_tokens: 9"] {
            assert!(cancel(extra), "{extra}");
        }
        assert!(!cancel("user: me"));
    }

    #[test]
    fn extra_does_not_replace_what_the_benchmark_sends() {
        let errors_of = |extra: &str| {
            let bench = "target: 'localhost:8000', protocol: openai-chat, model: mini, scenario: offline";
            errors(&format!("{bench}, extra: {{ {extra} }}"))
        };
        for (extra, hint) in [("model: other", "set `model`"), ("stream: false", "set `request.streaming`")] {
            let [(message, shown)] = &errors_of(extra)[..] else { panic!("{extra}") };
            assert!(message.ends_with("is set by the benchmark") && shown == hint, "{extra}: {message}: {shown}");
        }
        assert!(errors_of("model: mini, stream: true, messages: [], top_k: 4").is_empty());
    }

    #[test]
    fn usual_values_are_good_with_every_protocol() {
        for protocol in ["kserve", "generate", "openai-chat", "openai-completions"] {
            let usual = "end_id: 2, stream: per_request, triton_num_clients_per_frontend: 2, extra: {}, request: { \
             beam_width: 1, num_return_sequences: 1, batch: 1 }";
            assert!(is_good(&format!("protocol: {protocol}, scenario: offline, {usual}")), "{protocol}");
        }
    }
}
