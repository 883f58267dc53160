//! A table of the manual that a test works out.

/// A page has this table, which is found by its first line. With `UPDATE=1` it is written there.
pub fn on_the_page(name: &str, table: &str) {
    let path = format!("{}/tests/manual/{name}", env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(&path).unwrap();
    let head = table.lines().next().unwrap();
    let begin = page.find(head).expect("the table's head is on the page");
    let end = begin + page[begin..].find("\n\n").unwrap() + 1;
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, format!("{}{table}{}", &page[..begin], &page[end..])).unwrap();
    } else {
        pretty_assertions::assert_eq!(&page[begin..end], table, "run with UPDATE=1");
    }
}
