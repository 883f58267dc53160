use std::io::stdin;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next()) {
        // Hidden: started once by every run, see `process::warden`.
        (Some("__warden"), Some(run)) => match regatta::process::warden(&run, stdin().lock()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        _ => ExitCode::SUCCESS,
    }
}
