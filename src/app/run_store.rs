//! The shared store, for a run: where it is, what kind of machine this is, and what was not sent.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::cli::StoreSelection;
use crate::error::CommandError;
use base::diag::ErrorText;
use base::event::{Event, Stop};
use exec::process::{ProbeOutput, ProbeResult, probe};
use plan::Plan;
use runner::shared_store::{Machine, MachineGpus, SharedStore, SignaturePolicy, StoreAddress, UnsentOutputs, why_not};
use runner::store::OutputCache;
use runner::{EventEmitter, KeyError, SigningKey, TrustedKeys};

/// The variable with the key that signs: a path, or the text of the file. Stages do not get the text.
pub(super) const SIGN_KEY: &str = exec::process::SIGN_KEY_VARIABLE;

/// The variable with the path of the public keys.
pub(super) const TRUSTED_KEYS: &str = "REGATTA_TRUSTED_KEYS";

/// The option, else the environment variable. `off` and an empty variable are none.
pub(super) fn address(typed: Option<&str>) -> Result<Option<StoreAddress>, CommandError> {
    let Some(text) = typed.map(ToOwned::to_owned).or_else(|| variable("REGATTA_STORE")) else { return Ok(None) };
    if text.trim() == "off" {
        return Ok(None);
    }
    StoreAddress::parse(&text).map(Some).map_err(|why| {
        let source = if typed.is_some() { "--store" } else { "REGATTA_STORE" };
        CommandError::Usage(format!("{source}: {why}"))
    })
}

/// The keys that options name, else those of the environment. A key that is named and cannot be used is an error: without it,
/// what the user wants to be signed or checked would not be.
pub(super) fn signatures(named: &StoreSelection) -> Result<SignaturePolicy, CommandError> {
    let signer = sign_key(named.sign_key.as_deref())?;
    let trusted = match (&named.trusted_keys, variable(TRUSTED_KEYS)) {
        (Some(path), _) => Some(("--trusted-keys", path.clone())),
        (None, value) => value.map(|path| (TRUSTED_KEYS, path.into())),
    };
    let trusted = trusted.map(|(source, path)| TrustedKeys::read(&path).map_err(|error| unusable_key(source, &error)));
    Ok(SignaturePolicy::new(signer, trusted.transpose()?))
}

/// The key that the option names, else the one of the environment.
pub(super) fn sign_key(named: Option<&Path>) -> Result<Option<SigningKey>, CommandError> {
    let (source, key) = match (named, variable(SIGN_KEY)) {
        (Some(path), _) => ("--sign-key", SigningKey::read(path)),
        (None, Some(value)) => (SIGN_KEY, sign_key_of(&value)),
        (None, None) => return Ok(None),
    };
    key.map(Some).map_err(|error| unusable_key(source, &error))
}

fn unusable_key(source: &str, error: &KeyError) -> CommandError {
    CommandError::usage(ErrorText::new(format!("{source}: {error}")).hint(error.hint()))
}

/// A path, or the text of a PEM file.
pub(super) fn sign_key_of(value: &str) -> Result<SigningKey, KeyError> {
    if value.contains("-----BEGIN") {
        SigningKey::from_pem(value, "its value")
    } else {
        SigningKey::read(Path::new(value))
    }
}

pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|text| !text.trim().is_empty())
}

/// `None`: it cannot be used, which has been reported. On a runtime.
pub(super) fn open(
    address: &StoreAddress,
    signatures: &SignaturePolicy,
    plan: &Plan,
    output_cache: &Arc<OutputCache>,
    emit: &EventEmitter,
) -> Option<SharedStore> {
    let machine = Machine::new(gpus_for(plan));
    match SharedStore::new(address, plan, &machine, Arc::clone(output_cache), Arc::clone(emit), signatures.clone()) {
        Ok(store) => Some(store),
        Err(error) => {
            let hint = error.hint();
            let text =
                format!("the shared store {address} cannot be used; the run continues without it: {error}; {hint}");
            emit(Event::Notice { task: None, text });
            None
        }
    }
}

/// Waits until new outputs are there, too.
pub(super) async fn finish(store: &SharedStore, stop: &Stop, manifest: &str, emit: &EventEmitter) {
    let UnsentOutputs(left) = store.finish(stop).await;
    if left > 0 {
        let outputs =
            if left == 1 { "1 output of this run is".to_owned() } else { format!("{left} outputs of this run are") };
        let text = format!("{outputs} not in {}; `regatta store push {manifest}` puts them there", store.address());
        emit(Event::Notice { task: None, text });
    }
}

/// The GPUs of this machine, queried only if an output that may be shared is made with some.
pub(super) fn gpus_for(plan: &Plan) -> MachineGpus {
    const LIMIT: Duration = Duration::from_mins(1);
    if !plan.tasks.iter().any(|task| task.gpus > 0 && why_not(plan, task).is_none()) {
        return MachineGpus::Known(BTreeSet::new());
    }
    match probe(["nvidia-smi", "--query-gpu=name,compute_cap", "--format=csv,noheader"], LIMIT) {
        ProbeResult::Missing => MachineGpus::Known(BTreeSet::new()),
        ProbeResult::Answered(ProbeOutput { code: 0, out, .. }) => {
            let lines = out.lines().map(|line| line.replace(',', "")).filter(|line| !line.trim().is_empty());
            MachineGpus::Known(lines.map(|line| line.trim().to_owned()).collect())
        }
        ProbeResult::Answered(ProbeOutput { out, err, .. }) => {
            let text = out.lines().chain(err.lines()).find(|line| !line.trim().is_empty());
            MachineGpus::Unknown(format!("nvidia-smi: {}", text.unwrap_or("no answer").trim()))
        }
        ProbeResult::TimedOut => MachineGpus::Unknown(format!("nvidia-smi has not answered for {} s", LIMIT.as_secs())),
        ProbeResult::Failed(why) => MachineGpus::Unknown(format!("nvidia-smi: {why}")),
    }
}
