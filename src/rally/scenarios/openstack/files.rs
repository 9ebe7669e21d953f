//! The files in `scenarios/openstack`, as they were when this program was built.

#[derive(Clone, Copy)]
pub(super) struct EmbeddedFile {
    pub(super) name: &'static str,
    pub(super) text: &'static str,
}

/// What a scenario's setup includes to find the flavor.
pub(super) const FIND_FLAVOR: &str = "steps/find-flavor.yaml";
/// What a scenario's setup includes to find the image.
pub(super) const FIND_IMAGE: &str = "steps/find-image.yaml";
/// What a scenario's setup includes to find the ids of its user and project.
pub(super) const FIND_SELF: &str = "steps/find-self.yaml";
/// What deletes a server.
pub(super) const DELETE_SERVER: &str = "steps/delete-server.yaml";
/// What deletes it by force.
pub(super) const FORCE_DELETE_SERVER: &str = "steps/force-delete-server.yaml";
/// The file that is uploaded as an image's content.
pub(super) const IMAGE: &str = "../files/image.raw";

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        [$(EmbeddedFile { name: $name, text: include_str!(concat!("../../../../scenarios/openstack/", $name, ".yaml")) }),*]
    };
}

static SCENARIOS: [EmbeddedFile; 83] = embedded![
    "Authenticate.keystone",
    "Authenticate.validate_cinder",
    "Authenticate.validate_glance",
    "Authenticate.validate_neutron",
    "Authenticate.validate_nova",
    "CinderVolumes.create_and_delete_volume",
    "CinderVolumes.create_and_get_volume",
    "CinderVolumes.create_and_list_volume",
    "CinderVolumes.create_volume",
    "CinderVolumes.list_volumes",
    "GlanceImages.create_and_deactivate_image",
    "GlanceImages.create_and_delete_image",
    "GlanceImages.create_and_download_image",
    "GlanceImages.create_and_get_image",
    "GlanceImages.create_and_list_image",
    "GlanceImages.create_and_update_image",
    "GlanceImages.list_images",
    "KeystoneBasic.add_and_remove_user_role",
    "KeystoneBasic.authenticate_user_and_validate_token",
    "KeystoneBasic.create_add_and_list_user_roles",
    "KeystoneBasic.create_and_delete_ec2credential",
    "KeystoneBasic.create_and_delete_role",
    "KeystoneBasic.create_and_delete_service",
    "KeystoneBasic.create_and_get_role",
    "KeystoneBasic.create_and_list_ec2credentials",
    "KeystoneBasic.create_and_list_roles",
    "KeystoneBasic.create_and_list_services",
    "KeystoneBasic.create_and_list_tenants",
    "KeystoneBasic.create_and_list_users",
    "KeystoneBasic.create_and_update_user",
    "KeystoneBasic.create_delete_user",
    "KeystoneBasic.create_tenant",
    "KeystoneBasic.create_tenant_with_users",
    "KeystoneBasic.create_update_and_delete_tenant",
    "KeystoneBasic.create_user",
    "KeystoneBasic.create_user_set_enabled_and_delete",
    "KeystoneBasic.create_user_update_password",
    "KeystoneBasic.get_entities",
    "MistralExecutions.create_execution_from_workbook",
    "MistralExecutions.list_executions",
    "MistralWorkbooks.create_workbook",
    "MistralWorkbooks.list_workbooks",
    "NeutronNetworks.create_and_delete_networks",
    "NeutronNetworks.create_and_delete_ports",
    "NeutronNetworks.create_and_delete_routers",
    "NeutronNetworks.create_and_delete_subnets",
    "NeutronNetworks.create_and_list_networks",
    "NeutronNetworks.create_and_list_ports",
    "NeutronNetworks.create_and_list_routers",
    "NeutronNetworks.create_and_list_subnets",
    "NeutronNetworks.create_and_show_network",
    "NeutronNetworks.create_and_show_ports",
    "NeutronNetworks.create_and_show_routers",
    "NeutronNetworks.create_and_show_subnets",
    "NeutronNetworks.create_and_update_networks",
    "NeutronNetworks.create_and_update_ports",
    "NeutronNetworks.create_and_update_routers",
    "NeutronNetworks.create_and_update_subnets",
    "NeutronSecurityGroup.create_and_delete_security_groups",
    "NeutronSecurityGroup.create_and_list_security_groups",
    "NeutronSecurityGroup.create_and_show_security_group",
    "NeutronSecurityGroup.create_and_update_security_groups",
    "NovaFlavors.create_and_delete_flavor",
    "NovaFlavors.create_and_get_flavor",
    "NovaFlavors.create_and_list_flavor_access",
    "NovaFlavors.create_flavor",
    "NovaFlavors.create_flavor_and_add_tenant_access",
    "NovaFlavors.create_flavor_and_set_keys",
    "NovaFlavors.list_flavors",
    "NovaKeypair.boot_and_delete_server_with_keypair",
    "NovaKeypair.create_and_delete_keypair",
    "NovaKeypair.create_and_get_keypair",
    "NovaKeypair.create_and_list_keypairs",
    "NovaServers.boot_and_delete_server",
    "NovaServers.boot_and_list_server",
    "NovaServers.boot_and_show_server",
    "NovaServers.boot_lock_unlock_and_delete",
    "NovaServers.boot_server",
    "NovaServers.list_servers",
    "NovaServers.pause_and_unpause_server",
    "NovaServers.shelve_and_unshelve_server",
    "NovaServers.snapshot_server",
    "NovaServers.suspend_and_resume_server",
];

static STEPS: [EmbeddedFile; 33] = embedded![
    "steps/boot-server",
    "steps/create-flavor",
    "steps/create-image",
    "steps/create-keypair",
    "steps/create-network",
    "steps/create-project",
    "steps/create-role",
    "steps/create-security-group",
    "steps/create-service",
    "steps/create-user",
    "steps/create-volume",
    "steps/create-workbook",
    "steps/delete-executions",
    "steps/delete-flavors",
    "steps/delete-images",
    "steps/delete-keypairs",
    "steps/delete-networks",
    "steps/delete-ports",
    "steps/delete-projects",
    "steps/delete-resource-providers",
    "steps/delete-roles",
    "steps/delete-routers",
    "steps/delete-security-groups",
    "steps/delete-server",
    "steps/delete-servers",
    "steps/delete-services",
    "steps/delete-users",
    "steps/delete-volumes",
    "steps/delete-workbooks",
    "steps/find-flavor",
    "steps/find-image",
    "steps/find-self",
    "steps/force-delete-server",
];

/// What is there in place of a file that is not; a test sees to it that every name is that of a file.
const NONE: EmbeddedFile = EmbeddedFile { name: "", text: "" };

/// The scenario of this name.
pub(super) fn scenario(name: &str) -> EmbeddedFile {
    SCENARIOS.iter().find(|file| file.name == name).copied().unwrap_or(NONE)
}

/// The steps that a scenario includes as `steps/NAME.yaml`.
pub(super) fn steps(path: &str) -> EmbeddedFile {
    let name = path.strip_suffix(".yaml").unwrap_or(path);
    STEPS.iter().find(|file| file.name == name).copied().unwrap_or(NONE)
}
