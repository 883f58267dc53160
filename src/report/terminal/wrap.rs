//! Long lines of a table on a narrow terminal: broken between words, each part under the cell that it belongs to.

/// Breaks lines of more than `width` characters between words. A part goes on where the cell that was broken begins (cells are
/// two or more spaces apart), or where the last one did that leaves room. Escape sequences of colors take no room; a word that is
/// longer than a line stays whole.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        if shown_width(line) > width {
            wrap_line(line, width, &mut out);
        } else {
            out.push_str(line);
        }
        out.push_str(end);
    }
    out
}

fn wrap_line(line: &str, width: usize, out: &mut String) {
    // One that leaves no room is not kept.
    let own = line.chars().take_while(|c| *c == ' ').count();
    let indent = if own <= width * 3 / 5 { own } else { 4.min(width / 5) };
    out.push_str(&" ".repeat(indent));
    // `hang`: where the cell that is being written begins.
    let (mut column, mut hang, mut cells, mut gap) = (indent, indent + 4, 1, 0);
    for part in line[own..].split(' ') {
        if part.is_empty() {
            gap += 1;
            continue;
        }
        let begins_cell = gap > 0 && column > indent;
        cells += usize::from(begins_cell);
        // The second column keeps its place; behind it a line that is too long has no room for columns.
        let spaces = match (column > indent, begins_cell) {
            (false, _) => 0,
            (true, false) => 1,
            (true, true) if cells == 2 => gap + 1,
            (true, true) => 2,
        };
        let length = shown_width(part);
        if column + spaces + length <= width || column == indent {
            out.push_str(&" ".repeat(spaces));
            column += spaces;
        } else if column < hang {
            let spaces = spaces.min(2).max(hang - column);
            out.push_str(&" ".repeat(spaces));
            column += spaces;
        } else {
            out.push('\n');
            out.push_str(&" ".repeat(hang));
            column = hang;
        }
        // A cell in the right half would go on in too narrow a column.
        if begins_cell && column <= width * 3 / 5 {
            hang = column;
        }
        out.push_str(part);
        column += length;
        gap = 0;
    }
}

/// Characters, without those of escape sequences.
pub fn shown_width(text: &str) -> usize {
    anstream::adapter::strip_str(text).map(|part| part.chars().count()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_goes_on_under_its_cell() {
        let text = "  name    text      what the key is for, in a sentence\n  n2      whole\n";
        let expected = "  name    text  what the key is for, in\n                a sentence\n  n2      whole\n";
        assert_eq!(wrapped(text, 40), expected);
        assert_eq!(wrapped(text, 60), text);
    }

    #[test]
    fn columns_behind_the_second_come_together_where_a_line_is_too_long() {
        let text = "name    one | two | three          [one]  which of them\n";
        assert_eq!(wrapped(text, 30), "name    one | two | three\n        [one]  which of them\n");
        assert_eq!(wrapped(text, 50), "name    one | two | three  [one]  which of them\n");
        assert_eq!(wrapped("a                    right/b\n", 20), "a   right/b\n");
    }

    #[test]
    fn colors_take_no_room_and_a_long_word_stays_whole() {
        assert_eq!(wrapped("\u{1b}[2mone two\u{1b}[0m", 7), "\u{1b}[2mone two\u{1b}[0m");
        assert_eq!(wrapped("log  /a/path/that/is/long", 10), "log  /a/path/that/is/long");
    }
}
