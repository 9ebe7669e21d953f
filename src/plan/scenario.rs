//! Makes a [`Plan`] from a scenario document and a deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use ::config::end::End;
use ::config::kept;
use ::config::scenario::{self as config, Scenario};
use ::config::{Document, RejectedFile, runner as config_runner, schema, step as config_step};
use base::hex;
use base::masking::{self, names_secret};
use client::url::BaseUrl;
use text::diagnostics::{Fault, SourceText};
use text::similar::did_you_mean;
use text::template::{self, Value};
use text::yaml::{self, YamlNode};
use text::yaml_place::{at, first_key, item, key_span};

use super::compiler::Compiler;
use super::contexts::{self, Contexts};
use super::data::Feeder;
use super::deployment::{Auth, ResolvedDeployment};
use super::end::faulty_fetch;
use super::given::CommandLineValue;
use super::http_options::faulty_cookies;
use super::known_targets::KnownTargets;
use super::nesting::{Nesting, StepFiles};
use super::probe::ProbePlan;
use super::propagation::Propagation;
use super::references::{self, Env};
use super::referred::ReferredVariables;
use super::schemas::KnownSchemas;
use super::step::{self, PlanStep};
use super::texts::{TextCompiler, VariableNames};
use super::user_steps::WrittenUser;
use super::{Plan, TraceFetchPlan, WorkloadPlan};
use terms::control::ControlShare;
use terms::runner::{Model, Runner};
use terms::sla::Sla;
use terms::tags::ActionNames;
use terms::threshold::Metric;

pub use super::texts::{BUILT_IN, RUN};

/// How long running iterations may continue after a stop, if the scenario does not set `graceful_stop`.
const GRACEFUL_STOP: Duration = Duration::from_secs(30);
const TRACES_LIMIT: u32 = 200;
const SETTLE: Duration = Duration::from_secs(5);
const WORKLOADS_MAX: usize = 1000;
const ACTIONS_MAX: usize = 1000;

/// Reads a scenario and checks its structure.
///
/// # Errors
/// Every fault found.
pub fn read(source: SourceText) -> Result<Document<Scenario>, RejectedFile> {
    ::config::read(source, &schema::SCENARIO)
}

/// The deployment file that a scenario names, and the place of the name. The path is relative to the scenario.
#[must_use]
pub fn named_deployment(file: &Path, root: &YamlNode) -> Option<(PathBuf, std::ops::Range<usize>)> {
    let node = root.get("deployment")?;
    let yaml::YamlValue::Text { text, .. } = &node.kind else { return None };
    let folder = file.parent().unwrap_or(Path::new(""));
    Some((folder.join(text), node.span.clone()))
}

/// Options from the command line.
#[derive(Clone, Debug, Default)]
pub struct PlanOptions {
    /// Variables given with `--set`.
    pub set: BTreeMap<String, CommandLineValue>,
    /// The seed given with `--seed`.
    pub seed: Option<u64>,
    /// True if `--no-profile` was given.
    pub no_profile: bool,
    /// True if `--no-probe` was given.
    pub no_probe: bool,
    /// True if an iteration may send nothing, as in some scenarios of Rally.
    pub requests_optional: bool,
}

