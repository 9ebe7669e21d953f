//! Ids of traces and trace points, which [`osprofiler`] derives: no id may be made anywhere else.

pub use osprofiler::base::ids::mix;
pub use osprofiler::base::ids::{IdSpace, span_id};
