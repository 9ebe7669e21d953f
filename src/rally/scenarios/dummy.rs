//! `Dummy.*`: scenarios that send nothing, to try out runners, criteria and reports.
//!
//! As in Rally 5.1 (rally/plugins/task/scenarios/dummy), but for the charts of made-up data.

use text::diagnostics::Fault;

use super::{ExpandedScenario, GeneratedScenario, ParameterKind, ScenarioArguments, optional};

/// The longest pause: a day.
const SLEEP_S_MAX: f64 = 86_400.0;
/// The most actions of an iteration.
const ACTIONS_MAX: i64 = 1000;
const SLEEP: ParameterKind = ParameterKind::Number(SLEEP_S_MAX);
const PROBABILITY: ParameterKind = ParameterKind::Number(1.0);
const ITERATION: ParameterKind = ParameterKind::Integer(0, i64::MAX);

pub(super) const SCENARIOS: [GeneratedScenario; 10] = [
    GeneratedScenario {
        name: "Dummy.dummy",
        about: "Sleeps for a while",
        parameters: &[optional("sleep", SLEEP)],
        takes_others: true,
        expand: dummy,
    },
    // As in Rally, it does nothing with the cloud that it needs there.
    GeneratedScenario {
        name: "Dummy.openstack",
        about: "Sleeps for a while",
        parameters: &[optional("sleep", SLEEP)],
        takes_others: true,
        expand: dummy,
    },
    GeneratedScenario {
        name: "Dummy.failure",
        about: "Fails in some iterations",
        parameters: &[
            optional("sleep", SLEEP),
            optional("from_iteration", ITERATION),
            optional("to_iteration", ITERATION),
            optional("each", ITERATION),
        ],
        takes_others: false,
        expand: failure,
    },
    GeneratedScenario {
        name: "Dummy.dummy_exception",
        about: "Fails in every iteration",
        parameters: &[
            optional("size_of_message", ParameterKind::Integer(1, 100_000)),
            optional("sleep", SLEEP),
            optional("message", ParameterKind::Text),
        ],
        takes_others: false,
        expand: exception,
    },
    GeneratedScenario {
        name: "Dummy.dummy_exception_probability",
        about: "Fails by chance",
        parameters: &[optional("exception_probability", PROBABILITY)],
        takes_others: false,
        expand: exception_probability,
    },
    GeneratedScenario {
        name: "Dummy.dummy_output",
        about: "Does nothing",
        parameters: &[optional("random_range", ParameterKind::Integer(1, i64::MAX))],
        takes_others: false,
        expand: output,
    },
    // Its name in Rally before 0.1.
    GeneratedScenario {
        name: "Dummy.dummy_with_scenario_output",
        about: "Does nothing",
        parameters: &[],
        takes_others: false,
        expand: output,
    },
    GeneratedScenario {
        name: "Dummy.dummy_random_fail_in_atomic",
        about: "Fails by chance within its actions",
        parameters: &[optional("exception_probability", PROBABILITY)],
        takes_others: false,
        expand: random_fail_in_atomic,
    },
    GeneratedScenario {
        name: "Dummy.dummy_random_action",
        about: "Sleeps for random times in several actions",
        parameters: &[
            optional("actions_num", ParameterKind::Integer(0, ACTIONS_MAX)),
            optional("sleep_min", SLEEP),
            optional("sleep_max", SLEEP),
        ],
        takes_others: false,
        expand: random_action,
    },
    GeneratedScenario {
        name: "Dummy.dummy_timed_atomic_actions",
        about: "Sleeps a bit longer in each of several actions",
        parameters: &[
            optional("number_of_actions", ParameterKind::Integer(0, ACTIONS_MAX)),
            optional("sleep_factor", ParameterKind::Number(SLEEP_S_MAX)),
        ],
        takes_others: false,
        expand: timed_atomic_actions,
    },
];

fn expected(message: &str) -> String {
    format!("Dummy scenario expected exception: '{message}'")
}

fn dummy(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let at = &arguments.at;
    let pause = arguments.place("sleep").think(arguments.number("sleep", 0.0));
    let steps = vec![at.group("foo", vec![at.group("bar", vec![pause])])];
    ExpandedScenario { steps, ..ExpandedScenario::default() }
}

