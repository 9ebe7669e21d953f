//! Kubernetes: an Indexed Job with a pod for each shard, and a Job that waits for their runs and merges them.
//!
//! Kubernetes starts no job after another one, so the one that merges begins at once and waits.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::HarnessError;
use base::visible::on_one_line;
use config;

use super::bundle::Bundle;
use super::{LaunchOptions, clear};

/// A ConfigMap holds 1 MiB, with the names of the files.
const FILES_BYTES_MAX: usize = 1_000_000;
/// Where the files are in a pod.
const FILES: &str = "/load";
/// Where the runs are.
const RUNS: &str = "/runs";
/// The user of the image that may do the least.
const NOBODY: u32 = 65_534;
/// How often a pod that failed is started again, over all shards.
const RETRIES: u32 = 3;

/// A load that Kubernetes is to make.
#[derive(Clone, Debug)]
pub struct KubernetesOptions {
    /// The load.
    pub launch: LaunchOptions,
    /// The image, whose entry point is `bench`.
    pub image: String,
    /// Further files that the scenario and the deployment name.
    pub include: Vec<PathBuf>,
    /// The name of all objects. No other load has it.
    pub name: String,
    /// The Secret whose keys are the variables that the files refer to.
    pub secret: String,
    /// A volume claim that is there, instead of a new one. All nodes must be able to mount it.
    pub claim: Option<String>,
    /// The size of a new one.
    pub size: String,
}

