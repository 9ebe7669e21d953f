//! The command that runs a stored load again.

use std::path::Path;

use serde_json::Value;
use text::shell;
use text::yaml;

use results::model::Results;

/// What stands for the files of a load that was made of a URL, and of a scenario whose URLs are whole.
const OF_URL: &str = "scenario of the URL";
const MADE_FOR_URL: &str = "deployment of the URL";
const WHOLE_URLS: &str = "URLs of the scenario";
/// The keys of a step with a method of HTTP.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// The command that runs the scenario again, with the same values and data.
pub(crate) fn command(results: &Results) -> String {
    let mut words = vec!["bench".to_owned(), "run".to_owned()];
    match of_url(results) {
        Some(options) => words.extend(options.iter().map(|word| shell::word(word))),
        None => {
            words.push(shell::path(Path::new(&results.scenario.file)));
            // A deployment that was made of a scenario, or of a task, has no file of its own.
            if ![WHOLE_URLS, &results.scenario.file].contains(&&*results.deployment.file) {
                words.extend(["-d".to_owned(), shell::path(Path::new(&results.deployment.file))]);
            }
        }
    }
    for (name, value) in &results.scenario.set {
        words.extend(["--set".to_owned(), shell::word(&format!("{name}={value}"))]);
    }
    words.extend(results.scenario.options.iter().map(|word| shell::word(word)));
    words.extend(results.run.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
    words.join(" ")
}

/// The URL and the options that a scenario without a file was made of; secrets are `***`, as in the scenario's text.
fn of_url(results: &Results) -> Option<Vec<String>> {
    let scenario = &results.scenario;
    let text = scenario.text.as_ref().filter(|_| scenario.file == OF_URL)?;
    let source = yaml::source(&scenario.file, text.as_bytes()).ok()?;
    let root = yaml::parse(&source).ok()?;
    let root = serde_json::to_value(root.to_value()).ok()?;
    let step = root["iteration"][0].as_object()?;
    let (method, path) = match step.get("request").and_then(Value::as_str) {
        Some(request) => request.split_once(' ').map(|(method, path)| (method.to_owned(), path))?,
        None => METHODS.iter().find_map(|key| Some((key.to_uppercase(), step.get(*key)?.as_str()?)))?,
    };
    let origin = results.deployment.targets.get("default")?.trim_end_matches('/');
    let mut words = vec![format!("{origin}{path}")];
    let body = step.get("body").and_then(Value::as_str);
    if method != if body.is_some() { "POST" } else { "GET" } {
        words.extend(["-m".to_owned(), method]);
    }
    for (name, value) in step.get("headers").and_then(Value::as_object).into_iter().flatten() {
        words.extend(["-H".to_owned(), format!("{name}: {}", plain(value))]);
    }
    words.extend(body.into_iter().flat_map(|body| ["--data".to_owned(), body.to_owned()]));
    words.extend(time_option("--timeout", step.get("timeout")));
    words.extend(shape(&root["runner"]));
    words.extend(time_option("--warm-up", root.get("warm_up")));
    let thresholds = root["sla"]["thresholds"].as_array().into_iter().flatten();
    words.extend(thresholds.flat_map(|one| ["--threshold".to_owned(), plain(one)]));
    if !results.deployment.tls_verified {
        words.push("-k".to_owned());
    }
    if results.deployment.file != MADE_FOR_URL {
        words.extend(["-d".to_owned(), results.deployment.file.clone()]);
    }
    Some(words)
}

fn time_option(name: &str, time: Option<&Value>) -> Vec<String> {
    time.and_then(Value::as_str).map(|time| vec![name.to_owned(), time.to_owned()]).unwrap_or_default()
}

/// The options of a runner's load.
fn shape(runner: &Value) -> Vec<String> {
    let settings = runner.as_object().and_then(|runner| runner.values().next());
    let option = |keys: &[&str], option: &str| {
        let value = keys.iter().find_map(|key| settings?.get(*key)).filter(|value| !value.is_null())?;
        // Rates are written as `100/s`, and times may be plain seconds.
        let unit = if option == "-z" && value.is_number() { "s" } else { "" };
        Some([option.to_owned(), format!("{}{unit}", plain(value).trim_end_matches("/s"))])
    };
    let all = [
        option(&["concurrency", "max_concurrency"], "-c"),
        option(&["times"], "-n"),
        option(&["duration"], "-z"),
        option(&["rps", "rate"], "--rate"),
    ];
    all.into_iter().flatten().flatten().collect()
}

fn plain(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if value.is_number() { text.trim_end_matches(".0").to_owned() } else { text }
}
