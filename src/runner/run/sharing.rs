//! Between the loop and a store that machines share: what the shelf has not is asked for there, what is made here is offered.

use std::sync::Arc;

use super::{Keyed, Msg, Runner, State, accept};
use crate::event::Event;
use crate::runner::schedule::Ix;
use crate::runner::shared::{Fetched, Wanted};
use crate::runner::work::Work;
use crate::store::Record;

impl<W: Work> Runner<W> {
    /// Asks for an output, if there is anybody to ask; the answer comes as a message.
    pub(super) fn ask(&self, ix: Ix, keyed: &Keyed) -> bool {
        let Some(shared) = self.options.shared.clone() else { return false };
        let wanted = Wanted { task: self.task(ix).id.clone(), key: keyed.key.clone(), digest: keyed.digest };
        let (send, stop) = (self.send.clone(), self.stop.clone());
        tokio::spawn(async move {
            // What has come so far stays, and the next run goes on with it.
            let fetched = tokio::select! {
                fetched = shared.fetch(wanted) => fetched,
                () = stop.asked() => None,
            };
            let _ = send.send(Msg::Asked(ix, fetched.map(Box::new)));
        });
        true
    }

    pub(super) fn take_fetched(&mut self, ix: Ix, fetched: Option<Fetched>) {
        if self.schedule.state(ix) != State::Keying {
            return;
        }
        let (Some(fetched), Some(keyed)) = (fetched, self.keyed[ix as usize].clone()) else {
            return self.missed(ix);
        };
        let task = Arc::clone(self.task(ix));
        let Fetched { folder, sealed, done, seconds, from } = fetched;
        let from = Some(from);
        match accept(&self.shelf, &self.run, &task, &keyed, &folder, sealed, done, seconds, from.clone()) {
            Ok((record, _)) => self.take_hit(ix, record, from),
            Err(failure) => {
                let text = format!("what another machine made could not be kept: {}", failure.what);
                (self.emit)(Event::Notice { task: Some(task.id.clone()), text });
                self.missed(ix);
            }
        }
    }

    /// Other machines may have it.
    pub(super) fn offer(&self, record: &Arc<Record>) {
        if let Some(shared) = &self.options.shared {
            shared.offer(&record.task, Arc::clone(record));
        }
    }
}
