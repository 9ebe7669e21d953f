//! A collector's own methods as the methods of a [`Driver`](super::Driver).
//!
//! Collectors are written with `async fn`; the trait, which programs may implement and which is used as
//! `dyn`, has boxed futures.

/// Makes a type a `Driver` that has `async` methods `write`, `records`, `list` and `probe` of its own. What
/// else the trait asks for is given in braces.
macro_rules! driver {
    ($collector:ident { $($own:tt)+ }) => {
        impl $crate::driver::Driver for $collector {
            fn write<'a>(&'a self, records: &'a [$crate::record::TraceRecord]) -> $crate::driver::DriverAnswer<'a, ()> {
                Box::pin(Self::write(self, records))
            }

            fn records<'a>(&'a self, base_id: &'a str) -> $crate::driver::DriverAnswer<'a, $crate::driver::CollectorTrace> {
                Box::pin(async move { Self::records(self, base_id).await.map($crate::driver::CollectorTrace::from) })
            }

            fn list<'a>(
                &'a self,
                query: &'a $crate::summary::TraceQuery,
            ) -> $crate::driver::DriverAnswer<'a, Vec<$crate::summary::TraceSummary>> {
                Box::pin(Self::list(self, query))
            }

            fn probe(&self) -> $crate::driver::DriverAnswer<'_, ()> {
                Box::pin(Self::probe(self))
            }

            $($own)+
        }
    };
}

pub(super) use driver;
