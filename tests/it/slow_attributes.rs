//! What slow iterations have more often anywhere in their traces, through the real path: in the results and in every
//! report.

use crate::support::Bench;

#[test]
fn an_attribute_of_another_point_than_the_cause_is_named() {
    let bench = Bench::new();
    bench.write("d.yaml", "name: d\ndemo: { slow_percent: 8, slow_query: 1s }\n");
    let demo = std::fs::read_to_string("scenarios/demo.yaml").unwrap();
    let demo = demo.replace("times: 2000, concurrency: 10", "times: 600, concurrency: 6");
    bench.write("scenario.yaml", demo.replace("../deployments/demo.yaml", "d.yaml"));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let comparison = &results["workloads"][0]["comparison"];
    let differences = &comparison["differences"];
    let found = differences["found"].as_array().unwrap();
    // The cause is the statement; the attribute is that of the call around it.
    let missed =
        found.iter().find(|one| one["attribute"] == "cache").unwrap_or_else(|| panic!("{comparison}"));
    assert_eq!(missed["value"], "miss", "{differences}");
    assert!(missed["low"].as_f64().unwrap() >= 0.2 && missed["chance"].as_f64().unwrap() <= 0.05, "{missed}");
    let cause = &comparison["kinds"][0];
    assert!(cause["guilty"] == true && cause["detail"].as_str().unwrap().contains("assignment"), "{cause}");
    let repeated =
        |one: &&serde_json::Value| one["value"].as_str().is_some_and(|value| value.contains("assignment"));
    assert_eq!(found.iter().find(repeated), None, "the cause is not repeated");
    let read = |name: &str| std::fs::read_to_string(bench.run_directory().join(name)).unwrap();
    for text in [ended.stdout, read("report.md"), read("report.html")] {
        assert!(text.contains("cache=miss") || text.contains("cache = miss"), "{text}");
    }
}
