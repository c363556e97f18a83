//! What is written of a drawing: the same bytes every time, nothing that a page could execute, every format.

use super::corpus;
use render::{
    Direction, Mark, Measure, Options, Overlay, State, Theme, Told, elk, graph, json, layout, live, mermaid,
    png, svg,
};
use std::path::{Path, PathBuf};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

/// Compares with what is kept; `WINDLASS_GOLDEN=write` keeps it anew.
fn compare(name: &str, found: &str) {
    let path = golden(name);
    if std::env::var_os("WINDLASS_GOLDEN").is_some_and(|word| word == "write") {
        std::fs::write(&path, found).unwrap();
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(kept == found, "{name} is drawn differently; WINDLASS_GOLDEN=write keeps the new one");
}

#[test]
fn pictures_have_the_bytes_that_are_kept() {
    for (name, direction) in [
        ("order-approval", Direction::LeftRight),
        ("invoice-run", Direction::TopBottom),
        ("provisioning", Direction::LeftRight),
    ] {
        let graph = graph(&corpus::own(&format!("{name}.yaml")));
        let drawing = layout(&graph, &Options { direction, ..Options::default() });
        compare(&format!("{name}.svg"), &svg(&drawing, &Overlay::default(), Theme::Auto));
        let written = serde_json::to_string_pretty(&json(&drawing, &Overlay::default())).unwrap();
        compare(&format!("{name}.json"), &format!("{written}\n"));
        compare(&format!("{name}.mmd"), &mermaid(&graph, direction));
    }
}

#[test]
fn the_same_input_has_the_same_bytes() {
    let workflow = corpus::own("order-approval.yaml");
    let overlay = Overlay::heat(Measure::Latency, [("/do/1/price", 5), ("/do/5/charge", 100)]);
    let draw = || {
        let drawing = layout(&graph(&workflow), &Options::default());
        let elk = elk(&drawing.graph, Direction::LeftRight).to_string();
        let picture = png(&drawing, &overlay, Theme::Dark, 1).unwrap();
        (svg(&drawing, &overlay, Theme::Dark), json(&drawing, &overlay).to_string(), elk, picture)
    };
    assert_eq!(draw(), draw());
}

#[test]
fn texts_of_a_definition_cannot_become_markup() {
    let text = "document: { dsl: '1.0.3', namespace: a, name: b, version: '1.0.0', title: '<script>alert(1)</script>' }\n\
                do: [ { '<img src=x onerror=\"alert(1)\">&': { set: { '\"|]--><b>': 1 } } } ]";
    let drawing = layout(&graph(&corpus::compile(text).unwrap()), &Options::default());
    for theme in [Theme::Light, Theme::Dark, Theme::Auto] {
        let picture = svg(&drawing, &Overlay::default(), theme);
        assert!(
            !picture.contains("<script") && !picture.contains("<img") && !picture.contains("<b>"),
            "{picture}"
        );
        assert!(picture.contains("&lt;script&gt;alert(1)"), "{picture}");
        assert_eq!(picture.contains("<style>"), theme == Theme::Auto);
    }
    let chart = mermaid(&drawing.graph, Direction::LeftRight);
    assert!(!chart.contains("<img") && !chart.contains("<b>") && !chart.contains("|]"), "{chart}");
}

#[test]
fn every_node_has_a_title_and_a_description() {
    let drawing = layout(&graph(&corpus::own("order-approval.yaml")), &Options::default());
    let picture = svg(&drawing, &Overlay::default(), Theme::Auto);
    let parts = drawing.nodes.len() + drawing.groups.len() + drawing.edges.len();
    assert_eq!(picture.matches("<title>").count(), parts + 1);
    assert!(picture.contains("role=\"img\"") && picture.contains("<title>Order with approval</title>"));
    assert!(
        picture
            .contains("<title>askManager</title><desc>human task, task: order-managers, at most 1 d</desc>")
    );
}

#[test]
fn an_instance_is_seen_on_its_graph() {
    let told = |kind, step, at_ms| Told { kind, step, at_ms };
    let mut overlay = live([
        told("step.skipped", "/do/0/checkLines", 0),
        told("step.started", "/do/1/price", 0),
        told("step.completed", "/do/1/price", 250),
        told("step.started", "/do/3/approve", 300),
        told("step.started", "/do/3/approve/try/0/askManager", 300),
        told("step.retried", "/do/3/approve", 900),
    ]);
    overlay.waiting("/do/3/approve/try/0/askManager", Some("waits for order-managers".to_owned()));
    let price = Mark { attempts: 1, duration_ms: Some(250), ..Mark::of(State::Completed) };
    assert_eq!(overlay.marks["/do/1/price"], price);
    assert_eq!(overlay.marks["/do/3/approve"].attempts, 2);
    let drawing = layout(&graph(&corpus::own("order-approval.yaml")), &Options::default());
    let picture = svg(&drawing, &overlay, Theme::Light);
    assert!(picture.contains("waiting, 1 attempts") || picture.contains("waiting, waits for order-managers"));
    assert!(picture.contains("completed, 250 ms"), "{picture}");
    let page = json(&drawing, &overlay);
    let nodes = page["nodes"].as_array().unwrap();
    let ask = nodes.iter().find(|node| node["name"] == "askManager").unwrap();
    assert_eq!(ask["mark"]["state"], "waiting");
    assert_eq!(ask["path"], serde_json::json!(["/do/3/approve"]));
}

#[test]
fn a_png_is_a_png_and_knows_its_size() {
    let drawing = layout(&graph(&corpus::own("provisioning.yaml")), &Options::default());
    let picture = png(&drawing, &Overlay::default(), Theme::Light, 2).unwrap();
    assert_eq!(&picture[..8], b"\x89PNG\r\n\x1a\n");
    let side = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
    assert_eq!((side(16), side(20)), (drawing.width as u32 * 2, drawing.height as u32 * 2));
}

#[test]
fn a_picture_that_is_too_large_is_refused() {
    let mut drawing = layout(&graph(&corpus::own("provisioning.yaml")), &Options::default());
    (drawing.width, drawing.height) = (100_000, 100_000);
    let refused = png(&drawing, &Overlay::default(), Theme::Light, 1).unwrap_err();
    assert_eq!(refused.pixels, 10_000_000_000);
}
