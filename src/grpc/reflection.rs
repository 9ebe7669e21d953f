//! What is asked of a server and what it answers in gRPC's [server reflection], versions `v1` and `v1alpha`, whose messages
//! are the same.
//!
//! [server reflection]: https://github.com/grpc/grpc/blob/master/doc/server-reflection.md

use std::collections::BTreeMap;

use bytes::Bytes;
use prost::Message as _;
use prost_reflect::prost_types::FileDescriptorProto;

use crate::frames;
use crate::imports;
use crate::schema::ServiceSchema;

/// The paths of its versions, the newest first.
pub const PATHS: [&str; 2] = [
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];
/// The most files of a server: some list all that they were built with.
const FILES_MAX: usize = 10_000;

/// A question to a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Question {
    /// Which services it has.
    Services,
    /// The file that has this service, and mostly those that it imports.
    FileOfService(String),
    /// The file of this name.
    File(String),
}

/// What a server answers.
#[derive(Clone, Debug, PartialEq)]
pub enum ReflectionAnswer {
    /// The names of its services.
    Services(Vec<String>),
    /// Files, each as bytes.
    Files(Vec<Bytes>),
    /// What it does not know, with its status and its words.
    Refused(i32, String),
}

#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionRequest {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(oneof = "RequestKind", tags = "3, 4, 7")]
    kind: Option<RequestKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum RequestKind {
    #[prost(string, tag = "3")]
    FileByName(String),
    #[prost(string, tag = "4")]
    FileContainingSymbol(String),
    #[prost(string, tag = "7")]
    ListServices(String),
}

#[derive(Clone, PartialEq, prost::Message)]
struct ReflectionResponse {
    #[prost(oneof = "ResponseKind", tags = "4, 6, 7")]
    kind: Option<ResponseKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum ResponseKind {
    #[prost(message, tag = "4")]
    Files(FileResponse),
    #[prost(message, tag = "6")]
    Services(ServicesResponse),
    #[prost(message, tag = "7")]
    Error(ErrorResponse),
}

#[derive(Clone, PartialEq, prost::Message)]
struct FileResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    files: Vec<Bytes>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServicesResponse {
    #[prost(message, repeated, tag = "1")]
    services: Vec<ServiceResponse>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ServiceResponse {
    #[prost(string, tag = "1")]
    name: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ErrorResponse {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

impl Question {
    /// The body of a request that asks it.
    #[must_use]
    pub fn body(&self, host: &str) -> Vec<u8> {
        let kind = match self {
            Self::Services => RequestKind::ListServices("*".to_owned()),
            Self::FileOfService(service) => RequestKind::FileContainingSymbol(service.clone()),
            Self::File(name) => RequestKind::FileByName(name.clone()),
        };
        let request = ReflectionRequest { host: host.to_owned(), kind: Some(kind) };
        let mut body = Vec::new();
        frames::push(&mut body, &request.encode_to_vec(), false);
        body
    }
}

/// The largest answer when unpacked.
const ANSWER_BYTES_MAX: u64 = 256 << 20;

/// Reads the body of an answer; `encoding` is what its head says in `grpc-encoding`. Some servers compress whatever a
/// client accepts.
///
/// # Errors
/// A body that is no answer to a question.
pub fn read(body: &[u8], encoding: Option<&str>) -> Result<ReflectionAnswer, String> {
    let wrong = || "the answer to reflection cannot be read".to_owned();
    let message = frames::split(body).next().and_then(Result::ok).ok_or_else(wrong)?;
    let unpacked = message.unpacked(encoding, ANSWER_BYTES_MAX).map_err(|_| wrong())?;
    let content = unpacked.as_deref().unwrap_or(message.content);
    let response = ReflectionResponse::decode(content).map_err(|error| format!("{}: {error}", wrong()))?;
    match response.kind.ok_or_else(wrong)? {
        ResponseKind::Files(files) => Ok(ReflectionAnswer::Files(files.files)),
        ResponseKind::Services(list) => {
            Ok(ReflectionAnswer::Services(list.services.into_iter().map(|service| service.name).collect()))
        }
        ResponseKind::Error(error) => Ok(ReflectionAnswer::Refused(error.code, error.message)),
    }
}

/// The files of a server, as they come.
#[derive(Debug, Default)]
pub struct KnownFiles(BTreeMap<String, FileDescriptorProto>);

impl KnownFiles {
    /// Adds files of an answer.
    ///
    /// # Errors
    /// Bytes that are no file, and more files than any server has.
    pub fn add(&mut self, files: &[Bytes]) -> Result<(), String> {
        for bytes in files {
            let file = FileDescriptorProto::decode(&bytes[..])
                .map_err(|error| format!("a file of the server's reflection cannot be read: {error}"))?;
            self.0.entry(file.name().to_owned()).or_insert(file);
            if self.0.len() > FILES_MAX {
                return Err(format!("the server's reflection has more than {FILES_MAX} files"));
            }
        }
        Ok(())
    }

    /// A file that another one imports and that is not there yet.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let imports = self.0.values().flat_map(|file| &file.dependency);
        imports.into_iter().find(|name| !self.0.contains_key(*name)).cloned()
    }

    /// All of them together.
    ///
    /// # Errors
    /// Files that contradict each other.
    pub fn schema(self) -> Result<ServiceSchema, String> {
        let mut files: Vec<FileDescriptorProto> = self.0.into_values().collect();
        imports::complete(&mut files);
        ServiceSchema::from_files(files)
    }
}
