//! Batch sizes, the dynamic batcher, sequences, caches.

use super::ModelChecker;
use crate::pbtxt::PbtxtStep;
use crate::proto::inference::batch_input::Kind as BatchKind;
use crate::proto::inference::model_config::SchedulingChoice;
use crate::proto::inference::model_sequence_batching::StrategyChoice;
use crate::proto::inference::model_sequence_batching::control::Kind;
use crate::proto::inference::{DataType, ModelDynamicBatching, ModelSequenceBatching};
use base::diag::nearest;

pub(super) fn check(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    if config.max_batch_size < 0 {
        let hint = "0 is a model without batches".to_owned();
        look.error(&[PbtxtStep::Name("max_batch_size")], "max_batch_size is below 0", Some(hint));
    }
    match &config.scheduling_choice {
        Some(SchedulingChoice::DynamicBatching(batching)) => dynamic(look, batching),
        Some(SchedulingChoice::SequenceBatching(batching)) => sequence(look, batching),
        _ => {}
    }
    let is_decoupled = config.model_transaction_policy.is_some_and(|policy| policy.decoupled);
    if is_decoupled && config.response_cache.is_some_and(|cache| cache.enable) {
        let hint = "turn one of them off".to_owned();
        look.error(&[PbtxtStep::Name("response_cache")], "a decoupled model has no response cache", Some(hint));
    }
    for (index, agent) in config.model_repository_agents.iter().flat_map(|agents| &agents.agents).enumerate() {
        if agent.name != "checksum" {
            let way = [PbtxtStep::Name("model_repository_agents"), PbtxtStep::Name("agents"), PbtxtStep::Nth(index)];
            let hint =
                format!("Triton brings `checksum`; another needs libtritonrepoagent_{}.so on the server", agent.name);
            look.error(&way, format!("there is no repository agent `{}`", agent.name), Some(hint));
        }
    }
    batch_tensors(look);
}

fn dynamic(look: &mut ModelChecker<'_>, batching: &ModelDynamicBatching) {
    let section = PbtxtStep::Name("dynamic_batching");
    preferred(look, &[section], &batching.preferred_batch_size);
    if look.model.config.max_batch_size == 0 && look.model.is_whole && batching.preferred_batch_size.is_empty() {
        look.warn(&[section], "the dynamic batcher does nothing: max_batch_size is 0", None);
    }
    let (levels, default) = (batching.priority_levels, batching.default_priority_level);
    if levels > 0 && !(1..=levels).contains(&default) {
        let way = [section, PbtxtStep::Name("default_priority_level")];
        let hint = format!("a level is from 1 to priority_levels ({levels})");
        look.error(&way, format!("default_priority_level is {default}"), Some(hint));
    }
    for level in batching.priority_queue_policy.keys().filter(|level| levels > 0 && !(1..=levels).contains(*level)) {
        let key = level.to_string();
        let way = [section, PbtxtStep::Name("priority_queue_policy"), PbtxtStep::Key(&key)];
        look.error(&way, format!("there is no priority level {level}: there are {levels}"), None);
    }
    if levels == 0 && default > 0 {
        look.warn(
            &[section, PbtxtStep::Name("default_priority_level")],
            "a priority without priority_levels does nothing",
            None,
        );
    }
}

fn preferred(look: &mut ModelChecker<'_>, batcher: &[PbtxtStep<'_>], sizes: &[i32]) {
    let most = look.model.config.max_batch_size;
    for (nth, size) in sizes.iter().enumerate() {
        let way = [batcher, &[PbtxtStep::Name("preferred_batch_size"), PbtxtStep::Nth(nth)]].concat();
        if *size <= 0 {
            look.error(&way, format!("{size} is not a batch size"), Some("it is 1 or more".to_owned()));
        } else if *size > most && look.model.is_whole {
            let hint = "lower it, or raise max_batch_size".to_owned();
            look.error(&way, format!("the preferred batch size {size} is above max_batch_size {most}"), Some(hint));
        }
    }
}

