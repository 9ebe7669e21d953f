//! Scenarios for Keystone, and those that log in.

use super::arguments::ArgumentMapping;
use super::{Argument, ShippedScenario, admin, may, must, user};
use crate::scenarios::ParameterKind;

const USER: &str = "user_attributes";

static REPETITIONS: [Argument; 1] =
    [must("repetitions", ParameterKind::Integer(1, 1000), ArgumentMapping::Variable("repetitions"))];

/// Rally ignores it.
static NAME_LENGTH: [Argument; 1] = [may("name_length", ParameterKind::Any, ArgumentMapping::Nothing)];

static OF_USER: [Argument; 7] = [
    may("password", ParameterKind::Text, ArgumentMapping::Entry(USER, "password")),
    may("email", ParameterKind::Text, ArgumentMapping::Entry(USER, "email")),
    may("description", ParameterKind::Text, ArgumentMapping::Entry(USER, "description")),
    may("enabled", ParameterKind::Flag, ArgumentMapping::Entry(USER, "enabled")),
    may("domain_id", ParameterKind::Text, ArgumentMapping::Entry(USER, "domain_id")),
    may("project_id", ParameterKind::Text, ArgumentMapping::Entry(USER, "default_project_id")),
    may("tenant_id", ParameterKind::Text, ArgumentMapping::Entry(USER, "default_project_id")),
];

static USERS_PER_TENANT: [Argument; 1] = [must(
    "users_per_tenant",
    ParameterKind::Integer(1, 1000),
    ArgumentMapping::Variable("users_per_tenant"),
)];

static UPDATE_USER: [Argument; 2] = [
    may("create_user_kwargs", ParameterKind::Map, ArgumentMapping::Entries(USER)),
    may("update_user_kwargs", ParameterKind::Map, ArgumentMapping::Given("changes")),
];

static UPDATE_PASSWORD: [Argument; 2] = [
    may("name_length", ParameterKind::Any, ArgumentMapping::Nothing),
    may("password_length", ParameterKind::Any, ArgumentMapping::Nothing),
];

static ROLES: [Argument; 2] = [
    may("create_role_kwargs", ParameterKind::Empty, ArgumentMapping::Nothing),
    may("list_role_kwargs", ParameterKind::Empty, ArgumentMapping::Nothing),
];

static ENTITIES: [Argument; 1] =
    [may("service_name", ParameterKind::Text, ArgumentMapping::Given("service_name"))];

static SERVICE: [Argument; 3] = [
    may("name", ParameterKind::Any, ArgumentMapping::Nothing),
    may("service_type", ParameterKind::Text, ArgumentMapping::Variable("service_type")),
    may("description", ParameterKind::Text, ArgumentMapping::Variable("description")),
];

pub(super) static SCENARIOS: [ShippedScenario; 26] = [
    user("Authenticate.keystone", &[]),
    user("Authenticate.validate_cinder", &[&REPETITIONS]),
    user("Authenticate.validate_glance", &[&REPETITIONS]),
    user("Authenticate.validate_neutron", &[&REPETITIONS]),
    user("Authenticate.validate_nova", &[&REPETITIONS]),
    admin("KeystoneBasic.add_and_remove_user_role", &[]),
    // As the administrator, whichever user the iteration has.
    admin("KeystoneBasic.authenticate_user_and_validate_token", &[]),
    admin("KeystoneBasic.create_add_and_list_user_roles", &[]),
    admin("KeystoneBasic.create_and_delete_role", &[]),
    admin("KeystoneBasic.create_and_delete_service", &[&SERVICE]),
    admin("KeystoneBasic.create_and_get_role", &[]),
    admin("KeystoneBasic.create_and_list_roles", &[&ROLES]),
    admin("KeystoneBasic.create_and_list_services", &[&SERVICE]),
    admin("KeystoneBasic.create_and_list_tenants", &[&NAME_LENGTH]),
    admin("KeystoneBasic.create_and_list_users", &[&NAME_LENGTH, &OF_USER]),
    admin("KeystoneBasic.create_and_update_user", &[&UPDATE_USER]),
    admin("KeystoneBasic.create_delete_user", &[&NAME_LENGTH, &OF_USER]),
    admin("KeystoneBasic.create_tenant", &[&NAME_LENGTH]),
    admin("KeystoneBasic.create_tenant_with_users", &[&NAME_LENGTH, &USERS_PER_TENANT]),
    admin("KeystoneBasic.create_update_and_delete_tenant", &[&NAME_LENGTH]),
    admin("KeystoneBasic.create_user", &[&NAME_LENGTH, &OF_USER]),
    admin("KeystoneBasic.create_user_set_enabled_and_delete", &[&OF_USER]),
    admin("KeystoneBasic.create_user_update_password", &[&UPDATE_PASSWORD]),
    admin("KeystoneBasic.get_entities", &[&ENTITIES]),
    user("KeystoneBasic.create_and_delete_ec2credential", &[]),
    user("KeystoneBasic.create_and_list_ec2credentials", &[]),
];