/// Resolves a scenario for a deployment.
///
/// # Errors
/// All faults of the scenario at once.
pub fn build(
    file: &Path,
    document: &Document<Scenario>,
    deployment: ResolvedDeployment,
    options: &PlanOptions,
    env: Env<'_>,
) -> Result<Plan, Vec<Fault>> {
    let value = &document.value;
    let (parts, faults, mut warnings) = compile(file, document, Some(&deployment), None, options, env);
    if !faults.is_empty() {
        return Err(faults);
    }
    let Parts { mut variables, setup, workloads, teardown, included, uses_seed, services } = parts;
    let mut deployment = deployment;
    deployment.targets.extend(services);
    let lists = workloads.iter().flat_map(WorkloadPlan::lists).chain([&setup, &teardown]);
    let actions = lists.flat_map(|steps| step::actions(steps));
    let literals = actions.map(|action| action.call.base().origin.clone()).collect();
    variables.push((Arc::from("auth"), auth_value(&deployment.auth)));
    warnings.extend(deployment.warnings.iter().cloned());
    let (has_key, collector) = (deployment.hmac_key().is_some(), deployment.connection_string.as_ref());
    let receives = !deployment.spans.receive.is_empty();
    let propagation = Propagation::of(deployment.spans.headers.as_deref(), has_key, collector, receives);
    let profiling_off = profiling_off(&deployment, propagation, value, options);
    if profiling_off.is_none() {
        warnings.extend(propagation.warning(has_key, collector));
    }
    let needs_sample =
        |workload: &WorkloadPlan| workload.sla.needs_traces() || workload.asynchronous.is_some();
    let sampled = workloads.iter().any(needs_sample);
    let is_asynchronous = workloads.iter().any(|workload| workload.asynchronous.is_some());
    let mut plan = Plan {
        title: value.title.clone(),
        file: file.to_path_buf(),
        sha256: sha256(&document.source.text, &included),
        text: kept::without_secrets(&document.source),
        set: shown(value, options),
        control: match (value.profile, &profiling_off) {
            (Some(config::Profile::Control(share)), None) => ControlShare::from_percent(share.0),
            _ => ControlShare::NONE,
        },
        probe: ProbePlan::of(value.probe).filter(|_| !options.no_probe),
        propagation: if profiling_off.is_none() { propagation } else { Propagation::NONE },
        profiling_off,
        http: super::http_options::options(value.http.as_ref(), &deployment, literals),
        deployment,
        seed: options.seed.or(value.seed),
        uses_seed,
        variables,
        setup,
        workloads,
        parallel: value.parallel.unwrap_or(false),
        teardown,
        traces: traces(value.trace.unwrap_or_default(), sampled, is_asynchronous),
        timeout: value.timeout.map(|timeout| timeout.0),
        graceful_stop: value.graceful_stop.map_or(GRACEFUL_STOP, |stop| stop.0),
        shard: super::shard::Shard::WHOLE,
        warnings,
    };
    plan.warnings.extend(plan.asynchronous_warning());
    Ok(plan)
}

/// `sampled`: a threshold on traces or asynchronous work needs a random sample of iterations. Of asynchronous work, only
/// that sample says which iterations are slow, so it is larger.
fn traces(written: config::Trace, sampled: bool, is_asynchronous: bool) -> TraceFetchPlan {
    let limit = written.limit.unwrap_or(TRACES_LIMIT);
    let sample = written.limit.unwrap_or(if is_asynchronous { 2 * TRACES_LIMIT } else { TRACES_LIMIT });
    let (slow, others) = match written.fetch.unwrap_or(config::Fetch::Slow) {
        config::Fetch::None => (0, 0),
        config::Fetch::Slow if !sampled => (limit, 0),
        config::Fetch::Slow => (limit, sample),
        config::Fetch::All => (limit, sample),
    };
    TraceFetchPlan { slow, others, settle: written.settle.map_or(SETTLE, |settle| settle.0) }
}

/// Finds the faults of a scenario whose deployment cannot be used. Without a `stand_in` for it, the faults of its
/// targets are not found.
#[must_use]
pub fn faults_without_deployment(
    file: &Path,
    document: &Document<Scenario>,
    stand_in: Option<&ResolvedDeployment>,
    options: &PlanOptions,
    env: Env<'_>,
) -> Vec<Fault> {
    compile(file, document, stand_in, None, options, env).1
}

