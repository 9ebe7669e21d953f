//! Judges a stored run again, by its own criteria or by others.

use std::path::PathBuf;

use crate::error::HarnessError;
use crate::options::{FigureFiles, YamlFile};
use crate::outcome::{Conclusion, FinishedRun};
use crate::{files, read_again, writing};
use ::config::sla::{self as config, SlaFile};
use ::config::{Document, RejectedFile, schema};
use measure::log::{RunLog, WorkloadHeader};
use terms::sla::Sla;
use terms::tags::{ActionNames, Tags};
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::yaml::{self, YamlNode, YamlValue};

/// Which run to judge, and by what.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// The run's directory.
    pub run_dir: PathBuf,
    /// Take the criteria from this scenario, or from a file with only `sla:`, instead of the run's own.
    pub sla: Option<YamlFile>,
    /// Write the criteria as JUnit XML to this file.
    pub junit: Option<PathBuf>,
    /// Write figures for the pages of CI systems to these files.
    pub figures: FigureFiles,
}

/// Judges a run again. Nothing in its directory is changed.
///
/// # Errors
/// When something cannot be read.
pub fn check(options: &CheckOptions) -> Result<FinishedRun, HarnessError> {
    let (_, aggregate, results, traces) =
        read_again::read_again(&options.run_dir, |log| match &options.sla {
            Some(file) => replace(log, file),
            None => Ok(()),
        })?;
    let junit = options.junit.as_deref().map_or(Ok(()), |path| writing::junit_of(path, &results));
    let figures = writing::figures_of(&options.figures, &aggregate, &results);
    let fault = [junit, figures].into_iter().filter_map(Result::err).reduce(HarnessError::and);
    let conclusion = Conclusion::of(&results, aggregate.total());
    Ok(FinishedRun { conclusion, results, traces, directory: None, heard: Vec::new(), fault })
}

/// Gives every workload the criteria of a file.
fn replace(log: &mut RunLog, file: &YamlFile) -> Result<(), HarnessError> {
    let document = read(file)?;
    let mut faults = Vec::new();
    let mut criteria: Vec<Sla> = vec![Sla::default(); log.header.workloads.len()];
    let root = &document.root;
    if let Some(sla) = &document.value.sla {
        let workloads = &log.header.workloads;
        let mut all = ActionNames::default();
        for names in workloads.iter().map(WorkloadHeader::names) {
            // A header may list the tags of fewer actions than it has.
            all.tags.resize(all.actions.len(), Tags::new());
            let before = u16::try_from(all.actions.len()).unwrap_or(u16::MAX);
            all.streams.extend(names.streams.iter().map(|number| number.saturating_add(before)));
            all.tags.extend(names.tags.into_iter().take(names.actions.len()));
            all.actions.extend(names.actions);
            all.measures.extend(names.measures);
        }
        match Sla::resolve(Some(sla), node_at(root, "sla"), Some(&all)) {
            // A criterion of an action applies to the workloads that have it.
            Ok(sla) => {
                for (own, workload) in criteria.iter_mut().zip(workloads) {
                    *own = sla.of_names(&workload.names());
                }
            }
            Err(found) => faults.extend(found),
        }
    }
    for (index, written) in document.value.workloads.iter().flatten().enumerate() {
        let node = node_at(root, "workloads").items().get(index).unwrap_or(root);
        of_workload(log, written, node, &mut criteria, &mut faults);
    }
    if faults.is_empty() && criteria.iter().all(Sla::is_empty) {
        faults.push(Fault::file("the file has no criteria").help("write criteria under `sla:`"));
    }
    if !faults.is_empty() {
        return Err(HarnessError::faults(RejectedFile { source: document.source, faults }));
    }
    log.replace_criteria(criteria);
    Ok(())
}

fn of_workload(
    log: &RunLog,
    written: &config::SlaOfWorkload,
    node: &YamlNode,
    criteria: &mut [Sla],
    faults: &mut Vec<Fault>,
) {
    let workloads = &log.header.workloads;
    let Some(number) = workloads.iter().position(|workload| workload.name == written.name) else {
        let names = || workloads.iter().map(|workload| workload.name.as_str());
        let message = format!("the run has no workload named `{}`", written.name);
        let fault = Fault::error(node_at(node, "name").span.clone(), message);
        faults.push(fault.help(match did_you_mean(&written.name, names()) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
        }));
        return;
    };
    let names = workloads[number].names();
    match Sla::resolve(written.sla.as_ref(), node_at(node, "sla"), Some(&names)) {
        Ok(sla) if written.sla.is_some() => criteria[number] = sla,
        Ok(_) => {}
        Err(found) => faults.extend(found),
    }
}

fn node_at<'n>(node: &'n YamlNode, key: &str) -> &'n YamlNode {
    node.get(key).unwrap_or(node)
}

/// The criteria of a file, with their places; the rest of a scenario is ignored.
fn read(file: &YamlFile) -> Result<Document<SlaFile>, HarnessError> {
    let source = files::source(file)?;
    let (root, mut faults) = yaml::parse_all(&source);
    let Some(mut root) = root else { return Err(HarnessError::faults(RejectedFile { source, faults })) };
    let known: Vec<&str> = schema::SCENARIO["properties"]
        .as_object()
        .into_iter()
        .flat_map(|properties| properties.keys().map(String::as_str))
        .collect();
    for (key, _) in root.entries().iter().filter(|(key, _)| !known.contains(&key.name.as_str())) {
        let fault = Fault::error(key.span.clone(), format!("unknown key `{}` in the document", key.name));
        faults.push(fault.help(match did_you_mean(&key.name, known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => "give a scenario, or a file with only `sla:`".to_owned(),
        }));
    }
    let keep = |node: &mut YamlNode, keys: &[&str]| {
        if let YamlValue::Map(entries) = &mut node.kind {
            entries.retain(|(key, _)| keys.contains(&key.name.as_str()));
        }
    };
    keep(&mut root, &["sla", "workloads"]);
    if let YamlValue::Map(entries) = &mut root.kind {
        for (_, list) in entries.iter_mut().filter(|(key, _)| key.name == "workloads") {
            if let YamlValue::List(items) = &mut list.kind {
                items.iter_mut().for_each(|item| keep(item, &["name", "sla"]));
            }
        }
    }
    config_read(source, root, faults)
}

fn config_read(
    source: text::diagnostics::SourceText,
    root: YamlNode,
    faults: Vec<Fault>,
) -> Result<Document<SlaFile>, HarnessError> {
    ::config::from_node(source, root, faults, &schema::SLA).map_err(HarnessError::faults)
}
