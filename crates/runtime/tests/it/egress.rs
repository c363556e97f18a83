//! What may be called and what may not: addresses, names, redirects, certificates, proxies.

use crate::stub::*;
use runtime::egress::{Range, private_ranges};
use serde_json::json;

#[tokio::test]
async fn nothing_that_is_not_public_is_called() {
    let stub = Stub::plain(|_, _| ok(json!({}))).await;
    let near = Near::new(|_| {}).await;
    let port = stub.port;
    let hosts = [
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "0177.0.0.1",
        "localhost",
        "[::1]",
        "[::]",
        "0.0.0.0",
        "[::ffff:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "169.254.169.254",
        "[::ffff:169.254.169.254]",
        "10.0.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "[fd00::1]",
        "[fe80::1]",
        "224.0.0.1",
    ];
    let calls = hosts.iter().enumerate().map(async |(at, host)| {
        let with = format!("{{ method: get, endpoint: 'http://{host}:{port}/' }}");
        (host, near.http(&format!("h{at}"), &with).await.unwrap_err())
    });
    for (host, fault) in futures_util::future::join_all(calls).await {
        assert!(fault.error_type.ends_with("/configuration"), "{host}: {fault:?}");
        let detail = fault.detail.unwrap();
        assert!(detail.contains("which this engine does not call"), "{host}: {detail}");
    }
    assert!(stub.asked().is_empty());
}

#[tokio::test]
async fn a_credential_in_the_url_or_a_dot_in_its_path_is_refused() {
    let near = Near::loopback().await;
    for (at, url) in
        ["${ \"http://a@127.0.0.1/\" }", "${ \"file:///etc/passwd\" }", "${ \"http://127.0.0.1/a/../b\" }"]
            .iter()
            .enumerate()
    {
        let fault =
            near.http(&format!("u{at}"), &format!("{{ method: get, endpoint: '{url}' }}")).await.unwrap_err();
        assert!(fault.error_type.ends_with("/configuration"), "{url}: {fault:?}");
    }
}

#[tokio::test]
async fn what_the_operator_resolves_or_allows_is_called() {
    let stub = Stub::plain(|asked, _| ok(json!({ "path": asked.path }))).await;
    let line = format!("api.example.com:80=127.0.0.1:{}", stub.port);
    let near = Near::new(|egress| egress.resolve = vec![line.parse().unwrap()]).await;
    let answer =
        near.http("named", "{ method: get, endpoint: 'http://api.example.com/{id}?x=1' }").await.unwrap();
    assert_eq!(answer, json!({ "path": "/7?x=1" }));
    assert_eq!(stub.last().header("host"), Some("api.example.com"));
    let direct = format!("{{ method: get, endpoint: 'http://127.0.0.1:{}/' }}", stub.port);
    assert!(near.http("direct", &direct).await.is_err(), "only under its name");
    let near = Near::new(|egress| egress.allow_private = private_ranges("127.0.0.0/8").unwrap()).await;
    assert!(near.http("allowed", &direct).await.is_ok());
}

#[tokio::test]
async fn every_hop_of_a_redirect_is_checked() {
    let inner = Stub::plain(|_, _| ok(json!("inside"))).await;
    let target = inner.port;
    let stub = Stub::plain(move |asked, _| match asked.path.as_str() {
        "/in" => says("302 Found", &format!("location: http://127.0.0.1:{target}/\r\n")),
        "/metadata" => says("307 Temporary Redirect", "location: http://169.254.169.254/latest\r\n"),
        "/round" => says("302 Found", "location: /round\r\n"),
        "/twice" => says("301 Moved Permanently", "location: /once\r\n"),
        "/once" => says("302 Found", "location: /end\r\n"),
        _ => ok(json!("end")),
    })
    .await;
    let line = format!("api.example.com:80=127.0.0.1:{}", stub.port);
    let near = Near::new(|egress| egress.resolve = vec![line.parse().unwrap()]).await;
    let ask =
        |path: &str| format!("{{ method: get, endpoint: 'http://api.example.com{path}', redirect: true }}");
    for path in ["/in", "/metadata"] {
        let fault = near.http(&path[1..], &ask(path)).await.unwrap_err();
        assert!(fault.error_type.ends_with("/configuration"), "{fault:?}");
    }
    assert!(inner.asked().is_empty());
    let fault = near.http("round", &ask("/round")).await.unwrap_err();
    assert!(fault.detail.unwrap().contains("more than 5 redirects"));
    assert_eq!(near.http("twice", &ask("/twice")).await.unwrap(), json!("end"));
}

