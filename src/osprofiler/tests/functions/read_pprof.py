"""Prints a pprof file, decoded by Google's protobuf with the fields of profile.proto."""

import gzip
import sys

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

FIELDS = {
    "ValueType": [("type", 1, "int64", False), ("unit", 2, "int64", False)],
    "Label": [("key", 1, "int64", False), ("str", 2, "int64", False), ("num", 3, "int64", False)],
    "Line": [("function_id", 1, "uint64", False), ("line", 2, "int64", False)],
    "Sample": [("location_id", 1, "uint64", True), ("value", 2, "int64", True), ("label", 3, "Label", True)],
    "Location": [("id", 1, "uint64", False), ("mapping_id", 2, "uint64", False), ("address", 3, "uint64", False),
                 ("line", 4, "Line", True)],
    "Function": [("id", 1, "uint64", False), ("name", 2, "int64", False), ("system_name", 3, "int64", False),
                 ("filename", 4, "int64", False), ("start_line", 5, "int64", False)],
    "Profile": [("sample_type", 1, "ValueType", True), ("sample", 2, "Sample", True),
                ("location", 4, "Location", True), ("function", 5, "Function", True),
                ("string_table", 6, "string", True), ("period_type", 11, "ValueType", False),
                ("period", 12, "int64", False), ("comment", 13, "int64", True)],
}

proto = descriptor_pb2.FileDescriptorProto(name="profile.proto", package="perftools.profiles", syntax="proto3")
kinds = descriptor_pb2.FieldDescriptorProto
for name, fields in FIELDS.items():
    message = proto.message_type.add(name=name)
    for field, number, kind, repeated in fields:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        if kind in FIELDS:
            message.field.add(name=field, number=number, label=label, type=kinds.TYPE_MESSAGE,
                              type_name=f".perftools.profiles.{kind}")
        else:
            message.field.add(name=field, number=number, label=label, type=getattr(kinds, f"TYPE_{kind.upper()}"))

pool = descriptor_pool.DescriptorPool()
pool.Add(proto)
descriptor = pool.FindMessageTypeByName("perftools.profiles.Profile")
profile = message_factory.GetMessageClass(descriptor)()
with open(sys.argv[1], "rb") as file:
    profile.ParseFromString(gzip.decompress(file.read()))

text = profile.string_table
kinds = [f"{text[kind.type]}/{text[kind.unit]}" for kind in profile.sample_type]
print(*kinds, "period", text[profile.period_type.type], profile.period)
locations = {location.id: location for location in profile.location}
functions = {function.id: function for function in profile.function}
for sample in sorted(profile.sample, key=lambda sample: sample.value[0]):
    names = [text[functions[line.function_id].name] for id in sample.location_id for line in locations[id].line]
    labels = [f"{text[label.key]}={text[label.str]}" for label in sample.label]
    print(*sample.value, *names, *labels)
for comment in profile.comment:
    print(text[comment])
