//! Puts things that need each other in order, stable, without recursion; finds the circles.

/// Each item once, after everything it needs (first come, first served), or a circle of items in the order in which
/// one needs the next. Items that only stand behind a circle are left out: their error is reported with it.
pub fn topological_order(needs: &[Vec<usize>]) -> Vec<Result<usize, Vec<usize>>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
        Stuck,
    }
    let mut marks = vec![Mark::New; needs.len()];
    let mut out = Vec::with_capacity(needs.len());
    let mut stack: Vec<(usize, usize)> = Vec::new();
    let mark = |marks: &[Mark], at: usize| marks.get(at).copied().unwrap_or(Mark::Done);
    for start in 0..needs.len() {
        if mark(&marks, start) != Mark::New {
            continue;
        }
        stack.push((start, 0));
        while let Some((item, next)) = stack.last_mut() {
            let (item, at) = (*item, *next);
            *next += 1;
            if at == 0 {
                marks[item] = Mark::Open;
            }
            let Some(need) = needs.get(item).and_then(|needs| needs.get(at)).copied() else {
                if marks[item] == Mark::Open {
                    marks[item] = Mark::Done;
                    out.push(Ok(item));
                }
                stack.pop();
                continue;
            };
            match mark(&marks, need) {
                Mark::New => stack.push((need, 0)),
                Mark::Open => {
                    let begin = stack.iter().position(|(open, _)| *open == need).unwrap_or(0);
                    out.push(Err(stack.iter().skip(begin).map(|(open, _)| *open).collect()));
                    for (open, _) in &stack {
                        marks[*open] = Mark::Stuck;
                    }
                }
                Mark::Stuck => {
                    for (open, _) in &stack {
                        marks[*open] = Mark::Stuck;
                    }
                }
                Mark::Done => {}
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn needs_come_first_and_the_rest_keeps_its_order() {
        let got: Vec<_> = topological_order(&[vec![2], vec![], vec![]]).into_iter().flatten().collect();
        assert_eq!(got, [2, 0, 1]);
    }

    #[test]
    fn circles_are_found_once() {
        assert_eq!(topological_order(&[vec![1], vec![2], vec![0], vec![0]]), [Err(vec![0, 1, 2])]);
        assert_eq!(topological_order(&[vec![0], vec![]]), [Err(vec![0]), Ok(1)]);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_does_not_overflow() {
        let needs: Vec<Vec<usize>> = (0..100_000).map(|n| if n == 99_999 { vec![] } else { vec![n + 1] }).collect();
        assert_eq!(topological_order(&needs).len(), 100_000);
    }
}
