//! Writes the man pages of all commands into a folder: `cargo run --example man_pages FOLDER`. For packages; the program itself has none.

fn main() -> std::io::Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| ".".into());
    clap_mangen::generate_to(regatta::cli::command(), folder)
}
