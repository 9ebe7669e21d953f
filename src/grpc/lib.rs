//! gRPC without its connection: what the bytes of calls mean.
//!
//! A gRPC call is a request of HTTP/2: a POST to `/package.Service/Method` whose body is a row of framed messages, and
//! whose trailers say how it went (the [protocol of gRPC over HTTP/2]). Here are the types of the messages ([`schema`]),
//! messages as JSON and back ([`message`]), their frames ([`frames`]), what an answer says ([`answer`]), and how a server
//! is asked for the types of its messages ([`reflection`]). Nothing here is sent.
//!
//! [protocol of gRPC over HTTP/2]: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md

pub mod answer;
pub mod frames;
mod imports;
pub mod message;
pub mod reflection;
pub mod schema;
