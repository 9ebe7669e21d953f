//! Unary calls by tonic's client on one thread: `tonic-load URL CONNECTIONS SECONDS` prints how many there were.

use std::time::{Duration, Instant};

use http::uri::PathAndQuery;
use tonic::Request;
use tonic::client::Grpc;
use tonic::transport::Endpoint;
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct GetRequest {
    #[prost(string, tag = "1")]
    id: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Order {
    #[prost(string, tag = "1")]
    id: String,
}

async fn calls(url: String, until: Instant) -> u64 {
    let channel = Endpoint::from_shared(url).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    let mut number = 0;
    while Instant::now() < until {
        client.ready().await.unwrap();
        let path = PathAndQuery::from_static("/shop.v1.Orders/Get");
        let codec = ProstCodec::<GetRequest, Order>::default();
        let answer = client.unary(Request::new(GetRequest { id: "o-1".to_owned() }), path, codec).await.unwrap();
        assert_eq!(answer.get_ref().id, "a");
        number += 1;
    }
    number
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, connections, seconds] = arguments.as_slice() else { panic!("URL CONNECTIONS SECONDS") };
    let until = Instant::now() + Duration::from_secs(seconds.parse().unwrap());
    let users: Vec<_> = (0..connections.parse::<usize>().unwrap())
        .map(|_| tokio::spawn(calls(url.clone(), until)))
        .collect();
    let mut all = 0;
    for user in users {
        all += user.await.unwrap();
    }
    println!("{all} calls");
}
