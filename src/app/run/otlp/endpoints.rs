//! Where a run's telemetry goes: `--otlp`, or the variables of OpenTelemetry's specification.

use crate::units::without_credentials;

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

    /// Both URLs, without passwords.
    pub fn shown(&self) -> String {
        let urls: Vec<String> =
            [&self.traces, &self.metrics].into_iter().flatten().map(|url| without_credentials(url)).collect();
        urls.join(" and ")
    }
}

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
}
