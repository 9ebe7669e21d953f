//! Imports that the files of a server's reflection do not name, though they use what is in other files.
//!
//! The reflection of Node's `@grpc/reflection` names none at all, not even of protobuf's own files.

use std::collections::{BTreeMap, BTreeSet};

use prost_reflect::DescriptorPool;
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto};

/// The package of protobuf's own types.
const OWN_PACKAGE: &str = "google.protobuf";

/// Adds what files lack of imports.
pub(crate) fn complete(files: &mut Vec<FileDescriptorProto>) {
    let mut defined = BTreeMap::new();
    for file in files.iter() {
        names(file).into_iter().for_each(|name| drop(defined.insert(name, file.name().to_owned())));
    }
    let mut own = BTreeMap::new();
    for file in DescriptorPool::global().files().filter(|file| file.package_name() == OWN_PACKAGE) {
        let file = file.file_descriptor_proto().clone();
        names(&file).into_iter().for_each(|name| drop(own.insert(name, file.clone())));
    }
    let mut added: BTreeMap<String, FileDescriptorProto> = BTreeMap::new();
    for file in files.iter_mut() {
        let mut imports: BTreeSet<String> = file.dependency.iter().cloned().collect();
        for (scope, name) in references(file) {
            let found = candidates(&scope, &name).find_map(|full| {
                let defined = defined.get(&full).map(|name| (name.clone(), None));
                defined.or_else(|| own.get(&full).map(|file| (file.name().to_owned(), Some(file.clone()))))
            });
            let Some((import, well_known)) = found else { continue };
            if import != file.name() && imports.insert(import.clone()) {
                file.dependency.push(import.clone());
                added.extend(well_known.map(|file| (import, file)));
            }
        }
    }
    let is_known = |name: &str| files.iter().any(|file| file.name() == name);
    let new: Vec<_> = added.into_values().filter(|file| !is_known(file.name())).collect();
    files.extend(new);
}

/// The full names of what a file defines.
fn names(file: &FileDescriptorProto) -> Vec<String> {
    let mut found = Vec::new();
    add_names(file.package(), &file.message_type, &file.enum_type, &mut found);
    found
}

fn add_names(
    scope: &str,
    messages: &[DescriptorProto],
    enums: &[EnumDescriptorProto],
    found: &mut Vec<String>,
) {
    found.extend(enums.iter().map(|one| joined(scope, one.name())));
    for message in messages {
        let name = joined(scope, message.name());
        add_names(&name, &message.nested_type, &message.enum_type, found);
        found.push(name);
    }
}

/// The types that a file uses, each with the scope in which its name stands.
fn references(file: &FileDescriptorProto) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for message in &file.message_type {
        add_references(file.package(), message, &mut found);
    }
    for method in file.service.iter().flat_map(|service| &service.method) {
        for name in [method.input_type(), method.output_type()] {
            found.push((file.package().to_owned(), name.to_owned()));
        }
    }
    found
}

fn add_references(scope: &str, message: &DescriptorProto, found: &mut Vec<(String, String)>) {
    let scope = joined(scope, message.name());
    let types = message.field.iter().map(|field| field.type_name()).filter(|name| !name.is_empty());
    found.extend(types.map(|name| (scope.clone(), name.to_owned())));
    message.nested_type.iter().for_each(|nested| add_references(&scope, nested, found));
}

/// The full names that a name may mean in a scope, the innermost first; a name with a dot in front is full.
fn candidates<'a>(scope: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    let full = name.strip_prefix('.').map(str::to_owned);
    let scopes = std::iter::successors(Some(scope), |scope| {
        (!scope.is_empty()).then(|| scope.rsplit_once('.').map_or("", |(outer, _)| outer))
    });
    let is_full = full.is_some();
    full.into_iter().chain(scopes.filter(move |_| !is_full).map(move |scope| joined(scope, name)))
}

fn joined(scope: &str, name: &str) -> String {
    if scope.is_empty() { name.to_owned() } else { format!("{scope}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_for_from_the_innermost_scope_on() {
        let all = |scope, name| candidates(scope, name).collect::<Vec<_>>();
        assert_eq!(all("a.b.C", "D.E"), ["a.b.C.D.E", "a.b.D.E", "a.D.E", "D.E"]);
        assert_eq!(all("a", ".b.C"), ["b.C"]);
        assert_eq!(all("", "C"), ["C"]);
    }
}
