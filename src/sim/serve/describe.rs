//! The server's description of itself and of its models, for either protocol.

use super::loaded_model::LoadedModel;
use super::request::version;
use super::service::ServiceInner;
use super::tensor::{RequestRefusal, full_shape, wire_name};
use triton::proto::inference::model_metadata_response::TensorMetadata;
use triton::proto::inference::repository_index_response::ModelIndex;
use triton::proto::inference::{
    ModelMetadataResponse, ModelStatisticsResponse, RepositoryIndexResponse, ServerMetadataResponse,
};

pub(super) fn server(inner: &ServiceInner) -> ServerMetadataResponse {
    let extensions =
        ["model_repository", "model_configuration", "binary_tensor_data", "parameters", "statistics", "generate"];
    ServerMetadataResponse {
        name: "triton".to_owned(),
        version: format!("regatta-simulator-{}", env!("CARGO_PKG_VERSION")),
        extensions: extensions.map(str::to_owned).into_iter().chain([inner.speed_extension()]).collect(),
    }
}

pub(super) fn metadata(model: &LoadedModel) -> ModelMetadataResponse {
    let config = &model.config;
    let tensor = |name: &str, data_type, dims: &[i64]| TensorMetadata {
        name: name.to_owned(),
        datatype: wire_name(data_type).to_owned(),
        shape: full_shape(config.max_batch_size, dims),
    };
    let platform = if config.platform.is_empty() { &config.backend } else { &config.platform };
    ModelMetadataResponse {
        name: model.name.clone(),
        versions: model.versions.iter().map(u64::to_string).collect(),
        platform: platform.clone(),
        inputs: config.input.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect(),
        outputs: config.output.iter().map(|it| tensor(&it.name, it.data_type(), &it.dims)).collect(),
    }
}

/// The statistics of one model, or of all if `name` is empty.
pub(super) fn statistics(
    inner: &ServiceInner,
    name: &str,
    version: &str,
) -> Result<ModelStatisticsResponse, RequestRefusal> {
    if !name.is_empty() {
        inner.find(name, version)?;
    }
    let models = inner.models.values().filter(|model| name.is_empty() || model.name == name);
    let model_stats = models.filter_map(|model| Some(inner.statistics.model(&model.name)?.message(model))).collect();
    Ok(ModelStatisticsResponse { model_stats })
}

pub(super) fn index(inner: &ServiceInner) -> RepositoryIndexResponse {
    let models = inner.models.values().map(|model| ModelIndex {
        name: model.name.clone(),
        version: version(model),
        state: "READY".to_owned(),
        reason: String::new(),
    });
    RepositoryIndexResponse { models: models.collect() }
}
