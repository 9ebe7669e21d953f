//! OpenStack: logging in to Keystone, its catalog of services, and what a run makes in a cloud and deletes again.
//!
//! Nothing here runs during the load but the renewal of tokens. What deployments say about a cloud is read by `plan`.

pub mod catalog;
pub mod cloud;
pub mod contexts;
pub mod keystone;
mod kinds;
mod make;
mod maker;
pub mod names;
pub mod record;
mod resources;
pub mod sweep;
