//! Rows of data for iterations, from files or from the scenario itself.
//!
//! Files are opened and checked before the load. A row is a pure function of the data's seed, the workload and the
//! number of the iteration or user, so a run can be repeated and divided among workers. Only iterations whose templates
//! use the data read rows.

mod csv;
mod feeder;
mod index;
mod records;
mod stored;

pub use feeder::Feeder;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use config::data::{Data, DataMap, Format, OnEnd, Per};
use config::scenario::Scenario;
use text::diagnostics::Fault;
use text::template::Value;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::WorkloadPlan;
use super::compiler::Compiler;
use records::Problem;
use stored::RowFile;
use terms::runner::{Model, OpenModel};

/// A row that an iteration takes.
#[derive(Debug)]
pub struct FeederRow {
    /// Its value in templates.
    pub value: Value,
    /// The values in it that messages must not show.
    pub secrets: Vec<Value>,
}

impl Compiler<'_> {
    /// Opens the scenario's data and checks every row.
    pub(super) fn data(&mut self, file: &Path, value: &Scenario, root: &YamlNode) -> Vec<Arc<Feeder>> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let mut feeders = Vec::new();
        for (name, written) in value.data.iter().flatten() {
            let (node, name_span) = (at(root, &["data", name]), key_span(at(root, &["data"]), name));
            let before = self.texts.faults.len();
            self.texts.variable_name(name, name_span.clone());
            if value.variables.as_ref().is_some_and(|variables| variables.contains_key(name)) {
                let fault = Fault::error(name_span, format!("`{name}` is also the name of a variable"));
                self.texts.faults.push(fault.help("rename one"));
            }
            let map = match written {
                Data::File(file) => &DataMap { file: Some(file.clone()), ..DataMap::default() },
                Data::Map(map) => &**map,
            };
            let opened = self.feeder(name, map, folder, node);
            let columns = match (&map.rows, &opened) {
                (Some(rows), _) => columns_of(rows),
                (None, Some(feeder)) => {
                    feeder.columns().map(|columns| columns.iter().map(|column| column.to_string()).collect())
                }
                (None, None) => None,
            };
            self.texts.names.data_columns.extend(columns.map(|columns| (name.clone(), columns)));
            if self.texts.faults.len() == before {
                feeders.extend(opened.map(Arc::new));
            }
            self.texts.names.data_names.insert(name.clone());
        }
        feeders
    }

    fn feeder(&mut self, name: &str, map: &DataMap, folder: &Path, node: &YamlNode) -> Option<Feeder> {
        if (map.per, map.on_end) == (Some(Per::User), Some(OnEnd::Stop)) {
            let fault = Fault::error(key_span(node, "on_end"), "`on_end: stop` together with `per: user`");
            self.texts
                .faults
                .push(fault.help("write `on_end: error`: a user without a row cannot do anything"));
        }
        match (&map.file, &map.rows) {
            (Some(_), Some(_)) => {
                let fault = Fault::error(key_span(node, "rows"), "both `file` and `rows`");
                self.texts.faults.push(fault.help("keep one of them"));
                None
            }
            (None, None) => {
                let fault =
                    Fault::error(node.span.clone(), format!("`{name}` has neither `file` nor `rows`"));
                self.texts.faults.push(fault.help("add `file: FILE`, or a list of `rows:`"));
                None
            }
            (None, Some(rows)) => {
                for key in ["format", "delimiter"].into_iter().filter(|key| node.get(key).is_some()) {
                    let fault = Fault::error(key_span(node, key), format!("`{key}` without `file`"));
                    self.texts.faults.push(fault.help("remove it: `rows` need none"));
                }
                rows.iter().for_each(super::headers::hide_secrets_of);
                Some(Feeder::inline(name, map, rows))
            }
            (Some(file), None) => self.stored(name, map, file, (folder, node)),
        }
    }

    fn stored(
        &mut self,
        name: &str,
        map: &DataMap,
        file: &str,
        (folder, node): (&Path, &YamlNode),
    ) -> Option<Feeder> {
        let place = node.get("file").unwrap_or(node);
        let Some(format) = map.format.or_else(|| format_of(file)) else {
            let fault = Fault::error(place.span.clone(), format!("the format of {file} is unknown"));
            self.texts.faults.push(fault.help("add `format: csv`, `json` or `jsonl`"));
            return None;
        };
        let tabs = map.delimiter.is_none() && has_extension(file, "tsv");
        let delimiter = map.delimiter.as_deref().and_then(|text| text.chars().next());
        let delimiter = delimiter.or(tabs.then_some('\t'));
        if map.delimiter.is_some() && (format != Format::Csv || matches!(delimiter, Some('"' | '\n' | '\r')))
        {
            let fault = Fault::error(key_span(node, "delimiter"), "this delimiter separates no columns");
            self.texts
                .faults
                .push(fault.help("write a character such as `;` for a file of CSV, or remove it"));
            return None;
        }
        match RowFile::open(&folder.join(file), format, delimiter) {
            Ok(stored) => Some(Feeder::stored(name, map, stored)),
            Err(Problem { line, what, help }) => {
                let line = line.map_or_else(String::new, |line| format!(" line {line}"));
                let fault = Fault::error(place.span.clone(), format!("{file}{line}: {what}"));
                self.texts.faults.push(fault.help(help));
                None
            }
        }
    }

    /// Reports data that has too few rows for a workload's virtual users.
    pub(super) fn enough_rows(&mut self, workload: &WorkloadPlan, node: &YamlNode) {
        let users = match &workload.runner.model {
            Model::Closed(closed) => u64::from(closed.users.users_max()),
            Model::Open(open) => return self.enough_rows_for_arrivals(workload, open, node),
        };
        for feeder in workload.data.iter().filter(|feeder| feeder.per() == Per::User && feeder.rows() < users)
        {
            let (name, rows) = (feeder.name(), feeder.rows());
            let what = format!("`{name}` has {rows} rows for {users} virtual users");
            match feeder.on_end() {
                OnEnd::Error => {
                    let fault = Fault::error(key_span(node, "runner"), what);
                    self.texts.faults.push(fault.help("add rows, or lower the concurrency"));
                }
                _ => self
                    .warnings
                    .push(format!("{what}: some users share a row; `on_end: error` refuses that")),
            }
        }
    }

    /// Arrivals need as many users as run at the same time, which is known only if it is limited.
    fn enough_rows_for_arrivals(&mut self, workload: &WorkloadPlan, open: &OpenModel, node: &YamlNode) {
        let iterations = workload.runner.times().unwrap_or(u64::MAX);
        let too_few = |feeder: &&Arc<Feeder>| (feeder.per(), feeder.on_end()) == (Per::User, OnEnd::Error);
        for feeder in workload.data.iter().filter(too_few) {
            let (name, rows) = (feeder.name(), feeder.rows());
            match open.concurrency_max.map(|users| u64::from(users).min(iterations)) {
                Some(users) if rows < users => {
                    let what = format!("`{name}` has {rows} rows for up to {users} virtual users");
                    let fault = Fault::error(key_span(node, "runner"), what);
                    self.texts.faults.push(fault.help("add rows, or lower `max_concurrency`"));
                }
                None if rows < iterations => self.warnings.push(format!(
                    "`{name}` has {rows} rows, and nothing limits the number of virtual users: iterations fail if more \
                     of them run at the same time; set `max_concurrency`"
                )),
                _ => {}
            }
        }
    }
}

/// All keys of rows that are maps.
fn columns_of(rows: &[serde_json::Value]) -> Option<BTreeSet<String>> {
    let mut columns = BTreeSet::new();
    for row in rows {
        columns.extend(row.as_object()?.keys().cloned());
    }
    Some(columns)
}

fn has_extension(file: &str, extension: &str) -> bool {
    Path::new(file).extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

fn format_of(file: &str) -> Option<Format> {
    let known = [
        ("csv", Format::Csv),
        ("tsv", Format::Csv),
        ("json", Format::Json),
        ("jsonl", Format::Jsonl),
        ("ndjson", Format::Jsonl),
    ];
    known.iter().find(|(extension, _)| has_extension(file, extension)).map(|(_, format)| *format)
}
