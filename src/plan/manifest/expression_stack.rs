//! A thread with a stack for deeply nested values.
//!
//! minijinja prints, compares and frees a value by calling itself for each level, none of which can be interrupted or replaced: a
//! loop can put a value into a list, and that into a list, for as many levels as it may take steps. An overflow would end the program
//! without a message.

use std::{io, thread};

/// Bytes: one level takes up to 450 bytes, and an expression reaches at most as many levels as it may take steps (200,000). Only what
/// is used of it becomes memory.
pub const EXPRESSION_STACK: usize = 128 << 20;

/// Does work that computes expressions, where these cannot overflow the stack. Where no more threads can be had, this one does it.
pub fn on_expression_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    // Taken by whichever thread does it.
    let work = parking_lot::Mutex::new(Some(work));
    let perform = || work.lock().take().map(|work| work());
    let done = on_stack(EXPRESSION_STACK, perform).ok().flatten();
    done.or_else(perform).expect("the work is taken once")
}

/// Does work on a thread with a stack of this many bytes.
///
/// # Errors
/// No such thread can be had.
pub fn on_stack<T: Send>(bytes: usize, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("manifest".to_owned()).stack_size(bytes);
        let started = builder.spawn_scoped(scope, work)?;
        Ok(started.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
