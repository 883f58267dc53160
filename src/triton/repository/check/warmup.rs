//! Warm-up requests, which the server sends itself while it loads a model.

use super::ModelChecker;
use crate::pbtxt::PbtxtStep;
use crate::proto::inference::model_warmup::input::InputDataType;
use base::diag::did_you_mean;

pub(super) fn check(look: &mut ModelChecker<'_>) {
    let model = look.model;
    let config = &model.config;
    if look.is_ensemble() {
        return;
    }
    for (index, warmup) in config.model_warmup.iter().enumerate() {
        let own = [PbtxtStep::Name("model_warmup"), PbtxtStep::Nth(index)];
        let most = config.max_batch_size.max(1) as u32;
        if warmup.batch_size > most {
            let way = [own[0], own[1], PbtxtStep::Name("batch_size")];
            look.error(
                &way,
                format!("the warm-up's batch size {} is above max_batch_size {most}", warmup.batch_size),
                None,
            );
        }
        for (name, input) in &warmup.inputs {
            let way = [own[0], own[1], PbtxtStep::Name("inputs"), PbtxtStep::Key(name)];
            match config.input.iter().find(|known| known.name == *name) {
                None => {
                    let names = config.input.iter().map(|input| input.name.as_str());
                    look.error(&way, format!("there is no input `{name}` to warm up with"), did_you_mean(name, names));
                }
                Some(known) if known.data_type != input.data_type => {
                    let what = format!(
                        "the warm-up's `{name}` is {}, and the input {}",
                        input.data_type().as_str_name(),
                        known.data_type().as_str_name()
                    );
                    look.error(&way, what, None);
                }
                Some(_) => {}
            }
            match &input.input_data_type {
                None => {
                    let hint = "`zero_data: true`, `random_data: true` or `input_data_file`".to_owned();
                    look.error(&way, format!("the warm-up's `{name}` has no data"), Some(hint));
                }
                Some(InputDataType::InputDataFile(file)) => {
                    let path = model.folder.join("warmup").join(file);
                    if !path.is_file() {
                        look.error(&way, format!("{} is missing", path.display()), None);
                    }
                }
                Some(_) => {}
            }
        }
        for input in config.input.iter().filter(|input| !input.optional && !warmup.inputs.contains_key(&input.name)) {
            look.error(&own, format!("the warm-up has no data for input `{}`", input.name), None);
        }
    }
}
