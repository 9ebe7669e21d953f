//! Scenarios for Neutron.

use super::arguments::ArgumentMapping;
use super::{Argument, ShippedScenario, may, must, user};
use crate::scenarios::ParameterKind;

/// The most subnets or ports of a network.
const MANY: i64 = 1000;

static NETWORK: [Argument; 1] =
    [may("network_create_args", ParameterKind::Map, ArgumentMapping::Entries("network"))];

static SUBNETS: [Argument; 3] = [
    may("subnet_create_args", ParameterKind::Map, ArgumentMapping::Entries("subnet")),
    may("subnet_cidr_start", ParameterKind::Text, ArgumentMapping::CidrStart),
    may("subnets_per_network", ParameterKind::Integer(1, MANY), ArgumentMapping::Subnets),
];

static ROUTER: [Argument; 1] =
    [may("router_create_args", ParameterKind::Map, ArgumentMapping::Entries("router"))];

static PORTS: [Argument; 2] = [
    may("port_create_args", ParameterKind::Map, ArgumentMapping::Entries("port")),
    may("ports_per_network", ParameterKind::Integer(1, MANY), ArgumentMapping::Variable("ports_per_network")),
];

static SECURITY_GROUP: [Argument; 1] =
    [may("security_group_create_args", ParameterKind::Map, ArgumentMapping::Entries("security_group"))];

static UPDATE_SECURITY_GROUP: [Argument; 1] =
    [may("security_group_update_args", ParameterKind::Map, ArgumentMapping::Variable("changes"))];

static UPDATE_NETWORK: [Argument; 1] =
    [must("network_update_args", ParameterKind::Map, ArgumentMapping::Variable("changes"))];
static UPDATE_SUBNET: [Argument; 1] =
    [must("subnet_update_args", ParameterKind::Map, ArgumentMapping::Variable("changes"))];
static UPDATE_ROUTER: [Argument; 1] =
    [must("router_update_args", ParameterKind::Map, ArgumentMapping::Variable("changes"))];
static UPDATE_PORT: [Argument; 1] =
    [must("port_update_args", ParameterKind::Map, ArgumentMapping::Variable("changes"))];

pub(super) static SCENARIOS: [ShippedScenario; 20] = [
    user("NeutronNetworks.create_and_list_networks", &[&NETWORK]),
    user("NeutronNetworks.create_and_show_network", &[&NETWORK]),
    user("NeutronNetworks.create_and_update_networks", &[&NETWORK, &UPDATE_NETWORK]),
    user("NeutronNetworks.create_and_delete_networks", &[&NETWORK]),
    user("NeutronNetworks.create_and_list_subnets", &[&NETWORK, &SUBNETS]),
    user("NeutronNetworks.create_and_show_subnets", &[&NETWORK, &SUBNETS]),
    user("NeutronNetworks.create_and_update_subnets", &[&NETWORK, &SUBNETS, &UPDATE_SUBNET]),
    user("NeutronNetworks.create_and_delete_subnets", &[&NETWORK, &SUBNETS]),
    user("NeutronNetworks.create_and_list_ports", &[&NETWORK, &PORTS]),
    user("NeutronNetworks.create_and_show_ports", &[&NETWORK, &PORTS]),
    user("NeutronNetworks.create_and_update_ports", &[&NETWORK, &PORTS, &UPDATE_PORT]),
    user("NeutronNetworks.create_and_delete_ports", &[&NETWORK, &PORTS]),
    user("NeutronNetworks.create_and_list_routers", &[&NETWORK, &SUBNETS, &ROUTER]),
    user("NeutronNetworks.create_and_show_routers", &[&NETWORK, &SUBNETS, &ROUTER]),
    user("NeutronNetworks.create_and_update_routers", &[&NETWORK, &SUBNETS, &ROUTER, &UPDATE_ROUTER]),
    user("NeutronNetworks.create_and_delete_routers", &[&NETWORK, &SUBNETS, &ROUTER]),
    user("NeutronSecurityGroup.create_and_list_security_groups", &[&SECURITY_GROUP]),
    user("NeutronSecurityGroup.create_and_show_security_group", &[&SECURITY_GROUP]),
    user(
        "NeutronSecurityGroup.create_and_update_security_groups",
        &[&SECURITY_GROUP, &UPDATE_SECURITY_GROUP],
    ),
    user("NeutronSecurityGroup.create_and_delete_security_groups", &[&SECURITY_GROUP]),
];
