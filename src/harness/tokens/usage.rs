//! What a server reports as `usage`.

use serde::{Deserialize, Serialize};

/// Tokens as the server counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub prompt: Option<u64>,
    pub completion: Option<u64>,
}
