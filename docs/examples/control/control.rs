// Loses the answer to the second EndTxn, and shows the faults, with the standard library alone:
// rustc control.rs && ./control http://127.0.0.1:8080
use std::io::{Read, Write};
use std::net::TcpStream;

fn ask(host: &str, request: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(host)?;
    let length = body.len();
    write!(
        stream,
        "{request} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn main() -> std::io::Result<()> {
    let url = std::env::args().nth(1).expect("the address of the control port");
    let host = url.trim_start_matches("http://");
    let fault = r#"{"name": "lost", "do": "lose_answer", "on": {"request": "EndTxn", "nth": 2}}"#;
    assert!(ask(host, "POST /faults", fault)?.starts_with("HTTP/1.1 200"));
    let shown = ask(host, "GET /faults", "")?;
    println!("{}", shown.split("\r\n\r\n").nth(1).unwrap_or(""));
    Ok(())
}
