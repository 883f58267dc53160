//! Python's literals, names and classes, read as text. Nothing is executed: what only running it would give is
//! skipped, and reported.

mod lex;
mod parse;

pub(crate) use parse::{Expr, PythonItem, Statement, StatementKind, parse};

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        parse(text).iter().map(|one| format!("{}: {:?}", one.line, one.what)).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn statements_of_configs_are_read() {
        let text = "import a.b as c\n\n'''a text\nover lines'''\nbase = {  # comment\n    f.x: 600_000 * 2,\n    \
            'k': -1.5e3, **other,\n}\nif x:\n    y = 1\nelse:\n    y = 2\nz: int = [1, 'a' \"b\", (3)]\n";
        insta::assert_snapshot!(shown(text).replace("Dict([", "Dict([\n").replace(", Pair(", ",\nPair("), @r#"
        1: Nothing
        3: Nothing
        5: Assign(Name("base"), Dict([
        Pair(Field(Name("f"), "x"), Binary("*", Number(600000.0, true), Number(2.0, true))),
        Pair(Text("k"), Minus(Number(1500.0, false))), Spread(Name("other"))]))
        9: Other("if")
        11: Other("else")
        13: Assign(Name("z"), List([Number(1.0, true), Text("ab"), Number(3.0, true)]))
        "#);
    }

    #[test]
    fn classes_have_their_decorators_and_bodies() {
        let text = "@R.register(H.Triton, T.k_99)\nclass A(B):\n    x = 1\n    pass\n\nclass C(A): pass\n";
        let statements = parse(text);
        let StatementKind::Class { name, bases, decorators, body } = &statements[0].what else {
            panic!("{statements:?}")
        };
        assert_eq!((name.as_str(), bases.len(), decorators.len(), body.len()), ("A", 1, 1, 2));
        assert!(
            matches!(&statements[1].what, StatementKind::Class { decorators, .. } if decorators.is_empty()),
            "{statements:?}"
        );
    }

    #[test]
    fn what_would_have_to_be_run_is_named() {
        for (text, word) in
            [("x = f'{a}'\n", "x"), ("for a in b:\n  c\n", "for"), ("x = a if b else c\n", "x"), ("x += 1\n", "x")]
        {
            assert!(
                matches!(&parse(text)[0].what, StatementKind::Other(found) if found == word),
                "{text}: {:?}",
                parse(text)
            );
        }
    }

    #[test]
    fn a_deep_nest_is_no_overflow() {
        for text in [
            "(".repeat(100_000),
            "[".repeat(100_000),
            "-".repeat(100_000),
            "a=".repeat(100_000),
            "{1:".repeat(50_000),
            "1+".repeat(100_000),
            "a.".repeat(100_000),
            "a**".repeat(100_000),
        ] {
            parse(&text);
        }
        let steps: String = (0..2000).map(|n| " ".repeat(n) + "class A:\n").collect();
        parse(&steps);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_the_python_parser_panic(text in "(?s).{0,200}") {
            parse(&text);
        }

        #[test]
        fn no_text_like_python_makes_the_python_parser_panic(
            parts in proptest::collection::vec("(class |if |@|\\(|\\)|\\[|\\]|\\{|\\}|:|=|\n|\n  |\n    \
                |a|'|\"|'''|\\\\|1|\\.|,|\\*\\*|-|#|é|f'|pass)", 0..60),
        ) {
            parse(&parts.concat());
        }
    }
}
