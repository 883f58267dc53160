//! Where a run's telemetry goes: `--otlp`, or the variables of OpenTelemetry's specification.

use base::diag::ErrorText;
use base::units::{credentials, has_secret_parameter};

/// The URL of each signal. None: it is not sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OtlpEndpoints {
    pub traces: Option<String>,
    pub metrics: Option<String>,
}

impl OtlpEndpoints {
    /// `given` is the base URL of `--otlp`; `variable` reads the environment.
    pub fn of(given: Option<&str>, variable: impl Fn(&str) -> Option<String>) -> Self {
        let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
        if given.is_none() && set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            return Self::default();
        }
        let of = |signal: &str| {
            let below = |base: String| format!("{}/v1/{signal}", base.trim_end_matches('/'));
            let name = signal.to_uppercase();
            match given {
                Some(base) => Some(below(base.to_owned())),
                None if set(&format!("OTEL_{name}_EXPORTER")).is_some_and(|exporter| exporter == "none") => None,
                None => set(&format!("OTEL_EXPORTER_OTLP_{name}_ENDPOINT"))
                    .or_else(|| set("OTEL_EXPORTER_OTLP_ENDPOINT").map(below)),
            }
        };
        Self { traces: of("traces"), metrics: of("metrics") }
    }

    pub const fn is_empty(&self) -> bool {
        self.traces.is_none() && self.metrics.is_none()
    }

    /// # Errors
    /// A URL has a secret in it, which would be shown.
    pub fn check(&self) -> Result<(), SecretInEndpoint> {
        let is_bad = |url: &String| credentials(url).is_some() || has_secret_parameter(url);
        if self.urls().any(is_bad) { Err(SecretInEndpoint) } else { Ok(()) }
    }

    fn urls(&self) -> impl Iterator<Item = &String> {
        [&self.traces, &self.metrics].into_iter().flatten()
    }

    pub fn shown(&self) -> String {
        let urls: Vec<&str> = self.urls().map(String::as_str).collect();
        urls.join(" and ")
    }
}

/// It is not shown.
#[derive(Debug, thiserror::Error)]
#[error(
    "{}",
    ErrorText::new(
        "the URL of OpenTelemetry's collector (`--otlp` or OTEL_EXPORTER_OTLP_…ENDPOINT) has a password or a token in it"
    )
    .hint("OTEL_EXPORTER_OTLP_HEADERS is for it, as in `authorization=Bearer%20TOKEN`")
)]
pub struct SecretInEndpoint;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(given: Option<&str>, variables: &[(&str, &str)]) -> (Option<String>, Option<String>) {
        let found = OtlpEndpoints::of(given, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        });
        (found.traces, found.metrics)
    }

    /// As "OpenTelemetry Protocol Exporter" specifies: a signal's own variable is the whole URL, the common one a base.
    #[test]
    fn the_variables_of_the_specification_decide_where_nothing_is_given() {
        let url = |text: &str| Some(text.to_owned());
        let base = "OTEL_EXPORTER_OTLP_ENDPOINT";
        assert_eq!(of(None, &[]), (None, None));
        assert_eq!(of(None, &[(base, " ")]), (None, None));
        let both = (url("http://c:4318/v1/traces"), url("http://c:4318/v1/metrics"));
        assert_eq!(of(None, &[(base, "http://c:4318/")]), both);
        assert_eq!(of(Some("http://c:4318"), &[(base, "http://other"), ("OTEL_SDK_DISABLED", "true")]), both);
        assert_eq!(of(None, &[(base, "http://c"), ("OTEL_SDK_DISABLED", "True")]), (None, None));
        let own = [(base, "http://c:4318"), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t/x")];
        assert_eq!(of(None, &own), (url("http://t/x"), url("http://c:4318/v1/metrics")));
        let none = [(base, "http://c:4318"), ("OTEL_METRICS_EXPORTER", "none")];
        assert_eq!(of(None, &none), (url("http://c:4318/v1/traces"), None));
    }

    #[test]
    fn a_url_with_a_secret_is_refused() {
        let check = |url: &str| OtlpEndpoints::of(Some(url), |_| None).check().is_ok();
        assert!(check("http://c:4318") && check("https://c/otlp?tenant=a"));
        assert!(!check("http://me:pw@c:4318") && !check("http://token@c") && !check("https://c/?api_key=k"));
    }
}
