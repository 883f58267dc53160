//! What the user has to know of a measurement that is taken from the cache although its servers are not started by the
//! run.

use crate::store::{TaskKey, TaskRecord};
use base::event::TaskId;
use plan::Task;

/// Reports how old a cached result of `task` is and which servers it was measured on. `None` for tasks that depend on
/// nothing outside their run. `now`: seconds since 1970.
fn age_of(task: &Task, key: &TaskKey, record: &TaskRecord, now: i64) -> Option<String> {
    let servers = task.external_servers();
    if servers.is_empty() {
        return None;
    }
    let age = match record.finished {
        0 => "at an unknown time".to_owned(),
        finished => format!("{} ago", ago(now - finished)),
    };
    let described: Vec<String> = servers
        .iter()
        .map(|server| {
            let fact = |what: &str| key.facts.get(&format!("{server} {what}")).map(String::as_str);
            let words: Vec<&str> = ["kind", "version", "model"].into_iter().filter_map(fact).collect();
            if words.is_empty() {
                format!("{server}, which reports nothing about itself")
            } else {
                format!("{server} ({})", words.join(" "))
            }
        })
        .collect();
    Some(format!("measured {age} in run {} on {}; `cache: true` keeps it", record.run, described.join(", ")))
}

/// The notice of a run, by task.
pub(super) fn age_notice(task: &Task, key: &TaskKey, record: &TaskRecord) -> Option<(TaskId, String)> {
    let now = jiff::Timestamp::now().as_second();
    Some((task.id.clone(), age_of(task, key, record, now)?))
}

fn ago(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_the_unit_that_people_use() {
        let ages: Vec<String> = [-5, 0, 119, 120, 7199, 7200, 172_799, 172_800].into_iter().map(ago).collect();
        assert_eq!(ages, ["0 s", "0 s", "119 s", "2 min", "119 min", "2 h", "47 h", "2 days"]);
    }
}