/// Adds faults from the readable part of a rejected scenario, so that all faults are reported at once.
pub fn find_further(
    file: &Path,
    rejected: &mut RejectedFile,
    deployment: Option<&ResolvedDeployment>,
    options: &PlanOptions,
    env: Env<'_>,
) {
    let Some(rest) = ::config::salvage::<Scenario>(rejected, &schema::SCENARIO) else { return };
    let whole = yaml::parse_all(&rejected.source).0;
    let (_, faults, _) = compile(file, &rest, deployment, whole.as_ref(), options, env);
    ::config::add_independent(&mut rejected.faults, faults);
}

/// A workload's runner and warm-up, as written.
type Load<'a> = (Option<&'a config_runner::Runner>, Option<config_runner::WarmUp>);

/// A workload, as written.
struct WrittenWorkload<'a> {
    load: Load<'a>,
    start_after: Duration,
    end: Option<End>,
    steps: &'a [config_step::Step],
    user: WrittenUser<'a>,
    sla: Option<&'a config::Sla>,
    contexts: Option<Arc<Contexts>>,
}

/// The compiled parts of a plan.
struct Parts {
    variables: Vec<(Arc<str>, Value)>,
    setup: Vec<PlanStep>,
    workloads: Vec<WorkloadPlan>,
    teardown: Vec<PlanStep>,
    uses_seed: bool,
    /// The texts of included files.
    included: Vec<String>,
    /// The targets that are looked up in the cloud's catalog although the deployment does not list them.
    services: BTreeMap<String, BaseUrl>,
}

/// SHA-256 of a scenario and the files that it includes, hexadecimal.
fn sha256(text: &str, included: &[String]) -> String {
    let mut digest = Sha256::new_with_prefix(text.as_bytes());
    included.iter().for_each(|text| digest.update(text.as_bytes()));
    hex::encode(&digest.finalize())
}

/// Compiles a scenario, or the readable part of one whose `whole` document has faults of structure.
fn compile(
    file: &Path,
    document: &Document<Scenario>,
    deployment: Option<&ResolvedDeployment>,
    whole: Option<&YamlNode>,
    options: &PlanOptions,
    env: Env<'_>,
) -> (Parts, Vec<Fault>, Vec<String>) {
    let (value, root) = (&document.value, &document.root);
    let folder = file.parent().unwrap_or(Path::new(""));
    let names = VariableNames {
        known: BUILT_IN.iter().chain([&RUN]).map(|name| (*name).to_owned()).collect(),
        reserved: contexts::reserved(value),
        whole: whole.map(|whole| (whole, ::config::words(whole))),
        ..VariableNames::default()
    };
    let mut texts = TextCompiler::new(names);
    let schemas = KnownSchemas::read(value.grpc.as_ref(), folder, at(root, &["grpc"]), &mut texts.faults);
    let mut compiler = Compiler {
        texts,
        targets: KnownTargets::new(deployment),
        referred: ReferredVariables::new(env),
        http: value.http.unwrap_or_default(),
        schemas,
        nesting: Nesting::default(),
        files: StepFiles::new(folder.to_path_buf()),
        requests_optional: options.requests_optional,
        warnings: Vec::new(),
    };
    let mut variables = compiler.variables(file, value, root, options, env);
    compiler.referred.resolve(&document.referred, folder, &mut compiler.texts);
    let data = compiler.data(file, value, root);
    let setup = compiler.steps(value.setup.as_deref().unwrap_or_default(), at(root, &["setup"]));
    compiler.without_measures("setup", at(root, &["setup"]));
    let after_setup = compiler.texts.names.known.clone();
    compiler.texts.names.known.extend(compiler.texts.names.data_names.iter().cloned());
    let in_workloads = compiler.texts.names.known.clone();
    let workloads = compiler.workloads(value, root, &in_workloads, &data);
    compiler.what_thresholds_need(value, root, &workloads);
    compiler.texts.faults.extend(faulty_fetch(value, root, &workloads));
    compiler.texts.faults.extend(faulty_cookies(&compiler.http, &workloads, root));
    compiler.texts.names.known = after_setup;
    let teardown = compiler.steps(value.teardown.as_deref().unwrap_or_default(), at(root, &["teardown"]));
    compiler.above_zero(value.timeout.map(|timeout| timeout.0), at(root, &["timeout"]), "timeout");
    let Compiler { texts, mut warnings, files, referred, targets, .. } = compiler;
    let (included, services) = (files.included, targets.services);
    let TextCompiler { faults, uses_seed, .. } = texts;
    variables.extend(referred.values);
    warnings.dedup();
    (Parts { variables, setup, workloads, teardown, included, uses_seed, services }, faults, warnings)
}

