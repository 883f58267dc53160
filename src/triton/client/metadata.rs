//! Metadata that every call over a connection has.

use http::HeaderMap;
use tonic::metadata::MetadataMap;
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Channel;
use tonic::{Request, Status};

pub(super) type ChannelWithMetadata = InterceptedService<Channel, CallMetadata>;

/// Adds the same headers to each call.
#[derive(Clone, Debug)]
pub(super) struct CallMetadata(HeaderMap);

impl Interceptor for CallMetadata {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let mut headers = std::mem::take(request.metadata_mut()).into_headers();
        headers.extend(self.0.clone());
        *request.metadata_mut() = MetadataMap::from_headers(headers);
        Ok(request)
    }
}

pub(super) fn with_metadata(channel: Channel, headers: HeaderMap) -> ChannelWithMetadata {
    InterceptedService::new(channel, CallMetadata(headers))
}