fn sequence(look: &mut ModelChecker<'_>, batching: &ModelSequenceBatching) {
    let section = PbtxtStep::Name("sequence_batching");
    match &batching.strategy_choice {
        Some(StrategyChoice::Oldest(oldest)) => {
            preferred(look, &[section, PbtxtStep::Name("oldest")], &oldest.preferred_batch_size);
        }
        Some(StrategyChoice::Direct(direct)) if !(0.0..=1.0).contains(&direct.minimum_slot_utilization) => {
            let way = [section, PbtxtStep::Name("direct"), PbtxtStep::Name("minimum_slot_utilization")];
            look.error(&way, "the slot utilization is a part: 0 to 1", None);
        }
        _ => {}
    }
    let mut seen = Vec::new();
    for (index, input) in batching.control_input.iter().enumerate() {
        let way = [section, PbtxtStep::Name("control_input"), PbtxtStep::Nth(index)];
        if input.name.is_empty() {
            look.error(&way, "a control input without a name", None);
        }
        if input.control.is_empty() {
            look.error(&way, format!("control input `{}` controls nothing", input.name), None);
        }
        for (nth, control) in input.control.iter().enumerate() {
            let way = [way[0], way[1], way[2], PbtxtStep::Name("control"), PbtxtStep::Nth(nth)];
            let word = control.kind().as_str_name();
            if seen.contains(&control.kind()) {
                look.error(&way, format!("{word} is controlled twice"), None);
            }
            seen.push(control.kind());
            if control.kind() == Kind::ControlSequenceCorrid {
                let allowed = [
                    DataType::TypeUint64,
                    DataType::TypeInt64,
                    DataType::TypeUint32,
                    DataType::TypeInt32,
                    DataType::TypeString,
                ];
                if !allowed.contains(&control.data_type()) {
                    let names: Vec<&str> = allowed.iter().map(DataType::as_str_name).collect();
                    look.error(&way, format!("{word} needs a data_type: {}", names.join(", ")), None);
                }
                continue;
            }
            let pairs = [control.int32_false_true.len(), control.fp32_false_true.len(), control.bool_false_true.len()];
            let given: Vec<usize> = pairs.into_iter().filter(|length| *length > 0).collect();
            if given != [2] {
                let hint = "for example `int32_false_true: [ 0, 1 ]`".to_owned();
                look.error(&way, format!("{word} needs one pair: what is false and what is true"), Some(hint));
            }
        }
    }
}

fn batch_tensors(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    let inputs: Vec<&str> = config.input.iter().map(|input| input.name.as_str()).collect();
    let outputs: Vec<&str> = config.output.iter().map(|output| output.name.as_str()).collect();
    let unknown = |look: &mut ModelChecker<'_>, way: &[PbtxtStep<'_>], what: &str, name: &str, known: &[&str]| {
        let hint = nearest(name, known.iter().copied()).map(|name| format!("did you mean `{name}`?"));
        look.error(way, format!("there is no {what} `{name}`"), hint);
    };
    for (index, batch) in config.batch_input.iter().enumerate() {
        let way = [PbtxtStep::Name("batch_input"), PbtxtStep::Nth(index)];
        if batch.target_name.is_empty() {
            look.error(&way, "a batch_input needs a target_name", None);
        }
        if !matches!(batch.data_type(), DataType::TypeInt32 | DataType::TypeFp32) {
            let way = [way[0], way[1], PbtxtStep::Name("data_type")];
            look.error(&way, "a batch_input is TYPE_INT32 or TYPE_FP32", None);
        }
        if batch.source_input.is_empty() && batch.kind() != BatchKind::BatchItemShape {
            look.error(&way, "a batch_input needs a source_input", None);
        }
        for name in batch.source_input.iter().filter(|name| !inputs.contains(&name.as_str())) {
            unknown(look, &[way[0], way[1], PbtxtStep::Name("source_input")], "input", name, &inputs);
        }
    }
    for (index, batch) in config.batch_output.iter().enumerate() {
        let way = [PbtxtStep::Name("batch_output"), PbtxtStep::Nth(index)];
        for name in batch.target_name.iter().filter(|name| !outputs.contains(&name.as_str())) {
            unknown(look, &[way[0], way[1], PbtxtStep::Name("target_name")], "output", name, &outputs);
        }
        for name in batch.source_input.iter().filter(|name| !inputs.contains(&name.as_str())) {
            unknown(look, &[way[0], way[1], PbtxtStep::Name("source_input")], "input", name, &inputs);
        }
    }
}
