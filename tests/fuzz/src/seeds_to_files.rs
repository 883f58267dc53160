//! Writes the seeds of every reader into `corpus/<reader>`, and prints the readers.

mod readers;
mod seeds;

fn main() -> std::io::Result<()> {
    let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = fuzz.parent().expect("a parent");
    for (reader, _) in readers::READERS {
        let folder = fuzz.join("corpus").join(reader);
        std::fs::create_dir_all(&folder)?;
        let known = seeds::findings(tests, reader).into_iter().map(|(_, bytes)| bytes);
        for (number, bytes) in seeds::seeds(tests, reader).into_iter().chain(known).enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), bytes)?;
        }
        println!("{reader}");
    }
    Ok(())
}
