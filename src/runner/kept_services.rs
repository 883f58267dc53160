//! Services that a run keeps up for its caller, beside or instead of its steps.

use tokio::sync::mpsc::UnboundedSender;

use base::event::{Endpoint, Stop, TaskId};

/// Which services stay up, and until when.
#[derive(Clone, Debug)]
pub struct KeptServices {
    /// For each task of the plan.
    pub tasks: Vec<bool>,
    /// Receives all of them, once, when the last one is ready. A service that ends after that is not started again: its
    /// address is known elsewhere by then.
    pub ready: UnboundedSender<Vec<KeptService>>,
    /// After this request they stop, unless a step needs them.
    pub release: Stop,
}

/// A service that is up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptService {
    pub task: TaskId,
    pub endpoints: Vec<Endpoint>,
}
