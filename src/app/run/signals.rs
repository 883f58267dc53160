//! What the first Ctrl-C does, and what another one does.

use std::thread;

use crate::cli::CliExit;
use crate::event::{Event, Stop};

/// Once: `first`, which answers with the event to report; usually [`interrupt`]. Twice: kill what runs. A third time: exit; the watchdog ends
/// the rest. On a thread of its own, so that it takes effect while the loop reads something large or waits for the lock.
pub(super) fn install_handlers(
    stop: Stop,
    first: impl Fn(&Stop) -> Event + Send + 'static,
    send: impl Fn(Event) + Send + 'static,
) -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let [int, term, hup] = {
        let _inside = runtime.enter();
        [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()].map(signal)
    };
    let streams = [int?, term?, hup?];
    // With a handler, which stays when this is dropped, a file that would exceed `ulimit -f` is an error of the write and not
    // the end of this process. Programs that stages start do not inherit it.
    {
        let _inside = runtime.enter();
        drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()))?);
    }
    thread::spawn(move || runtime.block_on(handle_signals(streams, stop, first, send)));
    Ok(())
}

/// Stops starting, and ends what runs.
pub(super) fn interrupt(stop: &Stop) -> Event {
    stop.request();
    stopping("interrupted; once more kills what runs")
}

fn stopping(why: &str) -> Event {
    Event::Stopping { why: why.to_owned() }
}

async fn handle_signals(
    streams: [tokio::signal::unix::Signal; 3],
    stop: Stop,
    first: impl Fn(&Stop) -> Event,
    send: impl Fn(Event),
) {
    let [mut int, mut term, mut hup] = streams;
    for count in 1.. {
        tokio::select! {
            _ = int.recv() => {}
            _ = term.recv() => {}
            _ = hup.recv() => {}
        }
        let event = match count {
            1 => first(&stop),
            2 => {
                stop.now();
                stopping("killing what runs")
            }
            _ => exit_interrupted(),
        };
        send(event);
    }
}

#[expect(clippy::exit, reason = "third request to stop: exiting now; the watchdog ends the remaining processes")]
fn exit_interrupted() -> ! {
    std::process::exit(i32::from(CliExit::Interrupted.code()))
}
