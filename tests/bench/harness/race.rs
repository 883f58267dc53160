//! One measurement of a server.

use std::net::SocketAddr;
use std::time::Duration;

use regatta::event::Stop;
use regatta::harness::{
    Api, BenchSpec, Http, LoadPattern, Measured, PromptSource, RequestEnd, SendingSpec, Slo, Transport, run,
};
use regatta::spec::{Arrivals, Length, Limits, Request, StopAfter};

use crate::server::Server;

pub struct Race {
    pub scenario: LoadPattern,
    pub arrivals: Arrivals,
    pub requests: u64,
    pub tokens: u32,
    /// Connections.
    pub clients: u32,
    pub seed: u64,
}

impl Race {
    /// Over gRPC. Everything is recorded, every chunk's stamp too. No request may fail.
    pub fn run(&self, server: &Server) -> Result<Measured, Box<dyn std::error::Error>> {
        self.at(server.address, Transport::Kserve, true)
    }

    /// Over HTTP, from OpenAI's completions.
    pub fn run_over_http(&self, server: &Server) -> Result<Measured, Box<dyn std::error::Error>> {
        self.at(server.address, Transport::Http(Http::new(Api::OpenaiCompletions)), true)
    }

    pub fn at(
        &self,
        address: SocketAddr,
        protocol: Transport,
        timelines: bool,
    ) -> Result<Measured, Box<dyn std::error::Error>> {
        let model = match &protocol {
            Transport::Kserve => "tensorrt_llm",
            // The only one that the server names.
            Transport::Http(_) => "",
        };
        let spec = BenchSpec {
            endpoints: vec![address.to_string().parse()?],
            protocol,
            model: model.to_owned(),
            scenario: self.scenario.clone(),
            arrivals: self.arrivals,
            stop: StopAfter { requests: Some(self.requests), duration: None },
            input_len: Length::Fixed(32),
            output_len: Length::Fixed(self.tokens),
            seed: self.seed,
            warmup: 0,
            pace: SendingSpec::default(),
            content: PromptSource::default(),
            frontends: 1,
            clients: self.clients,
            stall_timeout: Duration::from_mins(1),
            limits: Limits::default(),
            slo: Slo::default(),
            timelines,
            vocab_size: 32_000,
            end_id: 2,
            request: Request::default(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let measured = runtime.block_on(run(&spec, &Stop::new(), |_| {}))?;
        let failed = measured.requests.iter().find(|request| request.ended != RequestEnd::Ok);
        match failed {
            Some(request) => Err(format!("request {} is {:?}", request.index, request.ended).into()),
            None => Ok(measured),
        }
    }
}
