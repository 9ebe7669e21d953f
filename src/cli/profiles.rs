//! Where services leave profiles.

use collect::profiles::ProfileSource;

/// The option for profiles.
#[derive(Debug, clap::Args)]
pub(super) struct ProfilesArgument {
    /// Where services leave profiles of traces or of their points: a directory, or a Pyroscope server.
    ///
    /// In a directory, files such as `ID.collapsed` or `ID.pb.gz`: collapsed stacks, or pprof's format, where samples may also
    /// have the label `span_id`. A server is asked for span profiles, and what is asked of it is in the URL's query:
    /// `http://127.0.0.1:4040?selector={service_name="api"}`, also `type` and `tenant`. Its agents send every ten or
    /// fifteen seconds, so the profiles of the last iterations come with a `bench collect` later.
    #[arg(long, value_name = "DIR|URL")]
    profiles: Option<ProfileSource>,
}

impl ProfilesArgument {
    pub(super) fn source(&self) -> Option<ProfileSource> {
        self.profiles.clone()
    }
}
