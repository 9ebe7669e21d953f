//! The types of messages and the methods of services: from `.proto` files, from a descriptor set, or from what a server
//! says of itself.

use std::path::{Path, PathBuf};

use base::complaint::Complaint;
use prost::Message as _;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, MessageDescriptor, MethodDescriptor};
use text::similar::did_you_mean;

/// The most names that a message lists.
const NAMES_MAX: usize = 10;

/// What is known of services and their messages.
#[derive(Clone, Debug, Default)]
pub struct ServiceSchema(pub(crate) DescriptorPool);

/// A method of a service. A cheap handle.
#[derive(Clone, Debug)]
pub struct Method(MethodDescriptor);

impl ServiceSchema {
    /// Compiles `.proto` files, and those that they import from the given folders.
    ///
    /// # Errors
    /// A file that cannot be read, or its first fault with line and column.
    pub fn from_protos(files: &[PathBuf], import_paths: &[PathBuf]) -> Result<Self, String> {
        // A file must be below a folder by its name, which `..` in either would hide.
        let whole = |path: &PathBuf| {
            let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
            path.canonicalize().map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let folders = import_paths.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let files = files.iter().map(whole).collect::<Result<Vec<_>, _>>()?;
        let mut compiler = protox::Compiler::new(folders).map_err(|error| error.to_string())?;
        compiler.include_imports(true);
        compiler.open_files(files).map_err(|error| said(&error))?;
        Ok(Self(compiler.descriptor_pool()))
    }

    /// Reads a descriptor set, as `protoc --descriptor_set_out --include_imports` writes it.
    ///
    /// # Errors
    /// Bytes that are none, or a set without a file that it needs.
    pub fn from_descriptor_set(bytes: &[u8]) -> Result<Self, String> {
        let set = FileDescriptorSet::decode(bytes).map_err(|error| error.to_string())?;
        Self::from_files(set.file)
    }

    /// From the files of which a server consists, in any order.
    ///
    /// # Errors
    /// A set without a file that it needs, or with contradictions.
    pub fn from_files(mut files: Vec<FileDescriptorProto>) -> Result<Self, String> {
        for file in &mut files {
            let syntax = file.syntax.as_deref().unwrap_or("proto2");
            match syntax {
                "proto2" | "proto3" => {}
                // On the wire, a file of an edition is one of proto2 unless it says otherwise.
                "editions" => file.syntax = Some("proto2".to_owned()),
                other => return Err(format!("{} has the unknown syntax `{other}`", file.name())),
            }
        }
        let mut pool = DescriptorPool::new();
        pool.add_file_descriptor_protos(files).map_err(|error| error.to_string())?;
        Ok(Self(pool))
    }

    /// The names of all services.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        self.0.services().map(|service| service.full_name().to_owned()).collect()
    }

    /// The methods of a service; none if it is not known.
    #[must_use]
    pub fn methods(&self, service: &str) -> Vec<Method> {
        let service = self.0.get_service_by_name(service);
        service.iter().flat_map(|service| service.methods().map(Method)).collect()
    }

    /// The method of this name; see [`split_name`].
    ///
    /// # Errors
    /// No such service or method, with those that there are.
    pub fn method(&self, name: &str) -> Result<Method, Complaint> {
        let (service, method) = split_name(name)?;
        let services = self.services();
        let Some(known) = self.0.get_service_by_name(service) else {
            let remedy = remedy(service, &services, "service");
            return Err(Complaint::new(format!("there is no service `{service}`"), remedy));
        };
        known.methods().find(|known| known.name() == method).map(Method).ok_or_else(|| {
            let methods: Vec<String> = known.methods().map(|method| method.name().to_owned()).collect();
            let remedy = remedy(method, &methods, "method");
            Complaint::new(format!("the service `{service}` has no method `{method}`"), remedy)
        })
    }
}

/// What went wrong with a `.proto` file, with its place.
fn said(error: &protox::Error) -> String {
    match error.file() {
        Some(file) if !error.to_string().contains(file) => format!("{file}: {error}"),
        _ => error.to_string(),
    }
}

