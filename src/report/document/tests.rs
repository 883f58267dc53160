//! Documents as a terminal and a page show them.

use super::*;

fn table() -> Table {
    let mut table = Table::new(
        "points",
        [
            TableColumn::new("users"),
            TableColumn::number("tok/s"),
            TableColumn::number("TTFT p50").unit("ms"),
            TableColumn::number("TTFT p99").unit("ms").priority(1),
            TableColumn::number("E2E mean").unit("ms").priority(2),
            TableColumn::new("verdict"),
        ],
    );
    let numbers = [Some(189.0), Some(26.2), Some(1_281.4), None].map(|number| Cell::number(TextRole::Plain, number));
    table.row([Cell::from("4")].into_iter().chain(numbers).chain([Cell::from("VALID")]));
    table.row([Cell::from("8"), Cell::new(TextRole::Bad, "it does not fit <b>")]);
    table
}

fn document() -> Document {
    let section = Section { about: "two points".to_owned(), ..Section::new("load") };
    let marked = Item { mark: "≠1".to_owned(), text: "load".to_owned(), ..Item::default() };
    let blocks = [Block::table(table()), Block::items(vec![marked]), Block::charts(["<svg/>".to_owned()])];
    Document { title: "Points".into(), sections: vec![section.with(blocks)], ..Document::default() }
}

#[test]
fn numbers_end_under_each_other_and_a_latency_is_named_once() {
    insta::assert_snapshot!(document().terminal(Styler::OFF), @r"
    load  two points
      users  tok/s  TTFT p50    p99  E2E mean  verdict
      4        189      26.2  1,281       n/a  VALID
      8      it does not fit <b>
      ≠1 load
    ");
}

#[test]
fn a_narrow_terminal_does_without_what_is_least_needed() {
    let shown = |width: usize| document().terminal(Styler::OFF.of_width(width));
    assert!(shown(45).contains("for a wider terminal, or as JSON: E2E mean\n"), "{}", shown(45));
    assert!(shown(30).contains("for a wider terminal, or as JSON: E2E mean, TTFT p99\n"), "{}", shown(30));
    assert!(!shown(80).contains("wider"));
}

#[test]
fn a_page_has_units_pictures_and_no_markup_from_outside() {
    let page = document().html().expect("a page");
    for part in ["TTFT p99, ms", "<svg/>", "it does not fit &lt;b&gt;", "colspan=\"5\"", "<h2>load"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}