/// Why nothing is profiled, if so. The order of the reasons is the order in which a user would look.
fn profiling_off(
    deployment: &ResolvedDeployment,
    propagation: Propagation,
    scenario: &Scenario,
    options: &PlanOptions,
) -> Option<String> {
    let reason = if options.no_profile {
        "switched off with --no-profile"
    } else if scenario.profile == Some(config::Profile::Switch(false)) {
        "switched off by the scenario (profile: false)"
    } else if !deployment.profiler_enabled {
        "switched off by the deployment (profiler.enabled: false)"
    } else if !propagation.traces() {
        "the deployment has no HMAC key (profiler.hmac_key); services that speak OpenTelemetry need none: add --receive, or \
         profiler: {receive: 127.0.0.1:4318}"
    } else {
        return None;
    };
    Some(reason.to_owned())
}

/// The values of `--set`, as results may show them.
fn shown(scenario: &Scenario, options: &PlanOptions) -> BTreeMap<String, String> {
    let declared = |name: &str| {
        let variable = scenario.variables.as_ref().and_then(|variables| variables.get(name));
        variable.and_then(config::variable_reference).is_some()
    };
    options.set.iter().map(|(name, given)| (name.clone(), given.shown(name, declared(name)))).collect()
}

/// `auth.username`, `auth.password` and so on, for scenarios that test logging in.
fn auth_value(auth: &Auth) -> Value {
    let pairs: Vec<(&str, &str)> = match auth {
        Auth::None => Vec::new(),
        Auth::Basic { username, password } => vec![("username", username), ("password", password.expose())],
        Auth::Bearer { token } => vec![("token", token.expose())],
        Auth::OAuth2(grant) => {
            vec![("client_id", &grant.client_id), ("client_secret", grant.client_secret.expose())]
        }
        Auth::Command(_) => Vec::new(),
        Auth::Keystone(keystone) => keystone.values(),
    };
    pairs.into_iter().collect()
}

