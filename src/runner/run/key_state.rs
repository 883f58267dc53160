//! What is known of a task's key. A run of many tasks keeps none that a record has.

use std::sync::Arc;

use super::{Keyed, Runner};
use crate::schedule::TaskIndex;
use crate::store::WatchedPaths;
use crate::task_executor::TaskExecutor;

#[derive(Clone)]
pub(super) enum KeyState {
    /// The task was not looked at.
    Unseen,
    Keyed(Arc<Keyed>),
    /// Its output is there, and the record of that has the key. What was looked at for its inputs.
    Recorded(WatchedPaths),
}

impl KeyState {
    /// The files of all inputs, and the folders that were listed for them.
    pub(super) fn seen_inputs(&self) -> WatchedPaths {
        match self {
            Self::Unseen => WatchedPaths::new(),
            Self::Keyed(keyed) => keyed.inputs.values().flat_map(|state| state.seen.iter().cloned()).collect(),
            Self::Recorded(seen) => seen.clone(),
        }
    }
}

impl<W: TaskExecutor> Runner<W> {
    /// The key of a task that is not settled.
    pub(super) fn keyed(&self, ix: TaskIndex) -> Option<Arc<Keyed>> {
        match &self.keys[ix as usize] {
            KeyState::Keyed(keyed) => Some(Arc::clone(keyed)),
            KeyState::Unseen | KeyState::Recorded(_) => None,
        }
    }

    /// A settled task's record has its key: the key itself is needed no more.
    pub(super) fn forget_key(&mut self, ix: TaskIndex) {
        let state = &mut self.keys[ix as usize];
        if matches!(state, KeyState::Keyed(_)) {
            *state = KeyState::Recorded(state.seen_inputs());
        }
    }
}
