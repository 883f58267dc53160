//! Headers that a line of another load tool sends with every request.

use serde_json::json;

use super::load::{TranslatedLoad, api_key};
use super::options::GivenOption;
use super::translation::TranslationBuilder;
use base::spec::{AUTHORIZATION, HeaderFault, RequestHeaders, is_secret_header, secret_variable};

/// `NAME:VALUE` or `NAME=VALUE`, of each header. A key belongs into the environment, and nowhere else.
pub(crate) fn header(given: &GivenOption, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    for word in &given.values {
        header_field(&given.written, word, load, builder);
    }
}

/// A header of every request. What the harness sends by itself is left out.
pub(crate) fn header_field(origin: &str, word: &str, load: &mut TranslatedLoad, builder: &mut TranslationBuilder) {
    let name = word.split([':', '=']).next().unwrap_or_default().trim();
    let value = word.get(name.len()..).unwrap_or_default().trim_start_matches([' ', ':', '=']);
    let is_bearer = value.to_ascii_lowercase().starts_with("bearer ");
    if name.eq_ignore_ascii_case(AUTHORIZATION) && is_bearer {
        return api_key("`Authorization: Bearer`", load, builder);
    }
    if ["content-type", "accept"].iter().any(|usual| name.eq_ignore_ascii_case(usual)) {
        return;
    }
    if let Err(fault) = RequestHeaders::default().add(word) {
        let shown = format!("{origin} {name}:…");
        return match fault {
            HeaderFault::Reserved => builder.push_untranslated(shown, "the harness sets that header itself"),
            fault => builder.push_error(format!("`{shown}` {fault}")),
        };
    }
    if is_secret_header(name) && !value.is_empty() {
        let variable = secret_variable(name);
        load.add("--header", format!("{name}:${{{variable}}}"));
        builder.note(format!(
            "the value of the header {name} is read from the environment variable {variable}; it is not written down"
        ));
    } else if value.contains("{{") {
        // A value that the text does not have is one of the manifest's.
        load.keys.entry("request").or_insert_with(|| json!({}))["headers"][name] = json!(value);
    } else {
        load.add("--header", format!("{name}:{value}"));
    }
}
