//! Where requests go, as a user writes it: `host:port`, `http://host:8000/v1/chat/completions`, `openai://host:port`.

use base::event::{Endpoint, EndpointError};
use base::spec::{Protocol, UnmeasuredProtocol};
use base::units::has_secret_parameter;

/// The parts of a target's text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Targets {
    pub endpoints: Vec<Endpoint>,
    /// `None`: the text does not set it.
    pub protocol: Option<Protocol>,
    /// The path of an HTTP target, if it has one.
    pub path: Option<String>,
    /// In front of `/v1`, of a base URL: `/api` of `https://openrouter.ai/api/v1`.
    pub prefix: Option<String>,
    /// `/v2/models/NAME/…`
    pub model: Option<String>,
    /// `https://`
    pub is_secure: bool,
    /// `…/generate` answers in one piece, `…/generate_stream` streams.
    pub streams: Option<bool>,
}

impl Targets {
    /// What requests are written in: as the manifest has it, else by the target's text, else KServe.
    pub fn protocol(&self, given: Option<Protocol>) -> Protocol {
        given.or(self.protocol).unwrap_or(Protocol::Kserve)
    }
}

/// Why a text names no target.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error("it names no server")]
    NoServer,
    /// Two parts that one benchmark cannot reach alike.
    #[error(
        "`{part}` differs in protocol, path or TLS from {first}; one benchmark has one protocol and path, with TLS \
         or without"
    )]
    Unlike { part: String, first: String },
    #[error("`{0}` has no port")]
    NoPort(String),
    #[error("`{0}`: gRPC has no path")]
    GrpcPath(String),
    #[error(
        "`{0}`: TLS is supported over HTTP only (https://), not over gRPC; put a proxy that ends it before the \
         server, for example envoy or ghostunnel, and name grpc://127.0.0.1:PORT"
    )]
    GrpcTls(String),
    #[error("{0}")]
    Unmeasured(&'static UnmeasuredProtocol),
    #[error("`{0}://` is not one of http, https, grpc, openai")]
    Scheme(String),
}

impl TargetError {
    /// The text holds a password or a token: it must not be shown.
    pub const fn is_of_credentials(&self) -> bool {
        matches!(self, Self::Endpoint(EndpointError::Credentials))
    }
}

/// Reads `host:port,port|host:port`, or URLs with `|` between them: one endpoint for each port.
pub fn targets(text: &str) -> Result<Targets, TargetError> {
    if !text.contains("://") {
        return Ok(Targets { endpoints: Endpoint::list(text)?, ..Targets::default() });
    }
    // Before anything else: other errors show the text.
    if text.split('|').any(|part| has_userinfo(part) || has_secret_parameter(part)) {
        return Err(EndpointError::Credentials.into());
    }
    let mut targets: Option<Targets> = None;
    for part in text.split('|').map(str::trim) {
        let part_targets = target(part)?;
        match &mut targets {
            None => targets = Some(part_targets),
            Some(before) => {
                let (is_alike, named) = (same(before, &part_targets), &before.endpoints);
                if !is_alike {
                    let first = named.first().map(ToString::to_string).unwrap_or_default();
                    return Err(TargetError::Unlike { part: part.to_owned(), first });
                }
                before.endpoints.extend(part_targets.endpoints);
            }
        }
    }
    targets.ok_or(TargetError::NoServer)
}

/// Something stands before the `@` of the host.
fn has_userinfo(part: &str) -> bool {
    let rest = part.split_once("://").map_or(part, |(_, rest)| rest);
    rest.split('/').next().is_some_and(|authority| authority.contains('@'))
}

fn same(a: &Targets, b: &Targets) -> bool {
    (a.protocol, &a.path, &a.prefix, a.is_secure) == (b.protocol, &b.path, &b.prefix, b.is_secure)
}

fn target(text: &str) -> Result<Targets, TargetError> {
    let Some((scheme, rest)) = text.split_once("://") else {
        return Ok(Targets { endpoints: Endpoint::list(text)?, ..Targets::default() });
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(&rest[at..])),
        None => (rest, None),
    };
    let path = path.filter(|path| *path != "/").map(str::to_owned);
    if let Some(unmeasured) = path.as_deref().and_then(UnmeasuredProtocol::find) {
        return Err(TargetError::Unmeasured(unmeasured));
    }
    let usual = match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    };
    let endpoints = match authority.rsplit_once(':') {
        Some((_, port)) if !port.ends_with(']') => Endpoint::list(authority)?,
        _ => match usual {
            Some(port) => Endpoint::list(&format!("{authority}:{port}"))?,
            None => return Err(TargetError::NoPort(text.to_owned())),
        },
    };
    let targets = Targets { endpoints, path, ..Targets::default() };
    match scheme {
        "grpc" if targets.path.is_some() => Err(TargetError::GrpcPath(text.to_owned())),
        "grpc" => Ok(Targets { protocol: Some(Protocol::Kserve), ..targets }),
        "openai" | "http" => Ok(with_interface_from_path(targets, scheme == "openai")),
        "https" => Ok(with_interface_from_path(Targets { is_secure: true, ..targets }, false)),
        "grpcs" => Err(TargetError::GrpcTls(text.to_owned())),
        other => Err(TargetError::Scheme(other.to_owned())),
    }
}

