//! Scenarios for Nova.

use super::arguments::ArgumentMapping;
use super::{Argument, ShippedScenario, admin, may, must, user};
use crate::scenarios::ParameterKind;

/// The longest pause: a day.
const SLEEP_S_MAX: f64 = 86_400.0;

static IMAGE_AND_FLAVOR: [Argument; 2] = [
    must("image", ParameterKind::Map, ArgumentMapping::Image),
    must("flavor", ParameterKind::Map, ArgumentMapping::Flavor),
];

/// Of those that Nova's client takes for a server.
static OF_SERVER: [Argument; 11] = [
    may("auto_assign_nic", ParameterKind::Flag, ArgumentMapping::AutoNic),
    may("nics", ParameterKind::List, ArgumentMapping::Nics),
    may("security_groups", ParameterKind::List, ArgumentMapping::SecurityGroups),
    may("key_name", ParameterKind::Text, ArgumentMapping::Entry("server", "key_name")),
    may("availability_zone", ParameterKind::Text, ArgumentMapping::Entry("server", "availability_zone")),
    may("meta", ParameterKind::Map, ArgumentMapping::Entry("server", "metadata")),
    may("config_drive", ParameterKind::Flag, ArgumentMapping::Entry("server", "config_drive")),
    may("disk_config", ParameterKind::Text, ArgumentMapping::Entry("server", "OS-DCF:diskConfig")),
    may("admin_pass", ParameterKind::Text, ArgumentMapping::Entry("server", "adminPass")),
    may(
        "block_device_mapping_v2",
        ParameterKind::List,
        ArgumentMapping::Entry("server", "block_device_mapping_v2"),
    ),
    may("hypervisor_hostname", ParameterKind::Text, ArgumentMapping::Entry("server", "hypervisor_hostname")),
];

static DETAILED: [Argument; 1] =
    [may("detailed", ParameterKind::Flag, ArgumentMapping::Variable("detailed"))];

static PAUSE: [Argument; 2] = [
    may("min_sleep", ParameterKind::Number(SLEEP_S_MAX), ArgumentMapping::PauseMin),
    may("max_sleep", ParameterKind::Number(SLEEP_S_MAX), ArgumentMapping::PauseMax),
];

static FORCE: [Argument; 1] = [may("force_delete", ParameterKind::Flag, ArgumentMapping::Force)];

static LIST_FLAVORS: [Argument; 8] = [
    may("detailed", ParameterKind::Flag, ArgumentMapping::Variable("detailed")),
    may("is_public", ParameterKind::Flag, ArgumentMapping::Query),
    may("marker", ParameterKind::Text, ArgumentMapping::Query),
    may("min_disk", ParameterKind::Integer(0, i64::MAX), ArgumentMapping::Query),
    may("min_ram", ParameterKind::Integer(0, i64::MAX), ArgumentMapping::Query),
    may("limit", ParameterKind::Integer(0, i64::MAX), ArgumentMapping::Query),
    may("sort_key", ParameterKind::Text, ArgumentMapping::Query),
    may("sort_dir", ParameterKind::Text, ArgumentMapping::Query),
];

static FLAVOR: [Argument; 7] = [
    must("ram", ParameterKind::Integer(1, i64::MAX), ArgumentMapping::Entry("flavor", "ram")),
    must("vcpus", ParameterKind::Integer(1, i64::MAX), ArgumentMapping::Entry("flavor", "vcpus")),
    must("disk", ParameterKind::Integer(0, i64::MAX), ArgumentMapping::Entry("flavor", "disk")),
    may("flavorid", ParameterKind::Any, ArgumentMapping::Entry("flavor", "id")),
    may(
        "ephemeral",
        ParameterKind::Integer(0, i64::MAX),
        ArgumentMapping::Entry("flavor", "OS-FLV-EXT-DATA:ephemeral"),
    ),
    may("swap", ParameterKind::Integer(0, i64::MAX), ArgumentMapping::Entry("flavor", "swap")),
    may("rxtx_factor", ParameterKind::Number(1e9), ArgumentMapping::Entry("flavor", "rxtx_factor")),
];

static IS_PUBLIC: [Argument; 1] =
    [may("is_public", ParameterKind::Flag, ArgumentMapping::Entry("flavor", "os-flavor-access:is_public"))];

/// Rally makes such a flavor private in any case.
static IS_PRIVATE: [Argument; 1] = [may("is_public", ParameterKind::Flag, ArgumentMapping::Nothing)];

static EXTRA_SPECS: [Argument; 1] =
    [must("extra_specs", ParameterKind::Map, ArgumentMapping::Variable("extra_specs"))];

static KEYPAIR: [Argument; 2] = [
    may("public_key", ParameterKind::Text, ArgumentMapping::Entry("keypair", "public_key")),
    may("key_type", ParameterKind::Text, ArgumentMapping::Entry("keypair", "type")),
];

static BOOT_SERVER_KWARGS: [Argument; 1] =
    [may("boot_server_kwargs", ParameterKind::Map, ArgumentMapping::Entries("server"))];

pub(super) static SCENARIOS: [ShippedScenario; 21] = [
    user("NovaServers.list_servers", &[&DETAILED]),
    user("NovaServers.boot_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER]),
    user("NovaServers.boot_and_list_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &DETAILED]),
    user("NovaServers.boot_and_delete_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &PAUSE, &FORCE]),
    user("NovaServers.snapshot_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &FORCE]),
    user("NovaServers.boot_and_show_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER]),
    user("NovaServers.boot_lock_unlock_and_delete", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &PAUSE, &FORCE]),
    user("NovaServers.pause_and_unpause_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &FORCE]),
    user("NovaServers.suspend_and_resume_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &FORCE]),
    user("NovaServers.shelve_and_unshelve_server", &[&IMAGE_AND_FLAVOR, &OF_SERVER, &FORCE]),
    user("NovaFlavors.list_flavors", &[&LIST_FLAVORS]),
    admin("NovaFlavors.create_flavor", &[&FLAVOR, &IS_PUBLIC]),
    admin("NovaFlavors.create_and_get_flavor", &[&FLAVOR, &IS_PUBLIC]),
    admin("NovaFlavors.create_and_delete_flavor", &[&FLAVOR, &IS_PUBLIC]),
    admin("NovaFlavors.create_and_list_flavor_access", &[&FLAVOR, &IS_PRIVATE]),
    admin("NovaFlavors.create_flavor_and_add_tenant_access", &[&FLAVOR, &IS_PUBLIC]),
    admin("NovaFlavors.create_flavor_and_set_keys", &[&FLAVOR, &IS_PUBLIC, &EXTRA_SPECS]),
    user("NovaKeypair.create_and_list_keypairs", &[&KEYPAIR]),
    user("NovaKeypair.create_and_get_keypair", &[&KEYPAIR]),
    user("NovaKeypair.create_and_delete_keypair", &[&KEYPAIR]),
    user(
        "NovaKeypair.boot_and_delete_server_with_keypair",
        &[&IMAGE_AND_FLAVOR, &KEYPAIR, &BOOT_SERVER_KWARGS],
    ),
];
