//! The names that a shell offers for arguments: manifests, parameters and their values, stages, runs.

use std::env;

use super::past_runs::logged_tasks;
use super::project::Project;
use crate::cli::{Color, Global, KeyValueArg, Offer, Offers, OutputVerbosity};
use plan::manifest::{DeclaredParam, ManifestOutline, list_manifests, outline};
use runner::store::{readable_runs, tags_of};

/// Those of the project in the current folder; none where there is no current folder.
pub(super) struct ProjectOffers(Option<Project>);

impl ProjectOffers {
    pub(super) fn here() -> Self {
        let home =
            env::var_os("REGATTA_HOME").filter(|home| !home.is_empty()).map_or_else(|| ".regatta".into(), Into::into);
        let global = Global { home, color: Color::Never, loudness: OutputVerbosity::Normal };
        Self(Project::open_current(&global).ok())
    }

    fn outline(&self, manifest: &str, given: &[String]) -> ManifestOutline {
        // What is no setting yet changes nothing.
        let given: Vec<KeyValueArg> = given.iter().filter_map(|word| word.parse().ok()).collect();
        let outline = |project: &Project| outline(&project.manifests, manifest, &project.given(&given));
        self.0.as_ref().and_then(outline).unwrap_or_default()
    }
}

impl Offers for ProjectOffers {
    fn manifests(&self) -> Vec<Offer> {
        let all = self.0.iter().flat_map(|project| list_manifests(&project.manifests).unwrap_or_default());
        all.map(|listed| Offer::new(listed.name, listed.about)).collect()
    }

    fn settings(&self, manifest: &str, given: &[String], word: &str) -> Vec<Offer> {
        let parameters = self.outline(manifest, given).parameters;
        if let Some((key, value)) = word.split_once('=') {
            let param = parameters.iter().find(|param| param.name == key);
            return param.map(|param| values(param, value)).unwrap_or_default();
        }
        let is_given = |name: &str| given.iter().any(|word| word.split_once('=').is_some_and(|(key, _)| key == name));
        let open = parameters.into_iter().filter(|param| !is_given(&param.name));
        open.map(|param| Offer::new(format!("{}=", param.name), param.about)).collect()
    }

    fn stages(&self, manifest: &str, given: &[String]) -> Vec<Offer> {
        self.outline(manifest, given).stages.into_iter().map(|stage| Offer::new(stage, None)).collect()
    }

    fn last_stages(&self) -> Vec<Offer> {
        let names = self.0.iter().flat_map(|project| logged_tasks(&project.home));
        names.map(|name| Offer::new(name, None)).collect()
    }

    fn runs(&self) -> Vec<Offer> {
        /// More than these are none to choose from.
        const MOST: usize = 50;
        let Some(home) = self.0.as_ref().map(|project| &project.home) else { return Vec::new() };
        let newest = readable_runs(home).unwrap_or_default().0.into_iter().rev().take(MOST);
        newest
            .flat_map(|run| {
                let names = tags_of(home, &run).unwrap_or_default().into_iter().map(|tag| tag.to_string());
                names.chain([run.to_string()]).collect::<Vec<_>>()
            })
            .map(|name| Offer::new(name, None))
            .collect()
    }
}

/// `KEY=VALUE`; of a list, the values that are not in it yet behind those that are.
fn values(param: &DeclaredParam, typed: &str) -> Vec<Offer> {
    let front = if param.is_list { typed.rsplit_once(',').map_or("", |(front, _)| front) } else { "" };
    let between = if front.is_empty() { "" } else { "," };
    let is_there = |value: &str| front.split(',').any(|one| one == value);
    let open = param.values.iter().filter(|value| !is_there(value));
    open.map(|value| Offer::new(format!("{}={front}{between}{value}", param.name), None)).collect()
}
