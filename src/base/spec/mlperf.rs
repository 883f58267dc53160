//! MLPerf's division of a submission, and what a LoadGen test is for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

crate::named! {
    /// The division of a submission.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
    pub enum Division {
        #[default]
        Closed = "closed",
        Open = "open",
    }
}

crate::named! {
    /// What a test is for. LoadGen's performance and accuracy modes, and the audit tests of the rules.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
    pub enum TestMode {
        #[default]
        Performance = "performance",
        Accuracy = "accuracy",
        Test06 = "test06",
        Test07 = "test07",
        Test09 = "test09",
    }
}