impl Compiler<'_> {
    fn variables(
        &mut self,
        file: &Path,
        value: &Scenario,
        root: &YamlNode,
        options: &PlanOptions,
        env: Env<'_>,
    ) -> Vec<(Arc<str>, Value)> {
        let folder = file.parent().unwrap_or(Path::new(""));
        let declared = value.variables.as_ref();
        let mut variables = Vec::new();
        for (name, variable) in declared.into_iter().flatten() {
            let node = at(root, &["variables", name]);
            self.texts.variable_name(name, key_span(at(root, &["variables"]), name));
            let resolved = match (options.set.get(name), config::variable_reference(variable)) {
                (Some(set), reference) => {
                    if set.is_secret(name, reference.is_some()) {
                        masking::hide(set.expose());
                    }
                    if reference.is_some() && set.stands_on_the_command_line() {
                        self.warnings.push(format!(
                            "--set {name}=… contains a secret that other users of this machine can see in the process list: write {name}=@FILE or {name}=env:VARIABLE"
                        ));
                    }
                    Ok(Value::from(set.expose()))
                }
                (None, Some(reference)) => references::resolve(&reference, folder, env).map(|secret| {
                    if !env.is_offline() {
                        masking::hide(secret.expose());
                    }
                    Value::from(secret.expose())
                }),
                (None, None) => {
                    if let Some(text) = variable.0.as_str().filter(|_| names_secret(name)) {
                        masking::hide(text);
                    }
                    Ok(template::from_json(&variable.0))
                }
            };
            match resolved {
                Ok(resolved) => variables.push((Arc::from(name.as_str()), resolved)),
                Err(complaint) => {
                    self.texts.faults.push(Fault::of(node.span.clone(), complaint));
                }
            }
            self.texts.names.known.insert(name.clone());
        }
        let names: Vec<&str> = declared.into_iter().flatten().map(|(name, _)| name.as_str()).collect();
        for name in options.set.keys().filter(|name| !names.contains(&name.as_str())) {
            let fault = Fault::file(format!("--set {name}=…: the scenario has no such variable"));
            self.texts.faults.push(fault.help(match did_you_mean(name, names.iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None if names.is_empty() => "declare it under `variables:`; there are none yet".to_owned(),
                None => format!("declare it under `variables:`; declared variables: {}", names.join(", ")),
            }));
        }
        variables
    }

    /// Reports thresholds for which nothing would be measured.
    fn what_thresholds_need(&mut self, value: &Scenario, root: &YamlNode, workloads: &[WorkloadPlan]) {
        let mut need = |span: std::ops::Range<usize>, message: String, help: &str| {
            self.texts.faults.push(Fault::error(span, message).help(help));
        };
        let needing = |of: fn(&Metric) -> bool| {
            let thresholds = workloads.iter().flat_map(|workload| &workload.sla.thresholds);
            thresholds.map(|threshold| &threshold.condition.metric).find(|metric| of(metric))
        };
        let fetch = value.trace.and_then(|trace| trace.fetch);
        if let (Some(metric), Some(config::Fetch::None)) = (needing(Metric::needs_traces), fetch) {
            let message = format!("{metric} needs traces, but none are fetched");
            need(key_span(at(root, &["trace"]), "fetch"), message, "remove `fetch: none`, or the threshold");
        }
        let controlled = matches!(value.profile, Some(config::Profile::Control(_)));
        if let (Some(metric), false, None) =
            (needing(Metric::needs_control), controlled, &self.texts.names.whole)
        {
            let message = format!("{metric} needs unprofiled iterations to compare with");
            let span = first_key(root);
            need(span, message, "add `profile: { control: 10% }`, or remove the threshold");
        }
    }

    fn workloads(
        &mut self,
        value: &Scenario,
        root: &YamlNode,
        known: &BTreeSet<String>,
        data: &[Arc<Feeder>],
    ) -> Vec<WorkloadPlan> {
        let single = [
            ("runner", value.runner.is_some()),
            ("iteration", value.iteration.is_some()),
            ("sla", value.sla.is_some()),
            ("warm_up", value.warm_up.is_some()),
            ("end", value.end.is_some()),
        ];
        if value.parallel.is_some() && value.workloads.is_none() && !self.is_written("workloads") {
            let span = key_span(root, "parallel");
            self.texts.faults.push(
                Fault::error(span, "`parallel` without `workloads`")
                    .help("remove it, or write a list of `workloads:` to run at the same time"),
            );
        }
        let shared = self.contexts(value.contexts.as_ref(), root);
        let of_all = WrittenUser::none(root).replaced((&value.user_setup, &value.user_teardown), root);
        let Some(list) = &value.workloads else {
            if let (Some(runner), Some(steps)) = (&value.runner, &value.iteration) {
                let load = (Some(runner), value.warm_up);
                let start_after = Duration::ZERO;
                let (end, sla) = (value.end, value.sla.as_ref());
                let contexts = shared;
                let written = WrittenWorkload { load, start_after, end, steps, user: of_all, sla, contexts };
                return self.workload(&value.title, &written, data, root).into_iter().collect();
            }
            self.incomplete(value, root, &single[..2]);
            return Vec::new();
        };
        for (key, _) in single.iter().filter(|(_, there)| *there) {
            let fault =
                Fault::error(at(root, &[key]).span.clone(), format!("`{key}` together with `workloads`"));
            self.texts.faults.push(fault.help("move it into an item of `workloads`"));
        }
        let nodes = at(root, &["workloads"]);
        if list.len() > WORKLOADS_MAX {
            let fault = Fault::error(nodes.span.clone(), format!("more than {WORKLOADS_MAX} workloads"));
            self.texts.faults.push(fault.help("split the file"));
            return Vec::new();
        }
        let mut names = BTreeSet::new();
        let mut workloads = Vec::new();
        for (index, config) in list.iter().enumerate() {
            let node = item(nodes, index);
            if !names.insert(&config.name) {
                let span = at(node, &["name"]).span.clone();
                self.texts.faults.push(
                    Fault::error(span, format!("a second workload named `{}`", config.name))
                        .help("rename one"),
                );
            }
            self.texts.names.known.clone_from(known);
            let written = WrittenWorkload {
                load: (config.runner.as_ref(), config.warm_up),
                start_after: config.start_after.map_or(Duration::ZERO, |wait| wait.0),
                end: config.end,
                steps: &config.iteration,
                user: of_all.replaced((&config.user_setup, &config.user_teardown), node),
                sla: config.sla.as_ref(),
                contexts: self.contexts(config.contexts.as_ref(), node).or_else(|| shared.clone()),
            };
            workloads.extend(self.workload(&config.name, &written, data, node));
        }
        workloads
    }

    /// Finds the faults of a scenario that has neither a whole workload nor a list of them. `needed`: the keys that it
    /// needs, and whether they are there.
    fn incomplete(&mut self, value: &Scenario, root: &YamlNode, needed: &[(&str, bool)]) {
        // A key with a fault has already been reported.
        let missing: Vec<&str> = needed
            .iter()
            .filter(|(key, there)| !there && !self.is_written(key))
            .map(|(key, _)| *key)
            .collect();
        self.sla(value.sla.as_ref(), root, None);
        if let Some(sole) = &value.runner {
            self.runner((Some(sole), value.warm_up), root);
        }
        if let Some(steps) = value.iteration.as_ref().filter(|steps| steps.len() <= ACTIONS_MAX) {
            self.steps(steps, at(root, &["iteration"]));
        }
        for key in missing {
            let fault = Fault::error(first_key(root), format!("the scenario lacks the key `{key}`"));
            self.texts
                .faults
                .push(fault.help(format!("add `{key}:`, or a list of `workloads:` that have it")));
        }
    }

    fn workload(
        &mut self,
        name: &str,
        written: &WrittenWorkload<'_>,
        data: &[Arc<Feeder>],
        node: &YamlNode,
    ) -> Option<WorkloadPlan> {
        self.texts.names.data_used.clear();
        let WrittenWorkload { load, start_after, end, steps, user, sla, ref contexts } = *written;
        self.know_contexts(contexts.as_ref());
        let (steps_node, faults_before) = (at(node, &["iteration"]), self.texts.faults.len());
        if steps.len() > ACTIONS_MAX {
            let fault = Fault::error(steps_node.span.clone(), format!("more than {ACTIONS_MAX} steps"));
            self.texts.faults.push(fault.help("split the iteration, or repeat it with `times`"));
            return None;
        }
        let user_setup = self.user_steps("user_setup", user.setup, data);
        let of_user = self.texts.names.known.clone();
        let steps = self.steps(steps, steps_node);
        let of_iteration = std::mem::replace(&mut self.texts.names.known, of_user);
        let user_teardown = self.user_steps("user_teardown", user.teardown, data);
        self.texts.names.known = of_iteration;
        let needs_request = !self.requests_optional && step::actions(&steps).is_empty();
        if self.texts.faults.len() == faults_before && needs_request {
            let fault = Fault::error(steps_node.span.clone(), "the iteration has no request");
            self.texts.faults.push(fault.help("add an action with get, post, …"));
        }
        let runner = self.runner(load, node);
        // If steps have faults, some action names may be unknown.
        let known = self.texts.faults.len() == faults_before && self.texts.names.whole.is_none();
        let names = step::names(&step::named(&steps));
        let sla = self.sla(sla, node, known.then_some(&names));
        let sla = sla?;
        let asynchronous = self.end(end, &sla, node);
        let used = |feeder: &&Arc<Feeder>| self.texts.names.data_used.contains(&**feeder.name());
        let data: Vec<Arc<Feeder>> = data.iter().filter(used).cloned().collect();
        self.texts.uses_seed |= data.iter().any(|feeder| feeder.is_random());
        let (name, runner) = (name.to_owned(), runner?);
        let draws = matches!(&runner.model, Model::Open(open) if open.random);
        self.texts.uses_seed |= draws || step::draws(&steps);
        let contexts = contexts.clone();
        let workload = WorkloadPlan {
            name,
            runner,
            start_after,
            steps,
            user_setup,
            user_teardown,
            data,
            sla,
            asynchronous,
            contexts,
        };
        self.enough_rows(&workload, node);
        Some(workload)
    }

    /// The runner of the workload at `node`, with its warm-up.
    fn runner(&mut self, (config, warm_up): Load<'_>, node: &YamlNode) -> Option<Runner> {
        let config = config?;
        let runner_node = at(node, &["runner"]);
        let kind = runner_node.entries().first().map_or(runner_node, |(_, kind)| kind);
        if let Some(config_runner::WarmUp::For(lasts)) = warm_up {
            self.above_zero(Some(lasts), at(node, &["warm_up"]), "warm_up");
        }
        let runner = match Runner::from_config(config, warm_up) {
            Ok(runner) => runner,
            Err(fault) => {
                let place = match fault.path.first().map(String::as_str) {
                    Some("warm_up") => at(node, &["warm_up"]),
                    Some(_) => fault.path.iter().fold(kind, |node, key| match key.parse() {
                        Ok(index) => item(node, index),
                        Err(_) => at(node, &[key]),
                    }),
                    None => kind,
                };
                let span = if self.texts.names.whole.is_some() {
                    // This fault may follow from another fault of the runner; the wide span lets that one replace it.
                    kind.span.clone()
                } else if place.entries().is_empty() {
                    place.span.clone()
                } else {
                    // A map is shown by its first key, not as a whole.
                    first_key(place)
                };
                self.texts.faults.push(Fault::of(span, fault.complaint));
                return None;
            }
        };
        let duration = match config {
            config_runner::Runner::ConstantForDuration(timed) => Some(timed.duration.0),
            config_runner::Runner::Rps(rps) => rps.duration.map(|duration| duration.0),
            _ => None,
        };
        self.above_zero(Some(runner.timeout), at(kind, &["timeout"]), "timeout");
        self.above_zero(duration, at(kind, &["duration"]), "duration");
        Some(runner)
    }

    /// True if the file has this key, perhaps with a fault.
    fn is_written(&self, key: &str) -> bool {
        self.texts.names.whole.as_ref().is_some_and(|(whole, _)| whole.get(key).is_some())
    }

    /// Reports a duration of zero, which is a mistake: every request would fail, or none would be sent.
    pub(super) fn above_zero(&mut self, duration: Option<Duration>, node: &YamlNode, name: &str) {
        if duration.is_some_and(|duration| duration.is_zero()) {
            let fault = Fault::error(node.span.clone(), format!("`{name}` is zero"));
            self.texts.faults.push(fault.help(format!("give it a length, such as 5s, or remove `{name}`")));
        }
    }

    /// The criteria of the workload at `node`.
    fn sla(
        &mut self,
        sla: Option<&config::Sla>,
        node: &YamlNode,
        names: Option<&ActionNames>,
    ) -> Option<Sla> {
        let resolved = Sla::resolve(sla, at(node, &["sla"]), names);
        resolved.map_err(|faults| self.texts.faults.extend(faults)).ok()
    }
}