fn remedy(name: &str, known: &[String], kind: &str) -> String {
    if let Some(known) = did_you_mean(name, known.iter().map(String::as_str)) {
        return format!("did you mean `{known}`?");
    }
    let shown: Vec<&str> = known.iter().take(NAMES_MAX).map(String::as_str).collect();
    match known.len() {
        0 => format!("there is no {kind} at all"),
        count if count > NAMES_MAX => format!("there are {count}, such as {}", shown.join(", ")),
        _ => format!("there is {}", shown.join(", ")),
    }
}

/// Service and method of a name: `package.Service/Method`, `/package.Service/Method` or `package.Service.Method`.
///
/// # Errors
/// A text that is none of these.
pub fn split_name(name: &str) -> Result<(&str, &str), Complaint> {
    let trimmed = name.strip_prefix('/').unwrap_or(name);
    let parts = trimmed.split_once('/').or_else(|| trimmed.rsplit_once('.'));
    let is_name = |text: &str| {
        let is_part = |part: &str| {
            !part.starts_with(|c: char| c.is_ascii_digit())
                && !part.is_empty()
                && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        text.split('.').all(is_part)
    };
    match parts {
        Some((service, method)) if is_name(service) && is_name(method) && !method.contains('.') => {
            Ok((service, method))
        }
        _ => Err(Complaint::new(
            format!("`{name}` is not a method of a service"),
            "write the package, the service and the method, such as `shop.v1.Payments/Charge`",
        )),
    }
}

/// The folders to search for imported `.proto` files: the given ones, or else the folders of the files.
#[must_use]
pub fn import_paths(files: &[PathBuf], given: &[PathBuf]) -> Vec<PathBuf> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in files.iter().filter_map(|file| file.parent()).map(Path::to_owned) {
        if !paths.contains(&folder) {
            paths.push(folder);
        }
    }
    paths
}

impl Method {
    /// Its path in requests.
    #[must_use]
    pub fn path(&self) -> String {
        format!("/{}/{}", self.0.parent_service().full_name(), self.0.name())
    }

    /// Its name without its service.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.name()
    }

    /// The type of what is sent.
    #[must_use]
    pub fn input(&self) -> MessageDescriptor {
        self.0.input()
    }

    /// The type of what comes back.
    #[must_use]
    pub fn output(&self) -> MessageDescriptor {
        self.0.output()
    }

    /// True if the client sends any number of messages.
    #[must_use]
    pub fn is_client_streaming(&self) -> bool {
        self.0.is_client_streaming()
    }

    /// True if the server sends any number of messages.
    #[must_use]
    pub fn is_server_streaming(&self) -> bool {
        self.0.is_server_streaming()
    }

    /// All that is known of the services and messages around it.
    #[must_use]
    pub fn schema(&self) -> ServiceSchema {
        ServiceSchema(self.0.parent_pool().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_edition_are_read_and_unknown_syntaxes_named() {
        let file = |syntax: &str| FileDescriptorProto {
            name: Some("a.proto".to_owned()),
            syntax: Some(syntax.to_owned()),
            ..FileDescriptorProto::default()
        };
        for syntax in ["proto2", "proto3", "editions"] {
            assert!(ServiceSchema::from_files(vec![file(syntax)]).is_ok(), "{syntax}");
        }
        let error = ServiceSchema::from_files(vec![file("proto4")]).unwrap_err();
        assert_eq!(error, "a.proto has the unknown syntax `proto4`");
    }

    #[test]
    fn a_method_is_named_in_three_ways() {
        for name in ["a.b.C/D", "/a.b.C/D", "a.b.C.D"] {
            assert_eq!(split_name(name), Ok(("a.b.C", "D")), "{name}");
        }
        for name in ["", "C", "/C", "a b/C", "a.C/", "/", "a..C/D", "a.C/D/E", "a.C/1"] {
            assert!(split_name(name).is_err(), "{name}");
        }
    }
}
