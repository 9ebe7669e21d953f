//! Scenarios for Glance and Cinder.

use super::arguments::Use;
use super::{Argument, Shipped, may, must, user};
use crate::scenarios::Kind;

/// The longest pause: a day.
const SLEEP_S_MAX: f64 = 86_400.0;
const COUNT: Kind = Kind::Integer(0, i64::MAX);

static CONTENT: [Argument; 4] = [
    must("container_format", Kind::Text, Use::Entry("image", "container_format")),
    must("image_location", Kind::Text, Use::Upload),
    must("disk_format", Kind::Text, Use::Entry("image", "disk_format")),
    may("visibility", Kind::Text, Use::Entry("image", "visibility")),
];

static LEAST: [Argument; 2] = [
    may("min_disk", COUNT, Use::Entry("image", "min_disk")),
    may("min_ram", COUNT, Use::Entry("image", "min_ram")),
];

static PROPERTIES: [Argument; 1] = [may("properties", Kind::Map, Use::Entries("image"))];

static UPDATE: [Argument; 5] = [
    may("create_min_disk", COUNT, Use::Entry("image", "min_disk")),
    may("create_min_ram", COUNT, Use::Entry("image", "min_ram")),
    may("create_properties", Kind::Map, Use::Entries("image")),
    may("update_min_disk", COUNT, Use::Variable("update_min_disk")),
    may("update_min_ram", COUNT, Use::Variable("update_min_ram")),
];

static VOLUME: [Argument; 7] = [
    must("size", Kind::Any, Use::SizeIn("volume", "size")),
    may("image", Kind::Map, Use::ImageIn("volume", "imageRef")),
    may("volume_type", Kind::Text, Use::Entry("volume", "volume_type")),
    may("availability_zone", Kind::Text, Use::Entry("volume", "availability_zone")),
    may("description", Kind::Text, Use::Entry("volume", "description")),
    may("metadata", Kind::Map, Use::Entry("volume", "metadata")),
    may("source_volid", Kind::Text, Use::Entry("volume", "source_volid")),
];

static DETAILED: [Argument; 1] = [may("detailed", Kind::Flag, Use::Variable("detailed"))];

static LIST_VOLUMES: [Argument; 5] = [
    may("detailed", Kind::Flag, Use::Variable("detailed")),
    may("limit", COUNT, Use::Query),
    may("marker", Kind::Text, Use::Query),
    may("sort", Kind::Text, Use::Query),
    may("search_opts", Kind::Empty, Use::Nothing),
];

static PAUSE: [Argument; 2] = [
    may("min_sleep", Kind::Number(SLEEP_S_MAX), Use::PauseMin),
    may("max_sleep", Kind::Number(SLEEP_S_MAX), Use::PauseMax),
];

/// The scenarios.
pub(super) static SCENARIOS: [Shipped; 12] = [
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
