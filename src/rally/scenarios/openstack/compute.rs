//! Scenarios for Nova.

use super::arguments::Use;
use super::{Argument, Shipped, admin, may, must, user};
use crate::scenarios::Kind;

/// The longest pause: a day.
const SLEEP_S_MAX: f64 = 86_400.0;

static IMAGE_AND_FLAVOR: [Argument; 2] =
    [must("image", Kind::Map, Use::Image), must("flavor", Kind::Map, Use::Flavor)];

/// Of those that Nova's client takes for a server.
static OF_SERVER: [Argument; 11] = [
    may("auto_assign_nic", Kind::Flag, Use::AutoNic),
    may("nics", Kind::List, Use::Nics),
    may("security_groups", Kind::List, Use::SecurityGroups),
    may("key_name", Kind::Text, Use::Entry("server", "key_name")),
    may("availability_zone", Kind::Text, Use::Entry("server", "availability_zone")),
    may("meta", Kind::Map, Use::Entry("server", "metadata")),
    may("config_drive", Kind::Flag, Use::Entry("server", "config_drive")),
    may("disk_config", Kind::Text, Use::Entry("server", "OS-DCF:diskConfig")),
    may("admin_pass", Kind::Text, Use::Entry("server", "adminPass")),
    may("block_device_mapping_v2", Kind::List, Use::Entry("server", "block_device_mapping_v2")),
    may("hypervisor_hostname", Kind::Text, Use::Entry("server", "hypervisor_hostname")),
];

static DETAILED: [Argument; 1] = [may("detailed", Kind::Flag, Use::Variable("detailed"))];

static PAUSE: [Argument; 2] = [
    may("min_sleep", Kind::Number(SLEEP_S_MAX), Use::PauseMin),
    may("max_sleep", Kind::Number(SLEEP_S_MAX), Use::PauseMax),
];

static FORCE: [Argument; 1] = [may("force_delete", Kind::Flag, Use::Force)];

static LIST_FLAVORS: [Argument; 8] = [
    may("detailed", Kind::Flag, Use::Variable("detailed")),
    may("is_public", Kind::Flag, Use::Query),
    may("marker", Kind::Text, Use::Query),
    may("min_disk", Kind::Integer(0, i64::MAX), Use::Query),
    may("min_ram", Kind::Integer(0, i64::MAX), Use::Query),
    may("limit", Kind::Integer(0, i64::MAX), Use::Query),
    may("sort_key", Kind::Text, Use::Query),
    may("sort_dir", Kind::Text, Use::Query),
];

static FLAVOR: [Argument; 7] = [
    must("ram", Kind::Integer(1, i64::MAX), Use::Entry("flavor", "ram")),
    must("vcpus", Kind::Integer(1, i64::MAX), Use::Entry("flavor", "vcpus")),
    must("disk", Kind::Integer(0, i64::MAX), Use::Entry("flavor", "disk")),
    may("flavorid", Kind::Any, Use::Entry("flavor", "id")),
    may("ephemeral", Kind::Integer(0, i64::MAX), Use::Entry("flavor", "OS-FLV-EXT-DATA:ephemeral")),
    may("swap", Kind::Integer(0, i64::MAX), Use::Entry("flavor", "swap")),
    may("rxtx_factor", Kind::Number(1e9), Use::Entry("flavor", "rxtx_factor")),
];

static IS_PUBLIC: [Argument; 1] =
    [may("is_public", Kind::Flag, Use::Entry("flavor", "os-flavor-access:is_public"))];

/// Rally makes such a flavor private in any case.
static IS_PRIVATE: [Argument; 1] = [may("is_public", Kind::Flag, Use::Nothing)];

static EXTRA_SPECS: [Argument; 1] = [must("extra_specs", Kind::Map, Use::Variable("extra_specs"))];

static KEYPAIR: [Argument; 2] = [
    may("public_key", Kind::Text, Use::Entry("keypair", "public_key")),
    may("key_type", Kind::Text, Use::Entry("keypair", "type")),
];

static BOOT_SERVER_KWARGS: [Argument; 1] = [may("boot_server_kwargs", Kind::Map, Use::Entries("server"))];

/// The scenarios.
pub(super) static SCENARIOS: [Shipped; 21] = [
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
