//! That every file is there, and what contexts change. The integration tests run all of them.

use serde_json::json;

use super::*;
use crate::nodes::to_json;
use crate::scenarios::ArgumentFiles;

#[test]
fn every_name_is_that_of_a_file_and_says_what_it_does() {
    for scenario in all() {
        let about = scenario.about();
        assert!(
            about.len() > 10 && !about.ends_with('.') && !about.contains('#'),
            "{}: {about}",
            scenario.name
        );
        let root = parsed(&scenario.file()).unwrap();
        for key in ["setup", "iteration", "teardown"] {
            let list = root.get(key).cloned().unwrap_or_else(|| NodeFactory(0..0).list(Vec::new()));
            for (path, steps) in steps::included(&list) {
                assert!(!steps.is_empty(), "{} includes {path}", scenario.name);
            }
        }
    }
}

#[test]
fn arguments_are_those_that_the_files_have() {
    for scenario in all() {
        let root = parsed(&scenario.file()).unwrap();
        let has = |variable: &str| at(&root, &["variables"]).get(variable).is_some();
        for argument in scenario.arguments() {
            let needed = match argument.becomes {
                ArgumentMapping::Variable(variable)
                | ArgumentMapping::Given(variable)
                | ArgumentMapping::Entry(variable, _) => Some(variable),
                ArgumentMapping::Entries(variable)
                | ArgumentMapping::ImageIn(variable, _)
                | ArgumentMapping::SizeIn(variable, _) => Some(variable),
                ArgumentMapping::JsonFile(variable) => Some(variable),
                ArgumentMapping::Flavor => Some("flavor"),
                ArgumentMapping::Image => Some("image"),
                ArgumentMapping::Nics | ArgumentMapping::AutoNic | ArgumentMapping::SecurityGroups => {
                    Some("server")
                }
                ArgumentMapping::CidrStart | ArgumentMapping::Subnets => Some("cidrs"),
                ArgumentMapping::Workbook => Some("definition"),
                ArgumentMapping::Workflow => Some("workflow"),
                _ => None,
            };
            if let Some(variable) = needed {
                assert!(has(variable), "{}: `{}` is for `{variable}`", scenario.name, argument.name);
            }
        }
    }
}

/// The expanded steps of the scenario in a text, with these contexts.
fn expanded(scenario: &str, contexts: &str) -> (serde_json::Value, ExpandedScenario) {
    let text = format!("scenario: {scenario}\ncontexts: {contexts}\n");
    let root = yaml::parse(&SourceText::new("t", text)).unwrap();
    let named = |(key, settings): &(yaml::YamlKey, YamlNode)| NamedSettings {
        key: key.clone(),
        settings: settings.clone(),
    };
    let scenario = named(&at(&root, &["scenario"]).entries()[0]);
    let contexts: Vec<NamedSettings> = at(&root, &["contexts"]).entries().iter().map(named).collect();
    let around = ScenarioEnvironment {
        number: 3,
        name: "w",
        place: scenario.key.span.clone(),
        contexts: &contexts,
        files: &ArgumentFiles { read: &|name| Err(format!("no file {name}")), find: &|name| name.to_owned() },
    };
    let mut faults = Vec::new();
    let found = super::super::find(&scenario, &mut faults).unwrap();
    let expanded = found.expand(&scenario, &around, &SourceVisibility::default(), &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    let expanded = expanded.unwrap();
    (to_json(&NodeFactory(0..0).list(expanded.steps.clone())), expanded)
}

#[test]
fn contexts_say_who_iterations_are_and_what_they_use() {
    const BOOT: &str = "{ NovaServers.boot_server: { flavor: { name: t'ny }, image: { name: c } } }";
    let (steps, expanded_boot) = expanded(BOOT, "{}");
    assert_eq!(
        steps[0]["set"],
        json!({ "server": {}, "flavor_id": "{{ flavor_id_3 }}", "image_id": "{{ image_id_3 }}" })
    );
    let setup = to_json(
        &NodeFactory(0..0).list(expanded_boot.setup.iter().flat_map(|(_, steps)| steps.clone()).collect()),
    );
    assert_eq!(setup[0]["extract"]["image_id_3"]["json"], "$.images[?@.name == 'c'].id");
    assert_eq!(setup[1]["extract"]["flavor_id_3"]["json"], "$.flavors[?@.name == 't\\'ny'].id");
    let contexts =
        "{ users@openstack: { tenants: 2 }, network@openstack: {}, flavors: [{ name: t'ny, ram: 64 }] }";
    let (steps, _) = expanded(BOOT, contexts);
    assert_eq!(steps[0]["set"]["flavor_id"], "{{ context.flavor['t\\'ny'] }}");
    assert_eq!(
        steps[0]["set"]["server"]["networks"],
        json!([{ "uuid": "{{ context.tenant.networks[0].id }}" }])
    );
    let turns = BOOT.replace("image:", "auto_assign_nic: true, image:");
    let (steps, _) = expanded(&turns, contexts);
    let networks = &steps[0]["set"]["server"]["networks"][0]["uuid"];
    assert_eq!(*networks, "{{ context.tenant.networks[iteration % (context.tenant.networks | length)].id }}");
    // A server's own networks count.
    let own = BOOT.replace("image:", "nics: [{ net-id: n1 }], image:");
    assert_eq!(expanded(&own, contexts).0[0]["set"]["server"]["networks"], json!([{ "uuid": "n1" }]));
}

#[test]
fn iterations_of_users_log_in_as_themselves_and_administrators_stay_so() {
    const USERS: &str = "{ users: {} }";
    for (scenario, contexts, path, expected) in [
        ("{ Authenticate.keystone: {} }", "{}", "/0/set/login_name", "{{ auth.username }}"),
        ("{ Authenticate.keystone: {} }", USERS, "/0/set/login_name", "{{ user.name }}"),
        (
            "{ KeystoneBasic.authenticate_user_and_validate_token: {} }",
            USERS,
            "/0/set/login_name",
            "{{ auth.username }}",
        ),
        ("{ KeystoneBasic.add_and_remove_user_role: {} }", USERS, "/0/set/user_id", "{{ user.id }}"),
        ("{ KeystoneBasic.add_and_remove_user_role: {} }", USERS, "/1/auth", "admin"),
        ("{ NovaKeypair.create_and_list_keypairs: {} }", USERS, "/2/action", "nova.create_keypair"),
    ] {
        let (steps, _) = expanded(scenario, contexts);
        assert_eq!(steps.pointer(path).unwrap_or(&json!(null)), expected, "{scenario} {contexts}: {steps}");
    }
    let (steps, all) = expanded("{ KeystoneBasic.add_and_remove_user_role: {} }", "{}");
    assert_eq!(steps[0]["action"], "keystone_v3.create_role");
    assert_eq!(steps[0].get("auth"), None);
    assert_eq!(all.setup[0].0, files::FIND_SELF);
    let (_, all) = expanded("{ KeystoneBasic.add_and_remove_user_role: {} }", USERS);
    assert!(all.setup.is_empty());
    assert_eq!(all.teardown[0].0, "steps/delete-roles.yaml");
}
