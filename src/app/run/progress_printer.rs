//! Shows events as they happen.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

use crate::console;
use base::event::Event;
use report::{LiveDisplay, LiveOptions};

/// A thread that prints the events, so that a slow terminal delays nothing.
pub(super) struct ProgressPrinter {
    /// `None` is the end: signals may come for as long as the process lives.
    pub send: Sender<Option<Event>>,
    thread: thread::JoinHandle<LiveDisplay>,
}

impl ProgressPrinter {
    pub fn start(look: LiveOptions) -> Self {
        let (send, receive) = channel();
        Self {
            send,
            thread: thread::spawn(move || print_events(LiveDisplay::new(look, console::writer(look)), &receive)),
        }
    }

    pub fn close(self) -> LiveDisplay {
        let _ = self.send.send(None);
        self.thread.thread().unpark();
        self.thread
            .join()
            .unwrap_or_else(|_| LiveDisplay::new(LiveOptions::default(), console::writer(LiveOptions::default())))
    }
}

fn print_events(mut live: LiveDisplay, receive: &Receiver<Option<Event>>) -> LiveDisplay {
    /// How often clocks move while nothing happens.
    const TICK: Duration = Duration::from_millis(100);
    /// Events come in bursts: waking up for each of them would cost more than printing it. The longer it goes on, the longer the
    /// pause, up to what an eye takes for at once.
    const PAUSES: [Duration; 2] = [Duration::from_millis(2), Duration::from_millis(30)];
    /// This many events in a pause are worth a longer one.
    const BURST: usize = 4;
    let mut pause = PAUSES[0];
    loop {
        match receive.recv_timeout(TICK) {
            Ok(Some(event)) => live.event(&event),
            Err(RecvTimeoutError::Timeout) => live.tick(),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => return live,
        }
        let mut more = 0;
        loop {
            match receive.try_recv() {
                Ok(Some(event)) => live.event(&event),
                Err(TryRecvError::Empty) => break,
                Ok(None) | Err(TryRecvError::Disconnected) => return live,
            }
            more += 1;
        }
        pause = if more < BURST { PAUSES[0] } else { (pause * 2).min(PAUSES[1]) };
        // `close` cuts it short.
        thread::park_timeout(pause);
    }
}
