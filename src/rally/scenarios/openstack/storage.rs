//! Scenarios for Glance and Cinder.

use super::arguments::ArgumentMapping;
use super::{Argument, ShippedScenario, may, must, user};
use crate::scenarios::ParameterKind;

/// The longest pause: a day.
const SLEEP_S_MAX: f64 = 86_400.0;
const COUNT: ParameterKind = ParameterKind::Integer(0, i64::MAX);

static CONTENT: [Argument; 4] = [
    must("container_format", ParameterKind::Text, ArgumentMapping::Entry("image", "container_format")),
    must("image_location", ParameterKind::Text, ArgumentMapping::Upload),
    must("disk_format", ParameterKind::Text, ArgumentMapping::Entry("image", "disk_format")),
    may("visibility", ParameterKind::Text, ArgumentMapping::Entry("image", "visibility")),
];

static LEAST: [Argument; 2] = [
    may("min_disk", COUNT, ArgumentMapping::Entry("image", "min_disk")),
    may("min_ram", COUNT, ArgumentMapping::Entry("image", "min_ram")),
];

static PROPERTIES: [Argument; 1] = [may("properties", ParameterKind::Map, ArgumentMapping::Entries("image"))];

static UPDATE: [Argument; 5] = [
    may("create_min_disk", COUNT, ArgumentMapping::Entry("image", "min_disk")),
    may("create_min_ram", COUNT, ArgumentMapping::Entry("image", "min_ram")),
    may("create_properties", ParameterKind::Map, ArgumentMapping::Entries("image")),
    may("update_min_disk", COUNT, ArgumentMapping::Variable("update_min_disk")),
    may("update_min_ram", COUNT, ArgumentMapping::Variable("update_min_ram")),
];

static VOLUME: [Argument; 7] = [
    must("size", ParameterKind::Any, ArgumentMapping::SizeIn("volume", "size")),
    may("image", ParameterKind::Map, ArgumentMapping::ImageIn("volume", "imageRef")),
    may("volume_type", ParameterKind::Text, ArgumentMapping::Entry("volume", "volume_type")),
    may("availability_zone", ParameterKind::Text, ArgumentMapping::Entry("volume", "availability_zone")),
    may("description", ParameterKind::Text, ArgumentMapping::Entry("volume", "description")),
    may("metadata", ParameterKind::Map, ArgumentMapping::Entry("volume", "metadata")),
    may("source_volid", ParameterKind::Text, ArgumentMapping::Entry("volume", "source_volid")),
];

static DETAILED: [Argument; 1] =
    [may("detailed", ParameterKind::Flag, ArgumentMapping::Variable("detailed"))];

static LIST_VOLUMES: [Argument; 5] = [
    may("detailed", ParameterKind::Flag, ArgumentMapping::Variable("detailed")),
    may("limit", COUNT, ArgumentMapping::Query),
    may("marker", ParameterKind::Text, ArgumentMapping::Query),
    may("sort", ParameterKind::Text, ArgumentMapping::Query),
    may("search_opts", ParameterKind::Empty, ArgumentMapping::Nothing),
];

static PAUSE: [Argument; 2] = [
    may("min_sleep", ParameterKind::Number(SLEEP_S_MAX), ArgumentMapping::PauseMin),
    may("max_sleep", ParameterKind::Number(SLEEP_S_MAX), ArgumentMapping::PauseMax),
];

pub(super) static SCENARIOS: [ShippedScenario; 12] = [
    user("GlanceImages.list_images", &[]),
    user("GlanceImages.create_and_list_image", &[&CONTENT, &LEAST, &PROPERTIES]),
    user("GlanceImages.create_and_get_image", &[&CONTENT, &LEAST, &PROPERTIES]),
    user("GlanceImages.create_and_delete_image", &[&CONTENT, &LEAST, &PROPERTIES]),
    user("GlanceImages.create_and_update_image", &[&CONTENT, &UPDATE]),
    user("GlanceImages.create_and_deactivate_image", &[&CONTENT, &LEAST]),
    user("GlanceImages.create_and_download_image", &[&CONTENT, &LEAST, &PROPERTIES]),
    user("CinderVolumes.list_volumes", &[&LIST_VOLUMES]),
    user("CinderVolumes.create_volume", &[&VOLUME]),
    user("CinderVolumes.create_and_list_volume", &[&VOLUME, &DETAILED]),
    user("CinderVolumes.create_and_get_volume", &[&VOLUME]),
    user("CinderVolumes.create_and_delete_volume", &[&VOLUME, &PAUSE]),
];