#[tokio::test]
async fn certificates_are_checked_against_the_name_that_was_called() {
    let stub = Stub::secure(&["api.example.com"], |_, _| ok(json!("secure"))).await;
    let resolve = |host: &str| format!("{host}:443=127.0.0.1:{}", stub.port).parse().unwrap();
    let trusting = Near::new(|egress| {
        egress.resolve = vec![resolve("api.example.com"), resolve("other.example.com")];
        egress.roots = vec![stub.root.clone()];
    })
    .await;
    let ask = |host: &str| format!("{{ method: get, endpoint: 'https://{host}/' }}");
    assert_eq!(trusting.http("fine", &ask("api.example.com")).await.unwrap(), json!("secure"));
    let fault = trusting.http("name", &ask("other.example.com")).await.unwrap_err();
    assert!(
        fault.error_type.ends_with("/communication") && fault.detail.unwrap().contains("secure connection")
    );
    let strict = Near::new(|egress| egress.resolve = vec![resolve("api.example.com")]).await;
    let fault = strict.http("root", &ask("api.example.com")).await.unwrap_err();
    assert!(fault.detail.unwrap().contains("no secure connection to api.example.com"));
    assert_eq!(stub.asked().len(), 1);
}

#[tokio::test]
async fn a_proxy_gets_what_is_public_by_name_and_nothing_else() {
    let proxy = Stub::plain(|asked, _| match asked.method.as_str() {
        "CONNECT" => says("403 Forbidden", ""),
        _ => ok(json!({ "through": asked.path })),
    })
    .await;
    let url = format!("http://127.0.0.1:{}", proxy.port);
    let near = Near::new(|egress| egress.proxy = Some(url.parse().unwrap())).await;
    let ask = |url: &str| format!("{{ method: get, endpoint: '{url}' }}");
    let answer = near.http("plain", &ask("http://api.example.com/x")).await.unwrap();
    assert_eq!(answer, json!({ "through": "http://api.example.com/x" }));
    let fault = near.http("tls", &ask("https://api.example.com/x")).await.unwrap_err();
    assert!(fault.detail.unwrap().contains("the proxy refuses"));
    assert_eq!(
        (proxy.last().method.as_str(), proxy.last().path.as_str()),
        ("CONNECT", "api.example.com:443")
    );
    let count = proxy.asked().len();
    for (at, url) in ["http://10.0.0.1/", "http://localhost/", "http://db.internal/", "http://metadata/"]
        .iter()
        .enumerate()
    {
        let fault = near.http(&format!("p{at}"), &ask(url)).await.unwrap_err();
        assert!(fault.error_type.ends_with("/configuration"), "{url}: {fault:?}");
    }
    assert_eq!(proxy.asked().len(), count);
}

#[tokio::test]
async fn bodies_follow_their_content_type_and_packed_answers_are_unpacked() {
    let stub = Stub::plain(|asked, _| ok(json!({ "got": asked.body }))).await;
    let near = Near::loopback().await;
    let post =
        |extra: &str| format!("{{ method: post, endpoint: 'http://127.0.0.1:{}/', {extra} }}", stub.port);
    let form =
        "headers: { Content-Type: application/x-www-form-urlencoded }, body: { a: '${ .who }', b: [ x, y ] }";
    assert_eq!(near.http("form", &post(form)).await.unwrap(), json!({ "got": "a=ann+lee&b=x&b=y" }));
    let text = "headers: { Content-Type: text/plain }, body: '${ .who }'";
    assert_eq!(near.http("text", &post(text)).await.unwrap(), json!({ "got": "ann lee" }));
    assert_eq!(near.http("json", &post("body: '${ .who }'")).await.unwrap(), json!({ "got": "\"ann lee\"" }));
    let raw = near.http("raw", &post("body: 1, output: raw")).await.unwrap();
    assert_eq!(raw, json!("eyJnb3QiOiIxIn0="), "raw is base64");
    for header in ["Host: evil", "Content-Length: '3'", "'X-A': \"${ \\\"a\\\\r\\\\nB: c\\\" }\""] {
        let name = format!("bad{}", header.len());
        let fault = near.http(&name, &post(&format!("headers: {{ {header} }}"))).await.unwrap_err();
        assert!(fault.error_type.ends_with("/configuration"), "{header}: {fault:?}");
    }
    assert!(Range::LOOPBACK[0].contains("127.0.0.1".parse().unwrap()));
}
