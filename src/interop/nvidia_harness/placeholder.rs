//! Placeholders in the lines of a page: `<model_name>`, `path/to/engine`, `host_0:port_0`.

/// The first placeholder in a value, in backquotes.
pub(super) fn placeholder(value: &str) -> Option<String> {
    if let (Some(from), Some(to)) = (value.find('<'), value.rfind('>'))
        && from < to
    {
        return Some(format!("`{}`", &value[from..=to]));
    }
    if value.starts_with("path/to/") || value.starts_with("/path/to/") {
        return Some(format!("`{value}`"));
    }
    let part = value.split(['|', ',', ':']).find(|part| {
        part.strip_prefix("port_").is_some_and(|n| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
    });
    part.map(|part| format!("`{part}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_of_the_pages_are_known() {
        for (value, found) in [
            ("<model_name>", Some("`<model_name>`")),
            ("<server/offline>", Some("`<server/offline>`")),
            ("path/to/trtllm/engine", Some("`path/to/trtllm/engine`")),
            ("host_0:port_0,port_1|host_1:port_0", Some("`port_0`")),
            ("host_0:8001,8003", None),
            ("llama2-70b", None),
            (">a<", None),
        ] {
            assert_eq!(placeholder(value).as_deref(), found, "{value}");
        }
    }
}
