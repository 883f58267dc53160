//! Metrics as `accuracy.txt` has them.

/// The round's name of a metric → its name in `accuracy.txt`, and whether the official checker takes it in quotes.
const WRITTEN: [(&str, &str, bool); 9] = [
    ("ROUGE1", "rouge1", true),
    ("ROUGE2", "rouge2", true),
    ("ROUGEL", "rougeL", true),
    ("ROUGELSUM", "rougeLsum", true),
    ("GEN_LEN", "gen_len", false),
    ("TOKENS_PER_SAMPLE", "tokens_per_sample", false),
    ("gsm8k_accuracy", "gsm8k", false),
    ("mbxp_accuracy", "mbxp", false),
    ("exact_match", "exact_match", false),
];

/// The name of a metric of the round in `accuracy.txt`.
pub fn written_name(name: &str) -> &str {
    WRITTEN.iter().find(|(known, ..)| *known == name).map_or(name, |(_, written, _)| written)
}

/// Whether a score of this metric needs the model of English sentences.
pub fn needs_sentences(name: &str) -> bool {
    matches!(name, "ROUGELSUM" | "GEN_LEN")
}

/// A line's value, written the way the official checker reads it: the last one.
pub fn written_metric(line: &str, name: &str) -> Option<f64> {
    let (_, written, quoted) = WRITTEN.iter().find(|(known, ..)| *known == name)?;
    let (_, rest) = line.rsplit_once(&format!("'{written}':"))?;
    let number = rest.strip_prefix(char::is_whitespace)?;
    let number = if *quoted { number.trim_start().trim_start_matches('\'') } else { number };
    let end = number.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(number.len());
    number[..end].parse().ok()
}
