//! Rally's scenarios for OpenStack, each with arguments and with its atomic actions.

use serde_json::{Value, json};

/// A scenario, the arguments that it needs, and Rally's atomic actions in order, without those within others.
pub(crate) type RallyScenarioRow = (&'static str, Value, &'static [&'static str]);

#[expect(clippy::too_many_lines, reason = "a table")]
fn compute_rows() -> Vec<RallyScenarioRow> {
    let server = || json!({ "flavor": { "name": "m1.tiny" }, "image": { "regex": "^cir.*s$" } });
    let with = |more: Value| {
        let mut all = server();
        for (key, value) in more.as_object().unwrap() {
            all[key] = value.clone();
        }
        all
    };
    let flavor = || json!({ "ram": 64, "vcpus": 1, "disk": 0 });
    vec![
        ("NovaServers.list_servers", json!({ "detailed": false }), &["nova.list_servers"]),
        (
            "NovaServers.boot_server",
            with(json!({ "key_name": "{% raw %}k{{{% endraw %}", "meta": { "a": "b" } })),
            &["nova.boot_server"],
        ),
        ("NovaServers.boot_and_list_server", server(), &["nova.boot_server", "nova.list_servers"]),
        (
            "NovaServers.boot_and_delete_server",
            with(json!({ "min_sleep": 0.001, "max_sleep": 0.002, "force_delete": true })),
            &["nova.boot_server", "nova.force_delete_server"],
        ),
        (
            "NovaServers.snapshot_server",
            server(),
            &[
                "nova.boot_server",
                "nova.snapshot_server",
                "nova.delete_server",
                "nova.boot_server (2)",
                "nova.delete_server (2)",
                "nova.delete_image",
            ],
        ),
        ("NovaServers.boot_and_show_server", server(), &["nova.boot_server", "nova.show_server"]),
        (
            "NovaServers.boot_lock_unlock_and_delete",
            with(json!({ "min_sleep": 0.001, "max_sleep": 0.002 })),
            &["nova.boot_server", "nova.lock_server", "nova.unlock_server", "nova.delete_server"],
        ),
        (
            "NovaServers.pause_and_unpause_server",
            server(),
            &["nova.boot_server", "nova.pause_server", "nova.unpause_server", "nova.delete_server"],
        ),
        (
            "NovaServers.suspend_and_resume_server",
            with(json!({ "force_delete": true })),
            &["nova.boot_server", "nova.suspend_server", "nova.resume_server", "nova.force_delete_server"],
        ),
        (
            "NovaServers.shelve_and_unshelve_server",
            server(),
            &["nova.boot_server", "nova.shelve_server", "nova.unshelve_server", "nova.delete_server"],
        ),
        ("NovaFlavors.list_flavors", json!({ "is_public": true, "limit": 3 }), &["nova.list_flavors"]),
        ("NovaFlavors.create_flavor", flavor(), &["nova.create_flavor"]),
        ("NovaFlavors.create_and_get_flavor", flavor(), &["nova.create_flavor", "nova.get_flavor"]),
        ("NovaFlavors.create_and_delete_flavor", flavor(), &["nova.create_flavor", "nova.delete_flavor"]),
        (
            "NovaFlavors.create_and_list_flavor_access",
            flavor(),
            &["nova.create_flavor", "nova.list_flavor_access"],
        ),
        (
            "NovaFlavors.create_flavor_and_add_tenant_access",
            flavor(),
            &["nova.create_flavor", "nova.add_tenant_access"],
        ),
        (
            "NovaFlavors.create_flavor_and_set_keys",
            json!({ "ram": 64, "vcpus": 1, "disk": 0, "extra_specs": { "quota:x": "1" } }),
            &["nova.create_flavor", "nova.set_flavor_keys"],
        ),
        ("NovaKeypair.create_and_list_keypairs", json!({}), &["nova.create_keypair", "nova.list_keypairs"]),
        ("NovaKeypair.create_and_get_keypair", json!({}), &["nova.create_keypair", "nova.get_keypair"]),
        ("NovaKeypair.create_and_delete_keypair", json!({}), &["nova.create_keypair", "nova.delete_keypair"]),
        (
            "NovaKeypair.boot_and_delete_server_with_keypair",
            server(),
            &["nova.create_keypair", "nova.boot_server", "nova.delete_server", "nova.delete_keypair"],
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn identity_rows() -> Vec<RallyScenarioRow> {
    let twice = || json!({ "repetitions": 2 });
    let none = || json!({});
    vec![
        ("Authenticate.keystone", none(), &["authenticate.keystone"]),
        ("Authenticate.validate_cinder", twice(), &["authenticate.validate_cinder"]),
        ("Authenticate.validate_glance", twice(), &["authenticate.validate_glance"]),
        ("Authenticate.validate_neutron", twice(), &["authenticate.validate_neutron"]),
        ("Authenticate.validate_nova", twice(), &["authenticate.validate_nova"]),
        (
            "KeystoneBasic.add_and_remove_user_role",
            none(),
            &["keystone_v3.create_role", "keystone_v3.add_role", "keystone_v3.revoke_role"],
        ),
        (
            "KeystoneBasic.authenticate_user_and_validate_token",
            none(),
            &["keystone_v3.fetch_token", "keystone_v3.validate_token"],
        ),
        (
            "KeystoneBasic.create_add_and_list_user_roles",
            none(),
            &["keystone_v3.create_role", "keystone_v3.add_role", "keystone_v3.list_roles"],
        ),
        (
            "KeystoneBasic.create_and_delete_role",
            none(),
            &["keystone_v3.create_role", "keystone_v3.delete_role"],
        ),
        (
            "KeystoneBasic.create_and_delete_service",
            json!({ "service_type": "x" }),
            &["keystone_v3.create_service", "keystone_v3.delete_service"],
        ),
        ("KeystoneBasic.create_and_get_role", none(), &["keystone_v3.create_role", "keystone_v3.get_role"]),
        (
            "KeystoneBasic.create_and_list_roles",
            none(),
            &["keystone_v3.create_role", "keystone_v3.list_roles"],
        ),
        (
            "KeystoneBasic.create_and_list_services",
            none(),
            &["keystone_v3.create_service", "keystone_v3.list_services"],
        ),
        (
            "KeystoneBasic.create_and_list_tenants",
            json!({ "name_length": 9 }),
            &["keystone_v3.create_project", "keystone_v3.list_projects"],
        ),
        (
            "KeystoneBasic.create_and_list_users",
            json!({ "enabled": true }),
            &["keystone_v3.create_user", "keystone_v3.list_users"],
        ),
        (
            "KeystoneBasic.create_and_update_user",
            json!({ "create_user_kwargs": { "description": "d" }, "update_user_kwargs": { "enabled": false } }),
            &["keystone_v3.create_user", "keystone_v3.update_user", "keystone_v3.get_user"],
        ),
        ("KeystoneBasic.create_delete_user", none(), &["keystone_v3.create_user", "keystone_v3.delete_user"]),
        ("KeystoneBasic.create_tenant", none(), &["keystone_v3.create_project"]),
        (
            "KeystoneBasic.create_tenant_with_users",
            json!({ "users_per_tenant": 2 }),
            &["keystone_v3.create_project", "keystone_v3.list_roles", "keystone_v3.create_users"],
        ),
        (
            "KeystoneBasic.create_update_and_delete_tenant",
            none(),
            &["keystone_v3.create_project", "keystone_v3.update_project", "keystone_v3.delete_project"],
        ),
        ("KeystoneBasic.create_user", none(), &["keystone_v3.create_user"]),
        (
            "KeystoneBasic.create_user_set_enabled_and_delete",
            json!({ "enabled": false }),
            &["keystone_v3.create_user", "keystone_v3.update_user", "keystone_v3.delete_user"],
        ),
        (
            "KeystoneBasic.create_user_update_password",
            none(),
            &["keystone_v3.create_user", "keystone_v3.update_user"],
        ),
        (
            "KeystoneBasic.get_entities",
            none(),
            &[
                "keystone_v3.create_project",
                "keystone_v3.create_user",
                "keystone_v3.create_role",
                "keystone_v3.get_project",
                "keystone_v3.get_user",
                "keystone_v3.get_role",
                "keystone_v3.list_services",
                "keystone_v3.get_services",
            ],
        ),
        (
            "KeystoneBasic.create_and_delete_ec2credential",
            none(),
            &["keystone_v3.create_ec2creds", "keystone_v3.delete_ec2creds"],
        ),
        (
            "KeystoneBasic.create_and_list_ec2credentials",
            none(),
            &["keystone_v3.create_ec2creds", "keystone_v3.list_ec2creds", "keystone_v3.delete_ec2creds"],
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a table")]
fn network_rows() -> Vec<RallyScenarioRow> {
    let network = || json!({ "network_create_args": { "router_external": false } });
    let changed = |kind: &str| json!({ format!("{kind}_update_args"): { "admin_state_up": false } });
    let two = || json!({ "subnets_per_network": 2, "subnet_cidr_start": "1.1.0.0/30" });
    vec![
        (
            "NeutronNetworks.create_and_list_networks",
            network(),
            &["neutron.create_network", "neutron.list_networks"],
        ),
        (
            "NeutronNetworks.create_and_show_network",
            network(),
            &["neutron.create_network", "neutron.show_network"],
        ),
        (
            "NeutronNetworks.create_and_update_networks",
            changed("network"),
            &["neutron.create_network", "neutron.update_network"],
        ),
        (
            "NeutronNetworks.create_and_delete_networks",
            network(),
            &["neutron.create_network", "neutron.delete_network"],
        ),
        (
            "NeutronNetworks.create_and_list_subnets",
            two(),
            &["neutron.create_network", "neutron.create_subnet", "neutron.list_subnets"],
        ),
        (
            "NeutronNetworks.create_and_show_subnets",
            two(),
            &["neutron.create_network", "neutron.create_subnet", "neutron.show_subnet"],
        ),
        (
            "NeutronNetworks.create_and_update_subnets",
            changed("subnet"),
            &["neutron.create_network", "neutron.create_subnet", "neutron.update_subnet"],
        ),
        (
            "NeutronNetworks.create_and_delete_subnets",
            two(),
            &["neutron.create_network", "neutron.create_subnet", "neutron.delete_subnet"],
        ),
        (
            "NeutronNetworks.create_and_list_ports",
            json!({ "ports_per_network": 2 }),
            &["neutron.create_network", "neutron.create_port", "neutron.list_ports"],
        ),
        (
            "NeutronNetworks.create_and_show_ports",
            json!({}),
            &["neutron.create_network", "neutron.create_port", "neutron.show_port"],
        ),
        (
            "NeutronNetworks.create_and_update_ports",
            changed("port"),
            &["neutron.create_network", "neutron.create_port", "neutron.update_port"],
        ),
        (
            "NeutronNetworks.create_and_delete_ports",
            json!({}),
            &["neutron.create_network", "neutron.create_port", "neutron.delete_port"],
        ),
        (
            "NeutronNetworks.create_and_list_routers",
            two(),
            &[
                "neutron.create_network",
                "neutron.create_router",
                "neutron.create_subnet",
                "neutron.list_routers",
            ],
        ),
        (
            "NeutronNetworks.create_and_show_routers",
            two(),
            &[
                "neutron.create_network",
                "neutron.create_router",
                "neutron.create_subnet",
                "neutron.show_router",
            ],
        ),
        (
            "NeutronNetworks.create_and_update_routers",
            changed("router"),
            &[
                "neutron.create_network",
                "neutron.create_router",
                "neutron.create_subnet",
                "neutron.update_router",
            ],
        ),
        (
            "NeutronNetworks.create_and_delete_routers",
            two(),
            &[
                "neutron.create_network",
                "neutron.create_router",
                "neutron.create_subnet",
                "neutron.remove_interface_router",
                "neutron.delete_router",
            ],
        ),
        (
            "NeutronSecurityGroup.create_and_list_security_groups",
            json!({ "security_group_create_args": { "description": "d" } }),
            &["neutron.create_security_group", "neutron.list_security_groups"],
        ),
        (
            "NeutronSecurityGroup.create_and_show_security_group",
            json!({}),
            &["neutron.create_security_group", "neutron.show_security_group"],
        ),
        (
            "NeutronSecurityGroup.create_and_update_security_groups",
            json!({ "security_group_update_args": { "description": "d" } }),
            &["neutron.create_security_group", "neutron.update_security_group"],
        ),
        (
            "NeutronSecurityGroup.create_and_delete_security_groups",
            json!({}),
            &["neutron.create_security_group", "neutron.delete_security_group"],
        ),
    ]
}

fn other_rows() -> Vec<RallyScenarioRow> {
    let image =
        || json!({ "container_format": "bare", "disk_format": "raw", "image_location": "content.img" });
    let volume = || json!({ "size": { "min": 1, "max": 5 } });
    let book = || json!({ "definition": "book.yaml", "do_delete": true });
    vec![
        ("GlanceImages.list_images", json!({}), &["glance_v2.list_images"]),
        ("GlanceImages.create_and_list_image", image(), &["glance_v2.create_image", "glance_v2.list_images"]),
        ("GlanceImages.create_and_get_image", image(), &["glance_v2.create_image", "glance_v2.get_image"]),
        (
            "GlanceImages.create_and_delete_image",
            image(),
            &["glance_v2.create_image", "glance_v2.delete_image"],
        ),
        (
            "GlanceImages.create_and_update_image",
            image(),
            &["glance_v2.create_image", "glance_v2.update_image"],
        ),
        (
            "GlanceImages.create_and_deactivate_image",
            image(),
            &["glance_v2.create_image", "glance_v2.deactivate_image"],
        ),
        (
            "GlanceImages.create_and_download_image",
            image(),
            &["glance_v2.create_image", "glance_v2.download_image"],
        ),
        ("CinderVolumes.list_volumes", json!({ "detailed": true }), &["cinder_v3.list_volumes"]),
        (
            "CinderVolumes.create_volume",
            json!({ "size": 1, "image": { "id": "i1" } }),
            &["cinder_v3.create_volume"],
        ),
        (
            "CinderVolumes.create_and_list_volume",
            volume(),
            &["cinder_v3.create_volume", "cinder_v3.list_volumes"],
        ),
        (
            "CinderVolumes.create_and_get_volume",
            volume(),
            &["cinder_v3.create_volume", "cinder_v3.get_volume"],
        ),
        (
            "CinderVolumes.create_and_delete_volume",
            volume(),
            &["cinder_v3.create_volume", "cinder_v3.delete_volume"],
        ),
        ("MistralWorkbooks.list_workbooks", json!({}), &["mistral.list_workbooks"]),
        (
            "MistralWorkbooks.create_workbook",
            json!({ "definition": "book.yaml" }),
            &["mistral.create_workbook", "mistral.delete_workbook"],
        ),
        ("MistralExecutions.list_executions", json!({ "limit": 5 }), &["mistral.list_executions"]),
        (
            "MistralExecutions.create_execution_from_workbook",
            book(),
            &[
                "mistral.create_workbook",
                "mistral.create_execution",
                "mistral.delete_workbook",
                "mistral.delete_execution",
            ],
        ),
    ]
}

/// All of them.
pub(crate) fn all() -> Vec<RallyScenarioRow> {
    [compute_rows(), identity_rows(), network_rows(), other_rows()].concat()
}
