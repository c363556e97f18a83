//! A scene as PNG, with the embedded font: no library of the system, no font of the machine.
//!
//! [`png`] is the way in; `raster` paints, `area` says how much of a pixel is covered, this file writes the format.

mod area;
mod raster;

use crate::{drawing::Drawing, overlay::Overlay, scene::scene, theme::Theme};
use flate2::{Compression, Crc, write::ZlibEncoder};
use std::io::Write;

/// The most pixels a picture may have.
pub const PIXELS_MAX: u64 = 24_000_000;
/// The most pixels along a side of one unit of the drawing.
pub const SCALE_MAX: u32 = 4;

/// Why there is no picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the picture would have {pixels} pixels; at most {PIXELS_MAX} are made")]
pub struct TooLarge {
    pub pixels: u64,
}

/// Writes a drawing as PNG, `scale` pixels for one of the drawing; fewer if there would be too many.
pub fn png(drawing: &Drawing, overlay: &Overlay, theme: Theme, scale: u32) -> Result<Vec<u8>, TooLarge> {
    let pixels = |scale: u32| {
        let side = |length: i32| u64::from(length.unsigned_abs()) * u64::from(scale);
        side(drawing.width) * side(drawing.height)
    };
    let scale = (1..=scale.clamp(1, SCALE_MAX)).rev().find(|scale| pixels(*scale) <= PIXELS_MAX);
    let Some(scale) = scale else { return Err(TooLarge { pixels: pixels(1) }) };
    let scene = scene(drawing, overlay);
    let canvas = raster::paint(&scene, theme == Theme::Dark, scale);
    Ok(encode(&canvas))
}

/// The file: signature, header, one compressed block of rows, end.
fn encode(canvas: &raster::Canvas) -> Vec<u8> {
    const SIGNATURE: [u8; 8] = [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n'];
    // Eight bits, red green blue, the only compression and filter, not interlaced.
    const FORMAT: [u8; 5] = [8, 2, 0, 0, 0];
    let mut file = SIGNATURE.to_vec();
    let sides = [canvas.width as u32, canvas.height as u32].map(u32::to_be_bytes).concat();
    chunk(&mut file, b"IHDR", &[sides.as_slice(), &FORMAT].concat());
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for row in canvas.pixels.chunks(canvas.width * 3) {
        packed.write_all(&[0]).and_then(|()| packed.write_all(row)).expect("memory takes everything");
    }
    chunk(&mut file, b"IDAT", &packed.finish().expect("memory takes everything"));
    chunk(&mut file, b"IEND", &[]);
    file
}

fn chunk(file: &mut Vec<u8>, name: &[u8; 4], data: &[u8]) {
    let mut sum = Crc::new();
    sum.update(name);
    sum.update(data);
    file.extend((data.len() as u32).to_be_bytes());
    file.extend(name);
    file.extend(data);
    file.extend(sum.sum().to_be_bytes());
}
