//! What all HTML and XML texts need: escaping, and the environment of a template with the head and style that all
//! pages have.

use base::units::is_invisible;
use minijinja::syntax::SyntaxConfig;
use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};

const HEAD: &str = include_str!("../../templates/report/head.html");
const BLOCKS: &str = include_str!("../../templates/report/blocks.html");
const STYLE: &str = include_str!("../../templates/report/style.css");

/// Renders `template` with `context`. What it writes is escaped, and an unknown name is an error.
pub(crate) fn render_page(template: &'static str, context: Value) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.add_global("style", Value::from_safe_string(STYLE.to_owned()));
    environment.add_template("head.html", HEAD)?;
    environment.add_template("blocks.html", BLOCKS)?;
    environment.add_template("page.html", template)?;
    let page = environment.get_template("page.html")?.render(context)?;
    // Control characters are not allowed in a document, escaped or not.
    Ok(page.replace(|c: char| is_invisible(c) && !matches!(c, '\n' | '\t'), "·"))
}

/// Safe inside an element and inside a quoted attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in a document at all, escaped or not.
            c if is_invisible(c) && c != '\n' => out.push('·'),
            c => out.push(c),
        }
    }
    out
}
