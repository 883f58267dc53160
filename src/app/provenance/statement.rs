//! An in-toto Statement v1 with a SLSA Provenance v1 predicate, and the DSSE envelope around it.
//!
//! Field names: <https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md>, <https://slsa.dev/spec/v1.0/provenance>,
//! <https://github.com/secure-systems-lab/dsse/blob/master/envelope.md>.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::Value;

use runner::{Signature, SigningKey};

const STATEMENT: &str = "https://in-toto.io/Statement/v1";
const PREDICATE: &str = "https://slsa.dev/provenance/v1";
/// How `externalParameters` are to be read: chapter 20 of the manual.
const BUILD_TYPE: &str = "regatta:stage:v1";
const PAYLOAD_TYPE: &str = "application/vnd.in-toto+json";

/// What was made, and of what.
#[derive(Clone, Debug, Serialize)]
pub(super) struct InTotoStatement {
    #[serde(rename = "_type")]
    kind: &'static str,
    subject: Vec<Resource>,
    #[serde(rename = "predicateType")]
    predicate_type: &'static str,
    predicate: Provenance,
}

/// One file, commit or output.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(super) struct Resource {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Algorithm → value.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub digest: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<&'static str, Value>,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Provenance {
    build_definition: BuildDefinition,
    run_details: RunDetails,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BuildDefinition {
    build_type: &'static str,
    external_parameters: BTreeMap<&'static str, Value>,
    internal_parameters: BTreeMap<&'static str, Value>,
    resolved_dependencies: Vec<Resource>,
}

#[derive(Clone, Debug, Serialize)]
struct RunDetails {
    builder: Builder,
    metadata: BuildMetadata,
}

#[derive(Clone, Debug, Serialize)]
struct Builder {
    id: String,
    version: BTreeMap<&'static str, &'static str>,
}

/// When and in which run it was made. Nothing, where another machine made it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct BuildMetadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invocation_id: Option<String>,
    /// RFC 3339, UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_on: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_on: Option<String>,
}

/// What a statement says beside its subjects.
pub(super) struct StatementParts {
    /// What the manifest asked for.
    pub external: BTreeMap<&'static str, Value>,
    /// What else decided the output.
    pub internal: BTreeMap<&'static str, Value>,
    pub dependencies: Vec<Resource>,
    /// A URI that names the party that vouches for the machine.
    pub builder: String,
    pub metadata: BuildMetadata,
}

impl InTotoStatement {
    pub(super) fn new(subject: Vec<Resource>, parts: StatementParts) -> Self {
        let StatementParts { external, internal, dependencies, builder, metadata } = parts;
        Self {
            kind: STATEMENT,
            subject,
            predicate_type: PREDICATE,
            predicate: Provenance {
                build_definition: BuildDefinition {
                    build_type: BUILD_TYPE,
                    external_parameters: external,
                    internal_parameters: internal,
                    resolved_dependencies: dependencies,
                },
                run_details: RunDetails {
                    builder: Builder { id: builder, version: [("regatta", env!("CARGO_PKG_VERSION"))].into() },
                    metadata,
                },
            },
        }
    }

    /// In an envelope with a signature.
    pub(super) fn signed(&self, key: &SigningKey) -> serde_json::Result<Envelope> {
        let payload = serde_json::to_vec(self)?;
        let signatures = vec![key.sign(PAYLOAD_TYPE, &payload)];
        Ok(Envelope { payload: STANDARD.encode(payload), payload_type: PAYLOAD_TYPE, signatures })
    }
}

/// A signed statement.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope {
    /// The statement, in base64.
    payload: String,
    payload_type: &'static str,
    signatures: Vec<Signature>,
}

impl Resource {
    pub(super) fn file(name: String, sha256: String) -> Self {
        Self { name: Some(name), digest: [("sha256", sha256)].into(), ..Self::default() }
    }

    #[must_use]
    pub(super) fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.annotations.insert(name, value.into());
        self
    }
}
