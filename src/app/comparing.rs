//! `compare`, `report --compat` and `explain`: numbers beside numbers, and what they mean.

use super::results::{find, find_all};
use super::{Trouble, say, say_error};
use crate::cli::{Compare, Exit, Explain, Global, Report};
use crate::report::compare::{self, Comparison, Gate, Sheet};
use crate::report::{self, Paint, Tool, explain, html};

pub(super) fn compare(global: &Global, request: &Compare) -> Result<Exit, Trouble> {
    let gates = gates(&request.fail_if)?;
    let as_tool = request.as_tool.as_deref().map(tool).transpose()?;
    let (mut results, mut sheets) = (Vec::new(), Vec::new());
    for word in &request.results {
        let told = find(global, word)?.told;
        sheets.push(match as_tool {
            Some(tool) => Sheet::as_tool(&told, tool).map_err(Trouble::Usage)?,
            None => Sheet::of(&told),
        });
        results.push(told);
    }
    let [first, others @ ..] = sheets.as_slice() else { return Ok(Exit::Done) };
    let comparisons: Vec<Comparison> = others.iter().map(|other| Comparison::of(first, other, request.force)).collect();
    say(&if request.json {
        format!("{:#}\n", compare::json(&sheets, &comparisons))
    } else {
        compare::text(&sheets, &comparisons, Paint::chosen(global.color.choice()))
    });
    if let Some(path) = &request.html {
        let page = html::compare(&results, &sheets, &comparisons).map_err(anyhow::Error::from)?;
        std::fs::write(path, page)
            .map_err(|error| anyhow::Error::from(error).context(format!("cannot write {}", path.display())))?;
        say_error(&format!("the page: {}\n", path.display()));
    }
    let mut exit = Exit::Done;
    for comparison in &comparisons {
        for gate in &gates {
            if let Some(delta) = gate.trips(comparison).map_err(Trouble::Usage)? {
                let percent = delta.percent.unwrap_or_default();
                let judged = delta.judgement.map_or_else(String::new, |judged| format!(", {}", judged.words()));
                say_error(&format!("{gate} holds for {}: {percent:+.1} %{judged}\n", comparison.b));
                exit = Exit::Failed;
            }
        }
        if !comparison.has_any() {
            exit = exit.max(Exit::Usage);
        }
    }
    Ok(exit)
}

/// All mistakes at once.
fn gates(texts: &[String]) -> Result<Vec<Gate>, Trouble> {
    let read: Vec<Result<Gate, String>> = texts.iter().map(|text| text.parse()).collect();
    let wrong: Vec<&str> = read.iter().filter_map(|gate| gate.as_ref().err().map(String::as_str)).collect();
    if !wrong.is_empty() {
        return Err(Trouble::Usage(wrong.join("\n")));
    }
    Ok(read.into_iter().flatten().collect())
}

fn tool(name: &str) -> Result<Tool, Trouble> {
    name.parse().map_err(Trouble::Usage)
}

/// Our numbers beside those of other tools.
pub(super) fn compat(global: &Global, request: &Report) -> Result<Exit, Trouble> {
    let tools = request.compat.iter().map(|name| tool(name)).collect::<Result<Vec<_>, _>>()?;
    let word = match &request.run {
        Some(word) => word.clone(),
        None => super::history::last(global)?,
    };
    let paint = Paint::chosen(global.color.choice());
    let mut all = serde_json::Map::new();
    for found in find_all(global, &word)? {
        let told = found.told;
        if told.seen.is_empty() {
            say_error(&format!("{}: its requests are not known one by one\n", told.name));
            continue;
        }
        let rows: Vec<_> = tools.iter().flat_map(|tool| report::compat(&told, *tool)).collect();
        if request.json {
            all.insert(told.name, serde_json::to_value(rows).map_err(anyhow::Error::from)?);
        } else {
            say(&format!("{}\n{}", told.name, report::compat::text(&rows, paint)));
        }
    }
    if request.json {
        say(&format!("{:#}\n", serde_json::Value::Object(all)));
    }
    Ok(Exit::Done)
}

pub(super) fn explain(global: &Global, request: &Explain) -> Result<Exit, Trouble> {
    let paint = Paint::chosen(global.color.choice());
    let text = match &request.metric {
        None if request.json => format!("{:#}\n", explain::list_json()),
        None => explain::list(paint),
        Some(name) => {
            let entry = explain::entry(name).ok_or_else(|| {
                Trouble::Usage(format!("there is no metric `{name}`\n  hint: `regatta explain` lists them"))
            })?;
            if request.json { format!("{:#}\n", explain::json(entry)) } else { explain::text(entry, paint) }
        }
    };
    say(&text);
    Ok(Exit::Done)
}
