//! MLflow: the folder `mlruns` of its file store.

pub(super) mod export;
