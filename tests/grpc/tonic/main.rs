//! The service of shop.proto by tonic, with server reflection: `tonic-orders shop.binpb`. Prints `listening PORT`, and ends when
//! its standard input ends. It is written without tonic's generator, which needs protoc.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use prost::Message;
use tokio::io::AsyncReadExt as _;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::server::{
    ClientStreamingService, Grpc, NamedService, ServerStreamingService, StreamingService, UnaryService,
};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};
use tonic_prost::ProstCodec;

#[derive(Clone, PartialEq, Message)]
struct GetRequest {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint32, tag = "2")]
    delay_ms: u32,
}

#[derive(Clone, PartialEq, Message)]
struct ListRequest {
    #[prost(uint32, tag = "1")]
    count: u32,
    #[prost(uint32, tag = "2")]
    gap_ms: u32,
}

#[derive(Clone, PartialEq, Message)]
struct Order {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint64, tag = "2")]
    number: u64,
    #[prost(int64, tag = "3")]
    balance: i64,
    #[prost(double, tag = "4")]
    price: f64,
    #[prost(int32, tag = "5")]
    state: i32,
    #[prost(map = "string, string", tag = "7")]
    labels: HashMap<String, String>,
    #[prost(string, optional, tag = "8")]
    card: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(uint64, tag = "1")]
    orders: u64,
    #[prost(double, tag = "2")]
    price: f64,
}

fn order(id: String) -> Order {
    let labels = HashMap::from([("a".to_owned(), "b".to_owned())]);
    let card = Some("4711".to_owned());
    Order { id, number: u64::MAX, balance: i64::MIN, price: 1.5, state: 2, labels, card }
}

type CallFuture<T> = Pin<Box<dyn Future<Output = Result<T, Status>> + Send>>;

struct GetMethod;
impl UnaryService<GetRequest> for GetMethod {
    type Response = Order;
    type Future = CallFuture<Response<Order>>;
    fn call(&mut self, request: Request<GetRequest>) -> Self::Future {
        Box::pin(async move {
            let GetRequest { id, delay_ms } = request.into_inner();
            tokio::time::sleep(Duration::from_millis(delay_ms.into())).await;
            if id == "gone" {
                return Err(Status::new(Code::NotFound, "no such order: äöü"));
            }
            let mut answer = Response::new(order(id));
            answer.metadata_mut().insert("x-last", "tail".parse().unwrap());
            Ok(answer)
        })
    }
}

struct ListMethod;
impl ServerStreamingService<ListRequest> for ListMethod {
    type Response = Order;
    type ResponseStream = ReceiverStream<Result<Order, Status>>;
    type Future = CallFuture<Response<Self::ResponseStream>>;
    fn call(&mut self, request: Request<ListRequest>) -> Self::Future {
        Box::pin(async move {
            let ListRequest { count, gap_ms } = request.into_inner();
            let (sender, answers) = tokio::sync::mpsc::channel(4);
            tokio::spawn(async move {
                for number in 0..count {
                    tokio::time::sleep(Duration::from_millis(gap_ms.into())).await;
                    if sender.send(Ok(order(number.to_string()))).await.is_err() {
                        break;
                    }
                }
            });
            Ok(Response::new(ReceiverStream::new(answers)))
        })
    }
}

struct AddMethod;
impl ClientStreamingService<Order> for AddMethod {
    type Response = Summary;
    type Future = CallFuture<Response<Summary>>;
    fn call(&mut self, request: Request<Streaming<Order>>) -> Self::Future {
        Box::pin(async move {
            let (mut orders, mut summary) = (request.into_inner(), Summary::default());
            while let Some(order) = orders.message().await? {
                summary.orders += 1;
                summary.price += order.price;
            }
            Ok(Response::new(summary))
        })
    }
}

struct ChatMethod;
impl StreamingService<Order> for ChatMethod {
    type Response = Order;
    type ResponseStream = Streaming<Order>;
    type Future = CallFuture<Response<Streaming<Order>>>;
    fn call(&mut self, request: Request<Streaming<Order>>) -> Self::Future {
        Box::pin(async move { Ok(Response::new(request.into_inner())) })
    }
}

#[derive(Clone)]
struct Orders;

impl NamedService for Orders {
    const NAME: &'static str = "shop.v1.Orders";
}

impl tower_service::Service<http::Request<Body>> for Orders {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        macro_rules! grpc {
            () => {
                Grpc::new(ProstCodec::default())
                    .accept_compressed(CompressionEncoding::Gzip)
                    .send_compressed(CompressionEncoding::Gzip)
            };
        }
        Box::pin(async move {
            Ok(match request.uri().path() {
                "/shop.v1.Orders/Get" => grpc!().unary(GetMethod, request).await,
                "/shop.v1.Orders/List" => grpc!().server_streaming(ListMethod, request).await,
                "/shop.v1.Orders/Add" => grpc!().client_streaming(AddMethod, request).await,
                "/shop.v1.Orders/Chat" => grpc!().streaming(ChatMethod, request).await,
                _ => Status::new(Code::Unimplemented, "no such method").into_http(),
            })
        })
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let set = std::fs::read(std::env::args().nth(1).expect("the file of the descriptor set")).unwrap();
    let reflection = tonic_reflection::server::Builder::configure();
    let reflection =
        reflection.register_file_descriptor_set(Message::decode(&*set).unwrap()).build_v1().unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("listening {}", listener.local_addr().unwrap().port());
    let ends = async {
        let _ = tokio::io::stdin().read_to_end(&mut Vec::new()).await;
    };
    let server = Server::builder().add_service(reflection).add_service(Orders);
    let serving = server.serve_with_incoming(TcpListenerStream::new(listener));
    tokio::select! {
        served = serving => served.unwrap(),
        () = ends => {}
    }
    std::process::exit(0);
}