impl KubernetesOptions {
    /// A name for the load of a scenario that no other load has.
    #[must_use]
    pub fn name_for(scenario: &Path) -> String {
        let stem = scenario.file_stem().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let mut name: String =
            stem.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(30).collect();
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            name.insert_str(0, "load-");
        }
        let random = uuid::Uuid::new_v4().simple().to_string();
        format!("{}-{}", name.trim_end_matches('-'), &random[..8])
    }

    /// The manifests for `kubectl apply -f`.
    ///
    /// # Errors
    /// All faults of the files, or what no cluster would accept.
    pub fn manifests(&self) -> Result<String, HarnessError> {
        let bundle = Bundle::of(&self.launch, &self.include)?;
        let bytes: usize = bundle.files.iter().map(|(name, bytes)| name.len() + bytes.len()).sum();
        if bytes > FILES_BYTES_MAX {
            return Err(HarnessError::input(format!(
                "the files have {bytes} bytes, and a ConfigMap holds 1 MiB"
            ))
            .remedy("make the data smaller, or put the files into an image of your own, based on this one"));
        }
        let mut objects = vec![self.files(&bundle)];
        objects.extend(self.claim.is_none().then(|| self.volume_claim()));
        objects.push(self.load(&bundle));
        objects.push(self.merge(&bundle));
        let mut text = self.head(&bundle);
        for object in &objects {
            text.push_str("---\n");
            text.push_str(&config::write(object).map_err(|error| HarnessError::failed(error.to_string()))?);
        }
        Ok(text)
    }

    fn head(&self, bundle: &Bundle) -> String {
        let Self { name, secret, launch, .. } = self;
        let (count, version) = (launch.shards, env!("CARGO_PKG_VERSION"));
        let mut text = format!(
            "# {} in {count} shards, by bench {version}. Print it again for another load: these names, and the trace ids that are\n\
             # made from them, are for one.\n\
             #   kubectl apply -f FILE\n\
             #   kubectl wait --for=condition=complete --timeout=-1s job/{name}-merge   # it fails unless the gate passes\n\
             #   kubectl logs job/{name}-merge\n",
            on_one_line(&bundle.scenario)
        );
        text.push_str(
            "# A limit of processor time must allow a whole processor for each worker (bench run --workers; by default as many as\n\
             # the limit allows): what was throttled for a tenth of its load is INVALID. Look for a LimitRange of the namespace.\n",
        );
        if !bundle.variables.is_empty() {
            let keys: Vec<String> =
                bundle.variables.iter().map(|name| format!("--from-literal={name}=\"${name}\"")).collect();
            let _ = writeln!(text, "# Before: kubectl create secret generic {secret} {}", keys.join(" "));
        }
        for (file, bytes) in &bundle.files {
            let columns = clear::secret_columns(file, bytes).join(", ");
            if !columns.is_empty() {
                let said =
                    format!("# In clear, for everybody who may read the ConfigMap: {columns} in {file}");
                let _ = writeln!(text, "{}", on_one_line(&said));
            }
        }
        text
    }

    /// The key of a file in the ConfigMap, which has no directories.
    fn key(number: usize, name: &str) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
        let last: String = name.rsplit('/').next().unwrap_or_default().chars().map(plain).take(200).collect();
        format!("{number}-{last}")
    }

    fn files(&self, bundle: &Bundle) -> Value {
        let (mut texts, mut binary) = (serde_json::Map::new(), serde_json::Map::new());
        for (number, (name, bytes)) in bundle.files.iter().enumerate() {
            let key = Self::key(number, name);
            match std::str::from_utf8(bytes) {
                Ok(text) => texts.insert(key, text.into()),
                Err(_) => binary.insert(key, base64(bytes).into()),
            };
        }
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": self.metadata(""),
            "data": texts,
        });
        if !binary.is_empty() {
            object["binaryData"] = binary.into();
        }
        object
    }

    fn volume_claim(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "metadata": self.metadata(""),
            "spec": {
                "accessModes": ["ReadWriteMany"],
                "resources": { "requests": { "storage": self.size } },
            },
        })
    }

    fn load(&self, bundle: &Bundle) -> Value {
        let LaunchOptions { shards, wait, arguments, .. } = &self.launch;
        let mut words: Vec<String> = vec!["run".into(), bundle.scenario.clone()];
        words.extend(["--deployment".into(), bundle.deployment.clone()]);
        words.extend(arguments.iter().cloned());
        let runs = self.runs();
        for (option, value) in [
            ("--out", format!("{runs}/shards")),
            ("--together", format!("{runs}/meet")),
            ("--wait", wait.clone()),
        ] {
            words.extend([option.to_owned(), value]);
        }
        let own = [("BENCH_SHARDS", shards.to_string()), ("BENCH_JOB", self.name.clone())];
        let mut job = self.job("", self.pod(bundle, &words, &own));
        // A whole processor for each worker: less would be a quota that stops them for a part of each period.
        let workers = self.launch.load.workers;
        let container = &mut job["spec"]["template"]["spec"]["containers"][0];
        container["resources"] = match workers {
            Some(workers) => {
                json!({ "requests": { "cpu": workers.to_string() }, "limits": { "cpu": workers.to_string() } })
            }
            None => json!({ "requests": { "cpu": "1" } }),
        };
        let spec = &mut job["spec"];
        spec["completionMode"] = "Indexed".into();
        spec["completions"] = (*shards).into();
        spec["parallelism"] = (*shards).into();
        spec["backoffLimit"] = RETRIES.into();
        job
    }

    fn merge(&self, bundle: &Bundle) -> Value {
        let runs = self.runs();
        let words = ["merge", &format!("{runs}/shards"), "--out", &runs, "--wait", "24h", "--collect"];
        let mut job = self.job("-merge", self.pod(bundle, &words.map(str::to_owned), &[]));
        // Its exit code is the verdict's, which another attempt would not change.
        job["spec"]["backoffLimit"] = 0.into();
        job
    }

    fn runs(&self) -> String {
        format!("{RUNS}/{}", self.name)
    }

    fn metadata(&self, suffix: &str) -> Value {
        json!({ "name": format!("{}{suffix}", self.name), "labels": { "app.kubernetes.io/name": "bench", "app.kubernetes.io/instance": self.name } })
    }

    fn job(&self, suffix: &str, pod: Value) -> Value {
        json!({
            "apiVersion": "batch/v1", "kind": "Job",
            "metadata": self.metadata(suffix),
            "spec": { "template": { "metadata": { "labels": self.metadata("")["labels"] }, "spec": pod } },
        })
    }

    fn pod(&self, bundle: &Bundle, words: &[String], own: &[(&str, String)]) -> Value {
        let mut variables: Vec<Value> =
            own.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect();
        variables.extend(bundle.variables.iter().map(|name| {
            json!({ "name": name, "valueFrom": { "secretKeyRef": { "name": self.secret, "key": name } } })
        }));
        let items: Vec<Value> = bundle
            .files
            .iter()
            .enumerate()
            .map(|(number, (name, _))| json!({ "key": Self::key(number, name), "path": name }))
            .collect();
        let claim = self.claim.as_deref().unwrap_or(&self.name);
        json!({
            "restartPolicy": "Never",
            "securityContext": {
                "runAsNonRoot": true, "runAsUser": NOBODY, "runAsGroup": NOBODY, "fsGroup": NOBODY,
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "containers": [{
                "name": "bench",
                "image": self.image,
                "workingDir": FILES,
                "args": words.iter().map(|word| literal(word)).collect::<Vec<String>>(),
                "env": variables,
                "securityContext": {
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                    "capabilities": { "drop": ["ALL"] },
                },
                "volumeMounts": [
                    { "name": "load", "mountPath": FILES, "readOnly": true },
                    { "name": "runs", "mountPath": RUNS },
                ],
            }],
            "volumes": [
                { "name": "load", "configMap": { "name": self.name, "items": items } },
                { "name": "runs", "persistentVolumeClaim": { "claimName": claim } },
            ],
        })
    }
}

/// A text as Kubernetes hands it on: in an argument, `$(NAME)` is a variable and `$$` is a dollar sign.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
