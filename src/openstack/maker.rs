//! What everything that makes things in a cloud shares: names, several requests at a time.

use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};

use super::cloud::{Caller, Cloud, Problem};
use base::secret::Secret;

/// Makes things with names that carry the run.
pub(super) struct Maker<'a> {
    pub(super) cloud: &'a Cloud,
    /// What all names begin with.
    pub(super) prefix: &'a str,
    /// Of all users.
    pub(super) password: &'a Secret,
    counted: AtomicU32,
}

impl<'a> Maker<'a> {
    pub(super) fn new(cloud: &'a Cloud, prefix: &'a str, password: &'a Secret) -> Self {
        Self { cloud, prefix, password, counted: AtomicU32::new(0) }
    }

    /// A new name.
    pub(super) fn name(&self, what: &str) -> String {
        let number = self.counted.fetch_add(1, Ordering::Relaxed) + 1;
        format!("{}-{what}-{number}", self.prefix)
    }
}

/// A project.
pub(super) struct Tenant {
    pub(super) id: String,
    pub(super) name: String,
    /// Who makes things in it.
    pub(super) caller: Caller,
}

/// Does something with each of many, several at a time.
pub(super) async fn each<T, R, F: Future<Output = Result<R, Problem>>>(
    items: impl IntoIterator<Item = T>,
    workers: usize,
    work: impl FnMut(T) -> F,
) -> Result<Vec<R>, Problem> {
    let running: Vec<F> = items.into_iter().map(work).collect();
    stream::iter(running).buffered(workers.max(1)).try_collect().await
}

/// A text as a part of a URL.
pub(super) fn escaped(text: &str) -> String {
    let mut output = String::new();
    client::url::push_query_value(text, &mut output);
    output
}
