//! Files that a script writes with a here-document, which a stage writes if another one reads it.

use serde_json::{Map, json};

use super::Script;
use crate::command_line::{as_written, base, read_outputs};
use crate::translate::stage_names::unique;

/// A file that the text writes.
#[derive(Clone, Debug)]
pub(super) struct WrittenFile {
    /// Without `./` in front.
    pub path: String,
    content: String,
    /// Of the command that writes it.
    place: String,
}

/// A path without `./` in front.
pub(super) fn plain(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

impl Script {
    /// `cat > FILE << EOF`
    pub(super) fn write(&mut self, place: &str, path: &str, content: String) {
        let path = plain(path).to_owned();
        self.surroundings.written.insert(path.clone(), content.clone());
        self.files.retain(|file| file.path != path);
        self.files.push(WrittenFile { path, content, place: place.to_owned() });
    }

    /// A stage for each file that a stage reads; the others are named.
    pub(super) fn place_files(&mut self) {
        for file in std::mem::take(&mut self.files).into_iter().rev() {
            let name = base(&file.path);
            let stem: String = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
            let stage = unique(&format!("write_{stem}"), &[], &self.whole.stages);
            let mut stages = self.whole.stages.clone();
            let expression = format!("{{{{ stages.{stage}.out }}}}/{name}");
            read_outputs(stages.values_mut(), &[(file.path.clone(), expression)]);
            // A template's own braces would be read as the manifest's.
            let is_template = ["{{ ", "{%", "{#"].iter().any(|begin| file.content.contains(begin));
            if stages == self.whole.stages || is_template {
                let path = as_written(&file.path, &self.variables.unknown);
                let reason = format!("the text writes `{path}`, which Regatta does not: write the file before the run");
                self.builder.push_untranslated(format!("{}: cat > {path}", file.place), reason);
                continue;
            }
            let text = format!("cat > '{name}' <<'END_OF_FILE'\n{}END_OF_FILE\n", file.content);
            let write = json!({"shell": text, "outputs": [name]});
            self.places.push((stage.clone(), file.place));
            self.whole.stages = std::iter::once((stage, write)).chain(stages).collect::<Map<_, _>>();
        }
    }
}
