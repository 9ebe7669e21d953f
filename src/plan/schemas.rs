//! What is known of the types of gRPC's messages: from files that the scenario names, or from the services themselves.

use std::path::{Path, PathBuf};

use base::complaint::Complaint;
use config::grpc::Grpc;
use grpc::schema::{Method, ServiceSchema, import_paths};
use text::diagnostics::Fault;
use text::files;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

/// The types that files describe.
#[derive(Default)]
pub(super) struct KnownSchemas {
    /// `None` if the scenario names no files.
    of_files: Option<ServiceSchema>,
    /// True if it names some that cannot be read: then methods are not looked for.
    are_faulty: bool,
}

impl KnownSchemas {
    /// Reads the files that a scenario names.
    pub(super) fn read(
        written: Option<&Grpc>,
        folder: &Path,
        node: &YamlNode,
        faults: &mut Vec<Fault>,
    ) -> Self {
        let Some(written) = written else { return Self::default() };
        match of_files(written, folder, node) {
            Ok(schema) => Self { of_files: Some(schema), are_faulty: false },
            Err(fault) => {
                faults.push(fault);
                Self { of_files: None, are_faulty: true }
            }
        }
    }

    /// The method of this name, as far as it is known already. `of_target`: what its service has said.
    pub(super) fn method(
        &self,
        of_target: Option<&ServiceSchema>,
        (name, place): (&str, &YamlNode),
        faults: &mut Vec<Fault>,
    ) -> Option<Method> {
        if self.are_faulty {
            return None;
        }
        let method = self.of_files.as_ref().or(of_target)?.method(name);
        method.map_err(|complaint| faults.push(Fault::of(place.span.clone(), complaint))).ok()
    }
}

fn of_files(written: &Grpc, folder: &Path, node: &YamlNode) -> Result<ServiceSchema, Fault> {
    let full = |path: &String| folder.join(path);
    let protos: Vec<PathBuf> = written.protos.iter().flatten().map(full).collect();
    let given: Vec<PathBuf> = written.import_paths.iter().flatten().map(full).collect();
    let (place, read) = match (&written.descriptors, protos.as_slice()) {
        (Some(_), [_, ..]) => {
            let complaint = Complaint::new("`protos` together with `descriptors`", "keep one of them");
            return Err(Fault::of(key_span(node, "descriptors"), complaint));
        }
        (None, []) => {
            let complaint = Complaint::new("neither `protos` nor `descriptors`", "add one of them");
            return Err(Fault::of(node.span.clone(), complaint));
        }
        (None, protos) => {
            (at(node, &["protos"]), ServiceSchema::from_protos(protos, &import_paths(protos, &given)))
        }
        (Some(path), []) => {
            let bytes = files::read_regular(&full(path));
            let bytes = bytes.map_err(|error| format!("cannot read {path}: {error}"));
            (at(node, &["descriptors"]), bytes.and_then(|bytes| ServiceSchema::from_descriptor_set(&bytes)))
        }
    };
    read.map_err(|reason| {
        let help =
            "paths are relative to the scenario, and imported files are searched for in `import_paths`";
        Fault::error(place.span.clone(), reason).help(help)
    })
}