/// The path determines the interface.
fn with_interface_from_path(mut found: Targets, is_openai: bool) -> Targets {
    let path = found.path.clone().unwrap_or_default();
    let path = path.trim_end_matches('/');
    if path.ends_with("/chat/completions") {
        found.protocol = Some(Protocol::OpenaiChat);
    } else if path.ends_with("/completions") {
        found.protocol = Some(Protocol::OpenaiCompletions);
    } else if path.ends_with("/generate_stream") || path.ends_with("/generate") {
        found.protocol = Some(Protocol::Generate);
        found.streams = Some(path.ends_with("_stream"));
        found.model = path.split('/').skip_while(|word| *word != "models").nth(1).map(str::to_owned);
    } else if is_openai || path.ends_with("/v1") {
        found.protocol = Some(Protocol::OpenaiChat);
        // `http://host/v1` is a base, as OpenAI's own clients take it.
        let prefix = path.strip_suffix("/v1").unwrap_or(path);
        found.prefix = (!prefix.is_empty()).then(|| prefix.to_owned());
        found.path = None;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::spec::UNMEASURED;

    type Shown = (Vec<String>, Option<Protocol>, Option<String>);

    fn shown(text: &str) -> Result<Shown, TargetError> {
        let parsed = targets(text)?;
        Ok((parsed.endpoints.iter().map(ToString::to_string).collect(), parsed.protocol, parsed.path))
    }

    #[test]
    fn what_is_not_measured_is_named_by_its_path_and_in_the_manual() {
        let manual = include_str!("../../../tests/manual/reference/protocols.md");
        for row in &UNMEASURED {
            for path in row.names.iter().filter(|name| name.starts_with('/')) {
                let error = targets(&format!("http://a:9{path}")).unwrap_err();
                assert!(error.to_string().starts_with(&format!("{} is not measured: ", row.title)), "{error}");
            }
            assert!(row.names.iter().all(|name| UnmeasuredProtocol::find(name) == Some(row)));
            assert!(manual.contains(&format!("| {} | {} |\n", row.title, row.instead)), "{}", row.title);
        }
        assert!(targets("http://a:9/v2/models/m/generate").is_ok());
    }

    #[test]
    fn a_target_names_every_server_and_its_protocol() {
        let hosts = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        assert_eq!(shown("a:1,2|b:3"), Ok((hosts(&["a:1", "a:2", "b:3"]), None, None)));
        assert_eq!(shown("grpc://a:1"), Ok((hosts(&["a:1"]), Some(Protocol::Kserve), None)));
        assert_eq!(shown("openai://a:9"), Ok((hosts(&["a:9"]), Some(Protocol::OpenaiChat), None)));
        assert_eq!(shown("http://a:9/v1"), Ok((hosts(&["a:9"]), Some(Protocol::OpenaiChat), None)));
        let path = |text: &str| Some(text.to_owned());
        let completions = shown("http://a/v1/completions").unwrap();
        assert_eq!(completions, (hosts(&["a:80"]), Some(Protocol::OpenaiCompletions), path("/v1/completions")));
        let generate = targets("http://a:8000/v2/models/ensemble/generate_stream").unwrap();
        assert_eq!((generate.protocol, generate.streams), (Some(Protocol::Generate), Some(true)));
        assert_eq!(generate.model.as_deref(), Some("ensemble"));
        let secure = targets("https://a/v1/completions").unwrap();
        assert_eq!((secure.endpoints[0].to_string().as_str(), secure.is_secure), ("a:443", true));
        assert_eq!(secure.protocol, Some(Protocol::OpenaiCompletions));
        assert_eq!(targets("[::1]:5").unwrap().endpoints[0].host, "::1");
    }

    #[test]
    fn a_base_url_may_have_a_prefix() {
        for (text, prefix) in [
            ("https://openrouter.ai/api/v1", Some("/api")),
            ("http://a:9/api/llm/v1/", Some("/api/llm")),
            ("openai://a:9/api/llm", Some("/api/llm")),
            ("openai://a:9/api/llm/v1", Some("/api/llm")),
            ("openai://a:9/v1", None),
            ("http://a:9/v1", None),
        ] {
            let parsed = targets(text).unwrap();
            let expected = (Some(Protocol::OpenaiChat), None, prefix);
            assert_eq!((parsed.protocol, parsed.path.as_deref(), parsed.prefix.as_deref()), expected, "{text}");
        }
    }

    #[test]
    fn an_invalid_target_reports_why() {
        let reason = |text: &str| targets(text).unwrap_err().to_string();
        assert_eq!(reason("a"), "`a` is not host:port");
        for text in [
            "openai://sk-token@host",
            "http://me:sk-token@host",
            "ftp://sk-token@host",
            "http://a|http://sk-token@host/x@y",
            "a|sk-token@host:1",
            "a:x|sk-token@host:1",
        ] {
            assert_eq!(targets(text), Err(EndpointError::Credentials.into()), "{text}");
            assert!(!reason(text).contains("sk-token"));
        }
        assert!(targets("http://a/v2/models/m@1/generate").is_ok());
        assert!(reason("a:x").contains("is not a port"));
        assert!(reason("grpcs://a:1").contains("TLS is supported over HTTP only"));
        assert!(reason("ftp://a:1").contains("not one of http, https, grpc, openai"));
        assert!(reason("http://a:1/v1|https://b:1/v1").contains("one protocol"));
        assert!(reason("http://a:1/v1/completions|http://b:1/v1/chat/completions").contains("one protocol"));
        assert!(reason("http://a:1/x/v1|http://b:1/y/v1").contains("one protocol"));
    }
}
