//! The scenarios that are shipped and need nothing but the embedded demo: each runs and passes.

use std::path::Path;

use crate::support::Bench;

#[test]
fn shipped_scenarios_for_the_demo_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_yaml = path.extension().is_some_and(|extension| extension == "yaml");
        if !is_yaml
            || !std::fs::read_to_string(&path).unwrap().contains("deployment: ../deployments/demo.yaml")
        {
            continue;
        }
        let bench = Bench::new();
        // The steps that every scenario has are run a few times only.
        bench.run(&["run", path.to_str().unwrap(), "-n", "20", "-c", "2", "-q"]).expect_code(0);
        let results = bench.results();
        for workload in results["workloads"].as_array().unwrap() {
            assert_eq!(workload["iterations"]["failed"], 0, "{}: {}", path.display(), workload["errors"]);
        }
        count += 1;
    }
    assert!(count >= 2, "{count}");
}
