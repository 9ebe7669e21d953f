//! What the tables show of a group of steps in place of a request.

/// Of a group of steps.
pub const GROUP: &str = "group";
/// Of a group of steps that run at the same time.
pub const TOGETHER: &str = "together";