fn failure(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let at = &arguments.at;
    let number = |name, default| arguments.integer(name, default);
    let (from, to, each) = (number("from_iteration", 0), number("to_iteration", 0), number("each", 1));
    let mut steps = vec![at.think(arguments.number("sleep", 0.1))];
    if each > 0 {
        // Rally counts iterations from 1.
        let condition = format!(
            "{{{{ iteration + 1 >= {from} and iteration + 1 <= {to} and (iteration + 1) % {each} == 0 }}}}"
        );
        steps.push(at.fail_if(&condition, &expected("Expected failure")));
    }
    ExpandedScenario { steps, ..ExpandedScenario::default() }
}

fn exception(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let at = &arguments.at;
    let given = arguments.text("message");
    let size = usize::try_from(arguments.integer("size_of_message", 1)).unwrap_or(1);
    let message = if given.is_empty() { "M".repeat(size) } else { given };
    let fail = at.map([("fail", at.literal(&expected(&message)))]);
    ExpandedScenario {
        steps: vec![at.think(arguments.number("sleep", 1.0)), fail],
        ..ExpandedScenario::default()
    }
}

fn exception_probability(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let probability = arguments.number("exception_probability", 0.5);
    let message = expected(&format!("Dummy Scenario Exception: Probability: {probability}"));
    let steps = vec![arguments.at.fail_if(&by_chance(probability), &message)];
    ExpandedScenario { steps, ..ExpandedScenario::default() }
}

fn by_chance(probability: f64) -> String {
    // A template takes 1 for a whole number.
    format!("{{{{ random_bool({probability:?}) }}}}")
}

fn output(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let warning = "this scenario's charts of made-up data are left out".to_owned();
    ExpandedScenario {
        steps: vec![arguments.at.think(0.0)],
        warnings: vec![warning],
        ..ExpandedScenario::default()
    }
}

fn random_fail_in_atomic(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let at = &arguments.at;
    let whole = arguments.number("exception_probability", 0.5);
    // Of four places that may fail.
    let probability = if whole < 1.0 { whole / 4.0 } else { whole };
    let fail = || at.fail_if(&by_chance(probability), "Dummy test exception");
    let inner = at.group("dummy_fail_inner_test", vec![fail()]);
    let outer = at.group("dummy_fail_test", vec![fail(), inner]);
    let twice = at.map([("repeat", at.int(2)), ("steps", at.list(vec![outer]))]);
    ExpandedScenario { steps: vec![twice], ..ExpandedScenario::default() }
}

fn random_action(arguments: &ScenarioArguments<'_>, faults: &mut Vec<Fault>) -> ExpandedScenario {
    let at = &arguments.at;
    let (least, most) = (arguments.number("sleep_min", 0.0), arguments.number("sleep_max", 0.0));
    if least > most {
        let fault = Fault::error(arguments.place("sleep_min").0, "`sleep_min` is more than `sleep_max`");
        faults.push(fault.help("exchange them"));
    }
    let range = || at.map([("min", at.seconds(least)), ("max", at.seconds(most))]);
    let pause = || at.map([("think", range())]);
    let actions = 0..arguments.integer("actions_num", 5);
    actions_or_nothing(arguments, actions.map(|n| at.group(&format!("action_{n}"), vec![pause()])).collect())
}

fn timed_atomic_actions(arguments: &ScenarioArguments<'_>, _: &mut Vec<Fault>) -> ExpandedScenario {
    let at = &arguments.at;
    let factor = arguments.number("sleep_factor", 1.0);
    let actions = (0..arguments.integer("number_of_actions", 5)).map(|n| {
        let pause = at.think(n as f64 * factor);
        at.group(&format!("action_{n}"), vec![pause])
    });
    actions_or_nothing(arguments, actions.collect())
}

fn actions_or_nothing(
    arguments: &ScenarioArguments<'_>,
    mut steps: Vec<text::yaml::YamlNode>,
) -> ExpandedScenario {
    if steps.is_empty() {
        steps.push(arguments.at.think(0.0));
    }
    ExpandedScenario { steps, ..ExpandedScenario::default() }
}
