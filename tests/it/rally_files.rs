//! Files that Rally's task files name: where they are looked for, and what templates take from them.

use crate::rally::v2;
use crate::support::Bench;

#[test]
fn files_that_arguments_name_are_found_as_rally_finds_them() {
    let bench = Bench::new();
    let book = "version: '2.0'\nworkflows: { w: { tasks: { a: { action: std.noop } } } }\n";
    for folder in ["home", "tasks"] {
        std::fs::create_dir(bench.path().join(folder)).unwrap();
    }
    for path in ["here.yaml", "home/at-home.yaml", "tasks/beside.yaml"] {
        bench.write(path, book);
    }
    bench.write(
        "cloud.yaml",
        "auth: { keystone: { auth_url: \"http://127.0.0.1:1/v3\", username: u, password: { env: PW }, project_name: p } }",
    );
    for (definition, code) in [
        ("here.yaml", 0),
        ("~/at-home.yaml", 0),
        ("beside.yaml", 0),
        ("tasks/beside.yaml", 0),
        ("at-home.yaml", 65),
    ] {
        let scenario =
            format!("  scenario: {{ MistralWorkbooks.create_workbook: {{ definition: {definition} }} }}\n");
        bench.write("tasks/task.yaml", v2(&scenario));
        let mut command = bench.command(&["validate", "tasks/task.yaml", "-d", "cloud.yaml"]);
        command.env("HOME", bench.path().join("home")).env("PW", "x");
        let ended = Bench::end(&mut command).expect_code(code);
        assert!(code == 0 || ended.stderr.contains("cannot read"), "{definition}: {ended:?}");
    }
}

#[test]
fn tasks_import_macros_and_include_files_beside_them() {
    let bench = Bench::new();
    let macros = "{%- macro runner(times) %}\n    serial:\n      times: {{ times }}\n{%- endmacro %}\n";
    bench.write("macros.yaml", macros);
    bench.write(
        "rest.yaml",
        "- title: b\n  scenario: { Dummy.dummy: {} }\n  runner: {{- runner(times + 1) }}\n",
    );
    bench.write(
        "task.yaml",
        "{%- from 'macros.yaml' import runner %}\nversion: 2\ntitle: t\nsubtasks:\n- title: a\n  \
         scenario: { Dummy.dummy: {} }\n  runner: {{- runner(times) }}\n{% include 'rest.yaml' %}\n",
    );
    bench.run(&["run", "task.yaml", "--task-args", "times: 2"]).expect_code(0);
    let results = bench.results();
    let counts =
        results["workloads"].as_array().unwrap().iter().map(|workload| &workload["iterations"]["total"]);
    assert_eq!(counts.collect::<Vec<_>>(), [2, 3]);
    // A fault in a file names it and its line, at the statement that names the file.
    bench.write("macros.yaml", macros.replace("serial:", "serail:"));
    let ended = bench.run(&["validate", "task.yaml", "--task-args", "times: 2"]).expect_code(65);
    let message = "the runner `serail` is not supported (line 2 of macros.yaml)";
    assert!(ended.stderr.contains(message) && ended.stderr.contains("task.yaml:1:"), "{ended:?}");
    assert!(ended.stderr.contains("{%- from 'macros.yaml' import runner %}"), "{ended:?}");
}

/// A task may come from somebody else: what it includes is below its folder.
#[cfg(unix)]
#[test]
fn a_task_includes_only_what_is_below_its_folder() {
    let bench = Bench::new();
    std::fs::create_dir_all(bench.path().join("task/parts")).unwrap();
    let outside = bench.write("outside.yaml", "  scenario: { Dummy.dummy: {} }\n");
    bench.write("task/parts/inside.yaml", "  scenario: { Dummy.dummy: {} }\n");
    std::os::unix::fs::symlink(&outside, bench.path().join("task/link.yaml")).unwrap();
    std::os::unix::fs::symlink("parts/inside.yaml", bench.path().join("task/near.yaml")).unwrap();
    for (name, code) in [
        ("parts/inside.yaml", 0),
        ("./parts/inside.yaml", 0),
        ("near.yaml", 0),
        ("../outside.yaml", 65),
        ("parts/../../outside.yaml", 65),
        (outside.to_str().unwrap(), 65),
        ("link.yaml", 65),
    ] {
        bench.write("task/task.yaml", v2(&format!("{{% include '{name}' %}}\n")));
        let ended = bench.run(&["validate", "task/task.yaml"]).expect_code(code);
        assert!(
            code == 0
                || ended.stderr.contains("the task's folder")
                || ended.stderr.contains("its own folder"),
            "{name}: {ended:?}"
        );
    }
}

/// Programs that a task starts are named before it runs.
#[test]
fn programs_of_hooks_are_announced() {
    let bench = Bench::new();
    let hooks = "  scenario: { Dummy.dummy: {} }\n  hooks:\n  - action: { sys_call: \"touch 'a b'\" }\n    trigger: { event: { unit: iteration, at: [2] } }\n";
    bench.write("task.yaml", v2(hooks));
    for arguments in [
        &["validate", "task.yaml"][..],
        &["validate", "task.yaml", "--explain"],
        &["run", "task.yaml", "--once"],
    ] {
        let ended = bench.run(arguments).expect_code(0);
        let said = ended.stdout + &ended.stderr;
        assert!(
            said.contains("on this machine") && said.contains("at iteration 2: touch 'a b'"),
            "{arguments:?}: {said}"
        );
    }
}
